//! Resource quotas and limit ranges.

use std::collections::{BTreeMap, BTreeSet};

use karmada_api::resource_name::is_standard_for_quota;
use karmada_quantity::Quantity;
use karmada_schema::path::Path;
use karmada_schema::{FieldError, Shown};
use serde_json::{Value, json};

use super::resources::{amount, container_resource, may_overcommit, resource_name};
use super::{Errors, amount_shown, entries, invalid_each, is_empty, list, names, text};

const SCOPES: [&str; 7] = [
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
];

/// Whether a scope says anything of a resource.
fn fits(scope: &str, resource: &str) -> bool {
    match scope {
        "Terminating"
        | "NotTerminating"
        | "NotBestEffort"
        | "PriorityClass"
        | "CrossNamespacePodAffinity" => matches!(
            resource,
            "cpu" | "memory" | "limits.cpu" | "limits.memory" | "requests.cpu" | "requests.memory" | "pods"
        ),
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => matches!(resource, "requests.storage" | "persistentvolumeclaims"),
        _ => true,
    }
}

/// Amounts by resource, as a quota bounds them.
pub(super) fn quota_amounts(of: &Value, field: &str, path: &Path<'_>, errors: &mut Errors) {
    let at = path.child(field);
    for (name, value) in entries(of, field) {
        let at = at.key(name);
        resource_name(name, &at, errors);
        if !name.contains('/') && !is_standard_for_quota(name) {
            errors.push(FieldError::invalid(&at, name.as_str(), "must be a standard resource for quota"));
        }
        amount(name, value, &at, errors);
    }
}

/// Amounts that are said to hold and to be used.
pub(crate) fn quota_status(new: &Value, errors: &mut Errors) {
    for field in ["hard", "used"] {
        quota_amounts(&new["status"], field, &Path::field("status"), errors);
    }
}

pub(crate) fn resource_quota(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let (spec, path) = (&new["spec"], Path::field("spec"));
    quota_amounts(spec, "hard", &path, errors);
    scopes(spec, &path, errors);
    selector(spec, &path, errors);
    if let Some(old) = old {
        let set = |spec: &Value| -> BTreeSet<String> {
            list(spec, "scopes").iter().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        if set(spec) != set(&old["spec"]) {
            errors.push(FieldError::invalid(
                &path.child("scopes"),
                spec["scopes"].clone(),
                "field is immutable",
            ));
        }
    }
}

fn conflict(seen: &BTreeSet<&str>, spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    for pair in [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]] {
        if pair.iter().all(|scope| seen.contains(scope)) {
            errors.push(FieldError::invalid(path, spec["scopes"].clone(), "conflicting scopes"));
        }
    }
}

/// How many of a quota's resources a scope says nothing of: counted once for each scope.
struct Misfits<'q> {
    spec: &'q Value,
    known: BTreeMap<&'q str, usize>,
}

impl<'q> Misfits<'q> {
    fn new(spec: &'q Value) -> Misfits<'q> {
        Misfits { spec, known: BTreeMap::new() }
    }

    fn of(&mut self, scope: &'q str) -> usize {
        if !SCOPES.contains(&scope) {
            return 0;
        }
        *self.known.entry(scope).or_insert_with(|| {
            let misfit = |resource: &str| is_standard_for_quota(resource) && !fits(scope, resource);
            entries(self.spec, "hard").filter(|(resource, _)| misfit(resource)).count()
        })
    }
}

fn scopes(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let at = path.child("scopes");
    let (mut seen, mut shown) = (BTreeSet::new(), super::whole_lists(list(spec, "scopes")));
    let mut misfits = Misfits::new(spec);
    for scope in list(spec, "scopes").iter().filter_map(Value::as_str) {
        let mut refuse = |detail| {
            let turn = shown.next();
            errors.extend(turn.map(|_| FieldError::invalid(&at, spec["scopes"].clone(), detail)));
        };
        if !SCOPES.contains(&scope) {
            refuse("unsupported scope");
        }
        (0..misfits.of(scope)).for_each(|_| refuse("unsupported scope applied to resource"));
        seen.insert(scope);
    }
    conflict(&seen, spec, &at, errors);
}

fn selector(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let at = path.child("scopeSelector");
    let at = at.child("matchExpressions");
    let mut seen = BTreeSet::new();
    let expressions = list(&spec["scopeSelector"], "matchExpressions");
    let (mut misfits, mut turns) = (Misfits::new(spec), super::whole_lists(expressions));
    for one in expressions {
        let (scope, operator) = (text(one, "scopeName"), text(one, "operator"));
        if !SCOPES.contains(&scope) {
            errors.push(FieldError::invalid(&at.child("scopeName"), scope, "unsupported scope"));
        }
        let told = turns.by_ref().take(misfits.of(scope));
        let detail = "unsupported scope applied to resource";
        errors.extend(told.map(|_| FieldError::invalid(&at, shown(expressions), detail)));
        if !matches!(scope, "PriorityClass" | "VolumeAttributesClass")
            && SCOPES.contains(&scope)
            && operator != "Exists"
        {
            let detail = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
                          ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, \
                          ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
            errors.push(FieldError::invalid(&at.child("operator"), operator, detail));
        }
        match operator {
            "In" | "NotIn" if is_empty(&one["values"]) => errors.push(FieldError::required(
                &at.child("values"),
                "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
            )),
            "Exists" | "DoesNotExist" if !is_empty(&one["values"]) => errors.push(FieldError::invalid(
                &at.child("values"),
                one["values"].clone(),
                "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
            )),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => {
                let detail = "not a valid selector operator";
                errors.push(FieldError::invalid(&at.child("operator"), other, detail));
            }
        }
        seen.insert(scope);
    }
    conflict(&seen, spec, &at, errors);
}

/// A selector as kube-apiserver's memory has it.
fn shown(expressions: &[Value]) -> Shown {
    let each = expressions.iter().map(|one| {
        format!(
            "{{\"ScopeName\":{},\"Operator\":{},\"Values\":{}}}",
            json!(text(one, "scopeName")),
            json!(text(one, "operator")),
            one["values"]
        )
    });
    Shown::Raw(format!("{{\"MatchExpressions\":[{}]}}", each.collect::<Vec<_>>().join(",")))
}

pub(crate) fn limit_range(new: &Value, errors: &mut Errors) {
    let spec = Path::field("spec");
    let path = spec.child("limits");
    let mut seen = BTreeSet::new();
    for (index, limit) in list(&new["spec"], "limits").iter().enumerate() {
        let (at, kind) = (path.index(index), text(limit, "type"));
        let problems = names::qualified_name(kind);
        if problems.is_empty()
            && !kind.contains('/')
            && !matches!(kind, "Container" | "PersistentVolumeClaim" | "Pod")
        {
            let detail = "must be a standard limit type or fully qualified";
            errors.push(FieldError::invalid(&at.child("type"), kind, detail));
        }
        invalid_each(errors, &at.child("type"), kind, problems);
        if !seen.insert(kind) {
            errors.push(FieldError::duplicate(&at.child("type"), kind));
        }
        limits(limit, kind, &at, errors);
    }
}

fn limits(limit: &Value, kind: &str, at: &Path<'_>, errors: &mut Errors) {
    let mut keys = BTreeSet::new();
    let mut of: BTreeMap<&str, BTreeMap<&str, Amount>> = BTreeMap::new();
    for field in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
        if kind == "Pod" && matches!(field, "default" | "defaultRequest") {
            if !is_empty(&limit[field]) {
                let detail = "may not be specified when `type` is 'Pod'";
                errors.push(FieldError::forbidden(&at.child(field), detail));
            }
            continue;
        }
        if field == "maxLimitRequestRatio"
            && kind == "PersistentVolumeClaim"
            && limit["min"].get("storage").is_none()
            && limit["max"].get("storage").is_none()
        {
            let detail = "either minimum or maximum storage value is required, but neither was provided";
            errors.push(FieldError::required(&at.child("limits"), detail));
        }
        for (name, value) in entries(limit, field) {
            let at = at.child(field);
            let at = at.key(name);
            match kind {
                "Pod" | "Container" => container_resource(name, &at, errors),
                _ => resource_name(name, &at, errors),
            }
            keys.insert(name.as_str());
            if let Some(quantity) = Quantity::from_value(value) {
                let amount = Amount { quantity, text: amount_shown(value) };
                of.entry(field).or_default().insert(name, amount);
            }
        }
    }
    for key in keys {
        let get = |field: &str| of.get(field).and_then(|all| all.get(key));
        relations(key, &get, at, errors);
    }
}

/// An amount, and how it is written.
struct Amount {
    quantity: Quantity,
    text: String,
}

/// How the bounds and defaults of one resource lie to each other.
fn relations<'q>(key: &str, get: &dyn Fn(&str) -> Option<&'q Amount>, at: &Path<'_>, errors: &mut Errors) {
    let (min, max, default, request, ratio) =
        (get("min"), get("max"), get("default"), get("defaultRequest"), get("maxLimitRequestRatio"));
    let mut refuse = |field: &'static str, value: &Amount, detail: String| {
        errors.push(FieldError::invalid(&at.child(field).key(key), value.text.clone(), detail));
    };
    let say = |of: &'q Amount| of.text.as_str();
    if let (Some(min), Some(max)) = (min, max)
        && min.quantity > max.quantity
    {
        refuse("min", min, format!("min value {} is greater than max value {}", say(min), say(max)));
    }
    if let Some(request) = request {
        if let Some(min) = min.filter(|min| min.quantity > request.quantity) {
            let detail =
                format!("min value {} is greater than default request value {}", say(min), say(request));
            refuse("defaultRequest", request, detail);
        }
        if let Some(max) = max.filter(|max| request.quantity > max.quantity) {
            let detail =
                format!("default request value {} is greater than max value {}", say(request), say(max));
            refuse("defaultRequest", request, detail);
        }
        if let Some(default) = default.filter(|default| request.quantity > default.quantity) {
            let detail = format!(
                "default request value {} is greater than default limit value {}",
                say(request),
                say(default)
            );
            refuse("defaultRequest", request, detail);
        }
    }
    if let Some(default) = default {
        if let Some(min) = min.filter(|min| min.quantity > default.quantity) {
            let detail = format!("min value {} is greater than default value {}", say(min), say(default));
            refuse("default", min, detail);
        }
        if let Some(max) = max.filter(|max| default.quantity > max.quantity) {
            let detail = format!("default value {} is greater than max value {}", say(default), say(max));
            refuse("default", max, detail);
        }
    }
    if let Some(ratio) = ratio {
        let part = |of: &Amount| of.quantity.nanos() as f64;
        if ratio.quantity.nanos() < 1_000_000_000 {
            refuse("maxLimitRequestRatio", ratio, format!("ratio {} is less than 1", say(ratio)));
        }
        if let (Some(min), Some(max)) = (min, max) {
            let most = part(max) / part(min);
            if part(ratio) / 1e9 > most {
                let detail = format!("ratio {} is greater than max/min = {most:.6}", say(ratio));
                refuse("maxLimitRequestRatio", ratio, detail);
            }
        }
    }
    if let (Some(default), Some(request)) = (default, request)
        && !may_overcommit(key)
        && default.quantity.nanos() != request.quantity.nanos()
    {
        let detail = format!(
            "default value {} must equal to defaultRequest value {} in {key}",
            say(default),
            say(request)
        );
        refuse("defaultRequest", request, detail);
    }
}
