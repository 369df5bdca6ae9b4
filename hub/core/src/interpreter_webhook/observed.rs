//! An object as its cluster has it, put together on the hub: for webhooks that say what of its status is told, and whether it is well.
//!
//! In: a manifest, and what the site reported of it. Sites cannot ask webhooks: of kinds of which a webhook is asked that, they are told to report the
//! status as it is, and of which generation it is ([`SCRIPT`]). Out: the manifest with that status.

use karmada_api::object;
use karmada_api::strings::annotations::TEMPLATE_GENERATION;
use serde_json::Value;

/// The member of a reported status that says that it is whole, and of what.
pub const MARK: &str = "edge.karmada.io/observed";

/// What sites are told to report of such a kind, in the language of customizations.
pub const SCRIPT: &str = r#"function ReflectStatus(observedObj)
  local status, metadata = observedObj.status, observedObj.metadata
  local observed = { status = status ~= nil, generation = metadata.generation }
  if metadata.annotations ~= nil then
    observed.templateGeneration = metadata.annotations["resourcetemplate.karmada.io/generation"]
  end
  if status == nil then
    status = {}
  end
  status["edge.karmada.io/observed"] = observed
  return status
end"#;

/// The object; none where the site has not yet been told to report all of its status.
pub fn object(manifest: &Value, reported: &Value) -> Option<Value> {
    let mut status = reported.as_object()?.clone();
    let observed = status.remove(MARK)?;
    let mut object = manifest.clone();
    if let Some(generation) = observed["generation"].as_i64() {
        object::metadata(&mut object).insert("generation".to_owned(), generation.into());
    }
    // The one that was applied there, which the manifest may be ahead of.
    object::remove_annotation(&mut object, TEMPLATE_GENERATION);
    if let Some(generation) = observed["templateGeneration"].as_str() {
        object::set_annotation(&mut object, TEMPLATE_GENERATION, generation);
    }
    match observed["status"] == Value::Bool(true) {
        true => object::root(&mut object).insert("status".to_owned(), Value::Object(status)),
        false => object::root(&mut object).remove("status"),
    };
    Some(object)
}

/// A status as its object has it, where the site was told to report it whole.
pub fn unmarked(mut reported: Value) -> Value {
    if let Some(status) = reported.as_object_mut() {
        status.remove(MARK);
    }
    reported
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_is_the_manifest_with_what_was_reported() {
        let manifest = json!({"kind": "Thing", "metadata": {"name": "t", "annotations": {"resourcetemplate.karmada.io/generation": "5"}}, "spec": {"a": 1}});
        let marked = |observed: Value| json!({"ready": 1, "edge.karmada.io/observed": observed});
        let whole =
            object(&manifest, &marked(json!({"status": true, "generation": 3, "templateGeneration": "4"})))
                .unwrap();
        assert_eq!(whole["status"], json!({"ready": 1}));
        assert_eq!(unmarked(marked(json!({"status": true}))), json!({"ready": 1}));
        assert_eq!(whole["metadata"]["generation"], json!(3));
        assert_eq!(whole["metadata"]["annotations"]["resourcetemplate.karmada.io/generation"], json!("4"));
        assert_eq!(whole["spec"], json!({"a": 1}));
        let none = object(&manifest, &json!({"edge.karmada.io/observed": {"status": false}})).unwrap();
        assert!(none.get("status").is_none() && none["metadata"].get("generation").is_none());
        for unmarked in [json!({"ready": 1}), json!({}), json!(null), json!([1])] {
            assert_eq!(object(&manifest, &unmarked), None, "{unmarked}");
            assert_eq!(super::unmarked(unmarked.clone()), unmarked);
        }
    }
}
