//! The steps of a write, in their order, which create and update share.
//!
//! In: what was sent, and the object as it is where there is one. Out: what is to be stored, with what is held until it is.
//!
//! | step | what | why it stands there |
//! | --- | --- | --- |
//! | read | fields that the kind does not have are dropped, warned of or refused | nothing else may see them |
//! | identify | name, namespace, uid and version are those of the path and of the object that is there | who names another object hears that first |
//! | default | what was left out gets its default | whoever comes after sees a whole object, and who sent it owns what it got |
//! | own | who manages which fields | before what the server itself sets, which nobody owns |
//! | prepare | uid and times; parts that this write may not touch are as they were | a webhook is shown what would be stored |
//! | mutate | gates and webhooks that change the object | the last that others change |
//! | drop_and_complete | what a feature that is off would need is dropped; owners named twice become one | webhooks may have brought it |
//! | allocate | addresses and ports of a Service | none is drawn for what was refused before; held, so that no two writes draw the same |
//! | validate | the rules of the kind | of all that the steps before made |
//! | admit | gates, policies and webhooks that judge, then quotas | quotas last: what they count is to be stored, unless the store refuses |
//! | finish | generation, and what is empty is forgotten | of what will be stored, and nothing else |

use std::sync::Arc;

use bytes::Bytes;
use karmada_definitions::resource::ResourceDefinition;
use karmada_definitions::status::Status;
use karmada_kinds::{disabled_fields, strategy};
use karmada_schema::Empties;
use karmada_schema::object::{ObjectKey, Stored, encode, meta};
use serde_json::{Value, json};
use tokio::sync::MutexGuard;

use crate::admission::WriteGuard;
use crate::registry::Registry;
use crate::request::{AdmissionRequest, WriteOptions};
use crate::services::Allocator;
use crate::{field_validation, generated_name, object_identity, prepare, storage};

/// One write on its way to the store.
pub(crate) struct Write<'a> {
    registry: &'a Registry,
    definition: &'a ResourceDefinition,
    options: &'a WriteOptions,
    /// Where the object stands; of a new one whose name is generated, once it is.
    pub key: ObjectKey,
    before: Option<Before>,
    object: Value,
    /// What was sent empty.
    empties: Empties,
    /// Of a new object: whether it takes over the labels of its template.
    shares_labels: bool,
    /// Of a change: fields that were dropped, and raise the generation all the same.
    asked_for: strategy::Dropped,
    service: Option<(MutexGuard<'a, ()>, Allocator)>,
    held: Vec<WriteGuard>,
}

/// The object as it is.
struct Before {
    live: Arc<Stored>,
    object: Value,
}

/// What is to be written, encoded.
pub(crate) struct Encoded {
    pub bytes: Bytes,
    /// What is answered, where the stored version would have to be asked for.
    pub shown: Option<Value>,
}

impl<'a> Write<'a> {
    /// A new object in `namespace`.
    pub fn new(
        registry: &'a Registry,
        definition: &'a ResourceDefinition,
        namespace: &str,
        object: Value,
        options: &'a WriteOptions,
    ) -> Self {
        Self {
            registry,
            definition,
            options,
            key: ObjectKey::new(namespace, ""),
            before: None,
            object,
            empties: Empties::default(),
            shares_labels: false,
            asked_for: strategy::Dropped::default(),
            service: None,
            held: Vec::new(),
        }
    }

    /// A change of `live`, which is `old` in the version that is written.
    pub fn change(
        (registry, definition): (&'a Registry, &'a ResourceDefinition),
        key: &ObjectKey,
        (live, old): (Arc<Stored>, Value),
        object: Value,
        options: &'a WriteOptions,
    ) -> Self {
        let before = Some(Before { live, object: old });
        Self { key: key.clone(), before, ..Self::new(registry, definition, &key.namespace, object, options) }
    }

    /// Takes all steps in their order. Where one refuses, nothing is stored.
    pub async fn walk(&mut self) -> Result<(), Status> {
        let forgets = self.forgets_managers();
        self.read()?;
        self.identify()?;
        self.default();
        self.own(forgets);
        self.prepare();
        self.mutate().await?;
        self.drop_and_complete();
        self.allocate().await?;
        self.validate()?;
        self.admit().await?;
        self.finish();
        Ok(())
    }

    /// Whether the write ends everybody's ownership of fields: an update with `managedFields: []` does, one without the field does not.
    fn forgets_managers(&self) -> bool {
        self.before.is_some()
            && self.object["metadata"]["managedFields"].as_array().is_some_and(Vec::is_empty)
    }

    fn read(&mut self) -> Result<(), Status> {
        self.empties = field_validation::decode(self.definition, &mut self.object, self.options)?;
        Ok(())
    }

    fn identify(&mut self) -> Result<(), Status> {
        let (definition, options) = (self.definition, self.options);
        match &self.before {
            Some(Before { live, object }) => {
                object_identity::of_changed(definition, &self.key, live, object, &mut self.object, options)
            }
            None => {
                let namespace = &self.key.namespace;
                object_identity::of_new(
                    self.registry,
                    definition,
                    namespace,
                    &mut self.object,
                    options.dry_run,
                )?;
                self.shares_labels = strategy::shares_labels(definition, &self.object);
                self.merge_owners();
                Ok(())
            }
        }
    }

    /// Drops owners that are named twice, with a warning.
    fn merge_owners(&mut self) {
        self.options.warnings.extend(karmada_kinds::validation::owners_twice(&self.object));
        object_identity::owners_once(&mut self.object);
    }

    fn default(&mut self) {
        prepare::defaults(self.registry, self.definition, &mut self.object);
    }

    /// Records who manages which fields. For a server-side apply that is done already.
    fn own(&mut self, forgets: bool) {
        if self.options.applied {
            return;
        }
        if forgets && self.object["metadata"].is_object() {
            self.object["metadata"]["managedFields"] = json!([]);
        }
        let old = self.before.as_ref().map(|before| &before.object);
        prepare::managed_fields(self.registry, self.definition, old, &mut self.object, self.options);
    }

    fn prepare(&mut self) {
        let (registry, definition, options) = (self.registry, self.definition, self.options);
        match &self.before {
            Some(Before { object: old, .. }) => {
                let now = registry.now_text();
                prepare::changed_object(definition, &options.subresource, old, &mut self.object, &now);
            }
            None => {
                generated_name::name_of_new(registry, definition, &mut self.object);
                self.key = ObjectKey::new(&self.key.namespace, meta::name(&self.object));
                prepare::new_object(registry, definition, &mut self.object, &options.user);
            }
        }
    }

    async fn mutate(&mut self) -> Result<(), Status> {
        let old = self.before.as_ref().map(|before| &before.object);
        let mut request =
            AdmissionRequest::write(self.definition, &self.key, &mut self.object, old, self.options);
        self.registry.admit(&mut request).await
    }

    fn drop_and_complete(&mut self) {
        let (definition, options) = (self.definition, self.options);
        if self.before.is_some() {
            self.merge_owners();
        }
        match &self.before {
            Some(Before { object: old, .. }) => {
                self.asked_for = strategy::raised_by_dropped(definition, old, &self.object);
                disabled_fields::drop_disabled_fields(
                    definition,
                    &options.subresource,
                    &mut self.object,
                    Some(old),
                );
            }
            None => {
                disabled_fields::drop_disabled_fields(definition, "", &mut self.object, None);
                options.warnings.extend((definition.row.finish_create)(&mut self.object));
                let template = &self.object["spec"]["template"]["metadata"]["labels"];
                if self.shares_labels && template.is_object() {
                    self.object["metadata"]["labels"] = template.clone();
                }
            }
        }
    }

    async fn allocate(&mut self) -> Result<(), Status> {
        if !self.options.subresource.is_empty() {
            return Ok(());
        }
        self.service = self.registry.service_allocator(self.definition, &self.key).await;
        let Some((_, allocator)) = &mut self.service else { return Ok(()) };
        match &self.before {
            Some(Before { object: old, .. }) => allocator.update(&mut self.object, old),
            None => {
                allocator.dry = self.options.dry_run;
                allocator.create(&mut self.object)
            }
        }
    }

    fn validate(&self) -> Result<(), Status> {
        let (definition, options) = (self.definition, self.options);
        let Some(Before { object: old, .. }) = &self.before else {
            prepare::validate_new(definition, &self.object, &self.empties)?;
            options.warnings.extend(prepare::remarks(definition, &self.object, None));
            return Ok(());
        };
        let valid =
            prepare::validate_changed(definition, &options.subresource, &self.object, old, &self.empties);
        valid.inspect_err(|status| {
            options.warnings.extend(prepare::tolerated(definition, &self.object, old, status));
        })
    }

    async fn admit(&mut self) -> Result<(), Status> {
        let old = self.before.as_ref().map(|before| &before.object);
        let mut request =
            AdmissionRequest::write(self.definition, &self.key, &mut self.object, old, self.options);
        request.sent_empty = old.is_none().then_some(&self.empties);
        self.held = self.registry.admit_final(&mut request).await?;
        Ok(())
    }

    fn finish(&mut self) {
        let (definition, options) = (self.definition, self.options);
        let Some(Before { live, object: old }) = &self.before else {
            // A gate may have named one again.
            object_identity::owners_once(&mut self.object);
            karmada_kinds::forget_empties(definition, &mut self.object);
            return;
        };
        (definition.row.finish_update)(&mut self.object, old);
        options.warnings.extend(prepare::remarks(definition, &self.object, Some((old, live))));
        karmada_kinds::forget_empties(definition, &mut self.object);
        match &*options.subresource {
            "binding" => {}
            "status" | "approval" => strategy::keep_generation(definition, old, &mut self.object),
            _ => {
                strategy::raise_generation(definition, old, &mut self.object, &self.empties, self.asked_for);
            }
        }
    }

    /// Whether what would be stored is what is stored.
    pub fn changes_nothing(&self) -> bool {
        let Some(Before { live, object: old }) = &self.before else { return false };
        prepare::same(old, &self.object) && storage::is_stored_as_now(self.definition, live)
    }

    /// Whether it takes the last finalizer of an object that is on its way out: the object goes.
    pub fn removes_last_finalizer(&self) -> bool {
        let Some(Before { object: old, .. }) = &self.before else { return false };
        meta::deleting(old)
            && meta::finalizers(&self.object).is_empty()
            && prepare::no_grace(self.definition, &self.object)
    }

    /// What is to be written. What the write holds, it holds until it is dropped.
    pub async fn encode(&mut self) -> Result<Encoded, Status> {
        let object = std::mem::take(&mut self.object);
        let shown = storage::shown(self.definition, &object);
        let stored = storage::store(self.registry, self.definition, object).await?;
        let bytes = encode(&stored, &self.definition.kind, &self.definition.storage_api_version());
        storage::check_size(self.definition, &bytes)?;
        Ok(Encoded { bytes, shown })
    }
}
