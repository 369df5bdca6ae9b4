//! Security contexts of Pods and their containers.
//!
//! In: a Pod's spec, or a container's context, with its path; for a Pod, what stands on an update. Out: field errors in kube-apiserver's
//! order. How strict a namespace is (pod security) is not asked here.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use karmada_schema::path::Path;
use karmada_schema::{FieldError, Shown, go_json};
use regex::Regex;
use serde_json::Value;

use super::{Errors, facts, judge, list, text};

const SYSCTL: &str = "^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
static SYSCTL_REGEX: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(SYSCTL).expect("the pattern is a regular expression"));

/// A path below another, that does not climb.
pub(super) fn descending(target: &str, path: &Path<'_>, errors: &mut Errors) {
    if target.starts_with('/') {
        errors.push(FieldError::invalid(path, target, "must be a relative path"));
    }
    if target.split('/').any(|part| part == "..") {
        errors.push(FieldError::invalid(path, target, "must not contain '..'"));
    }
}

/// The same, as facts name it.
pub(super) fn stays_below(target: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    descending(target.as_str().unwrap_or_default(), path, errors);
}

/// `spec.securityContext`.
pub(super) fn pod(spec: &Value, old: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let context = &spec["securityContext"];
    let at = path.child("securityContext");
    judge(facts::CORE_V1_POD_SECURITY_CONTEXT, context, None, &at, errors);
    if spec["hostPID"] == true && spec["shareProcessNamespace"] == true {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.push(FieldError::invalid(&at.child("shareProcessNamespace"), true, detail));
    }
    sysctls(spec, &at.child("sysctls"), errors);
    judge(facts::CORE_V1_POD_SECURITY_CONTEXT_POLICIES, context, None, &at, errors);
    // Feature SELinuxMount is off: the value that it adds is taken only where the stored Pod has a policy already.
    let labels: &[&str] =
        match old.is_some_and(|old| old["securityContext"]["seLinuxChangePolicy"].is_string()) {
            true => &["MountOption", "Recursive"],
            false => &["Recursive"],
        };
    let policy = context["seLinuxChangePolicy"].as_str();
    if let Some(policy) = policy.filter(|policy| !labels.contains(policy)) {
        errors.push(FieldError::not_supported(&at.child("seLinuxChangePolicy"), policy, labels));
    }
}

/// What part of the node a setting of its kernel belongs to: `hostNetwork`, `hostIPC`, or none that Pods have of their own.
fn shared_by(sysctl: &str) -> Option<&'static str> {
    const OF_PROCESSES: [&str; 10] = [
        "kernel.sem",
        "kernel.shmall",
        "kernel.shmmax",
        "kernel.shmmni",
        "kernel.shm_rmid_forced",
        "kernel.shm",
        "kernel.msgmax",
        "kernel.msgmnb",
        "kernel.msgmni",
        "kernel.msg",
    ];
    let swap = |sign| match sign {
        '.' => '/',
        '/' => '.',
        other => other,
    };
    let name: String = match sysctl.find(['.', '/']) {
        Some(at) if sysctl[at..].starts_with('/') => sysctl.chars().map(swap).collect(),
        _ => sysctl.to_owned(),
    };
    match name.split('*').next().unwrap_or_default() {
        name if OF_PROCESSES.contains(&name) || name.starts_with("fs.mqueue.") => Some("hostIPC"),
        name if name.starts_with("net.") => Some("hostNetwork"),
        _ => None,
    }
}

fn sysctls(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (index, one) in list(&spec["securityContext"], "sysctls").iter().enumerate() {
        let (at, name) = (path.index(index), text(one, "name"));
        let at = at.child("name");
        if name.is_empty() {
            errors.push(FieldError::required(&at, ""));
        } else if name.len() > 253 || !SYSCTL_REGEX.is_match(name) {
            let detail = format!("must have at most 253 characters and match regex {SYSCTL}");
            errors.push(FieldError::invalid(&at, name, detail));
        } else if seen.contains(name) {
            errors.push(FieldError::duplicate(&at, name));
        }
        seen.insert(name);
        if let Some(shared) = shared_by(name).filter(|shared| spec[*shared] == true) {
            let detail = format!("may not be specified when '{shared}' is true");
            errors.push(FieldError::invalid(&at, name, detail));
        }
    }
}

/// A seccomp profile of the node's own names its file, and no other does.
pub(super) fn seccomp_file(profile: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let kind = text(profile, "type");
    let at = path.child("localhostProfile");
    match (kind, profile["localhostProfile"].as_str()) {
        ("Localhost", None) => {
            errors.push(FieldError::required(&at, "must be set when seccomp type is Localhost"));
        }
        ("Localhost", Some(place)) => descending(place, &at, errors),
        (_, Some(_)) => {
            let shown = format!(
                "{{\"Type\":{},\"LocalhostProfile\":{}}}",
                profile["type"], profile["localhostProfile"]
            );
            let detail = "can only be set when seccomp type is Localhost";
            errors.push(FieldError::invalid(&at, Shown::Raw(shown), detail));
        }
        _ => {}
    }
}

/// The same of AppArmor's.
pub(super) fn armor_file(profile: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let at = path.child("localhostProfile");
    match (text(profile, "type"), profile["localhostProfile"].as_str()) {
        ("Localhost", place) => local_profile(place.unwrap_or_default(), &at, errors),
        ("RuntimeDefault" | "Unconfined", Some(place)) => {
            errors.push(FieldError::invalid(&at, place, "can only be set when AppArmor type is Localhost"));
        }
        _ => {}
    }
}

/// The name of a profile of the node's.
fn local_profile(place: &str, path: &Path<'_>, errors: &mut Errors) {
    const LONGEST: u64 = 4095;
    if place.trim() != place {
        errors.push(FieldError::invalid(path, place, "must not be padded with whitespace"));
    } else if place.is_empty() {
        errors.push(FieldError::required(path, "must be set when AppArmor type is Localhost"));
    }
    if place.len() as u64 > LONGEST {
        errors.push(FieldError::too_long(path, LONGEST));
    }
}

/// `securityContext` of a container; `shares_users`: whether its Pod has the node's users.
pub(super) fn container(context: &Value, shares_users: bool, path: &Path<'_>, errors: &mut Errors) {
    if !context.is_object() {
        return;
    }
    judge(facts::CORE_V1_SECURITY_CONTEXT, context, None, path, errors);
    if let Some(mount) = context["procMount"].as_str() {
        match mount {
            "Default" => {}
            "Unmasked" if !shares_users => {}
            "Unmasked" => {
                let detail = "`hostUsers` must be false to use `Unmasked`";
                errors.push(FieldError::invalid(&path.child("procMount"), mount, detail));
            }
            other => {
                errors.push(FieldError::not_supported(
                    &path.child("procMount"),
                    other,
                    &["Default", "Unmasked"],
                ));
            }
        }
    }
    let profile = &context["seccompProfile"];
    if profile.is_object() {
        judge(facts::CORE_V1_SECCOMP_PROFILE, profile, None, &path.child("seccompProfile"), errors);
    }
    if context["allowPrivilegeEscalation"] == false {
        if context["privileged"] == true {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            errors.push(FieldError::invalid(path, Shown::Raw(shown(context)), detail));
        }
        for _ in list(&context["capabilities"], "add").iter().filter(|one| **one == "CAP_SYS_ADMIN") {
            let detail =
                "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            errors.push(FieldError::invalid(path, Shown::Raw(shown(context)), detail));
        }
    }
    judge(facts::CORE_V1_SECURITY_CONTEXT_PROFILES, context, None, path, errors);
}

/// The context as Go prints the internal struct.
fn shown(context: &Value) -> String {
    const FIELDS: [(&str, &str); 12] = [
        ("capabilities", "Capabilities"),
        ("privileged", "Privileged"),
        ("seLinuxOptions", "SELinuxOptions"),
        ("windowsOptions", "WindowsOptions"),
        ("runAsUser", "RunAsUser"),
        ("runAsGroup", "RunAsGroup"),
        ("runAsNonRoot", "RunAsNonRoot"),
        ("readOnlyRootFilesystem", "ReadOnlyRootFilesystem"),
        ("allowPrivilegeEscalation", "AllowPrivilegeEscalation"),
        ("procMount", "ProcMount"),
        ("seccompProfile", "SeccompProfile"),
        ("appArmorProfile", "AppArmorProfile"),
    ];
    let fields = FIELDS.map(|(name, printed)| {
        let value = match (name, &context[name]) {
            ("capabilities", Value::Object(_)) => {
                let capabilities = &context["capabilities"];
                format!("{{\"Add\":{},\"Drop\":{}}}", capabilities["add"], capabilities["drop"])
            }
            (_, value) => go_json(value),
        };
        format!("\"{printed}\":{value}")
    });
    format!("{{{}}}", fields.join(","))
}
