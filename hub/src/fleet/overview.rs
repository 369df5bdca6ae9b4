//! What people and monitoring see of the fleet beside the stored Clusters: when each agent was last heard, its version, what waits
//! for it. From memory, at the moment of asking: liveness is not stored.
//!
//! In: the fleet's state, the Works. Out: columns of `kubectl get clusters -o wide`, and lines of `/metrics`.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karmada_api::cluster::{Cluster, ResourceSummary};
use karmada_api::strings::{annotations, conditions};
use karmada_definitions::resource::{LiveColumn, LiveColumns};
use karmada_gateway::Links;
use karmada_registry::Registry;
use karmada_schema::duration::human_duration;
use serde_json::Value;

use super::AgentNote;
use super::orphans::Orphans;
use super::pending::PendingWorks;

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
    links: Arc<Links>,
    pending: PendingWorks,
}

impl Overview {
    /// Of these.
    pub fn new(registry: Arc<Registry>, links: Arc<Links>) -> Arc<Overview> {
        let pending = PendingWorks::new(registry.clone(), links.clone());
        Arc::new(Overview { registry, links, pending })
    }

    /// The columns that a Cluster's row gets.
    pub fn columns(self: Arc<Overview>) -> LiveColumns {
        LiveColumns { columns: &COLUMNS, cells: Arc::new(move |cluster| self.cells(cluster)) }
    }

    fn cells(&self, cluster: &Value) -> Vec<Value> {
        let name = cluster["metadata"]["name"].as_str().unwrap_or_default();
        let link = self.links.link(name);
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

    /// The lines of `/metrics`; names that begin with `cluster_` are Karmada's.
    pub fn page(&self) -> String {
        let found = self.registry.definition("cluster.karmada.io", "v1alpha1", "clusters");
        let Ok(definition) = found else { return String::new() };
        let all = self.registry.cache().shard(&definition.storage).snapshot("").items;
        let clusters: Vec<Cluster> =
            all.iter().filter_map(|stored| serde_json::from_slice(&stored.json()).ok()).collect();
        let links = self.links.links();
        let link = |cluster: &Cluster| {
            let found = links.binary_search_by(|link| link.cluster.as_str().cmp(cluster.name()));
            found.ok().map(|at| &links[at])
        };
        let session = |cluster: &Cluster| link(cluster)?.session.as_ref();
        let mut out = String::new();
        let mut gauge = |name: &str, help: &str, value: &dyn Fn(&Cluster) -> Option<f64>| {
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} gauge");
            for cluster in &clusters {
                if let Some(value) = value(cluster) {
                    let _ = writeln!(out, "{name}{{member_cluster=\"{}\"}} {value}", cluster.name());
                }
            }
        };
        let resources = |of: &Cluster| of.status.resource_summary.clone().unwrap_or_default();
        gauge("cluster_ready_state", "Whether the cluster is ready (1) or not (0).", &|cluster| {
            Some(f64::from(u8::from(
                cluster.condition(conditions::READY).is_some_and(|c| c.status == conditions::TRUE),
            )))
        });
        gauge("cluster_node_number", "Nodes.", &|cluster| {
            cluster.status.node_summary.as_ref().map(|nodes| f64::from(nodes.total_num))
        });
        gauge("cluster_ready_node_number", "Nodes that are ready.", &|cluster| {
            cluster.status.node_summary.as_ref().map(|nodes| f64::from(nodes.ready_num))
        });
        for (name, help, resource, allocated) in [
            ("cluster_memory_allocatable_bytes", "Memory that may be allocated.", "memory", false),
            ("cluster_cpu_allocatable_number", "Processors that may be allocated.", "cpu", false),
            ("cluster_pod_allocatable_number", "Pods that may be placed.", "pods", false),
            ("cluster_memory_allocated_bytes", "Memory that is allocated.", "memory", true),
            ("cluster_cpu_allocated_number", "Processors that are allocated.", "cpu", true),
            ("cluster_pod_allocated_number", "Pods that are placed.", "pods", true),
        ] {
            gauge(name, help, &|cluster| amount(&resources(cluster), resource, allocated));
        }
        gauge("karmada_hub_agent_connected", "Whether the cluster's agent has a session.", &|cluster| {
            Some(f64::from(u8::from(session(cluster).is_some())))
        });
        gauge(
            "karmada_hub_agent_last_contact_timestamp_seconds",
            "When the agent was last heard.",
            &|cluster| Some(link(cluster)?.last_frame?.as_millisecond() as f64 / 1000.0),
        );
        gauge(
            "karmada_hub_works_pending",
            "Works that are not applied yet as they are now, or not removed yet.",
            &|cluster| Some(self.pending.count(cluster.name()) as f64),
        );
        gauge(
            "karmada_hub_orphans",
            "Works that the site enforces and the hub knows nothing of.",
            &|cluster| {
                let text = cluster.metadata.annotations.as_ref()?.get(annotations::ORPHANS)?;
                let orphans: Orphans = serde_json::from_str(text).ok()?;
                Some(orphans.count() as f64)
            },
        );
        gauge("karmada_hub_send_queue_depth", "Works that wait to be sent to the agent.", &|cluster| {
            Some(session(cluster)?.progress.backlog as f64)
        });
        gauge("karmada_hub_deletes_held", "Deletes that wait for a person's word.", &|cluster| {
            Some(link(cluster)?.hold?.deletes as f64)
        });
        gauge("karmada_hub_link_round_trip_seconds", "How long the agent took to answer last.", &|cluster| {
            Some(session(cluster)?.progress.round_trip?.as_secs_f64())
        });
        gauge(
            "karmada_hub_session_received_bytes",
            "Bytes of frames that came in this session.",
            &|cluster| Some(session(cluster)?.progress.received as f64),
        );
        gauge("karmada_hub_session_sent_bytes", "Bytes of frames that went in this session.", &|cluster| {
            Some(session(cluster)?.progress.sent as f64)
        });
        gauge("karmada_hub_agent_clock_offset_seconds", "The agent's clock less the hub's.", &|cluster| {
            Some(session(cluster)?.clock_offset_ms as f64 / 1000.0)
        });
        gauge(
            "karmada_hub_agent_certificate_expiration_timestamp_seconds",
            "When the certificate ends that the agent showed last.",
            &|cluster| {
                let noted = || {
                    let text = cluster.metadata.annotations.as_ref()?.get(annotations::AGENT)?;
                    Some(serde_json::from_str::<AgentNote>(text).ok()?.certificate_ends)
                };
                let ends = link(cluster).and_then(|link| link.certificate_ends).or_else(noted);
                Some(ends?.as_second() as f64)
            },
        );
        let sessions = self.links.sessions();
        let _ = writeln!(
            out,
            "# HELP karmada_hub_sessions Agents that are connected.\n# TYPE karmada_hub_sessions gauge\nkarmada_hub_sessions {sessions}"
        );
        out
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

fn amount(summary: &ResourceSummary, resource: &str, allocated: bool) -> Option<f64> {
    let map = if allocated { &summary.allocated } else { &summary.allocatable };
    Some(map.get(resource)?.milli() as f64 / 1000.0)
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
