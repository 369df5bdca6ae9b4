//! What agents said of their room, less what was moved there and is not there yet: an agent tells of now.
//!
//! In: what the scheduler looks at, with what agents said and what is taken. Out: what agents would say were that there already.
//!
//! The scheduler believes the lesser of an agent and a report, and takes off the report alone what is taken: where the agent tells less, two
//! workloads would be moved into one gap.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use karmada_api::cluster::Cluster;
use karmada_core::scheduler::assumptions::Taken;
use karmada_core::scheduler::estimator_answers::Exact;
use karmada_core::scheduler::{self, Input};

/// What agents said, for each cluster less by how many replicas what is taken there takes off its report.
pub(crate) fn beside_taken<C: Borrow<Cluster>>(input: &Input<'_, C>) -> Exact {
    let mut exact = input.exact.clone();
    if exact.is_empty() || input.taken.is_empty() {
        return exact;
    }
    let before = reported(input, Taken::new());
    let after = reported(input, input.taken.clone());
    for (cluster, room) in &mut exact {
        let of = |all: &BTreeMap<String, i64>| all.get(cluster).copied().unwrap_or(0);
        if *room > 0 {
            *room = (*room - (of(&before) - of(&after)).max(0)).max(0);
        }
    }
    exact
}

/// The room by the reports of clusters alone, where so much is taken.
fn reported<C: Borrow<Cluster>>(input: &Input<'_, C>, taken: Taken) -> BTreeMap<String, i64> {
    scheduler::room(&Input {
        binding: input.binding,
        clusters: input.clusters,
        scheduler: input.scheduler,
        keeps_empty: input.keeps_empty,
        neighbours: input.neighbours.clone(),
        taken,
        exact: Exact::new(),
        residency: input.residency.clone(),
        expressions: input.expressions,
    })
}
