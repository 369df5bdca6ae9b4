//! The steps that make an object ready to store, as pure as they can be: each takes the object and what it must agree with.
//!
//! In: the object as sent, the object as it stands. Out: the object as it will be stored, or a `Status`.

use karmada_definitions::resource::ResourceDefinition;
use karmada_definitions::status::Status;
use karmada_kinds::strategy::{self, StatusMeta};
use karmada_schema::Empties;
use karmada_schema::object::meta;
use serde_json::{Value, json};

use crate::request::WriteOptions;
use crate::served::Served;
use crate::user::User;

/// Fills in defaults.
pub(crate) fn defaults(served: &Served, definition: &ResourceDefinition, object: &mut Value) {
    karmada_kinds::default(definition, object);
    karmada_kinds::date_taints(definition, object, || served.now_text());
}

/// Whether new objects are the first generation, whatever they say; a CSIDriver's changes alone are counted.
pub(super) fn counts_from_one(definition: &ResourceDefinition) -> bool {
    karmada_kinds::has_generation(definition) && &*definition.plural != "csidrivers"
}

/// What the server decides about a new object: no status of the client's, first generation.
pub(crate) fn new_object(served: &Served, definition: &ResourceDefinition, object: &mut Value, user: &User) {
    let brought = karmada_kinds::created_with_status(definition) && object["status"].is_object();
    if definition.subresource("status").is_some() && !brought {
        match karmada_kinds::first_status(definition, object) {
            Some(status) => object["status"] = status,
            None => {
                if let Some(members) = object.as_object_mut() {
                    members.remove("status");
                }
            }
        }
    }
    if karmada_kinds::api_service::is_local(definition, object) {
        object["status"] = karmada_kinds::api_service::local_status(&served.now_text());
    }
    if counts_from_one(definition) {
        meta::of(object).insert("generation".into(), json!(1));
    }
    match (&*definition.group, &*definition.plural) {
        ("", "persistentvolumes") => object["status"]["lastPhaseTransitionTime"] = json!(served.now_text()),
        ("certificates.k8s.io", "certificatesigningrequests") => asked_by(user, &mut object["spec"]),
        ("", "namespaces") => object["spec"] = json!({"finalizers": namespace_finalizers(object)}),
        _ => {}
    }
}

/// Who asks for a certificate is told by the server, whatever the request says.
fn asked_by(user: &User, spec: &mut Value) {
    let Some(spec) = spec.as_object_mut() else { return };
    for field in ["username", "uid", "groups", "extra"] {
        spec.remove(field);
    }
    spec.insert("username".into(), json!(user.name));
    if !user.uid.is_empty() {
        spec.insert("uid".into(), json!(user.uid));
    }
    if !user.groups.is_empty() {
        spec.insert("groups".into(), json!(user.groups));
    }
    if !user.extra.is_empty() {
        spec.insert("extra".into(), json!(user.extra));
    }
}

/// A namespace is held by its own finalizer until it is empty.
fn namespace_finalizers(object: &Value) -> Vec<Value> {
    let mut all = object["spec"]["finalizers"].as_array().cloned().unwrap_or_default();
    if !all.iter().any(|one| one == "kubernetes") {
        all.push(json!("kubernetes"));
    }
    all
}

/// Keeps a write to one part of an object from touching the others.
pub(crate) fn changed_object(
    definition: &ResourceDefinition,
    subresource: &str,
    old: &Value,
    new: &mut Value,
    now: &str,
) {
    if definition.subresource("status").is_none() {
        return;
    }
    if subresource == "ephemeralcontainers" {
        // Nothing else of the Pod moves with it.
        let laid = new["spec"].get("ephemeralContainers").cloned();
        keep_metadata(old, new, strategy::ACTED_ON);
        let metadata = new["metadata"].take();
        let mut whole = old.clone();
        put_or_remove(&mut whole["spec"], "ephemeralContainers", laid);
        whole["metadata"] = metadata;
        *new = whole;
        return;
    }
    if subresource == "resize" {
        keep_metadata(old, new, strategy::ACTED_ON);
        keep_but_sizes(old, new);
    }
    if subresource == "binding" {
        return;
    }
    if matches!(subresource, "status" | "approval") {
        let (status, metadata) = (new.get("status").cloned(), new["metadata"].clone());
        let mut whole = old.clone();
        put_or_remove(&mut whole, "status", status);
        whole["metadata"] = metadata;
        if let StatusMeta::Keeps(fields) = strategy::status_meta(definition) {
            keep_metadata(old, &mut whole, fields);
        }
        *new = whole;
        finish_status(definition, old, new, now);
        if subresource == "approval" {
            // Who approves says nothing else.
            let said =
                new["status"].get("conditions").filter(|said| said.as_array().is_some_and(|s| !s.is_empty()));
            let said = said.cloned();
            let mut status = old.get("status").cloned().unwrap_or_else(|| json!({}));
            put_or_remove(&mut status, "conditions", said);
            put_or_remove(new, "status", Some(status));
        }
    } else {
        put_or_remove(new, "status", old.get("status").cloned());
        karmada_kinds::prepare_update(definition, new);
        match (&*definition.group, &*definition.plural, subresource) {
            // A request is not changed once it is made.
            ("certificates.k8s.io", "certificatesigningrequests", "") => {
                put_or_remove(new, "spec", old.get("spec").cloned());
            }
            // Finalizers of namespaces have a part of their own.
            ("", "namespaces", "") => put_or_remove(new, "spec", old.get("spec").cloned()),
            _ => {}
        }
    }
}

/// Takes back what a write of a Pod's sizes says of anything else. Containers that come, go or move are left to be refused.
fn keep_but_sizes(old: &Value, new: &mut Value) {
    const LISTS: [&str; 2] = ["containers", "initContainers"];
    let count = |object: &Value, list: &str| object["spec"][list].as_array().map_or(0, Vec::len);
    if LISTS.iter().any(|list| count(old, list) != count(new, list)) {
        return;
    }
    let mut spec = old["spec"].clone();
    put_or_remove(&mut spec, "resources", new["spec"].get("resources").cloned());
    for list in LISTS {
        if let Some(all) = new["spec"][list].as_array() {
            put_or_remove(&mut spec, list, Some(json!(sized(&old["spec"][list], all))));
        }
    }
    new["spec"] = spec;
}

/// The containers as they were with the sizes that they get; where they are others, those others.
fn sized(old: &Value, new: &[Value]) -> Vec<Value> {
    let each = old.as_array().into_iter().flatten().zip(new).map(|(before, now)| {
        let mut one = before.clone();
        for field in ["resources", "resizePolicy"] {
            put_or_remove(&mut one, field, now.get(field).cloned());
        }
        (before["name"] == now["name"]).then_some(one)
    });
    each.collect::<Option<Vec<Value>>>().unwrap_or_else(|| new.to_vec())
}

/// Takes back what a write of a part of an object says of these fields.
fn keep_metadata(old: &Value, new: &mut Value, fields: &[&str]) {
    for field in fields {
        put_or_remove(&mut new["metadata"], field, old["metadata"].get(field).cloned());
    }
}

/// What the server keeps in a status that is written.
fn finish_status(definition: &ResourceDefinition, old: &Value, new: &mut Value, now: &str) {
    match (&*definition.group, &*definition.plural) {
        ("", "pods") if new["status"]["qosClass"].as_str().is_none_or(str::is_empty) => {
            new["status"]["qosClass"] = old["status"]["qosClass"].clone();
        }
        ("certificates.k8s.io", _) => {
            let before = old["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let all = new.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
            let all = all.into_iter().flatten();
            for condition in all {
                if condition["lastUpdateTime"].is_null() {
                    condition["lastUpdateTime"] = json!(now);
                }
                if condition["lastTransitionTime"].is_null() {
                    let same = before
                        .iter()
                        .find(|one| one["type"] == condition["type"] && one["status"] == condition["status"]);
                    let since = same.map_or_else(|| json!(now), |one| one["lastTransitionTime"].clone());
                    condition["lastTransitionTime"] = since;
                }
            }
        }
        ("", "persistentvolumes") => {
            let (before, after) = (&old["status"], &new["status"]);
            let (was, is) = (&before["lastPhaseTransitionTime"], &after["lastPhaseTransitionTime"]);
            if before["phase"] == after["phase"] && is.is_null() && !was.is_null() {
                new["status"]["lastPhaseTransitionTime"] = was.clone();
            } else if before["phase"] != after["phase"] && (is.is_null() || is == was) {
                new["status"]["lastPhaseTransitionTime"] = json!(now);
            }
        }
        _ => {}
    }
}

fn put_or_remove(object: &mut Value, field: &str, value: Option<Value>) {
    let Some(members) = object.as_object_mut() else { return };
    match value {
        Some(value) => members.insert(field.to_owned(), value),
        None => members.remove(field),
    };
}

/// Judges a new object as it was sent: with what is empty and not stored.
pub(crate) fn validate_new(
    definition: &ResourceDefinition,
    object: &Value,
    empties: &Empties,
) -> Result<(), Status> {
    if empties.is_none() {
        return validate(definition, "", object, None);
    }
    let mut sent = object.clone();
    empties.lay_in(&mut sent);
    validate(definition, "", &sent, None)
}

/// The same of a changed object. What was sent empty where nothing stands is no change, so it is laid into both.
pub(crate) fn validate_changed(
    definition: &ResourceDefinition,
    part: &str,
    new: &Value,
    old: &Value,
    empties: &Empties,
) -> Result<(), Status> {
    if empties.is_none() {
        return validate(definition, part, new, Some(old));
    }
    let (mut sent, mut stood) = (new.clone(), old.clone());
    empties.lay_in(&mut sent);
    empties.lay_in(&mut stood);
    validate(definition, part, &sent, Some(&stood))
}

/// Refuses an object that breaks its kind's rules, naming all of them.
pub(crate) fn validate(
    definition: &ResourceDefinition,
    part: &str,
    new: &Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    let causes = karmada_kinds::validate(definition, part, new, old)?;
    if causes.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&definition.group, &definition.kind, meta::name(new), causes))
}

/// What a change that is refused leaves as wrong as it was: it is mentioned all the same, where rules were run at all.
pub(crate) fn tolerated(
    definition: &ResourceDefinition,
    new: &Value,
    old: &Value,
    refusal: &Status,
) -> Vec<String> {
    let unchecked = refusal.code == 429 || refusal.message.contains("some validation rules were not checked");
    if unchecked { Vec::new() } else { karmada_kinds::tolerated(definition, new, old) }
}

/// Records who owns what was written.
pub(crate) fn managed_fields(
    served: &Served,
    definition: &ResourceDefinition,
    old: Option<&Value>,
    new: &mut Value,
    options: &WriteOptions,
) {
    let now = served.now_text();
    let (name, subresource) = (&*options.field_manager, &*options.subresource);
    let manager = karmada_kinds::FieldManager { name, subresource, now: &now, force: false };
    karmada_kinds::update_managed(definition, old, new, manager);
}

fn members(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flatten().map(|(name, value)| (name.as_str(), value))
}

/// Whether a change leaves everything as it was, timestamps of field ownership aside. Nothing is copied: every write asks.
pub(crate) fn same(old: &Value, new: &Value) -> bool {
    let others = |value| members(value).filter(|(name, _)| *name != "metadata");
    others(old).eq(others(new)) && same_metadata(&old["metadata"], &new["metadata"])
}

fn owners(metadata: &Value) -> &[Value] {
    metadata.get("managedFields").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn same_metadata(old: &Value, new: &Value) -> bool {
    let others = |value| members(value).filter(|(name, _)| *name != "managedFields");
    let timeless = |entry| members(entry).filter(|(name, _)| *name != "time");
    let (before, after) = (owners(old), owners(new));
    others(old).eq(others(new))
        && before.len() == after.len()
        && before.iter().zip(after).all(|(old, new)| timeless(old).eq(timeless(new)))
}

/// Whether nothing but finalizers holds an object that is being deleted.
pub(crate) fn no_grace(object: &Value) -> bool {
    let namespace_holds = object["kind"] == "Namespace"
        && object["spec"]["finalizers"].as_array().is_some_and(|f| !f.is_empty());
    object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0 && !namespace_holds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_times_of_ownership_may_differ() {
        let at = |time: &str, n: i64| json!({"metadata": {"managedFields": [{"manager": "m", "time": time}]}, "data": n});
        assert!(same(&at("a", 1), &at("b", 1)));
        assert!(!same(&at("a", 1), &at("a", 2)));
    }
}
