//! Webhook configurations and admission policies: names, rules, clients, expressions.

use std::collections::HashSet;

use karmada_cel::{Compiling, Declarations, Expected, Program};
use karmada_schema::FieldError;
use karmada_schema::path::Path;
use serde_json::Value;

use super::selector::label_selector;
use super::{Errors, is_empty, list, text};
use karmada_cel::PolicyNames;

const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];

pub(crate) fn webhooks(new: &Value, mutating: bool, compiling: &Compiling, errors: &mut Errors) {
    let hooks = Path::field("webhooks");
    let mut seen = HashSet::new();
    for (index, hook) in list(new, "webhooks").iter().enumerate() {
        let path = hooks.index(index);
        let name = text(hook, "name");
        qualified_name(name, &path.child("name"), errors);
        webhook(hook, mutating, &path, compiling, errors);
        if !seen.insert(name) && !name.is_empty() {
            errors.push(FieldError::duplicate(&path.child("name"), name));
        }
    }
}

fn qualified_name(name: &str, path: &Path<'_>, errors: &mut Errors) {
    if name.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    let problems = super::names::dns_subdomain(name);
    if !problems.is_empty() {
        errors.push(FieldError::invalid(path, name, problems.join(",")));
    } else if name.split('.').count() < 3 {
        errors.push(FieldError::invalid(
            path,
            name,
            "should be a domain with at least three segments separated by dots",
        ));
    }
}

fn webhook(hook: &Value, mutating: bool, path: &Path<'_>, compiling: &Compiling, errors: &mut Errors) {
    for (index, one) in list(hook, "rules").iter().enumerate() {
        let rules = path.child("rules");
        rule(one, &rules.index(index), errors);
    }
    one_of(hook, "failurePolicy", &["Fail", "Ignore"], path, errors);
    one_of(hook, "matchPolicy", &["Equivalent", "Exact"], path, errors);
    let (effects, at) = (["None", "NoneOnDryRun"], path.child("sideEffects"));
    match hook["sideEffects"].as_str() {
        None => errors.push(FieldError::required(&at, "must specify one of None, NoneOnDryRun")),
        Some(given) if effects.contains(&given) => {}
        Some(given) => errors.push(FieldError::not_supported(&at, given, &effects)),
    }
    if let Some(seconds) = hook["timeoutSeconds"].as_i64().filter(|seconds| !(1..=30).contains(seconds)) {
        let why = "the timeout value must be between 1 and 30 seconds";
        errors.push(FieldError::invalid(&path.child("timeoutSeconds"), seconds, why));
    }
    for selector in ["namespaceSelector", "objectSelector"] {
        label_selector(&hook[selector], &path.child(selector), errors);
    }
    if mutating {
        one_of(hook, "reinvocationPolicy", &["IfNeeded", "Never"], path, errors);
    }
    client(&hook["clientConfig"], &path.child("clientConfig"), errors);
    conditions(hook, &Declarations::admission(), path, compiling, errors);
    review_versions(hook, &path.child("admissionReviewVersions"), errors);
}

/// Versions of reviews that a webhook takes: one that is spoken here among them.
fn review_versions(hook: &Value, path: &Path<'_>, errors: &mut Errors) {
    let given: Vec<&str> = list(hook, "admissionReviewVersions").iter().filter_map(Value::as_str).collect();
    if given.is_empty() {
        errors.push(FieldError::required(path, "must specify one of v1, v1beta1"));
        return;
    }
    let mut seen = HashSet::new();
    for (index, one) in given.iter().enumerate() {
        if !seen.insert(one) {
            errors.push(FieldError::invalid(&path.index(index), *one, "duplicate version"));
        } else {
            super::invalid_each(errors, &path.index(index), one, super::names::dns_1035_label(one));
        }
    }
    if !given.iter().any(|one| matches!(*one, "v1" | "v1beta1")) {
        let shown = hook["admissionReviewVersions"].clone();
        errors.push(FieldError::invalid(path, shown, "must include at least one of v1, v1beta1"));
    }
}

fn one_of(from: &Value, field: &str, supported: &[&str], path: &Path<'_>, errors: &mut Errors) {
    if let Some(value) = from[field].as_str().filter(|value| !supported.contains(value)) {
        errors.push(FieldError::not_supported(&path.child(field), value, supported));
    }
}

fn client(client: &Value, path: &Path<'_>, errors: &mut Errors) {
    let url = client["url"].as_str();
    if url.is_some() == client["service"].is_object() {
        errors.push(FieldError::required(path, "exactly one of url or service is required"));
        return;
    }
    if let Some(url) = url {
        web_hook_url(url, &path.child("url"), errors);
    }
    let service = &client["service"];
    if service.is_object() {
        // kube-apiserver takes the one for the other here.
        for (field, told) in [("namespace", "name"), ("name", "namespace")] {
            if text(service, field).is_empty() {
                let at = path.child("service");
                errors.push(FieldError::required(&at.child(told), ""));
            }
        }
        let at = path.child("service");
        if let Some(port) = service["port"].as_i64().filter(|port| !(1..=65535).contains(port)) {
            let why = "port is not valid: must be between 1 and 65535, inclusive";
            errors.push(FieldError::invalid(&at.child("port"), port, why));
        }
        service_path(service, &at.child("path"), errors);
    }
}

fn service_path(service: &Value, path: &Path<'_>, errors: &mut Errors) {
    let Some(given) = service["path"].as_str() else { return };
    if given == "/" || given.is_empty() {
        return;
    }
    if given == "//" {
        errors.push(FieldError::invalid(path, given, "segment[0] may not be empty"));
        return;
    }
    if !given.starts_with('/') {
        errors.push(FieldError::invalid(path, given, "must start with a '/'"));
    }
    let check = given.get(1..).unwrap_or_default();
    let check = check.strip_suffix('/').unwrap_or(check);
    for (index, part) in check.split('/').enumerate() {
        if part.is_empty() {
            errors.push(FieldError::invalid(path, given, format!("segment[{index}] may not be empty")));
        } else {
            for why in super::names::dns_subdomain(part) {
                errors.push(FieldError::invalid(path, given, format!("segment[{index}]: {why}")));
            }
        }
    }
}

/// The parts of an address that are judged.
struct Address<'a> {
    scheme: &'a str,
    user: Option<&'a str>,
    host: &'a str,
    query: Option<&'a str>,
    fragment: Option<&'a str>,
}

fn parts(url: &str) -> Option<Address<'_>> {
    let (rest, fragment) = url.split_once('#').map_or((url, None), |(rest, part)| (rest, Some(part)));
    let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, part)| (rest, Some(part)));
    let (scheme, rest) = match rest.split_once(':') {
        Some(("", _)) => return None,
        Some((scheme, rest)) if !scheme.contains('/') => (scheme, rest),
        _ => ("", rest),
    };
    let authority = rest.strip_prefix("//").map_or("", |rest| rest.split('/').next().unwrap_or_default());
    let (user, host) =
        authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
    let bad = host.contains(' ') || url.bytes().any(|b| b < 0x20 || b == 0x7f);
    (!bad).then_some(Address { scheme, user, host, query, fragment })
}

fn web_hook_url(url: &str, path: &Path<'_>, errors: &mut Errors) {
    let form = "; desired format: https://host[/path]";
    let Some(parts) = parts(url) else {
        let why = if url.starts_with(':') {
            format!("url must be a valid URL: parse {url:?}: missing protocol scheme{form}")
        } else {
            format!("url must be a valid URL: parse {url:?}: invalid URI{form}")
        };
        errors.push(FieldError::required(path, why));
        return;
    };
    if parts.scheme != "https" {
        let why = format!("'https' is the only allowed URL scheme{form}");
        errors.push(FieldError::invalid(path, parts.scheme, why));
    }
    if parts.host.is_empty() {
        errors.push(FieldError::invalid(path, parts.host, format!("host must be specified{form}")));
    }
    if let Some(user) = parts.user {
        errors.push(FieldError::invalid(path, user, "user information is not permitted in the URL"));
    }
    if let Some(fragment) = parts.fragment.filter(|part| !part.is_empty()) {
        errors.push(FieldError::invalid(path, fragment, "fragments are not permitted in the URL"));
    }
    if let Some(query) = parts.query.filter(|part| !part.is_empty()) {
        errors.push(FieldError::invalid(path, query, "query parameters are not permitted in the URL"));
    }
}

/// One `rules` entry.
fn rule(rule: &Value, path: &Path<'_>, errors: &mut Errors) {
    let missing = |field: &str| is_empty(&rule[field]);
    let wild = |field: &str| list(rule, field).len() > 1 && list(rule, field).iter().any(|one| one == "*");
    for (field, words) in
        [("operations", "operations"), ("apiGroups", "API groups"), ("apiVersions", "API versions")]
    {
        let at = path.child(field);
        if missing(field) {
            errors.push(FieldError::required(&at, ""));
        }
        if wild(field) {
            let why = format!("if '*' is present, must not specify other {words}");
            errors.push(FieldError::invalid(&at, rule[field].clone(), why));
        }
        for (index, one) in list(rule, field).iter().filter_map(Value::as_str).enumerate() {
            if field == "operations" && !OPERATIONS.contains(&one) {
                errors.push(FieldError::not_supported(&at.index(index), one, &OPERATIONS));
            } else if field == "apiVersions" && one.is_empty() {
                errors.push(FieldError::required(&at.index(index), ""));
            }
        }
    }
    rule_resources(rule, &path.child("resources"), errors);
    one_of(rule, "scope", &["*", "Cluster", "Namespaced"], path, errors);
}

/// Resources and their parts: nothing said twice.
fn rule_resources(rule: &Value, path: &Path<'_>, errors: &mut Errors) {
    let all: Vec<&str> = list(rule, "resources").iter().filter_map(Value::as_str).collect();
    if all.is_empty() {
        errors.push(FieldError::required(path, ""));
    }
    let (mut of_all_parts, mut of_all_resources, mut plain) = (HashSet::new(), HashSet::new(), false);
    for (index, one) in all.iter().enumerate() {
        let at = path.index(index);
        if one.is_empty() {
            errors.push(FieldError::required(&at, ""));
            continue;
        }
        let Some((resource, part)) = one.split_once('/') else {
            plain = *one != "*";
            continue;
        };
        if of_all_parts.contains(&resource) {
            let why = format!("if '{resource}/*' is present, must not specify {one}");
            errors.push(FieldError::invalid(&at, *one, why));
        }
        if of_all_resources.contains(&part) {
            let why = format!("if '*/{part}' is present, must not specify {one}");
            errors.push(FieldError::invalid(&at, *one, why));
        }
        if part == "*" {
            of_all_parts.insert(resource);
        }
        if resource == "*" {
            of_all_resources.insert(part);
        }
    }
    if all.len() > 1 && all.contains(&"*/*") {
        let why = "if '*/*' is present, must not specify other resources";
        errors.push(FieldError::invalid(path, rule["resources"].clone(), why));
    }
    if all.contains(&"*") && plain {
        let why = "if '*' is present, must not specify other resources without subresources";
        errors.push(FieldError::invalid(path, rule["resources"].clone(), why));
    }
}

/// The most variables, or validations, of one policy: each is compiled when the policy is written, and when it is first needed.
const MOST_EXPRESSIONS: usize = 1_000;

const REASONS: [&str; 3] = ["Forbidden", "Invalid", "RequestEntityTooLarge"];

/// A ValidatingAdmissionPolicy.
pub(crate) fn policy(new: &Value, compiling: &Compiling, errors: &mut Errors) {
    let (spec, path) = (&new["spec"], Path::field("spec"));
    let mut names = PolicyNames::of(spec);
    one_of(spec, "failurePolicy", &["Fail", "Ignore"], &path, errors);
    if spec["paramKind"].is_object() {
        parameter_kind(&spec["paramKind"], &path.child("paramKind"), errors);
    }
    let constraints = path.child("matchConstraints");
    if !spec["matchConstraints"].is_object() {
        errors.push(FieldError::required(&constraints, ""));
    } else {
        if is_empty(&spec["matchConstraints"]["resourceRules"]) {
            errors.push(FieldError::required(&constraints.child("resourceRules"), ""));
        }
        resources(&spec["matchConstraints"], &constraints, errors);
    }
    conditions(spec, &names.now(), &path, compiling, errors);
    let too_many = |field: &str| list(spec, field).len() > MOST_EXPRESSIONS;
    if let Some(field) = ["variables", "validations"].into_iter().find(|field| too_many(field)) {
        let given = list(spec, field).len() as u64;
        errors.push(FieldError::too_many(&path.child(field), given, MOST_EXPRESSIONS as u64));
        return;
    }
    let all = path.child("variables");
    for (index, one) in list(spec, "variables").iter().enumerate() {
        let path = all.index(index);
        let name = text(one, "name");
        if name.is_empty() {
            errors.push(FieldError::required(&path.child("name"), "name is not specified"));
        } else if !is_identifier(name) {
            errors.push(FieldError::invalid(&path.child("name"), name, "must be a valid CEL identifier"));
        }
        let at = path.child("expression");
        if text(one, "expression").trim().is_empty() {
            errors.push(FieldError::required(&at, "expression is not specified"));
            continue;
        }
        let yields = expression(text(one, "expression"), &names.now(), Expected::Any, &at, compiling, errors);
        names.add(name, &yields.unwrap_or(karmada_cel::Type::Dyn));
    }
    let names = names.now();
    if list(spec, "validations").is_empty() && list(spec, "auditAnnotations").is_empty() {
        let why = "validations or auditAnnotations must contain at least one item";
        for field in ["validations", "auditAnnotations"] {
            errors.push(FieldError::required(&path.child(field), why));
        }
    }
    let all = path.child("validations");
    for (index, one) in list(spec, "validations").iter().enumerate() {
        validation(one, &names, &all.index(index), compiling, errors);
    }
    let all = path.child("auditAnnotations");
    let mut seen = HashSet::new();
    for (index, one) in list(spec, "auditAnnotations").iter().enumerate() {
        let path = all.index(index);
        let key = text(one, "key");
        let (name, at) = (text(&new["metadata"], "name"), path.child("key"));
        if name.is_empty() {
            errors.push(FieldError::invalid(&at, key, "requires metadata.name be non-empty"));
        } else {
            let whole = format!("{name}/{key}");
            super::invalid_each(errors, &at, &whole, super::names::qualified_name(&whole));
        }
        let at = path.child("valueExpression");
        let source = text(one, "valueExpression");
        if source.trim().is_empty() {
            errors.push(FieldError::required(&at, "valueExpression is not specified"));
        } else if source.len() > 5 << 10 {
            errors.push(FieldError::required(&at, "must not exceed 5kB in length"));
        } else {
            expression(source, &names, Expected::TextOrNull, &at, compiling, errors);
        }
        if !seen.insert(key) {
            errors.push(FieldError::duplicate(&path.child("key"), key));
        }
    }
}

fn parameter_kind(kind: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (version, at) = (text(kind, "apiVersion"), path.child("apiVersion"));
    match version.matches('/').count() {
        _ if version.is_empty() => errors.push(FieldError::required(&at, "")),
        0 | 1 => {
            let (group, version) = version.split_once('/').unwrap_or(("", version));
            if !group.is_empty() {
                super::invalid_each(errors, &at, group, super::names::dns_subdomain(group));
            }
            super::invalid_each(errors, &at, version, super::names::dns_1035_label(version));
        }
        _ => {
            let why = format!("unexpected GroupVersion string: {version}");
            errors.push(FieldError::invalid(&at, version, why));
        }
    }
    let (kind, at) = (text(kind, "kind"), path.child("kind"));
    if kind.is_empty() {
        errors.push(FieldError::required(&at, ""));
        return;
    }
    let problems = super::names::dns_1035_label(&kind.to_lowercase());
    if !problems.is_empty() {
        let why = format!("may have mixed case, but should otherwise match: {}", problems.join(","));
        errors.push(FieldError::invalid(&at, kind, why));
    }
}

/// Whether CEL can name it.
fn is_identifier(name: &str) -> bool {
    const RESERVED: [&str; 21] = [
        "as",
        "break",
        "const",
        "continue",
        "else",
        "false",
        "for",
        "function",
        "if",
        "import",
        "in",
        "let",
        "loop",
        "namespace",
        "null",
        "package",
        "return",
        "true",
        "var",
        "void",
        "while",
    ];
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && !RESERVED.contains(&name)
}

fn validation(
    one: &Value,
    names: &Declarations,
    path: &Path<'_>,
    compiling: &Compiling,
    errors: &mut Errors,
) {
    let source = text(one, "expression");
    if source.trim().is_empty() {
        errors.push(FieldError::required(&path.child("expression"), "expression is not specified"));
    } else {
        expression(source, names, Expected::Bool, &path.child("expression"), compiling, errors);
    }
    let message = text(one, "message");
    if !message.is_empty() && message.trim().is_empty() {
        let why = "must be non-empty if specified";
        errors.push(FieldError::invalid(&path.child("message"), message, why));
    } else if message.trim().contains('\n') {
        errors.push(FieldError::invalid(&path.child("message"), message, "must not contain line breaks"));
    } else if message.is_empty() && source.trim().contains('\n') {
        let why = "message must be specified if expression contains line breaks";
        errors.push(FieldError::required(&path.child("message"), why));
    }
    if !text(one, "messageExpression").is_empty() {
        let at = path.child("messageExpression");
        expression(text(one, "messageExpression"), names, Expected::Text, &at, compiling, errors);
    }
    one_of(one, "reason", &REASONS, path, errors);
}

fn resources(resources: &Value, path: &Path<'_>, errors: &mut Errors) {
    one_of(resources, "matchPolicy", &["Equivalent", "Exact"], path, errors);
    for selector in ["namespaceSelector", "objectSelector"] {
        label_selector(&resources[selector], &path.child(selector), errors);
    }
    for field in ["resourceRules", "excludeResourceRules"] {
        let all = path.child(field);
        for (index, one) in list(resources, field).iter().enumerate() {
            let entry = all.index(index);
            let (given, at) = (list(one, "resourceNames"), entry.child("resourceNames"));
            let mut seen = HashSet::new();
            for (index, name) in given.iter().filter_map(Value::as_str).enumerate() {
                super::invalid_each(errors, &at.index(index), name, super::names::path_segment(name));
                if !seen.insert(name) {
                    errors.push(FieldError::duplicate(&at.index(index), name));
                }
            }
            rule(one, &entry, errors);
        }
    }
}

/// A ValidatingAdmissionPolicyBinding.
pub(crate) fn binding(new: &Value, errors: &mut Errors) {
    let (spec, path) = (&new["spec"], Path::field("spec"));
    let (policy, at) = (text(spec, "policyName"), path.child("policyName"));
    if policy.is_empty() {
        errors.push(FieldError::required(&at, ""));
    } else {
        super::invalid_each(errors, &at, policy, super::names::dns_subdomain(policy));
    }
    let reference = &spec["paramRef"];
    if reference.is_object() {
        parameters(reference, &path.child("paramRef"), errors);
    }
    if spec["matchResources"].is_object() {
        resources(&spec["matchResources"], &path.child("matchResources"), errors);
    }
    let at = path.child("validationActions");
    let actions: Vec<&str> = list(spec, "validationActions").iter().filter_map(Value::as_str).collect();
    if actions.is_empty() {
        errors.push(FieldError::required(&at, "at least one validation action is required"));
    }
    let mut seen = HashSet::new();
    for (index, action) in actions.iter().enumerate() {
        if !["Audit", "Deny", "Warn"].contains(action) {
            errors.push(FieldError::not_supported(&at.index(index), *action, &["Audit", "Deny", "Warn"]));
        }
        if !seen.insert(action) {
            errors.push(FieldError::duplicate(&at.index(index), *action));
        }
    }
    if actions.contains(&"Deny") && actions.contains(&"Warn") {
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        errors.push(FieldError::invalid(&at, spec["validationActions"].clone(), why));
    }
}

/// Which objects a binding's parameters are.
fn parameters(reference: &Value, path: &Path<'_>, errors: &mut Errors) {
    let name = text(reference, "name");
    let selects = reference["selector"].is_object();
    if !name.is_empty() {
        super::invalid_each(errors, &path.child("name"), name, super::names::path_segment(name));
    }
    const EXCLUSIVE: &str = "name and selector are mutually exclusive";
    let both = selects && !name.is_empty();
    if both {
        errors.push(FieldError::forbidden(&path.child("name"), EXCLUSIVE));
    }
    label_selector(&reference["selector"], &path.child("selector"), errors);
    if both {
        errors.push(FieldError::forbidden(&path.child("selector"), EXCLUSIVE));
    }
    if name.is_empty() && !selects {
        errors.push(FieldError::required(path, "one of name or selector must be specified"));
    }
    match text(reference, "parameterNotFoundAction") {
        "" => errors.push(FieldError::required(&path.child("parameterNotFoundAction"), "")),
        _ => one_of(reference, "parameterNotFoundAction", &["Deny", "Allow"], path, errors),
    }
}

/// `matchConditions`: named once each, and compiled.
fn conditions(
    from: &Value,
    names: &Declarations,
    path: &Path<'_>,
    compiling: &Compiling,
    errors: &mut Errors,
) {
    let all = path.child("matchConditions");
    let given = list(from, "matchConditions");
    if given.len() > 64 {
        errors.push(FieldError::too_many(&all, given.len() as u64, 64));
        return;
    }
    let mut seen = HashSet::new();
    for (index, one) in given.iter().enumerate() {
        let path = all.index(index);
        let name = text(one, "name");
        expression(
            text(one, "expression"),
            names,
            Expected::Bool,
            &path.child("expression"),
            compiling,
            errors,
        );
        if name.is_empty() {
            errors.push(FieldError::required(&path.child("name"), ""));
        } else {
            super::invalid_each(errors, &path.child("name"), name, super::names::qualified_name(name));
            if !seen.insert(name) {
                errors.push(FieldError::duplicate(&path.child("name"), name));
            }
        }
    }
}

/// An expression: there, and compiled. Answers the type of what it yields.
fn expression(
    source: &str,
    names: &Declarations,
    expected: Expected,
    path: &Path<'_>,
    compiling: &Compiling,
    errors: &mut Errors,
) -> Option<karmada_cel::Type> {
    let trimmed = source.trim();
    if trimmed.is_empty() {
        errors.push(FieldError::required(path, ""));
        return None;
    }
    match Program::compile_within(trimmed, names, expected, compiling) {
        Ok(program) => Some(program.yields),
        Err(error) => {
            let why = match error {
                karmada_cel::CompileError::Invalid(why) => format!("compilation failed: {why}"),
                wrong @ karmada_cel::CompileError::Result { .. } => wrong.to_string(),
            };
            errors.push(FieldError::invalid(path, source, why));
            None
        }
    }
}
