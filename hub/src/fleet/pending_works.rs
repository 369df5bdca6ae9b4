//! Which Works of a cluster have not got there: not applied as they are now, or still to be taken away. Counted when somebody asks.
//!
//! In: the watch cache's Works. Out: how many, and the one that has waited for the longest. What was found of a Work is kept until the Work changes, so that asking again parses
//! only what changed since.

use std::sync::Arc;

use karmada_api::names::execution_namespace;
use karmada_definitions::resource::StorageId;
use karmada_fleet::pending_works::{Pending, look_at};
use karmada_gateway::SharedFleet;
use karmada_gateway::fleet::WorkProgressCache;
use karmada_registry::Registry;

/// The counts of one hub.
pub struct PendingWorks {
    registry: Arc<Registry>,
    fleet: Arc<SharedFleet>,
}

impl PendingWorks {
    /// Over a registry. What was found of Works is kept in the fleet's state, with their clusters.
    pub fn new(registry: Arc<Registry>, fleet: Arc<SharedFleet>) -> PendingWorks {
        PendingWorks { registry, fleet }
    }

    /// How many Works of the cluster have not got there.
    pub fn count(&self, cluster: &str) -> usize {
        self.of(cluster).count
    }

    /// The Works of the cluster that have not got there.
    pub fn of(&self, cluster: &str) -> Pending {
        let resource_cache = self.registry.cache().of_resource(&StorageId("work.karmada.io/works".into()));
        let works = resource_cache.snapshot(&execution_namespace(cluster)).items;
        let before = self.fleet.take_looks(cluster);
        let looks: WorkProgressCache = works
            .iter()
            .map(|work| {
                let name: Arc<str> = work.key.name.clone();
                let known = before.get(&name).filter(|look| look.revision == work.revision);
                let look = known.copied().unwrap_or_else(|| look_at(work.revision, &work.value()));
                (name, look)
            })
            .collect();
        let pending = Pending::of(&looks, self.registry.now());
        self.fleet.keep_looks(cluster, looks);
        pending
    }
}
