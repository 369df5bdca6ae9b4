//! What the port over memory remembers: objects by kind and key, watchers, and the rules of a write.
//!
//! In: one request at a time. Out: the object as it stands then, told to the watchers of its kind.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use karmada_api::admission::{self, Context, Operation};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use parking_lot::Mutex;

use super::super::JsonSource;
use super::{ApiError, Change, DeletionPropagation, Key, Object, Resource};

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

pub(super) struct State {
    pub(super) resources: Arc<[Resource]>,
    pub(super) objects: BTreeMap<Resource, BTreeMap<Key, Arc<Object>>>,
    pub(super) watchers: Vec<Watcher>,
    pub(super) revision: u64,
    pub(super) uids: u64,
    pub(super) now: jiff::Timestamp,
    pub(super) refusals: Vec<(&'static str, String, ApiError)>,
    pub(super) calls: Calls,
    pub(super) writes: u64,
    pub(super) trouble: Option<Trouble>,
}

/// Writes that fail: one, or one and all that follow it.
pub(super) struct Trouble {
    pub(super) at: u64,
    pub(super) lasts: bool,
    pub(super) error: ApiError,
}

/// Verbs that change something.
const WRITES: [&str; 5] = ["create", "update", "scale", "update_status", "delete"];

/// Kinds that have a scale.
const SCALED: [&str; 3] = ["Deployment", "ReplicaSet", "StatefulSet"];

/// How often each verb was called for each kind; `read` where somebody took the JSON of an object.
pub(super) type Calls = Arc<Mutex<BTreeMap<(&'static str, String), u64>>>;

/// An object's JSON, and who read it.
#[derive(Debug)]
struct Counted {
    json: Bytes,
    kind: String,
    calls: Calls,
}

impl JsonSource for Counted {
    fn json(&self) -> Bytes {
        *self.calls.lock().entry(("read", self.kind.clone())).or_default() += 1;
        self.json.clone()
    }
}

pub(super) struct Watcher {
    pub(super) resource: Resource,
    pub(super) namespace: String,
    pub(super) changes: mpsc::Sender<Change>,
}

/// As the hub's: a digest of what is set in metadata without raising the generation.
fn metadata_digest(object: &Value) -> u64 {
    let mut digest = std::hash::DefaultHasher::new();
    for field in ["labels", "annotations", "ownerReferences", "finalizers"] {
        std::hash::Hash::hash(&object["metadata"][field].to_string(), &mut digest);
    }
    std::hash::Hasher::finish(&digest)
}

fn uid(number: u64) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
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

/// As errors call a resource: with its group, where it has one.
fn full_name(resource: &Resource) -> String {
    if resource.group.is_empty() {
        resource.plural.to_string()
    } else {
        format!("{}.{}", resource.plural, resource.group)
    }
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
    pub(super) fn resource_of(&self, api_version: &str, kind: &str) -> Option<Resource> {
        self.resources.iter().find(|r| &*r.kind == kind && r.api_version() == api_version).cloned()
    }

    pub(super) fn check(&mut self, verb: &'static str, resource: &Resource) -> Result<(), ApiError> {
        *self.calls.lock().entry((verb, resource.kind.to_string())).or_default() += 1;
        if !self.resources.contains(resource) {
            return Err(ApiError::NotFound(format!("{} are not served", resource.plural)));
        }
        if WRITES.contains(&verb) {
            self.writes += 1;
            if let Some(Trouble { at, lasts, error }) = &self.trouble
                && (self.writes == *at || (*lasts && self.writes > *at))
            {
                return Err(error.clone());
            }
        }
        let refused = self.refusals.iter().position(|(v, kind, _)| *v == verb && *kind == *resource.kind);
        refused.map_or(Ok(()), |at| Err(self.refusals.remove(at).2))
    }

    pub(super) fn new_uid(&mut self) -> String {
        self.uids += 1;
        uid(self.uids)
    }

    pub(super) fn now_text(&self) -> String {
        karmada_api::time::seconds(self.now)
    }

    pub(super) fn live(&self, resource: &Resource, key: &Key) -> Result<Arc<Object>, ApiError> {
        let found = self.objects.get(resource).and_then(|objects| objects.get(key));
        found
            .cloned()
            .ok_or_else(|| ApiError::NotFound(format!("{} \"{}\" not found", full_name(resource), key.name)))
    }

    pub(super) fn stamped(&mut self, resource: &Resource, mut object: Value) -> Arc<Object> {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
        Arc::new(Object {
            key: key_of(resource, &object),
            uid: text(&object, "uid").into(),
            revision: self.revision,
            generation: object["metadata"]["generation"].as_i64().unwrap_or(0),
            deleting: object["metadata"]["deletionTimestamp"].is_string(),
            metadata_digest: metadata_digest(&object),
            labels: labels.filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned()))).collect(),
            json_source: Arc::new(Counted {
                json: Bytes::from(object.to_string()),
                kind: resource.kind.to_string(),
                calls: self.calls.clone(),
            }),
        })
    }

    pub(super) fn store(&mut self, resource: &Resource, object: Value) -> Arc<Object> {
        let object = self.stamped(resource, object);
        self.objects.entry(resource.clone()).or_default().insert(object.key.clone(), object.clone());
        self.tell(resource, &Change::Applied(object.clone()));
        object
    }

    pub(super) fn remove(&mut self, resource: &Resource, object: Value) -> Arc<Object> {
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

    pub(super) fn create(&mut self, resource: &Resource, mut object: Value) -> Result<Arc<Object>, ApiError> {
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
        self.admit(resource, Operation::Create, &mut object, None);
        Ok(self.store(resource, object))
    }

    /// Completes an object as the hub does: Karmada's kinds get their ids and defaults.
    fn admit(&mut self, resource: &Resource, operation: Operation, new: &mut Value, old: Option<&Value>) {
        let uids = std::cell::Cell::new(self.uids);
        let new_uuid = || {
            uids.set(uids.get() + 1);
            uid(uids.get())
        };
        let context = Context { now: self.now, new_uuid: &new_uuid, grades: Default::default() };
        admission::mutate(&resource.group, &resource.kind, operation, new, old, &context);
        self.uids = uids.get();
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
        self.peek(resource, &live)
    }

    /// The object, without counting that it was read.
    pub(super) fn peek(&self, resource: &Resource, object: &Object) -> Result<Value, ApiError> {
        let value = object.value();
        if let Some(count) = self.calls.lock().get_mut(&("read", resource.kind.to_string())) {
            *count -= 1;
        }
        value
    }

    pub(super) fn update(&mut self, resource: &Resource, object: Value) -> Result<Arc<Object>, ApiError> {
        self.check("update", resource)?;
        self.change(resource, object)
    }

    pub(super) fn scale(
        &mut self,
        resource: &Resource,
        key: &Key,
        replicas: i32,
    ) -> Result<Arc<Object>, ApiError> {
        self.check("scale", resource)?;
        if !SCALED.contains(&&*resource.kind) {
            return Err(ApiError::NotFound("the server could not find the requested resource".into()));
        }
        let live = self.live(resource, key)?;
        let mut object = self.peek(resource, &live)?;
        object["spec"]["replicas"] = json!(replicas);
        self.change(resource, object)
    }

    fn change(&mut self, resource: &Resource, mut object: Value) -> Result<Arc<Object>, ApiError> {
        let old = self.read_at(resource, &object)?;
        for kept in
            ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"]
        {
            set(&mut object["metadata"], kept, old["metadata"].get(kept).cloned());
        }
        self.admit(resource, Operation::Update, &mut object, Some(&old));
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

    pub(super) fn update_status(
        &mut self,
        resource: &Resource,
        object: &Value,
    ) -> Result<Arc<Object>, ApiError> {
        self.check("update_status", resource)?;
        let old = self.read_at(resource, object)?;
        let mut new = old.clone();
        set(&mut new, "status", object.get("status").cloned());
        if new == old {
            return self.live(resource, &key_of(resource, object));
        }
        Ok(self.store(resource, new))
    }

    pub(super) fn delete(
        &mut self,
        resource: &Resource,
        key: &Key,
        uid: &str,
        propagation: DeletionPropagation,
    ) -> Result<(), ApiError> {
        self.check("delete", resource)?;
        let live = self.live(resource, key)?;
        if !uid.is_empty() && *uid != *live.uid {
            return Err(ApiError::Conflict(format!("uid in precondition: {uid}, in object: {}", live.uid)));
        }
        let old = self.peek(resource, &live)?;
        let mut new = old.clone();
        let mut held = finalizers(&new);
        held.retain(|finalizer| finalizer != "orphan" && finalizer != "foregroundDeletion");
        match propagation {
            DeletionPropagation::Background => {}
            DeletionPropagation::Foreground => held.push(json!("foregroundDeletion")),
            DeletionPropagation::Orphan => held.push(json!("orphan")),
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
