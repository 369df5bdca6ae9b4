//! Changes inside texts that hold JSON or YAML, as ConfigMaps have them.

use karmada_api::override_policy::FieldOverrider;
use serde_json::Value;

use super::patch_fields;

/// Reads the text, applies the operations, writes it back. An empty text stays empty as JSON.
///
/// # Errors
/// The path leads not to a text, the text cannot be read, or an operation does not apply.
pub fn apply(manifest: &mut Value, overrider: &FieldOverrider) -> Result<(), String> {
    let path = &overrider.field_path;
    let field = manifest.pointer_mut(path).ok_or_else(|| format!("there is no field at {path}"))?;
    let text = field.as_str().ok_or_else(|| format!("what is at {path} is no text"))?.to_owned();
    if !overrider.json.is_empty() && !text.is_empty() {
        let mut document: Value =
            serde_json::from_str(&text).map_err(|error| format!("what is at {path} is no JSON: {error}"))?;
        patch_fields(&mut document, &overrider.json)?;
        *field = Value::from(document.to_string());
    } else if !overrider.yaml.is_empty() {
        let mut document: Value = serde_saphyr::from_str(&text)
            .map_err(|error| format!("what is at {path} is no YAML: {error}"))?;
        patch_fields(&mut document, &overrider.yaml)?;
        let written = serde_saphyr::to_string(&document).map_err(|error| error.to_string())?;
        *field = Value::from(written);
    }
    Ok(())
}
