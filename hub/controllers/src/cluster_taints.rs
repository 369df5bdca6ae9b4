//! The taints of a Cluster, written for whichever controller decided them.
//!
//! In: the Cluster, the taints that it is to have, and why. Out: the write, and the event that tells of it.

use k8s_openapi::api::core::v1::Taint;
use karmada_api::cluster::Cluster;
use karmada_api::strings::events;

use crate::controller_context::ControllerContext;
use crate::events::{EventType, Reference};
use crate::fetch;
use crate::port::{ApiError, Resource};
use crate::runner::Error;

/// Writes them. `because`: how the event begins, as in `By ClusterTaintPolicies`.
pub(crate) async fn write(
    shared: &ControllerContext,
    (resource, cluster): (&Resource, &Cluster),
    taints: &[Taint],
    because: &str,
) -> Result<(), Error> {
    let about = Reference::of_cluster(cluster.name(), cluster.metadata.uid.as_deref().unwrap_or_default());
    let tell = |kind, reason, message: &str| shared.recorder.record(&about, kind, reason, message);
    let mut changed = fetch::to_value(cluster)?;
    changed["spec"]["taints"] = serde_json::to_value(taints).unwrap_or_default();
    match shared.api.update(resource, changed).await {
        Ok(_) => {
            let all: Vec<String> =
                taints.iter().map(|taint| format!("{}:{}", taint.key, taint.effect)).collect();
            let message = format!("{because} its taints are [{}].", all.join(", "));
            tell(EventType::Normal, events::TAINT_CLUSTER_SUCCEED, &message);
            Ok(())
        }
        // Somebody else changed it: the change wakes the controller again.
        Err(error @ ApiError::Conflict(_)) => Err(error.into()),
        Err(error) => {
            tell(EventType::Warning, events::TAINT_CLUSTER_FAILED, &error.to_string());
            Err(error.into())
        }
    }
}
