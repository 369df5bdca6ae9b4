//! Reading an object as a Go decoder would: type errors in Go's words, unknown fields noted and dropped, and the value
//! left in the form a Go encoder writes (zero values out where `omitempty`, in where not).
//!
//! Getting this form right matters beyond looks: apply's field ownership and "did anything change" compare it.

use base64::Engine as _;
use serde_json::{Map, Value, json};

use super::arena::{Format, Type, flag};
use super::duplicate::REPORT_LIMIT;
use super::navigate::SchemaRef;
use super::path::Path;
use super::quantity::Quantity;
use super::{field_error::quote, time};

/// A body that cannot be held by the kind's Go type. `Display` is Go's message; the caller wraps it as
/// `KIND in version "VERSION" cannot be handled as a KIND: …` (400 BadRequest), which [`DecodeError::wrap`] does.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DecodeError(pub String);

impl DecodeError {
    /// The message of the 400 Status.
    pub fn wrap(&self, version: &str, kind: &str) -> String {
        format!("{kind} in version {} cannot be handled as a {kind}: {}", quote(version), self.0)
    }
}

/// Decodes `value` under a Go type's schema in place. Answers unknown fields, each as `unknown field "spec.foo"`.
///
/// # Errors
/// The first type mismatch, range error or malformed quantity, time or base64.
pub fn decode_go(schema: SchemaRef<'_>, value: &mut Value) -> Result<Vec<String>, DecodeError> {
    Ok(read_go(schema, value)?.unknown)
}

/// The same, with what was sent empty told too.
///
/// # Errors
/// As [`decode_go`].
pub fn read_go(schema: SchemaRef<'_>, value: &mut Value) -> Result<Read, DecodeError> {
    let mut decoder = Decoder { read: Read::default() };
    decoder.value(schema, value, Place { owner: "", path: &Path::ROOT, go_type: "" })?;
    Ok(decoder.read)
}

/// What a decoder tells beside the value.
#[derive(Debug, Default)]
pub struct Read {
    /// Unknown fields, each as `unknown field "spec.foo"`.
    pub unknown: Vec<String>,
    /// What was sent as an empty list or map, and is left out of the value, as it is in every encoding.
    pub empties: Empties,
}

/// Lists and maps that were sent empty: only validation tells them from none.
#[derive(Debug, Default)]
pub struct Empties(Vec<(String, Value)>);

impl Empties {
    /// Lays them in where nothing else was put, and where what holds them is still there.
    pub fn lay_in(&self, value: &mut Value) {
        for (at, empty) in &self.0 {
            let Some((above, name)) = at.rsplit_once('/') else { continue };
            if let Some(fields) = value.pointer_mut(above).and_then(Value::as_object_mut) {
                fields.entry(name).or_insert_with(|| empty.clone());
            }
        }
    }

    /// Whether the field at a JSON pointer was sent so.
    pub fn has(&self, pointer: &str) -> bool {
        self.0.iter().any(|(at, _)| at == pointer)
    }

    /// Whether there are none.
    pub fn is_none(&self) -> bool {
        self.0.is_empty()
    }
}

struct Decoder {
    read: Read,
}

/// Where the decoder is: the struct it is in, the path, and the Go type expected.
#[derive(Clone, Copy)]
struct Place<'a> {
    owner: &'a str,
    path: &'a Path<'a>,
    go_type: &'a str,
}

impl Place<'_> {
    fn mismatch(&self, what: &str) -> DecodeError {
        if self.owner.is_empty() {
            return DecodeError(format!(
                "json: cannot unmarshal {what} into Go value of type {}",
                self.go_type
            ));
        }
        DecodeError(format!(
            "json: cannot unmarshal {what} into Go struct field {}.{} of type {}",
            self.owner,
            self.path.fields(),
            self.go_type
        ))
    }
}

/// A JSON value's type, as Go's decoder calls it.
pub(crate) fn go_kind(value: &Value) -> &'static str {
    what(value)
}

fn what(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

impl Decoder {
    fn value(&mut self, schema: SchemaRef<'_>, value: &mut Value, at: Place<'_>) -> Result<(), DecodeError> {
        match schema.format() {
            Format::Quantity => return quantity(value),
            Format::IntOrString => return int_or_string(value, at),
            Format::DateTime => return timestamp(value, "2006-01-02T15:04:05Z07:00", time::seconds, at),
            Format::MicroTime => {
                return timestamp(value, "2006-01-02T15:04:05.000000Z07:00", time::micros, at);
            }
            Format::FieldsV1 => return Ok(()),
            Format::Byte => return bytes(value, at),
            _ => {}
        }
        match schema.ty() {
            Type::Any => Ok(()),
            _ if schema.preserves_unknown() && !schema.is_struct() => Ok(()),
            Type::String if value.is_string() => Ok(()),
            Type::Boolean if value.is_boolean() => Ok(()),
            Type::Number if value.is_number() => Ok(()),
            Type::Integer => integer(schema, value, at),
            Type::Array => self.list(schema, value, at),
            Type::Object if schema.is_struct() => self.structure(schema, value, at),
            Type::Object => self.map(schema, value, at),
            _ => Err(at.mismatch(what(value))),
        }
    }

    fn list(&mut self, schema: SchemaRef<'_>, value: &mut Value, at: Place<'_>) -> Result<(), DecodeError> {
        let mismatch = what(value);
        let Value::Array(items) = value else { return Err(at.mismatch(mismatch)) };
        let Some(element) = schema.items() else { return Ok(()) };
        let go_type = at.go_type.strip_prefix("[]").unwrap_or(at.go_type);
        for (index, item) in items.iter_mut().enumerate() {
            if item.is_null() {
                *item = zero(element);
            }
            self.value(element, item, Place { path: &at.path.index(index), go_type, ..at })?;
        }
        Ok(())
    }

    fn map(&mut self, schema: SchemaRef<'_>, value: &mut Value, at: Place<'_>) -> Result<(), DecodeError> {
        let mismatch = what(value);
        let Value::Object(entries) = value else { return Err(at.mismatch(mismatch)) };
        let Some(element) = schema.additional() else {
            // A struct without fields, such as FieldsV1's empty kin: every field is unknown.
            if schema.type_name().is_some() && !schema.preserves_unknown() && !schema.open() {
                for key in entries.keys() {
                    self.note(at.path, key);
                }
                entries.clear();
            }
            return Ok(());
        };
        let go_type = at.go_type.split_once(']').map_or(at.go_type, |(_, element)| element);
        for (key, item) in entries.iter_mut() {
            if item.is_null() {
                *item = zero(element);
                continue;
            }
            self.value(element, item, Place { path: &at.path.entry(key), go_type, ..at })?;
        }
        Ok(())
    }

    fn structure(
        &mut self,
        schema: SchemaRef<'_>,
        value: &mut Value,
        at: Place<'_>,
    ) -> Result<(), DecodeError> {
        let mismatch = what(value);
        let Value::Object(fields) = value else { return Err(at.mismatch(mismatch)) };
        let owner = schema.type_name().map_or("", |name| name.rsplit('.').next().unwrap_or(name));
        let mut drop = Vec::new();
        for (name, item) in fields.iter_mut() {
            let Some(property) = schema.property(name) else {
                self.note(at.path, name);
                drop.push(name.clone());
                continue;
            };
            if item.is_null() {
                drop.push(name.clone());
                continue;
            }
            let go_type = property.go_type().unwrap_or(type_of(property));
            self.value(property, item, Place { owner, path: &at.path.child(name), go_type })?;
        }
        for name in drop {
            fields.remove(&name);
        }
        encode(schema, fields, &mut |name, empty| {
            if matches!(empty, Value::Array(_) | Value::Object(_)) {
                self.read.empties.0.push((at.path.child(name).pointer(), empty));
            }
        });
        Ok(())
    }

    fn note(&mut self, path: &Path<'_>, name: &str) {
        if self.read.unknown.len() < REPORT_LIMIT {
            self.read.unknown.push(format!("unknown field {}", quote(&path.child(name).to_string())));
        }
    }
}

/// Leaves the fields as a Go encoder writes them; `dropped` is told what it leaves out.
fn encode(schema: SchemaRef<'_>, fields: &mut Map<String, Value>, dropped: &mut dyn FnMut(&str, Value)) {
    for (name, property, _) in schema.properties() {
        let kind = property.node().go_kind;
        if kind == 0 {
            continue;
        }
        let (omit, pointer) = (property.has(flag::GO_OMIT_EMPTY), property.has(flag::GO_POINTER));
        let Some(present) = fields.get(name) else {
            if !(omit && (pointer || kind != b's')) && !property.has(flag::GO_OMIT_ZERO) {
                fields.insert(name.to_owned(), if pointer { Value::Null } else { zero(property) });
            }
            continue;
        };
        if pointer {
            continue;
        }
        if omit && is_empty(present) && kind != b's' && !is_told_from_none(schema, name, fields) {
            let empty = fields.remove(name).unwrap_or_default();
            dropped(name, empty);
        }
    }
}

/// Lists and maps whose being there and empty is refused where their absence is not, or in other words: what holds one is never
/// stored.
fn is_told_from_none(schema: SchemaRef<'_>, name: &str, fields: &Map<String, Value>) -> bool {
    let owner = schema.type_name().map_or("", |name| name.rsplit('.').next().unwrap_or(name));
    match (owner, name) {
        ("HPAScalingRules", "policies") | ("PersistentVolumeSpec", "capacity") => true,
        ("IngressSpec", "rules") => !fields.contains_key("defaultBackend"),
        _ => false,
    }
}

/// Leaves the value as it comes back from storage, which does not tell an empty list or map from none.
pub fn forget_empties(schema: SchemaRef<'_>, value: &mut Value) {
    match value {
        Value::Array(items) => {
            let Some(element) = schema.items() else { return };
            items.iter_mut().for_each(|item| forget_empties(element, item));
        }
        Value::Object(fields) if schema.is_struct() => {
            for (name, item) in fields.iter_mut() {
                let Some(property) = schema.property(name) else { continue };
                let listed =
                    matches!(property.node().go_kind, b'l' | b'm') && !property.has(flag::GO_POINTER);
                if listed && !item.is_null() && is_empty(item) {
                    *item = Value::Null;
                } else {
                    forget_empties(property, item);
                }
            }
        }
        Value::Object(fields) => {
            let Some(element) = schema.additional() else { return };
            fields.values_mut().for_each(|item| forget_empties(element, item));
        }
        _ => {}
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(b) => !b,
        Value::Number(n) => n.as_f64() == Some(0.0),
        Value::String(s) => s.is_empty(),
        Value::Array(a) => a.is_empty(),
        Value::Object(o) => o.is_empty(),
    }
}

/// What an encoder writes for a field that was never set.
fn zero(schema: SchemaRef<'_>) -> Value {
    match (schema.format(), schema.ty()) {
        (Format::Quantity, _) => json!("0"),
        (Format::IntOrString, _) => json!(0),
        (Format::DateTime | Format::MicroTime | Format::Byte | Format::FieldsV1, _) | (_, Type::Any) => {
            Value::Null
        }
        (_, Type::String) => json!(""),
        (_, Type::Boolean) => json!(false),
        (_, Type::Integer | Type::Number) => json!(0),
        (_, Type::Array) => Value::Null,
        (_, Type::Object) if schema.is_struct() => {
            let mut fields = Map::new();
            encode(schema, &mut fields, &mut |_, _| {});
            Value::Object(fields)
        }
        (_, Type::Object) if schema.preserves_unknown() || schema.additional().is_some() => Value::Null,
        (_, Type::Object) => json!({}),
    }
}

/// A Go type's name where the facts hold none.
fn type_of(schema: SchemaRef<'_>) -> &'static str {
    match (schema.ty(), schema.format()) {
        (Type::String, _) => "string",
        (Type::Boolean, _) => "bool",
        (Type::Integer, Format::Int64) => "int64",
        (Type::Integer, _) => "int32",
        (Type::Number, _) => "float64",
        (Type::Array, _) => "[]interface {}",
        _ => "map[string]interface {}",
    }
}

fn integer(schema: SchemaRef<'_>, value: &Value, at: Place<'_>) -> Result<(), DecodeError> {
    let Value::Number(number) = value else { return Err(at.mismatch(what(value))) };
    let fits = match (schema.format(), number.as_i64()) {
        (_, None) => false,
        (Format::Int32, Some(n)) => i32::try_from(n).is_ok(),
        _ => true,
    };
    if fits { Ok(()) } else { Err(at.mismatch(&format!("number {number}"))) }
}

fn quantity(value: &mut Value) -> Result<(), DecodeError> {
    if value.is_null() {
        *value = json!("0");
        return Ok(());
    }
    let text = match &*value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    *value = Value::String(Quantity::written(text.trim()).map_err(|why| DecodeError(why.to_owned()))?);
    Ok(())
}

fn int_or_string(value: &Value, at: Place<'_>) -> Result<(), DecodeError> {
    match value {
        Value::String(_) => Ok(()),
        Value::Number(number) if number.as_i64().is_some_and(|n| i32::try_from(n).is_ok()) => Ok(()),
        Value::Number(number) => Err(Place { go_type: "int32", ..at }.mismatch(&format!("number {number}"))),
        other => Err(Place { go_type: "int32", ..at }.mismatch(what(other))),
    }
}

fn timestamp(
    value: &mut Value,
    layout: &str,
    write: fn(jiff::Timestamp) -> String,
    at: Place<'_>,
) -> Result<(), DecodeError> {
    let Value::String(text) = value else {
        return Err(Place { go_type: "string", ..at }.mismatch(what(value)));
    };
    if let Some(why) = time::problem(text, layout) {
        return Err(DecodeError(why));
    }
    let refuse = || DecodeError(format!("parsing time {text:?}: day out of range"));
    let parsed = time::parse(text).ok_or_else(refuse)?;
    *value = Value::String(write(parsed));
    Ok(())
}

fn bytes(value: &Value, at: Place<'_>) -> Result<(), DecodeError> {
    let Value::String(text) = value else { return Err(at.mismatch(what(value))) };
    let engine = base64::engine::general_purpose::STANDARD;
    // Go skips line breaks inside base64.
    let clean: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    engine.decode(&clean).map(|_| ()).map_err(|error| {
        let offset = match error {
            base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _) => at,
            base64::DecodeError::InvalidLength(_) | base64::DecodeError::InvalidPadding => {
                clean.len() / 4 * 4
            }
        };
        DecodeError(format!("illegal base64 data at input byte {offset}"))
    })
}
