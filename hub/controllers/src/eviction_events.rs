//! What people hear of workloads that leave clusters, on the binding and on the template.
//!
//! In: a binding, a cluster, what came of it. Out: events.

use karmada_api::binding::ResourceBinding;
use karmada_api::strings::events;

use crate::controller_context::ControllerContext;
use crate::events::EventType;

/// Tells that a binding leaves a cluster, or has left it.
pub(crate) fn tell_left(shared: &ControllerContext, binding: &ResourceBinding, cluster: &str, how: &str) {
    let message = format!("Evict from cluster {cluster} succeed: {how}.");
    shared.recorder.record_of_binding(binding, EventType::Normal, events::EVICT_WORKLOAD_SUCCEED, &message);
}

/// Tells why a binding that should leave a cluster does not.
pub(crate) fn tell_refused(shared: &ControllerContext, binding: &ResourceBinding, cluster: &str, why: &str) {
    let message = format!("Evict from cluster {cluster} failed: {why}.");
    shared.recorder.record_of_binding(binding, EventType::Warning, events::EVICT_WORKLOAD_FAILED, &message);
}
