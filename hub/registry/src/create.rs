//! Creating an object.
//!
//! In: the object as it was sent, and how it is to be written. Out: the object as stored, once the cache shows it; on a dry run as it would
//! be stored; or a `Status`.

use karmada_definitions::resource::ResourceDefinition;
use karmada_definitions::status::Status;
use karmada_schema::object::{ObjectKey, meta};
use karmada_store::{Expect, StoreError};
use serde_json::Value;

use crate::cache::storage_key;
use crate::registry::{Registry, Written, store_failed};
use crate::request::WriteOptions;
use crate::storage;
use crate::write_steps::{Encoded, Write};

/// How often a generated name that is taken is drawn again.
const NAME_TRIES: usize = 8;

impl Registry {
    /// Creates `object` in `namespace` (empty for cluster-scoped resources).
    ///
    /// # Errors
    /// Its name is taken (409; of `generateName` after some tries), or a rule, a gate or the store refuses it.
    pub async fn create(
        &self,
        definition: &ResourceDefinition,
        namespace: &str,
        object: Value,
        options: &WriteOptions,
    ) -> Result<Written, Status> {
        let generated = meta::name(&object).is_empty() && !meta::text(&object, "generateName").is_empty();
        let tries = if generated { NAME_TRIES } else { 1 };
        for _ in 1..tries {
            match self.create_once(definition, namespace, object.clone(), options).await {
                Err(status) if status.reason == "AlreadyExists" => {}
                other => return other,
            }
        }
        self.create_once(definition, namespace, object, options).await
    }

    async fn create_once(
        &self,
        definition: &ResourceDefinition,
        namespace: &str,
        object: Value,
        options: &WriteOptions,
    ) -> Result<Written, Status> {
        let mut write = Write::new(self, definition, namespace, object, options);
        write.walk().await?;
        let Encoded { bytes, shown } = write.encode().await?;
        if options.dry_run {
            if self.cache().get(&definition.storage, &write.key).is_some() {
                return Err(self.exists(definition, &write.key));
            }
            let object = storage::answer(definition, shown, &bytes, 0)?;
            return Ok(Written { object, created: true });
        }
        let path = storage_key(&definition.storage, &write.key);
        let sealed = self.sealed(definition, &path, &bytes)?;
        match self.store().put(&path, sealed, Expect::Absent).await {
            Ok(revision) => {
                self.cache().wait_for(revision).await;
                let object = storage::answer(definition, shown, &bytes, revision)?;
                Ok(Written { object, created: true })
            }
            Err(StoreError::Conflict { .. }) => Err(self.exists(definition, &write.key)),
            Err(error) => Err(store_failed(&error)),
        }
    }

    /// The refusal of a name that is taken, also by an object that is on its way out.
    fn exists(&self, definition: &ResourceDefinition, key: &ObjectKey) -> Status {
        let mut status = Status::already_exists(definition, &key.name);
        if self.cache().get(&definition.storage, key).is_some_and(|live| live.deleting) {
            status.message = format!("object is being deleted: {}", status.message);
        }
        status
    }
}
