//! Merging a configuration into an object: its leaves win, keyed lists merge by key, everything else stays.
//!
//! In: a place in the schema, the live value and the applied one. Out: a new value, or which applied element is there twice. Who owns what
//! is not asked here.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::element::Element;
use super::typed::{MergePlace, Shape, elements, entries};

/// `live` with `applied` laid over it.
///
/// # Errors
/// An element that appears twice in an applied list.
pub(super) fn merge(place: MergePlace<'_>, live: &Value, applied: &Value) -> Result<Value, String> {
    Ok(walk(place, Some(live), Some(applied))?.unwrap_or_else(|| Value::Object(Map::new())))
}

fn walk(
    place: MergePlace<'_>,
    live: Option<&Value>,
    applied: Option<&Value>,
) -> Result<Option<Value>, String> {
    let Some(either) = applied.or(live) else { return Ok(None) };
    match place.shape(either) {
        Shape::Map if either.is_object() => {
            let (ours, theirs) = (entries(live), entries(applied));
            if ours.is_none_or(Map::is_empty) && theirs.is_none_or(Map::is_empty) {
                return Ok(Some(either.clone()));
            }
            let mut out = Map::new();
            for (name, value) in ours.into_iter().flatten() {
                let merged =
                    walk(place.field(name), Some(value), theirs.and_then(|theirs| theirs.get(name)))?;
                out.extend(merged.map(|merged| (name.clone(), merged)));
            }
            for (name, value) in theirs.into_iter().flatten() {
                if ours.is_none_or(|ours| !ours.contains_key(name)) {
                    out.extend(
                        walk(place.field(name), None, Some(value))?.map(|merged| (name.clone(), merged)),
                    );
                }
            }
            Ok((!out.is_empty()).then_some(Value::Object(out)))
        }
        Shape::Map if live.is_some_and(|live| live.as_object().is_some_and(|live| !live.is_empty())) => {
            // A null laid over a map with entries leaves the entries.
            Ok(live.cloned())
        }
        Shape::List if !elements(live).is_empty() || !elements(applied).is_empty() => {
            list(place, elements(live), elements(applied)).map(Some)
        }
        _ => Ok(Some(either.clone())),
    }
}

/// What the elements of a list are told apart by.
fn ids(place: MergePlace<'_>, items: &[Value]) -> Result<Vec<Element>, String> {
    let id = |(at, item)| place.element(item).map_err(|error| format!("element {at}: {error}"));
    items.iter().enumerate().map(id).collect()
}

/// No applied element may be there twice.
fn applied_by_id<'a>(
    ids: &'a [Element],
    items: &'a [Value],
) -> Result<BTreeMap<&'a Element, &'a Value>, String> {
    let mut all = BTreeMap::new();
    for (id, item) in ids.iter().zip(items) {
        if all.insert(id, item).is_some() {
            return Err(format!("duplicate entries for key {id}"));
        }
    }
    Ok(all)
}

/// A live element that is there twice does not merge: the applied one takes its place.
fn live_by_id<'a>(ids: &'a [Element], items: &'a [Value]) -> BTreeMap<&'a Element, Option<&'a Value>> {
    let mut all = BTreeMap::new();
    for (id, item) in ids.iter().zip(items) {
        all.entry(id).and_modify(|value| *value = None).or_insert(Some(item));
    }
    all
}

/// Elements of both: the applied ones in their order, the live ones between them where they were.
fn list(place: MergePlace<'_>, live: &[Value], applied: &[Value]) -> Result<Value, String> {
    let (ours, theirs) = (ids(place, live)?, ids(place, applied)?);
    let (old, new) = (live_by_id(&ours, live), applied_by_id(&theirs, applied)?);
    let mut shared = theirs.iter().filter(|id| old.contains_key(id)).peekable();
    let (mut out, mut merged, mut l, mut r) = (Vec::new(), BTreeSet::<&Element>::new(), 0, 0);
    let take = |id: &Element, item: Option<&Value>, out: &mut Vec<Value>| -> Result<(), String> {
        let live = item.or_else(|| old.get(id).copied().flatten());
        out.extend(walk(place.items(), live, if item.is_some() { None } else { new.get(id).copied() })?);
        Ok(())
    };
    while l < ours.len() || r < theirs.len() {
        if l < ours.len() && r < theirs.len() {
            if ours[l] == theirs[r] {
                merged.insert(&ours[l]);
                take(&ours[l], None, &mut out)?;
                (l, r) = (l + 1, r + 1);
                shared.next();
                continue;
            }
            if new.contains_key(&ours[l]) && shared.peek().is_some_and(|next| **next != ours[l]) {
                l += 1;
                continue;
            }
        }
        if l < ours.len() {
            if !new.contains_key(&ours[l]) {
                take(&ours[l], Some(&live[l]), &mut out)?;
                l += 1;
                continue;
            }
            if merged.contains(&ours[l]) {
                l += 1;
            }
        }
        if r < theirs.len() {
            merged.insert(&theirs[r]);
            take(&theirs[r], None, &mut out)?;
            if shared.peek() == Some(&&theirs[r]) {
                shared.next();
            }
            r += 1;
        } else if l < ours.len() && new.contains_key(&ours[l]) {
            // Every applied element is placed; what is left of the live ones that merged is done.
            l += 1;
        }
    }
    Ok(Value::Array(out))
}
