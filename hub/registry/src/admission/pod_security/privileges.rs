//! Checks of Pod security about what a container may do to the kernel: capabilities, privilege, host processes.
//!
//! In: a [`Pod`] with the version of the rules that it is judged by. Out: for each check a [`Violation`] with kube-apiserver's words, or
//! `None`. Pure; Pods for Windows are excused from some.

use std::collections::BTreeSet;

use serde_json::Value;

use super::pod::{Pod, Violation, containers, quoted, texts};

/// Capabilities that container runtimes give by default.
const DEFAULT: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// Containers that add capabilities that are not among `allowed`, as a sentence.
fn adding(pod: &Pod<'_>, allowed: &[&str]) -> Option<String> {
    fn added(container: &Value) -> impl Iterator<Item = &str> {
        texts(&container["securityContext"]["capabilities"]["add"])
    }
    let who = pod.which(|container| added(container).any(|one| !allowed.contains(&one)));
    let all: BTreeSet<&str> = pod.containers().flat_map(added).filter(|one| !allowed.contains(one)).collect();
    let who = containers(&who)?;
    Some(format!("{who} must not include {} in securityContext.capabilities.add", quoted(&all)))
}

/// No capability beyond those that every container gets.
pub(super) fn capabilities(pod: &Pod<'_>) -> Option<Violation> {
    Some(Violation { reason: "non-default capabilities", detail: adding(pod, &DEFAULT)? })
}

/// All capabilities are dropped, and one alone may be added.
pub(super) fn all_capabilities(pod: &Pod<'_>) -> Option<Violation> {
    if pod.excused_as_windows() {
        return None;
    }
    let drops = |container: &Value| {
        texts(&container["securityContext"]["capabilities"]["drop"]).any(|one| one == "ALL")
    };
    let keeping = containers(&pod.which(|container| !drops(container)))
        .map(|who| format!("{who} must set securityContext.capabilities.drop=[\"ALL\"]"));
    let all: Vec<String> = keeping.into_iter().chain(adding(pod, &["NET_BIND_SERVICE"])).collect();
    (!all.is_empty()).then(|| Violation { reason: "unrestricted capabilities", detail: all.join("; ") })
}

/// No container is privileged: such a one can do whatever the node can.
pub(super) fn privileged(pod: &Pod<'_>) -> Option<Violation> {
    let who = pod.which(|container| container["securityContext"]["privileged"] == true);
    let detail = format!("{} must not set securityContext.privileged=true", containers(&who)?);
    Some(Violation { reason: "privileged", detail })
}

/// No process gets more than its parent had: each container says so.
pub(super) fn escalation(pod: &Pod<'_>) -> Option<Violation> {
    if pod.excused_as_windows() {
        return None;
    }
    let who = pod.which(|container| container["securityContext"]["allowPrivilegeEscalation"] != false);
    let detail = format!("{} must set securityContext.allowPrivilegeEscalation=false", containers(&who)?);
    Some(Violation { reason: "allowPrivilegeEscalation != false", detail })
}

/// No process of the node's own, on Windows.
pub(super) fn host_process(pod: &Pod<'_>) -> Option<Violation> {
    let who = pod.setters(|context| context["windowsOptions"]["hostProcess"] == true)?;
    let detail = format!("{who} must not set securityContext.windowsOptions.hostProcess=true");
    Some(Violation { reason: "hostProcess", detail })
}
