//! What an object is called and who it is: its type, namespace, name, uid and owners.
//!
//! In: the object as decoded, what the path names, on a change the object that stands. Out: the object with the identity that the
//! server gives it or holds it to, or a `Status`.

use std::collections::HashSet;

use karmada_definitions::resource::ResourceDefinition;
use karmada_definitions::status::{Cause, Status};
use karmada_schema::object::{ObjectKey, Stored, meta};
use serde_json::{Value, json};

use crate::preconditions;
use crate::registry_context::RegistryContext;
use crate::request::{PatchShown, WriteOptions};

/// Gives a new object its identity: type, namespace, name, uid, creation time. `dry`: nothing will be stored.
pub(crate) fn of_new(
    context: &RegistryContext,
    definition: &ResourceDefinition,
    namespace: &str,
    object: &mut Value,
    dry: bool,
) -> Result<(), Status> {
    set_type(definition, object);
    check_namespace(definition, namespace, object)?;
    let version = preconditions::resource_version(meta::text(object, "resourceVersion"));
    if !dry && version.is_ok_and(|version| version > 0) {
        // As kube-apiserver's: its storage's error, which nothing gives a reason to.
        let message = "resourceVersion should not be set on objects to be created".to_owned();
        return Err(Status { code: 500, reason: "".into(), message, details: None });
    }
    let (uid, now) = (context.new_uid(), context.now_text());
    let metadata = meta::of(object);
    for server_side in ["resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        metadata.remove(server_side);
    }
    if definition.row.generation.is_some_and(|counted| counted.from_one) {
        metadata.remove("generation");
    }
    metadata.insert("uid".into(), json!(uid));
    metadata.insert("creationTimestamp".into(), json!(now));
    Ok(())
}

/// Owners that are there twice count once; the writer was warned.
pub(crate) fn owners_once(object: &mut Value) {
    let owners = object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut);
    let Some(owners) = owners else { return };
    let mut seen = HashSet::new();
    owners.retain(|owner| seen.insert(owner.clone()));
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
        // Who asks for none at all is told so later.
        if !given.is_empty() && given != namespace && !namespace.is_empty() {
            return Err(Status::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        metadata.insert("namespace".into(), json!(namespace));
    } else {
        metadata.remove("namespace");
    }
    Ok(())
}

/// The object is the one that the path names.
fn named_as_asked(key: &ObjectKey, object: &Value) -> Result<(), Status> {
    match meta::name(object) {
        "" => Err(Status::nameless(&key.name)),
        name if *name == *key.name => Ok(()),
        name => Err(Status::misnamed(name, &key.name)),
    }
}

/// Holds what is made where a change found nothing to what the path names, and to a life that is named: that one is over.
pub(crate) fn of_missing(
    definition: &ResourceDefinition,
    key: &ObjectKey,
    object: &Value,
    options: &WriteOptions,
) -> Result<(), Status> {
    named_as_asked(key, object)?;
    match meta::text(object, "uid") {
        "" => Ok(()),
        _ if options.applied => Ok(()),
        uid => Err(preconditions::another_uid(definition, key, uid, "", options.dry_run)),
    }
}

/// Makes a changed object keep the identity of the live one, once the preconditions that it names hold.
pub(crate) fn of_changed(
    definition: &ResourceDefinition,
    key: &ObjectKey,
    live: &Stored,
    old: &Value,
    new: &mut Value,
    options: &WriteOptions,
) -> Result<(), Status> {
    set_type(definition, new);
    let is_patch = options.patch != PatchShown::None || options.applied;
    check_namespace(definition, &key.namespace, new)?;
    named_as_asked(key, new)?;
    let uid = meta::text(new, "uid").to_owned();
    preconditions::of_update(definition, key, live, new, options)?;
    if !preconditions::names_version(new) && !definition.row.updates_without_version {
        let cause = Cause {
            reason: "FieldValueInvalid".into(),
            message: "Invalid value: 0: must be specified for an update".into(),
            field: "metadata.resourceVersion".into(),
        };
        // The resource stands where a kind would: so kube-apiserver says it.
        return Err(Status::invalid(&definition.group, &definition.plural, &key.name, vec![cause]));
    }
    let metadata = meta::of(new);
    for kept in ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"]
        .iter()
        .skip(usize::from(is_patch && !uid.is_empty()))
    {
        match old["metadata"].get(*kept) {
            Some(value) => metadata.insert((*kept).to_owned(), value.clone()),
            // Validation refuses to have it made up.
            None if kept.starts_with("deletion") => None,
            None => metadata.remove(*kept),
        };
    }
    metadata.insert("resourceVersion".into(), json!(live.revision.to_string()));
    metadata.remove("selfLink");
    Ok(())
}
