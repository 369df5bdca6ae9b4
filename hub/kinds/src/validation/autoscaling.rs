//! Horizontal Pod autoscalers: bounds, targets, metrics, behaviour.
//!
//! In: an autoscaler of v1, v2 or a FederatedHPA, or a part of one; on an update what stands. Out: field errors, in which paths are those
//! of v2 whichever version was sent.

use karmada_quantity::Quantity;
use karmada_schema::FieldError;
use karmada_schema::path::Path;
use serde_json::Value;

use super::{Errors, facts, judge, list, text};

/// An autoscaler of either version; v1 is judged as v2 has it.
pub(crate) fn of_any_version(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let whole = |object: &Value| {
        let mut object = object.clone();
        if object["apiVersion"] == "autoscaling/v1" {
            crate::conversion::autoscaler_v2(&mut object);
        }
        object
    };
    let (new, old) = (whole(new), old.map(whole));
    judge(facts::AUTOSCALING_V2_HORIZONTAL_POD_AUTOSCALER, &new, old.as_ref(), &Path::ROOT, errors);
}

/// A FederatedHPA: judged as an autoscaler of one cluster, but External metrics are refused.
pub(crate) fn federated(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    judge(facts::AUTOSCALING_V2_HORIZONTAL_POD_AUTOSCALER, new, old, &Path::ROOT, errors);
    const KNOWN: [&str; 4] = ["ContainerResource", "Object", "Pods", "Resource"];
    let spec = Path::field("spec");
    let metrics = spec.child("metrics");
    for (index, metric) in list(&new["spec"], "metrics").iter().enumerate() {
        let kind = text(metric, "type");
        if kind == "External" {
            errors.push(FieldError::not_supported(&metrics.index(index).child("type"), kind, &KNOWN));
        }
    }
}

/// The counts of a status are not negative.
pub(crate) fn status(new: &Value, errors: &mut Errors) {
    judge(facts::AUTOSCALING_V2_HORIZONTAL_POD_AUTOSCALER_STATUS, new, None, &Path::ROOT, errors);
}

/// `minReplicas` is not above `maxReplicas`.
pub(super) fn bounds(spec: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let (minimum, maximum) = (spec["minReplicas"].as_i64(), spec["maxReplicas"].as_i64().unwrap_or(0));
    if minimum.is_some_and(|minimum| maximum < minimum) {
        let detail = "must be greater than or equal to `minReplicas`";
        errors.push(FieldError::invalid(&path.child("maxReplicas"), maximum, detail));
    }
}

/// A target outside the core group names its group. What was let in before the rule stays.
pub(super) fn target_version(new: &Value, old: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let is_wrong = |reference: &Value| {
        !text(reference, "apiVersion").contains('/') && text(reference, "kind") != "ReplicationController"
    };
    if is_wrong(new) && !old.is_some_and(is_wrong) {
        let detail = "apiVersion must specify API group";
        errors.push(FieldError::invalid(&path.child("apiVersion"), text(new, "apiVersion"), detail));
    }
}

/// What is measured. Who scales down to no replicas at all needs a metric that can be seen without any Pod: an Object or External one.
pub(super) fn metrics(spec: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let (all, path) = (list(spec, "metrics"), path.child("metrics"));
    for (index, one) in all.iter().enumerate() {
        metric(one, &path.index(index), errors);
    }
    if spec["minReplicas"] == 0 && !all.iter().any(|one| matches!(text(one, "type"), "Object" | "External")) {
        let detail =
            "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.push(FieldError::forbidden(&path, detail));
    }
}

fn metric(metric: &Value, path: &Path<'_>, errors: &mut Errors) {
    const SOURCES: [(&str, &str); 5] = [
        ("ContainerResource", "containerResource"),
        ("External", "external"),
        ("Object", "object"),
        ("Pods", "pods"),
        ("Resource", "resource"),
    ];
    let kind = text(metric, "type");
    if kind.is_empty() {
        errors.push(FieldError::required(&path.child("type"), "must specify a metric source type"));
    }
    let wanted = SOURCES.iter().find(|(name, _)| *name == kind).map(|(_, field)| *field);
    if wanted.is_none() {
        let known = SOURCES.map(|(name, _)| name);
        // Told by its own check, and by the one of what the type asks for.
        for _ in 0..2 {
            errors.push(FieldError::not_supported(&path.child("type"), kind, &known));
        }
    }
    let mut present = Vec::new();
    for field in ["object", "external", "pods", "resource", "containerResource"] {
        if metric[field].is_object() {
            present.push(field);
            if present.len() == 1 {
                source(field, &metric[field], &path.child(field), errors);
            }
        }
    }
    let Some(wanted) = wanted else { return };
    if !present.contains(&wanted) {
        let detail = "must populate information for the given metric source";
        errors.push(FieldError::required(&path.child(wanted), detail));
    }
    if present.len() > 1 {
        for other in present.into_iter().filter(|field| *field != wanted) {
            let detail = "must populate the given metric source only";
            errors.push(FieldError::forbidden(&path.child(other), detail));
        }
    }
}

fn source(kind: &str, source: &Value, path: &Path<'_>, errors: &mut Errors) {
    let own = match kind {
        "resource" => facts::AUTOSCALING_V2_RESOURCE_METRIC_SOURCE,
        "containerResource" => facts::AUTOSCALING_V2_CONTAINER_RESOURCE_METRIC_SOURCE,
        "object" => facts::AUTOSCALING_V2_OBJECT_METRIC_SOURCE,
        // External metrics have the plain facts of Pods metrics.
        _ => facts::AUTOSCALING_V2_PODS_METRIC_SOURCE,
    };
    judge(own, source, None, path, errors);
    let (target, at) = (&source["target"], path.child("target"));
    let (value, average) = (!target["value"].is_null(), !target["averageValue"].is_null());
    let share = target["averageUtilization"].is_number();
    let mut missing = |field: &str, detail: &str| errors.push(FieldError::required(&at.child(field), detail));
    let (field, detail) = match kind {
        "resource" | "containerResource" if !share && !average => {
            let detail = "must set either a target raw value or a target utilization";
            return missing("averageUtilization", detail);
        }
        "resource" | "containerResource" if share && average => {
            ("averageValue", "may not set both a target raw value and a target utilization")
        }
        "object" if !value && !average => {
            return missing("averageValue", "must set either a target value or averageValue");
        }
        "external" if !value && !average => {
            let detail = "must set either a target value for metric or a per-pod target";
            return missing("averageValue", detail);
        }
        "external" if value && average => {
            ("value", "may not set both a target value for metric and a per-pod target")
        }
        "pods" if !average => {
            return missing("averageValue", "must specify a positive target averageValue");
        }
        _ => return,
    };
    errors.push(FieldError::forbidden(&at.child(field), detail));
}

/// An amount above zero.
pub(super) fn positive(amount: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    if Quantity::from_value(amount).is_none_or(|amount| amount.nanos() <= 0) {
        errors.push(FieldError::invalid(path, amount.clone(), "must be positive"));
    }
}

/// How far what is measured may be off before anything is done.
pub(super) fn tolerance(amount: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    if Quantity::from_value(amount).is_some_and(|amount| amount.nanos() < 0) {
        errors.push(FieldError::invalid(path, amount.clone(), "must be greater than or equal to 0"));
    }
}
