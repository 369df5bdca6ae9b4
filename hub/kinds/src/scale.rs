//! The scale subresource: how many replicas, whatever the kind.
//!
//! In: the paths at which a kind keeps its replicas, an object of it, and a Scale that is set or applied. Out: the object's Scale; the
//! object with other replicas and, after an apply, their owners; or a `Status` where the Scale asks for what cannot be. Pure.

use crate::FieldManager;
use karmada_definitions::resource::ResourceDefinition;
use karmada_definitions::status::{Cause, Status};
use karmada_schema::object::meta;
use serde_json::{Value, json};

/// Where a kind keeps its replicas.
pub struct ScalePaths {
    /// Wanted replicas.
    pub spec: Vec<String>,
    /// Replicas there are.
    pub status: Vec<String>,
    /// The selector of what is counted; empty for none.
    pub selector: Vec<String>,
}

impl ScalePaths {
    /// From JSON paths such as `.spec.replicas`.
    pub fn new(spec: &str, status: &str, selector: &str) -> Self {
        let parts = |path: &str| path.split('.').filter(|p| !p.is_empty()).map(str::to_owned).collect();
        ScalePaths { spec: parts(spec), status: parts(status), selector: parts(selector) }
    }
}

/// Where the kind keeps its replicas, if it can be scaled.
pub fn scale_paths(definition: &ResourceDefinition) -> Option<ScalePaths> {
    let resource = crate::catalogue_entry(definition)?;
    let sub = resource.subresource("scale")?;
    Some(match &sub.scale {
        Some((spec, status, selector)) => ScalePaths::new(spec, status, selector),
        None => ScalePaths::new(".spec.replicas", ".status.replicas", ".spec.selector"),
    })
}

/// Why a custom object has no scale: its definition names a field that it does not have.
pub fn unscalable(definition: &ResourceDefinition, object: &Value) -> Option<String> {
    let path = &scale_paths(definition).filter(|_| definition.custom.is_some())?.spec;
    let found = path.iter().try_fold(object, |value, part| value.get(part.as_str()));
    found.is_none().then(|| format!("the spec replicas field \".{}\" does not exist", path.join(".")))
}

/// `autoscaling/v1` Scale of an object.
pub fn scale_of(paths: &ScalePaths, object: &Value) -> Value {
    let mut metadata = json!({});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object["metadata"].get(field) {
            metadata[field] = value.clone();
        }
    }
    let replicas = |path: &[String]| at(object, path).and_then(Value::as_i64).unwrap_or(0);
    let mut status = json!({"replicas": replicas(&paths.status)});
    if let Some(selector) = at(object, &paths.selector).map(selector_text).filter(|s| !s.is_empty()) {
        status["selector"] = json!(selector);
    }
    let mut spec = json!({});
    if replicas(&paths.spec) != 0 {
        spec["replicas"] = json!(replicas(&paths.spec));
    }
    json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status})
}

/// The object with the replicas that a Scale asks for.
///
/// # Errors
/// 422: it is no number of replicas; 409: it names a resourceVersion that is not the object's; 500: where the kind keeps its replicas
/// is within something that is no object, as kube-apiserver answers too.
pub fn set(
    definition: &ResourceDefinition,
    paths: &ScalePaths,
    object: &Value,
    scale: &Value,
) -> Result<Value, Status> {
    let replicas = &scale["spec"]["replicas"];
    let wanted = if replicas.is_null() { Some(0) } else { replicas.as_i64() };
    let name = meta::name(object);
    // A custom kind judges its own replicas when the object is validated.
    let low = if definition.custom.is_some() { i64::from(i32::MIN) } else { 0 };
    let Some(wanted) = wanted.filter(|n| *n >= low && *n <= i64::from(i32::MAX)) else {
        let cause = Cause {
            reason: "FieldValueInvalid".into(),
            message: format!("Invalid value: {replicas}: must be greater than or equal to 0"),
            field: "spec.replicas".into(),
        };
        return Err(Status::invalid("autoscaling", "Scale", name, vec![cause]));
    };
    let version = meta::text(scale, "resourceVersion");
    if !version.is_empty() && version != meta::text(object, "resourceVersion") {
        return Err(Status::conflict(definition, name));
    }
    let mut changed = object.clone();
    let mut slot = &mut changed;
    for part in &paths.spec {
        // Of a custom kind whose schema says no more, anything may stand where the path leads.
        if !(slot.is_object() || slot.is_null()) {
            let path = paths.spec.join(".");
            return Err(Status::internal(format!(
                "the spec replicas field \".{path}\" leads through something that is no object"
            )));
        }
        slot = &mut slot[part.as_str()];
    }
    *slot = json!(wanted);
    Ok(changed)
}

/// The object with the replicas that an applied Scale asks for, and with who owns them now. Owners are those of the object's own
/// replicas, seen as owners of the Scale's.
///
/// # Errors
/// As of [`set`] and of [`crate::apply()`].
pub fn apply(
    definition: &ResourceDefinition,
    paths: &ScalePaths,
    live: &Value,
    applied: &Value,
    manager: FieldManager<'_>,
) -> Result<Value, Status> {
    let members: Vec<String> = paths.spec.iter().map(|part| format!("f:{part}")).collect();
    let owned =
        |entry: &Value| members.iter().try_fold(&entry["fieldsV1"], |at, part| at.get(part)).is_some();
    let entries = live["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let mut old = scale_of(paths, live);
    let seen = entries.iter().filter(|entry| owned(entry)).map(|entry| {
        let mut entry = entry.clone();
        entry["apiVersion"] = json!("autoscaling/v1");
        entry["fieldsV1"] = json!({"f:spec": {"f:replicas": {}}});
        entry
    });
    old["metadata"]["managedFields"] = seen.collect();
    let scale = crate::apply_scale(&old, applied, manager)?;
    let mut object = set(definition, paths, live, &scale)?;
    let same =
        |a: &Value, b: &Value| ["manager", "operation", "subresource"].iter().all(|part| a[part] == b[part]);
    let now: Vec<&Value> = scale["metadata"]["managedFields"].as_array().into_iter().flatten().collect();
    let mut after = Vec::new();
    for mut entry in entries {
        if owned(&entry) && !now.iter().any(|one| same(one, &entry)) {
            forget(&mut entry["fieldsV1"], &members);
            if entry["fieldsV1"].as_object().is_none_or(serde_json::Map::is_empty) {
                continue;
            }
        }
        after.push(entry);
    }
    for one in now {
        if after.iter().any(|entry| same(one, entry) && owned(entry)) {
            continue;
        }
        let fields = members.iter().rev().fold(json!({}), |inner, part| json!({ part.as_str(): inner }));
        let mut entry = one.clone();
        entry["apiVersion"] = json!(definition.api_version());
        entry["fieldsV1"] = fields;
        entry.as_object_mut().map(|entry| entry.remove("time"));
        after.push(entry);
    }
    object["metadata"]["managedFields"] = Value::Array(after);
    Ok(object)
}

/// Takes a path out of a set of fields, and what is empty without it.
fn forget(fields: &mut Value, path: &[String]) {
    let ([first, rest @ ..], Some(members)) = (path, fields.as_object_mut()) else { return };
    if let Some(inner) = members.get_mut(first) {
        forget(inner, rest);
        if inner.as_object().is_none_or(serde_json::Map::is_empty) {
            members.remove(first);
        }
    }
}

fn at<'a>(object: &'a Value, path: &[String]) -> Option<&'a Value> {
    if path.is_empty() {
        return None;
    }
    path.iter().try_fold(object, |value, part| value.get(part))
}

/// A selector as text: labels as they stand, or a LabelSelector's requirements.
fn selector_text(selector: &Value) -> String {
    if let Some(text) = selector.as_str() {
        return text.to_owned();
    }
    let plain =
        selector.get("matchLabels").or(selector.get("matchExpressions").is_none().then_some(selector));
    let mut terms: Vec<String> = plain
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| value.as_str().map(|value| format!("{key}={value}")))
        .collect();
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = expression["key"].as_str().unwrap_or("");
        let values: Vec<&str> =
            expression["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        terms.push(match expression["operator"].as_str() {
            Some("In") => format!("{key} in ({})", values.join(",")),
            Some("NotIn") => format!("{key} notin ({})", values.join(",")),
            Some("Exists") => key.to_owned(),
            _ => format!("!{key}"),
        });
    }
    terms.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_shows_and_sets_replicas() {
        let paths = ScalePaths::new(".spec.replicas", ".status.replicas", ".spec.selector");
        let object = json!({"metadata": {"name": "a", "resourceVersion": "4"}, "spec": {"replicas": 2,
            "selector": {"matchLabels": {"app": "a"}}}, "status": {"replicas": 1}});
        let scale = scale_of(&paths, &object);
        assert_eq!(scale["spec"]["replicas"], 2);
        assert_eq!(scale["status"], json!({"replicas": 1, "selector": "app=a"}));
    }

    #[test]
    fn replicas_within_something_that_is_no_object_are_an_error() {
        let catalogue = crate::catalogue::shipped();
        let definition = catalogue.resource("apps", "v1", "deployments").unwrap();
        let paths = ScalePaths::new(".spec.size.of", ".status.replicas", "");
        let set = |spec: Value| {
            let object = json!({"metadata": {"name": "a"}, "spec": spec});
            set(definition, &paths, &object, &json!({"spec": {"replicas": 3}}))
        };
        for size in [json!("large"), json!([1]), json!(4), json!(true)] {
            let refused = set(json!({"size": size})).unwrap_err();
            assert!(refused.code == 500 && refused.message.contains(".spec.size.of"), "{}", refused.message);
        }
        assert_eq!(set(json!({})).unwrap()["spec"]["size"]["of"], 3, "what is not there yet is made");
    }
}
