//! Custom kinds in documents: their definition's own schema, with its texts, in the form of each dialect.
//!
//! In: the served custom kinds. Out: [`ServedResource`]s that borrow from [`Documents`], which is dropped with the document.

use std::collections::HashMap;
use std::sync::Arc;

use karmada_definitions::crd::{Crd, Custom};
use karmada_definitions::resource::Catalogue;
use serde_json::{Map, Value, json};

use super::address::{META, address, gvk};
use super::{Dialect, ServedResource};

/// The schemas of custom kinds, parsed for as long as a document is being written.
pub struct Documents {
    kinds: Vec<(Arc<Custom>, String, Value)>,
}

impl Documents {
    /// Those of every custom kind for which `wanted` holds (by group and version).
    pub fn read(catalogue: &Catalogue, wanted: impl Fn(&str, &str) -> bool) -> Documents {
        // A definition is parsed once, however many of its versions are served.
        let mut parsed: HashMap<*const Crd, Vec<Value>> = HashMap::new();
        Documents::of(catalogue, wanted, |custom| {
            let of = Arc::as_ptr(&custom.crd);
            let all = parsed.entry(of).or_insert_with(|| custom.crd.published_schemas());
            all.get_mut(custom.at()).map(Value::take).unwrap_or_default()
        })
    }

    /// Those of all custom kinds without their schemas, which is what hashes are made of.
    pub fn outlines(catalogue: &Catalogue) -> Documents {
        Documents::of(catalogue, |_, _| true, |_| Value::Null)
    }

    fn of(
        catalogue: &Catalogue,
        wanted: impl Fn(&str, &str) -> bool,
        mut schema: impl FnMut(&Custom) -> Value,
    ) -> Documents {
        let kinds = catalogue.iter().filter_map(|definition| definition.custom.clone());
        let kinds = kinds.filter(|custom| wanted(&custom.resource.group, &custom.resource.version));
        let kinds = kinds.map(|custom| {
            let (schema, revision) = (schema(&custom), custom.revision());
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
    // Of a schema that takes anything kubectl would take the fields that it names for all that there are.
    let bare = dialect == Dialect::V2 && published["x-kubernetes-preserve-unknown-fields"] == true;
    let mut schema = match dialect {
        Dialect::V3 => for_v3(published),
        Dialect::V2 => for_v2(published),
    };
    if bare || !schema.is_object() {
        schema = json!({"type": "object"});
    }
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
        "apiVersion" => "APIVersion defines the version of the schema that this object is in.",
        "kind" => "Kind is what this object is.",
        _ => "Standard object's metadata.",
    }
}

/// Swagger 2.0 says less: what it cannot say is left out, so that clients do not refuse what the server takes. kube-apiserver
/// leaves out the same.
fn for_v2(schema: &Value) -> Value {
    let Some(fields) = schema.as_object() else { return schema.clone() };
    let is = |key: &str| fields.get(key) == Some(&Value::Bool(true));
    let (nullable, open) = (is("nullable"), is("x-kubernetes-preserve-unknown-fields"));
    let ty = fields.get("type").and_then(Value::as_str).unwrap_or_default();
    // kubectl takes the fields of what holds anything for all that there are, and reads no list without its elements.
    let shapeless = nullable || open;
    let itemless = ty == "array" && (shapeless || !fields.contains_key("items"));
    let typeless = nullable || itemless || open && ty == "object";
    let mut out = Map::new();
    for (key, value) in fields {
        let value = match key.as_str() {
            "nullable" | "anyOf" | "oneOf" | "allOf" | "not" | "example" | "externalDocs" => continue,
            "type" if typeless => continue,
            "items" | "properties" if shapeless => continue,
            "items" | "additionalProperties" => for_v2(value),
            "properties" => {
                let properties = value.as_object().into_iter().flatten();
                Value::Object(properties.map(|(name, value)| (name.clone(), for_v2(value))).collect())
            }
            "required" => match required(fields, shapeless) {
                Value::Null => continue,
                some => some,
            },
            _ => value.clone(),
        };
        out.insert(key.clone(), value);
    }
    let mut out = Value::Object(out);
    embedded(&mut out, Dialect::V2);
    out
}

/// The fields that must be there, without those that may be null: a client that knows no null would miss them.
fn required(fields: &Map<String, Value>, shapeless: bool) -> Value {
    if fields.get("additionalProperties").is_some_and(|values| values["nullable"] == true) {
        return Value::Null;
    }
    let properties = fields.get("properties").filter(|_| !shapeless);
    let may_be_null = |name: &Value| {
        let property = name.as_str().and_then(|name| properties?.get(name));
        property.is_some_and(|property| property["nullable"] == true)
    };
    let all = fields.get("required").and_then(Value::as_array).into_iter().flatten();
    let left: Vec<Value> = all.filter(|name| !may_be_null(name)).cloned().collect();
    if left.is_empty() { Value::Null } else { Value::Array(left) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swagger_leaves_out_what_kube_apiserver_leaves_out() {
        let list = json!({"type": "array", "items": {"type": "string"}});
        for (schema, wanted) in [
            (
                json!({"type": "object", "properties": {"a": list}}),
                json!({"type": "object", "properties": {"a": list}}),
            ),
            (
                json!({"type": "object", "nullable": true, "description": "d", "properties": {"a": list}}),
                json!({"description": "d"}),
            ),
            (
                json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": list}, "required": ["a"]}),
                json!({"x-kubernetes-preserve-unknown-fields": true, "required": ["a"]}),
            ),
            (
                json!({"type": "array", "x-kubernetes-preserve-unknown-fields": true, "items": {}}),
                json!({"x-kubernetes-preserve-unknown-fields": true}),
            ),
            (
                json!({"type": "object", "required": ["a", "b"], "properties": {"a": {"type": "string", "nullable": true}, "b": {"type": "string"}}}),
                json!({"type": "object", "required": ["b"], "properties": {"a": {}, "b": {"type": "string"}}}),
            ),
            (
                json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}]}),
                json!({"x-kubernetes-int-or-string": true}),
            ),
            (
                json!({"type": "string", "default": "x", "enum": ["x"]}),
                json!({"type": "string", "default": "x", "enum": ["x"]}),
            ),
        ] {
            assert_eq!(for_v2(&schema), wanted, "{schema}");
        }
    }
}
