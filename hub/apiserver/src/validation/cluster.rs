//! Kinds of the cluster as a whole: runtime classes, addresses and their ranges, flow control, API services, certificate
//! requests, revisions.

use std::net::IpAddr;

use base64::Engine as _;
use serde_json::Value;

use super::metadata::labels;
use super::{Errors, immutable, invalid_each, is_empty, list, names, resources, text};
use crate::schema::path::Path;
use crate::schema::{FieldError, Shown, go_json};

pub(super) fn runtime_class(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    if let Some(old) = old {
        immutable(&new["handler"], &old["handler"], &Path::field("handler"), errors);
        return;
    }
    let handler = text(new, "handler");
    invalid_each(errors, &Path::field("handler"), handler, names::dns_label(handler));
    if new["overhead"].is_object() {
        let limits = serde_json::json!({"limits": new["overhead"]["podFixed"]});
        resources::requirements(&limits, &Path::field("overhead"), errors);
    }
    if new["scheduling"].is_object() {
        let path = Path::field("scheduling");
        labels(&new["scheduling"]["nodeSelector"], &path.child("nodeSelector"), errors);
    }
}

pub(super) fn ip_address(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let spec = Path::field("spec");
    let path = spec.child("parentRef");
    let reference = &new["spec"]["parentRef"];
    if let Some(old) = old {
        let before = &old["spec"]["parentRef"];
        if reference != before {
            errors.push(FieldError::invalid(&path, Shown::Raw(go_json(reference)), "field is immutable"));
        }
        return;
    }
    if !reference.is_object() {
        errors.push(FieldError::required(&path, ""));
        return;
    }
    let group = text(reference, "group");
    if !group.is_empty() {
        invalid_each(errors, &path.child("group"), group, names::dns_subdomain(group));
    }
    for field in ["resource", "name"] {
        match text(reference, field) {
            "" => errors.push(FieldError::required(&path.child(field), "")),
            value => invalid_each(errors, &path.child(field), value, names::path_segment(value)),
        }
    }
}

/// What is wrong with a range of addresses.
pub(super) fn cidr(text: &str) -> Option<&'static str> {
    const WORDS: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
    let Some((address, length)) = text.split_once('/') else { return Some(WORDS) };
    let (Ok(address), Ok(length)) = (address.parse::<IpAddr>(), length.parse::<u8>()) else {
        return Some(WORDS);
    };
    (length > if address.is_ipv4() { 32 } else { 128 }).then_some(WORDS)
}

/// Whether bits beyond the prefix are set.
fn beyond_prefix(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let length: u32 = length.parse().unwrap_or(0);
    match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(v4)) => u32::from(v4).checked_shl(length).unwrap_or(0) != 0,
        Ok(IpAddr::V6(v6)) => u128::from(v6).checked_shl(length).unwrap_or(0) != 0,
        Err(_) => false,
    }
}

pub(super) fn service_cidr(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let spec = Path::field("spec");
    let path = spec.child("cidrs");
    let now = list(&new["spec"], "cidrs");
    if let Some(old) = old {
        let before = list(&old["spec"], "cidrs");
        if before.len() == now.len() {
            for (index, (now, before)) in now.iter().zip(before).enumerate() {
                if now != before {
                    errors.push(FieldError::invalid(&path.index(index), now.clone(), "field is immutable"));
                }
            }
        } else if !(before.len() == 1 && now.len() == 2 && before[0] == now[0]) {
            errors.push(FieldError::invalid(&path, now.to_vec(), "field is immutable"));
        }
        return;
    }
    if now.is_empty() {
        errors.push(FieldError::required(&path, "at least one CIDR required"));
        return;
    }
    if now.len() > 2 {
        let shown = format!("{{\"CIDRs\":{}}}", Value::from(now.to_vec()));
        errors.push(FieldError::invalid(&path, Shown::Raw(shown), "may only hold up to 2 values"));
        return;
    }
    for (index, one) in now.iter().filter_map(Value::as_str).enumerate() {
        if let Some(words) = cidr(one) {
            errors.push(FieldError::invalid(&path.index(index), one, words));
        } else if beyond_prefix(one) {
            let detail = "must not have bits set beyond the prefix length";
            errors.push(FieldError::invalid(&path.index(index), one, detail));
        }
    }
    let family = |value: &Value| value.as_str().map(|text| text.contains(':'));
    if now.len() == 2 && family(&now[0]) == family(&now[1]) {
        let detail =
            "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        errors.push(FieldError::invalid(&path, now.to_vec(), detail));
    }
}

pub(super) fn flow_schema(new: &Value, errors: &mut Errors) {
    let (spec, path) = (&new["spec"], Path::field("spec"));
    let precedence = spec["matchingPrecedence"].as_i64().unwrap_or(0);
    let at = path.child("matchingPrecedence");
    if precedence <= 0 {
        errors.push(FieldError::invalid(&at, precedence, "must be a positive value"));
    }
    if precedence > 10_000 {
        errors.push(FieldError::invalid(&at, precedence, "must not be greater than 10000"));
    }
    if precedence == 1 && new["metadata"]["name"] != "exempt" {
        let detail = "only the schema named 'exempt' may have matchingPrecedence 1";
        errors.push(FieldError::invalid(&at, precedence, detail));
    }
    let method = &spec["distinguisherMethod"];
    if method.is_object() && !matches!(text(method, "type"), "ByNamespace" | "ByUser") {
        let at = path.child("distinguisherMethod");
        let shown = Shown::Raw(format!("{{\"Type\":{}}}", method["type"]));
        errors.push(FieldError::not_supported(&at.child("type"), shown, &["ByNamespace", "ByUser"]));
    }
    let level = path.child("priorityLevelConfiguration");
    match text(&spec["priorityLevelConfiguration"], "name") {
        "" => errors.push(FieldError::required(&level.child("name"), "must reference a priority level")),
        name => invalid_each(errors, &level.child("name"), name, names::dns_subdomain(name)),
    }
    let rules = path.child("rules");
    for (index, rule) in list(spec, "rules").iter().enumerate() {
        let at = rules.index(index);
        if list(rule, "subjects").is_empty() {
            errors.push(FieldError::required(
                &at.child("subjects"),
                "subjects must contain at least one value",
            ));
        }
        if list(rule, "resourceRules").is_empty() && list(rule, "nonResourceRules").is_empty() {
            let detail = "at least one of resourceRules and nonResourceRules has to be non-empty";
            errors.push(FieldError::required(&at, detail));
        }
    }
}

pub(super) fn priority_level(new: &Value, errors: &mut Errors) {
    let (spec, path) = (&new["spec"], Path::field("spec"));
    let (kind, exempt) = (text(spec, "type"), new["metadata"]["name"] == "exempt");
    if exempt != (kind == "Exempt") {
        let detail = "must be 'Exempt' if and only if `name` is 'exempt'";
        errors.push(FieldError::invalid(&path.child("type"), kind, detail));
    }
    match kind {
        "Exempt" => {
            if spec["limited"].is_object() {
                let detail = "must be nil if the type is not Limited";
                errors.push(FieldError::forbidden(&path.child("limited"), detail));
            }
        }
        "Limited" => {
            if spec["exempt"].is_object() {
                errors
                    .push(FieldError::forbidden(&path.child("exempt"), "must be nil if the type is Limited"));
            }
            if spec["limited"].is_object() {
                limited(&spec["limited"], &path.child("limited"), errors);
            } else {
                let detail = "must not be empty when type is Limited";
                errors.push(FieldError::required(&path.child("limited"), detail));
            }
        }
        _ => errors.push(FieldError::not_supported(&path.child("type"), kind, &["Exempt", "Limited"])),
    }
}

fn limited(limited: &Value, path: &Path<'_>, errors: &mut Errors) {
    if let Some(shares) = limited["nominalConcurrencyShares"].as_i64().filter(|shares| *shares < 0) {
        let detail = "must be a non-negative integer";
        errors.push(FieldError::invalid(&path.child("nominalConcurrencyShares"), shares, detail));
    }
    let (response, at) = (&limited["limitResponse"], path.child("limitResponse"));
    match text(response, "type") {
        "Reject" if response["queuing"].is_object() => {
            let detail = "must be nil if limited.limitResponse.type is not Limited";
            errors.push(FieldError::forbidden(&at.child("queuing"), detail));
        }
        "Queue" if !response["queuing"].is_object() => {
            let detail = "must not be empty if limited.limitResponse.type is Limited";
            errors.push(FieldError::required(&at.child("queuing"), detail));
        }
        "Reject" | "Queue" => {}
        other => errors.push(FieldError::not_supported(&at.child("type"), other, &["Queue", "Reject"])),
    }
    if let Some(percent) = limited["lendablePercent"].as_i64().filter(|percent| !(0..=100).contains(percent))
    {
        let detail = "must be between 0 and 100, inclusive";
        errors.push(FieldError::invalid(&path.child("lendablePercent"), percent, detail));
    }
    if let Some(percent) = limited["borrowingLimitPercent"].as_i64().filter(|percent| *percent < 0) {
        let detail = "if specified, must be a non-negative integer";
        errors.push(FieldError::invalid(&path.child("borrowingLimitPercent"), percent, detail));
    }
}

pub(super) fn api_service(new: &Value, errors: &mut Errors) {
    let (spec, path) = (&new["spec"], Path::field("spec"));
    let (group, version) = (text(spec, "group"), text(spec, "version"));
    let (name, wanted) = (text(&new["metadata"], "name"), format!("{version}.{group}"));
    if !name.is_empty() && names::path_segment(name).is_empty() && name != wanted {
        let meta = Path::field("metadata");
        let detail = format!("must be `spec.version+\".\"+spec.group`: {wanted:?}");
        errors.push(FieldError::invalid(&meta.child("name"), name, detail));
    }
    if group.is_empty() && version != "v1" {
        let detail = "only v1 may have an empty group and it better be legacy kube";
        errors.push(FieldError::required(&path.child("group"), detail));
    }
    if !group.is_empty() {
        invalid_each(errors, &path.child("group"), group, names::dns_subdomain(group));
    }
    invalid_each(errors, &path.child("version"), version, names::dns_1035_label(version));
    for (field, most) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1000)] {
        let value = spec[field].as_i64().unwrap_or(0);
        if value <= 0 || value > most {
            let detail = format!("must be positive and less than {most}");
            errors.push(FieldError::invalid(&path.child(field), value, detail));
        }
    }
    let (bundle, insecure) = (text(spec, "caBundle"), spec["insecureSkipTLSVerify"] == true);
    if !spec["service"].is_object() {
        if !bundle.is_empty() {
            let bytes =
                base64::engine::general_purpose::STANDARD.decode(bundle).map_or(0, |bytes| bytes.len());
            let detail = "local APIServices may not have a caBundle";
            errors.push(FieldError::invalid(&path.child("caBundle"), format!("{bytes} bytes"), detail));
        }
        if insecure {
            let detail = "local APIServices may not have insecureSkipTLSVerify";
            errors.push(FieldError::invalid(&path.child("insecureSkipTLSVerify"), true, detail));
        }
        return;
    }
    let at = path.child("service");
    for field in ["namespace", "name"] {
        if text(&spec["service"], field).is_empty() {
            errors.push(FieldError::required(&at.child(field), ""));
        }
    }
    let port = spec["service"]["port"].as_i64().unwrap_or(0);
    if !names::port_number(port).is_empty() {
        let detail = format!("port is not valid: {}", names::port_number(port).join(", "));
        errors.push(FieldError::invalid(&at.child("port"), port, detail));
    }
    if insecure && !bundle.is_empty() {
        let detail = "may not be true if caBundle is present";
        errors.push(FieldError::invalid(&path.child("insecureSkipTLSVerify"), true, detail));
    }
}

/// What a certificate may be asked for.
const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

pub(super) fn certificate_request(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let (spec, path) = (&new["spec"], Path::field("spec"));
    let request = text(spec, "request");
    let pem = base64::engine::general_purpose::STANDARD.decode(request).unwrap_or_default();
    let text_of = String::from_utf8_lossy(&pem);
    if !text_of.contains("-----BEGIN CERTIFICATE REQUEST-----") {
        let detail = "PEM block type must be CERTIFICATE REQUEST";
        let shown = if request.is_empty() { Value::Null } else { spec["request"].clone() };
        errors.push(FieldError::invalid(&path.child("request"), shown, detail));
    }
    let usages = path.child("usages");
    let all = list(spec, "usages");
    if all.is_empty() {
        errors.push(FieldError::required(&usages, ""));
    }
    for (index, usage) in all.iter().filter_map(Value::as_str).enumerate() {
        if !USAGES.contains(&usage) {
            errors.push(FieldError::not_supported(&usages.index(index), usage, &USAGES));
        }
    }
    for (index, usage) in all.iter().enumerate() {
        if all[..index].contains(usage) {
            errors.push(FieldError::duplicate(&usages.index(index), usage.clone()));
        }
    }
    signer_name(text(spec, "signerName"), &path.child("signerName"), errors);
    if let Some(seconds) = spec["expirationSeconds"].as_i64().filter(|seconds| *seconds < 600) {
        let detail = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.push(FieldError::invalid(&path.child("expirationSeconds"), seconds, detail));
    }
    conditions(new, old, errors);
}

fn signer_name(name: &str, path: &Path<'_>, errors: &mut Errors) {
    if name.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    if name == "kubernetes.io/legacy-unknown" {
        let detail = "the legacy signerName is not allowed via this API version";
        errors.push(FieldError::invalid(path, name, detail));
        return;
    }
    let Some((domain, rest)) = name.split_once('/') else {
        errors.push(FieldError::invalid(
            path,
            name,
            "must be a fully qualified domain and path of the form 'example.com/signer-name'",
        ));
        return;
    };
    if rest.contains('/') {
        errors.push(FieldError::invalid(
            path,
            name,
            "must be a fully qualified domain and path of the form 'example.com/signer-name'",
        ));
        return;
    }
    if !names::dns_subdomain(domain).is_empty() {
        for message in names::dns_subdomain(domain) {
            errors.push(FieldError::invalid(path, domain, format!("validating label {domain:?}: {message}")));
        }
    } else if !domain.contains('.') {
        errors.push(FieldError::invalid(
            path,
            domain,
            "should be a domain with at least two segments separated by dots",
        ));
    }
    if rest.is_empty() {
        errors.push(FieldError::invalid(
            path,
            name,
            "must be a fully qualified domain and path of the form 'example.com/signer-name'",
        ));
    } else {
        for message in names::dns_subdomain(rest) {
            errors.push(FieldError::invalid(path, rest, format!("validating label {rest:?}: {message}")));
        }
    }
}

fn conditions(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let status = Path::field("status");
    let path = status.child("conditions");
    let all = list(&new["status"], "conditions");
    let of = |object: &Value, kind: &str| {
        list(&object["status"], "conditions").iter().filter(|c| c["type"] == kind).count()
    };
    for (index, condition) in all.iter().enumerate() {
        let (at, kind) = (path.index(index), text(condition, "type"));
        if kind.is_empty() {
            errors.push(FieldError::required(&at.child("type"), ""));
        }
        let only_true = matches!(kind, "Approved" | "Denied" | "Failed");
        let allowed: &[&str] = if only_true { &["True"] } else { &["False", "True", "Unknown"] };
        match text(condition, "status") {
            "" => errors.push(FieldError::required(&at.child("status"), "")),
            status if allowed.contains(&status) => {}
            status => errors.push(FieldError::not_supported(&at.child("status"), status, allowed)),
        }
        let other = match kind {
            "Approved" => "Denied",
            "Denied" => "Approved",
            _ => "",
        };
        if !other.is_empty() && all[..index].iter().any(|before| before["type"] == other) {
            let detail = "Approved and Denied conditions are mutually exclusive";
            errors.push(FieldError::invalid(&path, kind, detail));
        }
        if all[..index].iter().any(|before| before["type"] == kind) {
            errors.push(FieldError::duplicate(&at.child("type"), kind));
        }
    }
    let Some(old) = old else { return };
    for kind in ["Approved", "Denied", "Failed"] {
        if of(new, kind) < of(old, kind) {
            let detail = format!("updates may not remove a condition of type {kind:?}");
            errors.push(FieldError::forbidden(&path, detail));
        }
    }
}

pub(super) fn controller_revision(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    if let Some(old) = old {
        if new["data"] != old["data"] {
            errors.push(FieldError::invalid(
                &Path::field("data"),
                Shown::Raw(go_json(&new["data"])),
                "field is immutable",
            ));
        }
    } else if is_empty(&new["data"]) && new["data"].is_null() {
        errors.push(FieldError::required(&Path::field("data"), "data is mandatory"));
    }
    if let Some(revision) = new["revision"].as_i64().filter(|revision| *revision < 0) {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(&Path::field("revision"), revision, detail));
    }
}

pub(super) fn resource_slice(new: &Value, errors: &mut Errors) {
    let (spec, path) = (&new["spec"], Path::field("spec"));
    let driver = text(spec, "driver");
    if driver.is_empty() {
        errors.push(FieldError::required(&path.child("driver"), ""));
    }
    invalid_each(errors, &path.child("driver"), driver, names::dns_subdomain(driver));
}
