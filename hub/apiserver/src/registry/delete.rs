//! Deleting objects: preconditions, finalizers, what becomes of dependants.

use std::sync::Arc;

use karmada_store::{Expect, StoreError};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{AdmissionRequest, How, Operation, Registry, User, prepare, store_failed};
use crate::cache::storage_key;
use crate::object::{ObjectKey, Stored, encode, meta};
use crate::resource::ResourceDefinition;
use crate::status::Status;

const TRIES: usize = 16;

/// The body (or query) of a delete.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeleteOptions {
    /// Seconds until the object may be gone; 0 is at once.
    pub grace_period_seconds: Option<i64>,
    /// `Background`, `Foreground` or `Orphan`.
    pub propagation_policy: Option<String>,
    /// The older form of `Orphan`.
    pub orphan_dependents: Option<bool>,
    /// What must hold of the object.
    pub preconditions: Option<Preconditions>,
    /// `["All"]` for a dry run.
    pub dry_run: Vec<String>,
}

/// What must hold of an object for it to be deleted.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Preconditions {
    /// Its uid.
    pub uid: Option<String>,
    /// Its version.
    pub resource_version: Option<String>,
}

/// What becomes of dependants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Orphaning {
    /// Collected after the object is gone.
    Background,
    /// Collected before.
    Foreground,
    /// They stay.
    Orphan,
}

/// What a delete left behind.
#[derive(Debug)]
pub enum Deleted {
    /// The object is gone; this is how it last stood.
    Gone(Arc<Stored>),
    /// The object waits for its finalizers or its grace period.
    Pending(Arc<Stored>),
}

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

impl DeleteOptions {
    /// Reads the propagation, or says why it cannot be read.
    pub fn orphaning(&self, definition: &ResourceDefinition) -> Result<Orphaning, Status> {
        if self.orphan_dependents.is_some() && self.propagation_policy.is_some() {
            return Err(invalid_options(
                "FieldValueInvalid",
                "propagationPolicy",
                "Invalid value: orphanDependents and deletionPropagation cannot be both set",
            ));
        }
        match (self.propagation_policy.as_deref(), self.orphan_dependents) {
            (Some("Background"), _) | (None, Some(false)) => Ok(Orphaning::Background),
            (Some("Foreground"), _) => Ok(Orphaning::Foreground),
            (Some("Orphan"), _) | (None, Some(true)) => Ok(Orphaning::Orphan),
            (Some(other), _) => Err(invalid_options(
                "FieldValueNotSupported",
                "propagationPolicy",
                &format!(
                    "Unsupported value: \"{other}\": supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\""
                ),
            )),
            (None, None) => Ok(default_orphaning(definition)),
        }
    }
}

/// Jobs and ReplicationControllers orphan by default, as they did before garbage collection existed.
fn default_orphaning(definition: &ResourceDefinition) -> Orphaning {
    match (&*definition.group, &*definition.plural) {
        ("batch", "jobs") | ("", "replicationcontrollers") => Orphaning::Orphan,
        _ => Orphaning::Background,
    }
}

fn invalid_options(reason: &'static str, field: &str, message: &str) -> Status {
    let cause =
        crate::status::Cause { reason: reason.into(), message: message.to_owned(), field: field.to_owned() };
    Status::invalid("", "DeleteOptions", "", vec![cause])
}

impl Registry {
    /// Deletes the object at `key`, or marks it for deletion where something still holds it.
    pub async fn delete(
        &self,
        definition: &ResourceDefinition,
        key: &ObjectKey,
        options: &DeleteOptions,
        user: &User,
        dry_run: bool,
    ) -> Result<Deleted, Status> {
        let orphaning = options.orphaning(definition)?;
        for _ in 0..TRIES {
            let live = self.get(definition, &key.namespace, &key.name)?;
            check_preconditions(definition, &live, options.preconditions.as_ref())?;
            let whole = definition.custom.as_ref().is_some_and(|custom| custom.asks_webhook());
            // Marking an object for deletion needs no conversion, so that a webhook that is gone holds nothing up.
            let mut object =
                if whole { live.value() } else { prepare::from_storage(definition, live.value()) };
            let mut request = AdmissionRequest {
                definition,
                operation: Operation::Delete,
                key,
                object: &mut object,
                old: None,
                subresource: "",
                user,
                how: How::Delete(options, dry_run),
                warnings: &mut Vec::new(),
            };
            self.admit(&mut request).await?;
            self.admit_final(&mut request).await?;
            let marked = self.mark(definition, object, options, orphaning);
            if dry_run {
                return Ok(if marked.holds { Deleted::Pending(live) } else { Deleted::Gone(live) });
            }
            if let Some(done) = self.delete_once(definition, key, &live, marked).await? {
                return Ok(done);
            }
        }
        Err(Status::conflict(definition, &key.name))
    }

    async fn delete_once(
        &self,
        definition: &ResourceDefinition,
        key: &ObjectKey,
        live: &Arc<Stored>,
        marked: Marked,
    ) -> Result<Option<Deleted>, Status> {
        let path = storage_key(&definition.storage, key);
        if marked.holds && !marked.changed {
            return Ok(Some(Deleted::Pending(live.clone())));
        }
        let whole = definition.custom.as_ref().is_some_and(|custom| custom.asks_webhook());
        let stored = if whole { marked.object } else { prepare::to_storage(definition, marked.object) };
        let version = match stored["apiVersion"].as_str().filter(|_| whole) {
            Some(version) => version.to_owned(),
            None => definition.storage_api_version(),
        };
        let bytes = encode(&stored, &definition.kind, &version);
        let outcome = if marked.holds {
            self.store().put(&path, bytes.clone(), Expect::Revision(live.revision)).await
        } else {
            self.store().delete(&path, live.revision).await
        };
        match outcome {
            Ok(revision) => {
                self.cache().wait_for(revision).await;
                let object = Registry::stored(&bytes, revision)?;
                Ok(Some(if marked.holds { Deleted::Pending(object) } else { Deleted::Gone(object) }))
            }
            Err(StoreError::Conflict { current }) => {
                self.catch_up(current.map(|kv| kv.mod_revision)).await;
                Ok(None)
            }
            Err(error) => Err(store_failed(&error)),
        }
    }

    /// The object with its deletion marks.
    fn mark(
        &self,
        definition: &ResourceDefinition,
        mut object: Value,
        options: &DeleteOptions,
        orphaning: Orphaning,
    ) -> Marked {
        let before = object.clone();
        crate::kinds::mark_deleted(definition, &mut object, &self.now_text());
        let mut finalizers = meta::finalizers(&object);
        finalizers.retain(|f| f != ORPHAN && f != FOREGROUND);
        match orphaning {
            Orphaning::Background => {}
            Orphaning::Foreground => finalizers.push(FOREGROUND.to_owned()),
            Orphaning::Orphan => finalizers.push(ORPHAN.to_owned()),
        }
        let grace = grace_period(definition, &object, options);
        let namespace_holds = *definition.plural == *"namespaces"
            && definition.group.is_empty()
            && object["spec"]["finalizers"].as_array().is_some_and(|f| !f.is_empty());
        let holds = !finalizers.is_empty() || grace > 0 || namespace_holds;
        let metadata = meta::of(&mut object);
        if finalizers.is_empty() {
            metadata.remove("finalizers");
        } else {
            metadata.insert("finalizers".into(), json!(finalizers));
        }
        if !metadata.contains_key("deletionTimestamp") {
            metadata.insert("deletionTimestamp".into(), json!(self.now_text()));
            metadata.insert("deletionGracePeriodSeconds".into(), json!(grace));
            if let Some(generation) = metadata.get("generation").and_then(Value::as_i64) {
                metadata.insert("generation".into(), json!(generation + 1));
            }
        } else if metadata.get("deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(0) > grace {
            metadata.insert("deletionGracePeriodSeconds".into(), json!(grace));
        }
        if namespace_holds {
            object["status"] = json!({"phase": "Terminating"});
        }
        Marked { changed: object != before, object, holds }
    }
}

struct Marked {
    object: Value,
    holds: bool,
    changed: bool,
}

/// Only a Pod that a node runs is given time; on a hub no node runs Pods, but one may be mirrored.
fn grace_period(definition: &ResourceDefinition, object: &Value, options: &DeleteOptions) -> i64 {
    let is_pod = definition.group.is_empty() && *definition.plural == *"pods";
    let ended = matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    if !is_pod || ended || object["spec"]["nodeName"].as_str().unwrap_or("").is_empty() {
        return 0;
    }
    let spec = object["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap_or(30);
    options.grace_period_seconds.unwrap_or(spec).max(0)
}

fn check_preconditions(
    definition: &ResourceDefinition,
    live: &Stored,
    preconditions: Option<&Preconditions>,
) -> Result<(), Status> {
    let Some(wanted) = preconditions else { return Ok(()) };
    if let Some(uid) = wanted.uid.as_deref().filter(|uid| **uid != *live.uid) {
        let why =
            format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {}", live.uid);
        return Err(Status::conflict_because(definition, &live.key.name, &why));
    }
    let version = live.revision.to_string();
    if let Some(asked) = wanted.resource_version.as_deref().filter(|v| **v != version) {
        let why = format!(
            "Precondition failed: ResourceVersion in precondition: {asked}, ResourceVersion in object meta: {version}"
        );
        return Err(Status::conflict_because(definition, &live.key.name, &why));
    }
    Ok(())
}
