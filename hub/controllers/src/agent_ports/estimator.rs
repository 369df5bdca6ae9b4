//! Who asks the members' agents about their nodes and Pods, for the scheduler and the descheduler.
//!
//! In: the clusters that a binding may go to, and what each replica asks for; or those that it is in. Out: for each cluster the replicas that have
//! room on its nodes, or those that find none; or in words why that is not known: the scheduler then goes by the cluster's summary, and the
//! descheduler leaves the cluster alone.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::time::Duration;

use karmada_api::binding::ObjectReference;
use karmada_api::cluster::Cluster;
use karmada_core::feature_gates::{FeatureGates, Gate};
use karmada_core::scheduler::Input;
use karmada_core::scheduler::assumptions::Taken;
use karmada_core::scheduler::estimator_answers::{self, Exact, Wanted};

/// How much room is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoomQuestion<'a> {
    /// What is to have room.
    pub wanted: Wanted<'a>,
    /// Where it is to run in the member.
    pub namespace: &'a str,
    /// Whether the member's ResourceQuotas of that namespace are a bound (gate ResourceQuotaEstimate).
    pub quotas_count: bool,
    /// What was placed and may not be seen in the members yet: it takes room.
    pub taken: &'a Taken,
}

/// What the agents say whom a decision of the scheduler depends on; nothing where there is no estimator.
pub async fn exact<C: Borrow<Cluster>>(
    estimator: Option<&dyn Estimator>,
    input: &Input<'_, C>,
    gates: &FeatureGates,
) -> Exact {
    let Some(estimator) = estimator else { return Exact::new() };
    let asked = estimator_answers::asked(input);
    if asked.is_empty() {
        return Exact::new();
    }
    let spec = &input.binding.spec;
    let question = RoomQuestion {
        wanted: estimator_answers::wanted(spec),
        namespace: &spec.resource.namespace,
        // What is in no namespace is under no quota.
        quotas_count: gates.enabled(Gate::ResourceQuotaEstimate) && !spec.resource.namespace.is_empty(),
        taken: &input.taken,
    };
    let answers = estimator.room(&asked, question).await;
    let said = answers.into_iter().filter_map(|(cluster, answer)| match answer {
        Ok(room) => Some((cluster, room)),
        Err(why) => {
            tracing::debug!(cluster, why, "its summary says how much room there is");
            None
        }
    });
    said.collect()
}

/// The answers of agents by cluster.
pub type Answers = BTreeMap<String, Result<i64, String>>;

/// Asks agents. An answer is of now; whoever does not answer in time is left out with the reason.
#[async_trait::async_trait]
pub trait Estimator: Send + Sync {
    /// Asks the agents of these clusters, all at once.
    async fn room(&self, clusters: &[&str], question: RoomQuestion<'_>) -> Answers;

    /// Asks them how many replicas of a Deployment wait for a node for longer than this.
    async fn unschedulable(
        &self,
        clusters: &[&str],
        workload: &ObjectReference,
        longer_than: Duration,
    ) -> Answers;
}
