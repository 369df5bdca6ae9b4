//! Holds `Cluster.status` to what the cluster's agent said last: an agent speaks when something changes, so a status that
//! somebody edited or wiped on the hub would stay so.
//!
//! In: changes of Clusters. Out: where a Cluster says something else than its agent did, as the fleet's state finds
//! ([`StatusVerdict`]), the agent is asked to say it again; where a person let deletes go out, its session is told; where a Work has the name of an orphan by now, the orphan is
//! forgotten. Nothing is asked or written
//! while nothing differs.

use std::sync::Arc;
use std::time::Duration;

use karmada_controllers::port::Key;
use karmada_controllers::runner::{Action, Controller, Error, Source};
use karmada_gateway::Gateway;
use karmada_gateway::fleet::{AGAIN, StatusVerdict};
use karmada_registry::Registry;

use karmada_core::orphans::Orphans;

/// How soon a Cluster with orphans is looked at again, whatever changes: a Work may have come to be by the name of one.
const ORPHANS_AGAIN: Duration = Duration::from_secs(60);

/// Looks at every Cluster that changes.
pub struct ClusterStatusRepair {
    registry: Arc<Registry>,
    gateway: Arc<Gateway>,
}

impl ClusterStatusRepair {
    /// One that asks through the gateway.
    pub fn new(registry: Arc<Registry>, gateway: Arc<Gateway>) -> Arc<ClusterStatusRepair> {
        Arc::new(ClusterStatusRepair { registry, gateway })
    }

    /// What wakes this controller: a Cluster.
    pub fn wakes() -> Vec<Source<Key>> {
        vec![Source::own("cluster.karmada.io/v1alpha1", "Cluster")]
    }
}

#[async_trait::async_trait]
impl Controller for ClusterStatusRepair {
    type Key = Key;

    fn name(&self) -> &'static str {
        "cluster-status-repair"
    }

    async fn reconcile(&self, key: &Key) -> Result<Action, Error> {
        let other = |status: karmada_definitions::status::Status| Error::Other(status.message);
        let definition =
            self.registry.definition("cluster.karmada.io", "v1alpha1", "clusters").map_err(other)?;
        let Ok(cluster) = self.registry.get(&definition, "", &key.name) else { return Ok(Action::Done) };
        let cluster = cluster.value();
        if let Some(batch) = super::reports::confirmed(&cluster) {
            self.gateway.confirm_deletes(&key.name, batch);
        }
        let orphans = Orphans::of(&cluster);
        let cannot = |error: karmada_gateway::ports::PortError| Error::Other(error.message);
        let names = orphans.fates().keys().map(String::as_str).collect();
        self.gateway.forget_placed_orphans(&key.name, &names).await.map_err(cannot)?;
        let decided = orphans.decided();
        if !decided.is_empty() {
            self.gateway.let_go(&key.name, decided);
        }
        // Nothing tells of a Work that is made by the name of an orphan.
        let rest = if orphans.count() == 0 { Action::Done } else { Action::RequeueAfter(ORPHANS_AGAIN) };
        Ok(match self.gateway.fleet().verdict(&key.name, &cluster) {
            StatusVerdict::Right => rest,
            StatusVerdict::Wait(wait) => Action::RequeueAfter(wait),
            StatusVerdict::Ask => {
                if self.gateway.ask_cluster_status(&key.name) {
                    tracing::info!(
                        cluster = &*key.name,
                        "its status is not what its agent said: asking again"
                    );
                }
                Action::RequeueAfter(AGAIN)
            }
        })
    }
}
