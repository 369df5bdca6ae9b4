//! Holds `Cluster.status` to what the cluster's agent said last: an agent speaks when something changes, so a status that
//! somebody edited or wiped on the hub would stay so.
//!
//! In: changes of Clusters. Out: where a Cluster says something else than its agent did, as the fleet's state finds
//! ([`StatusVerdict`]), the agent is asked to say it again; where a person let deletes go out, its session is told. Nothing is asked or written
//! while nothing differs.

use std::sync::Arc;

use karmada_controllers::port::Key;
use karmada_controllers::runner::{Action, Controller, Error};
use karmada_gateway::Gateway;
use karmada_gateway::fleet::{AGAIN, StatusVerdict};
use karmada_registry::Registry;

use karmada_core::orphans::Orphans;

/// Looks at every Cluster that changes.
pub struct Repair {
    registry: Arc<Registry>,
    gateway: Arc<Gateway>,
}

impl Repair {
    /// One that asks through the gateway.
    pub fn new(registry: Arc<Registry>, gateway: Arc<Gateway>) -> Arc<Repair> {
        Arc::new(Repair { registry, gateway })
    }
}

#[async_trait::async_trait]
impl Controller for Repair {
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
        let decided = Orphans::of(&cluster).decided();
        if !decided.is_empty() {
            self.gateway.let_go(&key.name, decided);
        }
        Ok(match self.gateway.fleet().verdict(&key.name, &cluster) {
            StatusVerdict::Right => Action::Done,
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
