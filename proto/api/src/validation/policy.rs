//! Which PropagationPolicies and ClusterPropagationPolicies may be stored.
//!
//! In: the JSON of a policy of either kind, and the stored one on update. Out: what is wrong with it, and what of it may not change. Pure.

use jiff::SignedDuration;
use serde_json::Value;

use super::labels::{label_key, validate_label_selector};
use super::placement::validate_placement;
use crate::object;
use crate::policy::{FailoverBehavior, Preemption, PropagationSpec, PurgeMode, ResourceSelector, Suspension};
use crate::strings::{annotations, labels};
use karmada_field::FieldError;

/// What is wrong with a policy of either kind; `old` is the stored one on update.
pub fn validate_propagation_policy(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let spec: PropagationSpec = match super::read(&new["spec"], "spec") {
        Ok(spec) => spec,
        Err(errors) => return errors,
    };
    let mut errors = validate_spec(&spec, object::namespace(new));
    errors.extend(validate_failback(new));
    if let Some(old) = old {
        errors.extend(validate_unchanged(new, old));
    }
    errors
}

/// How long workloads wait before they return to an earlier group of clusters.
fn validate_failback(new: &Value) -> Option<FieldError> {
    let text = object::annotation(new, annotations::FAILBACK_AFTER)?;
    let window: Option<SignedDuration> = text.parse().ok();
    let path = format!("metadata.annotations[{}]", annotations::FAILBACK_AFTER);
    let words = "must be a duration that is not negative, such as 90s, 10m or 1h";
    window.is_none_or(|window| window.is_negative()).then(|| FieldError::invalid(&path, text, words))
}

fn validate_spec(spec: &PropagationSpec, namespace: &str) -> Vec<FieldError> {
    let mut errors = validate_selectors(&spec.resource_selectors, namespace, "spec.resourceSelectors");
    if spec.preemption == Some(Preemption::Always) {
        for (index, _) in spec.resource_selectors.iter().enumerate().filter(|(_, s)| s.name.is_empty()) {
            errors.push(FieldError::required(
                &format!("spec.resourceSelectors[{index}].name"),
                "name cannot be empty if preemption is Always, the empty name may cause unexpected resources preemption",
            ));
        }
    }
    errors.extend(validate_placement(&spec.placement, "spec.placement"));
    if let Some(failover) = &spec.failover {
        errors.extend(validate_failover(failover, spec.propagate_deps));
    }
    if let Some(suspension) = &spec.suspension {
        errors.extend(validate_suspension(suspension));
    }
    errors
}

/// What is wrong with resource selectors. A namespaced policy (`namespace` not empty) reaches only its own.
pub(super) fn validate_selectors(
    selectors: &[ResourceSelector],
    namespace: &str,
    path: &str,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, selector) in selectors.iter().enumerate() {
        let path = format!("{path}[{index}]");
        if !namespace.is_empty() && !selector.namespace.is_empty() && selector.namespace != namespace {
            errors.push(FieldError::invalid(
                &format!("{path}.namespace"),
                selector.namespace.as_str(),
                "a namespaced policy can only select resources of its own namespace",
            ));
        }
        if let Some(selector) = &selector.label_selector {
            errors.extend(validate_label_selector(selector, &format!("{path}.labelSelector")));
        }
    }
    errors
}

fn validate_failover(failover: &FailoverBehavior, propagate_deps: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let preserved = [
        ("application", failover.application.as_ref().and_then(|a| a.state_preservation.as_ref())),
        ("cluster", failover.cluster.as_ref().and_then(|c| c.state_preservation.as_ref())),
    ];
    for (part, preservation) in preserved {
        for (index, rule) in preservation.iter().flat_map(|p| &p.rules).enumerate() {
            let path = format!("spec.failover.{part}.statePreservation.rules[{index}].aliasLabelName");
            errors.extend(label_key(&path, &rule.alias_label_name));
        }
    }
    let Some(application) = &failover.application else { return errors };
    let path = "spec.failover.application";
    if !propagate_deps {
        errors.push(FieldError::invalid(
            "spec.propagateDeps",
            false,
            "application failover is set, propagateDeps must be true",
        ));
    }
    if let Some(seconds) = application.decision_conditions.toleration_seconds.filter(|s| *s < 0) {
        errors.push(FieldError::invalid(
            &format!("{path}.decisionConditions.tolerationSeconds"),
            seconds,
            "must be greater than or equal to 0",
        ));
    }
    if let Some(seconds) = application.grace_period_seconds {
        let path = format!("{path}.gracePeriodSeconds");
        if application.purge_mode != Some(PurgeMode::Gracefully) {
            errors.push(FieldError::invalid(
                &path,
                seconds,
                "only takes effect when purgeMode is Gracefully",
            ));
        } else if seconds <= 0 {
            errors.push(FieldError::invalid(&path, seconds, "must be greater than 0"));
        }
    }
    errors
}

fn validate_suspension(suspension: &Suspension) -> Vec<FieldError> {
    if suspension.dispatching == Some(true) && suspension.dispatching_on_clusters.is_some() {
        return vec![FieldError::invalid(
            "spec.suspension.dispatchingOnClusters",
            Value::Null,
            "dispatchingOnClusters cannot co-exist with dispatching=true",
        )];
    }
    Vec::new()
}

/// The scheduler and the permanent id of a policy never change: bindings were made with them.
fn validate_unchanged(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let scheduler = |policy: &Value| {
        policy
            .pointer("/spec/schedulerName")
            .and_then(Value::as_str)
            .unwrap_or(crate::strings::DEFAULT_SCHEDULER)
            .to_owned()
    };
    if scheduler(new) != scheduler(old) {
        errors.push(FieldError::invalid(
            "spec.schedulerName",
            scheduler(new),
            "the schedulerName should not be updated",
        ));
    }
    for key in [labels::PROPAGATION_POLICY_ID, labels::CLUSTER_PROPAGATION_POLICY_ID] {
        if let Some(id) = object::label(old, key).filter(|id| Some(*id) != object::label(new, key)) {
            errors.push(FieldError::invalid(
                &format!("metadata.labels[{key}]"),
                object::label(new, key).unwrap_or(""),
                format!("the label can not be removed or modified, it must stay {id}"),
            ));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn how_long_a_failback_waits_is_a_duration() {
        let refused = |text: &str| {
            let policy = json!({"metadata": {"name": "p", "namespace": "d", "annotations": {annotations::FAILBACK_AFTER: text}},
                "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}]}});
            let errors = validate_propagation_policy(&policy, None);
            errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
        };
        for good in ["10m", "90s", "1h30m", "0s"] {
            assert_eq!(refused(good), "", "{good}");
        }
        for bad in ["", "10", "soon", "-5m", "10 minutes each"] {
            assert!(refused(bad).contains("edge.karmada.io/failback-after"), "{bad}: {}", refused(bad));
        }
    }
}
