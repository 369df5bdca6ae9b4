//! CEL rules of a definition's schema: written, compiled against the schema they stand in, or refused.

use karmada_cel::{CompileError, Declarations, Expected, Program, Type};
use serde_json::Value;

use super::report::{
    Errors, fields, invalid, invalid_raw, items, not_supported, required, rule as shown, text,
};
use super::structural::property;
use crate::schema::JsonShape;

const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// Checks every rule of the schema.
pub(super) fn validate(schema: &Value, path: &str, errors: &mut Errors) {
    walk(schema, path, None, true, errors);
}

/// `lost`: the list above, elements of which are not the same from one write to the next.
fn walk(schema: &Value, path: &str, lost: Option<&str>, root: bool, errors: &mut Errors) {
    let rules = items(schema, "x-kubernetes-validations");
    if !rules.is_empty() {
        let ty = Type::of(JsonShape { schema, root }, "object");
        for (at, rule) in rules.iter().enumerate() {
            let path = format!("{path}.x-kubernetes-validations[{at}]");
            check(schema, rule, &ty, &path, lost, errors);
        }
    }
    for (name, child) in fields(&schema["properties"]) {
        walk(child, &property(path, name), lost, false, errors);
    }
    if schema["additionalProperties"].is_object() {
        walk(&schema["additionalProperties"], &format!("{path}.additionalProperties"), lost, false, errors);
    }
    if schema["items"].is_object() {
        let keyed = text(schema, "x-kubernetes-list-type") == "map";
        let lost = lost.or(if keyed { None } else { Some(path) });
        walk(&schema["items"], &format!("{path}.items"), lost, false, errors);
    }
}

fn check(schema: &Value, rule: &Value, ty: &Type, path: &str, lost: Option<&str>, errors: &mut Errors) {
    let at = |field: &str| format!("{path}.{field}");
    let before = errors.len();
    words(rule, path, errors);
    if let Some(field) = rule["fieldPath"].as_str().filter(|field| !field.is_empty()) {
        if field.trim().contains('\n') || field.contains('\n') {
            errors.push(invalid(&at("fieldPath"), field, "must not contain line breaks"));
        }
        if !leads_somewhere(schema, field) {
            errors.push(invalid(&at("fieldPath"), field, "must be a valid path"));
        }
    }
    if text(rule, "rule").trim().is_empty() || errors.len() > before {
        return;
    }
    let optional = rule["optionalOldSelf"] == true;
    let old = if optional { Type::Optional(Box::new(ty.clone())) } else { ty.clone() };
    let declared = Declarations::new().with("self", ty.clone()).with("oldSelf", old);
    match Program::compile(text(rule, "rule"), &declared, Expected::Bool) {
        Err(error) => {
            errors.push(invalid_raw(&at("rule"), shown(rule), refusal(&error, "cel expression", "")));
        }
        Ok(program) => {
            let uses_old = program.uses("oldSelf");
            if let (true, Some(list)) = (uses_old, lost) {
                let why = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {list}"
                );
                errors.push(invalid(&at("rule"), text(rule, "rule"), why));
            }
            if !rule["optionalOldSelf"].is_null() && !uses_old {
                let why = "may not be set if oldSelf is not used in rule";
                errors.push(invalid(&at("optionalOldSelf"), rule["optionalOldSelf"].clone(), why));
            }
        }
    }
    let message = text(rule, "messageExpression");
    if !message.is_empty()
        && let Err(error) = Program::compile(message, &declared, Expected::Text)
    {
        let why = refusal(&error, "messageExpression", "messageExpression ");
        errors.push(invalid_raw(&at("messageExpression"), shown(rule), why));
    }
}

fn refusal(error: &CompileError, what: &str, prefix: &str) -> String {
    match error {
        CompileError::Invalid(message) => format!("{prefix}compilation failed: {message}"),
        CompileError::Result { wanted, .. } => format!("{what} must evaluate to a {wanted}"),
    }
}

fn words(rule: &Value, path: &str, errors: &mut Errors) {
    let at = |field: &str| format!("{path}.{field}");
    let (source, message) = (text(rule, "rule"), text(rule, "message"));
    if source.trim().is_empty() {
        errors.push(required(&at("rule"), "rule is not specified"));
    }
    if !message.is_empty() && message.trim().is_empty() {
        errors.push(invalid(&at("message"), message, "must be non-empty if specified"));
    } else if message.trim().contains('\n') {
        errors.push(invalid(&at("message"), message, "must not contain line breaks"));
    } else if source.trim().contains('\n') && message.is_empty() {
        let why = "message must be specified if rule contains line breaks";
        errors.push(required(&at("message"), why));
    }
    let expression = text(rule, "messageExpression");
    if !expression.is_empty() && expression.trim().is_empty() {
        let why = "messageExpression must be non-empty if specified";
        errors.push(required(&at("messageExpression"), why));
    }
    if let Some(reason) = rule["reason"].as_str().filter(|reason| !REASONS.contains(reason)) {
        errors.push(not_supported(&at("reason"), reason, &REASONS));
    }
}

/// Whether a path such as `.spec.a['b']` names a declared field.
fn leads_somewhere(schema: &Value, path: &str) -> bool {
    let mut at = schema;
    let mut rest = path;
    while !rest.is_empty() {
        let (name, left) = if let Some(quoted) = rest.strip_prefix("['") {
            let Some((name, left)) = quoted.split_once("']") else { return false };
            (name, left)
        } else if let Some(plain) = rest.strip_prefix('.') {
            let end = plain.find(['.', '[']).unwrap_or(plain.len());
            plain.split_at(end)
        } else {
            return false;
        };
        let next =
            at["properties"].get(name).or_else(|| at.get("additionalProperties").filter(|a| a.is_object()));
        let Some(next) = next else { return false };
        (at, rest) = (next, left);
    }
    true
}
