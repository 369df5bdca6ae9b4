//! Writes JSON as a message: from names to field numbers.
//!
//! In: an object, a list or an event of a watch as JSON. Out: its bytes, or [`Unsupported`] for a kind that has no protobuf form.
//! What the message has no field for is left out, as a Go client of that version would not see it either.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value};

use super::ProtobufError::{self, Unsupported};
use super::{MAGIC, message, message_name};

const NUMBER: u64 = 0;
const DOUBLE: u64 = 1;
const BYTES: u64 = 2;

/// One object with its envelope.
///
/// # Errors
/// [`Unsupported`] where its kind has no protobuf form.
pub fn encode(object: &Value) -> Result<Vec<u8>, ProtobufError> {
    let (api_version, kind) = type_of(object);
    let fields = known(api_version, kind)?;
    let mut raw = Vec::new();
    if let Some(object) = object.as_object() {
        write_message(object, fields, &mut raw);
    }
    let mut out = head(api_version, kind, raw.len());
    out.extend_from_slice(&raw);
    Ok(out)
}

/// One event of a watch with the length before it that tells where the next begins. `object`: an object with its envelope.
pub fn event(kind: &str, object: &[u8]) -> Vec<u8> {
    let mut held = Vec::with_capacity(object.len() + 8);
    put_bytes(1, object, &mut held);
    let mut event = Vec::with_capacity(held.len() + kind.len() + 8);
    put_bytes(1, kind.as_bytes(), &mut event);
    put_bytes(2, &held, &mut event);
    let mut framed = u32::try_from(event.len()).unwrap_or(u32::MAX).to_be_bytes().to_vec();
    framed.extend_from_slice(&event);
    framed
}

/// A list that is written item by item: its length stands before it, so each item is measured first, and made again when it is sent.
pub struct List {
    fields: &'static str,
    head: (String, String),
    metadata: Vec<u8>,
    length: usize,
}

impl List {
    /// A list of `kind` (as in `PodList`) whose items are of `item`.
    ///
    /// # Errors
    /// [`Unsupported`] where the items' kind has no protobuf form.
    pub fn new(
        api_version: &str,
        kind: &str,
        item: (&str, &str),
        metadata: &Value,
    ) -> Result<List, ProtobufError> {
        let fields = known(item.0, item.1)?;
        let (mut inner, mut outer) = (Vec::new(), Vec::new());
        if let (Some(metadata), Some(fields)) = (metadata.as_object(), message("meta.v1.ListMeta")) {
            write_message(metadata, fields, &mut inner);
        }
        put_bytes(1, &inner, &mut outer);
        let length = outer.len();
        Ok(List { fields, head: (api_version.to_owned(), kind.to_owned()), metadata: outer, length })
    }

    /// Counts an item in. Its bytes, as [`List::item`] makes them, are not kept.
    pub fn measure(&mut self, item: &Value) {
        self.length += self.item(item).len();
    }

    /// What stands before the items, once all are measured.
    pub fn start(&self) -> Vec<u8> {
        let mut out = head(&self.head.0, &self.head.1, self.length);
        out.extend_from_slice(&self.metadata);
        out
    }

    /// Bytes of the whole list, once all items are measured.
    pub fn size(&self) -> usize {
        self.start().len() + self.length - self.metadata.len()
    }

    /// One item as it stands in the list.
    pub fn item(&self, item: &Value) -> Vec<u8> {
        let (mut inner, mut out) = (Vec::new(), Vec::new());
        if let Some(item) = item.as_object() {
            write_message(item, self.fields, &mut inner);
        }
        put_bytes(2, &inner, &mut out);
        out
    }
}

fn type_of(object: &Value) -> (&str, &str) {
    (object["apiVersion"].as_str().unwrap_or(""), object["kind"].as_str().unwrap_or(""))
}

fn known(api_version: &str, kind: &str) -> Result<&'static str, ProtobufError> {
    message(&message_name(api_version, kind)).ok_or_else(|| Unsupported(format!("{api_version} {kind}")))
}

/// Everything before `length` bytes of the object's own message.
fn head(api_version: &str, kind: &str, length: usize) -> Vec<u8> {
    let mut kinds = Vec::new();
    put_bytes(1, api_version.as_bytes(), &mut kinds);
    put_bytes(2, kind.as_bytes(), &mut kinds);
    let mut out = MAGIC.to_vec();
    put_bytes(1, &kinds, &mut out);
    put_varint(2 << 3 | BYTES, &mut out);
    put_varint(length as u64, &mut out);
    out
}

fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        #[allow(clippy::cast_possible_truncation, reason = "seven bits")]
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    #[allow(clippy::cast_possible_truncation, reason = "seven bits")]
    out.push(value as u8);
}

fn put_bytes(number: u64, bytes: &[u8], out: &mut Vec<u8>) {
    put_varint(number << 3 | BYTES, out);
    put_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn put_number(number: u64, value: u64, out: &mut Vec<u8>) {
    put_varint(number << 3 | NUMBER, out);
    put_varint(value, out);
}

/// Recursion ends with the JSON's own depth, which whoever parsed it has bounded.
fn write_message(object: &Map<String, Value>, fields: &'static str, out: &mut Vec<u8>) {
    for field in fields.split(' ') {
        let mut parts = field.splitn(3, ':');
        let number = parts.next().and_then(|number| number.parse::<u64>().ok());
        let (Some(number), Some(name), Some(kind)) = (number, parts.next(), parts.next()) else { continue };
        if let Some(inlined) = kind.strip_prefix("^m") {
            let mut inner = Vec::new();
            write_message(object, message(inlined).unwrap_or(""), &mut inner);
            if !inner.is_empty() {
                put_bytes(number, &inner, out);
            }
            continue;
        }
        let Some(value) = object.get(name).filter(|value| !value.is_null()) else { continue };
        match (kind.split_at(1), value) {
            (("[", kind), Value::Array(items)) => {
                items.iter().for_each(|item| write_value(number, item, kind, out));
            }
            (("{", kind), Value::Object(entries)) => {
                for (key, value) in entries {
                    let mut entry = Vec::new();
                    put_bytes(1, key.as_bytes(), &mut entry);
                    write_value(2, value, kind, &mut entry);
                    put_bytes(number, &entry, out);
                }
            }
            _ => write_value(number, value, kind, out),
        }
    }
}

/// A value of another type than its field's was never let in by the decoder; it is left out.
fn write_value(number: u64, value: &Value, kind: &'static str, out: &mut Vec<u8>) {
    let (letter, name) = kind.split_at(1);
    match (letter, value) {
        ("b", Value::Bool(yes)) => put_number(number, u64::from(*yes), out),
        ("i", Value::Number(_)) => put_number(number, integer(value), out),
        ("f", Value::Number(n)) => {
            put_varint(number << 3 | DOUBLE, out);
            out.extend_from_slice(&n.as_f64().unwrap_or_default().to_le_bytes());
        }
        ("s", Value::String(text)) => put_bytes(number, text.as_bytes(), out),
        // A name is text in Go, and null in a list of them is the empty text.
        ("s", Value::Null) => put_bytes(number, b"", out),
        ("y", Value::String(text)) => {
            put_bytes(number, &BASE64.decode(text).unwrap_or_default(), out);
        }
        ("m", Value::Object(object)) => {
            let mut inner = Vec::new();
            write_message(object, message(name).unwrap_or(""), &mut inner);
            put_bytes(number, &inner, out);
        }
        ("m", Value::Null) => put_bytes(number, b"", out),
        ("o", value) => {
            let mut inner = Vec::new();
            write_message(&alternative(value), message(name).unwrap_or(""), &mut inner);
            put_bytes(number, &inner, out);
        }
        _ => {
            if let Some(inner) = scalar(letter, value) {
                put_bytes(number, &inner, out);
            }
        }
    }
}

#[allow(clippy::cast_sign_loss, clippy::cast_possible_truncation, reason = "two's complement on the wire")]
fn integer(value: &Value) -> u64 {
    let whole = value.as_i64().map(|n| n as u64).or_else(|| value.as_u64());
    whole.unwrap_or_else(|| value.as_f64().unwrap_or_default() as i64 as u64)
}

/// Which field of a schema, or of what stands in its place, a JSON value is.
fn alternative(value: &Value) -> Map<String, Value> {
    let field = |name: &str| (name.to_owned(), value.clone());
    match value {
        Value::Object(_) => [("allows".to_owned(), Value::Bool(true)), field("schema")].into_iter().collect(),
        Value::Array(_) => [field("schemas"), field("property")].into_iter().collect(),
        _ => [field("allows")].into_iter().collect(),
    }
}

/// Types that are one text or number in JSON and a message of their own on the wire.
fn scalar(letter: &str, value: &Value) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    match letter {
        "Q" => match value {
            Value::String(text) => put_bytes(1, text.as_bytes(), &mut out),
            value => put_bytes(1, value.to_string().as_bytes(), &mut out),
        },
        "T" | "U" => moment(value.as_str()?, &mut out)?,
        "D" => put_number(1, nanoseconds(value.as_str()?)?.cast_unsigned(), &mut out),
        "R" => put_bytes(1, value.to_string().as_bytes(), &mut out),
        "I" => match value {
            Value::String(text) => {
                put_number(1, 1, &mut out);
                put_number(2, 0, &mut out);
                put_bytes(3, text.as_bytes(), &mut out);
            }
            value => {
                put_number(1, 0, &mut out);
                put_number(2, integer(value), &mut out);
                put_bytes(3, b"", &mut out);
            }
        },
        "l" => {
            for text in value.as_array()? {
                put_bytes(1, text.as_str().unwrap_or_default().as_bytes(), &mut out);
            }
        }
        _ => return None,
    }
    Some(out)
}

fn moment(text: &str, out: &mut Vec<u8>) -> Option<()> {
    let moment: jiff::Timestamp = text.parse().ok()?;
    put_number(1, moment.as_second().cast_unsigned(), out);
    put_number(2, i64::from(moment.subsec_nanosecond()).cast_unsigned(), out);
    Some(())
}

/// `1h2m3.5s` and the like, as Go's `time.Duration` is written, in nanoseconds.
fn nanoseconds(text: &str) -> Option<i64> {
    let (sign, mut rest) = text.strip_prefix('-').map_or((1.0, text), |rest| (-1.0, rest));
    let mut sum = 0.0;
    while !rest.is_empty() && rest != "0" {
        let unit_at = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..unit_at].parse().ok()?;
        let unit_end =
            rest[unit_at..].find(|c: char| c.is_ascii_digit()).map_or(rest.len(), |at| unit_at + at);
        sum += number
            * match &rest[unit_at..unit_end] {
                "ns" => 1.0,
                "us" | "µs" => 1e3,
                "ms" => 1e6,
                "s" => 1e9,
                "m" => 60e9,
                "h" => 3600e9,
                _ => return None,
            };
        rest = &rest[unit_end..];
    }
    #[allow(clippy::cast_possible_truncation, reason = "a cast of f64 saturates")]
    Some((sign * sum).round() as i64)
}
