//! Whole objects inside objects (`x-kubernetes-embedded-resource`): their type and metadata are read as any object's.
//!
//! In: a structural schema and a value of it. Out: the value with that metadata as its Go type has it, and the unknown fields; field errors
//! where `apiVersion`, `kind` or labels are wrong. The root object itself is read elsewhere.

use serde_json::Value;

use super::builtin::Schemas;
use super::decode::decode_go;
use super::go_type_errors::DecodeError;
use super::navigate::SchemaRef;
use super::path::Path;
use karmada_field::{FieldError, go_json};

/// Reads the metadata of embedded objects into its Go type. Answers unknown fields, each as `unknown field "spec.a.metadata.x"`.
///
/// # Errors
/// Metadata that its Go type cannot hold.
pub(super) fn decode(schema: SchemaRef<'_>, value: &mut Value) -> Result<Vec<String>, DecodeError> {
    let mut unknown = Vec::new();
    walk(schema, value, &Path::ROOT, &mut |path, metadata| {
        let before = metadata.clone();
        let at = path.child("metadata").to_string();
        let fields = decode_go(Schemas::builtin().object_meta(), metadata)
            .map_err(|error| DecodeError(format!("{at}: Invalid value: {}: {error}", go_json(&before))))?;
        // Only what was said is kept: the empty fields that a Go encoder would write are not.
        if let (Some(now), Some(before)) = (metadata.as_object_mut(), before.as_object()) {
            now.retain(|name, value| before.contains_key(name) && !value.is_null());
        }
        unknown.extend(
            fields.iter().map(|f| f.replacen("unknown field \"", &format!("unknown field \"{at}."), 1)),
        );
        Ok(())
    })?;
    Ok(unknown)
}

type Visit<'v> = dyn FnMut(&Path<'_>, &mut Value) -> Result<(), DecodeError> + 'v;

fn walk(
    schema: SchemaRef<'_>,
    value: &mut Value,
    path: &Path<'_>,
    visit: &mut Visit<'_>,
) -> Result<(), DecodeError> {
    match value {
        Value::Object(fields) => {
            if schema.embedded_resource()
                && !path.is_root()
                && let Some(metadata) = fields.get_mut("metadata")
            {
                visit(path, metadata)?;
            }
            for (name, item) in fields.iter_mut() {
                if let Some(child) = schema.child(name) {
                    walk(child, item, &path.child(name), visit)?;
                }
            }
        }
        Value::Array(items) => {
            if let Some(element) = schema.items() {
                for (index, item) in items.iter_mut().enumerate() {
                    walk(element, item, &path.index(index), visit)?;
                }
            }
        }
        _ => {}
    }
    Ok(())
}

/// What is wrong with embedded objects' types and metadata.
pub(super) fn validate(schema: SchemaRef<'_>, value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(fields) => {
            if schema.embedded_resource() && !path.is_root() {
                for field in ["apiVersion", "kind"] {
                    if fields.get(field).and_then(Value::as_str).is_none_or(str::is_empty) {
                        errors.push(FieldError::required(&path.child(field), ""));
                    }
                }
                if let Some(metadata) = fields.get("metadata") {
                    let at = path.child("metadata");
                    crate::metadata::embedded_labels(metadata, &at, errors);
                }
            }
            for (name, item) in fields {
                if let Some(child) = schema.child(name) {
                    validate(child, item, &path.child(name), errors);
                }
            }
        }
        Value::Array(items) => {
            if let Some(element) = schema.items() {
                for (index, item) in items.iter().enumerate() {
                    validate(element, item, &path.index(index), errors);
                }
            }
        }
        _ => {}
    }
}
