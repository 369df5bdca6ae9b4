//! What a CustomResourceDefinition gets that leaves it out (`SetDefaults_CustomResourceDefinitionSpec`).

use serde_json::{Value, json};

/// Lays the defaults in.
pub fn default(object: &mut Value) {
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let absent = |value: Option<&Value>| value.is_none_or(|v| v.is_null() || v == "");
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
        let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        if !kind.is_empty() {
            if absent(names.get("singular")) {
                names.insert("singular".into(), json!(kind.to_lowercase()));
            }
            if absent(names.get("listKind")) {
                names.insert("listKind".into(), json!(format!("{kind}List")));
            }
        }
    }
    if spec.get("conversion").is_none_or(Value::is_null) {
        spec.insert("conversion".into(), json!({"strategy": "None"}));
    }
    let service = spec.get_mut("conversion").and_then(|c| c.pointer_mut("/webhook/clientConfig/service"));
    if let Some(service) = service.and_then(Value::as_object_mut) {
        service.entry("port").or_insert_with(|| json!(443));
    }
}

/// What a new definition's status says at once: which version its objects will be stored in.
pub fn first_status(object: &Value) -> Value {
    let stored = storage_version(object).map(|name| json!([name])).unwrap_or_default();
    json!({"acceptedNames": {"kind": "", "plural": ""}, "conditions": null, "storedVersions": stored})
}

/// Adds the version that a changed definition stores to those its objects may be stored in.
pub fn remember_storage_version(object: &mut Value) {
    let Some(name) = storage_version(object).map(str::to_owned) else { return };
    let stored = &mut object["status"]["storedVersions"];
    if !stored.is_array() {
        *stored = json!([]);
    }
    if let Some(stored) = stored.as_array_mut().filter(|stored| !stored.contains(&json!(name))) {
        stored.push(json!(name));
    }
}

fn storage_version(object: &Value) -> Option<&str> {
    let versions = object["spec"]["versions"].as_array()?;
    versions.iter().find(|version| version["storage"] == true)?["name"].as_str()
}
