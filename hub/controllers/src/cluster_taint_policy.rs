//! Cluster taint policy controller: a cluster has the taints that ClusterTaintPolicies give it by its conditions.
//!
//! In: Clusters whose conditions, labels or spec change, and policies. Out: taints.

use std::sync::Arc;

use karmada_api::cluster::Cluster;
use karmada_core::taint_policy;

use crate::cluster_taints;
use crate::controller_context::ControllerContext;
use crate::fetch::{self, kinds};
use crate::port::{Api, Key};
use crate::runner::{Action, Controller, Error, Source};
use crate::typed::Transition;

/// The controller.
pub struct ClusterTaintPolicies {
    shared: Arc<ControllerContext>,
}

impl ClusterTaintPolicies {
    /// A controller.
    pub fn new(shared: Arc<ControllerContext>) -> Arc<Self> {
        Arc::new(ClusterTaintPolicies { shared })
    }

    /// What wakes this controller: a Cluster whose labels, spec or conditions changed; a policy, for the clusters that it means or meant.
    pub fn wakes(shared: &ControllerContext) -> Vec<Source<Key>> {
        let clusters = shared.clusters.wakes(changed_in_conditions);
        let known = shared.clusters.clone();
        let policies = shared.taint_policies.wakes(move |transition| {
            let meant = |cluster: &&Arc<Cluster>| {
                transition.states().any(|policy| taint_policy::means(policy, cluster))
            };
            known.all("").iter().filter(meant).map(|cluster| key(cluster.name())).collect()
        });
        vec![clusters, policies]
    }
}

/// The key of a cluster.
fn key(name: &str) -> Key {
    Key { namespace: "".into(), name: name.into() }
}

/// The cluster of a transition, where a condition changed, or what policies select it by.
pub(crate) fn changed_in_conditions(transition: &Transition<Cluster>) -> Vec<Key> {
    let Some(now) = &transition.now else { return Vec::new() };
    let same = transition.before.as_ref().is_some_and(|before| {
        before.metadata.labels == now.metadata.labels
            && before.spec == now.spec
            && before.status.conditions == now.status.conditions
    });
    if same { Vec::new() } else { vec![transition.key.clone()] }
}

#[async_trait::async_trait]
impl Controller for ClusterTaintPolicies {
    type Key = Key;

    fn name(&self) -> &'static str {
        "cluster-taint-policy-controller"
    }

    async fn reconcile(&self, key: &Key) -> Result<Action, Error> {
        let api: &dyn Api = &*self.shared.api;
        let resource = kinds::clusters(api)?;
        let found: Option<Cluster> = fetch::get(api, &resource, "", &key.name).await?;
        let Some(cluster) = found.filter(|cluster| !cluster.deleting()) else { return Ok(Action::Done) };
        let policies = self.shared.taint_policies.all("");
        let Some(taints) = taint_policy::taints(&cluster, &policies, (self.shared.clock)()) else {
            return Ok(Action::Done);
        };
        let because = "By ClusterTaintPolicies";
        cluster_taints::write(&self.shared, (&resource, &cluster), &taints, because).await?;
        Ok(Action::Done)
    }
}

#[cfg(test)]
mod tests;
