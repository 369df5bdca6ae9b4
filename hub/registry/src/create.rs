//! Creating an object.

use karmada_definitions::resource::ResourceDefinition;
use karmada_definitions::status::Status;
use karmada_kinds::{dropped, strategy};
use karmada_schema::object::{ObjectKey, encode, meta};
use karmada_store::{Expect, StoreError};
use serde_json::Value;

use crate::cache::storage_key;
use crate::registry::{Registry, Written, store_failed};
use crate::request::{AdmissionRequest, WriteOptions};
use crate::{decode, identity, prepare, storage};

/// How often a generated name that is taken is drawn again.
const NAME_TRIES: usize = 8;

impl Registry {
    /// Creates `object` in `namespace` (empty for cluster-scoped resources).
    pub async fn create(
        &self,
        definition: &ResourceDefinition,
        namespace: &str,
        object: Value,
        options: &WriteOptions,
    ) -> Result<Written, Status> {
        let generated = meta::name(&object).is_empty() && !meta::text(&object, "generateName").is_empty();
        let mut last = Status::internal("no name was tried");
        for _ in 0..if generated { NAME_TRIES } else { 1 } {
            match self.create_once(definition, namespace, object.clone(), options).await {
                Err(status) if generated && status.reason == "AlreadyExists" => last = status,
                other => return other,
            }
        }
        Err(last)
    }

    async fn create_once(
        &self,
        definition: &ResourceDefinition,
        namespace: &str,
        mut object: Value,
        options: &WriteOptions,
    ) -> Result<Written, Status> {
        let empties = decode::decode(definition, &mut object, options)?;
        identity::of_new(self, definition, namespace, &mut object, options.dry_run)?;
        let shares_labels = strategy::shares_labels(definition, &object);
        options.warnings.extend(karmada_kinds::validation::owners_twice(&object));
        identity::owners_once(&mut object);
        prepare::defaults(self, definition, &mut object);
        // Before what the server itself changes: nobody owns that.
        if !options.applied {
            prepare::managed_fields(self, definition, None, &mut object, options);
        }
        identity::name_of_new(self, definition, &mut object);
        let key = ObjectKey::new(namespace, meta::name(&object));
        prepare::new_object(self, definition, &mut object, &options.user);
        let mut request = AdmissionRequest::write(definition, &key, &mut object, None, options);
        self.admit(&mut request).await?;
        dropped::settle(definition, "", &mut object, None);
        options.warnings.extend((definition.row.finish_create)(&mut object));
        let template = &object["spec"]["template"]["metadata"]["labels"];
        if shares_labels && template.is_object() {
            object["metadata"]["labels"] = template.clone();
        }
        let mut service = self.service_allocator(definition, &key).await;
        if let Some((_, allocator)) = &mut service {
            allocator.dry = options.dry_run;
            allocator.create(&mut object)?;
        }
        prepare::validate_new(definition, &object, &empties)?;
        options.warnings.extend(karmada_kinds::remarks(definition, &object, None));
        let mut request = AdmissionRequest::write(definition, &key, &mut object, None, options);
        request.sent_empty = Some(&empties);
        let _held = self.admit_final(&mut request).await?;
        identity::owners_once(&mut object);
        karmada_kinds::forget_empties(definition, &mut object);
        let shown = storage::shown(definition, &object);
        let stored = storage::store(self, definition, object).await?;
        let bytes = encode(&stored, &definition.kind, &definition.storage_api_version());
        storage::check_size(&bytes)?;
        if options.dry_run {
            if self.cache().get(&definition.storage, &key).is_some() {
                return Err(self.exists(definition, &key));
            }
            let object = storage::answer(definition, shown, &bytes, 0)?;
            return Ok(Written { object, created: true });
        }
        let path = storage_key(&definition.storage, &key);
        let sealed = self.sealed(definition, &path, &bytes)?;
        match self.store().put(&path, sealed, Expect::Absent).await {
            Ok(revision) => {
                self.cache().wait_for(revision).await;
                let object = storage::answer(definition, shown, &bytes, revision)?;
                Ok(Written { object, created: true })
            }
            Err(StoreError::Conflict { .. }) => Err(self.exists(definition, &key)),
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
