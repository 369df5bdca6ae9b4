//! Checks of Pod security about what confines a container: AppArmor, SELinux, seccomp, sysctls, the mask over /proc.
//!
//! In: a [`Pod`] with the version of the rules that it is judged by. Out: for each check a [`Violation`] with kube-apiserver's words, or
//! `None`. Pure; annotations about seccomp count only by the rules of versions before 1.19.

use std::collections::BTreeSet;

use karmada_schema::quote;
use serde_json::Value;

use super::pod::{Pod, Violation, containers, name, number, quoted};

const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const SECCOMP: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_OF_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";

/// Whether the profile of this name confines: the runtime's own, or one that the node has.
fn confines(profile: &Value) -> bool {
    matches!(profile["type"].as_str(), Some("RuntimeDefault" | "Localhost"))
}

/// The type of a profile that is set and does not confine.
fn loose<'v>(context: &'v Value, field: &str) -> Option<&'v str> {
    let profile = context.get(field).filter(|profile| !profile.is_null() && !confines(profile))?;
    Some(profile["type"].as_str().unwrap_or_default())
}

/// No AppArmor profile that does not confine, neither by field nor, as formerly, by annotation.
pub(super) fn app_armor(pod: &Pod<'_>) -> Option<Violation> {
    const FIELD: &str = "appArmorProfile";
    let fine =
        |value: &str| value.is_empty() || value == "runtime/default" || value.starts_with("localhost/");
    let annotations = pod.annotations.as_object().into_iter().flatten();
    let annotations = annotations.filter_map(|(key, value)| Some((key, value.as_str()?)));
    let annotated = annotations.filter(|(key, value)| key.starts_with(APP_ARMOR) && !fine(value));
    let annotated: BTreeSet<String> =
        annotated.map(|(key, value)| format!("{key}={}", quote(value))).collect();
    let fields = pod.in_contexts(|context| loose(context, FIELD));
    let mut who = Vec::from_iter(pod.setters(|context| loose(context, FIELD).is_some()));
    if !annotated.is_empty() {
        who.push(number("annotation", "annotations", annotated.len()).to_owned());
    }
    let all: Vec<&str> = fields.into_iter().chain(annotated.iter().map(String::as_str)).collect();
    (!who.is_empty()).then(|| Violation {
        reason: number("forbidden AppArmor profile", "forbidden AppArmor profiles", all.len()),
        detail: format!("{} must not set AppArmor profile type to {}", who.join(" and "), quoted(all)),
    })
}

/// /proc stays masked, except in Pods with users of their own.
pub(super) fn proc_mount(pod: &Pod<'_>) -> Option<Violation> {
    if pod.has_own_users() { None } else { proc_mount_is_masked(pod) }
}

/// /proc stays masked.
pub(super) fn proc_mount_is_masked(pod: &Pod<'_>) -> Option<Violation> {
    fn odd(container: &Value) -> Option<&str> {
        container["securityContext"]["procMount"].as_str().filter(|mount| *mount != "Default")
    }
    let who = containers(&pod.which(|container| odd(container).is_some()))?;
    let all: BTreeSet<&str> = pod.containers().filter_map(odd).collect();
    let detail = format!("{who} must not set securityContext.procMount to {}", quoted(&all));
    Some(Violation { reason: "procMount", detail })
}

/// What a security context says of SELinux.
fn se_linux_option<'v>(context: &'v Value, field: &str) -> Option<&'v str> {
    context["seLinuxOptions"][field].as_str().filter(|text| !text.is_empty())
}

/// No SELinux type but those of containers, no user and no role.
pub(super) fn se_linux(pod: &Pod<'_>) -> Option<Violation> {
    let odd = |kind: &&str| match *kind {
        "container_t" | "container_init_t" | "container_kvm_t" => false,
        "container_engine_t" => pod.minor < 31,
        _ => true,
    };
    let types = pod.in_contexts(|context| se_linux_option(context, "type").filter(odd));
    let says = |field: &str| !pod.in_contexts(|context| se_linux_option(context, field)).is_empty();
    let who = pod.setters(|context| {
        let forbidden = |field| se_linux_option(context, field).is_some();
        se_linux_option(context, "type").is_some_and(|kind| odd(&kind))
            || forbidden("user")
            || forbidden("role")
    })?;
    let mut wrong = Vec::new();
    if !types.is_empty() {
        wrong.push(format!("{} {}", number("type", "types", types.len()), quoted(&types)));
    }
    let set = ["user", "role"].into_iter().filter(|field| says(field));
    wrong.extend(set.map(|field| format!("{field} may not be set")));
    let detail = format!("{who} set forbidden securityContext.seLinuxOptions: {}", wrong.join("; "));
    Some(Violation { reason: "seLinuxOptions", detail })
}

/// Who sets a seccomp profile that does not confine.
fn loose_seccomp(pod: &Pod<'_>) -> Option<Violation> {
    const FIELD: &str = "seccompProfile";
    let who = pod.setters(|context| loose(context, FIELD).is_some())?;
    let types = pod.in_contexts(|context| loose(context, FIELD));
    let detail = format!("{who} must not set securityContext.seccompProfile.type to {}", quoted(&types));
    Some(Violation { reason: FIELD, detail })
}

/// No seccomp profile that does not confine: by field since 1.19, by annotation before.
pub(super) fn seccomp(pod: &Pod<'_>) -> Option<Violation> {
    if pod.minor >= 19 {
        return loose_seccomp(pod);
    }
    let own = std::iter::once(SECCOMP.to_owned());
    let keys =
        own.chain(pod.containers().map(|container| format!("{SECCOMP_OF_CONTAINER}{}", name(container))));
    let fine = |value: &str| {
        matches!(value, "runtime/default" | "docker/default") || value.starts_with("localhost/")
    };
    let annotated: BTreeSet<String> = keys
        .filter_map(|key| {
            let value = pod.annotations[key.as_str()].as_str().filter(|value| !fine(value))?;
            Some(format!("{key}={}", quote(value)))
        })
        .collect();
    (!annotated.is_empty()).then(|| Violation {
        reason: "seccompProfile",
        detail: format!(
            "forbidden {} {}",
            number("annotation", "annotations", annotated.len()),
            Vec::from_iter(annotated).join(", ")
        ),
    })
}

/// Every container has a seccomp profile, or the Pod has one for it, and it confines.
pub(super) fn seccomp_is_set(pod: &Pod<'_>) -> Option<Violation> {
    if pod.excused_as_windows() {
        return None;
    }
    let loose = loose_seccomp(pod);
    if loose.is_some() || confines(&pod.spec["securityContext"]["seccompProfile"]) {
        return loose;
    }
    let silent = pod.which(|container| container["securityContext"]["seccompProfile"].is_null());
    let detail = format!(
        "pod or {} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"",
        containers(&silent)?
    );
    Some(Violation { reason: "seccompProfile", detail })
}

/// No kernel parameters but those that stay within the Pod.
pub(super) fn sysctls(pod: &Pod<'_>) -> Option<Violation> {
    let since = |name: &str| match name {
        "kernel.shm_rmid_forced"
        | "net.ipv4.ip_local_port_range"
        | "net.ipv4.tcp_syncookies"
        | "net.ipv4.ping_group_range"
        | "net.ipv4.ip_unprivileged_port_start" => Some(0),
        "net.ipv4.ip_local_reserved_ports" => Some(27),
        "net.ipv4.tcp_keepalive_time"
        | "net.ipv4.tcp_fin_timeout"
        | "net.ipv4.tcp_keepalive_intvl"
        | "net.ipv4.tcp_keepalive_probes" => Some(29),
        "net.ipv4.tcp_rmem" | "net.ipv4.tcp_wmem" => Some(32),
        _ => None,
    };
    let all = pod.spec["securityContext"]["sysctls"].as_array().into_iter().flatten().map(name);
    let wrong: Vec<&str> = all.filter(|name| since(name).is_none_or(|since| pod.minor < since)).collect();
    (!wrong.is_empty()).then(|| Violation { reason: "forbidden sysctls", detail: wrong.join(", ") })
}
