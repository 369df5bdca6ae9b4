//! A Scale as a table.
//!
//! In: a Scale, the version of `meta.k8s.io` and the time. Out: a `Table` of one row. Pure.

use karmada_schema::duration::human_duration;
use karmada_schema::object::meta;
use serde_json::{Value, json};

use super::negotiation::Meta;

/// A Scale as the one row of a table.
pub(super) fn table(scale: &Value, meta: Meta, now: jiff::Timestamp) -> Value {
    let created = meta::text(scale, "creationTimestamp").parse::<jiff::Timestamp>();
    let age = created.map_or_else(
        |_| "<unknown>".to_owned(),
        |created| human_duration(now.as_second() - created.as_second()),
    );
    let column = |name: &str, ty: &str, format: &str| json!({"name": name, "type": ty, "format": format, "description": "", "priority": 0});
    let replicas = |part: &str| scale[part]["replicas"].as_i64().unwrap_or(0);
    let metadata = json!({"kind": "PartialObjectMetadata", "apiVersion": meta.api_version(), "metadata": scale["metadata"]});
    json!({
        "kind": "Table", "apiVersion": meta.api_version(),
        "metadata": {"resourceVersion": scale["metadata"]["resourceVersion"]},
        "columnDefinitions": [
            column("Name", "string", ""), column("Desired", "integer", ""),
            column("Available", "integer", ""), column("Age", "string", ""),
        ],
        "rows": [{"cells": [scale["metadata"]["name"], replicas("spec"), replicas("status"), age], "object": metadata}],
    })
}
