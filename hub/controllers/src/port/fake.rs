//! The port over memory, for tests: what the registry promises to controllers, without its kinds, defaults and validation.
//!
//! Kept honest: revisions rise with every write, uids are new with every object, writes need the revision they were read at,
//! a write that changes nothing is none, status and the rest are written apart, finalizers hold, generations count, nothing is
//! created in a namespace that is going, and watchers that do not read are cut off. Not kept: default propagation by kind,
//! and names are not checked.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, watch};

use super::{Api, ApiError, Change, Key, Object, Propagation, Resource};

/// Changes that a watcher may be behind before it is cut off.
const BEHIND: usize = 1024;

/// Kinds whose content is one: no status of its own.
const WITHOUT_STATUS: [&str; 11] = [
    "ConfigMap",
    "Secret",
    "ServiceAccount",
    "Event",
    "Endpoints",
    "EndpointSlice",
    "Lease",
    "Role",
    "ClusterRole",
    "RoleBinding",
    "ClusterRoleBinding",
];

/// The kinds of [`FakeApi::default`]: apiVersion, kind, plural, whether namespaced.
const KINDS: &[(&str, &str, &str, bool)] = &[
    ("v1", "Namespace", "namespaces", false),
    ("v1", "ConfigMap", "configmaps", true),
    ("v1", "Secret", "secrets", true),
    ("v1", "ServiceAccount", "serviceaccounts", true),
    ("v1", "Service", "services", true),
    ("v1", "Event", "events", true),
    ("v1", "Pod", "pods", true),
    ("v1", "PersistentVolumeClaim", "persistentvolumeclaims", true),
    ("v1", "Node", "nodes", false),
    ("apps/v1", "Deployment", "deployments", true),
    ("apps/v1", "StatefulSet", "statefulsets", true),
    ("apps/v1", "DaemonSet", "daemonsets", true),
    ("apps/v1", "ReplicaSet", "replicasets", true),
    ("batch/v1", "Job", "jobs", true),
    ("batch/v1", "CronJob", "cronjobs", true),
    ("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", true),
    ("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", true),
    ("networking.k8s.io/v1", "Ingress", "ingresses", true),
    ("discovery.k8s.io/v1", "EndpointSlice", "endpointslices", true),
    ("coordination.k8s.io/v1", "Lease", "leases", true),
    ("certificates.k8s.io/v1", "CertificateSigningRequest", "certificatesigningrequests", false),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", false),
    ("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", false),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterrolebindings", false),
    ("rbac.authorization.k8s.io/v1", "Role", "roles", true),
    ("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings", true),
    ("cluster.karmada.io/v1alpha1", "Cluster", "clusters", false),
    ("policy.karmada.io/v1alpha1", "PropagationPolicy", "propagationpolicies", true),
    ("policy.karmada.io/v1alpha1", "ClusterPropagationPolicy", "clusterpropagationpolicies", false),
    ("policy.karmada.io/v1alpha1", "OverridePolicy", "overridepolicies", true),
    ("policy.karmada.io/v1alpha1", "ClusterOverridePolicy", "clusteroverridepolicies", false),
    ("policy.karmada.io/v1alpha1", "FederatedResourceQuota", "federatedresourcequotas", true),
    ("policy.karmada.io/v1alpha1", "ClusterTaintPolicy", "clustertaintpolicies", false),
    ("work.karmada.io/v1alpha1", "Work", "works", true),
    ("work.karmada.io/v1alpha2", "ResourceBinding", "resourcebindings", true),
    ("work.karmada.io/v1alpha2", "ClusterResourceBinding", "clusterresourcebindings", false),
    ("apps.karmada.io/v1alpha1", "WorkloadRebalancer", "workloadrebalancers", false),
    (
        "config.karmada.io/v1alpha1",
        "ResourceInterpreterCustomization",
        "resourceinterpretercustomizations",
        false,
    ),
];

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
}

struct State {
    resources: Arc<[Resource]>,
    objects: BTreeMap<Resource, BTreeMap<Key, Arc<Object>>>,
    watchers: Vec<Watcher>,
    revision: u64,
    uids: u64,
    now: jiff::Timestamp,
    refusals: Vec<(&'static str, String, ApiError)>,
}

struct Watcher {
    resource: Resource,
    namespace: String,
    changes: mpsc::Sender<Change>,
}

impl Default for FakeApi {
    /// The built-in and Karmada kinds that controllers touch.
    fn default() -> Self {
        FakeApi::new(KINDS.iter().map(|(version, kind, plural, ns)| resource(version, kind, plural, *ns)))
    }
}

/// As the hub's: a digest of what is set in metadata without raising the generation.
fn marks(object: &Value) -> u64 {
    let mut digest = std::hash::DefaultHasher::new();
    for field in ["labels", "annotations", "ownerReferences", "finalizers"] {
        std::hash::Hash::hash(&object["metadata"][field].to_string(), &mut digest);
    }
    std::hash::Hasher::finish(&digest)
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
        };
        FakeApi { state: Mutex::new(state), served: watch::Sender::new(0) }
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

    /// Makes the next call of `verb` (`get`, `list`, `watch`, `create`, `update`, `update_status`, `delete`) on `kind` fail.
    pub fn refuse(&self, verb: &'static str, kind: &str, error: ApiError) {
        self.state.lock().refusals.push((verb, kind.to_owned(), error));
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
        state.objects.get(&resource)?.get(&key)?.value().ok()
    }

    /// Every object of a kind as JSON, in key order.
    pub fn values(&self, api_version: &str, kind: &str) -> Vec<Value> {
        let state = self.state.lock();
        let objects = state.resource_of(api_version, kind).and_then(|resource| state.objects.get(&resource));
        objects.into_iter().flat_map(BTreeMap::values).filter_map(|object| object.value().ok()).collect()
    }
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or("")
}

fn key_of(resource: &Resource, object: &Value) -> Key {
    let namespace = if resource.namespaced { text(object, "namespace") } else { "" };
    Key { namespace: namespace.into(), name: text(object, "name").into() }
}

fn finalizers(object: &Value) -> Vec<Value> {
    object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default()
}

fn set(object: &mut Value, field: &str, value: Option<Value>) {
    let Some(members) = object.as_object_mut() else { return };
    match value {
        Some(value) => drop(members.insert(field.to_owned(), value)),
        None => drop(members.remove(field)),
    }
}

/// Whether nothing holds an object that is going.
fn may_go(resource: &Resource, object: &Value) -> bool {
    let namespace_holds = &*resource.kind == "Namespace"
        && object["spec"]["finalizers"].as_array().is_some_and(|f| !f.is_empty());
    finalizers(object).is_empty() && !namespace_holds
}

fn content(object: &Value) -> Map<String, Value> {
    let mut members = object.as_object().cloned().unwrap_or_default();
    members.remove("metadata");
    members.remove("status");
    members
}

impl State {
    fn resource_of(&self, api_version: &str, kind: &str) -> Option<Resource> {
        self.resources.iter().find(|r| &*r.kind == kind && r.api_version() == api_version).cloned()
    }

    fn check(&mut self, verb: &'static str, resource: &Resource) -> Result<(), ApiError> {
        if !self.resources.contains(resource) {
            return Err(ApiError::NotFound(format!("{} are not served", resource.plural)));
        }
        let refused = self.refusals.iter().position(|(v, kind, _)| *v == verb && *kind == *resource.kind);
        refused.map_or(Ok(()), |at| Err(self.refusals.remove(at).2))
    }

    fn new_uid(&mut self) -> String {
        self.uids += 1;
        format!("00000000-0000-4000-8000-{:012}", self.uids)
    }

    fn now_text(&self) -> String {
        self.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    fn live(&self, resource: &Resource, key: &Key) -> Result<Arc<Object>, ApiError> {
        let found = self.objects.get(resource).and_then(|objects| objects.get(key));
        found
            .cloned()
            .ok_or_else(|| ApiError::NotFound(format!("{} \"{}\" not found", resource.plural, key.name)))
    }

    fn stamped(&mut self, resource: &Resource, mut object: Value) -> Arc<Object> {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
        Arc::new(Object {
            key: key_of(resource, &object),
            uid: text(&object, "uid").into(),
            revision: self.revision,
            generation: object["metadata"]["generation"].as_i64().unwrap_or(0),
            deleting: object["metadata"]["deletionTimestamp"].is_string(),
            marks: marks(&object),
            labels: labels.filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned()))).collect(),
            source: Arc::new(Bytes::from(object.to_string())),
        })
    }

    fn store(&mut self, resource: &Resource, object: Value) -> Arc<Object> {
        let object = self.stamped(resource, object);
        self.objects.entry(resource.clone()).or_default().insert(object.key.clone(), object.clone());
        self.tell(resource, &Change::Applied(object.clone()));
        object
    }

    fn remove(&mut self, resource: &Resource, object: Value) -> Arc<Object> {
        let object = self.stamped(resource, object);
        self.objects.entry(resource.clone()).or_default().remove(&object.key);
        self.tell(resource, &Change::Deleted(object.clone()));
        object
    }

    fn tell(&mut self, resource: &Resource, change: &Change) {
        let (Change::Applied(object) | Change::Deleted(object)) = change;
        self.watchers.retain(|watcher| {
            let meant = watcher.resource == *resource
                && (watcher.namespace.is_empty() || *watcher.namespace == *object.key.namespace);
            !meant || watcher.changes.try_send(change.clone()).is_ok()
        });
    }

    fn create(&mut self, resource: &Resource, mut object: Value) -> Result<Arc<Object>, ApiError> {
        self.check("create", resource)?;
        if text(&object, "name").is_empty() && !text(&object, "generateName").is_empty() {
            let name = format!("{}{:05}", text(&object, "generateName"), self.uids + 1);
            object["metadata"]["name"] = json!(name);
        }
        let key = key_of(resource, &object);
        if key.name.is_empty() || resource.namespaced == key.namespace.is_empty() {
            return Err(ApiError::Invalid(format!(
                "{} need a name, and a namespace if in one",
                resource.plural
            )));
        }
        self.check_namespace(&key)?;
        if self.live(resource, &key).is_ok() {
            return Err(ApiError::AlreadyExists(format!(
                "{} \"{}\" already exists",
                resource.plural, key.name
            )));
        }
        object["apiVersion"] = json!(resource.api_version());
        object["kind"] = json!(resource.kind);
        if !WITHOUT_STATUS.contains(&&*resource.kind) {
            let first = (&*resource.kind == "Namespace").then(|| json!({"phase": "Active"}));
            set(&mut object, "status", first);
            object["metadata"]["generation"] = json!(1);
        }
        if &*resource.kind == "Namespace" {
            object["spec"]["finalizers"] = json!(["kubernetes"]);
        }
        object["metadata"]["uid"] = json!(self.new_uid());
        object["metadata"]["creationTimestamp"] = json!(self.now_text());
        set(&mut object["metadata"], "deletionTimestamp", None);
        Ok(self.store(resource, object))
    }

    fn check_namespace(&self, key: &Key) -> Result<(), ApiError> {
        let Some(namespaces) = self.resource_of("v1", "Namespace") else { return Ok(()) };
        let namespace = Key { namespace: "".into(), name: key.namespace.clone() };
        match self.live(&namespaces, &namespace) {
            Ok(namespace) if namespace.deleting => Err(ApiError::Forbidden {
                reason: "Forbidden".into(),
                message: format!("namespace {} is being terminated", key.namespace),
            }),
            _ => Ok(()),
        }
    }

    /// The live object, if the writer read it as it stands.
    fn read_at(&self, resource: &Resource, object: &Value) -> Result<Value, ApiError> {
        let live = self.live(resource, &key_of(resource, object))?;
        let version = text(object, "resourceVersion");
        if version.is_empty() {
            return Err(ApiError::Invalid(
                "metadata.resourceVersion: must be specified for an update".into(),
            ));
        }
        let uid = text(object, "uid");
        if version != live.revision.to_string() || (!uid.is_empty() && *uid != *live.uid) {
            return Err(ApiError::Conflict(format!(
                "{} \"{}\" has been modified",
                resource.plural, live.key.name
            )));
        }
        live.value()
    }

    fn update(&mut self, resource: &Resource, mut object: Value) -> Result<Arc<Object>, ApiError> {
        self.check("update", resource)?;
        let old = self.read_at(resource, &object)?;
        for kept in
            ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"]
        {
            set(&mut object["metadata"], kept, old["metadata"].get(kept).cloned());
        }
        if !WITHOUT_STATUS.contains(&&*resource.kind) {
            set(&mut object, "status", old.get("status").cloned());
            if content(&object) != content(&old) {
                let generation = old["metadata"]["generation"].as_i64().unwrap_or(0);
                object["metadata"]["generation"] = json!(generation + 1);
            }
        }
        if object == old {
            return self.live(resource, &key_of(resource, &object));
        }
        if object["metadata"]["deletionTimestamp"].is_string() && may_go(resource, &object) {
            return Ok(self.remove(resource, object));
        }
        Ok(self.store(resource, object))
    }

    fn update_status(&mut self, resource: &Resource, object: &Value) -> Result<Arc<Object>, ApiError> {
        self.check("update_status", resource)?;
        let old = self.read_at(resource, object)?;
        let mut new = old.clone();
        set(&mut new, "status", object.get("status").cloned());
        if new == old {
            return self.live(resource, &key_of(resource, object));
        }
        Ok(self.store(resource, new))
    }

    fn delete(
        &mut self,
        resource: &Resource,
        key: &Key,
        uid: &str,
        propagation: Propagation,
    ) -> Result<(), ApiError> {
        self.check("delete", resource)?;
        let live = self.live(resource, key)?;
        if !uid.is_empty() && *uid != *live.uid {
            return Err(ApiError::Conflict(format!("uid in precondition: {uid}, in object: {}", live.uid)));
        }
        let old = live.value()?;
        let mut new = old.clone();
        let mut held = finalizers(&new);
        held.retain(|finalizer| finalizer != "orphan" && finalizer != "foregroundDeletion");
        match propagation {
            Propagation::Background => {}
            Propagation::Foreground => held.push(json!("foregroundDeletion")),
            Propagation::Orphan => held.push(json!("orphan")),
        }
        let held = (!held.is_empty()).then_some(Value::Array(held));
        set(&mut new["metadata"], "finalizers", held);
        if !live.deleting {
            new["metadata"]["deletionTimestamp"] = json!(self.now_text());
            new["metadata"]["deletionGracePeriodSeconds"] = json!(0);
        }
        if &*resource.kind == "Namespace" {
            new["status"]["phase"] = json!("Terminating");
        }
        if may_go(resource, &new) {
            self.remove(resource, new);
        } else if new != old {
            self.store(resource, new);
        }
        Ok(())
    }
}

#[async_trait::async_trait]
impl Api for FakeApi {
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
        let mut new = live.value()?;
        for (field, value) in
            object.as_object().into_iter().flatten().filter(|(field, _)| *field != "metadata")
        {
            new[field] = value.clone();
        }
        state.update(resource, new)
    }

    async fn update_status(&self, resource: &Resource, object: Value) -> Result<Arc<Object>, ApiError> {
        self.state.lock().update_status(resource, &object)
    }

    async fn delete(
        &self,
        resource: &Resource,
        key: &Key,
        uid: &str,
        propagation: Propagation,
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
            api.delete(&kind, &grown.key, "another", Propagation::Background).await,
            Err(ApiError::Conflict(_))
        ));
        api.delete(&kind, &grown.key, &grown.uid, Propagation::Background).await.unwrap();
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
        api.delete(&kind, &b.key, "", Propagation::Background).await.unwrap();
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
