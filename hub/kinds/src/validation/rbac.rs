//! Roles and their bindings.

use karmada_schema::path::Path;
use karmada_schema::{FieldError, Shown};
use serde_json::Value;

use super::selector::label_selector;
use super::{Errors, invalid_each, is_empty, list, names, text};

const GROUP: &str = "rbac.authorization.k8s.io";

pub(crate) fn role(new: &Value, namespaced: bool, errors: &mut Errors) {
    let rules = Path::field("rules");
    for (index, one) in list(new, "rules").iter().enumerate() {
        rule(one, namespaced, &rules.index(index), errors);
    }
    if new["aggregationRule"].is_object() {
        let aggregation = Path::field("aggregationRule");
        let path = aggregation.child("clusterRoleSelectors");
        let selectors = list(&new["aggregationRule"], "clusterRoleSelectors");
        if selectors.is_empty() {
            let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
            errors.push(FieldError::required(&path, detail));
        }
        for (index, selector) in selectors.iter().enumerate() {
            let before = errors.len();
            label_selector(selector, &path.index(index), errors);
            if errors.len() > before {
                // Of what cannot be read nothing is shown.
                errors.push(FieldError::invalid(&path.index(index), Value::Null, "invalid label selector."));
            }
        }
    }
}

fn rule(rule: &Value, namespaced: bool, path: &Path<'_>, errors: &mut Errors) {
    let missing = |field: &str| is_empty(&rule[field]);
    if missing("verbs") {
        errors.push(FieldError::required(&path.child("verbs"), "verbs must contain at least one value"));
    }
    if !missing("nonResourceURLs") {
        let at = path.child("nonResourceURLs");
        let mut refuse =
            |detail: &str| errors.push(FieldError::invalid(&at, rule["nonResourceURLs"].clone(), detail));
        if namespaced {
            refuse("namespaced rules cannot apply to non-resource URLs");
        }
        if !missing("apiGroups") || !missing("resources") || !missing("resourceNames") {
            refuse("rules cannot apply to both regular resources and non-resource URLs");
        }
        return;
    }
    if missing("apiGroups") {
        let detail = "resource rules must supply at least one api group";
        errors.push(FieldError::required(&path.child("apiGroups"), detail));
    }
    if missing("resources") {
        let detail = "resource rules must supply at least one resource";
        errors.push(FieldError::required(&path.child("resources"), detail));
    }
}

pub(crate) fn binding(new: &Value, old: Option<&Value>, namespaced: bool, errors: &mut Errors) {
    let (role, path) = (&new["roleRef"], Path::field("roleRef"));
    if text(role, "apiGroup") != GROUP {
        errors.push(FieldError::not_supported(&path.child("apiGroup"), text(role, "apiGroup"), &[GROUP]));
    }
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    if !kinds.contains(&text(role, "kind")) {
        errors.push(FieldError::not_supported(&path.child("kind"), text(role, "kind"), kinds));
    }
    let name = text(role, "name");
    if name.is_empty() {
        errors.push(FieldError::required(&path.child("name"), ""));
    } else {
        invalid_each(errors, &path.child("name"), name, names::path_segment(name));
    }
    let subjects = Path::field("subjects");
    for (index, one) in list(new, "subjects").iter().enumerate() {
        subject(one, namespaced, &subjects.index(index), errors);
    }
    if old.is_some_and(|old| old["roleRef"] != *role) {
        let shown = format!(
            "{{\"APIGroup\":{},\"Kind\":{},\"Name\":{}}}",
            role["apiGroup"], role["kind"], role["name"]
        );
        errors.push(FieldError::invalid(&path, Shown::Raw(shown), "cannot change roleRef"));
    }
}

fn subject(subject: &Value, namespaced: bool, path: &Path<'_>, errors: &mut Errors) {
    let (name, group) = (text(subject, "name"), text(subject, "apiGroup"));
    if name.is_empty() {
        errors.push(FieldError::required(&path.child("name"), ""));
    }
    match text(subject, "kind") {
        "ServiceAccount" => {
            if !name.is_empty() {
                invalid_each(errors, &path.child("name"), name, names::dns_subdomain(name));
            }
            if !group.is_empty() {
                errors.push(FieldError::not_supported(&path.child("apiGroup"), group, &[""]));
            }
            if !namespaced && text(subject, "namespace").is_empty() {
                errors.push(FieldError::required(&path.child("namespace"), ""));
            }
        }
        "User" | "Group" if group == GROUP => {}
        "User" | "Group" => errors.push(FieldError::not_supported(&path.child("apiGroup"), group, &[GROUP])),
        other => {
            errors.push(FieldError::not_supported(
                &path.child("kind"),
                other,
                &["ServiceAccount", "User", "Group"],
            ));
        }
    }
}
