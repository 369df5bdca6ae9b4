//! How many Works of a cluster have not got there: not applied as they are now, or still to be taken away. Counted when somebody asks.
//!
//! In: the watch cache's Works. Out: a number. What was found of a Work is kept until the Work changes, so that asking again parses
//! only what changed since.

use std::sync::Arc;

use karmada_api::names::execution_namespace;
use karmada_api::strings::conditions;
use karmada_definitions::resource::StorageId;
use karmada_gateway::Links;
use karmada_gateway::fleet::Looks;
use karmada_registry::Registry;
use serde_json::Value;

/// The counts of one hub.
pub struct PendingWorks {
    registry: Arc<Registry>,
    links: Arc<Links>,
}

impl PendingWorks {
    /// Over a registry. What was found of Works is kept in the fleet's state, with their clusters.
    pub fn new(registry: Arc<Registry>, links: Arc<Links>) -> PendingWorks {
        PendingWorks { registry, links }
    }

    /// Works of the cluster that have not got there.
    pub fn count(&self, cluster: &str) -> usize {
        let shard = self.registry.cache().shard(&StorageId("work.karmada.io/works".into()));
        let works = shard.snapshot(&execution_namespace(cluster)).items;
        let before = self.links.take_looks(cluster);
        let looks: Looks = works
            .iter()
            .map(|work| {
                let name: Arc<str> = work.key.name.clone();
                let known = before.get(&name).filter(|(revision, _)| *revision == work.revision);
                let pending = known.map_or_else(|| is_pending(&work.value()), |(_, pending)| *pending);
                (name, (work.revision, pending))
            })
            .collect();
        let count = looks.values().filter(|(_, pending)| *pending).count();
        self.links.keep_looks(cluster, looks);
        count
    }
}

/// Whether a Work waits: it is being deleted, or its present generation is not known to be applied. One that is suspended waits for
/// a person, and does not count.
fn is_pending(work: &Value) -> bool {
    if !work["metadata"]["deletionTimestamp"].is_null() {
        return true;
    }
    if work["spec"]["suspendDispatching"] == true {
        return false;
    }
    let all = work["status"]["conditions"].as_array();
    let applied = all.into_iter().flatten().find(|condition| condition["type"] == conditions::APPLIED);
    let generation = work["metadata"]["generation"].as_i64().unwrap_or(0);
    !applied.is_some_and(|applied| {
        let of = applied["observedGeneration"].as_i64().unwrap_or(generation);
        applied["status"] == "True" && of >= generation
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_work_waits_until_its_present_generation_is_applied() {
        let work = |generation: i64, status: &str, of: i64| {
            json!({"metadata": {"generation": generation}, "spec": {},
                "status": {"conditions": [{"type": "Applied", "status": status, "observedGeneration": of}]}})
        };
        assert!(!is_pending(&work(2, "True", 2)));
        assert!(is_pending(&work(2, "True", 1)), "an older one was");
        assert!(is_pending(&work(2, "False", 2)) && is_pending(&json!({"metadata": {"generation": 1}})));
        let mut leaving = work(1, "True", 1);
        leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert!(is_pending(&leaving));
        assert!(!is_pending(&json!({"metadata": {"generation": 1}, "spec": {"suspendDispatching": true}})));
    }
}
