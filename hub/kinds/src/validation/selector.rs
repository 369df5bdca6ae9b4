//! Label selectors: what they may say, and what they match.
//!
//! In: a `LabelSelector` as JSON, labels. Out: field errors; whether it is well formed, says nothing at all, or matches the labels; how a
//! refusal shows it.

use karmada_schema::path::Path;
use karmada_schema::selector::LabelSelector;
use karmada_schema::{FieldError, Shown, go_json};
use serde_json::Value;

use super::metadata::labels;
use super::{Errors, entries, invalid_each, list, names, text};

/// What is wrong with a label selector.
pub(super) fn label_selector(selector: &Value, path: &Path<'_>, errors: &mut Errors) {
    labels(&selector["matchLabels"], &path.child("matchLabels"), errors);
    let expressions = path.child("matchExpressions");
    for (index, expression) in list(selector, "matchExpressions").iter().enumerate() {
        let at = expressions.index(index);
        operator(expression, &at, errors);
        key(expression, &at, errors);
        values(expression, &at, errors);
    }
}

/// The same, as facts name it.
pub(super) fn selector(selector: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    label_selector(selector, path, errors);
}

/// Labels, as facts name them.
pub(super) fn label_map(all: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    labels(all, path, errors);
}

/// The operator of a requirement of nodes, which are also compared by number.
pub(super) fn node_operator(expression: &Value, at: &Path<'_>, errors: &mut Errors) {
    match text(expression, "operator") {
        "Gt" | "Lt" if list(expression, "values").len() != 1 => errors.push(FieldError::required(
            &at.child("values"),
            "must be specified single value when `operator` is 'Lt' or 'Gt'",
        )),
        "Gt" | "Lt" => {}
        _ => operator(expression, at, errors),
    }
}

/// The operator of a requirement, and how many values it takes.
fn operator(expression: &Value, at: &Path<'_>, errors: &mut Errors) {
    let values = list(expression, "values");
    match text(expression, "operator") {
        "In" | "NotIn" if values.is_empty() => errors.push(FieldError::required(
            &at.child("values"),
            "must be specified when `operator` is 'In' or 'NotIn'",
        )),
        "Exists" | "DoesNotExist" if !values.is_empty() => errors.push(FieldError::forbidden(
            &at.child("values"),
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        )),
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => {
            let detail = "not a valid selector operator";
            errors.push(FieldError::invalid(&at.child("operator"), other, detail));
        }
    }
}

/// The key of a requirement.
pub(super) fn key(expression: &Value, at: &Path<'_>, errors: &mut Errors) {
    let key = text(expression, "key");
    invalid_each(errors, &at.child("key"), key, names::qualified_name(key));
}

/// The values of a requirement.
pub(super) fn values(expression: &Value, at: &Path<'_>, errors: &mut Errors) {
    let at = at.child("values");
    let values = list(expression, "values").iter().filter_map(Value::as_str);
    for (index, value) in values.enumerate() {
        invalid_each(errors, &at.index(index), value, names::label_value(value));
    }
}

/// A selector as it is shown in a refusal: its fields in the order of Go's struct, without what is empty.
pub(super) fn shown(selector: &Value) -> Shown {
    let requirement = |one: &Value| {
        let values = if list(one, "values").is_empty() {
            String::new()
        } else {
            format!(",\"values\":{}", go_json(&one["values"]))
        };
        format!("{{\"key\":{},\"operator\":{}{values}}}", go_json(&one["key"]), go_json(&one["operator"]))
    };
    let mut fields = Vec::new();
    if entries(selector, "matchLabels").next().is_some() {
        fields.push(format!("\"matchLabels\":{}", go_json(&selector["matchLabels"])));
    }
    let all: Vec<String> = list(selector, "matchExpressions").iter().map(requirement).collect();
    if !all.is_empty() {
        fields.push(format!("\"matchExpressions\":[{}]", all.join(",")));
    }
    Shown::Raw(format!("{{{}}}", fields.join(",")))
}

/// Whether there is nothing wrong with a selector.
pub(super) fn is_right(selector: &Value) -> bool {
    let mut errors = Errors::new();
    label_selector(selector, &Path::field("selector"), &mut errors);
    errors.is_empty()
}

/// Whether a selector says nothing.
pub(super) fn is_blank(selector: &Value) -> bool {
    entries(selector, "matchLabels").next().is_none() && list(selector, "matchExpressions").is_empty()
}

/// Whether a selector matches labels. A blank one matches all.
pub(super) fn matches(selector: &Value, labels: &Value) -> bool {
    LabelSelector::of_json(selector).matches(|key| labels.get(key).and_then(Value::as_str))
}
