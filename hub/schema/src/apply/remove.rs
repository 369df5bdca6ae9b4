//! Taking paths out of an object, and the rule for what an apply takes out.
//!
//! In: a place in the schema, a value, and the paths to take out. Out: a new value; objects and lists that lose everything are gone too.

use serde_json::{Map, Value};

use super::element::Element;
use super::set::Set;
use super::typed::{MergePlace, Shape, field_set};

/// `merged` without what its manager applied `last` time and applies no longer, save what anyone owns (`owned`, the
/// manager's new set among it) and what the manager never owned.
pub(super) fn prune(place: MergePlace<'_>, merged: &Value, last: &Set, owned: &Set) -> Value {
    let last = last.with_named_fields(place);
    let all = field_set(place, merged).with_named_fields(place);
    let pruned = without(place, merged, &last);
    // Add back what is owned…
    let kept = field_set(place, &pruned).with_named_fields(place).union(&owned.with_named_fields(place));
    let pruned = without(place, merged, &all.difference(&kept));
    // …and what went along though the manager did not own it.
    let left = field_set(place, &pruned).with_named_fields(place);
    without(place, merged, &all.difference(&left).intersection(&last))
}

/// The value without the paths of `gone`. Objects and lists that lose everything go too.
pub(super) fn without(place: MergePlace<'_>, value: &Value, gone: &Set) -> Value {
    walk(place, value, gone).unwrap_or_else(|| Value::Object(Map::new()))
}

fn walk(place: MergePlace<'_>, value: &Value, gone: &Set) -> Option<Value> {
    match (place.shape(value), value) {
        (Shape::Map, Value::Object(fields)) => {
            let left: Map<String, Value> = fields
                .iter()
                .filter_map(|(name, item)| {
                    let element = Element::field(name);
                    keep(place.field(name), item, &element, gone).map(|item| (name.clone(), item))
                })
                .collect();
            (!left.is_empty()).then_some(Value::Object(left))
        }
        (Shape::List, Value::Array(items)) => {
            let left: Vec<Value> = items
                .iter()
                .filter_map(|item| match place.element(item) {
                    Ok(element) => keep(place.items(), item, &element, gone),
                    Err(_) => Some(item.clone()),
                })
                .collect();
            (!left.is_empty()).then_some(Value::Array(left))
        }
        (Shape::Atomic, Value::Object(_) | Value::Array(_)) => None,
        _ => Some(value.clone()),
    }
}

fn keep(place: MergePlace<'_>, item: &Value, element: &Element, gone: &Set) -> Option<Value> {
    if gone.has_member(element) {
        return None;
    }
    match gone.below(element) {
        Some(below) => walk(place, item, below),
        None => Some(item.clone()),
    }
}
