//! Values of expressions: made from JSON, plainly or as a schema reads it.
//!
//! In: JSON, with or without a schema; an authorizer. Out: a [`Value`]; and its truth, text or JSON, where it has one. A text that is not
//! of its schema's format stays a text. Pure.

use std::collections::HashMap;
use std::sync::Arc;

use kube_cel::cel;
use kube_cel::cel::objects::{Key, Map};
use serde_json::Value as Json;

use crate::authorizer::{self, Authorizer, Question};
use crate::escape;
use crate::functions::library;
use crate::types::{Format, Shape};

/// A value that an expression can name or yield. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Value(pub(crate) cel::Value);

impl Value {
    /// The `authorizer` of a request; with a resource, its `authorizer.requestResource`.
    pub fn authorizer(authorizer: Arc<dyn Authorizer>, question: Question) -> Value {
        Value(authorizer::value(authorizer, question))
    }

    /// `null`.
    pub fn null() -> Value {
        Value(cel::Value::Null)
    }

    /// Text.
    pub fn text(text: &str) -> Value {
        Value(cel::Value::String(Arc::new(text.to_owned())))
    }

    /// JSON without a schema: names stand as they are, texts stay texts.
    pub fn from_json(json: &Json) -> Value {
        Value(plain(json))
    }

    /// JSON as its schema reads it: texts with a format become times and bytes, numbers what the schema says, and names of
    /// fields are escaped.
    pub fn from_json_as<S: Shape>(json: &Json, shape: S) -> Value {
        Value(shaped(json, shape))
    }

    /// A map of values by name: `variables`.
    pub fn map<'a>(entries: impl IntoIterator<Item = (&'a str, Value)>) -> Value {
        let entries = entries.into_iter().map(|(name, value)| (key(name.to_owned()), value.0));
        Value(cel::Value::Map(Map { map: Arc::new(entries.collect()) }))
    }

    /// The value, wrapped as one that may be missing.
    pub fn optional(value: Option<Value>) -> Value {
        let optional = match value {
            Some(value) => cel::objects::OptionalValue::of(value.0),
            None => cel::objects::OptionalValue::none(),
        };
        Value(cel::Value::Opaque(Arc::new(optional)))
    }

    /// The truth value, where it is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self.0 {
            cel::Value::Bool(truth) => Some(truth),
            _ => None,
        }
    }

    /// The text, where it is one.
    pub fn as_text(&self) -> Option<&str> {
        match &self.0 {
            cel::Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// As JSON, where JSON has it: not times, not the library's own types.
    pub fn to_json(&self) -> Option<Json> {
        json(&self.0)
    }
}

fn json(value: &cel::Value) -> Option<Json> {
    Some(match value {
        cel::Value::Null => Json::Null,
        cel::Value::Bool(truth) => Json::Bool(*truth),
        cel::Value::Int(number) => Json::from(*number),
        cel::Value::UInt(number) => Json::from(*number),
        cel::Value::Float(number) => Json::from(*number),
        cel::Value::String(text) => Json::String(text.to_string()),
        cel::Value::List(items) => Json::Array(items.iter().map(json).collect::<Option<_>>()?),
        cel::Value::Map(map) => {
            let entries = map.map.iter().map(|(key, value)| Some((key.to_string(), json(value)?)));
            Json::Object(entries.collect::<Option<_>>()?)
        }
        _ => return None,
    })
}

fn key(name: String) -> Key {
    Key::String(Arc::new(name))
}

fn number(number: &serde_json::Number) -> cel::Value {
    match (number.as_i64(), number.as_u64()) {
        (Some(whole), _) => cel::Value::Int(whole),
        (None, Some(whole)) => cel::Value::UInt(whole),
        (None, None) => cel::Value::Float(number.as_f64().unwrap_or(f64::NAN)),
    }
}

fn plain(json: &Json) -> cel::Value {
    match json {
        Json::Null => cel::Value::Null,
        Json::Bool(truth) => cel::Value::Bool(*truth),
        Json::Number(n) => number(n),
        Json::String(text) => cel::Value::String(Arc::new(text.clone())),
        Json::Array(items) => cel::Value::List(Arc::new(items.iter().map(plain).collect())),
        Json::Object(fields) => {
            let entries: HashMap<Key, cel::Value> =
                fields.iter().map(|(name, value)| (key(name.clone()), plain(value))).collect();
            cel::Value::Map(Map { map: Arc::new(entries) })
        }
    }
}

fn shaped<S: Shape>(json: &Json, shape: S) -> cel::Value {
    match json {
        Json::Number(n) => match (shape.json_type(), n.as_f64()) {
            ("number", Some(float)) => cel::Value::Float(float),
            ("integer", Some(float)) if n.as_i64().is_none() && float.fract() == 0.0 => {
                cel::Value::Int(float as i64)
            }
            _ => number(n),
        },
        Json::String(text) if shape.json_type() == "string" => formatted(text, shape.format()),
        Json::Array(items) => {
            let element = shape.items();
            let item = |item: &Json| element.map_or_else(|| plain(item), |element| shaped(item, element));
            cel::Value::List(Arc::new(items.iter().map(item).collect()))
        }
        Json::Object(fields) => cel::Value::Map(Map { map: Arc::new(object(fields, shape)) }),
        other => plain(other),
    }
}

fn object<S: Shape>(fields: &serde_json::Map<String, Json>, shape: S) -> HashMap<Key, cel::Value> {
    let open = shape.additional();
    let mut out = HashMap::with_capacity(fields.len());
    for (name, value) in fields {
        if let Some(values) = open {
            out.insert(key(name.clone()), shaped(value, values));
        } else if let Some(property) = shape.property(name) {
            if let Some(name) = escape(name) {
                out.insert(key(name), shaped(value, property));
            }
        } else {
            // Fields that nothing declares are of no type; expressions over known types cannot name them.
            out.insert(key(escape(name).unwrap_or_else(|| name.clone())), plain(value));
        }
    }
    out
}

fn formatted(text: &str, format: Format) -> cel::Value {
    let function = match format {
        Format::Text => return cel::Value::String(Arc::new(text.to_owned())),
        Format::Byte => {
            return match decode_base64(text) {
                Some(bytes) => cel::Value::Bytes(Arc::new(bytes)),
                None => cel::Value::String(Arc::new(text.to_owned())),
            };
        }
        Format::Duration => "duration",
        Format::DateTime | Format::Date => "timestamp",
    };
    let text = if format == Format::Date { format!("{text}T00:00:00Z") } else { text.to_owned() };
    // The interpreter's own reading of times, so that they compare with what expressions make.
    let value = cel::Value::String(Arc::new(text));
    library::convert(function, value.clone()).unwrap_or(value)
}

fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let digits = text.trim_end_matches('=');
    if !text.len().is_multiple_of(4) || text.len() - digits.len() > 2 {
        return None;
    }
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    for group in digits.as_bytes().chunks(4) {
        let mut bits = 0u32;
        for byte in group {
            bits = bits << 6 | u32::from(value(*byte)?);
        }
        bits <<= 6 * (4 - group.len());
        out.extend_from_slice(&bits.to_be_bytes()[1..group.len()]);
    }
    Some(out)
}
