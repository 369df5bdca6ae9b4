//! What people and monitoring see of the fleet beside the stored Clusters: when each agent was last heard, its version, what waits
//! for it. From memory, at the moment of asking: liveness is not stored.
//!
//! In: the fleet's state, the Works. Out: columns of `kubectl get clusters -o wide`, and lines of `/metrics`.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karmada_api::cluster::Cluster;
use karmada_definitions::resource::{LiveColumn, LiveColumns};
use karmada_fleet::agent_note::AgentNote;
use karmada_fleet::cluster_metrics::{self, Seen};
use karmada_gateway::SharedFleet;
use karmada_registry::Registry;
use karmada_schema::duration::human_duration;
use serde_json::Value;

use super::pending_works::PendingWorks;
use karmada_core::orphans::Orphans;

/// The columns beside those that Karmada has.
const COLUMNS: [LiveColumn; 5] = [
    LiveColumn { name: "Last-Seen", description: "How long ago the cluster's agent was last heard." },
    LiveColumn { name: "Agent", description: "The version of the agent, or the last that it had." },
    LiveColumn { name: "Taints", description: "Why workloads may be kept away from the cluster." },
    LiveColumn {
        name: "Pending",
        description: "Works that are not applied yet as they are now, or not removed yet.",
    },
    LiveColumn {
        name: "Orphans",
        description: "Works that the site enforces or has objects of, and the hub knows nothing of: see karmadactl orphans.",
    },
];

/// The fleet of one hub.
pub struct Overview {
    registry: Arc<Registry>,
    fleet: Arc<SharedFleet>,
    pending: PendingWorks,
}

impl Overview {
    /// Over the objects of `registry` and the sessions of `fleet`.
    pub fn new(registry: Arc<Registry>, fleet: Arc<SharedFleet>) -> Arc<Overview> {
        let pending = PendingWorks::new(registry.clone(), fleet.clone());
        Arc::new(Overview { registry, fleet, pending })
    }

    /// The columns that a Cluster's row gets.
    pub fn columns(self: Arc<Overview>) -> LiveColumns {
        LiveColumns { columns: &COLUMNS, cells: Arc::new(move |cluster| self.cells(cluster)) }
    }

    fn cells(&self, cluster: &Value) -> Vec<Value> {
        let name = cluster["metadata"]["name"].as_str().unwrap_or_default();
        let link = self.fleet.link(name);
        let silent = link.last_frame.map(|heard| since(heard, self.registry.now()));
        // Of one that is away, the version that it had.
        let version = match link.session {
            Some(session) => Some(session.agent_version),
            None => AgentNote::of(cluster).map(|note| note.version),
        };
        let version = version.filter(|version| !version.is_empty());
        vec![
            silent
                .map_or_else(|| "<unknown>".into(), |silent| human_duration(silent.as_secs() as i64).into()),
            version.unwrap_or_else(|| "<none>".to_owned()).into(),
            taints(cluster).into(),
            self.pending.count(name).into(),
            Orphans::of(cluster).count().into(),
        ]
    }

    /// The lines of `/metrics`.
    pub fn page(&self) -> String {
        let found = self.registry.definition("cluster.karmada.io", "v1alpha1", "clusters");
        let Ok(definition) = found else { return String::new() };
        let all = self.registry.cache().of_resource(&definition.storage).snapshot("").items;
        let links = self.fleet.links();
        let seen = all.iter().filter_map(|stored| {
            let cluster: Cluster = serde_json::from_slice(&stored.json()).ok()?;
            let at = links.binary_search_by(|link| link.cluster.as_str().cmp(cluster.name()));
            let pending = self.pending.of(cluster.name());
            Some(Seen { link: at.ok().map(|at| &links[at]), cluster, pending })
        });
        cluster_metrics::page(&seen.collect::<Vec<_>>(), self.fleet.sessions())
    }
}

fn since(heard: Timestamp, now: Timestamp) -> Duration {
    now.duration_since(heard).try_into().unwrap_or_default()
}

/// `key=value:Effect` of each taint.
fn taints(cluster: &Value) -> String {
    let text = |taint: &Value, field: &str| taint[field].as_str().unwrap_or_default().to_owned();
    let all = cluster["spec"]["taints"].as_array().into_iter().flatten();
    let shown: Vec<String> = all
        .map(|taint| {
            let value = Some(text(taint, "value")).filter(|value| !value.is_empty());
            let value = value.map(|value| format!("={value}")).unwrap_or_default();
            format!("{}{value}:{}", text(taint, "key"), text(taint, "effect"))
        })
        .collect();
    if shown.is_empty() { "<none>".to_owned() } else { shown.join(",") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn taints_are_shown_as_they_are_written() {
        let cluster = json!({"spec": {"taints": [
            {"key": "site", "value": "edge", "effect": "NoExecute"}, {"key": "cluster.karmada.io/not-ready", "effect": "NoSchedule"}]}});
        assert_eq!(taints(&cluster), "site=edge:NoExecute,cluster.karmada.io/not-ready:NoSchedule");
        assert_eq!(taints(&json!({})), "<none>");
    }
}
