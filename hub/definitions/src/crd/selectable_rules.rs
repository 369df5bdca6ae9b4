//! Fields by which lists may be selected: simple paths to scalars.
//!
//! In: a version of a definition, and the part that holds its schema. Out: field errors, among them of more than eight fields.

use serde_json::Value;

use super::report::{Errors, duplicate, invalid, items, required, text};

const MOST: usize = 8;

pub(super) fn validate(version: &Value, with_schema: &Value, path: &str, errors: &mut Errors) {
    let root = &with_schema["schema"]["openAPIV3Schema"];
    let list = items(version, "selectableFields");
    if !list.is_empty() && with_schema["schema"].is_null() {
        let why = match path {
            "spec" => "may only be set when validations.schema is included",
            _ => "may only be set when `version.schema.openAPIV3Schema` is not included",
        };
        errors.push(invalid(&format!("{path}.selectableFields"), "", why));
        return;
    }
    let mut seen = std::collections::HashSet::new();
    let before = errors.len();
    for (at, field) in list.iter().enumerate() {
        let path = format!("{path}.selectableFields[{at}].jsonPath");
        let given = text(field, "jsonPath");
        if given.is_empty() {
            errors.push(required(&path, ""));
        } else if let Some(why) = wrong(given, root) {
            errors.push(invalid(&path, given, why));
        } else if !seen.insert(given) {
            errors.push(duplicate(&path, given));
        }
    }
    if list.len() > MOST && errors.len() == before {
        let message = format!("must have at most {MOST} items");
        errors.push(invalid(&format!("{path}.selectableFields"), list.len(), message));
    }
}

fn wrong(given: &str, root: &Value) -> Option<String> {
    let unknown = || Some("is an invalid path: does not refer to a valid field".to_owned());
    let Some(rest) = given.strip_prefix('.') else {
        let first = given.split(['.', '[']).next().unwrap_or_default();
        return Some(format!("is an invalid path: expected [ or . but got: {first}"));
    };
    if given.contains('[') {
        return Some("is an invalid path: array notation is not allowed".to_owned());
    }
    let mut at = root;
    for (depth, part) in rest.split('.').enumerate() {
        if depth == 0 && matches!(part, "metadata" | "apiVersion" | "kind") {
            return unknown();
        }
        match at["properties"].get(part) {
            Some(next) => at = next,
            None => return unknown(),
        }
    }
    if matches!(text(at, "type"), "string" | "boolean" | "integer") {
        return None;
    }
    Some(
        "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."
            .to_owned(),
    )
}
