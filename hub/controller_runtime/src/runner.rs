//! Runs a controller: what it watches fills its queue, its workers empty it.
//!
//! In: a [`Controller`], its [`Source`]s, a token that says stop. Out: calls of `reconcile`, one at a time per key. A failure
//! comes again after its backoff; a panic counts as a failure of that key and ends nothing else.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::informer::{Informers, Notice};
use crate::port::{ApiError, Change, Key};
use crate::queue::{Outcome, WorkQueue};

/// The wall clock: comes in from outside, so that tests own it.
pub type Clock = Arc<dyn Fn() -> jiff::Timestamp + Send + Sync>;

/// What a reconcile asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing until something changes.
    Done,
    /// Once more after this long, changes or not.
    RequeueAfter(Duration),
    /// Once more when the key is woken because something may have made room, or after the queue's time for that.
    AwaitRoom,
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
    /// Anything else, where it is known from when on a further try is worth while.
    #[error("{words}")]
    Later {
        /// In words.
        words: String,
        /// After how long.
        again: Duration,
    },
}

impl Error {
    /// See [`ApiError::is_of_a_race`].
    pub fn is_of_a_race(&self) -> bool {
        matches!(self, Error::Api(error) if error.is_of_a_race())
    }
}

/// One controller. `reconcile` takes no hint: it reads what is, decides what should be, and writes the difference.
#[async_trait::async_trait]
pub trait Controller: Send + Sync + 'static {
    /// What one reconcile is about: mostly a [`Key`].
    type Key: Ord + Clone + Debug + Send + Sync + 'static;

    /// The controller's name in logs and metrics.
    fn name(&self) -> &'static str;

    /// Makes the world agree for one key. Must bear being called at any time, and again.
    ///
    /// # Errors
    /// Something could not be read or written: the key comes again after a backoff.
    async fn reconcile(&self, key: &Self::Key) -> Result<Action, Error>;
}

/// What wakes a controller, and for which keys.
pub struct Source<K> {
    origin: Origin<K>,
    debounce: Duration,
    /// Whether `map` reads the keys in the object. Of a deletion that no watch saw only the object's own key is told: the keys that it woke
    /// last are remembered for that.
    reads: bool,
}

enum Origin<K> {
    /// Changes of a kind, as a watch brings them.
    Kind { api_version: String, kind: String, namespace: String, notice: Notice, map: Map<K> },
    /// What somebody who keeps an index of a kind tells of it.
    Told(Box<dyn FnOnce(Wake<K>) + Send>),
}

/// The keys that a change wakes.
type Map<K> = Box<dyn Fn(&Change) -> Vec<K> + Send + Sync>;

/// Takes the keys that are woken.
pub type Wake<K> = Box<dyn Fn(Vec<K>) + Send + Sync>;

impl<K> Source<K> {
    /// Every change of the kind, in all namespaces, wakes the keys that `map` names, and those that it named at the change before: whom an
    /// object concerned hears that it concerns another now, or is gone, also where nobody saw it go.
    pub fn new(
        api_version: &str,
        kind: &str,
        map: impl Fn(&Change) -> Vec<K> + Send + Sync + 'static,
    ) -> Self {
        let origin = Origin::Kind {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: String::new(),
            notice: Notice::All,
            map: Box::new(map),
        };
        Source { origin, debounce: Duration::ZERO, reads: true }
    }

    /// Whatever keys `tell` passes to the function that it is called with.
    pub fn told(tell: impl FnOnce(Wake<K>) + Send + 'static) -> Self {
        Source { origin: Origin::Told(Box::new(tell)), debounce: Duration::ZERO, reads: false }
    }

    /// The same changes, waking keys of another shape.
    pub fn mapped<L>(self, into: impl Fn(K) -> L + Send + Sync + 'static) -> Source<L>
    where
        K: 'static,
        L: 'static,
    {
        let origin = match self.origin {
            Origin::Kind { api_version, kind, namespace, notice, map } => {
                let map = Box::new(move |change: &Change| map(change).into_iter().map(&into).collect());
                Origin::Kind { api_version, kind, namespace, notice, map }
            }
            Origin::Told(tell) => Origin::Told(Box::new(move |wake: Wake<L>| {
                tell(Box::new(move |keys| wake(keys.into_iter().map(&into).collect())));
            })),
        };
        Source { origin, debounce: self.debounce, reads: self.reads }
    }

    /// Not a change of the status alone: for those who never read it.
    pub fn but_status(self) -> Self {
        self.noticing(Notice::ButStatus)
    }

    fn noticing(mut self, wanted: Notice) -> Self {
        if let Origin::Kind { notice, .. } = &mut self.origin {
            *notice = wanted;
        }
        self
    }

    /// A key waits this long, so that changes close together cost one reconcile.
    pub fn debounced(mut self, debounce: Duration) -> Self {
        self.debounce = debounce;
        self
    }

    /// Only changes in this namespace.
    pub fn within(mut self, wanted: &str) -> Self {
        if let Origin::Kind { namespace, .. } = &mut self.origin {
            wanted.clone_into(namespace);
        }
        self
    }
}

impl Source<Key> {
    /// Every change of the kind wakes the object's own key.
    pub fn own(api_version: &str, kind: &str) -> Self {
        Source { reads: false, ..Source::new(api_version, kind, |change| vec![key_of(change)]) }
    }
}

impl<K: 'static> Source<K> {
    /// The same, and `note` hears of each change that wakes. What somebody tells who keeps an index is no change here.
    pub fn noted(mut self, note: impl Fn(&Change) + Send + Sync + 'static) -> Self {
        if let Origin::Kind { map, .. } = &mut self.origin {
            let inner = std::mem::replace(map, Box::new(|_| Vec::new()));
            *map = Box::new(move |change| {
                note(change);
                inner(change)
            });
        }
        self
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

/// Runs a controller with its sources until told to stop: `queue` may be shared with whoever wakes it otherwise. What runs is compiled once
/// for each type of keys, and not for each controller.
pub fn run<C: Controller, Q: WorkQueue<C::Key>>(
    informers: impl Into<Informers>,
    controller: Arc<C>,
    queue: Arc<Q>,
    sources: Vec<Source<C::Key>>,
    workers: usize,
    stop: CancellationToken,
) -> BoxFuture<'static, ()> {
    Box::pin(run_any(informers.into(), (controller, queue), sources, workers, stop))
}

type AnyController<K> = Arc<dyn Controller<Key = K>>;
type AnyQueue<K> = Arc<dyn WorkQueue<K>>;

async fn run_any<K: Ord + Clone + Debug + Send + Sync + 'static>(
    informers: Informers,
    (controller, queue): (AnyController<K>, AnyQueue<K>),
    sources: Vec<Source<K>>,
    workers: usize,
    stop: CancellationToken,
) {
    if let Some(queues) = informers.api().workqueues() {
        queues.enter(controller.name(), queue.clone());
    }
    let mut tasks = JoinSet::new();
    for Source { origin, debounce: settle, reads } in sources {
        let queue = queue.clone();
        let wake = move |keys: Vec<K>| {
            keys.into_iter().for_each(|key| queue.add_after(key, settle));
        };
        match origin {
            Origin::Told(tell) => tell(Box::new(wake)),
            Origin::Kind { api_version, kind, namespace, notice, map } => {
                let mut woken = Woken(BTreeMap::new());
                let hear = move |change: &Change| {
                    if namespace.is_empty() || *namespace == *key_of(change).namespace {
                        let keys = map(change);
                        wake(if reads { woken.by(change, keys) } else { keys });
                    }
                };
                let hear = Box::new(hear);
                let fed = feed(informers.clone(), (api_version, kind), notice, hear, stop.clone());
                tasks.spawn(fed.boxed());
            }
        }
    }
    for _ in 0..workers.max(1) {
        tasks.spawn(work(controller.clone(), queue.clone()).boxed());
    }
    stop.cancelled().await;
    queue.close();
    while tasks.join_next().await.is_some() {}
}

/// The keys that the objects of a source woke last, where those are read in the objects.
struct Woken<K>(BTreeMap<Key, Vec<K>>);

impl<K: PartialEq + Clone> Woken<K> {
    /// Everybody whom a change concerns, of which the source's map says `now`.
    fn by(&mut self, change: &Change, now: Vec<K>) -> Vec<K> {
        let at = key_of(change);
        let before = match change {
            Change::Applied(_) if !now.is_empty() => self.0.insert(at, now.clone()),
            Change::Applied(_) | Change::Deleted(_) => self.0.remove(&at),
        };
        let mut all = now;
        for key in before.unwrap_or_default() {
            if !all.contains(&key) {
                all.push(key);
            }
        }
        all
    }
}

/// Hears of a kind from when it is served until told to stop.
async fn feed(
    informers: Informers,
    (api_version, kind): (String, String),
    notice: Notice,
    hear: Box<dyn FnMut(&Change) + Send>,
    stop: CancellationToken,
) {
    while !stop.is_cancelled() {
        // Polled once before the look, so that no change in between is missed.
        let mut changed = informers.api().resources_changed();
        let armed = changed.as_mut().now_or_never();
        if let Some(resource) = informers.api().resource_of(&api_version, &kind) {
            let registration = informers.add_handler(&resource, notice, hear);
            stop.cancelled().await;
            return drop(registration);
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
async fn work<K: Ord + Clone + Debug + Send + Sync + 'static>(
    controller: AnyController<K>,
    queue: AnyQueue<K>,
) {
    while let Some(key) = queue.next().await {
        tracing::trace!(controller = controller.name(), ?key, "reconciling");
        let outcome = AssertUnwindSafe(controller.reconcile(&key)).catch_unwind().await;
        tracing::trace!(controller = controller.name(), ?key, "reconciled");
        record_outcome(&*controller, &*queue, &key, outcome);
    }
}

fn record_outcome<K: Ord + Clone + Debug + Send + Sync + 'static>(
    controller: &dyn Controller<Key = K>,
    queue: &dyn WorkQueue<K>,
    key: &K,
    outcome: Result<Result<Action, Error>, Box<dyn Any + Send>>,
) {
    let name = controller.name();
    match outcome {
        Ok(Ok(action)) => {
            queue.give_back(
                key,
                match action {
                    Action::Done => Outcome::Done,
                    Action::RequeueAfter(delay) => Outcome::After(delay),
                    Action::AwaitRoom => Outcome::NoRoom,
                },
            );
        }
        Ok(Err(Error::Api(error @ (ApiError::Conflict(_) | ApiError::AlreadyExists(_))))) => {
            let again = queue.give_back(key, Outcome::Changed);
            tracing::debug!(controller = name, ?key, %error, ?again, "the object changed meanwhile");
        }
        Ok(Err(error)) => {
            let outcome = match &error {
                Error::Later { again, .. } => Outcome::After(*again),
                _ => Outcome::Failed,
            };
            let again = queue.give_back(key, outcome);
            tracing::warn!(controller = name, ?key, %error, ?again, "a reconcile failed");
        }
        Err(panic) => {
            let again = queue.give_back(key, Outcome::Failed);
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
    use crate::queue::Queue;
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

    /// Counts how often each key was worked on.
    #[derive(Default)]
    struct Counting(Mutex<BTreeMap<String, usize>>);

    #[async_trait::async_trait]
    impl Controller for Counting {
        type Key = String;
        fn name(&self) -> &'static str {
            "counting"
        }
        async fn reconcile(&self, key: &String) -> Result<Action, Error> {
            *self.0.lock().entry(key.clone()).or_default() += 1;
            Ok(Action::Done)
        }
    }

    /// A watch that fell behind is opened anew: of what went meanwhile only the key is told, and not whom it concerned.
    #[tokio::test(start_paused = true)]
    async fn whom_an_object_concerned_hears_that_it_is_gone_though_no_watch_saw_it() {
        use crate::port::fake::{FakeApi, resource};
        use crate::port::{Api, DeletionPropagation};
        let maps = resource("v1", "ConfigMap", "configmaps", true);
        let api = Arc::new(FakeApi::new([maps.clone()]));
        let map = |of: &str| {
            serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "a", "namespace": "n", "uid": "u", "annotations": {"of": of}}})
        };
        let source = Source::new("v1", "ConfigMap", |change: &Change| {
            let (Change::Applied(object) | Change::Deleted(object)) = change;
            let of = object
                .value()
                .ok()
                .and_then(|value| Some(value["metadata"]["annotations"]["of"].as_str()?.to_owned()));
            of.into_iter().collect()
        });
        let (controller, stop) = (Arc::new(Counting::default()), CancellationToken::new());
        let running = tokio::spawn(run(
            api.clone(),
            controller.clone(),
            Arc::<Queue<_>>::default(),
            vec![source],
            1,
            stop.clone(),
        ));
        let pause = || tokio::time::sleep(Duration::from_secs(5));
        let count = |key: &str| controller.0.lock().get(key).copied().unwrap_or_default();
        pause().await;
        api.seed(map("one"));
        pause().await;
        api.seed(map("two"));
        pause().await;
        assert_eq!((count("one"), count("two")), (2, 1), "the one before hears that it is another's");
        api.cut_watches();
        let key = Key { namespace: "n".into(), name: "a".into() };
        api.delete(&maps, &key, "", DeletionPropagation::Background).await.unwrap();
        pause().await;
        assert_eq!((count("one"), count("two")), (2, 2));
        stop.cancel();
        running.await.unwrap();
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
