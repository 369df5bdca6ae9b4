//! From an OpenAPI v3 schema (JSON) to the arena.
//!
//! `$ref` names a type by its bare component name. `allOf` with one reference is a use of that type with the rest laid
//! over it, as kube-apiserver publishes its fields.
//!
//! In: schemas as JSON, named or not, one after the other. Out: the arena with the place of each named type, or a [`SchemaError`]. What
//! OpenAPI knows and the hub does not use is passed over.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Map, Value};

use super::arena::{Arena, Extra, Field, Format, ListType, MapType, NONE, Node, Type, flag};

/// Why a schema cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// A part that must be a JSON object is something else.
    #[error("{0}: a schema must be an object")]
    NotAnObject(String),
    /// A reference to a type that is not there.
    #[error("unknown type {0}")]
    UnknownType(String),
    /// More nodes, fields or nesting than is allowed.
    #[error("the schema is too large or nested too deeply")]
    TooLarge,
}

const MAX_DEPTH: usize = 200;

#[derive(Default)]
pub(super) struct Compiler {
    nodes: Vec<Node>,
    fields: Vec<Field>,
    extras: Vec<Extra>,
    shared: BTreeMap<String, u32>,
    names: BTreeMap<Box<str>, u32>,
    text: String,
    ends: Vec<u32>,
    types: BTreeMap<Box<str>, u32>,
    /// Uses of named types: (use, type), laid over at the end because types refer to each other.
    uses: Vec<(u32, u32)>,
    defined: Vec<u32>,
}

impl Compiler {
    pub(super) fn name(&mut self, text: &str) -> u32 {
        if let Some(id) = self.names.get(text) {
            return *id;
        }
        let id = self.ends.len() as u32;
        self.text.push_str(text);
        self.ends.push(self.text.len() as u32);
        self.names.insert(text.into(), id);
        id
    }

    fn push(&mut self, node: Node) -> u32 {
        self.nodes.push(node);
        self.nodes.len() as u32 - 1
    }

    /// The node of a named type, defined or still to come.
    fn type_node(&mut self, name: &str) -> u32 {
        if let Some(id) = self.types.get(name) {
            return *id;
        }
        let type_name = self.name(name);
        let id = self.push(Node { type_name, ..Node::EMPTY });
        self.types.insert(name.into(), id);
        id
    }

    /// Compiles a named type.
    pub(super) fn define(&mut self, name: &str, schema: &Value) -> Result<u32, SchemaError> {
        let id = self.type_node(name);
        let type_name = self.nodes[id as usize].type_name;
        let mut node = self.node(schema, 0)?;
        node.type_name = type_name;
        match name.rsplit('.').next() {
            _ if !name.starts_with("io.k8s.apimachinery.pkg.") => {}
            Some("Quantity") => node.format = Format::Quantity,
            Some("IntOrString") => node.format = Format::IntOrString,
            Some("MicroTime") => node.format = Format::MicroTime,
            Some("FieldsV1") => {
                node.format = Format::FieldsV1;
                node.flags |= flag::PRESERVE_UNKNOWN;
            }
            Some("RawExtension") => node.flags |= flag::PRESERVE_UNKNOWN,
            _ => {}
        }
        if matches!(node.format, Format::Quantity | Format::IntOrString) {
            node.ty = Type::Any;
            if node.format == Format::IntOrString {
                node.flags |= flag::INT_OR_STRING;
            }
        }
        self.nodes[id as usize] = node;
        self.defined.push(id);
        Ok(id)
    }

    /// Compiles an anonymous schema.
    pub(super) fn compile(&mut self, schema: &Value, depth: usize) -> Result<u32, SchemaError> {
        if depth > MAX_DEPTH || self.nodes.len() > 200_000 {
            return Err(SchemaError::TooLarge);
        }
        let target = schema.get("$ref").and_then(Value::as_str).or_else(|| {
            let all = schema.get("allOf")?.as_array()?;
            if all.len() == 1 { all[0].get("$ref")?.as_str() } else { None }
        });
        let Some(target) = target else {
            let node = self.node(schema, depth)?;
            return Ok(self.push(node));
        };
        let of = self.type_node(target.rsplit('/').next().unwrap_or(target));
        let mut own = schema.as_object().cloned().unwrap_or_default();
        own.remove("$ref");
        own.remove("allOf");
        let over = self.node(&Value::Object(own), depth)?;
        let id = self.push(over);
        self.uses.push((id, of));
        Ok(id)
    }

    fn node(&mut self, schema: &Value, depth: usize) -> Result<Node, SchemaError> {
        let map = schema.as_object().ok_or_else(|| SchemaError::NotAnObject(schema.to_string()))?;
        let mut node = Node { ty: json_type(map), ..Node::EMPTY };
        node.list = match text(map, "x-kubernetes-list-type") {
            Some("atomic") => ListType::Atomic,
            Some("set") => ListType::Set,
            Some("map") => ListType::Map,
            _ => ListType::Unset,
        };
        node.map = match text(map, "x-kubernetes-map-type") {
            Some("atomic") => MapType::Atomic,
            Some("granular") => MapType::Granular,
            _ => MapType::Unset,
        };
        node.flags = flags(map);
        if node.flags & flag::INT_OR_STRING != 0 {
            node.ty = Type::Any;
            node.format = Format::IntOrString;
        }
        self.go_facts(map, &mut node);
        let mut extra = self.extra(map, depth, &mut node)?;
        if node.format != Format::IntOrString {
            node.format = format(map, &mut extra);
        }
        self.children(map, depth, &mut node)?;
        node.extra = self.share(extra, map);
        Ok(node)
    }

    fn go_facts(&mut self, map: &Map<String, Value>, node: &mut Node) {
        let Some((head, ty)) = text(map, "x-go").and_then(|go| go.split_once(':')) else { return };
        node.go_kind = head.as_bytes().first().copied().unwrap_or(0);
        for c in head.bytes().skip(1) {
            node.flags |= match c {
                b'e' => flag::GO_OMIT_EMPTY,
                b'z' => flag::GO_OMIT_ZERO,
                b'p' => flag::GO_POINTER,
                _ => 0,
            };
        }
        node.go_type = self.name(ty);
    }

    fn children(
        &mut self,
        map: &Map<String, Value>,
        depth: usize,
        node: &mut Node,
    ) -> Result<(), SchemaError> {
        // An empty list of schemas says nothing.
        let several = |items: &&Value| !items.as_array().is_some_and(Vec::is_empty);
        if let Some(items) = map.get("items").filter(several) {
            node.items = self.compile(items, depth + 1)?;
        }
        match map.get("additionalProperties") {
            Some(Value::Bool(true)) => node.flags |= flag::OPEN,
            Some(Value::Bool(false)) => node.flags |= flag::CLOSED,
            Some(schema) => {
                node.flags |= flag::OPEN;
                node.additional = self.compile(schema, depth + 1)?;
            }
            None => {}
        }
        let Some(properties) = map.get("properties").and_then(Value::as_object) else { return Ok(()) };
        let required: HashSet<&str> = map
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let mut fields = Vec::with_capacity(properties.len());
        for (name, schema) in properties {
            let child = self.compile(schema, depth + 1)?;
            fields.push(Field {
                name: self.name(name),
                node: child,
                required: required.contains(name.as_str()),
            });
        }
        // serde_json's maps are ordered by key, so the fields are too.
        node.props = self.fields.len() as u32;
        node.props_len = fields.len() as u32;
        self.fields.extend(fields);
        Ok(())
    }

    fn extra(
        &mut self,
        map: &Map<String, Value>,
        depth: usize,
        node: &mut Node,
    ) -> Result<Extra, SchemaError> {
        let mut several = |key: &str| -> Result<Box<[u32]>, SchemaError> {
            // `oneOf` of a Quantity or IntOrString says what the format says.
            if key == "oneOf" && (map.contains_key("format") || !map.contains_key("type")) && depth == 0 {
                return Ok(Box::default());
            }
            let Some(list) = map.get(key).and_then(Value::as_array) else { return Ok(Box::default()) };
            list.iter().map(|schema| self.compile(schema, depth + 1)).collect()
        };
        let (any_of, one_of, all_of) = (several("anyOf")?, several("oneOf")?, several("allOf")?);
        let not = match map.get("not") {
            Some(schema) => Some(self.compile(schema, depth + 1)?),
            None => None,
        };
        let number = |key: &str| map.get(key).and_then(Value::as_f64);
        let count = |key: &str| map.get(key).and_then(Value::as_u64);
        // An int-or-string's usual anyOf adds nothing to the flag.
        let any_of = if node.flags & flag::INT_OR_STRING != 0 { Box::default() } else { any_of };
        Ok(Extra {
            default: map.get("default").cloned(),
            enumeration: map.get("enum").and_then(Value::as_array).cloned().unwrap_or_default(),
            pattern: text(map, "pattern").map(Into::into),
            minimum: number("minimum"),
            maximum: number("maximum"),
            multiple_of: number("multipleOf"),
            min_length: count("minLength"),
            max_length: count("maxLength"),
            min_items: count("minItems"),
            max_items: count("maxItems"),
            min_properties: count("minProperties"),
            max_properties: count("maxProperties"),
            list_keys: map
                .get("x-kubernetes-list-map-keys")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(|key| key.as_str().map(Into::into))
                .collect(),
            required: undeclared(map),
            merge_key: text(map, "x-kubernetes-patch-merge-key").map(Into::into),
            any_of,
            one_of,
            all_of,
            not,
            validations: map.get("x-kubernetes-validations").cloned(),
            gvk: map.get("x-kubernetes-group-version-kind").cloned(),
            ..Extra::default()
        })
    }

    fn share(&mut self, extra: Extra, map: &Map<String, Value>) -> u32 {
        const KEYS: [&str; 23] = [
            "required",
            "default",
            "enum",
            "format",
            "pattern",
            "minimum",
            "maximum",
            "multipleOf",
            "minLength",
            "maxLength",
            "minItems",
            "maxItems",
            "minProperties",
            "maxProperties",
            "x-kubernetes-list-map-keys",
            "x-kubernetes-patch-merge-key",
            "anyOf",
            "oneOf",
            "allOf",
            "not",
            "x-kubernetes-validations",
            "x-kubernetes-group-version-kind",
            "type",
        ];
        let empty = extra.format_name.is_none()
            && extra.any_of.is_empty()
            && extra.one_of.is_empty()
            && extra.all_of.is_empty()
            && extra.required.is_empty()
            && KEYS
                .iter()
                .filter(|key| !matches!(**key, "required" | "type" | "format" | "anyOf" | "oneOf" | "allOf"))
                .all(|key| !map.contains_key(*key));
        if empty {
            return NONE;
        }
        let identity: BTreeMap<&str, &Value> = KEYS
            .iter()
            .filter(|key| **key != "required" || !extra.required.is_empty())
            .filter_map(|key| map.get(*key).map(|value| (*key, value)))
            .collect();
        let identity = serde_json::to_string(&identity).unwrap_or_default();
        if let Some(id) = self.shared.get(&identity) {
            return *id;
        }
        let id = self.extras.len() as u32;
        self.extras.push(extra);
        self.shared.insert(identity, id);
        id
    }

    /// Lays uses over their types and freezes everything.
    pub(super) fn finish(mut self) -> Result<(Arena, BTreeMap<Box<str>, u32>), SchemaError> {
        for (name, id) in &self.types {
            if !self.defined.contains(id) {
                return Err(SchemaError::UnknownType(name.to_string()));
            }
        }
        for (at, of) in std::mem::take(&mut self.uses) {
            let base = self.nodes[of as usize];
            let over = self.nodes[at as usize];
            let extra = self.overlay(base.extra, over.extra);
            let go = flag::GO_OMIT_EMPTY | flag::GO_OMIT_ZERO | flag::GO_POINTER;
            self.nodes[at as usize] = Node {
                flags: (base.flags & !go) | over.flags,
                list: if over.list == ListType::Unset { base.list } else { over.list },
                map: if over.map == MapType::Unset { base.map } else { over.map },
                go_kind: over.go_kind,
                go_type: over.go_type,
                extra,
                ..base
            };
        }
        let arena = Arena {
            nodes: self.nodes.into(),
            fields: self.fields.into(),
            extras: self.extras.into(),
            text: self.text.into(),
            ends: self.ends.into(),
        };
        Ok((arena, self.types))
    }

    /// A use's default and patch keys with what the type itself says.
    fn overlay(&mut self, base: u32, over: u32) -> u32 {
        if over == NONE || base == NONE {
            // The GVK belongs to the definition alone; a use of a kind inside a list item does not repeat it.
            return if over == NONE { base } else { over };
        }
        let (b, o) = (&self.extras[base as usize], &self.extras[over as usize]);
        let merged = Extra {
            default: o.default.clone().or_else(|| b.default.clone()),
            enumeration: b.enumeration.clone(),
            format_name: b.format_name.clone(),
            pattern: b.pattern.clone(),
            minimum: b.minimum,
            maximum: b.maximum,
            min_length: b.min_length,
            max_length: b.max_length,
            required: b.required.clone(),
            list_keys: if o.list_keys.is_empty() { b.list_keys.clone() } else { o.list_keys.clone() },
            merge_key: o.merge_key.clone().or_else(|| b.merge_key.clone()),
            any_of: b.any_of.clone(),
            one_of: b.one_of.clone(),
            all_of: b.all_of.clone(),
            not: b.not,
            validations: b.validations.clone(),
            gvk: b.gvk.clone(),
            ..Extra::default()
        };
        let identity = format!("{base}+{over}");
        if let Some(id) = self.shared.get(&identity) {
            return *id;
        }
        let id = self.extras.len() as u32;
        self.extras.push(merged);
        self.shared.insert(identity, id);
        id
    }
}

/// What is required and not declared beside it: in `anyOf` and its like, the declaration is elsewhere.
fn undeclared(map: &Map<String, Value>) -> Box<[Box<str>]> {
    let declared =
        |name: &str| map.get("properties").is_some_and(|properties| properties.get(name).is_some());
    let required = map.get("required").and_then(Value::as_array).into_iter().flatten();
    required.filter_map(Value::as_str).filter(|name| !declared(name)).map(Into::into).collect()
}

fn text<'a>(map: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    map.get(key).and_then(Value::as_str)
}

fn json_type(map: &Map<String, Value>) -> Type {
    match text(map, "type") {
        Some("object") => Type::Object,
        Some("array") => Type::Array,
        Some("string") => Type::String,
        Some("integer") => Type::Integer,
        Some("number") => Type::Number,
        Some("boolean") => Type::Boolean,
        _ => Type::Any,
    }
}

fn flags(map: &Map<String, Value>) -> u16 {
    let on = |key: &str, bit: u16| if map.get(key) == Some(&Value::Bool(true)) { bit } else { 0 };
    let mut flags = on("nullable", flag::NULLABLE)
        | on("x-kubernetes-int-or-string", flag::INT_OR_STRING)
        | on("x-kubernetes-preserve-unknown-fields", flag::PRESERVE_UNKNOWN)
        | on("x-kubernetes-embedded-resource", flag::EMBEDDED)
        | on("uniqueItems", flag::UNIQUE)
        | on("exclusiveMinimum", flag::EXCLUSIVE_MIN)
        | on("exclusiveMaximum", flag::EXCLUSIVE_MAX);
    for strategy in text(map, "x-kubernetes-patch-strategy").unwrap_or_default().split(',') {
        flags |= match strategy {
            "merge" => flag::SMP_MERGE,
            "retainKeys" => flag::SMP_RETAIN,
            "replace" => flag::SMP_REPLACE,
            _ => 0,
        };
    }
    flags
}

fn format(map: &Map<String, Value>, extra: &mut Extra) -> Format {
    match text(map, "format") {
        None => Format::None,
        Some("int32") => Format::Int32,
        Some("int64") => Format::Int64,
        Some("double") => Format::Double,
        Some("float") => Format::Float,
        Some("byte") => Format::Byte,
        Some("date-time") => Format::DateTime,
        Some("int-or-string") => Format::IntOrString,
        Some(other) => {
            extra.format_name = Some(other.into());
            Format::Other
        }
    }
}
