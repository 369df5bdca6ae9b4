//! What changed between two objects, as sets of paths.
//!
//! In: a place in the schema and two values of it. Out: the paths that were added, changed and removed, for a list with keys by its
//! elements' keys. Elements that cannot be told apart are passed over.

use std::collections::BTreeMap;

use serde_json::Value;

use super::element::Element;
use super::set::Set;
use super::typed::{MergePlace, Shape, elements, entries};

/// The paths that differ.
#[derive(Clone, Debug, Default)]
pub(super) struct Comparison {
    /// In the second alone.
    pub added: Set,
    /// In both, with other values.
    pub modified: Set,
    /// In the first alone.
    pub removed: Set,
}

impl Comparison {
    /// Without `fields` and what is below them.
    pub(super) fn without(&self, fields: &Set) -> Comparison {
        Comparison {
            added: self.added.recursive_difference(fields),
            modified: self.modified.recursive_difference(fields),
            removed: self.removed.recursive_difference(fields),
        }
    }
}

/// Compares two objects under a schema.
pub(super) fn compare(place: MergePlace<'_>, left: &Value, right: &Value) -> Comparison {
    let mut out = Comparison::default();
    walk(place, Some(left), Some(right), &mut Vec::new(), &mut out);
    out
}

fn walk(
    place: MergePlace<'_>,
    left: Option<&Value>,
    right: Option<&Value>,
    path: &mut Vec<Element>,
    out: &mut Comparison,
) {
    // Most of an object is as it was: nothing below what is equal differs.
    if left == right {
        return;
    }
    let Some(either) = right.filter(|value| !value.is_null()).or(left).or(right) else { return };
    let shape = place.shape(either);
    let sides_differ = left.is_some_and(|left| !left.is_null() && place.shape(left) != shape);
    let leaf = match shape {
        Shape::Scalar | Shape::Atomic => true,
        _ if sides_differ => true,
        // Two empty ones are a leaf, so that null and empty can be told apart.
        Shape::List => elements(left).is_empty() && elements(right).is_empty(),
        Shape::Map => {
            entries(left).is_none_or(serde_json::Map::is_empty)
                && entries(right).is_none_or(serde_json::Map::is_empty)
        }
    };
    match (left, right) {
        (None, Some(_)) => out.added.insert(path),
        (Some(_), None) => out.removed.insert(path),
        (Some(left), Some(right)) if leaf && left != right => out.modified.insert(path),
        _ => {}
    }
    if leaf {
        return;
    }
    if shape == Shape::List {
        list(place, elements(left), elements(right), path, out);
        return;
    }
    let mut names: BTreeMap<&str, (Option<&Value>, Option<&Value>)> = BTreeMap::new();
    for (name, value) in entries(left).into_iter().flatten() {
        names.entry(name).or_default().0 = Some(value);
    }
    for (name, value) in entries(right).into_iter().flatten() {
        names.entry(name).or_default().1 = Some(value);
    }
    for (name, (left, right)) in names {
        path.push(Element::field(name));
        walk(place.field(name), left, right, path, out);
        path.pop();
    }
}

fn list(
    place: MergePlace<'_>,
    left: &[Value],
    right: &[Value],
    path: &mut Vec<Element>,
    out: &mut Comparison,
) {
    let mut ids: BTreeMap<Element, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
    for item in left {
        if let Ok(id) = place.element(item) {
            ids.entry(id).or_default().0.push(item);
        }
    }
    for item in right {
        if let Ok(id) = place.element(item) {
            ids.entry(id).or_default().1.push(item);
        }
    }
    for (id, (ours, theirs)) in ids {
        path.push(id);
        let items = place.items();
        match (ours.len(), theirs.len()) {
            (0 | 1, 0 | 1) => walk(items, ours.first().copied(), theirs.first().copied(), path, out),
            (2.., 2..) if ours != theirs => out.modified.insert(path),
            (2.., 2..) => {}
            // Elements that are there several times are compared as one.
            (2.., _) => {
                if let Some(theirs) = theirs.first() {
                    walk(items, None, Some(theirs), path, out);
                }
                out.removed.insert(path);
            }
            (_, _) => {
                if let Some(ours) = ours.first() {
                    walk(items, Some(ours), None, path, out);
                }
                out.added.insert(path);
            }
        }
        path.pop();
    }
}
