//! Where every write of a Kubernetes object passes, whoever makes it: names, defaults, admission, validation, ownership of
//! fields, optimistic concurrency, finalizers.
//!
//! In: a resource, an object or a way to change one, and who asks. Out: the object as stored, or the `Status` that says why
//! not; then nothing was written. A write that would change nothing is not written. When a call returns, the cache shows it.

use std::sync::Arc;

use karmada_definitions::kind_row::BuiltinKind;
use karmada_definitions::resource::{Catalogue, ResourceDefinition};
use karmada_definitions::status::Status;
use karmada_schema::object::{ObjectKey, Stored};
use karmada_store::{Store, StoreError};

use crate::admission::{
    Admission, AdmissionChain, DynamicAdmission, Quotas, SerializedAdmission, WriteGuard,
};
use crate::authorize::Authorize;
use crate::cache::Cache;
use crate::registry_context::{Clock, Ids, RegistryContext};
use crate::request::AdmissionRequest;
use crate::services;

/// What a write left behind.
#[derive(Debug)]
pub struct Written {
    /// The object as stored (or as it would be, on a dry run).
    pub object: Arc<Stored>,
    /// Whether it is new.
    pub created: bool,
}

/// What a registry is made of.
pub struct Parts {
    /// Where objects are kept.
    pub store: Arc<dyn Store>,
    /// The same objects at hand: loaded from the store, and following it.
    pub cache: Arc<Cache>,
    /// The resources that are served from the start.
    pub catalogue: Catalogue,
    /// Who judges and changes writes, in this order.
    pub admission: Vec<Box<dyn Admission>>,
    /// Answers what expressions of policies ask.
    pub authorizer: Arc<dyn Authorize>,
    /// The present.
    pub clock: Clock,
    /// Draws uids.
    pub ids: Ids,
}

/// The registry of all served resources.
pub struct Registry {
    context: RegistryContext,
    pub(crate) admission: AdmissionChain,
    pub(crate) dynamic: DynamicAdmission,
    /// Who judges last, in this order.
    serialized: Vec<Box<dyn SerializedAdmission>>,
    /// Held while a Service is given its addresses, until it is stored.
    services: tokio::sync::Mutex<()>,
}

/// Everything that can be asked of what is served can be asked of the registry.
impl std::ops::Deref for Registry {
    type Target = RegistryContext;

    fn deref(&self) -> &RegistryContext {
        &self.context
    }
}

impl Registry {
    /// A registry of these parts.
    pub fn new(parts: Parts) -> Self {
        let Parts { store, cache, catalogue, admission, authorizer, clock, ids } = parts;
        let dynamic = DynamicAdmission::new(&cache, authorizer);
        let quotas = Box::new(Quotas::new(&cache));
        Registry {
            context: RegistryContext::new(store, cache, catalogue, clock, ids),
            admission: AdmissionChain(admission),
            dynamic,
            serialized: vec![quotas],
            services: tokio::sync::Mutex::default(),
        }
    }

    /// The same registry, where webhooks and policies do not judge what controllers write in these groups.
    #[must_use]
    pub fn exempting(mut self, groups: &'static [&'static str]) -> Self {
        self.dynamic.exempt = groups;
        self
    }

    /// The same registry, where a further gate judges writes one after the other.
    #[must_use]
    pub fn judging(mut self, gate: Box<dyn SerializedAdmission>) -> Self {
        self.serialized.push(gate);
        self
    }

    /// What is needed to give a Service its addresses; `None` for other kinds. Nobody else does until the guard goes.
    pub(crate) async fn service_allocator(
        &self,
        definition: &ResourceDefinition,
        key: &ObjectKey,
    ) -> Option<(tokio::sync::MutexGuard<'_, ()>, services::Allocator)> {
        if definition.row.known != BuiltinKind::Service {
            return None;
        }
        let guard = self.services.lock().await;
        let mut taken = services::Taken::default();
        let (all, _) = self.cache().of_resource(&definition.storage).list("", None, 0, &|_| true);
        all.iter().filter(|other| other.key != *key).for_each(|other| taken.add(&other.value()));
        let seed = self.seed();
        Some((guard, services::Allocator { taken, seed, dry: false, drawn: 0 }))
    }

    /// Admission up to the last change of the object: the gates, then mutating webhooks; what those change passes the gates again.
    pub(crate) async fn admit(&self, request: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        self.admission.admit(self, request)?;
        let Some(configured) = self.dynamic.for_request(request) else { return Ok(()) };
        self.dynamic.mutate(self, &self.admission, &configured, request).await
    }

    /// Admission of the object as it will be stored, after its own rules: the gates, Pod security, nodes of changed Pods, policies,
    /// validating webhooks, quotas. What comes back is to be held until the write is done.
    pub(crate) async fn admit_final(
        &self,
        request: &mut AdmissionRequest<'_>,
    ) -> Result<Vec<WriteGuard>, Status> {
        self.admission.judge(self, request)?;
        crate::admission::pod_security(self, request)?;
        crate::admission::resizing(self, request)?;
        if let Some(configured) = self.dynamic.for_request(request) {
            self.dynamic.judge(self, &configured, request).await?;
            self.dynamic.validate(self, &configured, request).await?;
        }
        crate::admission::last_look(self, request)?;
        self.dynamic.may_name_parameters(self, request)?;
        let mut held = Vec::with_capacity(self.serialized.len());
        for gate in &self.serialized {
            held.push(gate.admit(self, request).await?);
        }
        Ok(held)
    }
}

/// A store failure as the caller sees it.
pub(crate) fn store_failed(error: &StoreError) -> Status {
    match error {
        StoreError::Closed => Status::unavailable("the hub is shutting down"),
        other => {
            tracing::error!(error = %other, "the store refused a write");
            Status::unavailable(format!("the write was not stored: {other}"))
        }
    }
}
