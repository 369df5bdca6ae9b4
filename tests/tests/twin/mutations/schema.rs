//! What kube-apiserver's own OpenAPI says of a kind's fields.
//!
//! In: the documents at `/openapi/v3`. Out: the shape of each field, which tells what a client may get wrong in it.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::client::Caller;

/// Every schema by its name, and which of them is a kind's.
pub struct Schemas {
    all: BTreeMap<String, Value>,
    kinds: BTreeMap<(String, String), String>,
}

/// What a value may be.
#[derive(Clone, Copy)]
pub enum Shape<'s> {
    /// A text; its format, and the texts it is one of (none: any).
    Text { format: &'s str, known: &'s [Value] },
    /// A whole number.
    Whole,
    /// Any number.
    Number,
    /// A truth value.
    Bool,
    /// An amount with a unit.
    Quantity,
    /// A number, or a text that means one.
    IntOrText,
    /// A list of these.
    List(&'s Value),
    /// Texts to these.
    Map(&'s Value),
    /// Fields with names, of the type of that name.
    Struct { name: &'s str, fields: &'s Map<String, Value>, required: &'s [Value] },
    /// What the schema says nothing of.
    Any,
}

impl Schemas {
    /// Asks for every document.
    pub fn of(server: &Caller) -> Schemas {
        let get = |path: &str| server.json("GET", path, &Value::Null).json();
        let index = get("/openapi/v3");
        let documents = index["paths"].as_object().expect("an index of documents").iter();
        let mut schemas = Schemas { all: BTreeMap::new(), kinds: BTreeMap::new() };
        for (_, document) in documents.filter(|(path, _)| path.matches('/').count() >= 1) {
            let mut document = get(document["serverRelativeURL"].as_str().expect("an address"));
            let found = document.pointer_mut("/components/schemas").map(Value::take).unwrap_or_default();
            for (name, schema) in found.as_object().into_iter().flatten() {
                schemas.all.insert(name.clone(), schema.clone());
                for kind in schema["x-kubernetes-group-version-kind"].as_array().into_iter().flatten() {
                    let text = |field: &str| kind[field].as_str().unwrap_or_default();
                    let version = match text("group") {
                        "" => text("version").to_owned(),
                        group => format!("{group}/{}", text("version")),
                    };
                    schemas.kinds.entry((version, text("kind").to_owned())).or_insert(name.clone());
                }
            }
        }
        schemas
    }

    /// The shape of a kind's objects.
    pub fn kind(&self, api_version: &str, kind: &str) -> Option<Shape<'_>> {
        let name = self.kinds.get(&(api_version.to_owned(), kind.to_owned()))?;
        Some(self.named(name))
    }

    /// The shape of a field by its schema.
    pub fn shape<'s>(&'s self, schema: &'s Value) -> Shape<'s> {
        let of = |schema: &'s Value| schema["$ref"].as_str().and_then(|name| name.rsplit('/').next());
        match of(schema).or_else(|| of(&schema["allOf"][0])) {
            Some(name) => self.named(name),
            None => self.plain("", schema),
        }
    }

    fn named<'s>(&'s self, name: &'s str) -> Shape<'s> {
        match name.rsplit('.').next().unwrap_or_default() {
            "Quantity" => Shape::Quantity,
            "IntOrString" => Shape::IntOrText,
            "JSON" | "JSONSchemaPropsOrBool" | "JSONSchemaPropsOrArray" | "RawExtension" | "FieldsV1" => {
                Shape::Any
            }
            _ => self.all.get(name).map_or(Shape::Any, |schema| self.plain(name, schema)),
        }
    }

    fn plain<'s>(&'s self, name: &'s str, schema: &'s Value) -> Shape<'s> {
        let list = |field: &str| schema[field].as_array().map_or(&[][..], Vec::as_slice);
        match schema["type"].as_str().unwrap_or_default() {
            "string" => {
                Shape::Text { format: schema["format"].as_str().unwrap_or_default(), known: list("enum") }
            }
            "integer" => Shape::Whole,
            "number" => Shape::Number,
            "boolean" => Shape::Bool,
            "array" => Shape::List(&schema["items"]),
            "object" => match (schema["properties"].as_object(), &schema["additionalProperties"]) {
                (Some(fields), _) => Shape::Struct { name, fields, required: list("required") },
                (None, values @ Value::Object(_)) => Shape::Map(values),
                (None, _) => Shape::Any,
            },
            _ => Shape::Any,
        }
    }
}
