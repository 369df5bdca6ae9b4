//! Reports on their way to what keeps them.
//!
//! In: reports of one agent, packed as they came. Out: calls of the gateway's ports, of which what is unpacked at once is bounded over all
//! sessions.

use crate::gateway::Gateway;
use crate::inbox::{Packed, Report};
use crate::ports::PortError;

/// What a report unpacks to, in KiB.
pub(super) fn weight(report: &Report) -> u32 {
    match report {
        Report::Work(_, packed) => packed.as_ref().map_or(0, Packed::weight),
        Report::Cluster(packed) => packed.weight(),
        _ => 0,
    }
}

/// Writes a report.
pub(super) async fn write(gateway: &Gateway, cluster: &str, report: Report) -> Result<(), PortError> {
    let sink = &gateway.ports.statuses;
    let closed = |_| PortError::later("the gateway ends");
    // Held until it is written: what is unpacked and parsed is bounded, over all sessions.
    let _room = gateway.unpacked.acquire_many(weight(&report)).await.map_err(closed)?;
    let open = |packed: &Packed| packed.open().map_err(|error| PortError::never(error.to_string()));
    match report {
        Report::Work(mut report, packed) => {
            report.manifest_statuses = packed.as_ref().map(open).transpose()?;
            sink.work_status(cluster, report).await
        }
        Report::Finalize { key, uid, objects } => sink.finalize_work(cluster, &key, &uid, &objects).await,
        Report::Cluster(status) => sink.cluster_status(cluster, open(&status)?).await,
        Report::Notice(notice) => sink.event(cluster, notice).await,
        Report::Orphans(keys) => sink.orphans(cluster, keys).await,
        Report::HoldEnds(held) => {
            gateway.fleet.nothing_held(cluster);
            gateway.ports.sessions.end_restore_hold(cluster, held).await
        }
    }
}
