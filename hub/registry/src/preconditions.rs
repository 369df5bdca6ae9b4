//! uid and resourceVersion preconditions: 409 Conflict.
//!
//! In: the object that stands, what an update's body or the options of a delete say of uid and resourceVersion. Out: nothing, or the
//! refusal in kube-apiserver's words. Each try of an update or a delete asks anew, as the object may be another by then.

use karmada_definitions::kind_row::BuiltinKind;
use karmada_definitions::resource::ResourceDefinition;
use karmada_definitions::status::Status;
use karmada_kinds::strategy;
use karmada_schema::object::{ObjectKey, Stored, meta};
use serde_json::Value;

use crate::request::{PatchShown, Preconditions, WriteOptions};

/// A version as Go reads one: digits, and no sign before them.
///
/// # Errors
/// It is none; in Go's words.
pub fn resource_version(text: &str) -> Result<u64, String> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let why = if is_number { "value out of range" } else { "invalid syntax" };
    let read = if is_number { text.parse().ok() } else { None };
    read.ok_or_else(|| format!("strconv.ParseUint: parsing {text:?}: {why}"))
}

/// Whether the object names a version: without one, or with 0, it may be of any.
pub(crate) fn names_version(object: &Value) -> bool {
    !matches!(meta::text(object, "resourceVersion"), "" | "0")
}

/// The refusal of a write that means another life of the object.
pub fn another_uid(
    definition: &ResourceDefinition,
    key: &ObjectKey,
    asked: &str,
    uid: &str,
    dry_run: bool,
) -> Status {
    // A dry run stops above the layer that knows where all keys begin.
    let path = strategy::storage_path(definition, key);
    let path = if dry_run { path.trim_start_matches("/registry") } else { &path };
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {path}, ResourceVersion: 0, AdditionalErrorMsg: {}",
        uid_failed(asked, uid)
    );
    Status::conflict_because(definition, &key.name, &why)
}

/// What is said of a uid wherever the storage layer of kube-apiserver compares it.
fn uid_failed(asked: &str, uid: &str) -> String {
    format!("Precondition failed: UID in precondition: {asked}, UID in object meta: {uid}")
}

/// Holds a changed object to the uid and the version that it names.
///
/// # Errors
/// The live object is another, or has another version: a conflict; or the version cannot be read.
pub(crate) fn of_update(
    definition: &ResourceDefinition,
    key: &ObjectKey,
    live: &Stored,
    new: &Value,
    options: &WriteOptions,
) -> Result<(), Status> {
    let is_patch = options.patch != PatchShown::None || options.applied;
    let uid = meta::text(new, "uid");
    // Of a whole object it is a precondition; in a patch, a change that validation refuses.
    if !uid.is_empty() && uid != live.uid() && !is_patch {
        return Err(another_uid(definition, key, uid, live.uid(), options.dry_run));
    }
    let version = meta::text(new, "resourceVersion");
    if names_version(new) && resource_version(version).map_err(Status::unforeseen)? != live.revision {
        return Err(Status::conflict(definition, &key.name));
    }
    Ok(())
}

/// Holds a delete to the uid and the version that its options name.
///
/// # Errors
/// The object is another, or has another version: a conflict, in words that differ between kinds.
pub(crate) fn of_delete(
    definition: &ResourceDefinition,
    live: &Stored,
    preconditions: Option<&Preconditions>,
) -> Result<(), Status> {
    let Some(wanted) = preconditions else { return Ok(()) };
    let is_namespace = definition.row.known == BuiltinKind::Namespace;
    if let Some(uid) = wanted.uid.as_deref().filter(|uid| is_namespace && *uid != live.uid()) {
        // Namespaces have a delete of their own, and words of their own.
        return Err(Status::conflict_because(definition, &live.key.name, &uid_failed(uid, live.uid())));
    }
    let version = live.revision.to_string();
    if let Some(asked) = wanted.resource_version.as_deref().filter(|asked| is_namespace && *asked != version)
    {
        let why = format!(
            "Precondition failed: ResourceVersion in precondition: {asked}, ResourceVersion in object meta: {version}"
        );
        return Err(Status::conflict_because(definition, &live.key.name, &why));
    }
    if let Some(uid) = wanted.uid.as_deref().filter(|uid| *uid != live.uid()) {
        let why = format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted \
             and then recreated",
            live.uid()
        );
        return Err(Status::conflict_with_kind(definition, &live.key.name, &why));
    }
    if let Some(asked) = wanted.resource_version.as_deref().filter(|v| **v != version) {
        let why = format!(
            "the ResourceVersion in the precondition ({asked}) does not match the ResourceVersion in record ({version}). \
             The object might have been modified"
        );
        return Err(Status::conflict_with_kind(definition, &live.key.name, &why));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_digits_alone() {
        assert_eq!(resource_version("18446744073709551615"), Ok(u64::MAX));
        assert_eq!(resource_version("007"), Ok(7));
        for (text, why) in [
            ("", "invalid syntax"),
            ("-5", "invalid syntax"),
            ("+5", "invalid syntax"),
            ("1.5", "invalid syntax"),
            ("1_0", "invalid syntax"),
            ("18446744073709551616", "value out of range"),
        ] {
            let told = format!("strconv.ParseUint: parsing {text:?}: {why}");
            assert_eq!(resource_version(text), Err(told));
        }
    }
}
