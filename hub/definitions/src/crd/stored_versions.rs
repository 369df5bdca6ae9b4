//! Which versions a definition's objects may be stored in, told in its status from the first write on.
//!
//! In: a definition as JSON. Out: its first status; or the same definition, where the version that it stores is among its `storedVersions`.

use serde_json::{Value, json};

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
