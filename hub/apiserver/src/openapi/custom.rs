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
        Dialect::V3 => published.clone(),
        Dialect::V2 => for_v2(published),
    };
    if !schema.is_object() {
        schema = json!({"type": "object"});
    }
    let reference = address(dialect, &format!("{META}ObjectMeta"));
    let text = |field: &str| json!({"type": "string", "description": described(field)});
    let preserves = dialect == Dialect::V2 && schema["x-kubernetes-preserve-unknown-fields"] == true;
    if !preserves || schema["properties"].is_object() {
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
    schema["x-kubernetes-group-version-kind"] = json!([gvk(served)]);
    schema
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
            "items" | "properties" | "additionalProperties" | "required" if open => false,
            "type" if open && value != "object" => false,
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
    Value::Object(out)
}
