//! Checks of Pod security about who a container runs as.
//!
//! In: a [`Pod`] with the version of the rules that it is judged by. Out: for each check a [`Violation`] with kube-apiserver's words, or
//! `None`. Pure; Pods with users of their own are excused.

use serde_json::Value;

use super::pod::{Pod, Violation, containers};

/// Nobody runs as root: each container says so, or the Pod does for it.
pub(super) fn not_root(pod: &Pod<'_>) -> Option<Violation> {
    const REASON: &str = "runAsNonRoot != true";
    if pod.has_own_users() {
        return None;
    }
    if let Some(who) = pod.setters(|context| context["runAsNonRoot"] == false) {
        let detail = format!("{who} must not set securityContext.runAsNonRoot=false");
        return Some(Violation { reason: REASON, detail });
    }
    if pod.spec["securityContext"]["runAsNonRoot"] == true {
        return None;
    }
    let silent = pod.which(|container| container["securityContext"]["runAsNonRoot"].is_null());
    let detail = format!("pod or {} must set securityContext.runAsNonRoot=true", containers(&silent)?);
    Some(Violation { reason: REASON, detail })
}

/// Nobody asks to run as the user with the number 0.
pub(super) fn user(pod: &Pod<'_>) -> Option<Violation> {
    if pod.has_own_users() {
        return None;
    }
    let who = pod.setters(|context: &Value| context["runAsUser"] == 0)?;
    Some(Violation { reason: "runAsUser=0", detail: format!("{who} must not set runAsUser=0") })
}
