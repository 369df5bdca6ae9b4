//! Who asks the members' agents what the Pods of a workload use, as FederatedHPAs ask for it.
//!
//! In: the clusters that a workload is in, which Pods are its own, and what is to be measured. Out: for each cluster the Pods with what was measured
//! of them, or in words why that is not known. An answer is of now; whoever does not answer in time has the reason in place of it.

use k8s_openapi::api::autoscaling::v2::MetricSpec;
pub use karmada_autoscaling::federated_hpa::Answers;

/// What is asked of each cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// The workload's namespace.
    pub namespace: String,
    /// The label selector of its Pods, as text.
    pub selector: String,
    /// What is measured; answers stand in this order.
    pub metrics: Vec<MetricSpec>,
}

/// Asks agents.
#[async_trait::async_trait]
pub trait PodMetrics: Send + Sync {
    /// Asks the agents of these clusters, all at once. Each of them has an answer, or a reason.
    async fn ask(&self, clusters: &[&str], question: &Question) -> Answers;
}
