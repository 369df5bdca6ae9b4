//! Creating an object.

use karmada_store::{Expect, StoreError};
use serde_json::Value;

use super::{AdmissionRequest, How, Operation, Registry, WriteOptions, Written, prepare, store_failed};
use crate::cache::storage_key;
use crate::object::{ObjectKey, encode, meta};
use crate::resource::ResourceDefinition;
use crate::status::Status;

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
        let mut warnings = Vec::new();
        prepare::check_type(definition, &object)?;
        prepare::decode(definition, &mut object, options, &mut warnings)?;
        prepare::identity_of_new(self, definition, namespace, &mut object)?;
        let key = ObjectKey::new(namespace, meta::name(&object));
        prepare::defaults(definition, &mut object);
        prepare::new_object(definition, &mut object);
        let mut request = AdmissionRequest {
            definition,
            operation: Operation::Create,
            key: &key,
            object: &mut object,
            old: None,
            subresource: &options.subresource,
            user: &options.user,
            how: How::Write(options),
            warnings: &mut warnings,
        };
        self.admit(&mut request).await?;
        prepare::validate(definition, request.object, None)?;
        let _held = self.admit_final(&mut request).await?;
        warnings.extend(crate::kinds::remarks(definition, &object, None));
        if !options.applied {
            prepare::managed_fields(self, definition, None, &mut object, options);
        }
        crate::kinds::finish_create(definition, &mut object);
        let shown = prepare::shown(definition, &object);
        let stored = prepare::store(self, definition, object).await?;
        let bytes = encode(&stored, &definition.kind, &definition.storage_api_version());
        prepare::check_size(&bytes)?;
        if options.dry_run {
            if self.cache().get(&definition.storage, &key).is_some() {
                return Err(Status::already_exists(definition, &key.name));
            }
            let object = prepare::answer(definition, shown, &bytes, 0)?;
            return Ok(Written { object, created: true, warnings });
        }
        let path = storage_key(&definition.storage, &key);
        match self.store().put(&path, bytes.clone(), Expect::Absent).await {
            Ok(revision) => {
                self.cache().wait_for(revision).await;
                let object = prepare::answer(definition, shown, &bytes, revision)?;
                Ok(Written { object, created: true, warnings })
            }
            Err(StoreError::Conflict { .. }) => Err(Status::already_exists(definition, &key.name)),
            Err(error) => Err(store_failed(&error)),
        }
    }
}
