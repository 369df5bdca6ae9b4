//! Generations, paths and packages: what follows from a kind's row for one object.
//!
//! In: a kind's definition; an object, as it was and as it is to be. Out: whether it shares its template's labels, where kube-apiserver
//! would store it, the package of its Go type; the object with its `metadata.generation` counted on. Pure.

use karmada_definitions::kind_row::Generation;
use karmada_definitions::resource::ResourceDefinition;
use karmada_schema::Empties;
use karmada_schema::object::meta;
use serde_json::{Map, Value};

/// Whether an object takes its labels from its template: the very same ones, with what is added to those.
pub fn shares_labels(definition: &ResourceDefinition, object: &Value) -> bool {
    let labels = object["metadata"]["labels"].as_object();
    definition.row.shares_labels && labels.is_none_or(Map::is_empty)
}

/// The package of a group's types. Events are of the core, whichever version is spoken.
pub fn package(definition: &ResourceDefinition) -> &str {
    let first = definition.storage_group.split('.').next();
    first.filter(|name| !name.is_empty()).unwrap_or("core")
}

/// Where kube-apiserver stores an object, which some of its messages tell.
pub fn storage_path(definition: &ResourceDefinition, key: &karmada_schema::object::ObjectKey) -> String {
    let directory = match definition.row.directory {
        "" if definition.is_structural() => format!("{}/{}", definition.group, definition.plural),
        "" => definition.plural.to_string(),
        own => own.to_owned(),
    };
    let place = if key.namespace.is_empty() { String::new() } else { format!("/{}", key.namespace) };
    format!("/registry/{directory}{place}/{}", key.name)
}

/// Whether a change counts as a new generation.
fn raises_generation(definition: &ResourceDefinition, counted: Generation, old: &Value, new: &Value) -> bool {
    let differs = |field: &str| !same_map(&old["metadata"][field], &new["metadata"][field]);
    counted.changes
        && (content(definition, old) != content(definition, new) || counted.metadata.is_some_and(differs))
}

/// Whether a change counts by fields that were dropped from it, so that what is left does not show it.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Dropped {
    /// Nothing that counts was dropped.
    #[default]
    Nothing,
    /// A change was, in a kind that counts it.
    Counts,
}

/// Whether a change is one that counts by what was asked for, before fields are dropped from it. Only some kinds count so.
pub fn raised_by_dropped(definition: &ResourceDefinition, old: &Value, new: &Value) -> Dropped {
    let counted = definition.row.generation.filter(|counted| counted.with_dropped);
    let counts = counted.is_some_and(|counted| raises_generation(definition, counted, old, new));
    if counts { Dropped::Counts } else { Dropped::Nothing }
}

fn same_map(a: &Value, b: &Value) -> bool {
    let empty = Map::new();
    a.as_object().unwrap_or(&empty) == b.as_object().unwrap_or(&empty)
}

fn content(definition: &ResourceDefinition, object: &Value) -> Map<String, Value> {
    let mut members = object.as_object().cloned().unwrap_or_default();
    for skipped in ["kind", "apiVersion", "metadata"] {
        members.remove(skipped);
    }
    if definition.subresource("status").is_some() {
        members.remove("status");
    }
    members
}

/// Counts a change of anything but metadata and status, and one that was dropped where that counts.
pub fn raise_generation(
    definition: &ResourceDefinition,
    old: &Value,
    new: &mut Value,
    empties: &Empties,
    dropped: Dropped,
) {
    let Some(kind) = definition.row.generation else { return };
    let generation = old["metadata"]["generation"].as_i64().unwrap_or(0);
    let raises = dropped == Dropped::Counts
        || kind.literal && empties.stay_in(new)
        || raises_generation(definition, kind, old, new);
    set_generation(new, generation + i64::from(raises));
}

/// A write of the status leaves the generation as it is, whatever metadata comes along: nothing else is wanted of the object than before.
pub fn keep_generation(definition: &ResourceDefinition, old: &Value, new: &mut Value) {
    if definition.row.generation.is_some() {
        set_generation(new, old["metadata"]["generation"].as_i64().unwrap_or(0));
    }
}

fn set_generation(object: &mut Value, generation: i64) {
    let metadata = meta::of(object);
    if generation == 0 {
        metadata.remove("generation");
    } else {
        metadata.insert("generation".into(), generation.into());
    }
}
