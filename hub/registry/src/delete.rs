//! Deleting objects: finalizers, what becomes of dependants. The preconditions are in `preconditions`.
//!
//! In: a definition, a key, what was asked of the delete, and who asks. Out: [`Deleted`], or a `Status`. Marks and removes in the store,
//! with the revision that was read, and tries again where another writer was faster; dependants are the garbage collector's business.

use std::sync::Arc;

use karmada_definitions::kind_row::BuiltinKind;
use karmada_definitions::resource::ResourceDefinition;
use karmada_definitions::status::Status;
use karmada_schema::object::{ObjectKey, Stored, encode, meta};
use karmada_schema::time;
use karmada_store::{Expect, StoreError};
use serde_json::{Value, json};

use crate::cache::storage_key;
use crate::registry::{Registry, store_failed};
use crate::registry_context::RegistryContext;
use crate::request::{AdmissionRequest, DeleteOptions, DeletionPropagation};
use crate::user::User;
use crate::{preconditions, storage};

const TRIES: usize = 16;

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

impl Registry {
    /// Deletes the object at `key`, or marks it for deletion where something still holds it.
    ///
    /// # Errors
    /// There is none (404), a gate refuses, a precondition does not hold, or other writers were faster in every try (409).
    pub async fn delete(
        &self,
        definition: &ResourceDefinition,
        key: &ObjectKey,
        options: &DeleteOptions,
        user: &User,
    ) -> Result<Deleted, Status> {
        let propagation = options.propagation()?;
        for _ in 0..TRIES {
            let live = self.get(definition, &key.namespace, &key.name)?;
            let whole = definition.custom.as_ref().is_some_and(|custom| custom.asks_webhook());
            // Marking an object for deletion needs no conversion, so that a webhook that is gone holds nothing up.
            let mut object =
                if whole { live.value() } else { storage::from_storage(definition, live.value()) };
            let mut request = AdmissionRequest::delete(definition, key, &mut object, user, options);
            if options.admitted {
                self.admission.admit(self, &mut request)?;
            } else {
                self.admit(&mut request).await?;
            }
            preconditions::of_delete(definition, &live, options.preconditions.as_ref())?;
            if !options.admitted {
                self.admit_final(&mut request).await?;
            }
            let marked = self.begin_deletion(definition, object, options, propagation);
            if options.is_dry() {
                let shown = self.encoded(definition, marked.object)?;
                let shown = RegistryContext::stored(&shown, live.revision)?;
                return Ok(match marked.then {
                    Then::Stay => Deleted::Pending(live),
                    Then::Keep => Deleted::Pending(shown),
                    Then::MarkAndGo | Then::Go => Deleted::Gone(shown),
                });
            }
            if let Some(done) = self.delete_once(definition, key, &live, marked).await? {
                return Ok(done);
            }
        }
        Err(Status::conflict(definition, &key.name))
    }

    fn encoded(&self, definition: &ResourceDefinition, object: Value) -> Result<bytes::Bytes, Status> {
        let whole = definition.custom.as_ref().is_some_and(|custom| custom.asks_webhook());
        let stored = if whole { object } else { storage::to_storage(definition, object) };
        let version = match stored["apiVersion"].as_str().filter(|_| whole) {
            Some(version) => version.to_owned(),
            None => definition.storage_api_version(),
        };
        Ok(encode(&stored, &definition.kind, &version))
    }

    async fn delete_once(
        &self,
        definition: &ResourceDefinition,
        key: &ObjectKey,
        live: &Arc<Stored>,
        marked: Marked,
    ) -> Result<Option<Deleted>, Status> {
        let path = storage_key(&definition.storage, key);
        if marked.then == Then::Stay {
            return Ok(Some(Deleted::Pending(live.clone())));
        }
        let bytes = self.encoded(definition, marked.object)?;
        let mut revision = live.revision;
        if matches!(marked.then, Then::Keep | Then::MarkAndGo) {
            let sealed = self.sealed(definition, &path, &bytes)?;
            match self.store().put(&path, sealed, Expect::Revision(revision)).await {
                Ok(written) => revision = written,
                Err(error) => return self.lost(error).await,
            }
        }
        if matches!(marked.then, Then::Go | Then::MarkAndGo) {
            match self.store().delete(&path, revision).await {
                Ok(written) => revision = written,
                Err(error) => return self.lost(error).await,
            }
        }
        self.cache().wait_for(revision).await;
        let object = RegistryContext::stored(&bytes, revision)?;
        Ok(Some(if marked.then == Then::Keep { Deleted::Pending(object) } else { Deleted::Gone(object) }))
    }

    /// Another writer was faster (`None`), or the store failed.
    async fn lost(&self, error: StoreError) -> Result<Option<Deleted>, Status> {
        match error {
            StoreError::Conflict { current } => {
                self.catch_up(current.map(|kv| kv.mod_revision)).await;
                Ok(None)
            }
            error => Err(store_failed(&error)),
        }
    }

    /// The object as being deleted (its deletion time, finalizers), and what happens to it.
    fn begin_deletion(
        &self,
        definition: &ResourceDefinition,
        mut object: Value,
        options: &DeleteOptions,
        propagation: Option<DeletionPropagation>,
    ) -> Marked {
        if definition.row.known == BuiltinKind::Namespace {
            return self.mark_namespace(object, propagation);
        }
        let is_pod = definition.row.known == BuiltinKind::Pod;
        if is_pod && let Some(done) = self.mark_pod(definition, &mut object, options, propagation) {
            return Marked { object, then: done };
        }
        let before = object.clone();
        let leaves = definition.row.mark_deleted;
        if let Some(mark) = leaves {
            mark(&mut object, &self.now_text());
        }
        // A definition's first delete waits for its instances, whatever is asked about dependants.
        if leaves.is_none() || meta::deleting(&before) {
            set_propagation_finalizers(definition, &mut object, propagation);
        }
        if meta::finalizers(&object).is_empty() {
            // It goes as it stands.
            return Marked { object: before, then: Then::Go };
        }
        if !karmada_definitions::crd::is_definition(definition) {
            self.mark_deleting(&mut object, 0);
        }
        let then = if object == before { Then::Stay } else { Then::Keep };
        Marked { object, then }
    }

    fn mark_deleting(&self, object: &mut Value, grace: i64) {
        // Times that no clock will ever show are asked for too.
        let until =
            self.now().saturating_add(jiff::SignedDuration::from_secs(grace)).unwrap_or(jiff::Timestamp::MAX);
        let metadata = meta::of(object);
        if !metadata.contains_key("deletionTimestamp") {
            metadata.insert("deletionTimestamp".into(), json!(time::seconds(until)));
            if let Some(generation) = metadata.get("generation").and_then(Value::as_i64) {
                metadata.insert("generation".into(), json!(generation.saturating_add(1)));
            }
        }
        metadata.insert("deletionGracePeriodSeconds".into(), json!(grace));
    }

    /// A namespace is emptied before it goes; its own finalizer waits for that.
    fn mark_namespace(&self, mut object: Value, propagation: Option<DeletionPropagation>) -> Marked {
        let before = object.clone();
        let first = object["metadata"]["deletionTimestamp"].is_null();
        if first {
            let now = self.now_text();
            meta::of(&mut object).insert("deletionTimestamp".into(), json!(now));
            if let Some(wanted) = propagation {
                set_propagation(&mut object, wanted);
            }
        }
        object["status"]["phase"] = json!("Terminating");
        let held = object["spec"]["finalizers"].as_array().is_some_and(|all| !all.is_empty())
            || !meta::finalizers(&object).is_empty();
        let then = match held {
            true if object == before => Then::Stay,
            true => Then::Keep,
            false => Then::Go,
        };
        Marked { object, then }
    }

    /// A Pod is given time where a node runs it. `None` where it is to go like anything else.
    fn mark_pod(
        &self,
        definition: &ResourceDefinition,
        object: &mut Value,
        options: &DeleteOptions,
        propagation: Option<DeletionPropagation>,
    ) -> Option<Then> {
        let asked = options.grace_period_seconds.map(|seconds| if seconds < 0 { 1 } else { seconds });
        if !object["metadata"]["deletionTimestamp"].is_null() {
            let left = object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
            return match asked {
                _ if left == 0 => None,
                Some(asked) if asked < left => {
                    set_propagation_finalizers(definition, object, propagation);
                    meta::of(object).insert("deletionGracePeriodSeconds".into(), json!(asked));
                    let now = self.now_text();
                    meta::of(object).insert("deletionTimestamp".into(), json!(now));
                    Some(held_or(object, asked))
                }
                _ => Some(Then::Stay),
            };
        }
        let grace = grace_period(object, asked);
        set_propagation_finalizers(definition, object, propagation);
        self.mark_deleting(object, grace);
        Some(held_or(object, grace))
    }
}

fn held_or(object: &Value, grace: i64) -> Then {
    if grace > 0 || !meta::finalizers(object).is_empty() { Then::Keep } else { Then::MarkAndGo }
}

/// What happens to an object whose deletion is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// It stays as it is: its deletion has begun before.
    Stay,
    /// It is stored as being deleted, and waits for its finalizers, or its grace period.
    Keep,
    /// It is stored as being deleted, so that watchers see that, and removed at once.
    MarkAndGo,
    /// It is removed.
    Go,
}

/// An object as its deletion leaves it.
struct Marked {
    object: Value,
    then: Then,
}

fn set_propagation(object: &mut Value, wanted: DeletionPropagation) {
    let mut finalizers = meta::finalizers(object);
    finalizers.retain(|f| f != ORPHAN && f != FOREGROUND);
    match wanted {
        DeletionPropagation::Background => {}
        DeletionPropagation::Foreground => finalizers.push(FOREGROUND.to_owned()),
        DeletionPropagation::Orphan => finalizers.push(ORPHAN.to_owned()),
    }
    let metadata = meta::of(object);
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".into(), json!(finalizers));
    }
}

/// Makes the finalizers say what becomes of dependants: as asked, else as the object says, else as its kind does.
fn set_propagation_finalizers(
    definition: &ResourceDefinition,
    object: &mut Value,
    asked: Option<DeletionPropagation>,
) {
    if !definition.row.collected {
        return;
    }
    let usual =
        if definition.row.orphans { DeletionPropagation::Orphan } else { DeletionPropagation::Background };
    let finalizers = meta::finalizers(object);
    let own = finalizers.iter().find_map(|one| match one.as_str() {
        ORPHAN => Some(DeletionPropagation::Orphan),
        FOREGROUND => Some(DeletionPropagation::Foreground),
        _ => None,
    });
    set_propagation(object, asked.or(own).unwrap_or(usual));
}

/// Only a Pod that a node runs is given time; on a hub no node runs Pods, but one may be mirrored.
fn grace_period(object: &Value, asked: Option<i64>) -> i64 {
    let ended = matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    if ended || object["spec"]["nodeName"].as_str().unwrap_or("").is_empty() {
        return 0;
    }
    let spec = object["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap_or(30);
    asked.unwrap_or(spec).max(0)
}
