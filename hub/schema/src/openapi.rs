//! Schemas of custom kinds: compiled from OpenAPI v3, as a CustomResourceDefinition carries it.
//!
//! In: the schema as JSON. Out: a [`Schema`] of its own, or why it cannot be used. Whether it is structural was checked by `definitions`.

use serde_json::Value;

use super::builtin::Schemas;
use super::compile::{Compiler, SchemaError};
use super::navigate::Schema;

impl Schema {
    /// Compiles an OpenAPI v3 schema as a CRD carries it. `metadata` at the root becomes a full `ObjectMeta`.
    ///
    /// # Errors
    /// A part of it is no object, a reference leads nowhere, or it is too large or too deep ([`SchemaError`]).
    pub fn from_openapi(schema: &Value) -> Result<Schema, SchemaError> {
        let mut compiler = Compiler::default();
        let mut schema = schema.clone();
        if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
            for key in ["apiVersion", "kind"] {
                properties.entry(key).or_insert_with(|| serde_json::json!({"type": "string"}));
            }
            properties.insert("metadata".into(), serde_json::json!({"$ref": Schemas::OBJECT_META}));
            Schemas::define_object_meta(&mut compiler)?;
        }
        let root = compiler.compile(&schema, 0)?;
        let (arena, _) = compiler.finish()?;
        Ok(Schema::new(arena, root))
    }

    /// Compiles the schema of a CRD version: as [`Schema::from_openapi`], and also where it names no property.
    ///
    /// # Errors
    /// The schema is too large or malformed.
    pub fn of_custom(schema: &Value) -> Result<Schema, SchemaError> {
        if schema["properties"].is_object() {
            return Schema::from_openapi(schema);
        }
        let mut whole = schema.clone();
        if !whole.is_object() {
            whole = serde_json::json!({"type": "object"});
        }
        whole["properties"] = serde_json::json!({});
        Schema::from_openapi(&whole)
    }
}
