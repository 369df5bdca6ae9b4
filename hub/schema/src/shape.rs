//! Schemas as CEL looks at them: compiled ones when rules run, plain JSON when a definition is checked.
//!
//! In: a [`SchemaRef`], or a schema as JSON ([`JsonShape`]). Out: the answers that CEL's [`Shape`] asks for: types, formats, fields, and
//! how a list's elements are told apart.

use karmada_cel::{Elements, Format as CelFormat, Shape};
use serde_json::Value;

use super::arena::{Format, ListType, Type};
use super::navigate::SchemaRef;

fn format(name: &str) -> CelFormat {
    match name {
        "date-time" | "datetime" => CelFormat::DateTime,
        "date" => CelFormat::Date,
        "duration" => CelFormat::Duration,
        "byte" => CelFormat::Byte,
        _ => CelFormat::Text,
    }
}

impl Shape for SchemaRef<'_> {
    fn json_type(self) -> &'static str {
        match self.ty() {
            Type::Any => "",
            Type::Object => "object",
            Type::Array => "array",
            Type::String => "string",
            Type::Integer => "integer",
            Type::Number => "number",
            Type::Boolean => "boolean",
        }
    }

    fn format(self) -> CelFormat {
        match SchemaRef::format(self) {
            Format::DateTime => CelFormat::DateTime,
            Format::Byte => CelFormat::Byte,
            _ => self.format_name().map_or(CelFormat::Text, format),
        }
    }

    fn property(self, name: &str) -> Option<Self> {
        SchemaRef::property(self, name)
    }

    fn properties(self) -> Vec<(String, Self)> {
        SchemaRef::properties(self).map(|(name, schema, _)| (name.to_owned(), schema)).collect()
    }

    fn additional(self) -> Option<Self> {
        SchemaRef::additional(self)
    }

    fn items(self) -> Option<Self> {
        SchemaRef::items(self)
    }

    fn elements(self) -> Elements {
        match self.list_type() {
            ListType::Set => Elements::Set,
            ListType::Map => Elements::Keyed(self.list_keys().iter().map(|key| key.to_string()).collect()),
            _ => Elements::Ordered,
        }
    }

    fn preserves_unknown(self) -> bool {
        SchemaRef::preserves_unknown(self)
    }

    fn embedded(self) -> bool {
        self.embedded_resource()
    }
}

/// A schema as a definition writes it.
#[derive(Clone, Copy)]
pub struct JsonShape<'a> {
    /// The schema.
    pub schema: &'a Value,
    /// Whether this is the whole object.
    pub root: bool,
}

impl<'a> JsonShape<'a> {
    fn below(self, schema: &'a Value) -> Option<Self> {
        schema.is_object().then_some(JsonShape { schema, root: false })
    }
}

/// Whether expressions see values of the schema: those of which no type is told they do not.
fn is_seen(schema: &Value) -> bool {
    match schema["type"].as_str().unwrap_or("") {
        _ if schema["x-kubernetes-int-or-string"] == true => true,
        "" => false,
        "array" => is_seen(&schema["items"]),
        "object" if schema["additionalProperties"].is_object() => is_seen(&schema["additionalProperties"]),
        _ => true,
    }
}

impl Shape for JsonShape<'_> {
    fn json_type(self) -> &'static str {
        if self.schema["x-kubernetes-int-or-string"] == true {
            return "";
        }
        let types = ["object", "array", "string", "integer", "number", "boolean"];
        types.into_iter().find(|ty| self.schema["type"] == *ty).unwrap_or("")
    }

    fn format(self) -> CelFormat {
        self.schema["format"].as_str().map_or(CelFormat::Text, format)
    }

    fn property(self, name: &str) -> Option<Self> {
        self.below(self.schema["properties"].get(name)?)
    }

    fn properties(self) -> Vec<(String, Self)> {
        let whole = self.root || self.embedded();
        let properties = self.schema["properties"].as_object().into_iter().flatten();
        properties
            // What identifies an object is the same for all.
            .filter(|(name, _)| !(whole && matches!(name.as_str(), "metadata" | "apiVersion" | "kind")))
            .filter(|(_, schema)| is_seen(schema))
            .filter_map(|(name, schema)| Some((name.clone(), self.below(schema)?)))
            .collect()
    }

    fn additional(self) -> Option<Self> {
        self.below(&self.schema["additionalProperties"])
    }

    fn items(self) -> Option<Self> {
        self.below(&self.schema["items"])
    }

    fn preserves_unknown(self) -> bool {
        self.schema["x-kubernetes-preserve-unknown-fields"] == true
    }

    fn embedded(self) -> bool {
        self.root || self.schema["x-kubernetes-embedded-resource"] == true
    }
}
