//! Horizontal Pod autoscalers: bounds, targets, metrics, behaviour.

use karmada_schema::FieldError;
use karmada_schema::path::Path;
use karmada_schema::quantity::Quantity;
use serde_json::Value;

use super::{Errors, invalid_each, list, names, non_negative, text};

/// An autoscaler of either version; v1 is judged as v2 has it.
pub(crate) fn of_any_version(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let whole = |object: &Value| {
        let mut object = object.clone();
        if object["apiVersion"] == "autoscaling/v1" {
            crate::conversion::autoscaler_v2(&mut object);
        }
        object
    };
    horizontal_pod_autoscaler(&whole(new), old.map(whole).as_ref(), errors);
}

/// What is counted is not below nothing.
pub(crate) fn status(new: &Value, errors: &mut Errors) {
    for field in ["currentReplicas", "desiredReplicas"] {
        non_negative(&new["status"], field, &Path::field("status"), errors);
    }
}

fn horizontal_pod_autoscaler(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let (spec, path) = (&new["spec"], Path::field("spec"));
    let (minimum, maximum) = (spec["minReplicas"].as_i64(), spec["maxReplicas"].as_i64().unwrap_or(0));
    if let Some(minimum) = minimum.filter(|minimum| *minimum < 1) {
        let detail = "must be greater than or equal to 1";
        errors.push(FieldError::invalid(&path.child("minReplicas"), minimum, detail));
    }
    if maximum == 0 {
        let detail = "must be set and greater than 0";
        errors.push(FieldError::required(&path.child("maxReplicas"), detail));
    } else if maximum < 0 {
        errors.push(FieldError::invalid(
            &path.child("maxReplicas"),
            maximum,
            "must be greater than or equal to 1",
        ));
    }
    if minimum.is_some_and(|minimum| maximum < minimum) {
        let detail = "must be greater than or equal to `minReplicas`";
        errors.push(FieldError::invalid(&path.child("maxReplicas"), maximum, detail));
    }
    let target = path.child("scaleTargetRef");
    reference(&spec["scaleTargetRef"], &target, errors);
    // What was let in before the rule stays.
    let was_wrong = old.is_some_and(|old| {
        let mut before = Errors::new();
        target_version(&old["spec"]["scaleTargetRef"], &target, &mut before);
        !before.is_empty()
    });
    if !was_wrong {
        target_version(&spec["scaleTargetRef"], &target, errors);
    }
    metrics(spec, minimum, &path.child("metrics"), errors);
    let behavior = path.child("behavior");
    for direction in ["scaleUp", "scaleDown"] {
        rules(&spec["behavior"][direction], &behavior.child(direction), errors);
    }
}

fn reference(reference: &Value, path: &Path<'_>, errors: &mut Errors) {
    for field in ["kind", "name"] {
        let value = text(reference, field);
        if value.is_empty() {
            errors.push(FieldError::required(&path.child(field), ""));
        } else {
            invalid_each(errors, &path.child(field), value, names::path_segment(value));
        }
    }
}

/// A target outside the core group names its group.
fn target_version(reference: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (version, core) = (text(reference, "apiVersion"), text(reference, "kind") == "ReplicationController");
    if !version.contains('/') && !core {
        let detail = "apiVersion must specify API group";
        errors.push(FieldError::invalid(&path.child("apiVersion"), version, detail));
    }
}

fn metrics(spec: &Value, minimum: Option<i64>, path: &Path<'_>, errors: &mut Errors) {
    let all = list(spec, "metrics");
    for (index, one) in all.iter().enumerate() {
        metric(one, &path.index(index), errors);
    }
    if minimum == Some(0) && !all.iter().any(|one| matches!(text(one, "type"), "Object" | "External")) {
        let detail =
            "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.push(FieldError::forbidden(path, detail));
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
    let (target, at) = (&source["target"], path.child("target"));
    match kind {
        "resource" | "containerResource" => {
            if text(source, "name").is_empty() {
                errors.push(FieldError::required(&path.child("name"), "must specify a resource name"));
            }
            if kind == "containerResource" {
                container(source, path, errors);
            }
            self::target(target, &at, errors);
            match (target["averageUtilization"].is_number(), !target["averageValue"].is_null()) {
                (false, false) => errors.push(FieldError::required(
                    &at.child("averageUtilization"),
                    "must set either a target raw value or a target utilization",
                )),
                (true, true) => errors.push(FieldError::forbidden(
                    &at.child("averageValue"),
                    "may not set both a target raw value and a target utilization",
                )),
                _ => {}
            }
        }
        _ => {
            if kind == "object" {
                reference(&source["describedObject"], &path.child("describedObject"), errors);
            }
            identifier(&source["metric"], &path.child("metric"), errors);
            self::target(target, &at, errors);
            let (value, average) = (!target["value"].is_null(), !target["averageValue"].is_null());
            match kind {
                "object" if !value && !average => {
                    let detail = "must set either a target value or averageValue";
                    errors.push(FieldError::required(&at.child("averageValue"), detail));
                }
                "external" if !value && !average => {
                    let detail = "must set either a target value for metric or a per-pod target";
                    errors.push(FieldError::required(&at.child("averageValue"), detail));
                }
                "external" if value && average => {
                    let detail = "may not set both a target value for metric and a per-pod target";
                    errors.push(FieldError::forbidden(&at.child("value"), detail));
                }
                "pods" if !average => {
                    let detail = "must specify a positive target averageValue";
                    errors.push(FieldError::required(&at.child("averageValue"), detail));
                }
                _ => {}
            }
        }
    }
}

/// The container, and the resource of it, that is counted.
fn container(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (name, container) = (text(source, "name"), text(source, "container"));
    if !name.is_empty() {
        super::resources::container_resource(name, &path.child("name"), errors);
    }
    let at = path.child("container");
    if container.is_empty() {
        errors.push(FieldError::required(&at, "must specify a container"));
    } else {
        invalid_each(errors, &at, container, names::dns_label(container));
    }
}

fn identifier(metric: &Value, path: &Path<'_>, errors: &mut Errors) {
    let name = text(metric, "name");
    if name.is_empty() {
        errors.push(FieldError::required(&path.child("name"), "must specify a metric name"));
    } else {
        invalid_each(errors, &path.child("name"), name, names::path_segment(name));
    }
}

fn is_positive(value: &Value) -> bool {
    Quantity::from_value(value).is_some_and(|quantity| quantity.nanos() > 0)
}

fn target(target: &Value, path: &Path<'_>, errors: &mut Errors) {
    let kind = text(target, "type");
    if kind.is_empty() {
        errors.push(FieldError::required(&path.child("type"), "must specify a metric target type"));
    }
    if !matches!(kind, "Utilization" | "Value" | "AverageValue") {
        let detail = "must be either Utilization, Value, or AverageValue";
        errors.push(FieldError::invalid(&path.child("type"), kind, detail));
    }
    for field in ["value", "averageValue"] {
        if !target[field].is_null() && !is_positive(&target[field]) {
            errors.push(FieldError::invalid(&path.child(field), target[field].clone(), "must be positive"));
        }
    }
    if let Some(share) = target["averageUtilization"].as_i64().filter(|share| *share < 1) {
        errors.push(FieldError::invalid(&path.child("averageUtilization"), share, "must be greater than 0"));
    }
}

fn rules(rules: &Value, path: &Path<'_>, errors: &mut Errors) {
    const POLICIES: [&str; 3] = ["Disabled", "Max", "Min"];
    const TYPES: [&str; 2] = ["Percent", "Pods"];
    if !rules.is_object() {
        return;
    }
    let window = path.child("stabilizationWindowSeconds");
    match rules["stabilizationWindowSeconds"].as_i64() {
        Some(seconds) if seconds < 0 => {
            errors.push(FieldError::invalid(&window, seconds, "must be greater than or equal to zero"));
        }
        Some(seconds) if seconds > 3600 => {
            errors.push(FieldError::invalid(&window, seconds, "must be less than or equal to 3600"));
        }
        _ => {}
    }
    if let Some(policy) = rules["selectPolicy"].as_str().filter(|policy| !POLICIES.contains(policy)) {
        errors.push(FieldError::not_supported(&path.child("selectPolicy"), policy, &POLICIES));
    }
    let (all, at) = (list(rules, "policies"), path.child("policies"));
    if all.is_empty() {
        errors.push(FieldError::required(&at, "must specify at least one Policy"));
    }
    for (index, policy) in all.iter().enumerate() {
        let at = at.index(index);
        let kind = text(policy, "type");
        if !TYPES.contains(&kind) {
            errors.push(FieldError::not_supported(&at.child("type"), kind, &TYPES));
        }
        for field in ["value", "periodSeconds"] {
            let number = policy[field].as_i64().unwrap_or(0);
            if number <= 0 {
                errors.push(FieldError::invalid(&at.child(field), number, "must be greater than zero"));
            } else if field == "periodSeconds" && number > 1800 {
                let detail = "must be less than or equal to 1800";
                errors.push(FieldError::invalid(&at.child(field), number, detail));
            }
        }
    }
    let tolerance = &rules["tolerance"];
    if Quantity::from_value(tolerance).is_some_and(|tolerance| tolerance.nanos() < 0) {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(&path.child("tolerance"), tolerance.clone(), detail));
    }
}
