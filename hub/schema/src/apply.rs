//! Server-side apply: who owns which field, merging by owner, conflicts. Follows structured-merge-diff v6 and
//! kube-apiserver's field manager chain, so that managedFields, conflicts and merged objects come out the same.
//!
//! In: the live object, the applied configuration or the new object, and who writes. Out: the object with its
//! `metadata.managedFields` brought up to date; or the conflicts. The caller decodes, defaults and validates after.
//!
//! Entries of other API versions of the same kind are compared in the version of the request: kinds that are served in
//! several versions with different fields convert before they come here.

mod compare;
mod conflict;
mod element;
mod managers;
mod merge;
mod remove;
mod reset_fields;
mod set;
mod typed;

use serde_json::Value;

use crate::metadata::annotations_fit;
use crate::{SchemaRef, decode_go, go_json};
use compare::compare;
use managers::{Managers, Operation};
use reset_fields::reset_fields;
use typed::{Duplicates, MergePlace, field_set, validate};

pub use conflict::{ApplyError, Conflict};
pub use element::Element;
pub use reset_fields::{BesideStatus, ResetFields};
pub use set::Set;

#[cfg(test)]
mod tests;

/// The annotation in which `kubectl apply` keeps what it applied last.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Who writes, and how.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    /// `fieldManager`, or what the user agent gives; empty counts as `unknown`.
    pub manager: &'a str,
    /// The API version of the request.
    pub api_version: &'a str,
    /// The subresource; empty for the object itself.
    pub subresource: &'a str,
    /// RFC 3339, whole seconds.
    pub now: &'a str,
    /// Whether the kind has a status subresource, so that writes to the object itself cannot own status.
    pub has_status: bool,
    /// What the kind says of fields that such a write leaves as they are.
    pub resets: ResetFields,
}

/// Brings `new`'s managedFields up to date after a create (`live` is `None`), update or patch.
///
/// The writer owns what it changed or added, beside what it owned; others lose it. An empty list in `new`, or one empty
/// entry, resets all ownership. An object that was never tracked stays so. Times change only with a write that changes
/// fields.
pub fn update_managed(live: Option<&Value>, new: &mut Value, writer: Writer<'_>, schema: SchemaRef<'_>) {
    let Some(mut managers) = managers_of(live, new, writer.subresource) else { return };
    strip(new);
    // What cannot be told apart, such as elements of a keyed list without their key, nobody can own.
    if validate(MergePlace::Known(schema), new, Duplicates::Allowed).is_err() {
        return;
    }
    let exists = live.and_then(|live| live.pointer("/metadata/uid")).is_some();
    if !(managers.is_empty() && exists) {
        let live = live.cloned().map_or_else(
            || empty(schema),
            |mut live| {
                strip(&mut live);
                live
            },
        );
        managers = update(&live, new, managers, writer, &set_by_server(new, writer), schema);
        managers.cap();
    }
    managers.write(new);
}

/// What becomes of fields that others own and an apply sets otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflicts {
    /// The apply is refused.
    Refused,
    /// They are the applier's from now on.
    Taken,
}

/// Merges the configuration `applied` into `live`, as the patch type `application/apply-patch+yaml` does.
///
/// Answers the new object, managedFields in place. Fields that the manager applied before and no longer does go, unless
/// someone else owns them.
///
/// # Errors
/// [`ApplyError::Conflicts`] (409) unless they are taken; [`ApplyError::BadRequest`] (400) for an applied object that carries
/// managedFields or another version; [`ApplyError::Typed`] (500) where it does not fit the schema.
pub fn apply(
    live: Option<&Value>,
    applied: &Value,
    writer: Writer<'_>,
    conflicts: Conflicts,
    schema: SchemaRef<'_>,
) -> Result<Value, ApplyError> {
    let version = applied["apiVersion"].as_str().unwrap_or_default();
    if version != writer.api_version {
        return Err(ApplyError::BadRequest(format!("invalid object type: {}", describe_type(applied))));
    }
    if applied.pointer("/metadata/managedFields").is_some_and(|managed| !managed.is_null()) {
        return Err(ApplyError::BadRequest("metadata.managedFields must be nil".to_owned()));
    }
    if let Err(problems) = validate(MergePlace::Known(schema), applied, Duplicates::Refused) {
        let name = describe(applied);
        return Err(ApplyError::Typed(format!("failed to create typed patch object ({name}): {problems}")));
    }
    let mut managers = match live {
        Some(live) => Managers::read(live)
            .map_err(|problem| ApplyError::Typed(format!("failed to decode managed fields: {problem}")))?,
        None => Managers::default(),
    };
    let mut base = live.cloned().unwrap_or_else(|| empty(schema));
    strip(&mut base);
    if managers.is_empty() {
        let before = Writer { manager: "before-first-apply", ..writer };
        managers = update(&empty(schema), &base, managers, before, &unowned(), schema);
    }
    let outcome = match merge_owned(&base, applied, managers.clone(), writer, conflicts, schema) {
        Err(ApplyError::Conflicts(found)) if writer.manager == "kubectl" => {
            let left = conflict::not_from_client_side(found, &base, writer, schema);
            if !left.is_empty() {
                return Err(ApplyError::Conflicts(left));
            }
            merge_owned(&base, applied, managers, writer, Conflicts::Taken, schema)
        }
        outcome => outcome,
    };
    let (mut object, managers) = outcome?;
    refresh_last_applied(&mut object, applied, writer);
    managers.write(&mut object);
    Ok(object)
}

/// An object of the kind before anything is set. A Go type's has its structs already: nobody is the one who added them.
fn empty(schema: SchemaRef<'_>) -> Value {
    let mut object = Value::Object(serde_json::Map::new());
    // An object without fields fits every schema.
    let _ = decode_go(schema, &mut object);
    object
}

fn strip(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

/// `namespace/name; group/version, Kind=kind`, as errors name an object.
fn describe(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    format!("{}/{}; {}", text("/metadata/namespace"), text("/metadata/name"), describe_type(object))
}

/// `group/version, Kind=kind`.
fn describe_type(object: &Value) -> String {
    let (version, kind) =
        (object["apiVersion"].as_str().unwrap_or_default(), object["kind"].as_str().unwrap_or_default());
    let slash = if version.contains('/') { "" } else { "/" };
    format!("{slash}{version}, Kind={kind}")
}

/// The ownership a write starts from: what the request carries where it may, else what is stored. `None` where the
/// request's is malformed beyond use.
fn managers_of(live: Option<&Value>, new: &Value, subresource: &str) -> Option<Managers> {
    let stored = || live.map_or_else(Managers::default, |live| Managers::read(live).unwrap_or_default());
    if !subresource.is_empty() {
        return Some(stored());
    }
    if Managers::is_reset(new) {
        return Some(Managers::default());
    }
    Some(match Managers::read(new) {
        Ok(managers) if !managers.is_empty() => managers,
        _ => stored(),
    })
}

/// Fields that nobody owns: what identifies the object, and what the server keeps.
fn unowned() -> Set {
    let mut set = Set::default();
    for name in ["apiVersion", "kind", "metadata"] {
        set.insert(&[Element::field(name)]);
    }
    for name in [
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    ] {
        set.insert(&[Element::field("metadata"), Element::field(name)]);
    }
    set
}

/// What a plain write of `new` does not own: beside [`unowned`] a list that the server began, whoever made the object.
fn set_by_server(new: &Value, writer: Writer<'_>) -> Set {
    let mut set = unowned();
    if let Some(path) = writer.resets.begun_by_server.filter(|_| writer.subresource.is_empty()) {
        let begun = path.iter().fold(new, |at, field| &at[*field]);
        if begun.as_array().map_or(0, Vec::len) < 2 {
            set.insert(&path.map(Element::field));
        }
    }
    set
}

/// Ownership after `live` became `new` without apply; of what is in `never` nothing is owned.
fn update(
    live: &Value,
    new: &Value,
    mut managers: Managers,
    writer: Writer<'_>,
    never: &Set,
    schema: SchemaRef<'_>,
) -> Managers {
    let reset = reset_fields(writer, schema);
    let change = compare(MergePlace::Known(schema), live, new).without(&reset);
    let taken = change.modified.union(&change.added);
    managers.change_each(|_, set| set.difference(&set.intersection(&taken)).difference(&change.removed));
    let own = taken.recursive_difference(&reset).difference(never);
    if !own.is_empty() {
        managers.add(writer, Operation::Update, &own);
    }
    managers
}

/// One apply: the merged object, and ownership.
fn merge_owned(
    live: &Value,
    applied: &Value,
    mut managers: Managers,
    writer: Writer<'_>,
    conflicts: Conflicts,
    schema: SchemaRef<'_>,
) -> Result<(Value, Managers), ApplyError> {
    let place = MergePlace::Known(schema);
    let merged = merge::merge(place, live, applied)
        .map_err(|problem| ApplyError::Typed(format!("failed to merge config: {problem}")))?;
    let reset = reset_fields(writer, schema);
    let set = field_set(place, applied).recursive_difference(&reset);
    let last = managers.replace(writer, set);
    let object = match last {
        Some(last) if !last.is_empty() => remove::prune(place, &merged, &last, &managers.all()),
        _ => merged,
    };
    let change = compare(place, live, &object).without(&reset);
    let taken = change.modified.union(&change.added);
    let found = conflict::conflicts(&managers, writer, &taken);
    if conflicts == Conflicts::Refused && !found.is_empty() {
        return Err(ApplyError::Conflicts(found));
    }
    managers
        .change_others(writer, |set| set.difference(&set.intersection(&taken)).difference(&change.removed));
    managers.change_own(writer, |set| set.difference(&unowned()));
    if object == *live {
        return Ok((object, managers));
    }
    managers.touch(writer);
    Ok((object, managers))
}

/// `kubectl apply --server-side` on an object that client-side apply made: its annotation follows, so that going back
/// loses nothing. What would be too large is not kept at all, as nothing may have such annotations.
fn refresh_last_applied(object: &mut Value, applied: &Value, writer: Writer<'_>) {
    if writer.manager != "kubectl" {
        return;
    }
    let annotations = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut);
    let Some(annotations) = annotations else { return };
    if annotations.get(LAST_APPLIED).and_then(Value::as_str).is_none_or(str::is_empty) {
        return;
    }
    let mut applied = applied.clone();
    if let Some(annotations) = applied.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(LAST_APPLIED);
    }
    annotations.insert(LAST_APPLIED.to_owned(), Value::String(format!("{}\n", go_json(&applied))));
    if !annotations_fit(annotations) {
        annotations.remove(LAST_APPLIED);
    }
}
