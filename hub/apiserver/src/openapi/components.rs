//! Schemas as OpenAPI writes them, and the closure of those that a document refers to.
//!
//! In: the kinds, lists and types that a document refers to. Out: a reference for each, and in the end every component of the document in
//! JSON, one after the other, with those that they refer to themselves.

use super::address::{META, address, gvk};
use std::collections::{BTreeMap, BTreeSet};

use karmada_definitions::description::Style;
use karmada_schema::{Format, ListType, MapType, SchemaRef, Schemas, Type};
use serde_json::{Map, Value, json};

use super::{Dialect, ServedResource};

/// The component of a served kind: its Go type, or its group reversed.
pub(super) fn kind_name(served: ServedResource<'_>) -> String {
    let resource = served.resource;
    match served.schema.type_name() {
        Some(name) if resource.style != Style::Crd => name.to_owned(),
        _ => format!("{}.{}.{}", reversed(&resource.group), resource.version, resource.kind),
    }
}

fn reversed(group: &str) -> String {
    group.rsplit('.').collect::<Vec<_>>().join(".")
}

/// The component of a served kind's lists.
pub(super) fn list_name(served: ServedResource<'_>) -> String {
    let name = kind_name(served);
    let package = name.rsplit_once('.').map_or("", |(package, _)| package);
    format!("{package}.{}", served.resource.list_kind())
}

/// Components of one document: those asked for, and all they refer to.
pub(super) struct Components<'a> {
    dialect: Dialect,
    kinds: BTreeMap<String, ServedResource<'a>>,
    lists: BTreeMap<String, ServedResource<'a>>,
    wanted: BTreeSet<String>,
}

impl<'a> Components<'a> {
    pub(super) fn new(dialect: Dialect) -> Components<'a> {
        Components { dialect, kinds: BTreeMap::new(), lists: BTreeMap::new(), wanted: BTreeSet::new() }
    }

    /// A reference to a component by name, which is then part of the document.
    pub(super) fn reference(&mut self, name: &str) -> Value {
        self.wanted.insert(name.to_owned());
        json!({"$ref": address(self.dialect, name)})
    }

    /// A reference to a `meta/v1` type.
    pub(super) fn meta(&mut self, name: &str) -> Value {
        self.reference(&format!("{META}{name}"))
    }

    /// A reference to a served kind.
    pub(super) fn kind(&mut self, served: ServedResource<'a>) -> Value {
        let name = kind_name(served);
        self.kinds.insert(name.clone(), served);
        self.reference(&name)
    }

    /// A reference to a served kind's lists.
    pub(super) fn list(&mut self, served: ServedResource<'a>) -> Value {
        self.kind(served);
        let name = list_name(served);
        self.lists.insert(name.clone(), served);
        self.reference(&name)
    }

    /// Gives every component of the document to `write`, with whether it is the first.
    pub(super) fn write(mut self, write: &mut dyn FnMut(&str, &mut Value, bool)) {
        let mut done = BTreeSet::new();
        while let Some(name) = self.wanted.pop_first() {
            if !done.insert(name.clone()) {
                continue;
            }
            let mut refs = BTreeSet::new();
            let Some(mut schema) = self.definition(&name, &mut refs) else { continue };
            write(&name, &mut schema, done.len() == 1);
            self.wanted.extend(refs.into_iter().filter(|name| !done.contains(name)));
        }
    }

    fn definition(&self, name: &str, refs: &mut BTreeSet<String>) -> Option<Value> {
        if let Some(served) = self.kinds.get(name)
            && let Some(published) = served.published
        {
            refs.insert(format!("{META}ObjectMeta"));
            return Some(super::custom::definition(*served, published, self.dialect));
        }
        let schema = match self.kinds.get(name) {
            Some(served) => Some(served.schema),
            None => Schemas::builtin().named(name),
        };
        if let Some(schema) = schema {
            let mut out = write_schema(schema, self.dialect, refs);
            let published = schema.group_version_kinds().cloned();
            if let Some(gvk) = published.or_else(|| self.kinds.get(name).map(|served| json!([gvk(*served)])))
            {
                out.insert("x-kubernetes-group-version-kind".to_owned(), gvk);
            }
            return Some(Value::Object(out));
        }
        let served = *self.lists.get(name)?;
        let (item, meta) = (kind_name(served), format!("{META}ListMeta"));
        let out = json!({
            "type": "object",
            "required": ["items"],
            "properties": {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "metadata": {"$ref": address(self.dialect, &meta)},
                "items": {"type": "array", "items": {"$ref": address(self.dialect, &item)}},
            },
            "x-kubernetes-group-version-kind": [{
                "group": served.resource.group, "version": served.resource.version, "kind": served.resource.list_kind(),
            }],
        });
        refs.extend([item, meta]);
        Some(out)
    }
}

/// What a schema is used for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// A field of a struct.
    Property,
    /// What a list or a map holds.
    Element,
}

/// A schema where it is used: a reference for named types, the schema itself otherwise. A property's reference is always
/// wrapped, as published.
fn write_use(schema: SchemaRef<'_>, used: Use, dialect: Dialect, refs: &mut BTreeSet<String>) -> Value {
    let Some(name) = schema.type_name() else { return Value::Object(write_schema(schema, dialect, refs)) };
    refs.insert(name.to_owned());
    let base = Schemas::builtin().named(name);
    let mut over = Map::new();
    if let (Dialect::V3, Some(default)) = (dialect, schema.default()) {
        over.insert("default".to_owned(), default.clone());
    }
    if base.is_none_or(|base| patch_flags(base) != patch_flags(schema)) {
        patch_extensions(schema, &mut over);
    }
    if base.is_some_and(|base| base.map_type() != schema.map_type()) {
        map_extension(schema, &mut over);
    }
    if base.is_some_and(|base| base.list_type() != schema.list_type()) {
        list_extensions(schema, &mut over);
    }
    let reference = json!({"$ref": address(dialect, name)});
    match dialect {
        Dialect::V3 if over.is_empty() && used == Use::Element => reference,
        Dialect::V3 => {
            over.insert("allOf".to_owned(), json!([reference]));
            Value::Object(over)
        }
        Dialect::V2 => {
            over.insert("$ref".to_owned(), reference["$ref"].clone());
            Value::Object(over)
        }
    }
}

/// A schema's own body.
fn write_schema(schema: SchemaRef<'_>, dialect: Dialect, refs: &mut BTreeSet<String>) -> Map<String, Value> {
    let mut out = Map::new();
    scalar(schema, dialect, &mut out);
    constraints(schema, dialect, &mut out);
    if schema.is_struct() {
        let mut required = Vec::new();
        let mut properties = Map::new();
        for (name, property, needed) in schema.properties() {
            properties.insert(name.to_owned(), write_use(property, Use::Property, dialect, refs));
            if needed {
                required.push(name);
            }
        }
        out.insert("properties".to_owned(), Value::Object(properties));
        if !required.is_empty() {
            out.insert("required".to_owned(), json!(required));
        }
    }
    match schema.additional() {
        Some(element) => {
            out.insert("additionalProperties".to_owned(), write_use(element, Use::Element, dialect, refs));
        }
        None if schema.open() => {
            out.insert("additionalProperties".to_owned(), Value::Bool(true));
        }
        None => {}
    }
    if let Some(items) = schema.items() {
        out.insert("items".to_owned(), write_use(items, Use::Element, dialect, refs));
    }
    list_extensions(schema, &mut out);
    patch_extensions(schema, &mut out);
    map_extension(schema, &mut out);
    out
}

fn scalar(schema: SchemaRef<'_>, dialect: Dialect, out: &mut Map<String, Value>) {
    let mut put = |key: &str, value: Value| out.insert(key.to_owned(), value);
    let published = schema.type_name().is_some();
    match (schema.format(), dialect) {
        (Format::Quantity, Dialect::V2) => {
            put("type", json!("string"));
            return;
        }
        (Format::Quantity, Dialect::V3) => {
            put("oneOf", json!([{"type": "string"}, {"type": "number"}]));
            return;
        }
        (Format::IntOrString, _) if !published => {
            put("x-kubernetes-int-or-string", json!(true));
            return;
        }
        (Format::IntOrString, Dialect::V2) => {
            put("type", json!("string"));
            put("format", json!("int-or-string"));
            return;
        }
        (Format::IntOrString, Dialect::V3) => {
            put("format", json!("int-or-string"));
            put("oneOf", json!([{"type": "integer"}, {"type": "string"}]));
            return;
        }
        _ => {}
    }
    let ty = match schema.ty() {
        Type::Any => None,
        Type::Object => Some("object"),
        Type::Array => Some("array"),
        Type::String => Some("string"),
        Type::Integer => Some("integer"),
        Type::Number => Some("number"),
        Type::Boolean => Some("boolean"),
    };
    if let Some(ty) = ty {
        put("type", json!(ty));
    }
    let format = match schema.format() {
        Format::Int32 => Some("int32"),
        Format::Int64 => Some("int64"),
        Format::Double => Some("double"),
        Format::Float => Some("float"),
        Format::Byte => Some("byte"),
        Format::DateTime | Format::MicroTime => Some("date-time"),
        Format::Other => schema.format_name(),
        _ => None,
    };
    if let Some(format) = format {
        put("format", json!(format));
    }
}

fn constraints(schema: SchemaRef<'_>, dialect: Dialect, out: &mut Map<String, Value>) {
    if dialect == Dialect::V3 {
        if let Some(default) = schema.default() {
            out.insert("default".to_owned(), default.clone());
        }
        if schema.nullable() {
            out.insert("nullable".to_owned(), json!(true));
        }
    }
    if !schema.enumeration().is_empty() {
        out.insert("enum".to_owned(), json!(schema.enumeration()));
    }
    if let Some(pattern) = schema.pattern() {
        out.insert("pattern".to_owned(), json!(pattern));
    }
    for (name, bound) in schema.bounds() {
        // Whole numbers are written without a fraction.
        let number =
            if bound.fract() == 0.0 && bound.abs() < 9e15 { json!(bound as i64) } else { json!(bound) };
        out.insert(name.to_owned(), number);
    }
    if schema.preserves_unknown() && schema.type_name().is_none() && schema.ty() != Type::String {
        out.insert("x-kubernetes-preserve-unknown-fields".to_owned(), json!(true));
    }
    if schema.embedded_resource() {
        out.insert("x-kubernetes-embedded-resource".to_owned(), json!(true));
    }
    if let Some(rules) = schema.validations() {
        out.insert("x-kubernetes-validations".to_owned(), rules.clone());
    }
}

fn list_extensions(schema: SchemaRef<'_>, out: &mut Map<String, Value>) {
    let ty = match schema.list_type() {
        ListType::Unset => return,
        ListType::Atomic => "atomic",
        ListType::Set => "set",
        ListType::Map => "map",
    };
    out.insert("x-kubernetes-list-type".to_owned(), json!(ty));
    if !schema.list_keys().is_empty() {
        out.insert("x-kubernetes-list-map-keys".to_owned(), json!(schema.list_keys()));
    }
}

fn map_extension(schema: SchemaRef<'_>, out: &mut Map<String, Value>) {
    let ty = match schema.map_type() {
        MapType::Unset => return,
        MapType::Atomic => "atomic",
        MapType::Granular => "granular",
    };
    out.insert("x-kubernetes-map-type".to_owned(), json!(ty));
}

fn patch_flags(schema: SchemaRef<'_>) -> [bool; 3] {
    [schema.merges(), schema.retains_keys(), schema.replaces()]
}

fn patch_extensions(schema: SchemaRef<'_>, out: &mut Map<String, Value>) {
    let strategy = match (schema.merges(), schema.retains_keys()) {
        (true, true) => "merge,retainKeys",
        (true, false) => "merge",
        (false, true) => "retainKeys",
        (false, false) if schema.replaces() => "replace",
        (false, false) => return,
    };
    out.insert("x-kubernetes-patch-strategy".to_owned(), json!(strategy));
    if let Some(key) = schema.merge_key() {
        out.insert("x-kubernetes-patch-merge-key".to_owned(), json!(key));
    }
}
