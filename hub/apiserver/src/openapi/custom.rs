//! Custom kinds in documents: their definition's own schema, with its texts, in the form of each dialect.
//!
//! In: the served custom kinds. Out: [`ServedResource`]s that borrow from [`Documents`], which is dropped with the document.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::components::{META, address, gvk};
use super::{Dialect, ServedResource};
use crate::crd::Custom;
use crate::resource::Catalogue;

/// The schemas of custom kinds, parsed for as long as a document is being written.
pub struct Documents {
    kinds: Vec<(Arc<Custom>, String, Value)>,
}

impl Documents {
    /// Those of every custom kind for which `wanted` holds (by group and version); with their schemas, or (for hashes) without.
    pub fn read(catalogue: &Catalogue, schemas: bool, wanted: impl Fn(&str, &str) -> bool) -> Documents {
        let kinds = catalogue.iter().filter_map(|definition| definition.custom.clone());
        let kinds = kinds.filter(|custom| wanted(&custom.resource.group, &custom.resource.version));
        let kinds = kinds.map(|custom| {
            let schema = if schemas { custom.published_schema() } else { Value::Null };
            let revision = custom.revision();
            (custom, revision, schema)
        });
        Documents { kinds: kinds.collect() }
    }

    /// Everything that ships, and these.
    pub fn served(&self) -> Vec<ServedResource<'_>> {
        let own = self.kinds.iter().map(|(custom, revision, schema)| ServedResource {
            resource: &custom.resource,
            schema: custom.schema().root(),
            revision,
            published: Some(schema),
        });
        super::shipped().into_iter().chain(own).collect()
    }
}

/// The component of a custom kind.
pub(super) fn definition(served: ServedResource<'_>, published: &Value, dialect: Dialect) -> Value {
    let mut schema = match dialect {
        Dialect::V3 => for_v3(published),
        Dialect::V2 => for_v2(published),
    };
    if !schema.is_object() {
        schema = json!({"type": "object"});
    }
    let bare = dialect == Dialect::V2 && schema["x-kubernetes-preserve-unknown-fields"] == true;
    if !bare {
        type_and_metadata(&mut schema, dialect);
    }
    schema["x-kubernetes-group-version-kind"] = json!([gvk(served)]);
    schema
}

/// What every object has, in a schema that stands for one.
fn type_and_metadata(schema: &mut Value, dialect: Dialect) {
    let text = |field: &str| json!({"type": "string", "description": described(field)});
    let reference = address(dialect, &format!("{META}ObjectMeta"));
    let properties = &mut schema["properties"];
    if !properties.is_object() {
        *properties = json!({});
    }
    properties["apiVersion"] = text("apiVersion");
    properties["kind"] = text("kind");
    properties["metadata"] = match dialect {
        Dialect::V3 => json!({"description": described("metadata"), "allOf": [{"$ref": reference}]}),
        Dialect::V2 => json!({"description": described("metadata"), "$ref": reference}),
    };
}

/// A whole object inside another names its type.
fn embedded(schema: &mut Value, dialect: Dialect) {
    if schema["x-kubernetes-embedded-resource"] != true {
        return;
    }
    type_and_metadata(schema, dialect);
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let own = [json!("kind"), json!("apiVersion")].into_iter().filter(|name| !required.contains(name));
    let all: Vec<Value> = required.iter().cloned().chain(own).collect();
    schema["required"] = json!(all);
}

/// As it is, with what its extensions mean spelled out.
fn for_v3(schema: &Value) -> Value {
    let mut out = schema.clone();
    let Some(fields) = out.as_object_mut() else { return out };
    for key in ["items", "additionalProperties"] {
        if let Some(child) = fields.get_mut(key).filter(|child| child.is_object()) {
            *child = for_v3(child);
        }
    }
    for (_, child) in fields.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
        *child = for_v3(child);
    }
    let either = fields.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true));
    if either && !fields.contains_key("anyOf") && !fields.contains_key("allOf") {
        fields.insert("anyOf".into(), json!([{"type": "integer"}, {"type": "string"}]));
    }
    embedded(&mut out, Dialect::V3);
    out
}

fn described(field: &str) -> &'static str {
    match field {
        "apiVersion" => "The version of the schema that this object is in.",
        "kind" => "The kind of this object.",
        _ => "Standard object's metadata.",
    }
}

/// Swagger 2.0 says less: what it cannot say is left out, so that clients do not refuse what the server takes.
fn for_v2(schema: &Value) -> Value {
    let Some(fields) = schema.as_object() else { return schema.clone() };
    let mut out = Map::new();
    let is = |key: &str| fields.get(key) == Some(&Value::Bool(true));
    let untyped = is("nullable") || is("x-kubernetes-int-or-string");
    let open = is("x-kubernetes-preserve-unknown-fields");
    for (key, value) in fields {
        let kept = match key.as_str() {
            "nullable" | "anyOf" | "oneOf" | "allOf" | "not" | "default" | "example" | "externalDocs" => {
                false
            }
            "type" | "items" | "properties" | "additionalProperties" | "required" if untyped => false,
            "type" | "items" | "properties" | "additionalProperties" | "required" if open => false,
            _ => true,
        };
        if !kept {
            continue;
        }
        let value = match key.as_str() {
            "items" | "additionalProperties" => for_v2(value),
            "properties" => {
                let properties = value.as_object().into_iter().flatten();
                Value::Object(properties.map(|(name, value)| (name.clone(), for_v2(value))).collect())
            }
            _ => value.clone(),
        };
        out.insert(key.clone(), value);
    }
    let mut out = Value::Object(out);
    embedded(&mut out, Dialect::V2);
    out
}
