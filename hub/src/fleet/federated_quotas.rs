//! Enforcement of FederatedResourceQuotas (gate FederatedQuotaEnforcement): no write of a ResourceBinding makes its namespace's workloads ask
//! for more, in all clusters together, than its quotas allow.
//!
//! In: a create or update of a ResourceBinding. Out: a 403 with reason QuotaExceeded, by which the scheduler knows what came of its decision; or a
//! guard to be held until the write is done. What is used is counted in the bindings themselves, not read off a quota's status, which follows: writes
//! that ask for more come one after the other within their namespace, so that of two that fit into the same room only one gets it. Namespaces without
//! quotas pay one look at a map, and writes that ask for no more pay nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karmada_api::binding::{BindingSpec, ResourceList};
use karmada_api::federated_resource_quota::FederatedResourceQuota;
use karmada_api::strings::conditions::QUOTA_EXCEEDED;
use karmada_api::{POLICY_GROUP, WORK_GROUP};
use karmada_core::quota::{Seen, Tally, admit, asks_for_more, used_by};
use karmada_definitions::resource::StorageId;
use karmada_definitions::status::Status;
use karmada_kinds::conversion::to_storage;
use karmada_registry::admission::{SerializedAdmission, WriteGuard};
use karmada_registry::cache::{Cache, ResourceCache};
use karmada_registry::{AdmissionRequest, Operation, RegistryContext};
use karmada_schema::object::Stored;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Mutex as Turn;

/// The gate. Whose turn it is by namespace, with what was counted there last.
pub struct FederatedQuotas {
    quotas: Arc<ResourceCache>,
    bindings: Arc<ResourceCache>,
    turns: Mutex<BTreeMap<Arc<str>, Arc<Turn<Tally>>>>,
}

/// What is read of a binding.
#[derive(Deserialize)]
struct Placed {
    spec: BindingSpec,
}

fn spec_of(binding: &Stored) -> Option<BindingSpec> {
    let read = serde_json::from_slice::<Placed>(&binding.json());
    read.inspect_err(|error| {
        tracing::warn!(namespace = &*binding.key.namespace, name = &*binding.key.name, %error, "a binding that cannot be read counts for no quota");
    })
    .ok()
    .map(|read| read.spec)
}

/// What a binding uses that is as the request's version has it.
fn usage(request: &AdmissionRequest<'_>, binding: &Value) -> ResourceList {
    let binding = to_storage(request.definition, binding.clone());
    serde_json::from_value(binding).map(|read: Placed| used_by(&read.spec)).unwrap_or_default()
}

impl FederatedQuotas {
    /// Over what is in `cache`.
    pub fn new(cache: &Cache) -> FederatedQuotas {
        let resource_cache =
            |group: &str, plural: &str| cache.of_resource(&StorageId(format!("{group}/{plural}").into()));
        FederatedQuotas {
            quotas: resource_cache(POLICY_GROUP, "federatedresourcequotas"),
            bindings: resource_cache(WORK_GROUP, "resourcebindings"),
            turns: Mutex::default(),
        }
    }

    fn quotas_of(&self, namespace: &str) -> Vec<FederatedResourceQuota> {
        let quotas = self.quotas.snapshot(namespace).items;
        quotas.iter().filter_map(|quota| serde_json::from_slice(&quota.json()).ok()).collect()
    }

    /// The turns of a namespace. Of namespaces that have no quotas any more nothing is kept, save where somebody has the turn, or waits for it.
    fn turn(&self, namespace: &Arc<str>) -> Arc<Turn<Tally>> {
        let mut turns = self.turns.lock();
        if let Some(turn) = turns.get(namespace) {
            return turn.clone();
        }
        let quotas = self.quotas.snapshot("").items;
        let limited: BTreeSet<&str> = quotas.iter().map(|quota| &*quota.key.namespace).collect();
        turns.retain(|known, turn| limited.contains(&**known) || Arc::strong_count(turn) > 1);
        turns.entry(namespace.clone()).or_default().clone()
    }
}

fn is_about(request: &AdmissionRequest<'_>) -> bool {
    let definition = request.definition;
    &*definition.group == WORK_GROUP
        && &*definition.kind == "ResourceBinding"
        && request.subresource.is_empty()
        && matches!(request.operation, Operation::Create | Operation::Update)
}

#[async_trait::async_trait]
impl SerializedAdmission for FederatedQuotas {
    async fn admit(&self, _: &RegistryContext, request: &AdmissionRequest<'_>) -> Result<WriteGuard, Status> {
        let namespace = &request.key.namespace;
        if !is_about(request) || self.quotas.snapshot(namespace).items.is_empty() {
            return Ok(None);
        }
        let after = usage(request, request.object);
        let before = request.old.map(|old| usage(request, old)).unwrap_or_default();
        if !asks_for_more(&before, &after) {
            return Ok(None);
        }
        let mut tally = self.turn(namespace).lock_owned().await;
        let bindings = self.bindings.snapshot(namespace).items;
        let all = bindings.iter().map(|binding| Seen {
            name: &binding.key.name,
            uid: binding.uid(),
            generation: binding.generation,
            binding: &**binding,
        });
        tally.take_in(all, spec_of);
        // As it is stored now, which may be newer than what the write began with.
        let before = tally.of(&request.key.name);
        for quota in self.quotas_of(namespace) {
            admit(&quota, tally.total(), (&before, &after)).map_err(|exceeded| Status {
                code: 403,
                reason: QUOTA_EXCEEDED.into(),
                message: exceeded.to_string(),
                details: None,
            })?;
        }
        Ok(Some(Box::new(tally)))
    }
}

#[cfg(test)]
mod tests;
