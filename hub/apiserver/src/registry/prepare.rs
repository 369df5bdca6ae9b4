//! The steps that make an object ready to store, as pure as they can be: each takes the object and what it must agree with.
//!
//! In: the object as sent, the object as it stands. Out: the object as it will be stored, or a `Status`.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use super::{FieldValidation, Registry, WriteOptions};
use crate::conversion;
use crate::kinds;
use crate::object::{ObjectKey, Stored, meta};
use crate::resource::{Family, ResourceDefinition};
use crate::status::{Cause, Status};

/// The largest object that is stored, as etcd's default request limit.
const MAX_OBJECT: usize = 3 << 19;

/// Letters of generated names: no vowels, so that no words come out.
const NAME_LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Checks that the body is the kind that the path names.
pub(crate) fn check_type(definition: &ResourceDefinition, object: &Value) -> Result<(), Status> {
    if !object.is_object() {
        return Err(Status::bad_request("the object provided is not a JSON object"));
    }
    let (kind, version) =
        (object["kind"].as_str().unwrap_or(""), object["apiVersion"].as_str().unwrap_or(""));
    let expected = definition.api_version();
    if !version.is_empty() && version != expected {
        if definition.family == Family::Builtin {
            return Err(Status::bad_request(format!(
                "{0} in version \"{version}\" cannot be handled as a {0}: no kind \"{kind}\" is registered for version \"{version}\" in scheme \"pkg/runtime/scheme.go:110\"",
                definition.kind
            )));
        }
        return Err(Status::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({expected})"
        )));
    }
    if !kind.is_empty() && kind != &*definition.kind {
        return Err(Status::bad_request(format!(
            "{kind} in version \"{}\" cannot be handled as a {}: converting ({expected}.{kind}) to ({expected}.{}): unknown conversion",
            definition.version, definition.kind, definition.kind
        )));
    }
    match object.get("metadata") {
        None | Some(Value::Object(_)) => Ok(()),
        Some(_) => Err(Status::bad_request("the metadata of the object provided is not a JSON object")),
    }
}

/// Reads the body into the kind; what the kind does not know is dropped, and said as asked.
pub(crate) fn decode(
    definition: &ResourceDefinition,
    object: &mut Value,
    options: &WriteOptions,
    warnings: &mut Vec<String>,
) -> Result<(), Status> {
    let mut problems = options.body_problems.clone();
    problems.extend(kinds::decode(definition, object)?);
    if problems.is_empty() {
        return Ok(());
    }
    match options.field_validation {
        FieldValidation::Ignore => {}
        FieldValidation::Warn => warnings.append(&mut problems),
        FieldValidation::Strict => {
            let all = problems.join(", ");
            if !options.patch.is_empty() {
                let cause = Cause {
                    reason: "FieldValueInvalid".into(),
                    message: format!("Invalid value: \"{}\": strict decoding error: {all}", options.patch),
                    field: "patch".into(),
                };
                return Err(Status::invalid("", "", "", vec![cause]));
            }
            return Err(Status::bad_request(format!(
                "{} in version \"{}\" cannot be handled as a {}: strict decoding error: {all}",
                definition.kind, definition.version, definition.kind
            )));
        }
    }
    Ok(())
}

/// Gives a new object its identity: type, namespace, name, uid, creation time.
pub(crate) fn identity_of_new(
    registry: &Registry,
    definition: &ResourceDefinition,
    namespace: &str,
    object: &mut Value,
) -> Result<(), Status> {
    set_type(definition, object);
    check_namespace(definition, namespace, object)?;
    if !matches!(meta::text(object, "resourceVersion"), "" | "0") {
        // As kube-apiserver's: its storage's error, which nothing gives a reason to.
        let message = "resourceVersion should not be set on objects to be created".to_owned();
        return Err(Status { code: 500, reason: "".into(), message, details: None });
    }
    let generate = meta::text(object, "generateName").to_owned();
    let named = !meta::name(object).is_empty();
    if !named && generate.is_empty() {
        let cause = Cause {
            reason: "FieldValueRequired".into(),
            message: "Required value: name or generateName is required".into(),
            field: "metadata.name".into(),
        };
        return Err(Status::invalid(&definition.group, &definition.kind, "", vec![cause]));
    }
    let (uid, now) = (registry.new_uid(), registry.now_text());
    let suffix = registry.new_uid();
    let metadata = meta::of(object);
    for server_side in
        ["resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation"]
    {
        metadata.remove(server_side);
    }
    if !named {
        metadata.insert("name".into(), json!(generated_name(&generate, &suffix)));
    }
    metadata.insert("uid".into(), json!(uid));
    metadata.insert("creationTimestamp".into(), json!(now));
    Ok(())
}

/// `prefix` and five letters drawn from `seed`, within the length of a name.
pub fn generated_name(prefix: &str, seed: &str) -> String {
    let letters: String = seed
        .bytes()
        .filter(u8::is_ascii_hexdigit)
        .collect::<Vec<u8>>()
        .chunks(4)
        .take(5)
        .map(|chunk| {
            let sum = chunk
                .iter()
                .fold(0usize, |sum, b| sum * 16 + (*b as char).to_digit(16).unwrap_or(0) as usize);
            NAME_LETTERS[sum % NAME_LETTERS.len()] as char
        })
        .collect();
    let kept: String = prefix.chars().take(58).collect();
    format!("{kept}{letters}")
}

fn set_type(definition: &ResourceDefinition, object: &mut Value) {
    object["kind"] = json!(definition.kind);
    object["apiVersion"] = json!(definition.api_version());
}

fn check_namespace(
    definition: &ResourceDefinition,
    namespace: &str,
    object: &mut Value,
) -> Result<(), Status> {
    let given = meta::namespace(object).to_owned();
    let metadata = meta::of(object);
    if definition.namespaced {
        if !given.is_empty() && given != namespace {
            return Err(Status::bad_request(format!(
                "the namespace of the provided object does not match the namespace sent on the request ({given} vs {namespace})"
            )));
        }
        metadata.insert("namespace".into(), json!(namespace));
    } else {
        metadata.remove("namespace");
    }
    Ok(())
}

/// Makes a changed object keep the identity of the live one. Refuses one that names another version than the live one's.
pub(crate) fn identity_of_changed(
    definition: &ResourceDefinition,
    key: &ObjectKey,
    live: &Stored,
    old: &Value,
    new: &mut Value,
) -> Result<(), Status> {
    set_type(definition, new);
    check_namespace(definition, &key.namespace, new)?;
    let name = meta::name(new).to_owned();
    if name.is_empty() {
        meta::of(new).insert("name".into(), json!(key.name));
    } else if *name != *key.name {
        return Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            key.name
        )));
    }
    let uid = meta::text(new, "uid").to_owned();
    if !uid.is_empty() && *uid != *live.uid {
        let why =
            format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {}", live.uid);
        return Err(Status::conflict_because(definition, &key.name, &why));
    }
    let version = meta::text(new, "resourceVersion").to_owned();
    let pinned = !matches!(version.as_str(), "" | "0");
    if pinned && version.parse() != Ok(live.revision) {
        return Err(Status::conflict(definition, &key.name));
    }
    if !pinned && definition.is_structural() {
        let cause = Cause {
            reason: "FieldValueInvalid".into(),
            message: "Invalid value: 0x0: must be specified for an update".into(),
            field: "metadata.resourceVersion".into(),
        };
        return Err(Status::invalid(&definition.group, &definition.kind, &key.name, vec![cause]));
    }
    let metadata = meta::of(new);
    for kept in ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"]
    {
        match old["metadata"].get(kept) {
            Some(value) => metadata.insert(kept.to_owned(), value.clone()),
            None => metadata.remove(kept),
        };
    }
    metadata.insert("resourceVersion".into(), json!(live.revision.to_string()));
    metadata.remove("selfLink");
    Ok(())
}

/// Fills in defaults.
pub(crate) fn defaults(definition: &ResourceDefinition, object: &mut Value) {
    kinds::default(definition, object);
}

/// What the server decides about a new object: no status of the client's, first generation.
pub(crate) fn new_object(definition: &ResourceDefinition, object: &mut Value) {
    let brought = kinds::created_with_status(definition) && object["status"].is_object();
    if definition.subresource("status").is_some() && !brought {
        match kinds::first_status(definition, object) {
            Some(status) => object["status"] = status,
            None => {
                if let Some(members) = object.as_object_mut() {
                    members.remove("status");
                }
            }
        }
    }
    if kinds::has_generation(definition) {
        meta::of(object).insert("generation".into(), json!(1));
    }
}

/// Keeps a write to one part of an object from touching the others.
pub(crate) fn changed_object(
    definition: &ResourceDefinition,
    subresource: &str,
    old: &Value,
    new: &mut Value,
) {
    if definition.subresource("status").is_none() {
        return;
    }
    // An approval is a condition in the status.
    if matches!(subresource, "status" | "approval") {
        let (status, managed) = (new.get("status").cloned(), new["metadata"].get("managedFields").cloned());
        let mut whole = old.clone();
        put_or_remove(&mut whole, "status", status);
        if let Some(managed) = managed {
            meta::of(&mut whole).insert("managedFields".into(), managed);
        }
        // Conditions on a status update may come with labels and annotations for built-in kinds, but never with a spec.
        *new = whole;
    } else {
        put_or_remove(new, "status", old.get("status").cloned());
        kinds::prepare_update(definition, new);
    }
}

fn put_or_remove(object: &mut Value, field: &str, value: Option<Value>) {
    let Some(members) = object.as_object_mut() else { return };
    match value {
        Some(value) => members.insert(field.to_owned(), value),
        None => members.remove(field),
    };
}

/// Refuses an object that breaks its kind's rules, naming all of them.
pub(crate) fn validate(
    definition: &ResourceDefinition,
    new: &Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    let causes = kinds::validate(definition, new, old);
    if causes.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&definition.group, &definition.kind, meta::name(new), causes))
}

/// Records who owns what was written.
pub(crate) fn managed_fields(
    registry: &Registry,
    definition: &ResourceDefinition,
    old: Option<&Value>,
    new: &mut Value,
    options: &WriteOptions,
) {
    let now = registry.now_text();
    kinds::update_managed(definition, old, new, &options.field_manager, &options.subresource, &now);
}

/// Counts a change of anything but metadata and status.
pub(crate) fn raise_generation(definition: &ResourceDefinition, old: &Value, new: &mut Value) {
    if !kinds::has_generation(definition) {
        return;
    }
    let has_status = definition.subresource("status").is_some();
    let counts =
        |name: &str| !(matches!(name, "kind" | "apiVersion" | "metadata") || has_status && name == "status");
    let unchanged =
        members(old).filter(|(name, _)| counts(name)).eq(members(new).filter(|(name, _)| counts(name)));
    let generation = old["metadata"]["generation"].as_i64().unwrap_or(1);
    let raised = if unchanged { generation } else { generation + 1 };
    meta::of(new).insert("generation".into(), json!(raised));
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

/// The object in the version it is stored in.
pub(crate) fn to_storage(definition: &ResourceDefinition, object: Value) -> Value {
    if let Some(custom) = &definition.custom {
        return custom.to_storage(object);
    }
    if definition.is_storage_version() { object } else { conversion::to_storage(definition, object) }
}

/// The object in the version it is stored in, by the kind's webhook where it has one.
pub(crate) async fn store(
    registry: &Registry,
    definition: &ResourceDefinition,
    object: Value,
) -> Result<Value, Status> {
    match &definition.custom {
        Some(custom) => custom.store(registry.cache(), object).await,
        None => Ok(to_storage(definition, object)),
    }
}

/// The object to be answered with, where what is stored could only be shown by asking a webhook again.
pub(crate) fn shown(definition: &ResourceDefinition, object: &Value) -> Option<Value> {
    let asks = definition.custom.as_ref().is_some_and(|custom| custom.asks_webhook());
    asks.then(|| object.clone())
}

/// What a write is answered with: the stored bytes, or what [`shown`] kept.
pub(crate) fn answer(
    definition: &ResourceDefinition,
    shown: Option<Value>,
    bytes: &Bytes,
    revision: u64,
) -> Result<Arc<Stored>, Status> {
    match (&definition.custom, shown) {
        (Some(custom), Some(object)) => custom.shown(&object, revision),
        _ => Registry::stored(bytes, revision),
    }
}

/// Whether an object is stored in the version that is stored now: if not, writing it unchanged brings it there.
pub(crate) fn is_stored_as_now(definition: &ResourceDefinition, live: &Stored) -> bool {
    let Some(_) = &definition.custom else { return true };
    let head = format!(
        "{{\"kind\":\"{}\",\"apiVersion\":\"{}\",",
        definition.kind,
        definition.storage_api_version()
    );
    live.json.starts_with(head.as_bytes())
}

/// A stored object in the version the client speaks.
pub(crate) fn from_storage(definition: &ResourceDefinition, object: Value) -> Value {
    if let Some(custom) = &definition.custom {
        return custom.from_storage(object);
    }
    if definition.is_storage_version() { object } else { conversion::from_storage(definition, object) }
}

/// Refuses what is larger than any store would take.
pub(crate) fn check_size(bytes: &[u8]) -> Result<(), Status> {
    if bytes.len() > MAX_OBJECT { Err(Status::too_large(MAX_OBJECT)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_names_are_drawn_from_the_seed() {
        let name = generated_name("web-", "0123abcd-4567-89ef-0123-456789abcdef");
        assert!(name.starts_with("web-") && name.len() == 9, "{name}");
        assert!(name[4..].bytes().all(|b| NAME_LETTERS.contains(&b)));
        assert_eq!(generated_name(&"x".repeat(80), "00000000000000000000").len(), 63);
    }

    #[test]
    fn only_times_of_ownership_may_differ() {
        let at = |time: &str, n: i64| json!({"metadata": {"managedFields": [{"manager": "m", "time": time}]}, "data": n});
        assert!(same(&at("a", 1), &at("b", 1)));
        assert!(!same(&at("a", 1), &at("a", 2)));
    }
}
