//! A member in memory, for the demo and for simulation: enough of a cluster that workloads become ready.
//!
//! In: a name, a number of nodes, and the calls of [`Member`]; troubles that a test wants. Out: objects and events, as a cluster gives
//! them. It runs on the caller's runtime, and keeps nothing on a disk.
//!
//! It merges applied fields into what is there (lists whole), knows which of them the agent owns ([`ownership`]), counts generations and
//! versions, refuses objects in namespaces that do not exist, serves kinds of CRDs applied to it, and plays the controllers: a Deployment,
//! a StatefulSet, a DaemonSet, a Job or a Pod becomes ready a moment after its spec changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use karmada_api::cluster::{ApiEnablement, ApiResource};
use karmada_api::object;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::broadcast;

use self::naming::as_version;
use self::ready::ready_status;
use self::writes::Write;
use super::{Gvk, Member, MemberError, MemberEvent, ObjectId, Probe, Unserved, Watch};

mod naming;
mod ownership;
mod ready;
mod writes;

/// Kinds served from the start: apiVersion, kind, plural, namespaced.
const KINDS: &[(&str, &str, &str, bool)] = &[
    ("v1", "Namespace", "namespaces", false),
    ("v1", "Node", "nodes", false),
    ("v1", "Pod", "pods", true),
    ("v1", "Service", "services", true),
    ("v1", "ConfigMap", "configmaps", true),
    ("v1", "Secret", "secrets", true),
    ("v1", "ServiceAccount", "serviceaccounts", true),
    ("v1", "PersistentVolumeClaim", "persistentvolumeclaims", true),
    ("v1", "PersistentVolume", "persistentvolumes", false),
    ("v1", "ResourceQuota", "resourcequotas", true),
    ("v1", "LimitRange", "limitranges", true),
    ("apps/v1", "Deployment", "deployments", true),
    ("apps/v1", "ReplicaSet", "replicasets", true),
    ("apps/v1", "StatefulSet", "statefulsets", true),
    ("apps/v1", "DaemonSet", "daemonsets", true),
    ("batch/v1", "Job", "jobs", true),
    ("batch/v1", "CronJob", "cronjobs", true),
    ("networking.k8s.io/v1", "Ingress", "ingresses", true),
    ("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", true),
    ("discovery.k8s.io/v1", "EndpointSlice", "endpointslices", true),
    ("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", true),
    ("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", true),
    ("rbac.authorization.k8s.io/v1", "Role", "roles", true),
    ("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings", true),
    ("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", false),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterrolebindings", false),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", false),
];

/// Events that a watcher may lag behind before it lists anew.
const LAG: usize = 1024;

/// A cluster in memory. Clones are the same cluster.
#[derive(Clone)]
pub struct MemoryMember {
    inner: Arc<Inner>,
}

struct Inner {
    delay: Duration,
    state: Mutex<State>,
    events: broadcast::Sender<MemberEvent>,
}

/// How an object gets into the cluster.
#[derive(Debug, Clone, Copy)]
enum Put {
    /// By the agent, where there is none.
    Create,
    /// By the agent, over what is there.
    Write,
    /// By somebody else, where there is none; no controller acts on it.
    Seed,
    /// By somebody else or a controller, over what is there.
    Edit,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<ObjectId, Value>,
    kinds: BTreeMap<Gvk, (String, bool)>,
    unserved: BTreeMap<Gvk, (String, bool)>,
    version: u64,
    uids: u64,
    writes: u64,
    probe: Option<Probe>,
    failures: BTreeMap<String, MemberError>,
    lateness: Duration,
    list_lateness: Duration,
    distance: Duration,
    unanswered: Option<Duration>,
    away: bool,
    breaks: u64,
}

impl MemoryMember {
    /// A cluster named `name` with `nodes` nodes; workloads become ready after `delay`.
    pub fn new(name: &str, nodes: usize, delay: Duration) -> Self {
        let (events, _) = broadcast::channel(LAG);
        let mut state = State::default();
        for (api_version, kind, plural, namespaced) in KINDS {
            state.kinds.insert(Gvk::new(api_version, kind), ((*plural).to_owned(), *namespaced));
        }
        let member = Self { inner: Arc::new(Inner { delay, state: Mutex::new(state), events }) };
        for namespace in ["default", "kube-system", "kube-public", "kube-node-lease"] {
            let uid = format!("{name}-{namespace}");
            member.seed(json!({"apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": namespace, "uid": uid}, "status": {"phase": "Active"}}));
        }
        for at in 0..nodes {
            member.seed(json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": format!("{name}-{at}")},
            "status": {
                "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110", "ephemeral-storage": "64Gi"},
                "conditions": [{"type": "Ready", "status": "True"}],
            }}));
        }
        member
    }

    /// Puts an object as somebody else would, past the agent.
    pub fn seed(&self, object: Value) {
        let _ = self.put(&mut self.inner.state.lock(), object, Put::Seed);
    }

    /// Changes an object as somebody else would. False where there is none.
    pub fn edit(&self, id: &ObjectId, change: impl FnOnce(&mut Value)) -> bool {
        let mut state = self.inner.state.lock();
        let Some(mut object) = state.read(id) else { return false };
        change(&mut object);
        self.put(&mut state, object, Put::Edit).is_ok()
    }

    /// Removes an object as somebody else would. False where there is none.
    pub fn remove(&self, id: &ObjectId) -> bool {
        self.taken_out(&mut self.inner.state.lock(), id)
    }

    fn taken_out(&self, state: &mut State, id: &ObjectId) -> bool {
        let id = state.kept_as(id);
        let removed = state.objects.remove(&id).is_some();
        if removed {
            state.version += 1;
            let _ = self.inner.events.send(MemberEvent::Gone(id));
        }
        removed
    }

    /// An object as it is, in the version that is asked for.
    pub fn read(&self, id: &ObjectId) -> Option<Value> {
        self.inner.state.lock().read(id)
    }

    /// All objects' names.
    pub fn ids(&self) -> BTreeSet<ObjectId> {
        self.inner.state.lock().objects.keys().cloned().collect()
    }

    /// Writes that changed something, the agent's and others'.
    pub fn writes(&self) -> u64 {
        self.inner.state.lock().writes
    }

    /// What the health probe says from now on.
    pub fn set_probe(&self, probe: Probe) {
        self.inner.state.lock().probe = Some(probe);
    }

    /// The agent's writes of objects named `name` fail like this; `None`: no more.
    pub fn fail(&self, name: &str, error: Option<MemberError>) {
        let failures = &mut self.inner.state.lock().failures;
        match error {
            Some(error) => failures.insert(name.to_owned(), error),
            None => failures.remove(name),
        };
    }

    /// Lists are told so long after they were made; the changes of meanwhile after them.
    pub fn list_late(&self, lateness: Duration) {
        self.inner.state.lock().list_lateness = lateness;
    }

    /// The agent's writes are answered this late: what came of them is watched before.
    pub fn answer_late(&self, lateness: Duration) {
        self.inner.state.lock().lateness = lateness;
    }

    /// The agent's writes get no answer from now on, and are carried out this much later all the same; `None`: no more.
    pub fn carry_out_late(&self, lateness: Option<Duration>) {
        self.inner.state.lock().unanswered = lateness;
    }

    /// It is far away: what is read is told so long after it was so, and what is written or deleted is carried out so long after it was asked.
    pub fn far_away(&self, distance: Duration) {
        self.inner.state.lock().distance = distance;
    }

    async fn on_the_way(&self) {
        let distance = self.inner.state.lock().distance;
        if !distance.is_zero() {
            tokio::time::sleep(distance).await;
        }
    }

    /// It serves a kind no longer, though its objects are there, or again.
    pub fn set_served(&self, gvk: &Gvk, served: bool) {
        let mut state = self.inner.state.lock();
        match (served, state.kinds.remove(gvk)) {
            (false, Some(resource)) => drop(state.unserved.insert(gvk.clone(), resource)),
            (true, known) => {
                if let Some(resource) = known.or_else(|| state.unserved.remove(gvk)) {
                    state.kinds.insert(gvk.clone(), resource);
                }
            }
            (false, None) => {}
        }
    }

    /// It answers nothing from now on, or answers again.
    pub fn set_away(&self, away: bool) {
        self.inner.state.lock().away = away;
    }

    /// Another cluster answers from now on, by its kube-system's uid.
    pub fn becomes(&self, uid: &str) {
        let mut state = self.inner.state.lock();
        let id = ObjectId {
            gvk: Gvk::new("v1", "Namespace"),
            namespace: String::new(),
            name: "kube-system".into(),
        };
        if let Some(namespace) = state.objects.get_mut(&id) {
            object::metadata(namespace).insert("uid".into(), uid.into());
        }
    }

    fn reached(&self) -> Result<(), MemberError> {
        self.inner.state.lock().reached()
    }

    /// Stores `object` and starts what its controller would do. What it was made from was read under the same lock: an object that was
    /// removed meanwhile does not come back.
    fn put(&self, state: &mut State, mut object: Value, put: Put) -> Result<Value, MemberError> {
        let asked = Gvk::of(&object);
        let id = state.kept_as(&ObjectId::of(&object));
        as_version(&mut object, &id.gvk);
        if id.namespace.is_empty() {
            object::metadata(&mut object).remove("namespace");
        }
        let old = state.objects.get(&id).cloned();
        if matches!(put, Put::Create | Put::Seed) && old.is_some() {
            return Err(MemberError::Conflict(format!("{id} already exists")));
        }
        if old.as_ref().is_some_and(|old| same(old, &object)) {
            as_version(&mut object, &asked);
            return Ok(old.map_or(object, |mut old| {
                as_version(&mut old, &asked);
                old
            }));
        }
        state.version += 1;
        state.writes += 1;
        let spec = |v: &Value| v.get("spec").cloned();
        let changed_spec = old.as_ref().is_none_or(|old| spec(old) != spec(&object));
        let generation = old.as_ref().map_or(0, object::generation) + i64::from(changed_spec);
        let version = state.version.to_string();
        let uid = match old.as_ref().map(object::uid).filter(|uid| !uid.is_empty()) {
            Some(uid) => uid.to_owned(),
            None if object::uid(&object).is_empty() => {
                state.uids += 1;
                format!("00000000-0000-4000-8000-{:012}", state.uids)
            }
            None => object::uid(&object).to_owned(),
        };
        let metadata = object::metadata(&mut object);
        metadata.insert("uid".into(), uid.into());
        metadata.insert("resourceVersion".into(), version.into());
        metadata.insert("generation".into(), generation.into());
        if id.gvk.kind == "CustomResourceDefinition" {
            state.establish(&object);
        }
        state.objects.insert(id.clone(), object.clone());
        let _ = self.inner.events.send(MemberEvent::Object(Box::new(object.clone())));
        if matches!(put, Put::Create | Put::Write) && changed_spec {
            self.play(id);
        }
        as_version(&mut object, &asked);
        Ok(object)
    }

    /// The controller of `id` brings its status up to its spec after the delay.
    fn play(&self, id: ObjectId) {
        let member = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(member.inner.delay).await;
            member.edit(&id, |object| {
                if let Some(status) = ready_status(object) {
                    object::root(object).insert("status".into(), status);
                }
            });
        });
    }
}

impl State {
    fn read(&self, id: &ObjectId) -> Option<Value> {
        let mut object = self.objects.get(&self.kept_as(id)).cloned()?;
        as_version(&mut object, &id.gvk);
        Some(object)
    }

    /// Its clock moves on by a second with each write.
    fn clock(&self) -> String {
        jiff::Timestamp::from_second(self.version as i64).unwrap_or_default().to_string()
    }

    fn reached(&mut self) -> Result<(), MemberError> {
        if self.away {
            self.breaks += 1;
            return Err(MemberError::Unreachable("switched off".into()));
        }
        Ok(())
    }

    /// Whether the agent may write an object of this name.
    fn check(&mut self, id: &ObjectId) -> Result<(), MemberError> {
        self.reached()?;
        if let Some(error) = self.failures.get(&id.name) {
            return Err(error.clone());
        }
        let namespaced = self.named(id)?;
        let home = ObjectId {
            gvk: Gvk::new("v1", "Namespace"),
            namespace: String::new(),
            name: id.namespace.clone(),
        };
        if namespaced && !self.objects.contains_key(&home) {
            return Err(MemberError::NotFound(format!("namespaces \"{}\" not found", id.namespace)));
        }
        Ok(())
    }

    /// The kinds of a CustomResourceDefinition are served from now on.
    fn establish(&mut self, definition: &Value) {
        let text =
            |path: &str| definition.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (group, kind, plural) =
            (text("/spec/group"), text("/spec/names/kind"), text("/spec/names/plural"));
        let namespaced = text("/spec/scope") == "Namespaced";
        let versions = definition.pointer("/spec/versions").and_then(Value::as_array);
        for version in versions.into_iter().flatten() {
            let version = version.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
            let gvk = Gvk { group: group.clone(), version, kind: kind.clone() };
            self.kinds.insert(gvk, (plural.clone(), namespaced));
        }
    }
}

/// Whether two objects differ in nothing but what the server counts.
fn same(a: &Value, b: &Value) -> bool {
    let plain = |v: &Value| {
        let mut v = v.clone();
        let metadata = object::metadata(&mut v);
        for counted in ["resourceVersion", "generation", "uid"] {
            metadata.remove(counted);
        }
        v
    };
    plain(a) == plain(b)
}

/// Whether a watch is of this object; by its labels, too, where the object is there.
fn is_of(watch: &Watch, id: &ObjectId, object: Option<&Value>) -> bool {
    let chosen = match watch.labels.split_once('=') {
        Some((key, value)) => object.and_then(|object| object::label(object, key)) == Some(value),
        None => true,
    };
    let inside = watch.namespace.is_empty() || id.namespace.is_empty() || id.namespace == watch.namespace;
    let same_kind = (&id.gvk.group, &id.gvk.kind) == (&watch.gvk.group, &watch.gvk.kind);
    same_kind && inside && (chosen || object.is_none())
}

#[async_trait]
impl Member for MemoryMember {
    async fn get(&self, id: &ObjectId) -> Result<Option<Value>, MemberError> {
        self.reached()?;
        self.inner.state.lock().named(id)?;
        let read = self.read(id);
        self.on_the_way().await;
        Ok(read)
    }

    async fn apply(&self, object: &Value) -> Result<Value, MemberError> {
        self.write(Write::Apply(object.clone())).await
    }

    async fn create(&self, object: &Value) -> Result<Value, MemberError> {
        self.write(Write::Create(object.clone())).await
    }

    async fn update(&self, object: &Value) -> Result<Value, MemberError> {
        self.write(Write::Update(object.clone())).await
    }

    async fn merge(&self, id: &ObjectId, patch: &Value) -> Result<Value, MemberError> {
        self.write(Write::Merge(id.clone(), patch.clone())).await
    }

    async fn delete(&self, id: &ObjectId, uid: &str) -> Result<(), MemberError> {
        self.on_the_way().await;
        let mut state = self.inner.state.lock();
        state.reached()?;
        if let Some(error) = state.failures.get(&id.name) {
            return Err(error.clone());
        }
        match state.read(id) {
            Some(object) if object::uid(&object) != uid => {
                Err(MemberError::Conflict(format!("{id} is another object by now")))
            }
            _ => {
                self.taken_out(&mut state, id);
                Ok(())
            }
        }
    }

    fn watch(&self, watch: Watch) -> BoxStream<'static, Result<MemberEvent, MemberError>> {
        if !self.inner.state.lock().kinds.contains_key(&watch.gvk) {
            let error = MemberError::NoKind(watch.gvk);
            return stream::once(async { Err(error) }).boxed();
        }
        let receiver = self.inner.events.subscribe();
        let gvk = watch.gvk.clone();
        let told = move |mut object: Value| {
            as_version(&mut object, &gvk);
            MemberEvent::Object(Box::new(object))
        };
        let gvk = watch.gvk.clone();
        let wanted = move |id: &ObjectId, object: Option<&Value>| is_of(&watch, id, object);
        let (listing, lateness) = {
            let state = self.inner.state.lock();
            let objects = state.objects.iter().filter(|(id, object)| wanted(id, Some(object)));
            let objects = objects.map(|(_, object)| told(object.clone()));
            let listing: Vec<MemberEvent> = objects.chain([MemberEvent::Listed]).collect();
            (listing, state.list_lateness)
        };
        let listing = stream::once(async move {
            tokio::time::sleep(lateness).await;
            stream::iter(listing)
        });
        let listing = stream::once(async { MemberEvent::Listing }).chain(listing.flatten());
        let live =
            stream::unfold((receiver, wanted, told, gvk), |(mut receiver, wanted, told, gvk)| async move {
                let gone = |id: ObjectId| MemberEvent::Gone(ObjectId { gvk: gvk.clone(), ..id });
                loop {
                    let event = match receiver.recv().await {
                        Ok(event) => event,
                        Err(broadcast::error::RecvError::Lagged(_)) => {
                            let lagged = MemberError::Unreachable("the watcher fell behind".into());
                            return Some((Err(lagged), (receiver, wanted, told, gvk)));
                        }
                        Err(broadcast::error::RecvError::Closed) => return None,
                    };
                    let event = match event {
                        MemberEvent::Object(object) => {
                            let id = ObjectId::of(&object);
                            match (wanted(&id, Some(&object)), wanted(&id, None)) {
                                (true, _) => told(*object),
                                // It lost the label that it is watched by.
                                (false, true) => gone(id),
                                _ => continue,
                            }
                        }
                        MemberEvent::Gone(id) if wanted(&id, None) => gone(id),
                        _ => continue,
                    };
                    return Some((Ok(event), (receiver, wanted, told, gvk)));
                }
            });
        listing.map(Ok).chain(live).boxed()
    }

    async fn resource(&self, gvk: &Gvk) -> Result<String, MemberError> {
        self.reached()?;
        let state = self.inner.state.lock();
        let known = state.kinds.get(gvk).map(|(plural, _)| plural.clone());
        known.ok_or_else(|| MemberError::NoKind(gvk.clone()))
    }

    async fn unserved(&self, gvk: &Gvk) -> Result<Unserved, MemberError> {
        self.reached()?;
        let state = self.inner.state.lock();
        let defines = |object: &Value| {
            let text = |path: &str| object.pointer(path).and_then(Value::as_str);
            text("/spec/group") == Some(&gvk.group) && text("/spec/names/kind") == Some(&gvk.kind)
        };
        if state.unserved.contains_key(gvk) && state.objects.values().any(defines) {
            return Ok(Unserved::Hidden);
        }
        let same = |other: &&Gvk| other.group == gvk.group && other.kind == gvk.kind;
        let other = state.kinds.keys().find(same).cloned();
        Ok(other.map_or(Unserved::Undefined, Unserved::As))
    }

    async fn api_enablements(&self) -> Result<(Vec<ApiEnablement>, bool), MemberError> {
        self.reached()?;
        let state = self.inner.state.lock();
        let mut groups: BTreeMap<String, Vec<ApiResource>> = BTreeMap::new();
        for (gvk, (plural, _)) in &state.kinds {
            let group_version = if gvk.group.is_empty() {
                gvk.version.clone()
            } else {
                format!("{}/{}", gvk.group, gvk.version)
            };
            let resource = ApiResource { name: plural.clone(), kind: gvk.kind.clone() };
            groups.entry(group_version).or_default().push(resource);
        }
        let sorted = groups.into_iter().map(|(group_version, mut resources)| {
            resources.sort();
            ApiEnablement { group_version, resources }
        });
        Ok((sorted.collect(), true))
    }

    async fn version(&self) -> Result<String, MemberError> {
        match self.probe().await {
            Probe::Unreachable => Err(MemberError::Unreachable("switched off".into())),
            _ => Ok("v1.34.1".into()),
        }
    }

    async fn probe(&self) -> Probe {
        if self.reached().is_err() {
            return Probe::Unreachable;
        }
        self.inner.state.lock().probe.unwrap_or(Probe::Ok)
    }

    fn breaks(&self) -> u64 {
        self.inner.state.lock().breaks
    }
}

#[cfg(test)]
mod tests;
