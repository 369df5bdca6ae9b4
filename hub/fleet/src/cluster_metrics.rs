//! What monitoring sees of each cluster in `/metrics`. Names that begin with `cluster_` are Karmada's.
//!
//! In: each Cluster with its link and what has not got there. Out: lines of the Prometheus text format. Pure.

use std::fmt::Write as _;

use karmada_api::cluster::{Cluster, ResourceSummary};
use karmada_api::strings::{annotations, conditions};
use karmada_core::orphans::Orphans;
use karmada_gateway::fleet::{ClusterLink, SessionView};

use crate::agent_note::AgentNote;
use crate::pending_works::Pending;

/// What is known of a cluster.
pub struct Seen<'a> {
    /// The object.
    pub cluster: Cluster,
    /// Its link, where one is known.
    pub link: Option<&'a ClusterLink>,
    /// What has not got there.
    pub pending: Pending,
}

impl Seen<'_> {
    fn session(&self) -> Option<&SessionView> {
        self.link?.session.as_ref()
    }

    fn summary(&self) -> Option<&ResourceSummary> {
        self.cluster.status.resource_summary.as_ref()
    }

    fn allocatable(&self, resource: &str) -> Option<f64> {
        Some(self.summary()?.allocatable.get(resource)?.milli() as f64 / 1000.0)
    }

    fn allocated(&self, resource: &str) -> Option<f64> {
        Some(self.summary()?.allocated.get(resource)?.milli() as f64 / 1000.0)
    }
}

/// One figure of each cluster that has it.
struct Gauge {
    name: &'static str,
    help: &'static str,
    value: fn(&Seen<'_>) -> Option<f64>,
}

const fn gauge(name: &'static str, help: &'static str, value: fn(&Seen<'_>) -> Option<f64>) -> Gauge {
    Gauge { name, help, value }
}

const GAUGES: [Gauge; 20] = [
    gauge("cluster_ready_state", "Whether the cluster is ready (1) or not (0).", |seen| {
        let ready = seen.cluster.condition(conditions::READY);
        flag(ready.is_some_and(|condition| condition.status == conditions::TRUE))
    }),
    gauge("cluster_node_number", "Nodes.", |seen| {
        seen.cluster.status.node_summary.as_ref().map(|nodes| f64::from(nodes.total_num))
    }),
    gauge("cluster_ready_node_number", "Nodes that are ready.", |seen| {
        seen.cluster.status.node_summary.as_ref().map(|nodes| f64::from(nodes.ready_num))
    }),
    gauge("cluster_memory_allocatable_bytes", "Memory that may be allocated.", |seen| {
        seen.allocatable("memory")
    }),
    gauge("cluster_cpu_allocatable_number", "Processors that may be allocated.", |seen| {
        seen.allocatable("cpu")
    }),
    gauge("cluster_pod_allocatable_number", "Pods that may be placed.", |seen| seen.allocatable("pods")),
    gauge("cluster_memory_allocated_bytes", "Memory that is allocated.", |seen| seen.allocated("memory")),
    gauge("cluster_cpu_allocated_number", "Processors that are allocated.", |seen| seen.allocated("cpu")),
    gauge("cluster_pod_allocated_number", "Pods that are placed.", |seen| seen.allocated("pods")),
    gauge("karmada_hub_agent_connected", "Whether the cluster's agent has a session.", |seen| {
        flag(seen.session().is_some())
    }),
    gauge("karmada_hub_agent_last_contact_timestamp_seconds", "When the agent was last heard.", |seen| {
        Some(seen.link?.last_frame?.as_millisecond() as f64 / 1000.0)
    }),
    gauge(
        "karmada_hub_works_pending",
        "Works that are not applied yet as they are now, or not removed yet.",
        |seen| Some(seen.pending.count as f64),
    ),
    gauge("karmada_hub_orphans", "Works that the site enforces and the hub knows nothing of.", |seen| {
        let orphans: Orphans = serde_json::from_str(seen.cluster.annotation(annotations::ORPHANS)?).ok()?;
        Some(orphans.count() as f64)
    }),
    gauge("karmada_hub_send_queue_depth", "Works that wait to be sent to the agent.", |seen| {
        Some(seen.session()?.progress.backlog as f64)
    }),
    gauge("karmada_hub_deletes_held", "Deletes that wait for a person's word.", |seen| {
        let restored = seen.link.and_then(|link| link.hold).map_or(0, |hold| hold.deletes as usize);
        let placed = seen.pending.held.map_or(0, |held| held.count);
        Some((restored + placed) as f64).filter(|held| *held > 0.0)
    }),
    gauge("karmada_hub_link_round_trip_seconds", "How long the agent took to answer last.", |seen| {
        Some(seen.session()?.progress.round_trip?.as_secs_f64())
    }),
    gauge("karmada_hub_session_received_bytes", "Bytes of frames that came in this session.", |seen| {
        Some(seen.session()?.progress.received as f64)
    }),
    gauge("karmada_hub_session_sent_bytes", "Bytes of frames that went in this session.", |seen| {
        Some(seen.session()?.progress.sent as f64)
    }),
    gauge("karmada_hub_agent_clock_offset_seconds", "The agent's clock less the hub's.", |seen| {
        Some(seen.session()?.clock_offset_ms as f64 / 1000.0)
    }),
    gauge(
        "karmada_hub_agent_certificate_expiration_timestamp_seconds",
        "When the certificate ends that the agent showed last.",
        |seen| {
            // Of one that is away, what it showed then.
            let noted = || {
                let note: AgentNote =
                    serde_json::from_str(seen.cluster.annotation(annotations::AGENT)?).ok()?;
                Some(note.certificate_ends)
            };
            let ends = seen.link.and_then(|link| link.certificate_ends).or_else(noted);
            Some(ends?.as_second() as f64)
        },
    ),
];

fn flag(holds: bool) -> Option<f64> {
    Some(f64::from(u8::from(holds)))
}

/// The lines, and how many agents are connected.
pub fn page(clusters: &[Seen<'_>], sessions: usize) -> String {
    let mut out = String::new();
    for Gauge { name, help, value } in &GAUGES {
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} gauge");
        for seen in clusters {
            if let Some(value) = value(seen) {
                let _ = writeln!(out, "{name}{{member_cluster=\"{}\"}} {value}", seen.cluster.name());
            }
        }
    }
    let _ = writeln!(
        out,
        "# HELP karmada_hub_sessions Agents that are connected.\n# TYPE karmada_hub_sessions gauge\nkarmada_hub_sessions {sessions}"
    );
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::pending_works::WaitingDeletes;

    #[test]
    fn a_figure_that_a_cluster_does_not_have_has_no_line() {
        let cluster: Cluster =
            serde_json::from_value(json!({"metadata": {"name": "north"}, "spec": {"syncMode": "Pull"},
            "status": {"resourceSummary": {"allocatable": {"cpu": "1500m"}}}}))
            .unwrap();
        let held = Some(WaitingDeletes { count: 4, last: jiff::Timestamp::UNIX_EPOCH });
        let away = Seen { cluster, link: None, pending: Pending { count: 7, oldest: None, held } };
        let page = page(&[away], 3);
        let lines: Vec<&str> = page.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            lines,
            [
                "cluster_ready_state{member_cluster=\"north\"} 0",
                "cluster_cpu_allocatable_number{member_cluster=\"north\"} 1.5",
                "karmada_hub_agent_connected{member_cluster=\"north\"} 0",
                "karmada_hub_works_pending{member_cluster=\"north\"} 7",
                "karmada_hub_deletes_held{member_cluster=\"north\"} 4",
                "karmada_hub_sessions 3",
            ]
        );
        assert_eq!(page.matches("# TYPE ").count(), GAUGES.len() + 1);
    }
}
