//! Which ResidencyRules may be stored. A rule that covers nothing by mistake would let everything through, so whatever would make one is
//! refused.
//!
//! In: the JSON of a rule. Out: what is wrong with it. Pure.

use karmada_field::{FieldError, names};
use serde_json::Value;

use super::at;
use super::placement::validate_affinity;
use super::policy::validate_selectors;
use crate::object;
use crate::policy::{ClusterAffinity, ResourceSelector};
use crate::residency_rule::{ResidencyRule, ResidencyRuleSpec};

/// What is wrong with a rule.
pub fn validate_residency_rule(new: &Value) -> Vec<FieldError> {
    let rule: ResidencyRule = match super::read(new, "") {
        Ok(rule) => rule,
        Err(unreadable) => return unreadable,
    };
    let ResidencyRuleSpec { resource_selectors, namespaces, cluster_affinity } = &rule.spec;
    let mut errors = Vec::new();
    if resource_selectors.is_empty() && namespaces.is_empty() {
        errors.push(FieldError::required("spec.resourceSelectors", "must be given where namespaces are not"));
    }
    errors.extend(validate_selectors(resource_selectors, "", "spec.resourceSelectors"));
    for (index, selector) in resource_selectors.iter().enumerate() {
        errors.extend(validate_kind(selector, namespaces, &at("spec.resourceSelectors", index)));
    }
    for (index, namespace) in namespaces.iter().enumerate() {
        let wrong = |why| FieldError::invalid(&at("spec.namespaces", index), namespace.as_str(), why);
        errors.extend(names::dns_label(namespace).into_iter().map(wrong));
    }
    if means_every_cluster(cluster_affinity) {
        let why = "must say something: an empty one means every cluster";
        errors.push(FieldError::required("spec.clusterAffinity", why));
    }
    errors.extend(validate_affinity(cluster_affinity, "spec.clusterAffinity"));
    errors
}

/// Whether an affinity names nothing by which a cluster could be left out.
fn means_every_cluster(affinity: &ClusterAffinity) -> bool {
    let by_labels = affinity.label_selector.as_ref().is_some_and(|selector| {
        selector.match_labels.as_ref().is_some_and(|labels| !labels.is_empty())
            || selector.match_expressions.as_ref().is_some_and(|all| !all.is_empty())
    });
    let by_fields = affinity.field_selector.as_ref().is_some_and(|selector| {
        selector.match_expressions.iter().any(|one| one.operator != "NotIn" || !one.values.is_empty())
    });
    let by_names = !affinity.cluster_names.is_empty() || !affinity.exclude.is_empty();
    !(by_labels || by_fields || by_names)
}

/// What keeps a selector from meaning any object at all.
fn validate_kind(selector: &ResourceSelector, namespaces: &[String], path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (_, version) = object::group_version(&selector.api_version);
    if !is_version(version) {
        let why = "must be a version, or a group and a version, as in v1 or apps/v1";
        errors.push(FieldError::invalid(&format!("{path}.apiVersion"), selector.api_version.as_str(), why));
    }
    if selector.kind.is_empty() {
        errors.push(FieldError::required(&format!("{path}.kind"), "must be a kind, as in Secret"));
    }
    let is_elsewhere = !selector.namespace.is_empty() && !namespaces.contains(&selector.namespace);
    if is_elsewhere && !namespaces.is_empty() {
        let why = "is none of spec.namespaces, and so selects nothing";
        errors.push(FieldError::invalid(&format!("{path}.namespace"), selector.namespace.as_str(), why));
    }
    errors
}

/// Whether this is how Kubernetes writes versions: `v1`, `v1beta1`.
fn is_version(text: &str) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let Some(rest) = text.strip_prefix('v') else { return false };
    let staged = rest.split_once("alpha").or_else(|| rest.split_once("beta"));
    staged.map_or_else(|| number(rest), |(major, stage)| number(major) && number(stage))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(spec: &Value) -> Vec<String> {
        let errors = validate_residency_rule(&json!({"metadata": {"name": "eu"}, "spec": spec}));
        errors.into_iter().map(|error| error.field).collect()
    }

    #[test]
    fn a_rule_that_would_cover_nothing_or_allow_everything_is_refused() {
        let eu = json!({"fieldSelector": {"matchExpressions": [{"key": "region", "operator": "In", "values": ["eu"]}]}});
        let secrets = json!([{"apiVersion": "v1", "kind": "Secret"}]);
        let none: [&str; 0] = [];
        assert_eq!(refused(&json!({"resourceSelectors": secrets, "clusterAffinity": eu})), none);
        assert_eq!(refused(&json!({"namespaces": ["patients"], "clusterAffinity": eu})), none);
        assert_eq!(refused(&json!({"clusterAffinity": eu})), ["spec.resourceSelectors"]);
        assert_eq!(
            refused(&json!({"resourceSelectors": secrets, "clusterAffinity": {}})),
            ["spec.clusterAffinity"]
        );
        assert_eq!(refused(&json!({"resourceSelectors": secrets})).len(), 1, "it cannot be read");
        assert_eq!(
            refused(&json!({"namespaces": ["A"], "clusterAffinity": eu})),
            ["spec.namespaces[0]"],
            "no namespace has such a name"
        );
        let unknown = json!({"fieldSelector": {"matchExpressions": [{"key": "country", "operator": "In", "values": ["eu"]}]}});
        assert_eq!(
            refused(&json!({"resourceSelectors": secrets, "clusterAffinity": unknown})),
            ["spec.clusterAffinity.fieldSelector.matchExpressions[0].key"]
        );
        for (selector, field) in [
            (json!({"apiVersion": "apps", "kind": "Deployment"}), "apiVersion"),
            (json!({"apiVersion": "", "kind": "Secret"}), "apiVersion"),
            (json!({"apiVersion": "v1", "kind": ""}), "kind"),
            (json!({"apiVersion": "v1", "kind": "Secret", "namespace": "b"}), "namespace"),
            (
                json!({"apiVersion": "v1", "kind": "Secret", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}),
                "labelSelector.matchExpressions[0].operator",
            ),
        ] {
            let spec = json!({"resourceSelectors": [selector], "namespaces": ["a"], "clusterAffinity": eu});
            assert_eq!(refused(&spec), [format!("spec.resourceSelectors[0].{field}")], "{selector}");
        }
    }

    #[test]
    fn versions_are_told_from_groups() {
        for (text, is) in [
            ("v1", true),
            ("v2beta1", true),
            ("v1alpha10", true),
            ("apps", false),
            ("v", false),
            ("vbeta", false),
        ] {
            assert_eq!(is_version(text), is, "{text}");
        }
    }
}
