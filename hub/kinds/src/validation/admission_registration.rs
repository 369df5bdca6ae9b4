//! Webhook configurations and admission policies: names, rules, clients, expressions.
//!
//! In: the object, and what the request compiles. Out: field errors, pushed in kube-apiserver's order; those of expressions that do not
//! compile among them. Of a policy with more than a thousand variables or validations none is compiled. `rows` names the functions of whole
//! objects, `data/facts.tsv` those of parts.

use std::collections::HashSet;
use std::sync::Arc;

use karmada_cel::{Compiling, Declarations, Expected, Program};
use karmada_schema::FieldError;
use karmada_schema::facts::Fact;
use karmada_schema::path::Path;
use serde_json::Value;

use super::selector::label_selector;
use super::{Errors, facts, is_empty, judge, list, text};
use karmada_cel::PolicyNames;

const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];

/// Webhooks that may change what they see.
pub(crate) fn mutating(new: &Value, _: Option<&Value>, compiling: &Arc<Compiling>, errors: &mut Errors) {
    webhooks(new, facts::ADMISSIONREGISTRATION_V1_MUTATING_WEBHOOK, compiling, errors);
}

/// Webhooks that only judge.
pub(crate) fn validating(new: &Value, _: Option<&Value>, compiling: &Arc<Compiling>, errors: &mut Errors) {
    webhooks(new, facts::ADMISSIONREGISTRATION_V1_VALIDATING_WEBHOOK, compiling, errors);
}

fn webhooks(new: &Value, own: &[Fact], compiling: &Compiling, errors: &mut Errors) {
    let hooks = Path::field("webhooks");
    let mut seen = HashSet::new();
    for (index, hook) in list(new, "webhooks").iter().enumerate() {
        let path = hooks.index(index);
        let name = text(hook, "name");
        qualified_name(name, 3, &path.child("name"), errors);
        webhook(hook, own, &path, compiling, errors);
        if !seen.insert(name) && !name.is_empty() {
            errors.push(FieldError::duplicate(&path.child("name"), name));
        }
    }
}

/// A webhook's name is a domain of so many segments at least.
pub(super) fn qualified_name(name: &str, segments: usize, path: &Path<'_>, errors: &mut Errors) {
    if name.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    let problems = super::names::dns_subdomain(name);
    if !problems.is_empty() {
        errors.push(FieldError::invalid(path, name, problems.join(",")));
    } else if name.split('.').count() < segments {
        let count = if segments == 3 { "three" } else { "two" };
        let words = format!("should be a domain with at least {count} segments separated by dots");
        errors.push(FieldError::invalid(path, name, words));
    }
}

fn webhook(hook: &Value, own: &[Fact], path: &Path<'_>, compiling: &Compiling, errors: &mut Errors) {
    judge(own, hook, None, path, errors);
    client(&hook["clientConfig"], &path.child("clientConfig"), errors);
    conditions(hook, &Declarations::admission(), path, compiling, errors);
    review_versions(hook, &path.child("admissionReviewVersions"), errors);
}

fn review_versions(hook: &Value, path: &Path<'_>, errors: &mut Errors) {
    spoken_versions(&hook["admissionReviewVersions"], &["v1", "v1beta1"], path, errors);
}

/// Versions that a webhook takes: one that is spoken here among them.
pub(super) fn spoken_versions(all: &Value, spoken: &[&str], path: &Path<'_>, errors: &mut Errors) {
    let given: Vec<&str> = all.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if given.is_empty() {
        errors.push(FieldError::required(path, format!("must specify one of {}", spoken.join(", "))));
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
    if !given.iter().any(|one| spoken.contains(one)) {
        let words = format!("must include at least one of {}", spoken.join(", "));
        errors.push(FieldError::invalid(path, all.clone(), words));
    }
}

pub(super) fn client(client: &Value, path: &Path<'_>, errors: &mut Errors) {
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
        // kube-apiserver takes the name for the namespace here, and the namespace for the name.
        let own = facts::ADMISSIONREGISTRATION_V1_SERVICE_REFERENCE;
        judge(own, service, None, &path.child("service"), errors);
    }
}

/// The path that a service is asked at.
pub(super) fn service_path(given: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let given = given.as_str().unwrap_or_default();
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
pub(super) fn rule(rule: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
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
    judge(facts::ADMISSIONREGISTRATION_V1_RULE_WITH_OPERATIONS, rule, None, path, errors);
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

/// A ValidatingAdmissionPolicy.
pub(crate) fn policy(new: &Value, compiling: &Compiling, errors: &mut Errors) {
    let (spec, path) = (&new["spec"], Path::field("spec"));
    let mut names = PolicyNames::of(spec);
    judge(facts::ADMISSIONREGISTRATION_V1_VALIDATING_ADMISSION_POLICY_SPEC, spec, None, &path, errors);
    conditions(spec, &names.now(), &path, compiling, errors);
    let too_many = |field: &str| list(spec, field).len() > MOST_EXPRESSIONS;
    if let Some(field) = ["variables", "validations"].into_iter().find(|field| too_many(field)) {
        let given = list(spec, field).len() as u64;
        errors.push(FieldError::too_many(&path.child(field), given, MOST_EXPRESSIONS as u64));
        return;
    }
    variables(spec, &mut names, &path, compiling, errors);
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
    let name = text(&new["metadata"], "name");
    audit_annotations(spec, (name, &names), &path, compiling, errors);
}

/// What a policy's expressions may name, each of them what those before it have.
fn variables(
    spec: &Value,
    names: &mut PolicyNames,
    path: &Path<'_>,
    compiling: &Compiling,
    errors: &mut Errors,
) {
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
}

/// What a policy of this name adds to audit records.
fn audit_annotations(
    spec: &Value,
    (name, names): (&str, &Declarations),
    path: &Path<'_>,
    compiling: &Compiling,
    errors: &mut Errors,
) {
    let all = path.child("auditAnnotations");
    let mut seen = HashSet::new();
    for (index, one) in list(spec, "auditAnnotations").iter().enumerate() {
        let path = all.index(index);
        let key = text(one, "key");
        let at = path.child("key");
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
            expression(source, names, Expected::TextOrNull, &at, compiling, errors);
        }
        if !seen.insert(key) {
            errors.push(FieldError::duplicate(&path.child("key"), key));
        }
    }
}

/// The kind of a policy's parameters.
pub(super) fn parameter_kind(kind: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
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
    judge(facts::ADMISSIONREGISTRATION_V1_VALIDATION, one, None, path, errors);
}

/// A rule that may name objects, each once.
pub(super) fn named_rule(one: &Value, old: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let (given, at) = (list(one, "resourceNames"), path.child("resourceNames"));
    let mut seen = HashSet::new();
    for (index, name) in given.iter().filter_map(Value::as_str).enumerate() {
        super::invalid_each(errors, &at.index(index), name, super::names::path_segment(name));
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(&at.index(index), name));
        }
    }
    rule(one, old, path, errors);
}

/// What is done about what a policy refuses.
pub(super) fn actions(all: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    const KNOWN: [&str; 3] = ["Audit", "Deny", "Warn"];
    let mut seen = HashSet::new();
    for (index, action) in all.as_array().into_iter().flatten().filter_map(Value::as_str).enumerate() {
        if !KNOWN.contains(&action) {
            errors.push(FieldError::not_supported(&path.index(index), action, &KNOWN));
        }
        if !seen.insert(action) {
            errors.push(FieldError::duplicate(&path.index(index), action));
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        errors.push(FieldError::invalid(path, all.clone(), why));
    }
}

/// Which objects a binding's parameters are.
pub(super) fn parameters(reference: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
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
