//! Reading an object as a Go decoder would: type errors in Go's words, unknown fields noted and dropped, and the value
//! left in the form a Go encoder writes (zero values out where `omitempty`, in where not).
//!
//! Getting this form right matters beyond looks: apply's field ownership and "did anything change" compare it.
//!
//! In: a schema with Go facts, and a parsed body. Out: the body changed in place, with the unknown fields and what was sent empty; or the
//! first thing that Go's decoder could not hold. Pure; defaults are laid in elsewhere.

use super::go_type_errors::{DecodeError, GoPosition, what};
use serde_json::{Map, Value, json};

use super::arena::{Format, Type, flag};
use super::duplicate::REPORT_LIMIT;
use super::navigate::SchemaRef;
use super::path::Path;
use super::scalars::{bytes, int_or_string, integer, quantity, timestamp};
use super::time;
use karmada_field::quote;

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
    let mut decoder = Decoder::default();
    decoder.value(schema, value, GoPosition { owner: "", path: &Path::ROOT, go_type: "" })?;
    decoder.read()
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

    /// Whether there is one outside the metadata, and nothing was put in its place.
    pub fn stay_in(&self, value: &Value) -> bool {
        let content = self.0.iter().filter(|(at, _)| !at.starts_with("/metadata/"));
        content.filter(|(at, _)| value.pointer(at).is_none()).count() > 0
    }

    /// Whether there are none.
    pub fn is_none(&self) -> bool {
        self.0.is_empty()
    }
}

#[derive(Default)]
struct Decoder<'s> {
    read: Read,
    /// The first mismatch: Go's decoder goes on behind it, and a type that reads itself and fails is told of instead.
    mismatch: Option<DecodeError>,
    /// The schema of schemas, once it was met.
    props: Option<SchemaRef<'s>>,
}

/// A JSON value's type, as Go's decoder calls it.
pub fn go_kind(value: &Value) -> &'static str {
    what(value)
}

impl<'s> Decoder<'s> {
    /// What was read, or the first mismatch.
    fn read(self) -> Result<Read, DecodeError> {
        self.mismatch.map_or(Ok(self.read), Err)
    }

    /// Notes a value that does not fit; what is behind it is still read.
    fn refuse(&mut self, error: DecodeError) -> Result<(), DecodeError> {
        self.mismatch.get_or_insert(error);
        Ok(())
    }

    fn value(
        &mut self,
        schema: SchemaRef<'s>,
        value: &mut Value,
        at: GoPosition<'_>,
    ) -> Result<(), DecodeError> {
        match schema.format() {
            Format::Quantity => return quantity(value),
            Format::IntOrString => return int_or_string(value, at),
            Format::DateTime => return timestamp(value, "2006-01-02T15:04:05Z07:00", time::seconds, at),
            Format::MicroTime => {
                return timestamp(value, "2006-01-02T15:04:05.000000Z07:00", time::micros, at);
            }
            Format::FieldsV1 => return Ok(()),
            Format::Byte => return bytes(value, at).or_else(|error| self.refuse(error)),
            _ => {}
        }
        match schema.ty() {
            Type::Any => self.schema_or_else(schema, value, at),
            _ if schema.preserves_unknown() && !schema.is_struct() => Ok(()),
            Type::String if value.is_string() => Ok(()),
            Type::Boolean if value.is_boolean() => Ok(()),
            Type::Number if value.is_number() => Ok(()),
            Type::Integer => integer(schema, value, at).or_else(|error| self.refuse(error)),
            Type::Array => self.list(schema, value, at),
            Type::Object if schema.is_struct() => self.structure(schema, value, at),
            Type::Object => self.map(schema, value, at),
            _ => self.refuse(at.mismatch(what(value))),
        }
    }

    /// Where a schema or something else may stand: such types read themselves, apart from what is around them.
    fn schema_or_else(
        &mut self,
        schema: SchemaRef<'s>,
        value: &mut Value,
        at: GoPosition<'_>,
    ) -> Result<(), DecodeError> {
        let name = schema.type_name().and_then(|name| name.rsplit('.').next()).unwrap_or_default();
        let (Some(props), Some(other)) = (self.props, name.strip_prefix("JSONSchemaPropsOr")) else {
            return Ok(());
        };
        let mut apart = Decoder { props: self.props, ..Decoder::default() };
        match (other, &mut *value) {
            (_, Value::Object(_)) => apart.value(props, value, at)?,
            ("Bool", Value::Bool(_)) => {}
            ("Bool", _) => return Err(DecodeError("boolean or JSON schema expected".to_owned())),
            ("Array", Value::Array(items)) => {
                for item in items {
                    apart.value(props, item, at)?;
                }
            }
            ("StringArray", Value::Array(items)) => {
                if let Some(wrong) = items.iter().find(|item| !item.is_string() && !item.is_null()) {
                    return Err(GoPosition { go_type: "string", ..at }.mismatch(what(wrong)));
                }
            }
            // Anything else counts as set, and says nothing.
            _ => *value = json!([]),
        }
        apart.read().map(|_| ())
    }

    fn list(
        &mut self,
        schema: SchemaRef<'s>,
        value: &mut Value,
        at: GoPosition<'_>,
    ) -> Result<(), DecodeError> {
        let mismatch = what(value);
        let Value::Array(items) = value else { return self.refuse(at.mismatch(mismatch)) };
        let Some(element) = schema.items() else { return Ok(()) };
        let go_type = at.go_type.strip_prefix("[]").unwrap_or_else(|| named_type(element));
        for (index, item) in items.iter_mut().enumerate() {
            if item.is_null() {
                *item = zero(element);
            }
            self.value(element, item, GoPosition { path: &at.path.index(index), go_type, ..at })?;
        }
        Ok(())
    }

    fn map(
        &mut self,
        schema: SchemaRef<'s>,
        value: &mut Value,
        at: GoPosition<'_>,
    ) -> Result<(), DecodeError> {
        let mismatch = what(value);
        let Value::Object(entries) = value else { return self.refuse(at.mismatch(mismatch)) };
        let Some(element) = schema.additional() else {
            // A struct that declares no field: whatever was sent in it is unknown.
            if schema.type_name().is_some() && !schema.preserves_unknown() && !schema.open() {
                for key in entries.keys() {
                    self.note(at.path, key);
                }
                entries.clear();
            }
            return Ok(());
        };
        let go_type = at.go_type.split_once(']').map_or_else(|| named_type(element), |(_, element)| element);
        for (key, item) in entries.iter_mut() {
            if item.is_null() {
                // Storage gives no bytes back as such of no length.
                *item = if element.format() == Format::Byte { json!("") } else { zero(element) };
                continue;
            }
            self.value(element, item, GoPosition { path: &at.path.entry(key), go_type, ..at })?;
        }
        Ok(())
    }

    fn structure(
        &mut self,
        schema: SchemaRef<'s>,
        value: &mut Value,
        at: GoPosition<'_>,
    ) -> Result<(), DecodeError> {
        let mismatch = what(value);
        let Value::Object(fields) = value else { return self.refuse(at.mismatch(mismatch)) };
        let owner = schema.type_name().map_or("", |name| name.rsplit('.').next().unwrap_or(name));
        if owner == "JSONSchemaProps" {
            self.props = Some(schema);
        }
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
            let within = property.go_embedded().map(|names| at.path.embedded(names));
            let path = within.as_ref().unwrap_or(at.path).child(name);
            self.value(property, item, GoPosition { owner, path: &path, go_type })?;
        }
        for name in drop {
            fields.remove(&name);
        }
        encode(schema, fields, at.path, &mut |name, empty| {
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
fn encode(
    schema: SchemaRef<'_>,
    fields: &mut Map<String, Value>,
    path: &Path<'_>,
    dropped: &mut dyn FnMut(&str, Value),
) {
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
        if omit && is_empty(present) && kind != b's' && !is_told_from_none(schema, name, fields, path) {
            let empty = fields.remove(name).unwrap_or_default();
            dropped(name, empty);
        }
    }
}

/// Lists and maps that are kept where they were sent empty: validation refuses an empty one where it takes an absent one, or refuses both
/// in different words. So none of them is ever stored empty.
fn is_told_from_none(
    schema: SchemaRef<'_>,
    name: &str,
    fields: &Map<String, Value>,
    path: &Path<'_>,
) -> bool {
    let owner = schema.type_name().map_or("", |name| name.rsplit('.').next().unwrap_or(name));
    match (owner, name) {
        ("HPAScalingRules", "policies") | ("PersistentVolumeSpec", "capacity") => true,
        ("IngressSpec", "rules") => !fields.contains_key("defaultBackend"),
        // At the root of a schema with a status subresource most fields are refused, even empty ones.
        ("JSONSchemaProps", _) => fields[name].is_array() || fields[name].is_object(),
        // The metadata in a claim template may have labels and annotations alone; the rest is refused even where it is empty.
        ("ObjectMeta", "managedFields" | "ownerReferences" | "finalizers") => {
            path.fields() == "spec.metadata"
        }
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
            fields.retain(|name, item| {
                let Some(property) = schema.property(name) else { return true };
                let listed = match property.node().go_kind {
                    b'l' | b'm' => !property.has(flag::GO_POINTER),
                    // A `JSONSchemaPropsOrArray` that says nothing.
                    _ => {
                        let several = ".JSONSchemaPropsOrArray";
                        item.is_array() && property.type_name().is_some_and(|name| name.ends_with(several))
                    }
                };
                if listed && !item.is_null() && is_empty(item) {
                    *item = Value::Null;
                    return !property.has(flag::GO_OMIT_EMPTY);
                }
                forget_empties(property, item);
                true
            });
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
            encode(schema, &mut fields, &Path::ROOT, &mut |_, _| {});
            Value::Object(fields)
        }
        (_, Type::Object) if schema.preserves_unknown() || schema.additional().is_some() => Value::Null,
        (_, Type::Object) => json!({}),
    }
}

/// The Go name of a type that has one, of others what it is.
fn named_type(schema: SchemaRef<'_>) -> &str {
    let end = |name: &str| name.rmatch_indices('.').nth(1).map_or(0, |(at, _)| at + 1);
    match schema.type_name() {
        Some(name) if schema.ty() == Type::Object => &name[end(name)..],
        _ => type_of(schema),
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
