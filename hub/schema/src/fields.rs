//! What rules of every kind are made of: fields looked up where they may be missing, and the errors that many rules share.
//!
//! In: JSON, a field's name, its path for messages. Out: what is there, or empty; errors are pushed to a list that the caller holds. Pure.

use serde_json::Value;

use crate::object::extent::Extent;
use crate::path::Path;
use crate::{FieldError, names};

/// Refuses a `name` or `generateName` other than `wanted`, unless something else is wrong with that field already.
pub fn only_name(new: &Value, wanted: &str, detail: &str, errors: &mut Vec<FieldError>) {
    name_is(new, wanted, detail, |told| told.is_none(), errors);
}

/// The same, also of names that are wrong otherwise.
pub fn only_name_whatever(new: &Value, wanted: &str, detail: &str, errors: &mut Vec<FieldError>) {
    name_is(new, wanted, detail, |_| true, errors);
}

/// `says`: whether the error is added, by the place of the last error of the same field. It is put beside the other errors of names.
fn name_is(
    new: &Value,
    wanted: &str,
    detail: &str,
    says: fn(Option<usize>) -> bool,
    errors: &mut Vec<FieldError>,
) {
    let mut place = 0;
    for field in ["generateName", "name"] {
        let name = text(&new["metadata"], field);
        let at = Path::field("metadata");
        let at = at.child(field);
        let own = at.to_string();
        let told = errors.iter().rposition(|error| error.field == own);
        place = told.map_or(place, |last| last + 1);
        if !name.is_empty() && name != wanted && says(told) {
            errors.insert(place, FieldError::invalid(&at, name, detail));
            place += 1;
        }
    }
}

/// Errors being gathered.
pub type Errors = Vec<FieldError>;

/// About the bytes that errors of one list show of it, all together, where each shows the whole list.
const SHOWN_OF_LISTS: usize = 1 << 20;

/// A turn for each error that shows the whole of `list`. Where the list is long, there are fewer turns than it has entries: each
/// entry telling all of them again would make an answer of gigabytes out of a request that fits.
pub fn whole_lists(list: &[Value]) -> std::ops::Range<usize> {
    let bytes: usize = list.iter().map(|one| Extent::of(one).bytes).sum();
    0..1 + SHOWN_OF_LISTS / bytes.max(1)
}

/// The text of a field; empty where there is none.
pub fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// The items of a field; none where it is no list.
pub fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value[field].as_array().map_or(&[], Vec::as_slice)
}

/// The members of a field; none where it is no object.
pub fn entries<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    value[field].as_object().into_iter().flatten()
}

/// Whether a list or map is absent or empty.
pub fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Null => true,
        _ => false,
    }
}

/// An amount as errors show it: as it is written.
pub fn amount_shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Adds an error for each message.
pub fn invalid_each(errors: &mut Errors, path: &Path<'_>, value: &str, messages: Vec<String>) {
    errors.extend(messages.into_iter().map(|message| FieldError::invalid(path, value, message)));
}

/// A number that must not be negative, where it is there.
pub fn non_negative(value: &Value, field: &str, path: &Path<'_>, errors: &mut Errors) {
    if let Some(number) = value[field].as_i64().filter(|number| *number < 0) {
        errors.push(FieldError::invalid(&path.child(field), number, "must be greater than or equal to 0"));
    }
}

/// A field that must stay what it was.
pub fn immutable(new: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    let same = new == old || (is_empty(new) && is_empty(old) && !new.is_string() && !old.is_string());
    if !same {
        errors.push(FieldError::invalid(path, encoded(new), "field is immutable"));
    }
}

/// A selector as Go's encoder writes it: without its members that were sent empty. Anything else as it is.
pub fn encoded(value: &Value) -> Value {
    const MEMBERS: [&str; 3] = ["matchLabels", "matchExpressions", "values"];
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, member)| (name.clone(), encoded(member)));
            let is_left_out = |name: &str, member: &Value| MEMBERS.contains(&name) && is_empty(member);
            Value::Object(fields.filter(|(name, member)| !is_left_out(name, member)).collect())
        }
        Value::Array(items) => items.iter().map(encoded).collect(),
        other => other.clone(),
    }
}

/// A text that must be one of `supported`, and must be there.
pub fn one_of(value: &Value, field: &str, supported: &[&str], path: &Path<'_>, errors: &mut Errors) {
    match text(value, field) {
        "" => errors.push(FieldError::required(&path.child(field), "")),
        other if supported.contains(&other) => {}
        other => errors.push(FieldError::not_supported(&path.child(field), other, supported)),
    }
}

/// An int-or-percent that must not be negative.
pub fn int_or_percent(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    match value {
        Value::String(percent) => invalid_each(errors, path, percent, names::percent(percent)),
        Value::Number(number) if number.as_i64().is_some_and(|n| n < 0) => {
            errors.push(FieldError::invalid(path, value.clone(), "must be greater than or equal to 0"));
        }
        _ => {}
    }
}

/// A percentage that must not be above 100.
pub fn at_most_all(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    let percent = value.as_str().and_then(|text| text.strip_suffix('%')?.parse::<u64>().ok());
    if percent.is_some_and(|percent| percent > 100) {
        errors.push(FieldError::invalid(path, value.clone(), "must not be greater than 100%"));
    }
}
