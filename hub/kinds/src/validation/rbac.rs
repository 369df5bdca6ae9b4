//! Roles and their bindings.
//!
//! In: a rule, a subject, a selector or a role reference, as `data/facts.tsv` leads to it. Out: field errors. Whether the writer has the
//! rights that it grants is not asked here.

use karmada_schema::path::Path;
use karmada_schema::{FieldError, Shown};
use serde_json::Value;

use super::selector::label_selector;
use super::{Errors, facts, invalid_each, is_empty, judge, names, text};

const GROUP: &str = "rbac.authorization.k8s.io";

/// A selector of the roles of which a ClusterRole is put together.
pub(super) fn role_selector(selector: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let before = errors.len();
    label_selector(selector, path, errors);
    if errors.len() > before {
        // Of what cannot be read nothing is shown.
        errors.push(FieldError::invalid(path, Value::Null, "invalid label selector."));
    }
}

/// A rule of a ClusterRole, which may be about addresses instead of resources.
pub(super) fn rule(rule: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    whole_rule(rule, &[], path, errors);
}

/// A rule of a Role, which cannot be about addresses.
pub(super) fn rule_in_namespace(rule: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    whole_rule(rule, &["namespaced rules cannot apply to non-resource URLs"], path, errors);
}

/// `of_addresses`: what is wrong with any rule of them.
fn whole_rule(rule: &Value, of_addresses: &[&str], path: &Path<'_>, errors: &mut Errors) {
    judge(facts::RBAC_V1_POLICY_RULE, rule, None, path, errors);
    if is_empty(&rule["nonResourceURLs"]) {
        return judge(facts::RBAC_V1_POLICY_RULE_RESOURCES, rule, None, path, errors);
    }
    let both = ["apiGroups", "resources", "resourceNames"].iter().any(|field| !is_empty(&rule[*field]));
    let both = both.then_some("rules cannot apply to both regular resources and non-resource URLs");
    for detail in of_addresses.iter().copied().chain(both) {
        let at = path.child("nonResourceURLs");
        errors.push(FieldError::invalid(&at, rule["nonResourceURLs"].clone(), detail));
    }
}

/// A binding is to one role for good.
pub(super) fn role_stays(role: &Value, old: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    if old.is_some_and(|old| old != role) {
        let shown = format!(
            "{{\"APIGroup\":{},\"Kind\":{},\"Name\":{}}}",
            role["apiGroup"], role["kind"], role["name"]
        );
        errors.push(FieldError::invalid(path, Shown::Raw(shown), "cannot change roleRef"));
    }
}

/// A subject of a ClusterRoleBinding: a service account says its namespace.
pub(super) fn subject(subject: &Value, old: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    subject_in_namespace(subject, old, path, errors);
    if text(subject, "kind") == "ServiceAccount" && text(subject, "namespace").is_empty() {
        errors.push(FieldError::required(&path.child("namespace"), ""));
    }
}

/// A subject of a RoleBinding, whose service accounts may leave their namespace out.
pub(super) fn subject_in_namespace(subject: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
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
