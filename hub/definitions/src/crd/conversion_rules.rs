//! What a definition may say of conversion between its versions.
//!
//! In: the conversion, and on an update the one that stands. Out: field errors. The webhook is not called, and its bundle's certificates
//! are not verified.

use std::collections::HashSet;

use base64::Engine as _;
use karmada_schema::names::dns_1035_label;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::Value;

use super::report::{Errors, forbidden, invalid, items, not_supported, required, text};

const CLIENT: &str = "spec.conversion.webhookClientConfig";
const REVIEWS: &str = "spec.conversion.conversionReviewVersions";

/// `before`: what was said until now, of a definition that is there.
pub(super) fn validate(conversion: &Value, before: Option<&Value>, errors: &mut Errors) {
    let webhook = &conversion["webhook"];
    let has_client = webhook["clientConfig"].is_object();
    let has_reviews = !items(webhook, "conversionReviewVersions").is_empty();
    match text(conversion, "strategy") {
        "" => errors.push(required("spec.conversion.strategy", "")),
        "None" => {}
        "Webhook" => {
            if has_client {
                client(&webhook["clientConfig"], errors);
                if let Some(before) = before {
                    bundle(&webhook["clientConfig"], &before["webhook"]["clientConfig"], errors);
                }
            } else {
                errors.push(required(CLIENT, "required when strategy is set to Webhook"));
            }
            reviews(webhook, errors);
        }
        other => errors.push(not_supported("spec.conversion.strategy", other, &["None", "Webhook"])),
    }
    if text(conversion, "strategy") == "Webhook" {
        return;
    }
    let why = "should not be set when strategy is not set to Webhook";
    if has_client {
        errors.push(forbidden(CLIENT, why));
    }
    if has_reviews {
        errors.push(forbidden(REVIEWS, why));
    }
}

fn client(client: &Value, errors: &mut Errors) {
    match (client["url"].as_str(), client["service"].is_object()) {
        (Some(given), false) => url(given, errors),
        (None, true) => service(&client["service"], errors),
        _ => errors.push(required(CLIENT, "exactly one of url or service is required")),
    }
}

/// A new definition may come before its certificates do; what is trusted once stays a bundle.
fn bundle(client: &Value, before: &Value, errors: &mut Errors) {
    if bundle_problem(text(before, "caBundle")).is_some() {
        return;
    }
    if let Some(why) = bundle_problem(text(client, "caBundle")) {
        let why = format!("unable to load root certificates: {why}");
        errors.push(invalid(&format!("{CLIENT}.caBundle"), text(client, "caBundle"), why));
    }
}

fn bundle_problem(bundle: &str) -> Option<&'static str> {
    let pem = base64::engine::general_purpose::STANDARD.decode(bundle).unwrap_or_default();
    if pem.is_empty() || CertificateDer::pem_slice_iter(&pem).any(|one| one.is_ok()) {
        return None;
    }
    let is_block = pem.windows(11).any(|window| window == b"-----BEGIN ");
    Some(match is_block {
        true => "data does not contain any valid RSA or ECDSA certificates",
        false => "unable to parse bytes as PEM block",
    })
}

fn url(given: &str, errors: &mut Errors) {
    const FORM: &str = "; desired format: https://host[/path]";
    let path = format!("{CLIENT}.url");
    let (scheme, rest) = given.split_once("://").unwrap_or(("", given));
    if scheme != "https" {
        errors.push(invalid(&path, scheme, format!("'https' is the only allowed URL scheme{FORM}")));
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    if host.is_empty() {
        errors.push(invalid(&path, host, format!("host must be specified{FORM}")));
    }
    if let Some((user, _)) = authority.rsplit_once('@') {
        errors.push(invalid(&path, user, "user information is not permitted in the URL"));
    }
    if let Some((_, fragment)) = given.split_once('#').filter(|(_, fragment)| !fragment.is_empty()) {
        errors.push(invalid(&path, fragment, "fragments are not permitted in the URL"));
    }
    let query = given.split('#').next().and_then(|given| given.split_once('?'));
    if let Some((_, query)) = query.filter(|(_, query)| !query.is_empty()) {
        errors.push(invalid(&path, query, "query parameters are not permitted in the URL"));
    }
}

fn service(service: &Value, errors: &mut Errors) {
    let path = format!("{CLIENT}.service");
    // kube-apiserver takes the one for the other here.
    for (field, told) in [("namespace", "name"), ("name", "namespace")] {
        if text(service, field).is_empty() {
            errors.push(required(&format!("{path}.{told}"), ""));
        }
    }
    let port = service["port"].as_i64().unwrap_or(443);
    if !(1..=65535).contains(&port) {
        let why = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(invalid(&format!("{path}.port"), port, why));
    }
    let Some(given) = service["path"].as_str().filter(|given| !matches!(*given, "" | "/")) else { return };
    let path = format!("{path}.path");
    if !given.starts_with('/') {
        errors.push(invalid(&path, given, "must start with a '/'"));
    }
    let rest = given.get(1..).unwrap_or_default();
    for (at, segment) in rest.strip_suffix('/').unwrap_or(rest).split('/').enumerate() {
        if segment.is_empty() {
            errors.push(invalid(&path, given, format!("segment[{at}] may not be empty")));
            continue;
        }
        for why in karmada_schema::names::dns_subdomain(segment) {
            errors.push(invalid(&path, given, format!("segment[{at}]: {why}")));
        }
    }
}

fn reviews(webhook: &Value, errors: &mut Errors) {
    let list: Vec<&str> =
        items(webhook, "conversionReviewVersions").iter().filter_map(Value::as_str).collect();
    if list.is_empty() {
        errors.push(required(REVIEWS, ""));
        return;
    }
    let mut seen = HashSet::new();
    for (at, version) in list.iter().enumerate() {
        let path = format!("{REVIEWS}[{at}]");
        if !seen.insert(version) {
            errors.push(invalid(&path, *version, "duplicate version"));
        }
        for why in dns_1035_label(version) {
            errors.push(invalid(&path, *version, why));
        }
    }
    if !list.iter().any(|version| matches!(*version, "v1" | "v1beta1")) {
        let why = "must include at least one of v1, v1beta1";
        errors.push(invalid(REVIEWS, webhook["conversionReviewVersions"].clone(), why));
    }
}
