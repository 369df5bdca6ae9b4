//! Reads a message into JSON: from field numbers to names.
//!
//! In: the bytes of one message and its fields as the data file writes them. Out: JSON, or what is malformed.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value, json};

use super::ProtobufError::{self, Malformed, Unsupported};
use super::{MAX_DEPTH, message};
use karmada_quantity::Quantity;

#[derive(Clone, Copy)]
pub(super) enum Wire<'a> {
    Number(u64),
    Fixed(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message on the wire, in order.
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Wire<'a>), ProtobufError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let read = self.read();
        if read.is_err() {
            self.0 = &[];
        }
        Some(read)
    }
}

impl<'a> Fields<'a> {
    fn read(&mut self) -> Result<(u64, Wire<'a>), ProtobufError> {
        let tag = self.varint()?;
        let wire = match tag & 7 {
            0 => Wire::Number(self.varint()?),
            1 => Wire::Fixed(u64::from_le_bytes(
                self.take(8)?.try_into().map_err(|_| Malformed("a short number"))?,
            )),
            2 => {
                let length =
                    usize::try_from(self.varint()?).map_err(|_| Malformed("a length beyond the body"))?;
                Wire::Bytes(self.take(length)?)
            }
            5 => Wire::Fixed(u64::from(u32::from_le_bytes(
                self.take(4)?.try_into().map_err(|_| Malformed("a short number"))?,
            ))),
            _ => return Err(Malformed("an unknown wire type")),
        };
        Ok((tag >> 3, wire))
    }

    fn varint(&mut self) -> Result<u64, ProtobufError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed("a number that does not end"))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], ProtobufError> {
        if self.0.len() < length {
            return Err(Malformed("it breaks off"));
        }
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        Ok(taken)
    }
}

pub(super) fn utf8(bytes: &[u8]) -> Result<&str, ProtobufError> {
    std::str::from_utf8(bytes).map_err(|_| Malformed("a text that is no UTF-8"))
}

pub(super) fn read_message(
    bytes: &[u8],
    fields: &'static str,
    object: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), ProtobufError> {
    if depth > MAX_DEPTH {
        return Err(Malformed("it nests too deeply"));
    }
    for field in Fields(bytes) {
        let (number, wire) = field?;
        let Some((name, kind)) = find_field(fields, number) else { continue };
        match kind.split_at(1) {
            ("^", rest) => read_nested(wire, rest, object, depth)?,
            ("[", rest) => {
                let list = object.entry(name).or_insert_with(|| json!([]));
                let item = read_value(wire, rest, depth)?;
                if let Some(list) = list.as_array_mut() {
                    list.push(item);
                }
            }
            ("{", rest) => {
                let (key, value) = read_entry(wire, rest, depth)?;
                let map = object.entry(name).or_insert_with(|| json!({}));
                if let Some(map) = map.as_object_mut() {
                    map.insert(key, value);
                }
            }
            _ => {
                object.insert(name.to_owned(), read_value(wire, kind, depth)?);
            }
        }
    }
    Ok(())
}

/// The JSON name and type of a field.
fn find_field(fields: &'static str, number: u64) -> Option<(&'static str, &'static str)> {
    fields.split(' ').find_map(|field| {
        let (n, rest) = field.split_once(':')?;
        (n.parse() == Ok(number)).then(|| rest.split_once(':')).flatten()
    })
}

fn read_nested(
    wire: Wire<'_>,
    kind: &'static str,
    object: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), ProtobufError> {
    let Wire::Bytes(bytes) = wire else { return Err(Malformed("a message was expected")) };
    let name = kind.get(1..).unwrap_or_default();
    let fields = message(name).ok_or_else(|| Unsupported(name.to_owned()))?;
    read_message(bytes, fields, object, depth + 1)
}

fn read_entry(wire: Wire<'_>, kind: &'static str, depth: usize) -> Result<(String, Value), ProtobufError> {
    let Wire::Bytes(bytes) = wire else { return Err(Malformed("a map entry was expected")) };
    let (mut key, mut value) = (String::new(), None);
    for field in Fields(bytes) {
        match field? {
            (1, Wire::Bytes(text)) => key = utf8(text)?.to_owned(),
            (2, wire) => value = Some(read_value(wire, kind, depth)?),
            _ => {}
        }
    }
    let value = value.map_or_else(|| empty(kind), Ok)?;
    Ok((key, value))
}

/// What a map value is that was not written because it is empty.
fn empty(kind: &'static str) -> Result<Value, ProtobufError> {
    match kind {
        "b" => Ok(json!(false)),
        "i" | "f" => Ok(json!(0)),
        "s" | "y" => Ok(json!("")),
        _ => read_value(Wire::Bytes(&[]), kind, 0),
    }
}

fn read_value(wire: Wire<'_>, kind: &'static str, depth: usize) -> Result<Value, ProtobufError> {
    match (kind.split_at(1).0, wire) {
        ("b", Wire::Number(n)) => Ok(json!(n != 0)),
        #[allow(clippy::cast_possible_wrap, reason = "int32 and int64 are two's complement on the wire")]
        ("i", Wire::Number(n)) => Ok(json!(n as i64)),
        ("f", Wire::Fixed(bits)) => Ok(float(f64::from_bits(bits))),
        ("s", Wire::Bytes(bytes)) => Ok(json!(utf8(bytes)?)),
        ("y", Wire::Bytes(bytes)) => Ok(json!(BASE64.encode(bytes))),
        ("Q", Wire::Bytes(bytes)) => quantity(bytes),
        ("T", Wire::Bytes(bytes)) => time(bytes, "%Y-%m-%dT%H:%M:%SZ"),
        ("U", Wire::Bytes(bytes)) => time(bytes, "%Y-%m-%dT%H:%M:%S.%6fZ"),
        ("D", Wire::Bytes(bytes)) => duration(bytes),
        ("R", Wire::Bytes(bytes)) => raw(bytes),
        ("I", Wire::Bytes(bytes)) => int_or_string(bytes),
        ("l", Wire::Bytes(bytes)) => texts(bytes),
        ("o", wire) => {
            let mut fields = Map::new();
            read_nested(wire, kind, &mut fields, depth)?;
            Ok(alternative(fields))
        }
        ("m", wire) => {
            let mut object = Map::new();
            read_nested(wire, kind, &mut object, depth)?;
            Ok(Value::Object(object))
        }
        _ => Err(Malformed("a field has another type than its kind says")),
    }
}

/// A number as Go writes it: without a fraction where it has none.
fn float(number: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    #[allow(clippy::cast_possible_truncation, reason = "whole, and within what i64 holds")]
    match number.fract() == 0.0 && number.abs() < EXACT {
        true => json!(number as i64),
        false => json!(number),
    }
}

/// Of a schema and what may stand in its place (a bool, schemas, names of properties), JSON shows the one that is there.
fn alternative(mut fields: Map<String, Value>) -> Value {
    let there = ["schema", "schemas", "property", "allows"].into_iter().find_map(|name| fields.remove(name));
    there.unwrap_or(Value::Bool(false))
}

fn quantity(bytes: &[u8]) -> Result<Value, ProtobufError> {
    for field in Fields(bytes) {
        if let (1, Wire::Bytes(text)) = field? {
            let text = utf8(text)?;
            let unfit = |why| ProtobufError::Unfit(String::new(), String::new(), why);
            Quantity::read(text).map_err(unfit)?;
            return Ok(json!(text));
        }
    }
    Ok(json!("0"))
}

fn numbers(bytes: &[u8]) -> Result<[Option<u64>; 3], ProtobufError> {
    let mut found = [None; 3];
    for field in Fields(bytes) {
        if let (n @ 1..=3, Wire::Number(value)) = field? {
            found[n as usize - 1] = Some(value);
        }
    }
    Ok(found)
}

/// A moment; the zero time of Go is null.
#[allow(
    clippy::cast_possible_wrap,
    clippy::cast_possible_truncation,
    reason = "two's complement on the wire"
)]
fn time(bytes: &[u8], format: &str) -> Result<Value, ProtobufError> {
    let [Some(seconds), nanos, _] = numbers(bytes)? else { return Ok(Value::Null) };
    let moment = jiff::Timestamp::new(seconds as i64, nanos.unwrap_or(0) as i32)
        .map_err(|_| Malformed("a time out of range"))?;
    Ok(json!(moment.strftime(format).to_string()))
}

#[allow(clippy::cast_possible_wrap, reason = "two's complement on the wire")]
fn duration(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let [nanos, ..] = numbers(bytes)?;
    let nanos = nanos.unwrap_or(0) as i64;
    Ok(json!(format!("{}s", nanos as f64 / 1e9)))
}

fn raw(bytes: &[u8]) -> Result<Value, ProtobufError> {
    for field in Fields(bytes) {
        if let (1, Wire::Bytes(json)) = field? {
            return serde_json::from_slice(json).map_err(|_| Malformed("raw JSON that cannot be read"));
        }
    }
    Ok(Value::Null)
}

#[allow(clippy::cast_possible_wrap, reason = "two's complement on the wire")]
fn int_or_string(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let (mut is_text, mut number, mut text) = (false, 0i64, "");
    for field in Fields(bytes) {
        match field? {
            (1, Wire::Number(n)) => is_text = n == 1,
            (2, Wire::Number(n)) => number = n as i64,
            (3, Wire::Bytes(bytes)) => text = utf8(bytes)?,
            _ => {}
        }
    }
    Ok(if is_text { json!(text) } else { json!(number) })
}

fn texts(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let mut list = Vec::new();
    for field in Fields(bytes) {
        if let (1, Wire::Bytes(text)) = field? {
            list.push(json!(utf8(text)?));
        }
    }
    Ok(Value::Array(list))
}
