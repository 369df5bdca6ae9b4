//! One watch for each kind, however many controllers hear of it, across watches that end.
//!
//! In: the port, and who wants to hear of which resource. Out: [`Change`]s, at least one for the state that an object is in at last (those between may be skipped), to each in the order in
//! which they were added: who keeps an index asks before those who read it. Who comes late is told first what there is. While a
//! resource is not served, all its objects count as deleted.
//!
//! A deletion that happened while no watch was open is found by comparing keys when the next one opens. Of such an object
//! only its type, key and uid are known: it is told as `Deleted` with no labels and no content (a tombstone).

mod known;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::port::{Api, ApiError, Change, Object, Resource};
pub use known::Notice;
use known::{Delta, Known};

/// Failures to open a watch in a row, each told once in so many.
const TELL_EACH: u32 = 60;

/// How long to wait before asking again for a resource that could not be watched.
const RETRY: Duration = Duration::from_secs(1);
/// How long at most between looks at what is served; a change is told of sooner.
const LOOK: Duration = Duration::from_secs(30);

/// The watches of one hub.
#[derive(Clone)]
pub struct Informers {
    api: Arc<dyn Api>,
    kinds: Arc<Kinds>,
}

type Kinds = Mutex<BTreeMap<Resource, Arc<Informer>>>;

/// The one watch of a resource, and who hears of it.
struct Informer {
    resource: Resource,
    state: Mutex<State>,
    /// A handler was added that was told nothing yet.
    newcomers: Notify,
    /// Nobody hears any more.
    end: CancellationToken,
}

#[derive(Default)]
struct State {
    known: Known,
    handlers: Vec<Handler>,
    numbers: u64,
}

struct Handler {
    number: u64,
    notice: Notice,
    /// Whether it was told what there was when it was added.
    listed: watch::Sender<bool>,
    call: HandlerFn,
}

type HandlerFn = Box<dyn FnMut(&Change) + Send>;

/// Hears the changes of many resources.
pub type AnyHandler = Arc<dyn Fn(&Resource, &Change) + Send + Sync>;

/// Somebody hears of a resource for as long as this is held.
#[must_use = "nothing is heard once this is dropped"]
pub struct HandlerRegistration {
    number: u64,
    informer: Arc<Informer>,
    kinds: Arc<Kinds>,
    listed: watch::Receiver<bool>,
}

impl HandlerRegistration {
    /// Resolves once everything was told that there was when this began.
    pub async fn listed(&mut self) {
        // The sender goes with the registration.
        let _ = self.listed.wait_for(|listed| *listed).await;
    }
}

impl Drop for HandlerRegistration {
    fn drop(&mut self) {
        let mut kinds = self.kinds.lock();
        let mut state = self.informer.state.lock();
        state.handlers.retain(|handler| handler.number != self.number);
        if state.handlers.is_empty() {
            self.informer.end.cancel();
            if kinds.get(&self.informer.resource).is_some_and(|held| Arc::ptr_eq(held, &self.informer)) {
                kinds.remove(&self.informer.resource);
            }
        }
    }
}

impl<A: Api> From<Arc<A>> for Informers {
    fn from(api: Arc<A>) -> Self {
        Informers::new(api)
    }
}

impl From<Arc<dyn Api>> for Informers {
    fn from(api: Arc<dyn Api>) -> Self {
        Informers::new(api)
    }
}

impl Informers {
    /// No watch yet.
    pub fn new(api: Arc<dyn Api>) -> Self {
        Informers { api, kinds: Arc::default() }
    }

    /// What they watch.
    pub fn api(&self) -> &Arc<dyn Api> {
        &self.api
    }

    /// Calls `call` with every change of `resource` that is a `notice`, what there is now first.
    pub fn add_handler(
        &self,
        resource: &Resource,
        notice: Notice,
        call: impl FnMut(&Change) + Send + 'static,
    ) -> HandlerRegistration {
        let mut kinds = self.kinds.lock();
        let informer = kinds.entry(resource.clone()).or_insert_with(|| {
            let informer = Arc::new(Informer {
                resource: resource.clone(),
                state: Mutex::default(),
                newcomers: Notify::new(),
                end: CancellationToken::new(),
            });
            tokio::spawn(keep_watching(self.api.clone(), informer.clone()));
            informer
        });
        let (listed, receiver) = watch::channel(false);
        let mut state = informer.state.lock();
        state.numbers += 1;
        let number = state.numbers;
        state.handlers.push(Handler { number, notice, listed, call: Box::new(call) });
        drop(state);
        informer.newcomers.notify_one();
        HandlerRegistration {
            number,
            informer: informer.clone(),
            kinds: self.kinds.clone(),
            listed: receiver,
        }
    }

    /// Hears of every served resource for which `wanted` holds, those that come later included, until told to stop.
    pub async fn handle_all(
        &self,
        wanted: impl Fn(&Resource) -> bool + Send,
        notice: Notice,
        stop: &CancellationToken,
        handler: AnyHandler,
    ) {
        let mut heard: BTreeMap<Resource, HandlerRegistration> = BTreeMap::new();
        while !stop.is_cancelled() {
            // Polled once before the look, so that no change in between is missed.
            let mut changed = self.api.resources_changed();
            let armed = changed.as_mut().now_or_never();
            let served = self.api.resources();
            heard.retain(|resource, registration| {
                let kept = served.contains(resource);
                if !kept {
                    registration.informer.tell_the_end(registration.number);
                }
                kept
            });
            for resource in served.iter().filter(|resource| wanted(resource)) {
                if !heard.contains_key(resource) {
                    let (handler, of) = (handler.clone(), resource.clone());
                    let hear = move |change: &Change| handler(&of, change);
                    heard.insert(resource.clone(), self.add_handler(resource, notice, hear));
                }
            }
            if armed.is_some() {
                continue;
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = changed => {}
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }
}

impl State {
    fn tell(&mut self, told: &Delta) {
        for handler in self.handlers.iter_mut().filter(|handler| *handler.listed.borrow()) {
            if handler.notice.wants(told.is_status_only) {
                (handler.call)(&told.change);
            }
        }
    }

    /// Tells those who came since what there is.
    fn tell_newcomers(&mut self, present: &[Arc<Object>]) {
        for handler in self.handlers.iter_mut().filter(|handler| !*handler.listed.borrow()) {
            if handler.notice.wants(false) {
                present.iter().for_each(|object| (handler.call)(&Change::Applied(object.clone())));
            }
            handler.listed.send_replace(true);
        }
    }
}

impl Informer {
    fn take(&self, change: Change) {
        let mut state = self.state.lock();
        let news = state.known.take(&self.resource, change);
        news.iter().flatten().for_each(|told| state.tell(told));
    }

    /// Takes in everything there is: what is gone, what is new, and all of it for those who just came.
    fn list(&self, present: &[Arc<Object>]) {
        let mut state = self.state.lock();
        let lost = state.known.lost(&self.resource, present);
        lost.iter().for_each(|told| state.tell(told));
        for object in present {
            let news = state.known.take(&self.resource, Change::Applied(object.clone()));
            news.iter().flatten().for_each(|told| state.tell(told));
        }
        state.tell_newcomers(present);
    }

    /// To one handler everything is gone: for it, the resource is served no more.
    fn tell_the_end(&self, number: u64) {
        let mut state = self.state.lock();
        let all = state.known.tombstones(&self.resource);
        let Some(handler) = state.handlers.iter_mut().find(|handler| handler.number == number) else {
            return;
        };
        all.iter()
            .filter(|told| handler.notice.wants(told.is_status_only))
            .for_each(|told| (handler.call)(&told.change));
    }
}

async fn keep_watching(api: Arc<dyn Api>, informer: Arc<Informer>) {
    let (resource, end) = (&informer.resource, &informer.end);
    let mut failures: u32 = 0;
    while !end.is_cancelled() {
        match open(&*api, &informer).await {
            Ok(stream) => {
                failures = 0;
                follow(&*api, stream, &informer).await;
            }
            Err(ApiError::NotFound(_)) => {
                informer.list(&[]);
                wait_for_change(&*api, &informer).await;
            }
            Err(error) => {
                // Nothing that reads this kind does anything until then: a person is told, at once and then each minute.
                if failures.is_multiple_of(TELL_EACH) {
                    tracing::error!(resource = &*resource.plural, %error, "this kind cannot be listed: what depends on it waits");
                }
                failures = failures.wrapping_add(1);
                pause(RETRY, end).await;
            }
        }
    }
}

async fn open(api: &dyn Api, informer: &Informer) -> Result<BoxStream<'static, Change>, ApiError> {
    // The watch opens first: what is deleted between it and the list is told by both, which does no harm.
    let stream = api.watch(&informer.resource, "").await?;
    informer.list(&api.list(&informer.resource, "").await?);
    Ok(stream)
}

async fn follow(api: &dyn Api, mut stream: BoxStream<'static, Change>, informer: &Informer) {
    loop {
        tokio::select! {
            () = informer.end.cancelled() => return,
            () = informer.newcomers.notified() => match api.list(&informer.resource, "").await {
                Ok(present) => informer.state.lock().tell_newcomers(&present),
                Err(_) => return,
            },
            change = stream.next() => match change {
                Some(change) => informer.take(change),
                None => return,
            },
        }
    }
}

async fn wait_for_change(api: &dyn Api, informer: &Informer) {
    tokio::select! {
        () = informer.end.cancelled() => {}
        () = informer.newcomers.notified() => {}
        () = api.resources_changed() => {}
        () = tokio::time::sleep(LOOK) => {}
    }
}

async fn pause(duration: Duration, end: &CancellationToken) {
    tokio::select! {
        () = end.cancelled() => {}
        () = tokio::time::sleep(duration) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::fake::{FakeApi, resource};
    use crate::port::{DeletionPropagation, Key};
    use serde_json::{Value, json};

    type Log = Arc<Mutex<Vec<String>>>;

    fn words(change: &Change) -> String {
        match change {
            Change::Applied(o) => format!("+{}/{}", o.key.name, o.uid),
            Change::Deleted(o) => format!("-{}/{}", o.key.name, o.uid),
        }
    }

    fn object(kind: &str, name: &str) -> Value {
        json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "n", "uid": name}})
    }

    async fn moment() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }

    async fn delete(api: &FakeApi, resource: &Resource, name: &str) {
        let key = Key { namespace: "n".into(), name: name.into() };
        api.delete(resource, &key, "", DeletionPropagation::Background).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn every_served_resource_is_watched_across_ends_and_changes() {
        let (maps, widgets) =
            (resource("v1", "ConfigMap", "configmaps", true), resource("v1", "Widget", "widgets", true));
        let api = Arc::new(FakeApi::new([maps.clone()]));
        let heard: Log = Arc::default();
        let log = heard.clone();
        let handler: AnyHandler = Arc::new(move |_, change| log.lock().push(words(change)));
        let stop = CancellationToken::new();
        let acts = async {
            api.seed(object("ConfigMap", "a"));
            moment().await;
            api.serve(widgets.clone());
            moment().await;
            api.seed(object("Widget", "w"));
            moment().await;
            api.cut_watches();
            delete(&api, &maps, "a").await;
            moment().await;
            api.stop_serving(&widgets);
            moment().await;
            stop.cancel();
        };
        let informers = Informers::from(api.clone());
        tokio::join!(informers.handle_all(|_| true, Notice::All, &stop, handler), acts);
        let heard = heard.lock().clone();
        let last = |name: &str| heard.iter().rev().find(|h| h.contains(&format!("{name}/"))).cloned();
        assert_eq!((last("a"), last("w")), (Some("-a/a".into()), Some("-w/w".into())), "{heard:?}");
        assert_eq!(
            heard.iter().filter(|h| h.starts_with('-')).count(),
            2,
            "each end is told once: {heard:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn all_who_hear_of_a_kind_share_one_watch_and_the_late_are_told_what_there_is() {
        let maps = resource("v1", "ConfigMap", "configmaps", true);
        let api = Arc::new(FakeApi::new([maps.clone()]));
        let informers = Informers::from(api.clone());
        let (first, second): (Log, Log) = Default::default();
        let into = |log: &Log| {
            let log = log.clone();
            move |change: &Change| log.lock().push(words(change))
        };
        api.seed(object("ConfigMap", "a"));
        let mut early = informers.add_handler(&maps, Notice::All, into(&first));
        early.listed().await;
        assert_eq!(*first.lock(), ["+a/a"]);
        api.seed(object("ConfigMap", "b"));
        let mut late = informers.add_handler(&maps, Notice::All, into(&second));
        late.listed().await;
        moment().await;
        delete(&api, &maps, "a").await;
        moment().await;
        assert_eq!(*first.lock(), ["+a/a", "+b/b", "-a/a"]);
        assert_eq!(second.lock().iter().filter(|word| *word == "+a/a").count(), 1);
        assert_eq!(second.lock().last().map(String::as_str), Some("-a/a"));
        assert_eq!(api.calls("watch", "ConfigMap"), 1);
        drop(early);
        drop(late);
        moment().await;
        api.seed(object("ConfigMap", "c"));
        moment().await;
        assert_eq!(first.lock().len(), 3, "nobody hears any more");
        assert!(informers.kinds.lock().is_empty());
    }
}
