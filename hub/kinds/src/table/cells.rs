//! Reading fields, and the cells that many kinds share.
//!
//! In: a table's row (an object and the time), JSON pointers, or values. Out: texts as `kubectl` shows them. Reading never fails: what is
//! absent or of another type is null, empty, 0, or `<none>`, `<unknown>` and `<unset>`.

use jiff::Timestamp;
use karmada_schema::time;
use serde_json::{Value, json};

use super::Row;
use karmada_schema::duration::human_duration;

pub(super) const NONE: &str = "<none>";
pub(super) const UNKNOWN: &str = "<unknown>";
pub(super) const UNSET: &str = "<unset>";

/// Reading an object's fields.
pub(super) trait Fields<'a>: Copy {
    /// The value at a JSON pointer; null where there is none.
    fn at(self, pointer: &str) -> &'a Value;
    fn text(self, pointer: &str) -> Option<&'a str>;
    /// Text, or `otherwise` where it is absent or empty.
    fn text_or(self, pointer: &str, otherwise: &str) -> Value;
    fn int(self, pointer: &str) -> i64;
    fn list(self, pointer: &str) -> &'a [Value];
    fn name(self) -> Value;
    fn time(self, pointer: &str) -> Option<Timestamp>;
    /// How long ago the time at `pointer` is; `<unknown>` where there is none.
    fn since(self, pointer: &str) -> String;
    fn age(self) -> Value;
    /// The condition of that type, whole, or `None`.
    fn condition(self, ty: &str) -> Option<&'a Value>;
    fn is_deleting(self) -> bool;
}

impl<'a> Fields<'a> for Row<'a> {
    fn at(self, pointer: &str) -> &'a Value {
        self.object.pointer(pointer).unwrap_or(&Value::Null)
    }

    fn text(self, pointer: &str) -> Option<&'a str> {
        self.at(pointer).as_str()
    }

    fn text_or(self, pointer: &str, otherwise: &str) -> Value {
        self.text(pointer).filter(|text| !text.is_empty()).unwrap_or(otherwise).into()
    }

    fn int(self, pointer: &str) -> i64 {
        self.at(pointer).as_i64().unwrap_or(0)
    }

    fn list(self, pointer: &str) -> &'a [Value] {
        self.at(pointer).as_array().map_or(&[], Vec::as_slice)
    }

    fn name(self) -> Value {
        self.text_or("/metadata/name", "")
    }

    fn time(self, pointer: &str) -> Option<Timestamp> {
        self.text(pointer).and_then(time::parse)
    }

    fn since(self, pointer: &str) -> String {
        since(self.time(pointer), self.now)
    }

    fn age(self) -> Value {
        self.since("/metadata/creationTimestamp").into()
    }

    fn condition(self, ty: &str) -> Option<&'a Value> {
        self.list("/status/conditions").iter().find(|condition| condition["type"] == ty)
    }

    fn is_deleting(self) -> bool {
        self.at("/metadata/deletionTimestamp").is_string()
    }
}

pub(super) fn since(time: Option<Timestamp>, now: Timestamp) -> String {
    time.map_or_else(|| UNKNOWN.to_owned(), |time| human_duration(now.as_second() - time.as_second()))
}

/// Name and age.
pub(crate) fn name_and_age(row: Row<'_>) -> Vec<Value> {
    vec![row.name(), row.age()]
}

/// Name and creation time, for kinds without a printer.
pub(crate) fn name_and_created(row: Row<'_>) -> Vec<Value> {
    vec![row.name(), row.at("/metadata/creationTimestamp").clone()]
}

/// Text fields of list elements, joined.
pub(super) fn joined(items: &[Value], field: &str, separator: &str) -> String {
    items.iter().map(|item| item[field].as_str().unwrap_or_default()).collect::<Vec<_>>().join(separator)
}

/// Text elements, joined.
pub(super) fn texts(items: &[Value], separator: &str) -> String {
    items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(separator)
}

/// Names and images of containers.
pub(super) fn containers(items: &[Value]) -> [Value; 2] {
    [joined(items, "name", ",").into(), joined(items, "image", ",").into()]
}

/// `a=b,c=d`, or `<none>`.
pub(super) fn labels(map: &Value) -> String {
    let pairs: Vec<String> = map
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    if pairs.is_empty() { NONE.to_owned() } else { pairs.join(",") }
}

/// A label selector as text, requirements in the order of their keys; may be empty.
pub(super) fn selector(selector: &Value) -> String {
    let mut parts: Vec<(String, String)> = Vec::new();
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        parts.push((key.clone(), format!("{key}={}", value.as_str().unwrap_or_default())));
    }
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = expression["key"].as_str().unwrap_or_default();
        let mut values: Vec<&str> =
            expression["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let text = match expression["operator"].as_str() {
            Some("In") => format!("{key} in ({})", values.join(",")),
            Some("NotIn") => format!("{key} notin ({})", values.join(",")),
            Some("Exists") => key.to_owned(),
            Some("DoesNotExist") => format!("!{key}"),
            _ => return "<error>".to_owned(),
        };
        parts.push((key.to_owned(), text));
    }
    parts.sort_by(|a, b| a.0.cmp(&b.0));
    parts.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(",")
}

/// A label selector as text, or `<none>`.
pub(super) fn selector_or_none(value: &Value) -> Value {
    let text = selector(value);
    if text.is_empty() { NONE.into() } else { text.into() }
}

/// An int-or-string, a quantity or any scalar as text.
pub(super) fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "0".to_owned(),
        other => other.to_string(),
    }
}

/// How many keys a map has.
pub(super) fn count(value: &Value) -> Value {
    json!(value.as_object().map_or(0, serde_json::Map::len))
}

/// The first `max` texts, and how many more there are.
pub(super) fn first_few(list: &[String], total: usize, max: usize, empty: &str) -> String {
    let shown = list.iter().take(max).cloned().collect::<Vec<_>>().join(",");
    if list.len() > max {
        format!("{shown} + {} more...", total - max)
    } else if shown.is_empty() {
        empty.to_owned()
    } else {
        shown
    }
}
