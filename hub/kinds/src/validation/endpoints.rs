//! Endpoints, endpoint slices, and events: what is said about others.

use std::collections::BTreeSet;

use karmada_schema::path::Path;
use karmada_schema::{FieldError, Shown, go_struct};
use serde_json::Value;

use super::{Errors, addresses, immutable, invalid_each, list, names, text};

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

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
                let (ip, at_ip) = (text(address, "ip"), at.child("ip"));
                addresses::usable(ip, &[], &at_ip, errors);
                addresses::reachable(ip, &at_ip, errors);
                let host = text(address, "hostname");
                if !host.is_empty() {
                    invalid_each(errors, &at.child("hostname"), host, names::dns_label(host));
                }
                if let Some(node) = address["nodeName"].as_str() {
                    invalid_each(errors, &at.child("nodeName"), node, names::dns_subdomain(node));
                }
            }
        }
        let ports = list(subset, "ports");
        for (index, port) in ports.iter().enumerate() {
            let at = at.child("ports");
            let at = at.index(index);
            let name = text(port, "name");
            if name.is_empty() && ports.len() > 1 {
                errors.push(FieldError::required(&at.child("name"), ""));
            } else if !name.is_empty() {
                invalid_each(errors, &at.child("name"), name, names::dns_label(name));
            }
            let number = port["port"].as_i64().unwrap_or(0);
            for message in names::port_number(number) {
                errors.push(FieldError::invalid(&at.child("port"), number, message));
            }
            match text(port, "protocol") {
                "" => errors.push(FieldError::required(&at.child("protocol"), "")),
                one if PROTOCOLS.contains(&one) => {}
                other => errors.push(FieldError::not_supported(&at.child("protocol"), other, &PROTOCOLS)),
            }
            if let Some(protocol) = port["appProtocol"].as_str() {
                invalid_each(errors, &at.child("appProtocol"), protocol, names::qualified_name(protocol));
            }
        }
    }
}

pub(crate) fn endpoint_slice(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    const TYPES: [&str; 3] = ["FQDN", "IPv4", "IPv6"];
    let kind = text(new, "addressType");
    match kind {
        "" => errors.push(FieldError::required(&Path::field("addressType"), "")),
        one if TYPES.contains(&one) => {}
        other => errors.push(FieldError::not_supported(&Path::field("addressType"), other, &TYPES)),
    }
    slice_ports(new, errors);
    if old.is_none_or(|old| old["endpoints"] != new["endpoints"]) {
        let path = Path::field("endpoints");
        let all = list(new, "endpoints");
        if all.len() > 1000 {
            errors.push(FieldError::too_many(&path, all.len() as u64, 1000));
        } else {
            for (index, one) in all.iter().enumerate() {
                endpoint(one, kind, &path.index(index), errors);
            }
        }
    }
    if let Some(old) = old {
        immutable(&new["addressType"], &old["addressType"], &Path::field("addressType"), errors);
    }
}

fn endpoint(one: &Value, kind: &str, path: &Path<'_>, errors: &mut Errors) {
    let at = path.child("addresses");
    let all = list(one, "addresses");
    if all.is_empty() {
        errors.push(FieldError::required(&at, "must contain at least 1 address"));
    } else if all.len() > 100 {
        errors.push(FieldError::too_many(&at, all.len() as u64, 100));
    }
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
    if let Some(node) = one["nodeName"].as_str() {
        invalid_each(errors, &path.child("nodeName"), node, names::dns_subdomain(node));
    }
    if let Some(host) = one["hostname"].as_str() {
        invalid_each(errors, &path.child("hostname"), host, names::dns_label(host));
    }
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

fn slice_ports(new: &Value, errors: &mut Errors) {
    let path = Path::field("ports");
    let mut seen = BTreeSet::new();
    for (index, port) in list(new, "ports").iter().enumerate() {
        let (name, at) = (text(port, "name"), path.index(index));
        if !name.is_empty() {
            invalid_each(errors, &at.child("name"), name, names::dns_label(name));
        }
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(&at.child("name"), name));
        }
        match text(port, "protocol") {
            "" if port["protocol"].is_null() => errors.push(FieldError::required(&at.child("protocol"), "")),
            one if PROTOCOLS.contains(&one) => {}
            other => errors.push(FieldError::not_supported(&at.child("protocol"), other, &PROTOCOLS)),
        }
        if let Some(protocol) = port["appProtocol"].as_str() {
            invalid_each(errors, &at.child("appProtocol"), protocol, names::qualified_name(protocol));
        }
    }
}

/// An event, in the words of core/v1 (`strict`: of events.k8s.io/v1, whose fields are called differently).
pub(crate) fn event(new: &Value, old: Option<&Value>, strict: bool, errors: &mut Errors) {
    let (about, message, reporter) = match strict {
        true => ("regarding", "note", "reportingController"),
        false => ("involvedObject", "message", "reportingComponent"),
    };
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
    if !strict {
        return;
    }
    match old {
        None => strict_create(new, errors),
        Some(old) => strict_change(new, old, errors),
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
        // Looked at twice there.
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
    // Compared as bytes of another length: a time that was never set may be.
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
