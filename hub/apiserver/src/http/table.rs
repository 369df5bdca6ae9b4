//! One object or many in the shape the client asked for: whole, as rows of a table, or metadata alone.
//!
//! In: stored objects. Out: pieces of JSON that go on the wire one after another, shared with the cache where nothing is changed.

use std::sync::Arc;

use bytes::Bytes;
use karmada_definitions::kind_row::KindRow;
use karmada_definitions::resource::{Family, ResourceDefinition};
use karmada_definitions::status::Status;
use karmada_kinds::conversion;
use karmada_schema::object::Stored;
use serde_json::{Value, json};

use super::list_body::Part;
use super::negotiation::{Meta, Shape};

/// What of the object goes into a table's rows (`includeObject`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Include {
    Nothing,
    Metadata,
    Object,
}

impl Include {
    pub(super) fn parse(text: &str) -> Include {
        match text {
            "None" => Include::Nothing,
            "Object" => Include::Object,
            _ => Include::Metadata,
        }
    }

    /// Refuses what is none of them.
    pub(super) fn check(text: &str) -> Result<(), Status> {
        if matches!(text, "" | "None" | "Metadata" | "Object") {
            return Ok(());
        }
        Err(Status::bad_request(format!(
            "Unable to convert to Table as requested: includeObject: Invalid value: {text:?}: must be 'Metadata', 'Object', 'None', or empty"
        )))
    }
}

/// The object in the version that the path names.
pub(super) fn whole(definition: &ResourceDefinition, object: &Stored) -> Bytes {
    if definition.shows_as_stored(object) {
        return object.json();
    }
    conversion::from_storage(definition, object.value()).to_string().into()
}

/// The object as an item of a typed list, where compiled kinds do not repeat their type.
pub(super) fn item(definition: &ResourceDefinition, object: &Arc<Stored>) -> Vec<Part> {
    let builtin = definition.family == Family::Builtin;
    if !definition.shows_as_stored(object) {
        let mut value = conversion::from_storage(definition, object.value());
        if let Some(fields) = value.as_object_mut().filter(|_| builtin) {
            fields.remove("kind");
            fields.remove("apiVersion");
        }
        return vec![Part::Text(value.to_string().into())];
    }
    match object.metadata_from().filter(|_| builtin) {
        Some(from) => vec![Part::text("{"), Part::Object(object.clone(), from)],
        None => vec![Part::Object(object.clone(), 0)],
    }
}

/// `PartialObjectMetadata` of the object.
pub(super) fn metadata(row: &KindRow, object: &Stored, meta: Meta) -> Value {
    let mut value = object.value();
    if let Some(hidden) = row.hidden_annotation
        && let Some(metadata) = value["metadata"].as_object_mut()
    {
        let annotations = metadata.get_mut("annotations").and_then(Value::as_object_mut);
        if annotations.is_some_and(|all| {
            all.remove(hidden);
            all.is_empty()
        }) {
            metadata.remove("annotations");
        }
    }
    json!({"kind": "PartialObjectMetadata", "apiVersion": meta.api_version(), "metadata": value["metadata"]})
}

/// Whether a table tells what its columns are, which is left out of all but the first of a watch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Columns {
    Told,
    LeftOut,
}

/// A table of these objects, as it is at a moment.
pub(super) fn table<'a>(
    definition: &ResourceDefinition,
    objects: impl Iterator<Item = &'a Stored>,
    list_metadata: &Value,
    include: Include,
    columns: Columns,
    (meta, now): (Meta, jiff::Timestamp),
) -> Value {
    let rows: Vec<Value> = objects
        .map(|object| {
            let value = conversion::from_storage(definition, object.value());
            let (cells, conditions) = karmada_kinds::cells(definition, &value, now);
            let mut row = json!({"cells": cells});
            if let Some(conditions) = conditions {
                row["conditions"] = conditions;
            }
            match include {
                Include::Nothing => row["object"] = Value::Null,
                Include::Metadata => row["object"] = metadata(definition.row, object, meta),
                Include::Object => row["object"] = value,
            }
            row
        })
        .collect();
    let columns = match columns {
        Columns::Told => karmada_kinds::columns(definition),
        Columns::LeftOut => Value::Null,
    };
    json!({
        "kind": "Table",
        "apiVersion": meta.api_version(),
        "metadata": list_metadata,
        "columnDefinitions": columns,
        "rows": rows,
    })
}

/// One object in a shape.
pub(super) fn one(
    definition: &ResourceDefinition,
    object: &Stored,
    shape: Shape,
    include: Include,
    now: jiff::Timestamp,
) -> Bytes {
    match shape {
        Shape::Whole => whole(definition, object),
        Shape::Metadata(meta) => metadata(definition.row, object, meta).to_string().into(),
        Shape::Table(meta) => {
            let list = json!({"resourceVersion": object.revision.to_string()});
            table(definition, std::iter::once(object), &list, include, Columns::Told, (meta, now))
                .to_string()
                .into()
        }
    }
}
