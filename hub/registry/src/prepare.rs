//! The steps that make an object ready to store, as pure as they can be: each takes the object and what it must agree with.
//!
//! In: the object as sent, the object as it stands. Out: the object as it will be stored, or a `Status`.

use karmada_definitions::kind_row::{ACTED_ON, BuiltinKind};
use karmada_definitions::resource::ResourceDefinition;
use karmada_definitions::status::Status;
use karmada_schema::Empties;
use karmada_schema::object::{Stored, meta};
use serde_json::{Value, json};

use crate::block_in_place::apart;
use crate::registry_context::RegistryContext;
use crate::request::WriteOptions;
use crate::user::User;

/// Fills in defaults.
pub(crate) fn defaults(context: &RegistryContext, definition: &ResourceDefinition, object: &mut Value) {
    karmada_kinds::default(definition, object);
    (definition.row.date)(object, &|| context.now_text());
}

/// What the server decides about a new object: no status of the client's, first generation.
pub(crate) fn new_object(
    context: &RegistryContext,
    definition: &ResourceDefinition,
    object: &mut Value,
    user: &User,
) {
    let brought = definition.row.created_with_status && object["status"].is_object();
    if definition.subresource("status").is_some() && !brought {
        match (definition.row.first_status)(object, &context.now_text()) {
            Some(status) => object["status"] = status,
            None => {
                if let Some(members) = object.as_object_mut() {
                    members.remove("status");
                }
            }
        }
    }
    if definition.row.generation.is_some_and(|counted| counted.from_one) {
        meta::of(object).insert("generation".into(), json!(1));
    }
    if definition.row.tells_creator {
        asked_by(user, &mut object["spec"]);
    }
    (definition.row.begin)(object);
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
        keep_metadata(old, new, ACTED_ON);
        let metadata = new["metadata"].take();
        let mut whole = old.clone();
        put_or_remove(&mut whole["spec"], "ephemeralContainers", laid);
        whole["metadata"] = metadata;
        *new = whole;
        return;
    }
    if subresource == "resize" {
        keep_metadata(old, new, ACTED_ON);
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
        keep_metadata(old, &mut whole, definition.row.status_keeps);
        *new = whole;
        (definition.row.finish_status)(new, old, now);
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
        (definition.row.prepare_update)(new);
        if definition.row.keeps_spec && subresource.is_empty() {
            put_or_remove(new, "spec", old.get("spec").cloned());
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
    let causes = patiently(definition, || karmada_kinds::validate(definition, part, new, old))?;
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
    if unchecked {
        Vec::new()
    } else {
        patiently(definition, || karmada_kinds::tolerated(definition, new, old))
    }
}

/// What is taken of a write, but not as its writer may think.
pub(crate) fn remarks(
    definition: &ResourceDefinition,
    new: &Value,
    old: Option<(&Value, &Stored)>,
) -> Vec<String> {
    let remarks = || karmada_kinds::remarks(definition, new, old);
    // Rules are looked at once more where it was stored under another schema alone.
    let is_other = old.is_some_and(|(_, live)| !definition.shows_as_stored(live));
    if is_other { patiently(definition, remarks) } else { remarks() }
}

/// Judges an object where other requests do not wait for it, if that may take a while.
fn patiently<T>(definition: &ResourceDefinition, judge: impl FnOnce() -> T) -> T {
    if karmada_kinds::may_take_long(definition) { apart(judge) } else { judge() }
}

/// Records who owns what was written.
pub(crate) fn managed_fields(
    context: &RegistryContext,
    definition: &ResourceDefinition,
    old: Option<&Value>,
    new: &mut Value,
    options: &WriteOptions,
) {
    let now = context.now_text();
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
pub(crate) fn no_grace(definition: &ResourceDefinition, object: &Value) -> bool {
    let namespace_holds = definition.row.known == BuiltinKind::Namespace
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
