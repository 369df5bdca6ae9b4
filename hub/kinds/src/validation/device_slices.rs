//! The devices of a slice: what they are, what they share, who may use them and when.
//!
//! In: the spec of a ResourceSlice, on update the stored one. Out: field errors.

use std::collections::HashSet;

use karmada_quantity::Quantity;
use karmada_schema::path::Path;
use karmada_schema::{FieldError, Shown};
use serde_json::Value;

use super::devices::{attribute_name, check_length, label, once, shown_term};
use super::scheduling::node_selector;
use super::{Errors, entries, facts, invalid_each, judge, list, names, text};

/// Devices of a slice, and fewer where more is said of one.
const MOST: usize = 128;
const MOST_WITH_MORE: usize = 64;

/// Where the devices of a slice can be used: one way of saying it.
pub(super) fn place_of_slice(spec: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    const ONE: &str =
        "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    let mut given = Vec::new();
    if let Some(node) = spec["nodeName"].as_str() {
        let at = path.child("nodeName");
        if node.is_empty() {
            errors.push(FieldError::invalid(&at, node, "must be either unset or set to a non-empty string"));
        } else {
            given.push("`nodeName`");
            invalid_each(errors, &at, node, names::dns_subdomain(node));
        }
    }
    if spec["nodeSelector"].is_object() {
        given.push("`nodeSelector`");
        let at = path.child("nodeSelector");
        node_selector(&spec["nodeSelector"], &at, errors);
        let terms = list(&spec["nodeSelector"], "nodeSelectorTerms");
        if terms.len() != 1 {
            let shown = terms.iter().map(shown_term).collect::<Vec<_>>().join(",");
            let detail = "must have exactly one node selector term";
            let none = spec["nodeSelector"]["nodeSelectorTerms"].is_null();
            let shown = Shown::Raw(if none { "null".to_owned() } else { format!("[{shown}]") });
            errors.push(FieldError::invalid(&at.child("nodeSelectorTerms"), shown, detail));
        }
    }
    for (field, named) in [("allNodes", "`allNodes`"), ("perDeviceNodeSelection", "`perDeviceNodeSelection`")]
    {
        match &spec[field] {
            Value::Bool(true) => given.push(named),
            Value::Bool(false) => {
                let detail = "must be either unset or set to true";
                errors.push(FieldError::invalid(&path.child(field), false, detail));
            }
            _ => {}
        }
    }
    match given.len() {
        0 => errors.push(FieldError::required(path, ONE)),
        1 => {}
        _ => {
            let detail = format!("{ONE}, but multiple fields are set");
            errors.push(FieldError::invalid(path, format!("{{{}}}", given.join(", ")), detail));
        }
    }
}

/// All of them, and the counters that they draw on.
pub(super) fn devices(spec: &Value, old: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    if spec["sharedCounters"].is_array() && spec["devices"].is_array() {
        errors.push(FieldError::invalid(path, "", "only one of `sharedCounters` or `devices` is allowed"));
    }
    let (all, at) = (list(spec, "devices"), path.child("devices"));
    let more = |one: &Value| ["taints", "consumesCounters"].iter().any(|field| !list(one, field).is_empty());
    let most = if all.iter().any(more) { MOST_WITH_MORE } else { MOST };
    if check_length(all, most, &at, errors) {
        for (index, one) in all.iter().enumerate() {
            let before =
                old.and_then(|old| list(old, "devices").iter().find(|old| old["name"] == one["name"]));
            device(one, before, spec["perDeviceNodeSelection"] == true, &at.index(index), errors);
        }
        once(all, "name", &at, errors);
    }
    let (sets, at) = (list(spec, "sharedCounters"), path.child("sharedCounters"));
    if check_length(sets, 8, &at, errors) {
        sets.iter().enumerate().for_each(|(index, one)| counters(one, "name", &at.index(index), errors));
        once(sets, "name", &at, errors);
    }
}

/// Counters by name: those of a set, or what a device takes of one.
fn counters(of: &Value, field: &str, path: &Path<'_>, errors: &mut Errors) {
    let (name, at) = (text(of, field), path.child(field));
    if name.is_empty() {
        errors.push(FieldError::required(&at, ""));
    } else {
        label(name, &at, errors);
    }
    let (all, at) = (entries(of, "counters").count(), path.child("counters"));
    match all {
        0 => errors.push(FieldError::required(&at, "")),
        1..=32 => entries(of, "counters").for_each(|(name, _)| label(name, &at, errors)),
        _ => errors.push(FieldError::too_many(&at, all as u64, 32)),
    }
}

/// One device; `each`: where each says by itself from where it can be used.
fn device(device: &Value, old: Option<&Value>, each: bool, path: &Path<'_>, errors: &mut Errors) {
    label(text(device, "name"), &path.child("name"), errors);
    let said = entries(device, "attributes").count() + entries(device, "capacity").count();
    if said > 32 {
        let detail = "the total number of attributes and capacities must not exceed 32";
        errors.push(FieldError::invalid(path, said, detail));
    }
    let at = path.child("attributes");
    for (name, value) in entries(device, "attributes") {
        attribute_name(name, &at, errors);
        attribute(value, &at.key(name), errors);
    }
    let at = path.child("capacity");
    for (name, capacity) in entries(device, "capacity") {
        attribute_name(name, &at, errors);
        let at = at.key(name);
        let policy = &capacity["requestPolicy"];
        if policy.is_object() && device["allowMultipleAllocations"] != true {
            let detail = "allowMultipleAllocations must be true";
            errors.push(FieldError::forbidden(&at.child("requestPolicy"), detail));
        } else if policy.is_object() {
            request_policy(&capacity["value"], policy, &at.child("requestPolicy"), errors);
        }
    }
    if old.is_none_or(|old| old["taints"] != device["taints"]) {
        taints(list(device, "taints"), &path.child("taints"), errors);
    }
    let (all, at) = (list(device, "consumesCounters"), path.child("consumesCounters"));
    if check_length(all, 2, &at, errors) {
        all.iter().enumerate().for_each(|(index, one)| counters(one, "counterSet", &at.index(index), errors));
        once(all, "counterSet", &at, errors);
    }
    place_of_device(device, each, path, errors);
    binding(device, path, errors);
}

fn taints(all: &[Value], path: &Path<'_>, errors: &mut Errors) {
    if !check_length(all, 16, path, errors) {
        return;
    }
    for (index, one) in all.iter().enumerate() {
        judge(facts::RESOURCE_V1_DEVICE_TAINT, one, None, &path.index(index), errors);
    }
}

/// From where a device can be used, in one way.
fn place_of_device(device: &Value, each: bool, path: &Path<'_>, errors: &mut Errors) {
    const ONE: &str = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when \
                       `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
    const FIELDS: [&str; 3] = ["nodeName", "nodeSelector", "allNodes"];
    let mut given: Vec<&str> = FIELDS.into_iter().filter(|field| !device[*field].is_null()).collect();
    if !each {
        if !given.is_empty() {
            let detail = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set \
                          to true in the ResourceSlice spec";
            errors.push(FieldError::invalid(path, Value::Null, detail));
        }
        return;
    }
    if let Some(node) = device["nodeName"].as_str() {
        let at = path.child("nodeName");
        if node.is_empty() {
            given.retain(|field| *field != "nodeName");
            errors.push(FieldError::invalid(&at, node, "must not be empty"));
        } else {
            invalid_each(errors, &at, node, names::dns_subdomain(node));
        }
    }
    if device["nodeSelector"].is_object() {
        node_selector(&device["nodeSelector"], &path.child("nodeSelector"), errors);
    }
    if device["allNodes"] == false {
        given.retain(|field| *field != "allNodes");
        let detail = "must be either unset or set to true";
        errors.push(FieldError::invalid(&path.child("allNodes"), false, detail));
    }
    match given.len() {
        0 => errors.push(FieldError::required(path, ONE)),
        1 => {}
        _ => {
            let shown: Vec<String> = given.iter().map(|field| format!("`{field}`")).collect();
            errors.push(FieldError::invalid(path, format!("{{{}}}", shown.join(", ")), ONE));
        }
    }
}

/// What must come true before a Pod is bound, and what must not.
fn binding(device: &Value, path: &Path<'_>, errors: &mut Errors) {
    const FIELDS: [&str; 2] = ["bindingConditions", "bindingFailureConditions"];
    let [good, bad] = FIELDS.map(|field| list(device, field));
    for (field, all) in FIELDS.into_iter().zip([good, bad]) {
        let at = path.child(field);
        if check_length(all, 4, &at, errors) {
            for (index, name) in all.iter().filter_map(Value::as_str).enumerate() {
                invalid_each(errors, &at.index(index), name, names::qualified_name(name));
            }
        }
    }
    for (field, all) in FIELDS.into_iter().zip([good, bad]) {
        let (at, mut seen) = (path.child(field), HashSet::new());
        for (index, name) in all.iter().enumerate() {
            if !seen.insert(name) {
                errors.push(FieldError::duplicate(&at.index(index), name.clone()));
            }
            if field == FIELDS[1] && good.contains(name) {
                let detail = "bindingFailureConditions must not overlap with bindingConditions";
                errors.push(FieldError::invalid(&at.index(index), name.clone(), detail));
            }
        }
    }
    for (field, all, other, others) in [(FIELDS[0], good, FIELDS[1], bad), (FIELDS[1], bad, FIELDS[0], good)]
    {
        if all.is_empty() && !others.is_empty() {
            let detail = format!("{field} are required to use {other}");
            errors.push(FieldError::invalid(&path.child(field), device[field].clone(), detail));
        }
    }
}

fn amount(value: &Value) -> Option<(i128, String)> {
    let quantity = Quantity::from_value(value)?;
    Some((quantity.nanos(), quantity.to_string()))
}

/// How much of a capacity a request may take.
fn request_policy(capacity: &Value, policy: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (values, range) = (list(policy, "validValues"), &policy["validRange"]);
    if !values.is_empty() && range.is_object() {
        let detail = "exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at the same \
                      time";
        return errors.push(FieldError::forbidden(path, detail));
    }
    let field = match (values.is_empty(), range.is_object()) {
        (false, _) => "validValues",
        (_, true) => "validRange",
        _ => return,
    };
    let Some(default) = amount(&policy["default"]) else {
        let detail = format!("required when {field} is defined");
        return errors.push(FieldError::required(&path.child("default"), detail));
    };
    let Some(most) = amount(capacity) else { return };
    if values.is_empty() {
        valid_range(range, &default, &most, &path.child(field), errors);
    } else {
        valid_values(values, &default, &most, &path.child(field), errors);
    }
}

type Amount = (i128, String);

fn valid_values(all: &[Value], default: &Amount, most: &Amount, path: &Path<'_>, errors: &mut Errors) {
    let amounts: Vec<Amount> = all.iter().filter_map(amount).collect();
    for (index, pair) in amounts.windows(2).enumerate() {
        if pair[0].0 > pair[1].0 {
            let detail = "values must be sorted in ascending order";
            errors.push(FieldError::invalid(&path.index(index + 1), pair[1].1.clone(), detail));
        }
    }
    if check_length(all, 10, path, errors) {
        for (index, one) in amounts.iter().enumerate().filter(|(_, one)| one.0 > most.0) {
            let detail = format!("option is larger than capacity value: {}", most.1);
            errors.push(FieldError::invalid(&path.index(index), one.1.clone(), detail));
        }
        let mut seen = HashSet::new();
        for (index, one) in amounts.iter().enumerate() {
            if !seen.insert(one.0) {
                errors.push(FieldError::duplicate(&path.index(index), one.1.clone()));
            }
        }
    }
    if all.len() > 10 || !amounts.iter().any(|one| one.0 == default.0) {
        let detail = "default value is not valid according to the requestPolicy";
        errors.push(FieldError::invalid(path, default.1.clone(), detail));
    }
}

fn valid_range(range: &Value, default: &Amount, most: &Amount, path: &Path<'_>, errors: &mut Errors) {
    let Some(least) = amount(&range["min"]) else {
        return errors.push(FieldError::required(&path.child("min"), "required when validRange is defined"));
    };
    let greatest = amount(&range["max"]);
    let mut refuse = |field: &str, value: &str, detail: String| {
        errors.push(FieldError::invalid(&path.child(field), value, detail));
    };
    if least.0 > most.0 {
        refuse("min", &least.1, format!("min is larger than capacity value: {}", most.1));
    }
    if default.0 < least.0 {
        refuse("min", &default.1, format!("default is less than min: {}", least.1));
    }
    if let Some(greatest) = &greatest {
        if least.0 > greatest.0 {
            refuse("max", &least.1, format!("min is larger than max: {}", greatest.1));
        }
        if greatest.0 > most.0 {
            refuse("max", &greatest.1, format!("max is larger than capacity value: {}", most.1));
        }
        if default.0 > greatest.0 {
            refuse("max", &default.1, format!("default is more than max: {}", greatest.1));
        }
    }
    let Some(step) = amount(&range["step"]).filter(|step| step.0 != 0) else { return };
    let first = Quantity::from_value(&range["step"])
        .map(|written| Quantity::of_nanos(least.0 + step.0, written).to_string())
        .unwrap_or_default();
    if least.0 + step.0 > most.0 {
        refuse("step", &step.1, format!("one step {first} is larger than capacity value: {}", most.1));
    }
    for value in std::iter::once(default).chain(&greatest) {
        if (value.0 - least.0) % step.0 != 0 {
            let detail = format!("value is not a multiple of a given step ({}) from ({})", step.1, least.1);
            refuse("step", &value.1, detail);
        }
    }
}

fn attribute(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    let given = ["bool", "int", "string", "version"].iter().filter(|kind| !value[**kind].is_null()).count();
    if text(value, "string").len() > 64 {
        errors.push(FieldError::too_long(&path.child("string"), 64));
    }
    if let Some(version) = value["version"].as_str() {
        let at = path.child("version");
        if !is_semantic(version) {
            let detail = "must be a string compatible with semver.org spec 2.0.0";
            errors.push(FieldError::invalid(&at, version, detail));
        }
        if version.len() > 64 {
            errors.push(FieldError::too_long(&at, 64));
        }
    }
    match given {
        0 => errors.push(FieldError::invalid(path, "", "exactly one value must be specified")),
        1 => {}
        _ => {
            let shown = format!(
                "{{\"IntValue\":{},\"BoolValue\":{},\"StringValue\":{},\"VersionValue\":{}}}",
                value["int"], value["bool"], value["string"], value["version"]
            );
            let detail = "exactly one value must be specified";
            errors.push(FieldError::invalid(path, Shown::Raw(shown), detail));
        }
    }
}

/// Whether text is a semantic version.
fn is_semantic(text: &str) -> bool {
    let (rest, build) = text.split_once('+').map_or((text, None), |(rest, build)| (rest, Some(build)));
    let (core, pre) = rest.split_once('-').map_or((rest, None), |(core, pre)| (core, Some(pre)));
    let plain = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|b| b.is_ascii_digit())
            && (part == "0" || !part.starts_with('0'))
    };
    let word = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    core.split('.').count() == 3
        && core.split('.').all(plain)
        && pre.is_none_or(|pre| pre.split('.').all(|part| word(part) && (!digits(part) || plain(part))))
        && build.is_none_or(|build| build.split('.').all(word))
}
