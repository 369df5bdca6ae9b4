//! CustomResourceDefinitions, subjects of role bindings, device requests: the types with a rule that have no file of their own.
//!
//! In: the name of a type in the schema, and the fields of a value of it. Out: the fields with the defaults of these three; of any
//! other type, as they were. `defaults` asks here for each type that has no rule elsewhere.

use serde_json::{Value, json};

use super::{Fields, is_empty, object, set, set_text, text};

const RBAC: &str = "rbac.authorization.k8s.io";

pub(super) fn rule(type_name: &str, fields: &mut Fields) {
    match type_name {
        "rbac.v1.Subject" if matches!(text(fields, "kind"), "User" | "Group") => {
            set_text(fields, "apiGroup", RBAC);
        }
        "apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition" => definition(fields),
        "resource.v1.ExactDeviceRequest" | "resource.v1.DeviceSubRequest"
            if text(fields, "allocationMode") == "ExactCount" =>
        {
            set(fields, "count", json!(1));
        }
        _ => {}
    }
}

/// A CRD's names, conversion and stored versions.
fn definition(fields: &mut Fields) {
    let spec = object(fields, "spec");
    let names = object(spec, "names");
    let kind = text(names, "kind").to_owned();
    set_text(names, "singular", &kind.to_lowercase());
    if !kind.is_empty() {
        set_text(names, "listKind", &format!("{kind}List"));
    }
    let stored = spec.get("versions").and_then(Value::as_array).and_then(|versions| {
        versions.iter().find(|version| version["storage"] == true).map(|version| version["name"].clone())
    });
    let status = object(fields, "status");
    if let Some(stored) = stored
        && is_empty(status, "storedVersions")
    {
        status.insert("storedVersions".to_owned(), json!([stored]));
    }
}
