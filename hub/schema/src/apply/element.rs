//! One step of a field path, as fieldsV1 writes it.
//!
//! In: a field's name, a list element's keys or value, or a key of fieldsV1. Out: an [`Element`], which can be ordered and compared, and
//! written as fieldsV1 and messages have it. Pure.

use std::fmt;

use serde_json::Value;

/// A step. Keys and values are held as canonical JSON, so that equal ones are equal text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Element {
    /// `f:NAME`: a field or a map's key.
    Field(Box<str>),
    /// `k:{…}`: the element of a keyed list with these keys.
    Key(Box<str>),
    /// `v:VALUE`: an element of a set.
    Value(Box<str>),
    /// `i:INDEX`: an element by place.
    Index(i64),
}

impl Element {
    /// A field.
    pub fn field(name: &str) -> Element {
        Element::Field(name.into())
    }

    /// A keyed list's element.
    pub(super) fn key(keys: serde_json::Map<String, Value>) -> Element {
        Element::Key(canonical(Value::Object(keys)).into())
    }

    /// A set's element.
    pub(super) fn value(value: &Value) -> Element {
        Element::Value(canonical(value.clone()).into())
    }

    /// Reads one key of fieldsV1; `None` for prefixes that are not known.
    pub(super) fn parse(text: &str) -> Option<Element> {
        let (prefix, rest) = text.split_once(':')?;
        Some(match prefix {
            "f" => Element::Field(rest.into()),
            "k" => Element::Key(canonical(serde_json::from_str(rest).ok().filter(Value::is_object)?).into()),
            "v" => Element::Value(canonical(serde_json::from_str(rest).ok()?).into()),
            "i" => Element::Index(rest.parse().ok()?),
            _ => return None,
        })
    }

    /// The key in fieldsV1.
    pub(super) fn encode(&self) -> String {
        match self {
            Element::Field(name) => format!("f:{name}"),
            Element::Key(keys) => format!("k:{keys}"),
            Element::Value(value) => format!("v:{value}"),
            Element::Index(index) => format!("i:{index}"),
        }
    }
}

/// As error messages write it: `.spec`, `[name="nginx"]`, `[="x"]`, `[0]`.
impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Element::Field(name) => write!(f, ".{name}"),
            Element::Key(keys) => {
                let keys: serde_json::Map<String, Value> = serde_json::from_str(keys).unwrap_or_default();
                let pairs: Vec<String> = keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
                write!(f, "[{}]", pairs.join(","))
            }
            Element::Value(value) => write!(f, "[={value}]"),
            Element::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// A path as error messages write it.
pub(super) fn render(path: &[Element]) -> String {
    path.iter().map(ToString::to_string).collect()
}

/// JSON with sorted keys, and whole numbers as integers.
fn canonical(value: Value) -> String {
    fn normal(value: Value) -> Value {
        match value {
            Value::Number(number) if !number.is_i64() && !number.is_u64() => match number.as_f64() {
                Some(float) if float.fract() == 0.0 && float.abs() < 9e15 => (float as i64).into(),
                _ => Value::Number(number),
            },
            Value::Object(fields) => Value::Object(fields.into_iter().map(|(k, v)| (k, normal(v))).collect()),
            other => other,
        }
    }
    normal(value).to_string()
}
