//! What watchers of one version are shown of an event: converted once, however many watch.
//!
//! In: an object as an event has it. Out: the same in the version that is watched. Who asks while the webhook is asked already gets the
//! same answer, be it a failure; what was converted last is kept, up to a size.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared, WeakShared};
use karmada_definitions::crd::Custom;
use karmada_definitions::status::Status;
use karmada_schema::object::Stored;
use parking_lot::Mutex;

use super::{stored_version, view};
use crate::cache::Cache;

/// Bytes of converted objects that are kept for those who come a little later.
const KEPT: usize = 8 << 20;

/// One state of one object, in one version by one state of its definition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    uid: Box<str>,
    revision: u64,
    version: Arc<str>,
    definition: u64,
}

type Outcome = Result<Arc<Stored>, Status>;
type UnderWay = BoxFuture<'static, Outcome>;

/// Conversions for watchers: those under way, and the last.
#[derive(Default)]
pub(crate) struct Watched(Mutex<Conversions>);

#[derive(Default)]
struct Conversions {
    /// Driven by those who wait for them: where all went away, it is gone.
    under_way: HashMap<Key, WeakShared<UnderWay>>,
    done: HashMap<Key, Arc<Stored>>,
    /// The keys of those, the oldest first.
    order: VecDeque<Key>,
    bytes: usize,
}

impl Conversions {
    fn keep(&mut self, key: Key, object: &Arc<Stored>) {
        self.bytes += object.json_len();
        self.order.push_back(key.clone());
        if let Some(before) = self.done.insert(key, object.clone()) {
            self.bytes -= before.json_len();
        }
        while self.bytes > KEPT {
            let Some(oldest) = self.order.pop_front() else { break };
            self.bytes -= self.done.remove(&oldest).map_or(0, |object| object.json_len());
        }
    }
}

impl Watched {
    /// An event's object as it is shown in the version that is watched.
    ///
    /// # Errors
    /// The webhook is not there, or fails.
    pub(crate) async fn view(
        self: &Arc<Self>,
        custom: &Arc<Custom>,
        cache: &Arc<Cache>,
        object: Arc<Stored>,
    ) -> Outcome {
        if !custom.asks_webhook() || stored_version(&object) == custom.resource.version {
            return Ok(object);
        }
        let (custom, cache) = (custom.clone(), cache.clone());
        let key = Key {
            uid: object.uid().into(),
            revision: object.revision,
            version: custom.resource.version.as_str().into(),
            definition: custom.crd.stored.revision,
        };
        let convert = async move {
            let shown = view(&custom, &cache, vec![object]).await?;
            shown.into_iter().next().ok_or_else(|| Status::internal("nothing was converted"))
        };
        self.once(key, convert.boxed()).await
    }

    /// What the conversion of a key came to, or comes to: this one, where there is no other.
    async fn once(self: &Arc<Self>, key: Key, convert: UnderWay) -> Outcome {
        let outcome = {
            let mut all = self.0.lock();
            if let Some(done) = all.done.get(&key) {
                return Ok(done.clone());
            }
            match all.under_way.get(&key).and_then(WeakShared::upgrade) {
                Some(under_way) => under_way,
                None => self.begin(&mut all, key, convert),
            }
        };
        outcome.await
    }

    fn begin(self: &Arc<Self>, all: &mut Conversions, key: Key, convert: UnderWay) -> Shared<UnderWay> {
        let (watched, of) = (self.clone(), key.clone());
        let outcome = async move {
            let outcome = convert.await;
            let mut all = watched.0.lock();
            all.under_way.remove(&of);
            if let Ok(object) = &outcome {
                all.keep(of, object);
            }
            outcome
        };
        let outcome = outcome.boxed().shared();
        all.under_way.retain(|_, conversion| conversion.upgrade().is_some());
        if let Some(weak) = outcome.downgrade() {
            all.under_way.insert(key, weak);
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use bytes::Bytes;
    use serde_json::json;

    use super::*;

    fn key(revision: u64) -> Key {
        Key { uid: "u".into(), revision, version: "v2".into(), definition: 1 }
    }

    fn object(revision: u64, text: &str) -> Arc<Stored> {
        let object =
            json!({"kind": "K", "apiVersion": "a/v2", "metadata": {"name": "n", "uid": "u"}, "text": text});
        Arc::new(Stored::read(&Bytes::from(object.to_string()), revision).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn all_watchers_of_an_event_share_one_conversion_and_its_failure() {
        let (watched, calls) = (Arc::<Watched>::default(), Arc::<AtomicUsize>::default());
        let ask = |revision: u64, fails: bool| {
            let calls = calls.clone();
            let convert = async move {
                calls.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(std::time::Duration::from_secs(1)).await;
                if fails { Err(Status::internal("no")) } else { Ok(object(revision, "")) }
            };
            watched.once(key(revision), convert.boxed())
        };
        let all = futures::future::join_all((0..700).map(|_| ask(1, false))).await;
        assert!(all.iter().all(|outcome| outcome.as_ref().is_ok_and(|object| object.revision == 1)));
        assert_eq!(ask(1, false).await.unwrap().revision, 1);
        assert_eq!(calls.load(Ordering::Relaxed), 1);
        let failed = futures::future::join_all((0..700).map(|_| ask(2, true))).await;
        assert!(failed.iter().all(Result::is_err));
        assert_eq!(calls.load(Ordering::Relaxed), 2);
        // A failure is not remembered, and a conversion that nobody waits for any more is forgotten.
        let given_up = tokio::time::timeout(std::time::Duration::from_millis(1), ask(2, false)).await;
        assert!(given_up.is_err());
        assert!(ask(2, false).await.is_ok());
        assert_eq!((calls.load(Ordering::Relaxed), watched.0.lock().under_way.len()), (4, 0));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut all = Conversions::default();
        let text = "x".repeat(1 << 20);
        for revision in 0..20 {
            all.keep(key(revision), &object(revision, &text));
        }
        assert!(all.bytes <= KEPT && all.done.len() == all.order.len() && all.done.len() < 8);
        assert!(all.done.contains_key(&key(19)) && !all.done.contains_key(&key(1)));
    }
}
