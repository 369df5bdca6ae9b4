//! Changing an object, whole or in part: update, patch, apply, status, scale.
//!
//! The change is a function of the live object and is run again when another writer was faster. A caller that named the version
//! it had read is refused (409) as soon as the live object has another, in the first round or a later one.
//!
//! In: a key, a function of the live object, and how it is to be written. Out: the object as stored, once the cache shows it; or a
//! `Status`, a conflict after sixteen tries among them. A change that changes nothing writes nothing.

use std::sync::Arc;

use karmada_definitions::resource::ResourceDefinition;
use karmada_definitions::status::Status;
use karmada_schema::object::{ObjectKey, Stored, meta};
use karmada_store::{Expect, StoreError};
use serde_json::Value;

use crate::authorize::Attributes;
use crate::cache::storage_key;
use crate::registry::{Registry, Written, store_failed};
use crate::request::WriteOptions;
use crate::user::Origin;
use crate::write_steps::{Encoded, Write};
use crate::{field_validation, object_identity, storage};

/// How often a change is tried against a newer object.
const TRIES: usize = 16;

/// What a change makes of the live object (`None`: there is none, and the caller may create one).
pub type Change<'a> = dyn FnMut(Option<&Value>) -> Result<Value, Status> + Send + 'a;

/// What becomes of a change of an object that is not there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Refused,
    Created,
}

impl Registry {
    /// Changes the object at `key`.
    ///
    /// # Errors
    /// There is none (404), or the change or what it makes is refused.
    pub async fn update(
        &self,
        definition: &ResourceDefinition,
        key: &ObjectKey,
        options: &WriteOptions,
        change: &mut Change<'_>,
    ) -> Result<Written, Status> {
        self.change(definition, key, options, Missing::Refused, change).await
    }

    /// The same, where an object that is not there is created.
    ///
    /// # Errors
    /// The change or what it makes is refused.
    pub async fn update_or_create(
        &self,
        definition: &ResourceDefinition,
        key: &ObjectKey,
        options: &WriteOptions,
        change: &mut Change<'_>,
    ) -> Result<Written, Status> {
        self.change(definition, key, options, Missing::Created, change).await
    }

    async fn change(
        &self,
        definition: &ResourceDefinition,
        key: &ObjectKey,
        options: &WriteOptions,
        missing: Missing,
        change: &mut Change<'_>,
    ) -> Result<Written, Status> {
        for _ in 0..TRIES {
            let Some(live) = self.cache().get(&definition.storage, key) else {
                if self.cache().unreadable(&definition.storage, key).is_some() {
                    return Err(self.absent(definition, key));
                }
                if missing == Missing::Refused {
                    // What the body holds is read, and told, before it is known to be for nothing.
                    if let Ok(mut object) = change(None) {
                        field_validation::decode(definition, &mut object, options)?;
                    }
                    return Err(Status::not_found(definition, &key.name));
                }
                let mut object = change(None)?;
                object_identity::of_missing(definition, key, &object, options)?;
                self.may_create(definition, key, options)?;
                // Only who creates by name is held to a version; here it is passed over.
                meta::of(&mut object).remove("resourceVersion");
                match self.create(definition, &key.namespace, object, options).await {
                    Err(status) if status.reason == "AlreadyExists" => continue,
                    other => return other,
                }
            };
            if let Some(written) = self.update_once(definition, key, &live, options, change).await? {
                return Ok(written);
            }
        }
        Err(Status::conflict(definition, &key.name))
    }

    /// An update that finds nothing is a create, and asks for the right to that: the one to update was judged already. What this
    /// process writes itself is asked for nothing.
    fn may_create(
        &self,
        definition: &ResourceDefinition,
        key: &ObjectKey,
        options: &WriteOptions,
    ) -> Result<(), Status> {
        if options.user.origin != Origin::Client {
            return Ok(());
        }
        let create = Attributes {
            verb: "create".to_owned(),
            group: definition.group.to_string(),
            version: definition.version.to_string(),
            resource: definition.plural.to_string(),
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
            ..Attributes::default()
        };
        let decision = self.dynamic.authorizer.authorize(&options.user, &create);
        if decision.allowed { Ok(()) } else { Err(create.forbidden(&options.user, &decision.reason)) }
    }

    /// One try. `None` where another writer was faster and the change may be tried again.
    async fn update_once(
        &self,
        definition: &ResourceDefinition,
        key: &ObjectKey,
        live: &Arc<Stored>,
        options: &WriteOptions,
        change: &mut Change<'_>,
    ) -> Result<Option<Written>, Status> {
        let viewed = self.view(definition, vec![live.clone()]).await?;
        let old = storage::from_storage(definition, viewed[0].value());
        let new = change(Some(&old))?;
        let mut write = Write::change((self, definition), key, (live.clone(), old), new, options);
        write.walk().await?;
        if write.changes_nothing() {
            let object = self.cache().get(&definition.storage, key);
            let object = object.ok_or_else(|| Status::not_found(definition, &key.name))?;
            let object = self.view(definition, vec![object]).await?.remove(0);
            return Ok(Some(Written { object, created: false }));
        }
        let goes = write.removes_last_finalizer();
        let Encoded { bytes, shown } = write.encode().await?;
        if options.dry_run {
            let object = storage::answer(definition, shown, &bytes, live.revision)?;
            return Ok(Some(Written { object, created: false }));
        }
        let path = storage_key(&definition.storage, key);
        let outcome = if goes {
            self.store().delete(&path, live.revision).await
        } else {
            let sealed = self.sealed(definition, &path, &bytes)?;
            self.store().put(&path, sealed, Expect::Revision(live.revision)).await
        };
        match outcome {
            Ok(revision) => {
                self.cache().wait_for(revision).await;
                // What goes with its last finalizer is answered as it was written, which it never was.
                let at = if goes { live.revision } else { revision };
                let object = storage::answer(definition, shown, &bytes, at)?;
                Ok(Some(Written { object, created: false }))
            }
            Err(StoreError::Conflict { current }) => {
                self.catch_up(current.map(|kv| kv.mod_revision)).await;
                Ok(None)
            }
            Err(error) => Err(store_failed(&error)),
        }
    }

    /// Lets the cache see what beat a write, so that the next try starts from it.
    pub(super) async fn catch_up(&self, winner: Option<u64>) {
        self.cache().wait_for(winner.unwrap_or_else(|| self.store().revision())).await;
    }
}
