//! The port over memory, for tests: what the registry promises to controllers, without its kinds and validation, and without defaults but Karmada's.
//!
//! In: the calls of the port, objects that a test seeds, errors that it wants. Out: objects, watches, and how often what was called. No
//! clock: time is what the test sets.
//!
//! Kept honest: revisions rise with every write, uids are new with every object, writes need the revision they were read at,
//! a write that changes nothing is none, status and the rest are written apart, finalizers hold, generations count, nothing is
//! created in a namespace that is going, and watchers that do not read are cut off. Not kept: default propagation by kind,
//! and names are not checked.

mod kinds;
mod state;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::stream::{self, BoxStream, StreamExt};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use kinds::KINDS;
use state::{Calls, State, Trouble, Watcher};

use super::{Api, ApiError, Change, DeletionPropagation, Key, Object, Resource};
use crate::workqueues::Workqueues;

/// Changes that a watcher may be behind before it is cut off.
const BEHIND: usize = 1024;

/// A resource, named by apiVersion, kind and plural.
pub fn resource(api_version: &str, kind: &str, plural: &str, namespaced: bool) -> Resource {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    Resource {
        group: group.into(),
        version: version.into(),
        plural: plural.into(),
        kind: kind.into(),
        namespaced,
    }
}

/// The port over memory.
pub struct FakeApi {
    state: Mutex<State>,
    served: watch::Sender<u64>,
    workqueues: Workqueues,
    writes_late: AtomicBool,
}

impl Default for FakeApi {
    /// The built-in and Karmada kinds that controllers touch.
    fn default() -> Self {
        FakeApi::new(KINDS.iter().map(|(version, kind, plural, ns)| resource(version, kind, plural, *ns)))
    }
}

impl FakeApi {
    /// An empty API that serves these.
    pub fn new(resources: impl IntoIterator<Item = Resource>) -> Self {
        let mut resources: Vec<Resource> = resources.into_iter().collect();
        resources.sort();
        let state = State {
            resources: resources.into(),
            objects: BTreeMap::new(),
            watchers: Vec::new(),
            revision: 0,
            uids: 0,
            now: jiff::Timestamp::UNIX_EPOCH,
            refusals: Vec::new(),
            calls: Calls::default(),
            writes: 0,
            trouble: None,
        };
        FakeApi {
            state: Mutex::new(state),
            served: watch::Sender::new(0),
            workqueues: Workqueues::default(),
            writes_late: AtomicBool::default(),
        }
    }

    /// The time that new objects and deletions are stamped with.
    pub fn set_now(&self, now: jiff::Timestamp) {
        self.state.lock().now = now;
    }

    /// The revision of the last write: unchanged means that nothing was written.
    pub fn revision(&self) -> u64 {
        self.state.lock().revision
    }

    /// Serves one more resource, as when a CRD is established.
    pub fn serve(&self, resource: Resource) {
        let mut state = self.state.lock();
        let mut resources = state.resources.to_vec();
        resources.push(resource);
        resources.sort();
        state.resources = resources.into();
        drop(state);
        self.served.send_modify(|n| *n += 1);
    }

    /// Serves a resource no longer; its objects are gone and its watches end.
    pub fn stop_serving(&self, resource: &Resource) {
        let mut state = self.state.lock();
        state.resources = state.resources.iter().filter(|r| *r != resource).cloned().collect();
        state.objects.remove(resource);
        state.watchers.retain(|watcher| watcher.resource != *resource);
        drop(state);
        self.served.send_modify(|n| *n += 1);
    }

    /// Ends every watch, as when watchers fell behind.
    pub fn cut_watches(&self) {
        self.state.lock().watchers.clear();
    }

    /// Makes the next call of `verb` (`get`, `list`, `watch`, `create`, `update`, `scale`, `update_status`, `delete`) on `kind` fail.
    pub fn refuse(&self, verb: &'static str, kind: &str, error: ApiError) {
        self.state.lock().refusals.push((verb, kind.to_owned(), error));
    }

    /// How many writes were tried so far.
    pub fn writes(&self) -> u64 {
        self.state.lock().writes
    }

    /// Makes the `nth` write from now on fail, and where it `lasts` all that follow, until [`FakeApi::mend`].
    pub fn fail(&self, nth: u64, lasts: bool, error: ApiError) {
        let mut state = self.state.lock();
        state.trouble = Some(Trouble { at: state.writes + nth, lasts, error });
    }

    /// From now on an update takes a moment before it is carried out, as on a disk: others have theirs meanwhile.
    pub fn write_late(&self) {
        self.writes_late.store(true, Ordering::Relaxed);
    }

    /// Writes are carried out again.
    pub fn mend(&self) {
        self.state.lock().trouble = None;
    }

    /// Every object of every kind as JSON.
    pub fn everything(&self) -> Vec<Value> {
        let state = self.state.lock();
        let all =
            state.objects.iter().flat_map(|(resource, objects)| objects.values().map(move |o| (resource, o)));
        all.filter_map(|(resource, object)| state.peek(resource, object).ok()).collect()
    }

    /// How often `verb` was called on `kind`; `read`: how often somebody took the JSON of such an object.
    pub fn calls(&self, verb: &'static str, kind: &str) -> u64 {
        self.state.lock().calls.lock().get(&(verb, kind.to_owned())).copied().unwrap_or(0)
    }

    /// Every call so far, by verb and kind.
    pub fn all_calls(&self) -> BTreeMap<(&'static str, String), u64> {
        self.state.lock().calls.lock().clone()
    }

    /// Puts an object in as it stands, status and deletion marks included; uid and revision are given where missing.
    pub fn seed(&self, mut object: Value) -> Arc<Object> {
        let mut state = self.state.lock();
        let (api_version, kind) =
            (object["apiVersion"].as_str().unwrap_or(""), object["kind"].as_str().unwrap_or(""));
        let resource = state.resource_of(api_version, kind).expect("the test serves what it seeds");
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = json!(state.new_uid());
        }
        if object["metadata"]["creationTimestamp"].is_null() {
            object["metadata"]["creationTimestamp"] = json!(state.now_text());
        }
        state.store(&resource, object)
    }

    /// Seeds several.
    pub fn seed_all(&self, objects: impl IntoIterator<Item = Value>) {
        objects.into_iter().for_each(|object| drop(self.seed(object)));
    }

    /// One object as JSON, `None` where there is none.
    pub fn value(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Option<Value> {
        let state = self.state.lock();
        let resource = state.resource_of(api_version, kind)?;
        let key = Key { namespace: namespace.into(), name: name.into() };
        state.peek(&resource, state.objects.get(&resource)?.get(&key)?).ok()
    }

    /// Every object of a kind as JSON, in key order.
    pub fn values(&self, api_version: &str, kind: &str) -> Vec<Value> {
        let state = self.state.lock();
        let Some(resource) = state.resource_of(api_version, kind) else { return Vec::new() };
        let objects = state.objects.get(&resource).into_iter().flat_map(BTreeMap::values);
        objects.filter_map(|object| state.peek(&resource, object).ok()).collect()
    }
}

#[async_trait::async_trait]
impl Api for FakeApi {
    fn workqueues(&self) -> Option<&Workqueues> {
        Some(&self.workqueues)
    }

    fn resources(&self) -> Arc<[Resource]> {
        self.state.lock().resources.clone()
    }

    fn resource_of(&self, api_version: &str, kind: &str) -> Option<Resource> {
        self.state.lock().resource_of(api_version, kind)
    }

    async fn resources_changed(&self) {
        // The sender lives in `self`.
        let _ = self.served.subscribe().changed().await;
    }

    async fn get(&self, resource: &Resource, namespace: &str, name: &str) -> Result<Arc<Object>, ApiError> {
        let mut state = self.state.lock();
        state.check("get", resource)?;
        state.live(resource, &Key { namespace: namespace.into(), name: name.into() })
    }

    async fn list(&self, resource: &Resource, namespace: &str) -> Result<Vec<Arc<Object>>, ApiError> {
        let mut state = self.state.lock();
        state.check("list", resource)?;
        let objects = state.objects.get(resource).into_iter().flat_map(BTreeMap::values);
        Ok(objects.filter(|o| namespace.is_empty() || *o.key.namespace == *namespace).cloned().collect())
    }

    async fn watch(
        &self,
        resource: &Resource,
        namespace: &str,
    ) -> Result<BoxStream<'static, Change>, ApiError> {
        let mut state = self.state.lock();
        state.check("watch", resource)?;
        let objects = state.objects.get(resource).into_iter().flat_map(BTreeMap::values);
        let within = objects.filter(|o| namespace.is_empty() || *o.key.namespace == *namespace);
        let first: Vec<Change> = within.cloned().map(Change::Applied).collect();
        let (changes, mut inbox) = mpsc::channel(BEHIND);
        state.watchers.push(Watcher { resource: resource.clone(), namespace: namespace.to_owned(), changes });
        let rest = stream::poll_fn(move |context| inbox.poll_recv(context));
        Ok(stream::iter(first).chain(rest).boxed())
    }

    async fn create(&self, resource: &Resource, object: Value) -> Result<Arc<Object>, ApiError> {
        self.state.lock().create(resource, object)
    }

    async fn update(&self, resource: &Resource, object: Value) -> Result<Arc<Object>, ApiError> {
        if self.writes_late.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        self.state.lock().update(resource, object)
    }

    /// As an update of the fields beside the metadata: nobody owns fields here.
    async fn apply(
        &self,
        resource: &Resource,
        object: Value,
        _manager: &str,
    ) -> Result<Arc<Object>, ApiError> {
        let mut state = self.state.lock();
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().into();
        let live = state.live(resource, &Key { namespace: text("namespace"), name: text("name") })?;
        let mut new = state.peek(resource, &live)?;
        for (field, value) in
            object.as_object().into_iter().flatten().filter(|(field, _)| *field != "metadata")
        {
            new[field] = value.clone();
        }
        state.update(resource, new)
    }

    async fn scale(&self, resource: &Resource, key: &Key, replicas: i32) -> Result<Arc<Object>, ApiError> {
        self.state.lock().scale(resource, key, replicas)
    }

    async fn update_status(&self, resource: &Resource, object: Value) -> Result<Arc<Object>, ApiError> {
        self.state.lock().update_status(resource, &object)
    }

    async fn delete(
        &self,
        resource: &Resource,
        key: &Key,
        uid: &str,
        propagation: DeletionPropagation,
    ) -> Result<(), ApiError> {
        self.state.lock().delete(resource, key, uid, propagation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    fn deployment(name: &str) -> Value {
        json!({"metadata": {"name": name, "namespace": "n", "finalizers": ["x"]}, "spec": {"replicas": 1}, "status": {"a": 1}})
    }

    #[tokio::test]
    async fn writes_are_checked_and_counted() {
        let api = FakeApi::default();
        let kind = api.resource_of("apps/v1", "Deployment").unwrap();
        let made = api.create(&kind, deployment("a")).await.unwrap();
        assert!(matches!(api.create(&kind, deployment("a")).await, Err(ApiError::AlreadyExists(_))));
        let mut object = made.value().unwrap();
        assert!(object.get("status").is_none(), "a new object has no status of its maker's");
        assert_eq!(
            api.update(&kind, object.clone()).await.unwrap().revision,
            made.revision,
            "no change, no write"
        );
        object["status"] = json!({"ready": 1});
        let shown = api.update_status(&kind, object.clone()).await.unwrap();
        assert!(matches!(api.update(&kind, object).await, Err(ApiError::Conflict(_))));
        let mut object = shown.value().unwrap();
        object["spec"]["replicas"] = json!(2);
        object["status"] = json!({});
        let grown = api.update(&kind, object).await.unwrap();
        assert_eq!((grown.generation, &grown.value().unwrap()["status"]["ready"]), (2, &json!(1)));
        assert!(matches!(
            api.delete(&kind, &grown.key, "another", DeletionPropagation::Background).await,
            Err(ApiError::Conflict(_))
        ));
        api.delete(&kind, &grown.key, &grown.uid, DeletionPropagation::Background).await.unwrap();
        let mut held = api.value("apps/v1", "Deployment", "n", "a").unwrap();
        assert!(held["metadata"]["deletionTimestamp"].is_string(), "the finalizer holds it");
        held["metadata"]["finalizers"] = json!([]);
        api.update(&kind, held).await.unwrap();
        assert_eq!(api.value("apps/v1", "Deployment", "n", "a"), None);
    }

    #[tokio::test]
    async fn a_watch_shows_what_is_then_what_changes() {
        let api = FakeApi::default();
        let kind = api.resource_of("v1", "ConfigMap").unwrap();
        let map = |name: &str, ns: &str| json!({"metadata": {"name": name, "namespace": ns}});
        api.create(&kind, map("a", "n")).await.unwrap();
        let mut watch = api.watch(&kind, "n").await.unwrap();
        let b = api.create(&kind, map("b", "n")).await.unwrap();
        api.create(&kind, map("c", "other")).await.unwrap();
        api.delete(&kind, &b.key, "", DeletionPropagation::Background).await.unwrap();
        let mut told = Vec::new();
        while let Some(Some(change)) = watch.next().now_or_never() {
            told.push(match change {
                Change::Applied(o) => format!("+{}", o.key.name),
                Change::Deleted(o) => format!("-{}", o.key.name),
            });
        }
        assert_eq!(told, ["+a", "+b", "-b"]);
        api.cut_watches();
        assert!(watch.next().await.is_none());
    }
}
