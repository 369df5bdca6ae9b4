//! Keeps a handler told of every object of a resource, across watches that end.
//!
//! In: the port and a resource. Out: [`Change`]s, at least one for every state that lasts. Only keys, uids and digests are
//! remembered: objects live in the hub's cache, not here.
//!
//! A deletion that happened while no watch was open is found by comparing keys when the next one opens. Of such an object
//! only its type, key and uid are known: it is told as `Deleted` with no labels and no content (a tombstone).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{FutureExt, StreamExt};
use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::port::{Api, ApiError, Change, Key, Object, Resource};

/// How long to wait before asking again for a resource that could not be watched.
const RETRY: Duration = Duration::from_secs(1);
/// How long at most between looks at what is served; a change is told of sooner.
const LOOK: Duration = Duration::from_secs(30);

/// What a handler wants to hear of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Every change.
    All,
    /// No change of nothing but the status. Of kinds without a generation, every change.
    ButStatus,
}

/// What was told of a resource so far: keys, and how each object stood.
#[derive(Default)]
struct Known(BTreeMap<Key, Seen>);

/// An object as it was last told.
struct Seen {
    uid: Arc<str>,
    generation: i64,
    marks: u64,
    deleting: bool,
}

impl Seen {
    fn of(object: &Object) -> Seen {
        let Object { uid, generation, marks, deleting, .. } = object;
        Seen { uid: uid.clone(), generation: *generation, marks: *marks, deleting: *deleting }
    }

    /// Whether nothing but the status may differ.
    fn differs_in_status_only(&self, object: &Object) -> bool {
        self.generation != 0
            && (self.generation, self.marks, self.deleting)
                == (object.generation, object.marks, object.deleting)
    }
}

impl Known {
    /// Takes one change in; returns what the handler must hear, in order. An object that came back under another uid was
    /// deleted in between.
    fn take(
        &mut self,
        resource: &Resource,
        change: Change,
        notice: Notice,
    ) -> (Option<Change>, Option<Change>) {
        match change {
            Change::Applied(object) => {
                let before = self.0.insert(object.key.clone(), Seen::of(&object));
                let (same, gone): (Option<Seen>, Option<Seen>) = match before {
                    Some(before) if before.uid == object.uid => (Some(before), None),
                    before => (None, before),
                };
                let dull = notice == Notice::ButStatus
                    && same.is_some_and(|before| before.differs_in_status_only(&object));
                let gone = gone.map(|before| tombstone(resource, &object.key, &before.uid));
                (gone, (!dull).then_some(Change::Applied(object)))
            }
            Change::Deleted(object) => match self.0.remove(&object.key) {
                Some(_) => (None, Some(Change::Deleted(object))),
                None => (None, None),
            },
        }
    }

    /// Forgets every key that `present` lacks; returns tombstones for them.
    fn lost(&mut self, resource: &Resource, present: &[Arc<Object>]) -> Vec<Change> {
        let mut gone = std::mem::take(&mut self.0);
        for object in present {
            if let Some(seen) = gone.remove(&object.key) {
                self.0.insert(object.key.clone(), seen);
            }
        }
        gone.iter().map(|(key, seen)| tombstone(resource, key, &seen.uid)).collect()
    }
}

fn tombstone(resource: &Resource, key: &Key, uid: &Arc<str>) -> Change {
    let mut metadata = json!({"name": &*key.name, "uid": &**uid});
    if !key.namespace.is_empty() {
        metadata["namespace"] = json!(&*key.namespace);
    }
    let json = json!({"apiVersion": resource.api_version(), "kind": &*resource.kind, "metadata": metadata});
    Change::Deleted(Arc::new(Object {
        key: key.clone(),
        uid: uid.clone(),
        revision: 0,
        generation: 0,
        deleting: true,
        marks: 0,
        labels: BTreeMap::new(),
        source: Arc::new(Bytes::from(json.to_string())),
    }))
}

/// Watches `resource` (`namespace` empty: in all namespaces) until told to stop, calling `handler` with every change. While
/// the resource is not served, all its objects count as deleted.
pub async fn run(
    api: &dyn Api,
    resource: &Resource,
    namespace: &str,
    notice: Notice,
    stop: &CancellationToken,
    mut handler: impl FnMut(Change) + Send,
) {
    keep_watching(api, resource, namespace, notice, stop, &mut handler).await;
}

/// As [`run`]; returns what was known when it stopped.
async fn keep_watching(
    api: &dyn Api,
    resource: &Resource,
    namespace: &str,
    notice: Notice,
    stop: &CancellationToken,
    handler: &mut (dyn FnMut(Change) + Send),
) -> Known {
    let mut known = Known::default();
    while !stop.is_cancelled() {
        match open(api, resource, namespace, &mut known, handler).await {
            Ok(stream) => follow(stream, resource, notice, stop, &mut known, handler).await,
            Err(ApiError::NotFound(_)) => {
                known.lost(resource, &[]).into_iter().for_each(&mut *handler);
                wait_for_change(api, stop).await;
            }
            Err(error) => {
                tracing::debug!(resource = &*resource.plural, %error, "a watch could not be opened");
                pause(RETRY, stop).await;
            }
        }
    }
    known
}

async fn open(
    api: &dyn Api,
    resource: &Resource,
    namespace: &str,
    known: &mut Known,
    handler: &mut (dyn FnMut(Change) + Send),
) -> Result<futures::stream::BoxStream<'static, Change>, ApiError> {
    // The watch opens first: what is deleted between it and the list is told by both, which does no harm.
    let stream = api.watch(resource, namespace).await?;
    if !known.0.is_empty() {
        let present = api.list(resource, namespace).await?;
        known.lost(resource, &present).into_iter().for_each(handler);
    }
    Ok(stream)
}

async fn follow(
    mut stream: futures::stream::BoxStream<'static, Change>,
    resource: &Resource,
    notice: Notice,
    stop: &CancellationToken,
    known: &mut Known,
    handler: &mut (dyn FnMut(Change) + Send),
) {
    loop {
        let change = tokio::select! {
            () = stop.cancelled() => return,
            change = stream.next() => change,
        };
        let Some(change) = change else { return };
        let (first, then) = known.take(resource, change, notice);
        first.into_iter().chain(then).for_each(&mut *handler);
    }
}

async fn wait_for_change(api: &dyn Api, stop: &CancellationToken) {
    tokio::select! {
        () = stop.cancelled() => {}
        () = api.resources_changed() => {}
        () = tokio::time::sleep(LOOK) => {}
    }
}

async fn pause(duration: Duration, stop: &CancellationToken) {
    tokio::select! {
        () = stop.cancelled() => {}
        () = tokio::time::sleep(duration) => {}
    }
}

/// Hears the changes of many resources.
pub type AnyHandler = Arc<dyn Fn(&Resource, Change) + Send + Sync>;

/// Watches every served resource for which `wanted` holds, those that come later included, until told to stop. When a resource
/// is no longer served, its objects are told as deleted.
pub async fn run_all(
    api: Arc<dyn Api>,
    wanted: impl Fn(&Resource) -> bool + Send,
    stop: &CancellationToken,
    handler: AnyHandler,
) {
    let mut watched: BTreeMap<Resource, CancellationToken> = BTreeMap::new();
    let mut tasks = JoinSet::new();
    while !stop.is_cancelled() {
        // Polled once before the look, so that no change in between is missed.
        let mut changed = api.resources_changed();
        let armed = changed.as_mut().now_or_never();
        let served = api.resources();
        watched.retain(|resource, token| {
            let kept = served.contains(resource);
            if !kept {
                token.cancel();
            }
            kept
        });
        for resource in served.iter().filter(|r| wanted(r)) {
            if watched.contains_key(resource) {
                continue;
            }
            let token = stop.child_token();
            watched.insert(resource.clone(), token.clone());
            tasks.spawn(one_of_all(api.clone(), resource.clone(), stop.clone(), token, handler.clone()));
        }
        if armed.is_some() {
            continue;
        }
        tokio::select! {
            () = stop.cancelled() => {}
            () = changed => {}
            () = tokio::time::sleep(LOOK) => {}
        }
        while tasks.try_join_next().is_some() {}
    }
    while tasks.join_next().await.is_some() {}
}

async fn one_of_all(
    api: Arc<dyn Api>,
    resource: Resource,
    stop: CancellationToken,
    token: CancellationToken,
    handler: AnyHandler,
) {
    let mut known =
        keep_watching(&*api, &resource, "", Notice::All, &token, &mut |change| handler(&resource, change))
            .await;
    if !stop.is_cancelled() {
        known.lost(&resource, &[]).into_iter().for_each(|change| handler(&resource, change));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource() -> Resource {
        Resource {
            group: "".into(),
            version: "v1".into(),
            plural: "pods".into(),
            kind: "Pod".into(),
            namespaced: true,
        }
    }

    fn pod(name: &str, uid: &str) -> Arc<Object> {
        let key = Key { namespace: "n".into(), name: name.into() };
        match tombstone(&resource(), &key, &uid.into()) {
            Change::Applied(object) | Change::Deleted(object) => object,
        }
    }

    fn told(change: &Change) -> String {
        match change {
            Change::Applied(o) => format!("+{}/{}", o.key.name, o.uid),
            Change::Deleted(o) => format!("-{}/{}", o.key.name, o.uid),
        }
    }

    #[test]
    fn deletions_that_no_watch_saw_are_told_by_key_and_uid() {
        let mut known = Known::default();
        let mut heard = Vec::new();
        let take = |known: &mut Known, heard: &mut Vec<String>, change| {
            let (a, b) = known.take(&resource(), change, Notice::All);
            heard.extend(a.iter().chain(&b).map(told));
        };
        for (name, uid) in [("a", "1"), ("b", "2"), ("c", "3")] {
            take(&mut known, &mut heard, Change::Applied(pod(name, uid)));
        }
        // The watch ended; a is gone, b came back as another object.
        let present = [pod("b", "9"), pod("c", "3")];
        heard.extend(known.lost(&resource(), &present).iter().map(told));
        for object in present {
            take(&mut known, &mut heard, Change::Applied(object));
        }
        take(&mut known, &mut heard, Change::Deleted(pod("c", "3")));
        take(&mut known, &mut heard, Change::Deleted(pod("c", "3")));
        assert_eq!(heard, ["+a/1", "+b/2", "+c/3", "-a/1", "-b/2", "+b/9", "+c/3", "-c/3"]);
    }

    #[test]
    fn a_change_of_the_status_alone_is_told_to_those_who_want_it() {
        let object = |generation: i64, marks: u64, uid: &str| {
            let Change::Deleted(object) = tombstone(&resource(), &pod("a", "1").key, &uid.into()) else {
                panic!()
            };
            let mut object = Arc::into_inner(object).unwrap();
            (object.generation, object.marks, object.deleting) = (generation, marks, false);
            Change::Applied(Arc::new(object))
        };
        let told = |before: Change, after: Change, notice| {
            let mut known = Known::default();
            known.take(&resource(), before, notice);
            known.take(&resource(), after, notice).1.is_some()
        };
        assert!(!told(object(1, 7, "1"), object(1, 7, "1"), Notice::ButStatus));
        assert!(told(object(1, 7, "1"), object(1, 7, "1"), Notice::All));
        for (what, after) in [
            ("spec", object(2, 7, "1")),
            ("labels", object(1, 8, "1")),
            ("another object", object(1, 7, "2")),
        ] {
            assert!(told(object(1, 7, "1"), after, Notice::ButStatus), "{what}");
        }
        assert!(told(object(0, 7, "1"), object(0, 7, "1"), Notice::ButStatus), "a kind without generation");
    }

    #[tokio::test(start_paused = true)]
    async fn every_served_resource_is_watched_across_ends_and_changes() {
        use crate::port::Propagation;
        use crate::port::fake::{FakeApi, resource};
        let (maps, widgets) =
            (resource("v1", "ConfigMap", "configmaps", true), resource("v1", "Widget", "widgets", true));
        let api = Arc::new(FakeApi::new([maps.clone()]));
        let object = |kind: &str, name: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "n", "uid": name}});
        let heard: Arc<parking_lot::Mutex<Vec<String>>> = Arc::default();
        let log = heard.clone();
        let handler: AnyHandler = Arc::new(move |_, change| log.lock().push(told(&change)));
        let stop = CancellationToken::new();
        let acts = async {
            let pause = || tokio::time::sleep(Duration::from_millis(10));
            api.seed(object("ConfigMap", "a"));
            pause().await;
            api.serve(widgets.clone());
            pause().await;
            api.seed(object("Widget", "w"));
            pause().await;
            api.cut_watches();
            let key = Key { namespace: "n".into(), name: "a".into() };
            api.delete(&maps, &key, "", Propagation::Background).await.unwrap();
            pause().await;
            api.stop_serving(&widgets);
            pause().await;
            stop.cancel();
        };
        tokio::join!(run_all(api.clone(), |_| true, &stop, handler), acts);
        let heard = heard.lock().clone();
        let last = |name: &str| heard.iter().rev().find(|h| h.contains(&format!("{name}/"))).cloned();
        assert_eq!((last("a"), last("w")), (Some("-a/a".into()), Some("-w/w".into())), "{heard:?}");
        assert_eq!(
            heard.iter().filter(|h| h.starts_with('-')).count(),
            2,
            "each end is told once: {heard:?}"
        );
    }
}
