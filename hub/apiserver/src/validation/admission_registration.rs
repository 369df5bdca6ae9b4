//! Webhook configurations and admission policies: names, rules, clients, expressions.

use karmada_cel::{Declarations, Expected, Program};
use serde_json::Value;

use super::selector::label_selector;
use super::{Errors, is_empty, list, text};
use crate::admission::Names;
use crate::schema::FieldError;
use crate::schema::path::Path;

const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];

pub(super) fn webhooks(new: &Value, mutating: bool, errors: &mut Errors) {
    let hooks = Path::field("webhooks");
    let mut seen: Vec<&str> = Vec::new();
    for (index, hook) in list(new, "webhooks").iter().enumerate() {
        let path = hooks.index(index);
        let name = text(hook, "name");
        qualified_name(name, &path.child("name"), errors);
        if seen.contains(&name) {
            errors.push(FieldError::duplicate(&path.child("name"), name));
        }
        seen.push(name);
        webhook(hook, mutating, &path, errors);
    }
}

fn qualified_name(name: &str, path: &Path<'_>, errors: &mut Errors) {
    if name.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    super::invalid_each(errors, path, name, super::names::dns_subdomain(name));
    if name.split('.').count() < 3 {
        errors.push(FieldError::invalid(
            path,
            name,
            "should be a domain with at least three segments separated by dots",
        ));
    }
}

fn webhook(hook: &Value, mutating: bool, path: &Path<'_>, errors: &mut Errors) {
    let versions = path.child("admissionReviewVersions");
    let given: Vec<&str> = list(hook, "admissionReviewVersions").iter().filter_map(Value::as_str).collect();
    if given.is_empty() {
        errors.push(FieldError::required(&versions, "must specify one of v1, v1beta1"));
    } else if !given.iter().any(|one| matches!(*one, "v1" | "v1beta1")) {
        let shown = Value::from(given.iter().map(|one| Value::from(*one)).collect::<Vec<Value>>());
        errors.push(FieldError::invalid(&versions, shown, "must include at least one of v1, v1beta1"));
    }
    for (index, one) in list(hook, "rules").iter().enumerate() {
        let rules = path.child("rules");
        rule(one, &rules.index(index), errors);
    }
    one_of(hook, "failurePolicy", &["Fail", "Ignore"], path, errors);
    one_of(hook, "matchPolicy", &["Equivalent", "Exact"], path, errors);
    if text(hook, "sideEffects").is_empty() {
        let why = "must specify one of None, NoneOnDryRun";
        errors.push(FieldError::required(&path.child("sideEffects"), why));
    } else {
        one_of(hook, "sideEffects", &["None", "NoneOnDryRun"], path, errors);
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
    conditions(hook, &Declarations::admission(), path, errors);
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
        for field in ["name", "namespace"] {
            if text(service, field).is_empty() {
                let at = path.child("service");
                errors.push(FieldError::required(&at.child(field), &*format!("service {field} is required")));
            }
        }
    }
}

fn web_hook_url(url: &str, path: &Path<'_>, errors: &mut Errors) {
    let Ok(uri) = url.parse::<http::Uri>() else {
        errors
            .push(FieldError::required(path, "url must be a valid URL; desired format: https://host[/path]"));
        return;
    };
    let form = "; desired format: https://host[/path]";
    let scheme = uri.scheme_str().unwrap_or_default();
    if scheme != "https" {
        let why = format!("'https' is the only allowed URL scheme{form}");
        errors.push(FieldError::invalid(path, scheme, why));
    }
    if uri.host().unwrap_or_default().is_empty() {
        errors.push(FieldError::invalid(path, "", format!("host must be specified{form}")));
    }
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        errors.push(FieldError::invalid(path, url, "user information is not permitted in the URL"));
    }
    if let Some(query) = uri.query() {
        errors.push(FieldError::invalid(path, query, "query parameters are not permitted in the URL"));
    }
}

/// One `rules` entry.
fn rule(rule: &Value, path: &Path<'_>, errors: &mut Errors) {
    let missing = |field: &str| is_empty(&rule[field]);
    let wild = |field: &str| list(rule, field).len() > 1 && list(rule, field).iter().any(|one| one == "*");
    for (field, what) in [("apiGroups", ""), ("apiVersions", ""), ("resources", "")] {
        if missing(field) {
            errors.push(FieldError::required(&path.child(field), what));
        }
        if field != "resources" && wild(field) {
            let why = "if '*' is present, must not specify other ".to_owned()
                + if field == "apiGroups" { "API groups" } else { "API versions" };
            errors.push(FieldError::invalid(&path.child(field), rule[field].clone(), why));
        }
    }
    let operations = path.child("operations");
    if missing("operations") {
        errors.push(FieldError::required(&operations, ""));
    }
    if wild("operations") {
        let why = "if '*' is present, must not specify other operations";
        errors.push(FieldError::invalid(&operations, rule["operations"].clone(), why));
    }
    for (index, one) in list(rule, "operations").iter().filter_map(Value::as_str).enumerate() {
        if !OPERATIONS.contains(&one) {
            errors.push(FieldError::not_supported(&operations.index(index), one, &OPERATIONS));
        }
    }
    one_of(rule, "scope", &["*", "Cluster", "Namespaced"], path, errors);
}

const REASONS: [&str; 4] = ["Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized"];

/// A ValidatingAdmissionPolicy.
pub(super) fn policy(new: &Value, errors: &mut Errors) {
    let (spec, path) = (&new["spec"], Path::field("spec"));
    let mut names = Names::of(spec);
    one_of(spec, "failurePolicy", &["Fail", "Ignore"], &path, errors);
    let kind = path.child("paramKind");
    for field in ["apiVersion", "kind"] {
        if spec["paramKind"].is_object() && text(&spec["paramKind"], field).is_empty() {
            errors.push(FieldError::required(&kind.child(field), ""));
        }
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
    conditions(spec, &names.now(), &path, errors);
    let all = path.child("variables");
    for (index, one) in list(spec, "variables").iter().enumerate() {
        let path = all.index(index);
        let name = text(one, "name");
        if name.is_empty() {
            errors.push(FieldError::required(&path.child("name"), "name is not specified"));
        }
        let at = path.child("expression");
        let yields = expression(text(one, "expression"), &names.now(), Expected::Any, &at, errors);
        names.add(name, yields.unwrap_or(karmada_cel::Type::Dyn));
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
        validation(one, &names, &all.index(index), errors);
    }
    let all = path.child("auditAnnotations");
    for (index, one) in list(spec, "auditAnnotations").iter().enumerate() {
        let path = all.index(index);
        if text(one, "key").is_empty() {
            errors.push(FieldError::required(&path.child("key"), ""));
        }
        let at = path.child("valueExpression");
        expression(text(one, "valueExpression"), &names, Expected::Any, &at, errors);
    }
}

fn validation(one: &Value, names: &Declarations, path: &Path<'_>, errors: &mut Errors) {
    let source = text(one, "expression");
    if source.trim().is_empty() {
        errors.push(FieldError::required(&path.child("expression"), "expression is not specified"));
    } else {
        expression(source, names, Expected::Bool, &path.child("expression"), errors);
    }
    let message = text(one, "message");
    if !message.is_empty() && message.trim().is_empty() {
        let why = "message must be non-empty if specified";
        errors.push(FieldError::invalid(&path.child("message"), message, why));
    } else if message.trim().contains('\n') {
        errors.push(FieldError::invalid(
            &path.child("message"),
            message,
            "message must not contain line breaks",
        ));
    } else if message.is_empty() && source.trim().contains('\n') {
        let why = "message must be specified if expression contains line breaks";
        errors.push(FieldError::required(&path.child("message"), why));
    }
    if !text(one, "messageExpression").is_empty() {
        let at = path.child("messageExpression");
        expression(text(one, "messageExpression"), names, Expected::Text, &at, errors);
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
            rule(one, &all.index(index), errors);
        }
    }
}

/// A ValidatingAdmissionPolicyBinding.
pub(super) fn binding(new: &Value, errors: &mut Errors) {
    let (spec, path) = (&new["spec"], Path::field("spec"));
    if text(spec, "policyName").is_empty() {
        errors.push(FieldError::required(&path.child("policyName"), ""));
    }
    let reference = &spec["paramRef"];
    if reference.is_object() {
        let at = path.child("paramRef");
        let named = !text(reference, "name").is_empty();
        if named == reference["selector"].is_object() {
            let why = "one of name or selector must be specified";
            match named {
                true => errors.push(FieldError::forbidden(
                    &at.child("name"),
                    "name and selector are mutually exclusive",
                )),
                false => errors.push(FieldError::required(&at, why)),
            }
        }
        match reference["parameterNotFoundAction"].as_str() {
            None => errors.push(FieldError::required(&at.child("parameterNotFoundAction"), "")),
            Some(_) => one_of(reference, "parameterNotFoundAction", &["Allow", "Deny"], &at, errors),
        }
    }
    if spec["matchResources"].is_object() {
        resources(&spec["matchResources"], &path.child("matchResources"), errors);
    }
    let at = path.child("validationActions");
    let actions: Vec<&str> = list(spec, "validationActions").iter().filter_map(Value::as_str).collect();
    if actions.is_empty() {
        errors.push(FieldError::required(&at, "at least one validation action is required"));
    }
    for (index, action) in actions.iter().enumerate() {
        if !["Audit", "Deny", "Warn"].contains(action) {
            errors.push(FieldError::not_supported(&at.index(index), *action, &["Audit", "Deny", "Warn"]));
        }
        if actions[..index].contains(action) {
            errors.push(FieldError::duplicate(&at.index(index), *action));
        }
    }
    if actions.contains(&"Deny") && actions.contains(&"Warn") {
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        errors.push(FieldError::invalid(&at, spec["validationActions"].clone(), why));
    }
}

/// `matchConditions`: named once each, and compiled.
fn conditions(from: &Value, names: &Declarations, path: &Path<'_>, errors: &mut Errors) {
    let all = path.child("matchConditions");
    let given = list(from, "matchConditions");
    if given.len() > 64 {
        errors.push(FieldError::too_many(&all, given.len() as u64, 64));
    }
    let mut seen: Vec<&str> = Vec::new();
    for (index, one) in given.iter().enumerate() {
        let path = all.index(index);
        let name = text(one, "name");
        if name.is_empty() {
            errors.push(FieldError::required(&path.child("name"), ""));
        } else if seen.contains(&name) {
            errors.push(FieldError::duplicate(&path.child("name"), name));
        }
        seen.push(name);
        expression(text(one, "expression"), names, Expected::Bool, &path.child("expression"), errors);
    }
}

/// An expression: there, and compiled. Answers the type of what it yields.
fn expression(
    source: &str,
    names: &Declarations,
    expected: Expected,
    path: &Path<'_>,
    errors: &mut Errors,
) -> Option<karmada_cel::Type> {
    let trimmed = source.trim();
    if trimmed.is_empty() {
        errors.push(FieldError::required(path, ""));
        return None;
    }
    match Program::compile(trimmed, names, expected) {
        Ok(program) => Some(program.yields),
        Err(error) => {
            let why = match error {
                karmada_cel::CompileError::Invalid(why) => format!("compilation failed: {why}"),
                wrong @ karmada_cel::CompileError::Result(_) => wrong.to_string().replace("to a ", "to "),
            };
            errors.push(FieldError::invalid(path, source, why));
            None
        }
    }
}
