//! FederatedResourceQuota status controller: what is allowed and used of a quota, over all and in each cluster that is given something of it.
//!
//! In: quotas, their Works, and, where quotas are enforced, the bindings of their namespaces: one binding's change concerns the quotas of its
//! namespace alone, and only that binding is read. Out: `status`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use karmada_api::binding::BindingSpec;
use karmada_api::federated_resource_quota::{
    ClusterQuotaStatus, FederatedResourceQuota, FederatedResourceQuotaStatus,
};
use karmada_api::strings::events;
use karmada_api::work::Work;
use karmada_core::feature_gates::Gate;
use karmada_core::quota::status::{self, Counted};
use karmada_core::quota::{Seen, Tally};
use parking_lot::Mutex;
use serde::Deserialize;

use crate::controller_context::ControllerContext;
use crate::events::EventType;
use crate::federated_resource_quota_sync::about;
use crate::fetch::{self, kinds};
use crate::indexes::owned_works::quota_of;
use crate::port::{Api, ApiError, Change, Key};
use crate::runner::{Action, Controller, Error, Source, key_of};

/// The controller.
pub struct FederatedResourceQuotaStatusController {
    shared: Arc<ControllerContext>,
    /// What was counted last, by namespace.
    tallies: Mutex<BTreeMap<Arc<str>, Tally>>,
    period: Duration,
}

/// What is read of a binding.
#[derive(Deserialize)]
struct Placed {
    spec: BindingSpec,
}

impl FederatedResourceQuotaStatusController {
    /// A controller that, where quotas are enforced, counts again after each `period` in which nothing changed; after none where that is nothing.
    pub fn new(shared: Arc<ControllerContext>, period: Duration) -> Arc<Self> {
        Arc::new(FederatedResourceQuotaStatusController { shared, tallies: Mutex::default(), period })
    }

    /// When a quota that is told as it is is looked at again.
    fn again(&self) -> Action {
        let enforced = self.shared.gates.enabled(Gate::FederatedQuotaEnforcement);
        match enforced && !self.period.is_zero() {
            true => Action::RequeueAfter(self.period),
            false => Action::Done,
        }
    }

    /// What wakes this controller: a quota; a Work of it; where quotas are enforced, a binding, for the quotas of its namespace. `debounce`: changes that
    /// come together make one write of the status.
    pub fn wakes(shared: &ControllerContext, debounce: Duration) -> Vec<Source<Key>> {
        let own = Source::own("policy.karmada.io/v1alpha1", "FederatedResourceQuota").but_status();
        let works = Source::new("work.karmada.io/v1alpha1", "Work", |change| {
            let (Change::Applied(work) | Change::Deleted(work)) = change;
            quota_of(work).into_iter().collect()
        });
        let mut sources = vec![own, works.debounced(debounce)];
        if shared.gates.enabled(Gate::FederatedQuotaEnforcement) {
            let quotas = shared.quotas.clone();
            let bindings = Source::new("work.karmada.io/v1alpha2", "ResourceBinding", move |change| {
                let namespace = key_of(change).namespace;
                let own = quotas.all(&namespace);
                own.iter().map(|one| Key { namespace: namespace.clone(), name: one.name().into() }).collect()
            });
            sources.push(bindings.but_status().debounced(debounce));
        }
        sources
    }

    /// What the members of a quota's Works say.
    async fn members(&self, key: &Key) -> Result<Vec<ClusterQuotaStatus>, Error> {
        let api: &dyn Api = &*self.shared.api;
        let resource = kinds::works(api)?;
        let mut members = Vec::new();
        for work in self.shared.quota_works.of(key) {
            let found: Option<Work> = fetch::get(api, &resource, &work.namespace, &work.name).await?;
            members.extend(found.as_ref().and_then(status::of_member));
        }
        Ok(members)
    }

    /// Counts what the bindings of a namespace use.
    async fn count(&self, namespace: &Arc<str>) -> Result<Tally, Error> {
        let api: &dyn Api = &*self.shared.api;
        let bindings = api.list(&kinds::bindings(api, namespace)?, namespace).await?;
        let mut tally = self.tallies.lock().remove(namespace).unwrap_or_default();
        let all = bindings.iter().map(|binding| Seen {
            name: &binding.key.name,
            uid: &binding.uid,
            generation: binding.generation,
            binding,
        });
        tally.take_in(all, |binding| binding.parse::<Placed>().ok().map(|read| read.spec));
        Ok(tally)
    }

    async fn status(
        &self,
        key: &Key,
        quota: &FederatedResourceQuota,
    ) -> Result<FederatedResourceQuotaStatus, Error> {
        let members = self.members(key).await?;
        if !self.shared.gates.enabled(Gate::FederatedQuotaEnforcement) {
            return Ok(status::status(quota, members, Counted::InMembers));
        }
        let tally = self.count(&key.namespace).await?;
        let status = status::status(quota, members, Counted::InBindings(tally.total()));
        self.tallies.lock().insert(key.namespace.clone(), tally);
        Ok(status)
    }

    async fn tell(&self, key: &Key, mut quota: FederatedResourceQuota) -> Result<(), Error> {
        let wanted = self.status(key, &quota).await?;
        if wanted == quota.status {
            return Ok(());
        }
        let before = std::mem::replace(&mut quota.status, wanted);
        let api: &dyn Api = &*self.shared.api;
        api.update_status(&kinds::quotas(api)?, fetch::to_value(&quota)?).await?;
        let said = [
            (before.aggregated_status != quota.status.aggregated_status, events::AGGREGATE_STATUS_SUCCEED),
            (
                (before.overall, before.overall_used)
                    != (quota.status.overall.clone(), quota.status.overall_used.clone()),
                events::COLLECT_OVERALL_STATUS_SUCCEED,
            ),
        ];
        for (_, reason) in said.into_iter().filter(|(changed, _)| *changed) {
            let words =
                format!("the status of FederatedResourceQuota {}/{} is up to date", key.namespace, key.name);
            self.shared.recorder.record(&about(&quota), EventType::Normal, reason, &words);
        }
        Ok(())
    }
}

#[async_trait::async_trait]
impl Controller for FederatedResourceQuotaStatusController {
    type Key = Key;

    fn name(&self) -> &'static str {
        "federated-resource-quota-status-controller"
    }

    async fn reconcile(&self, key: &Key) -> Result<Action, Error> {
        let api: &dyn Api = &*self.shared.api;
        let found: Option<FederatedResourceQuota> =
            fetch::get(api, &kinds::quotas(api)?, &key.namespace, &key.name).await?;
        let Some(quota) = found.filter(|quota| !quota.deleting()) else {
            if self.shared.quotas.all(&key.namespace).iter().all(|other| other.name() == &*key.name) {
                self.tallies.lock().remove(&key.namespace);
            }
            return Ok(Action::Done);
        };
        let (about, told) = (about(&quota), self.tell(key, quota).await);
        if let Err(error) = &told
            && !matches!(error, Error::Api(ApiError::Conflict(_)))
        {
            let words = error.to_string();
            self.shared.recorder.record(
                &about,
                EventType::Warning,
                events::COLLECT_OVERALL_STATUS_FAILED,
                &words,
            );
        }
        told.map(|()| self.again())
    }
}

#[cfg(test)]
mod tests;
