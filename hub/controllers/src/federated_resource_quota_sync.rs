//! FederatedResourceQuota sync controller: each cluster that a quota assigns something to gets a ResourceQuota, and no other has one of it.
//!
//! In: quotas, Clusters that come or go, the quotas' Works. Out: Works written and removed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use karmada_api::federated_resource_quota::FederatedResourceQuota;
use karmada_api::names;
use karmada_api::strings::events;
use karmada_api::work::Work;
use karmada_core::quota::works;

use crate::cluster::comes_or_goes;
use crate::controller_context::{ControllerContext, Put};
use crate::events::{EventType, Reference};
use crate::fetch::{self, kinds};
use crate::indexes::owned_works::quota_of;
use crate::port::{Api, Change, Key};
use crate::runner::{Action, Controller, Error, Source};

/// How long to wait for a new cluster's execution namespace.
const NAMESPACE_WAIT: Duration = Duration::from_secs(1);

/// The controller.
pub struct FederatedResourceQuotaSync {
    shared: Arc<ControllerContext>,
}

/// What events of a quota are about.
pub(crate) fn about(quota: &FederatedResourceQuota) -> Reference {
    Reference {
        api_version: "policy.karmada.io/v1alpha1".to_owned(),
        kind: "FederatedResourceQuota".to_owned(),
        namespace: quota.namespace().to_owned(),
        name: quota.name().to_owned(),
        uid: quota.metadata.uid.clone().unwrap_or_default(),
    }
}

impl FederatedResourceQuotaSync {
    /// A controller.
    pub fn new(shared: Arc<ControllerContext>) -> Arc<Self> {
        Arc::new(FederatedResourceQuotaSync { shared })
    }

    /// What wakes this controller: a quota, its status aside; a Work of it, also of one that is gone; a Cluster that comes or goes, for the quotas
    /// that assign it something.
    pub fn wakes(shared: &ControllerContext) -> Vec<Source<Key>> {
        let own = Source::own("policy.karmada.io/v1alpha1", "FederatedResourceQuota").but_status();
        let works = Source::new("work.karmada.io/v1alpha1", "Work", |change| {
            let (Change::Applied(work) | Change::Deleted(work)) = change;
            quota_of(work).into_iter().collect()
        });
        let quotas = shared.quotas.clone();
        let clusters = shared.clusters.wakes(move |transition| {
            if !comes_or_goes(transition) {
                return Vec::new();
            }
            let means = |quota: &FederatedResourceQuota| {
                quota.spec.static_assignments.iter().any(|one| one.cluster_name == *transition.key.name)
            };
            quotas.everywhere().into_iter().filter(|(_, quota)| means(quota)).map(|(key, _)| key).collect()
        });
        vec![own, works.but_status(), clusters]
    }

    /// Removes the Work at `key`; nothing is written where it is on its way out.
    async fn remove(&self, key: &Key) -> Result<(), Error> {
        let api: &dyn Api = &*self.shared.api;
        let resource = kinds::works(api)?;
        let found = fetch::get_object(api, &resource, &key.namespace, &key.name).await?;
        match found {
            Some(work) => self.shared.remove_work(&work).await,
            None => Ok(()),
        }
    }

    /// Writes the Works; false where one cannot be there yet.
    async fn put(&self, works: &[Work]) -> Result<bool, Error> {
        let mut waits = false;
        let all = self.shared.put_works(works, |put| match put {
            Put::Done => {}
            Put::Wait => waits = true,
            Put::Beside { name, holder } => {
                tracing::warn!(
                    work = name,
                    holder,
                    "a quota's Work has another name: its usual one is taken"
                );
            }
        });
        Ok(all.await? && !waits)
    }

    async fn sync(&self, key: &Key, quota: Option<&FederatedResourceQuota>) -> Result<bool, Error> {
        self.shared.can_tell_clusters()?;
        let held = self.shared.quota_works.of(key);
        let cluster = |work: &Key| names::cluster_of_execution_namespace(&work.namespace).map(str::to_owned);
        let clusters = self.shared.clusters.all("");
        let there: BTreeSet<&str> =
            clusters.iter().filter(|cluster| !cluster.deleting()).map(|cluster| cluster.name()).collect();
        let at: Vec<String> = held.iter().filter_map(cluster).collect();
        let plan = works::plan(quota, |name| there.contains(name), at.iter().map(String::as_str));
        for work in &held {
            if cluster(work).is_some_and(|cluster| plan.remove.contains(&cluster)) {
                self.remove(work).await?;
            }
        }
        self.put(&plan.put).await
    }
}

#[async_trait::async_trait]
impl Controller for FederatedResourceQuotaSync {
    type Key = Key;

    fn name(&self) -> &'static str {
        "federated-resource-quota-sync-controller"
    }

    async fn reconcile(&self, key: &Key) -> Result<Action, Error> {
        let api: &dyn Api = &*self.shared.api;
        let resource = kinds::quotas(api)?;
        let quota: Option<FederatedResourceQuota> =
            fetch::get(api, &resource, &key.namespace, &key.name).await?;
        let synced = self.sync(key, quota.as_ref()).await;
        if let (Some(quota), Err(error)) = (&quota, &synced)
            && !error.is_of_a_race()
        {
            let (about, words) = (about(quota), error.to_string());
            self.shared.recorder.record(&about, EventType::Warning, events::SYNC_WORK_FAILED, &words);
        }
        Ok(if synced? { Action::Done } else { Action::RequeueAfter(NAMESPACE_WAIT) })
    }
}

#[cfg(test)]
mod tests;
