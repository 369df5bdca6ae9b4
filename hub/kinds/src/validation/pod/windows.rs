//! What Pods for Windows do not have.
//!
//! In: a Pod's spec. Out: field errors.

use karmada_schema::FieldError;
use karmada_schema::path::Path;
use serde_json::Value;

use crate::validation::{Errors, is_empty, list};

/// What Pods of the other system do not have.
pub(super) fn linux(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    const DETAIL: &str = "windows options cannot be set for a linux pod";
    let mut look = |context: &Value, at: &Path<'_>| {
        if context["windowsOptions"].is_object() {
            let at = at.child("securityContext");
            errors.push(FieldError::forbidden(&at.child("windowsOptions"), DETAIL));
        }
    };
    look(&spec["securityContext"], path);
    for kind in ["initContainers", "containers", "ephemeralContainers"] {
        let all = path.child(kind);
        for (index, one) in list(spec, kind).iter().enumerate() {
            look(&one["securityContext"], &all.index(index));
        }
    }
}

/// What Pods of that system do not have.
pub(super) fn windows(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    const DETAIL: &str = "cannot be set for a windows pod";
    let (own, at) = (&spec["securityContext"], path.child("securityContext"));
    let set = |of: &Value, field: &str| of.get(field).is_some_and(|value| !value.is_null() && value != false);
    let mut refuse = |at: &Path<'_>| errors.push(FieldError::forbidden(at, DETAIL));
    for field in ["appArmorProfile", "seLinuxOptions"].into_iter().filter(|field| set(own, field)) {
        refuse(&at.child(field));
    }
    if !spec["hostUsers"].is_null() {
        refuse(&path.child("hostUsers"));
    }
    for field in ["hostPID", "hostIPC"].into_iter().filter(|field| set(spec, field)) {
        refuse(&path.child(field));
    }
    for field in ["seccompProfile", "fsGroup", "fsGroupChangePolicy", "sysctls"] {
        if set(own, field) && !is_empty(&own[field]) {
            refuse(&at.child(field));
        }
    }
    if !spec["shareProcessNamespace"].is_null() {
        refuse(&path.child("shareProcessNamespace"));
    }
    for field in
        ["runAsUser", "runAsGroup", "supplementalGroups", "supplementalGroupsPolicy", "seLinuxChangePolicy"]
    {
        if set(own, field) {
            refuse(&at.child(field));
        }
    }
    for kind in ["initContainers", "containers", "ephemeralContainers"] {
        let all = path.child(kind);
        for (index, one) in list(spec, kind).iter().enumerate() {
            let at = all.index(index);
            let at = at.child("securityContext");
            for field in [
                "appArmorProfile",
                "seLinuxOptions",
                "seccompProfile",
                "capabilities",
                "readOnlyRootFilesystem",
                "privileged",
                "allowPrivilegeEscalation",
                "procMount",
                "runAsUser",
                "runAsGroup",
            ] {
                if !one["securityContext"][field].is_null() {
                    refuse(&at.child(field));
                }
            }
        }
    }
}
