//! Where documents have a component, and how extensions name a kind.
//!
//! In: the dialect and a component's name, or a served resource. Out: the text or JSON that names it. Pure.

use serde_json::{Value, json};

use super::{Dialect, ServedResource};

pub(super) const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";

/// Group, version and kind of a served resource, as extensions write it.
pub fn gvk(served: ServedResource<'_>) -> Value {
    let resource = served.resource;
    json!({"group": resource.group, "version": resource.version, "kind": resource.kind})
}

pub(super) fn address(dialect: Dialect, name: &str) -> String {
    match dialect {
        Dialect::V2 => format!("#/definitions/{name}"),
        Dialect::V3 => format!("#/components/schemas/{name}"),
    }
}
