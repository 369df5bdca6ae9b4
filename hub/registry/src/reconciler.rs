//! The loops by which the API server keeps objects of its own right: each looks at everything, and again when what it reads changed.
//!
//! In: a [`Reconciler`] with the collections that it reads. Out: looks, one after the other, until told to stop. What is promised: a change
//! that comes during a look is looked at after it; a look that failed is taken again, sooner where something changes.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;
use karmada_definitions::resource::StorageId;
use karmada_definitions::status::Status;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::cache::{Cache, any_changed};
use crate::registry::Registry;

/// How soon a look that failed is taken again; it doubles.
const RETRY: Duration = Duration::from_secs(1);

/// And at most.
const RETRY_LIMIT: Duration = Duration::from_secs(30);

/// When to look again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// When something changes.
    OnChange,
    /// When something changes in the first of the collections, or other kinds are served; the other collections do not matter now.
    OnChangeOfFirst,
    /// When something changes, and after this long where nothing does.
    After(Duration),
}

/// One loop.
#[async_trait]
pub trait Reconciler: Send {
    /// What it keeps, in the log's words.
    fn keeps(&self) -> &'static str;

    /// The collections that it reads, as `GROUP/PLURAL`.
    fn reads(&self) -> &'static [&'static str];

    /// Whether it also reads which kinds are served.
    fn reads_served(&self) -> bool {
        false
    }

    /// Looks at everything and writes what differs. Must bear being called at any time, and again.
    ///
    /// # Errors
    /// Something could not be written; what else there was to do is done.
    async fn look(&mut self) -> Result<Next, Status>;
}

/// Runs a loop until `stop`.
pub fn run(
    registry: Arc<Registry>,
    reconciler: Box<dyn Reconciler>,
    stop: CancellationToken,
) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let served = reconciler.reads_served().then(|| registry.catalogue_changes());
        stop.run_until_cancelled(looks(registry.cache(), served, reconciler)).await;
    })
}

async fn looks(cache: &Cache, mut served: Option<watch::Receiver<u64>>, mut reconciler: Box<dyn Reconciler>) {
    let storages = reconciler.reads().iter().map(|storage| StorageId(Arc::from(*storage)));
    let resource_caches: Vec<_> = storages.map(|storage| cache.of_resource(&storage)).collect();
    let mut retry = RETRY;
    loop {
        // Before the look: what changes from here on is looked at after it.
        served.as_mut().map(|served| *served.borrow_and_update());
        let seen: Vec<_> = resource_caches
            .iter()
            .map(|resource_cache| (resource_cache.clone(), resource_cache.revision()))
            .collect();
        let next = reconciler.look().await.unwrap_or_else(|status| {
            tracing::warn!(why = status.message, again = ?retry, "{} could not be kept right", reconciler.keeps());
            Next::After(retry)
        });
        let (watched, after) = match next {
            Next::OnChange => (&seen[..], None),
            Next::OnChangeOfFirst => (&seen[..seen.len().min(1)], None),
            Next::After(after) => (&seen[..], Some(after)),
        };
        retry = if after == Some(retry) { (retry * 2).min(RETRY_LIMIT) } else { RETRY };
        tokio::select! {
            () = any_changed(watched) => {}
            () = changed(&mut served) => {}
            () = pause(after) => {}
        }
    }
}

async fn changed(served: &mut Option<watch::Receiver<u64>>) {
    match served {
        // The sender lives as long as the registry.
        Some(served) => drop(served.changed().await),
        None => std::future::pending().await,
    }
}

async fn pause(after: Option<Duration>) {
    match after {
        Some(after) => tokio::time::sleep(after).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use karmada_store::{Expect, MemoryStore, Store};
    use parking_lot::Mutex;
    use tokio::time::Instant;

    use super::*;

    const READS: &[&str] = &["g/ones", "g/twos"];

    /// Answers what it is told to, and notes when it looked.
    struct Noting {
        answers: Vec<Result<Next, Status>>,
        looks: Arc<Mutex<Vec<u64>>>,
        start: Instant,
    }

    #[async_trait]
    impl Reconciler for Noting {
        fn keeps(&self) -> &'static str {
            "what a test keeps"
        }

        fn reads(&self) -> &'static [&'static str] {
            READS
        }

        async fn look(&mut self) -> Result<Next, Status> {
            self.looks.lock().push(self.start.elapsed().as_secs());
            if self.answers.is_empty() { Ok(Next::OnChange) } else { self.answers.remove(0) }
        }
    }

    /// When it looks (in whole seconds) where it answers so and objects of these kinds are written at these seconds.
    async fn looks_at(answers: Vec<Result<Next, Status>>, writes: &[(u64, &str)]) -> Vec<u64> {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let cache = Cache::load(&*store).await.unwrap();
        let stop = CancellationToken::new();
        tokio::spawn(cache.clone().run(store.clone(), stop.clone()));
        let (found, start) = (Arc::<Mutex<Vec<u64>>>::default(), Instant::now());
        let noting = Noting { answers, looks: found.clone(), start };
        let running = tokio::spawn(async move { looks(&cache, None, Box::new(noting)).await });
        for (at, plural) in writes {
            tokio::time::sleep_until(start + Duration::from_secs(*at)).await;
            let object = format!(r#"{{"apiVersion":"g/v1","kind":"One","metadata":{{"name":"n{at}"}}}}"#);
            let key = format!("/registry/g/{plural}/n{at}");
            store.put(&key, Bytes::from(object), Expect::Absent).await.unwrap();
        }
        tokio::time::sleep_until(start + Duration::from_secs(100)).await;
        running.abort();
        stop.cancel();
        found.lock().clone()
    }

    #[tokio::test(start_paused = true)]
    async fn it_looks_when_something_changes() {
        assert_eq!(looks_at(vec![], &[(5, "ones"), (7, "twos"), (8, "threes")]).await, [0, 5, 7]);
        let first = vec![Ok(Next::OnChangeOfFirst)];
        assert_eq!(looks_at(first, &[(5, "twos"), (7, "ones"), (8, "twos")]).await, [0, 7, 8]);
        let after = vec![Ok(Next::After(Duration::from_secs(20)))];
        assert_eq!(looks_at(after, &[(30, "twos")]).await, [0, 20, 30]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_failed_is_tried_again_and_sooner_where_something_changes() {
        let failed = || Err(Status::unavailable("the disk is full"));
        assert_eq!(looks_at(vec![failed(), failed(), failed()], &[]).await, [0, 1, 3, 7]);
        let many = (0..9).map(|_| failed()).collect();
        assert_eq!(looks_at(many, &[(20, "ones")]).await, [0, 1, 3, 7, 15, 20, 50, 80]);
    }
}
