//! Who asks the members' agents for exact room, as the scheduler asks for it.
//!
//! In: the clusters that a binding may go to, and what each replica asks for. Out: for each cluster the replicas that have room on its nodes, or
//! in words why that is not known: the scheduler then goes by the cluster's summary.

use std::collections::BTreeMap;

use karmada_api::binding::ReplicaRequirements;

/// The answers of agents by cluster.
pub type Answers = BTreeMap<String, Result<i64, String>>;

/// Asks agents. An answer is of now; whoever does not answer in time is left out with the reason.
#[async_trait::async_trait]
pub trait Estimator: Send + Sync {
    /// Asks the agents of these clusters, all at once.
    async fn room(&self, clusters: &[&str], requirements: Option<&ReplicaRequirements>) -> Answers;
}
