//! Runs a controller: what it watches fills its queue, its workers empty it.
//!
//! In: a [`Controller`], its [`Source`]s, a token that says stop. Out: calls of `reconcile`, one at a time per key. A failure
//! comes again after its backoff; a panic counts as a failure of that key and ends nothing else.

use std::any::Any;
use std::fmt::Debug;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::informer::{self, Notice};
use crate::port::{Api, ApiError, Change, Key};
use crate::queue::Queue;

/// The wall clock: comes in from outside, so that tests own it.
pub type Clock = Arc<dyn Fn() -> jiff::Timestamp + Send + Sync>;

/// What a reconcile asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing until something changes.
    Done,
    /// Once more after this long, changes or not.
    RequeueAfter(Duration),
}

/// Why a reconcile did not finish; it comes again after a backoff.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API refused, or what was read is no longer so.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// Anything else, in words.
    #[error("{0}")]
    Other(String),
}

/// One controller. `reconcile` takes no hint: it reads what is, decides what should be, and writes the difference.
#[async_trait::async_trait]
pub trait Controller: Send + Sync + 'static {
    /// What one reconcile is about: mostly a [`Key`].
    type Key: Ord + Clone + Debug + Send + Sync + 'static;

    /// The controller's name in logs and metrics.
    fn name(&self) -> &'static str;

    /// Makes the world agree for one key. Must bear being called at any time, and again.
    async fn reconcile(&self, key: &Self::Key) -> Result<Action, Error>;
}

/// A resource whose changes wake a controller.
pub struct Source<K> {
    api_version: String,
    kind: String,
    namespace: String,
    notice: Notice,
    settle: Duration,
    map: Map<K>,
}

/// The keys that a change wakes.
type Map<K> = Box<dyn Fn(&Change) -> Vec<K> + Send + Sync>;

impl<K> Source<K> {
    /// Every change of the kind, in all namespaces, wakes the keys that `map` names.
    pub fn new(
        api_version: &str,
        kind: &str,
        map: impl Fn(&Change) -> Vec<K> + Send + Sync + 'static,
    ) -> Self {
        Source {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: String::new(),
            notice: Notice::All,
            settle: Duration::ZERO,
            map: Box::new(map),
        }
    }

    /// The same changes, waking keys of another shape.
    pub fn mapped<L>(self, into: impl Fn(K) -> L + Send + Sync + 'static) -> Source<L>
    where
        K: 'static,
    {
        let map = self.map;
        Source {
            api_version: self.api_version,
            kind: self.kind,
            namespace: self.namespace,
            notice: self.notice,
            settle: self.settle,
            map: Box::new(move |change| map(change).into_iter().map(&into).collect()),
        }
    }

    /// Not a change of the status alone: for those who never read it.
    pub fn but_status(mut self) -> Self {
        self.notice = Notice::ButStatus;
        self
    }

    /// A key waits this long, so that changes close together cost one reconcile.
    pub fn settling(mut self, settle: Duration) -> Self {
        self.settle = settle;
        self
    }

    /// Only changes in this namespace.
    pub fn within(mut self, namespace: &str) -> Self {
        self.namespace = namespace.to_owned();
        self
    }
}

impl Source<Key> {
    /// Every change of the kind wakes the object's own key.
    pub fn own(api_version: &str, kind: &str) -> Self {
        Source::new(api_version, kind, |change| vec![key_of(change)])
    }
}

/// Namespace and name of what changed.
pub fn key_of(change: &Change) -> Key {
    match change {
        Change::Applied(object) | Change::Deleted(object) => object.key.clone(),
    }
}

/// How long to wait before looking again for a kind that is not served.
const UNSERVED: Duration = Duration::from_secs(30);

/// Runs a controller with its sources until told to stop: `queue` may be shared with whoever wakes it otherwise.
pub async fn run<C: Controller>(
    api: Arc<dyn Api>,
    controller: Arc<C>,
    queue: Arc<Queue<C::Key>>,
    sources: Vec<Source<C::Key>>,
    workers: usize,
    stop: CancellationToken,
) {
    if let Some(queues) = api.workqueues() {
        queues.enter(controller.name(), queue.clone());
    }
    let mut tasks = JoinSet::new();
    for source in sources {
        tasks.spawn(feed(api.clone(), source, queue.clone(), stop.clone()));
    }
    for _ in 0..workers.max(1) {
        tasks.spawn(work(controller.clone(), queue.clone()));
    }
    stop.cancelled().await;
    queue.close();
    while tasks.join_next().await.is_some() {}
}

/// Fills the queue from one source until told to stop.
async fn feed<K: Ord + Clone + Send + 'static>(
    api: Arc<dyn Api>,
    source: Source<K>,
    queue: Arc<Queue<K>>,
    stop: CancellationToken,
) {
    while !stop.is_cancelled() {
        // Polled once before the look, so that no change in between is missed.
        let mut changed = api.resources_changed();
        let armed = changed.as_mut().now_or_never();
        if let Some(resource) = api.resource_of(&source.api_version, &source.kind) {
            drop(changed);
            informer::run(&*api, &resource, &source.namespace, source.notice, &stop, |change| {
                (source.map)(&change).into_iter().for_each(|key| queue.add_after(key, source.settle));
            })
            .await;
            continue;
        }
        if armed.is_some() {
            continue;
        }
        tokio::select! {
            () = stop.cancelled() => {}
            () = changed => {}
            () = tokio::time::sleep(UNSERVED) => {}
        }
    }
}

/// One worker: takes keys until the queue is closed.
async fn work<C: Controller>(controller: Arc<C>, queue: Arc<Queue<C::Key>>) {
    while let Some(key) = queue.next().await {
        tracing::trace!(controller = controller.name(), ?key, "reconciling");
        let outcome = AssertUnwindSafe(controller.reconcile(&key)).catch_unwind().await;
        tracing::trace!(controller = controller.name(), ?key, "reconciled");
        settle(&*controller, &queue, &key, outcome);
        queue.done(&key);
    }
}

fn settle<C: Controller>(
    controller: &C,
    queue: &Queue<C::Key>,
    key: &C::Key,
    outcome: Result<Result<Action, Error>, Box<dyn Any + Send>>,
) {
    let name = controller.name();
    match outcome {
        Ok(Ok(action)) => {
            queue.forget(key);
            if let Action::RequeueAfter(delay) = action {
                queue.add_after(key.clone(), delay);
            }
        }
        Ok(Err(Error::Api(error @ (ApiError::Conflict(_) | ApiError::AlreadyExists(_))))) => {
            let again = queue.look_again(key.clone());
            tracing::debug!(controller = name, ?key, %error, ?again, "the object changed meanwhile");
        }
        Ok(Err(error)) => {
            let again = queue.retry(key.clone());
            tracing::warn!(controller = name, ?key, %error, ?again, "a reconcile failed");
        }
        Err(panic) => {
            let again = queue.retry(key.clone());
            let why = words(&*panic);
            tracing::error!(controller = name, ?key, why, ?again, "a reconcile panicked");
        }
    }
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;

    /// Fails once, panics once, then is done; remembers its calls.
    #[derive(Default)]
    struct Stumbling(Mutex<Vec<u32>>);

    #[async_trait::async_trait]
    impl Controller for Stumbling {
        type Key = u32;
        fn name(&self) -> &'static str {
            "stumbling"
        }
        async fn reconcile(&self, key: &u32) -> Result<Action, Error> {
            let calls = {
                let mut calls = self.0.lock();
                calls.push(*key);
                calls.iter().filter(|k| *k == key).count()
            };
            match calls {
                1 => Err(Error::Other("not yet".into())),
                2 => panic!("a bug"),
                3 => Ok(Action::RequeueAfter(Duration::from_secs(60))),
                _ => Ok(Action::Done),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failing_or_panicking_key_comes_again_and_others_go_on() {
        let queue = Arc::new(Queue::default());
        let controller = Arc::new(Stumbling::default());
        let worker = tokio::spawn(work(controller.clone(), queue.clone()));
        queue.add(1);
        queue.add(2);
        tokio::time::sleep(Duration::from_secs(61)).await;
        assert!(queue.is_empty() && queue.is_idle());
        let mut calls = controller.0.lock().clone();
        calls.sort_unstable();
        assert_eq!(calls, [1, 1, 1, 1, 2, 2, 2, 2]);
        queue.close();
        worker.await.unwrap();
    }
}
