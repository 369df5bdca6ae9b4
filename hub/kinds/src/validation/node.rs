//! Nodes: taints, address ranges, amounts.
//!
//! In: a Node, on an update with what stands. Out: field errors; errors of taints are under `metadata.taints`, where kube-apiserver puts
//! them. The same function judges a write of the status.

use std::collections::{BTreeSet, HashSet};

use karmada_schema::path::Path;
use karmada_schema::{FieldError, Shown};
use serde_json::{Value, json};

use super::resources::amount;
use super::{Errors, addresses, entries, facts, judge, list, names, text};

const AVOID: &str = "scheduler.alpha.kubernetes.io/preferAvoidPods";

pub(crate) fn node(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let (spec, path) = (&new["spec"], Path::field("spec"));
    avoided(new, errors);
    if old.is_none() {
        taints(spec, errors);
    }
    resources(new, errors);
    match old {
        None => ranges(spec, &path, errors),
        Some(old) => update(new, old, &path, errors),
    }
}

/// An annotation that must be read as JSON.
fn avoided(new: &Value, errors: &mut Errors) {
    let Some(value) = new["metadata"]["annotations"][AVOID].as_str().filter(|value| !value.is_empty()) else {
        return;
    };
    if serde_json::from_str::<Value>(value).is_err() {
        let meta = Path::field("metadata");
        let at = meta.child("annotations");
        errors.push(FieldError::invalid(
            &at.child("AvoidPods"),
            AVOID,
            super::core::json_problem(value.as_bytes()),
        ));
    }
}

/// Every taint: well formed, and each key and effect once.
fn taints(spec: &Value, errors: &mut Errors) {
    let meta = Path::field("metadata");
    let path = meta.child("taints");
    let mut seen = BTreeSet::new();
    for (index, taint) in list(spec, "taints").iter().enumerate() {
        let at = path.index(index);
        let (key, value, effect) = (text(taint, "key"), text(taint, "value"), text(taint, "effect"));
        judge(facts::CORE_V1_TAINT, taint, None, &at, errors);
        if !seen.insert((effect, key)) {
            let shown = format!(
                "{{\"Key\":{},\"Value\":{},\"Effect\":{},\"TimeAdded\":{}}}",
                json!(key),
                json!(value),
                json!(effect),
                taint["timeAdded"]
            );
            let mut error = FieldError::duplicate(&at, Shown::Raw(shown));
            error.detail = "taints must be unique by key and effect pair".to_owned();
            errors.push(error);
        }
    }
}

/// The value of a taint: all that is wrong with it as one.
pub(super) fn value(value: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let problems = names::label_value(value.as_str().unwrap_or_default());
    if !problems.is_empty() {
        errors.push(FieldError::invalid(path, value.clone(), problems.join(";")));
    }
}

/// What a node has and what of it can be used.
fn resources(new: &Value, errors: &mut Errors) {
    let status = Path::field("status");
    for field in ["capacity", "allocatable"] {
        let at = status.child(field);
        for (name, value) in entries(&new["status"], field) {
            amount(name, value, &at.child(name), errors);
        }
    }
}

fn ranges(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let at = path.child("podCIDRs");
    let all: Vec<&str> = list(spec, "podCIDRs").iter().filter_map(Value::as_str).collect();
    let before = errors.len();
    for (index, range) in all.iter().enumerate() {
        addresses::usable_range(range, &[], &at.index(index), errors);
    }
    let families: BTreeSet<bool> = all.iter().map(|range| range.contains(':')).collect();
    if all.len() > 1 && errors.len() == before && (families.len() < 2 || all.len() > 2) {
        let detail = "may specify no more than one CIDR for each IP family";
        errors.push(FieldError::invalid(&at, spec["podCIDRs"].clone(), detail));
    }
}

fn update(new: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    let status = Path::field("status");
    let at = status.child("addresses");
    for (index, address) in list(&new["status"], "addresses").iter().enumerate() {
        if !seen.insert(address) {
            let shown =
                format!("{{\"Type\":{},\"Address\":{}}}", json!(text(address, "type")), address["address"]);
            errors.push(FieldError::duplicate(&at.index(index), Shown::Raw(shown)));
        }
    }
    let (spec, before) = (&new["spec"], &old["spec"]);
    let (now, then) = (list(spec, "podCIDRs"), list(before, "podCIDRs"));
    let mut changed = || {
        let detail = "node updates may not change podCIDR except from \"\" to valid";
        errors.push(FieldError::forbidden(&path.child("podCIDRs"), detail));
    };
    if !then.is_empty() && then.len() != now.len() {
        changed();
    } else {
        then.iter().zip(now).filter(|(then, now)| then != now).for_each(|_| changed());
    }
    let provider = text(before, "providerID");
    if !provider.is_empty() && provider != text(spec, "providerID") {
        let detail = "node updates may not change providerID except from \"\" to valid";
        errors.push(FieldError::forbidden(&path.child("providerID"), detail));
    }
    taints(spec, errors);
    if text(before, "externalID") != text(spec, "externalID") {
        errors.push(FieldError::forbidden(&path.child("externalID"), "may not be updated"));
    }
}
