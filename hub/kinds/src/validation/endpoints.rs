//! Endpoints, endpoint slices, and events: what is said about others.
//!
//! In: an object of one of these kinds, on an update with what stands. Out: field errors in kube-apiserver's order. What did not change
//! since it was stored is not judged again; events of both groups share the rules that hold of either.

use std::collections::BTreeSet;

use karmada_schema::path::Path;
use karmada_schema::{FieldError, Shown, go_struct};
use serde_json::Value;

use super::{Errors, addresses, facts, invalid_each, judge, list, names, text};

pub(crate) fn endpoints(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    if old.is_some_and(|old| old["subsets"] == new["subsets"]) {
        return;
    }
    let path = Path::field("subsets");
    for (index, subset) in list(new, "subsets").iter().enumerate() {
        let at = path.index(index);
        let (ready, late) = (list(subset, "addresses"), list(subset, "notReadyAddresses"));
        if ready.is_empty() && late.is_empty() {
            let detail = "must specify `addresses` or `notReadyAddresses`";
            errors.push(FieldError::required(&at, detail));
        }
        for (field, all) in [("addresses", ready), ("notReadyAddresses", late)] {
            for (index, address) in all.iter().enumerate() {
                let at = at.child(field);
                let at = at.index(index);
                judge(facts::CORE_V1_ENDPOINT_ADDRESS, address, None, &at, errors);
            }
        }
        let ports = list(subset, "ports");
        for (index, port) in ports.iter().enumerate() {
            let at = at.child("ports");
            let at = at.index(index);
            if text(port, "name").is_empty() && ports.len() > 1 {
                errors.push(FieldError::required(&at.child("name"), ""));
            }
            judge(facts::CORE_V1_ENDPOINT_PORT, port, None, &at, errors);
        }
    }
}

/// An address that others can reach.
pub(super) fn address(ip: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let ip = ip.as_str().unwrap_or_default();
    addresses::usable(ip, &[], path, errors);
    addresses::reachable(ip, path, errors);
}

/// Endpoints, where they changed.
pub(super) fn slice_endpoints(new: &Value, old: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    if old.is_some_and(|old| old["endpoints"] == new["endpoints"]) {
        return;
    }
    let (all, path) = (list(new, "endpoints"), path.child("endpoints"));
    if all.len() > 1000 {
        return errors.push(FieldError::too_many(&path, all.len() as u64, 1000));
    }
    for (index, one) in all.iter().enumerate() {
        endpoint(one, text(new, "addressType"), &path.index(index), errors);
    }
}

fn endpoint(one: &Value, kind: &str, path: &Path<'_>, errors: &mut Errors) {
    let at = path.child("addresses");
    let all = list(one, "addresses");
    judge(facts::DISCOVERY_V1_ENDPOINT, one, None, path, errors);
    for (index, address) in all.iter().filter_map(Value::as_str).enumerate() {
        match kind {
            "IPv4" | "IPv6" => {
                let place = at.index(index);
                let known = errors.len();
                // Addresses of the newer protocol are written as new fields want them.
                if kind == "IPv4" {
                    addresses::usable(address, &[], &place, errors);
                } else {
                    invalid_each(errors, &place, address, addresses::strict(address));
                }
                if errors.len() > known {
                    continue;
                }
                if addresses::parse(address).is_some_and(|parsed| parsed.is_ipv4() != (kind == "IPv4")) {
                    errors.push(FieldError::invalid(&at, address, format!("must be an {kind} address")));
                }
                addresses::reachable(address, &place, errors);
            }
            "FQDN" => {
                let at = at.index(index);
                let name = address.strip_suffix('.').unwrap_or(address);
                if name.is_empty() {
                    errors.push(FieldError::required(&at, ""));
                } else if !names::dns_subdomain(name).is_empty() {
                    invalid_each(errors, &at, name, names::dns_subdomain(name));
                } else if !name.contains('.') {
                    let detail = "should be a domain with at least two segments separated by dots";
                    errors.push(FieldError::invalid(&at, name, detail));
                }
            }
            _ => {}
        }
    }
    judge(facts::DISCOVERY_V1_ENDPOINT_PLACE, one, None, path, errors);
    let hints = path.child("hints");
    for (field, rule) in
        [("forZones", names::label_value as fn(&str) -> Vec<String>), ("forNodes", names::dns_subdomain)]
    {
        let (all, hints) = (list(&one["hints"], field), hints.child(field));
        let mut seen = BTreeSet::new();
        if all.len() > 8 {
            errors.push(FieldError::too_many(&hints, all.len() as u64, 8));
            continue;
        }
        for (index, hint) in all.iter().enumerate() {
            let (name, at) = (text(hint, "name"), hints.index(index));
            if !seen.insert(name) {
                errors.push(FieldError::duplicate(&at.child("name"), name));
            }
            invalid_each(errors, &at.child("name"), name, rule(name));
        }
    }
}

/// Ports, each by a name of its own.
pub(super) fn slice_ports(all: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (index, port) in all.as_array().into_iter().flatten().enumerate() {
        let (name, at) = (text(port, "name"), path.index(index));
        if !name.is_empty() {
            invalid_each(errors, &at.child("name"), name, names::dns_label(name));
        }
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(&at.child("name"), name));
        }
        judge(facts::DISCOVERY_V1_ENDPOINT_PORT, port, None, &at, errors);
    }
}

/// An event in the words of core/v1.
pub(crate) fn core_event(new: &Value, errors: &mut Errors) {
    said(new, ["involvedObject", "message", "reportingComponent"], errors);
}

/// An event in the words of events.k8s.io/v1, which is judged more strictly.
pub(crate) fn event(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    said(new, ["regarding", "note", "reportingController"], errors);
    match old {
        None => strict_create(new, errors),
        Some(old) => strict_change(new, old, errors),
    }
}

/// What holds of an event, whatever a version calls its fields.
fn said(new: &Value, [about, message, reporter]: [&'static str; 3], errors: &mut Errors) {
    let timed = new["eventTime"].is_string();
    let own = text(&new["metadata"], "namespace");
    let place = text(&new[about], "namespace");
    let involved = Path::field("involvedObject");
    let fits = match (timed, place) {
        (false, "") => matches!(own, "" | "default"),
        (true, "") => matches!(own, "default" | "kube-system"),
        (false, place) => place == own,
        (true, _) => true,
    };
    if !fits {
        errors.push(FieldError::invalid(
            &involved.child("namespace"),
            place,
            "does not match event.namespace",
        ));
    }
    if timed {
        reported(new, reporter, message, errors);
    }
}

/// Of an event that was sent in the newer version nothing changes but how often it was seen.
fn strict_change(new: &Value, old: &Value, errors: &mut Errors) {
    if new["series"] != old["series"] {
        series(new, errors);
    }
    for (field, named) in [
        ("regarding", "involvedObject"),
        ("reason", "reason"),
        ("note", "message"),
        ("deprecatedSource", "source"),
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
        // kube-apiserver compares it twice.
        ("reason", "reason"),
        ("type", "type"),
        ("action", "action"),
        ("related", "related"),
        ("reportingController", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ] {
        let (now, at) = (&new[field], Path::field(named));
        if *now == old[field] {
            continue;
        }
        let shown = match field {
            "regarding" => reference_shown(now),
            "related" if now.is_object() => reference_shown(now),
            "deprecatedSource" => Shown::Raw(go_struct(now).to_string()),
            "deprecatedFirstTimestamp" | "deprecatedLastTimestamp" | "related" => now.clone().into(),
            "deprecatedCount" => now.as_i64().unwrap_or(0).into(),
            _ => now.as_str().unwrap_or_default().into(),
        };
        errors.push(FieldError::invalid(&at, shown, "field is immutable"));
    }
    // A time that was never set cannot be set later either.
    if new["eventTime"] != old["eventTime"] {
        let (at, now) = (Path::field("eventTime"), new["eventTime"].clone());
        errors.push(FieldError::invalid(&at, now, "field is immutable"));
    }
}

/// A reference as kube-apiserver's memory has it.
fn reference_shown(reference: &Value) -> Shown {
    let fields = [
        ("Kind", "kind"),
        ("Namespace", "namespace"),
        ("Name", "name"),
        ("UID", "uid"),
        ("APIVersion", "apiVersion"),
        ("ResourceVersion", "resourceVersion"),
        ("FieldPath", "fieldPath"),
    ];
    let fields = fields.map(|(named, field)| format!("\"{named}\":{}", Value::from(text(reference, field))));
    Shown::Raw(format!("{{{}}}", fields.join(",")))
}

/// How often an event was seen.
fn series(new: &Value, errors: &mut Errors) {
    if !new["series"].is_object() {
        return;
    }
    if new["series"]["count"].as_i64().unwrap_or(0) < 2 {
        errors.push(FieldError::invalid(&Path::field("series.count"), "", "should be at least 2"));
    }
    if new["series"]["lastObservedTime"].is_null() {
        errors.push(FieldError::required(&Path::field("series.lastObservedTime"), ""));
    }
}

fn reported(new: &Value, reporter: &'static str, message: &str, errors: &mut Errors) {
    let name = text(new, reporter);
    if name.is_empty() {
        errors.push(FieldError::required(&Path::field(reporter), ""));
    }
    invalid_each(errors, &Path::field(reporter), name, names::qualified_name(name));
    for (field, limit) in [("reportingInstance", 128), ("action", 128), ("reason", 128)] {
        let value = text(new, field);
        if value.is_empty() {
            errors.push(FieldError::required(&Path::field(field), ""));
        }
        if value.len() > limit {
            let detail = format!("can have at most {limit} characters");
            errors.push(FieldError::invalid(&Path::field(field), "", detail));
        }
    }
    if text(new, message).len() > 1024 {
        errors.push(FieldError::invalid(&Path::field("message"), "", "can have at most 1024 characters"));
    }
}

fn strict_create(new: &Value, errors: &mut Errors) {
    // The rest of the metadata's rules are said here, after what the older version says.
    let metadata = super::validate_metadata(super::NameRule::Subdomain, new, None);
    errors.extend(metadata);
    super::metadata::standard_finalizers(new, errors);
    series(new, errors);
    if !new["eventTime"].is_string() {
        errors.push(FieldError::required(&Path::field("eventTime"), ""));
    }
    let kind = text(new, "type");
    if !matches!(kind, "Normal" | "Warning") {
        errors.push(FieldError::invalid(&Path::field("type"), "", format!("has invalid value: {kind}")));
    }
    for (field, named) in [
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
        ("deprecatedSource", "source"),
    ] {
        let value = &new[field];
        let set = match value {
            Value::Null => false,
            Value::Number(n) => n.as_i64() != Some(0),
            Value::Object(fields) => !fields.is_empty(),
            _ => true,
        };
        if set {
            errors.push(FieldError::invalid(&Path::field(named), "", "needs to be unset"));
        }
    }
}
