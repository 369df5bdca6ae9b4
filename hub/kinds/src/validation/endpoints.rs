//! Endpoints and endpoint slices: where a Service answers.
//!
//! In: an object of one of these kinds, on an update with what stands. Out: field errors in kube-apiserver's order. What did not change
//! since it was stored is not judged again.

use std::collections::BTreeSet;

use karmada_schema::FieldError;
use karmada_schema::path::Path;
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
