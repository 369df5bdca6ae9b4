//! Remedy controller: a cluster says which remedies are to be taken for it, by what its conditions say.
//!
//! In: Clusters whose conditions, labels or spec change, and Remedies. Out: `status.remedyActions`.

use std::sync::Arc;

use karmada_api::cluster::Cluster;
use karmada_core::remedy;

use crate::cluster_taint_policy::changed_in_conditions;
use crate::controller_context::ControllerContext;
use crate::fetch::{self, kinds};
use crate::port::{Api, Key};
use crate::runner::{Action, Controller, Error, Source};

/// The controller.
pub struct Remedies {
    shared: Arc<ControllerContext>,
}

impl Remedies {
    /// A controller.
    pub fn new(shared: Arc<ControllerContext>) -> Arc<Self> {
        Arc::new(Remedies { shared })
    }

    /// What wakes this controller: a Cluster whose labels, spec or conditions changed; a Remedy, for the clusters that it means or meant.
    pub fn wakes(shared: &ControllerContext) -> Vec<Source<Key>> {
        let known = shared.clusters.clone();
        let remedies = shared.remedies.wakes(move |transition| {
            let clusters = known.all("");
            let meant =
                clusters.iter().filter(|cluster| transition.states().any(|one| remedy::means(one, cluster)));
            meant.map(|cluster| Key { namespace: "".into(), name: cluster.name().into() }).collect()
        });
        vec![shared.clusters.wakes(changed_in_conditions), remedies]
    }
}

#[async_trait::async_trait]
impl Controller for Remedies {
    type Key = Key;

    fn name(&self) -> &'static str {
        "remedy-controller"
    }

    async fn reconcile(&self, key: &Key) -> Result<Action, Error> {
        let api: &dyn Api = &*self.shared.api;
        let resource = kinds::clusters(api)?;
        let found: Option<Cluster> = fetch::get(api, &resource, "", &key.name).await?;
        let Some(mut cluster) = found.filter(|cluster| !cluster.deleting()) else { return Ok(Action::Done) };
        let actions = remedy::actions(&cluster, &self.shared.remedies.all(""));
        if actions != cluster.status.remedy_actions {
            cluster.status.remedy_actions = actions;
            api.update_status(&resource, fetch::to_value(&cluster)?).await?;
        }
        Ok(Action::Done)
    }
}

#[cfg(test)]
mod tests;
