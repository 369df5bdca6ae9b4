//! Where Pods may run: affinity, spread, tolerations, priority classes.
//!
//! In: a part of a Pod's spec with its path. Out: field errors in kube-apiserver's order. Tolerations, choices of nodes and preemption are
//! judged the same way in other kinds.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use karmada_schema::FieldError;
use karmada_schema::path::Path;
use serde_json::Value;

use super::{Errors, entries, facts, invalid_each, judge, list, names, selector, text};

/// How a part is judged.
type Judge = fn(&Value, &Path<'_>, &mut Errors);

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Takes out of a Pod's spec which nodes it wants: what selects them, and their affinity.
pub(super) fn remove_nodes(spec: &mut Value) {
    let Some(fields) = spec.as_object_mut() else { return };
    fields.remove("nodeSelector");
    let affinity = fields.get_mut("affinity").and_then(Value::as_object_mut);
    let is_empty = affinity.is_none_or(|affinity| {
        affinity.remove("nodeAffinity");
        affinity.is_empty()
    });
    if is_empty {
        fields.remove("affinity");
    }
}

/// `spec.affinity` of a Pod.
pub(super) fn affinity(affinity: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let (node, at) = (&affinity["nodeAffinity"], path.child("nodeAffinity"));
    if node[REQUIRED].is_object() {
        node_selector(&node[REQUIRED], &at.child(REQUIRED), errors);
    }
    let preferred = at.child(PREFERRED);
    for (index, term) in list(node, PREFERRED).iter().enumerate() {
        let at = preferred.index(index);
        judge(facts::CORE_V1_PREFERRED_SCHEDULING_TERM, term, None, &at, errors);
        node_term(&term["preference"], |_, _, _| {}, &at.child("preference"), errors);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        judge(facts::CORE_V1_POD_AFFINITY, &affinity[kind], None, &path.child(kind), errors);
    }
}

/// A choice of nodes: one term at least.
pub(super) fn node_selector(selector: &Value, path: &Path<'_>, errors: &mut Errors) {
    let terms = path.child("nodeSelectorTerms");
    let all = list(selector, "nodeSelectorTerms");
    judge(facts::CORE_V1_NODE_SELECTOR, selector, None, path, errors);
    for (index, term) in all.iter().enumerate() {
        node_term(term, selector::values, &terms.index(index), errors);
    }
}

/// One term; `values`: how the values of a requirement are judged, which those that are only preferred are not.
fn node_term(term: &Value, values: Judge, path: &Path<'_>, errors: &mut Errors) {
    let expressions = path.child("matchExpressions");
    for (index, one) in list(term, "matchExpressions").iter().enumerate() {
        let at = expressions.index(index);
        selector::node_operator(one, &at, errors);
        selector::key(one, &at, errors);
        values(one, &at, errors);
    }
    let fields = path.child("matchFields");
    for (index, one) in list(term, "matchFields").iter().enumerate() {
        let at = fields.index(index);
        match text(one, "operator") {
            "In" | "NotIn" if list(one, "values").len() != 1 => errors.push(FieldError::required(
                &at.child("values"),
                "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
            )),
            "In" | "NotIn" => {}
            other => {
                let detail = "not a valid selector operator";
                errors.push(FieldError::invalid(&at.child("operator"), other, detail));
            }
        }
        if text(one, "key") != "metadata.name" {
            let detail = "not a valid field selector key";
            errors.push(FieldError::invalid(&at.child("key"), text(one, "key"), detail));
            continue;
        }
        let at = at.child("values");
        for (index, value) in list(one, "values").iter().filter_map(Value::as_str).enumerate() {
            invalid_each(errors, &at.index(index), value, names::dns_subdomain(value));
        }
    }
}

/// Keys of the Pod's own labels, whose values are, or are not, to be those of others. They were written into the selector before.
pub(super) fn label_keys(term: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let selector = &term["labelSelector"];
    for field in ["matchLabelKeys", "mismatchLabelKeys"] {
        let keys = list(term, field);
        let at = path.child(field);
        if keys.is_empty() {
            continue;
        }
        if !selector.is_object() {
            errors.push(FieldError::forbidden(&at, "must not be specified when labelSelector is not set"));
            continue;
        }
        for (index, key) in keys.iter().filter_map(Value::as_str).enumerate() {
            invalid_each(errors, &at.index(index), key, names::qualified_name(key));
        }
    }
    let mut selected: BTreeSet<&str> =
        entries(selector, "matchLabels").map(|(key, _)| key.as_str()).collect();
    // Where each key stands last.
    let places: BTreeMap<&str, usize> = list(term, "matchLabelKeys")
        .iter()
        .enumerate()
        .filter_map(|(at, key)| Some((key.as_str()?, at)))
        .collect();
    for key in list(selector, "matchExpressions").iter().map(|one| text(one, "key")) {
        let place = places.get(key).copied();
        if let Some(place) = place.filter(|_| selected.contains(key)) {
            let detail = "exists in both matchLabelKeys and labelSelector";
            errors.push(FieldError::invalid(&path.index(place), key, detail));
        }
        selected.insert(key);
    }
    let mismatch: HashSet<&Value> = list(term, "mismatchLabelKeys").iter().collect();
    let at = path.child("matchLabelKeys");
    for (index, key) in list(term, "matchLabelKeys").iter().enumerate() {
        if mismatch.contains(key) {
            let detail = "exists in both matchLabelKeys and mismatchLabelKeys";
            errors.push(FieldError::invalid(&at.index(index), key.clone(), detail));
        }
    }
}

/// `spec.topologySpreadConstraints` of a Pod.
pub(super) fn spread(all: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let all = all.as_array().map_or(&[][..], Vec::as_slice);
    let pair = |one: &Value| [text(one, "topologyKey"), text(one, "whenUnsatisfiable")].map(str::to_owned);
    // Where each pair stands last.
    let last: HashMap<[String; 2], usize> =
        all.iter().enumerate().map(|(index, one)| (pair(one), index)).collect();
    for (index, one) in all.iter().enumerate() {
        let at = path.index(index);
        judge(facts::CORE_V1_TOPOLOGY_SPREAD_CONSTRAINT, one, None, &at, errors);
        if last.get(&pair(one)).is_some_and(|last| *last > index) {
            let [key, action] = pair(one);
            let pair = format!("{{{key}, {action}}}");
            errors.push(FieldError::duplicate(&at.child("{topologyKey, whenUnsatisfiable}"), pair));
        }
        judge(facts::CORE_V1_TOPOLOGY_SPREAD_CONSTRAINT_REST, one, None, &at, errors);
    }
}

/// `minDomains` goes with `whenUnsatisfiable: DoNotSchedule` alone.
pub(super) fn fewest_domains(one: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let action = text(one, "whenUnsatisfiable");
    if one["minDomains"].is_number() && action != "DoNotSchedule" {
        let detail = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
        errors.push(FieldError::invalid(&path.child("minDomains"), one["minDomains"].clone(), detail));
    }
}

/// `spec.tolerations` of a Pod.
pub(super) fn tolerations(all: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    for (index, one) in all.as_array().into_iter().flatten().enumerate() {
        let at = path.index(index);
        let (key, operator, effect) = (text(one, "key"), text(one, "operator"), text(one, "effect"));
        if !key.is_empty() {
            invalid_each(errors, &at.child("key"), key, names::qualified_name(key));
        } else if operator != "Exists" {
            let detail =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.push(FieldError::invalid(&at.child("operator"), operator, detail));
        }
        if one["tolerationSeconds"].is_number() && effect != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.push(FieldError::invalid(&at.child("effect"), effect, detail));
        }
        let value = text(one, "value");
        match operator {
            "" | "Equal" => {
                let problems = names::label_value(value);
                if !problems.is_empty() {
                    errors.push(FieldError::invalid(&at.child("operator"), value, problems.join(";")));
                }
            }
            "Exists" if !value.is_empty() => {
                let detail = "value must be empty when `operator` is 'Exists'";
                errors.push(FieldError::invalid(&at.child("operator"), value, detail));
            }
            "Exists" => {}
            // Operators of a feature that is off.
            "Lt" | "Gt" => {
                let known = ["Equal", "Exists", "Lt", "Gt"];
                errors.push(FieldError::not_supported(&at.child("operator"), operator, &known));
            }
            other => {
                errors.push(FieldError::not_supported(&at.child("operator"), other, &["Equal", "Exists"]));
            }
        }
        judge(facts::CORE_V1_TOLERATION, one, None, &at, errors);
    }
}

/// The same, as facts name it.
pub(super) fn preemption_policy(policy: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    preemption(policy.as_str().unwrap_or_default(), path, errors);
}

/// Whether a Pod takes the place of others.
pub(super) fn preemption(policy: &str, path: &Path<'_>, errors: &mut Errors) {
    match policy {
        "PreemptLowerPriority" | "Never" => {}
        "" => errors.push(FieldError::required(path, "")),
        other => errors.push(FieldError::not_supported(path, other, &["PreemptLowerPriority", "Never"])),
    }
}

/// The name, value and preemption policy of a new PriorityClass; on an update nothing is looked at here, and `data/facts.tsv` says what may
/// not change.
pub(super) fn priority_class(new: &Value, old: Option<&Value>, _: &Path<'_>, errors: &mut Errors) {
    const HIGHEST: i64 = 1_000_000_000;
    if old.is_some() {
        return;
    }
    let (name, value) = (text(&new["metadata"], "name"), new["value"].as_i64().unwrap_or(0));
    let known = match name {
        "system-node-critical" => Some(2 * HIGHEST + 1000),
        "system-cluster-critical" => Some(2 * HIGHEST),
        _ => None,
    };
    let why = match known {
        Some(own) if value != own => format!("value of {name} PriorityClass must be {own}"),
        Some(_) if new["globalDefault"] == true => {
            format!("globalDefault of {name} PriorityClass must be false")
        }
        Some(_) => String::new(),
        None if name.starts_with("system-") => format!("{name} is not a known system priority class"),
        None => String::new(),
    };
    if !why.is_empty() {
        let meta = Path::field("metadata");
        let detail = format!(
            "priority class names with 'system-' prefix are reserved for system use only. error: {why}"
        );
        errors.push(FieldError::forbidden(&meta.child("name"), detail));
    } else if value > HIGHEST && !name.starts_with("system-") {
        let detail = format!("maximum allowed value of a user defined priority is {HIGHEST}");
        errors.push(FieldError::forbidden(&Path::field("value"), detail));
    }
    if let Some(policy) = new["preemptionPolicy"].as_str() {
        preemption(policy, &Path::field("preemptionPolicy"), errors);
    }
}
