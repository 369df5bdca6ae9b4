//! Resource quotas and limit ranges.
//!
//! In: a ResourceQuota, its status, or a LimitRange. Out: field errors in kube-apiserver's order. Some show a whole list: the longer the
//! list, the fewer of those are made, so that no answer grows beyond bounds.

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
fn scope_applies(scope: &str, resource: &str) -> bool {
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
            let misfit = |resource: &str| is_standard_for_quota(resource) && !scope_applies(scope, resource);
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

/// The bounds and defaults of one resource.
struct Relations<'q, 'e> {
    key: &'q str,
    min: Option<&'q Amount>,
    max: Option<&'q Amount>,
    default: Option<&'q Amount>,
    request: Option<&'q Amount>,
    ratio: Option<&'q Amount>,
    at: &'e Path<'e>,
    errors: &'e mut Errors,
}

/// How the bounds and defaults of one resource lie to each other.
fn relations<'q>(key: &'q str, get: &dyn Fn(&str) -> Option<&'q Amount>, at: &Path<'_>, errors: &mut Errors) {
    let (min, max, default) = (get("min"), get("max"), get("default"));
    let (request, ratio) = (get("defaultRequest"), get("maxLimitRequestRatio"));
    let mut relations = Relations { key, min, max, default, request, ratio, at, errors };
    relations.bounds();
    relations.request();
    relations.default();
    relations.ratio();
    relations.overcommit();
}

impl Relations<'_, '_> {
    fn refuse(&mut self, field: &'static str, value: &Amount, detail: String) {
        let at = self.at.child(field);
        self.errors.push(FieldError::invalid(&at.key(self.key), value.text.clone(), detail));
    }

    fn bounds(&mut self) {
        if let (Some(min), Some(max)) = (self.min, self.max)
            && min.quantity > max.quantity
        {
            let detail = format!("min value {} is greater than max value {}", min.text, max.text);
            self.refuse("min", min, detail);
        }
    }

    fn request(&mut self) {
        let Some(request) = self.request else { return };
        if let Some(min) = self.min.filter(|min| min.quantity > request.quantity) {
            let detail =
                format!("min value {} is greater than default request value {}", min.text, request.text);
            self.refuse("defaultRequest", request, detail);
        }
        if let Some(max) = self.max.filter(|max| request.quantity > max.quantity) {
            let detail =
                format!("default request value {} is greater than max value {}", request.text, max.text);
            self.refuse("defaultRequest", request, detail);
        }
        if let Some(default) = self.default.filter(|default| request.quantity > default.quantity) {
            let detail = format!(
                "default request value {} is greater than default limit value {}",
                request.text, default.text
            );
            self.refuse("defaultRequest", request, detail);
        }
    }

    fn default(&mut self) {
        let Some(default) = self.default else { return };
        if let Some(min) = self.min.filter(|min| min.quantity > default.quantity) {
            let detail = format!("min value {} is greater than default value {}", min.text, default.text);
            self.refuse("default", min, detail);
        }
        if let Some(max) = self.max.filter(|max| default.quantity > max.quantity) {
            let detail = format!("default value {} is greater than max value {}", default.text, max.text);
            self.refuse("default", max, detail);
        }
    }

    fn ratio(&mut self) {
        let Some(ratio) = self.ratio else { return };
        let part = |of: &Amount| of.quantity.nanos() as f64;
        if ratio.quantity.nanos() < 1_000_000_000 {
            self.refuse("maxLimitRequestRatio", ratio, format!("ratio {} is less than 1", ratio.text));
        }
        if let (Some(min), Some(max)) = (self.min, self.max) {
            let most = part(max) / part(min);
            if part(ratio) / 1e9 > most {
                let detail = format!("ratio {} is greater than max/min = {most:.6}", ratio.text);
                self.refuse("maxLimitRequestRatio", ratio, detail);
            }
        }
    }

    fn overcommit(&mut self) {
        if let (Some(default), Some(request)) = (self.default, self.request)
            && !may_overcommit(self.key)
            && default.quantity.nanos() != request.quantity.nanos()
        {
            let detail = format!(
                "default value {} must equal to defaultRequest value {} in {}",
                default.text, request.text, self.key
            );
            self.refuse("defaultRequest", request, detail);
        }
    }
}
