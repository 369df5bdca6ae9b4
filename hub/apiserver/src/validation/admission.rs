//! Webhooks, admission policies and their bindings. Whether an expression is CEL is judged where CEL is known.

use std::collections::BTreeSet;

use serde_json::Value;

use super::selector::label_selector;
use super::{Errors, invalid_each, is_empty, list, names, text};
use crate::schema::FieldError;
use crate::schema::path::Path;

const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// `mutating`: reinvocation is among the fields.
pub(super) fn webhooks(new: &Value, mutating: bool, errors: &mut Errors) {
    let path = Path::field("webhooks");
    let mut seen = BTreeSet::new();
    for (index, hook) in list(new, "webhooks").iter().enumerate() {
        let at = path.index(index);
        webhook(hook, mutating, &at, errors);
        review_versions(hook, &at.child("admissionReviewVersions"), errors);
        let name = text(hook, "name");
        if !name.is_empty() && !seen.insert(name) {
            errors.push(FieldError::duplicate(&at.child("name"), name));
        }
    }
}

fn webhook(hook: &Value, mutating: bool, path: &Path<'_>, errors: &mut Errors) {
    let name = text(hook, "name");
    let problems = names::dns_subdomain(name);
    if name.is_empty() {
        errors.push(FieldError::required(&path.child("name"), ""));
    } else if !problems.is_empty() {
        errors.push(FieldError::invalid(&path.child("name"), name, problems.join(",")));
    } else if name.split('.').count() < 3 {
        let detail = "should be a domain with at least three segments separated by dots";
        errors.push(FieldError::invalid(&path.child("name"), name, detail));
    }
    let rules = path.child("rules");
    for (index, rule) in list(hook, "rules").iter().enumerate() {
        rule_with_operations(rule, &rules.index(index), errors);
    }
    supported(hook, "failurePolicy", &["Fail", "Ignore"], path, errors);
    supported(hook, "matchPolicy", &["Equivalent", "Exact"], path, errors);
    if hook["sideEffects"].is_null() {
        let detail = "must specify one of None, NoneOnDryRun";
        errors.push(FieldError::required(&path.child("sideEffects"), detail));
    }
    supported(hook, "sideEffects", &["None", "NoneOnDryRun"], path, errors);
    if let Some(seconds) = hook["timeoutSeconds"].as_i64().filter(|seconds| !(1..=30).contains(seconds)) {
        let detail = "the timeout value must be between 1 and 30 seconds";
        errors.push(FieldError::invalid(&path.child("timeoutSeconds"), seconds, detail));
    }
    for field in ["namespaceSelector", "objectSelector"] {
        label_selector(&hook[field], &path.child(field), errors);
    }
    if mutating {
        supported(hook, "reinvocationPolicy", &["IfNeeded", "Never"], path, errors);
    }
    client(&hook["clientConfig"], &path.child("clientConfig"), errors);
    match_conditions(hook, &path.child("matchConditions"), errors);
}

fn supported(value: &Value, field: &str, known: &[&str], path: &Path<'_>, errors: &mut Errors) {
    if let Some(given) = value[field].as_str().filter(|given| !known.contains(given)) {
        errors.push(FieldError::not_supported(&path.child(field), given, known));
    }
}

fn client(config: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (url, service) = (config["url"].as_str(), config["service"].is_object());
    match url {
        Some(_) if service => {
            errors.push(FieldError::required(path, "exactly one of url or service is required"));
        }
        None if !service => {
            errors.push(FieldError::required(path, "exactly one of url or service is required"));
        }
        Some(url) => webhook_url(url, &path.child("url"), errors),
        None => webhook_service(&config["service"], &path.child("service"), errors),
    }
}

/// Where a webhook is called from outside.
pub(super) fn webhook_url(url: &str, path: &Path<'_>, errors: &mut Errors) {
    const FORM: &str = "; desired format: https://host[/path]";
    let (rest, fragment) = url.split_once('#').unwrap_or((url, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (scheme, rest) = rest.split_once("://").unwrap_or(("", rest));
    if scheme != "https" {
        let detail = format!("'https' is the only allowed URL scheme{FORM}");
        errors.push(FieldError::invalid(path, scheme, detail));
    }
    let authority = if scheme.is_empty() { "" } else { rest.split('/').next().unwrap_or("") };
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    if host.is_empty() {
        errors.push(FieldError::invalid(path, "", format!("host must be specified{FORM}")));
    }
    if !user.is_empty() {
        errors.push(FieldError::invalid(path, user, "user information is not permitted in the URL"));
    }
    if !fragment.is_empty() {
        errors.push(FieldError::invalid(path, fragment, "fragments are not permitted in the URL"));
    }
    if !query.is_empty() {
        errors.push(FieldError::invalid(path, query, "query parameters are not permitted in the URL"));
    }
}

/// Where a webhook is called inside the cluster.
pub(super) fn webhook_service(service: &Value, path: &Path<'_>, errors: &mut Errors) {
    // kube-apiserver hands the two over in the other order, and so calls each by the other's name.
    for (field, named) in [("namespace", "name"), ("name", "namespace")] {
        if text(service, field).is_empty() {
            errors.push(FieldError::required(&path.child(named), ""));
        }
    }
    let port = service["port"].as_i64().unwrap_or(0);
    let problems = names::port_number(port);
    if !problems.is_empty() {
        let detail = format!("port is not valid: {}", problems.join(", "));
        errors.push(FieldError::invalid(&path.child("port"), port, detail));
    }
    let Some(url) = service["path"].as_str().filter(|url| !matches!(*url, "" | "/")) else { return };
    let at = path.child("path");
    if url == "//" {
        errors.push(FieldError::invalid(&at, url, "segment[0] may not be empty"));
        return;
    }
    if !url.starts_with('/') {
        errors.push(FieldError::invalid(&at, url, "must start with a '/'"));
    }
    let mut chars = url.chars();
    chars.next();
    let inner = chars.as_str();
    for (index, step) in inner.strip_suffix('/').unwrap_or(inner).split('/').enumerate() {
        if step.is_empty() {
            errors.push(FieldError::invalid(&at, url, format!("segment[{index}] may not be empty")));
            continue;
        }
        for problem in names::dns_subdomain(step) {
            errors.push(FieldError::invalid(&at, url, format!("segment[{index}]: {problem}")));
        }
    }
}

fn review_versions(hook: &Value, path: &Path<'_>, errors: &mut Errors) {
    let versions = list(hook, "admissionReviewVersions");
    if versions.is_empty() {
        errors.push(FieldError::required(path, "must specify one of v1, v1beta1"));
        return;
    }
    let mut seen = BTreeSet::new();
    for (index, version) in versions.iter().filter_map(Value::as_str).enumerate() {
        if !seen.insert(version) {
            errors.push(FieldError::invalid(&path.index(index), version, "duplicate version"));
            continue;
        }
        invalid_each(errors, &path.index(index), version, names::dns_1035_label(version));
    }
    if !REVIEW_VERSIONS.iter().any(|known| seen.contains(known)) {
        let detail = "must include at least one of v1, v1beta1";
        errors.push(FieldError::invalid(path, versions.to_vec(), detail));
    }
}

fn has_wildcard(values: &[Value]) -> bool {
    values.iter().any(|value| value == "*")
}

fn rule_with_operations(rule: &Value, path: &Path<'_>, errors: &mut Errors) {
    const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
    let operations = list(rule, "operations");
    let at = path.child("operations");
    if operations.is_empty() {
        errors.push(FieldError::required(&at, ""));
    }
    if operations.len() > 1 && has_wildcard(operations) {
        let detail = "if '*' is present, must not specify other operations";
        errors.push(FieldError::invalid(&at, operations.to_vec(), detail));
    }
    for (index, operation) in operations.iter().filter_map(Value::as_str).enumerate() {
        if !OPERATIONS.contains(&operation) {
            errors.push(FieldError::not_supported(&at.index(index), operation, &OPERATIONS));
        }
    }
    for (field, what) in [("apiGroups", "API groups"), ("apiVersions", "API versions")] {
        let values = list(rule, field);
        if values.is_empty() {
            errors.push(FieldError::required(&path.child(field), ""));
        }
        if values.len() > 1 && has_wildcard(values) {
            let detail = format!("if '*' is present, must not specify other {what}");
            errors.push(FieldError::invalid(&path.child(field), values.to_vec(), detail));
        }
    }
    let versions = path.child("apiVersions");
    for (index, _) in list(rule, "apiVersions").iter().enumerate().filter(|(_, version)| **version == "") {
        errors.push(FieldError::required(&versions.index(index), ""));
    }
    rule_resources(list(rule, "resources"), &path.child("resources"), errors);
    supported(rule, "scope", &["*", "Cluster", "Namespaced"], path, errors);
}

fn rule_resources(resources: &[Value], path: &Path<'_>, errors: &mut Errors) {
    if resources.is_empty() {
        errors.push(FieldError::required(path, ""));
    }
    let (mut every_part, mut every_resource) = (BTreeSet::new(), BTreeSet::new());
    let (mut all, mut any, mut plain) = (false, false, false);
    for (index, resource) in resources.iter().filter_map(Value::as_str).enumerate() {
        let at = path.index(index);
        match resource {
            "" => {
                errors.push(FieldError::required(&at, ""));
                continue;
            }
            "*/*" => all = true,
            "*" => any = true,
            _ => {}
        }
        let Some((whole, part)) = resource.split_once('/') else {
            plain = resource != "*";
            continue;
        };
        if every_part.contains(whole) {
            let detail = format!("if '{whole}/*' is present, must not specify {resource}");
            errors.push(FieldError::invalid(&at, resource, detail));
        }
        if every_resource.contains(part) {
            let detail = format!("if '*/{part}' is present, must not specify {resource}");
            errors.push(FieldError::invalid(&at, resource, detail));
        }
        if part == "*" {
            every_part.insert(whole);
        }
        if whole == "*" {
            every_resource.insert(part);
        }
    }
    if resources.len() > 1 && all {
        let detail = "if '*/*' is present, must not specify other resources";
        errors.push(FieldError::invalid(path, resources.to_vec(), detail));
    }
    if any && plain {
        let detail = "if '*' is present, must not specify other resources without subresources";
        errors.push(FieldError::invalid(path, resources.to_vec(), detail));
    }
}

fn match_conditions(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    let all = list(value, "matchConditions");
    if all.len() > 64 {
        errors.push(FieldError::too_many(path, all.len() as u64, 64));
    }
    let mut seen = BTreeSet::new();
    for (index, condition) in all.iter().enumerate() {
        let (at, name) = (path.index(index), text(condition, "name"));
        if text(condition, "expression").trim().is_empty() {
            errors.push(FieldError::required(&at.child("expression"), ""));
        }
        if name.is_empty() {
            errors.push(FieldError::required(&at.child("name"), ""));
        } else {
            invalid_each(errors, &at.child("name"), name, names::qualified_name(name));
            if !seen.insert(name) {
                errors.push(FieldError::duplicate(&at.child("name"), name));
            }
        }
    }
}

fn match_resources(matching: &Value, path: &Path<'_>, errors: &mut Errors) {
    if !matching.is_object() {
        return;
    }
    supported(matching, "matchPolicy", &["Equivalent", "Exact"], path, errors);
    for field in ["namespaceSelector", "objectSelector"] {
        label_selector(&matching[field], &path.child(field), errors);
    }
    for field in ["resourceRules", "excludeResourceRules"] {
        let at = path.child(field);
        for (index, rule) in list(matching, field).iter().enumerate() {
            let at = at.index(index);
            let resource_names = at.child("resourceNames");
            let mut seen = BTreeSet::new();
            for (index, name) in list(rule, "resourceNames").iter().filter_map(Value::as_str).enumerate() {
                let at = resource_names.index(index);
                invalid_each(errors, &at, name, names::path_segment(name));
                if !seen.insert(name) {
                    errors.push(FieldError::duplicate(&at, name));
                }
            }
            rule_with_operations(rule, &at, errors);
        }
    }
}

pub(super) fn policy(new: &Value, errors: &mut Errors) {
    let (spec, path) = (&new["spec"], Path::field("spec"));
    supported(spec, "failurePolicy", &["Fail", "Ignore"], &path, errors);
    if spec["paramKind"].is_object() {
        param_kind(&spec["paramKind"], &path.child("paramKind"), errors);
    }
    let at = path.child("matchConstraints");
    if spec["matchConstraints"].is_object() {
        match_resources(&spec["matchConstraints"], &at, errors);
        if list(&spec["matchConstraints"], "resourceRules").is_empty() {
            errors.push(FieldError::required(&at.child("resourceRules"), ""));
        }
    } else {
        errors.push(FieldError::required(&at, ""));
    }
    match_conditions(spec, &path.child("matchConditions"), errors);
    let variables = path.child("variables");
    for (index, variable) in list(spec, "variables").iter().enumerate() {
        for field in ["name", "expression"] {
            if text(variable, field).trim().is_empty() {
                let at = variables.index(index);
                errors.push(FieldError::required(&at.child(field), format!("{field} is not specified")));
            }
        }
    }
    if is_empty(&spec["validations"]) && is_empty(&spec["auditAnnotations"]) {
        let detail = "validations or auditAnnotations must contain at least one item";
        errors.push(FieldError::required(&path.child("validations"), detail));
        errors.push(FieldError::required(&path.child("auditAnnotations"), detail));
    }
    let validations = path.child("validations");
    for (index, one) in list(spec, "validations").iter().enumerate() {
        validation(one, &validations.index(index), errors);
    }
}

fn validation(one: &Value, path: &Path<'_>, errors: &mut Errors) {
    const REASONS: [&str; 4] = ["Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized"];
    if text(one, "expression").trim().is_empty() {
        errors.push(FieldError::required(&path.child("expression"), "expression is not specified"));
    }
    let (message, dynamic) = (text(one, "message"), text(one, "messageExpression"));
    if !dynamic.is_empty() && dynamic.trim().is_empty() {
        let detail = "must be non-empty if specified";
        errors.push(FieldError::invalid(&path.child("messageExpression"), dynamic, detail));
    }
    if !message.is_empty() && message.trim().is_empty() {
        errors.push(FieldError::invalid(&path.child("message"), message, "must be non-empty if specified"));
    } else if message.trim().contains('\n') {
        errors.push(FieldError::invalid(&path.child("message"), message, "must not contain line breaks"));
    }
    supported(one, "reason", &REASONS, path, errors);
}

fn param_kind(kind: &Value, path: &Path<'_>, errors: &mut Errors) {
    let version = text(kind, "apiVersion");
    if version.is_empty() {
        errors.push(FieldError::required(&path.child("apiVersion"), ""));
    } else {
        let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
        let problems = if group.is_empty() { Vec::new() } else { names::dns_subdomain(group) };
        if !problems.is_empty() {
            errors.push(FieldError::invalid(&path.child("apiVersion"), group, problems.join(",")));
        }
        let problems = names::dns_1035_label(version);
        if !problems.is_empty() {
            errors.push(FieldError::invalid(&path.child("apiVersion"), version, problems.join(",")));
        }
    }
    let named = text(kind, "kind");
    let problems = names::dns_1035_label(&named.to_lowercase());
    if named.is_empty() {
        errors.push(FieldError::required(&path.child("kind"), ""));
    } else if !problems.is_empty() {
        let detail = format!("may have mixed case, but should otherwise match: {}", problems.join(","));
        errors.push(FieldError::invalid(&path.child("kind"), named, detail));
    }
}

pub(super) fn policy_binding(new: &Value, errors: &mut Errors) {
    let (spec, path) = (&new["spec"], Path::field("spec"));
    match text(spec, "policyName") {
        "" => errors.push(FieldError::required(&path.child("policyName"), "")),
        name => invalid_each(errors, &path.child("policyName"), name, names::dns_subdomain(name)),
    }
    if spec["paramRef"].is_object() {
        param_ref(&spec["paramRef"], &path.child("paramRef"), errors);
    }
    match_resources(&spec["matchResources"], &path.child("matchResources"), errors);
    actions(list(spec, "validationActions"), &path.child("validationActions"), errors);
}

fn param_ref(reference: &Value, path: &Path<'_>, errors: &mut Errors) {
    const BOTH: &str = "name and selector are mutually exclusive";
    let (name, selector) = (text(reference, "name"), reference["selector"].is_object());
    if !name.is_empty() {
        invalid_each(errors, &path.child("name"), name, names::path_segment(name));
        if selector {
            errors.push(FieldError::forbidden(&path.child("name"), BOTH));
        }
    }
    if selector {
        label_selector(&reference["selector"], &path.child("selector"), errors);
        if !name.is_empty() {
            errors.push(FieldError::forbidden(&path.child("selector"), BOTH));
        }
    }
    if name.is_empty() && !selector {
        errors.push(FieldError::required(path, "one of name or selector must be specified"));
    }
    match text(reference, "parameterNotFoundAction") {
        "" => errors.push(FieldError::required(&path.child("parameterNotFoundAction"), "")),
        "Allow" | "Deny" => {}
        other => {
            let at = path.child("parameterNotFoundAction");
            errors.push(FieldError::not_supported(&at, other, &["Deny", "Allow"]));
        }
    }
}

fn actions(actions: &[Value], path: &Path<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (index, action) in actions.iter().filter_map(Value::as_str).enumerate() {
        if !matches!(action, "Audit" | "Deny" | "Warn") {
            errors.push(FieldError::not_supported(&path.index(index), action, &["Audit", "Deny", "Warn"]));
        }
        if !seen.insert(action) {
            errors.push(FieldError::duplicate(&path.index(index), action));
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        let detail = "must not contain both Deny and Warn (repeating the same validation failure information in the API \
                      response and headers serves no purpose)";
        errors.push(FieldError::invalid(path, actions.to_vec(), detail));
    }
    if seen.is_empty() {
        errors.push(FieldError::required(path, "at least one validation action is required"));
    }
}
