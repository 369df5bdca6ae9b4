//! Objects seen through a schema: what is a leaf, what tells list elements apart, which paths an object sets.
//!
//! In: a schema (or none) and JSON. Out: how a value merges, what tells an element of its list apart, the set of paths that it sets; or, in
//! kube-apiserver's words, why it does not fit.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::element::{Element, render};
use super::set::Set;
use crate::patch::go_print;
use crate::{Format, ListType, MapType, SchemaRef, Type};

/// A place in a schema, or beyond it.
#[derive(Clone, Copy, Debug)]
pub(super) enum MergePlace<'a> {
    /// The schema says what is here.
    Known(SchemaRef<'a>),
    /// Anything may be here: objects are granular, lists atomic.
    Open,
    /// Nothing may be here.
    Nowhere,
}

/// How a value merges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Scalar,
    /// A list or map with one owner.
    Atomic,
    /// A keyed list or a set.
    List,
    /// A struct or a granular map.
    Map,
}

impl<'a> MergePlace<'a> {
    /// How `value` merges here.
    pub(super) fn shape(self, value: &Value) -> Shape {
        match (self, value) {
            (MergePlace::Known(schema), Value::Object(_) | Value::Array(_)) if is_raw(schema) => {
                Shape::Atomic
            }
            (MergePlace::Known(schema), _) if schema.is_struct() || schema.additional().is_some() => {
                if schema.map_type() == MapType::Atomic { Shape::Atomic } else { Shape::Map }
            }
            (MergePlace::Known(schema), _) if schema.ty() == Type::Array => {
                if self.keys().is_some() {
                    Shape::List
                } else {
                    Shape::Atomic
                }
            }
            (MergePlace::Known(schema), _) if is_scalar(schema) => Shape::Scalar,
            (MergePlace::Known(schema), Value::Object(_)) if schema.map_type() == MapType::Atomic => {
                Shape::Atomic
            }
            (_, Value::Object(_) | Value::Null) => Shape::Map,
            (_, Value::Array(_)) => Shape::Atomic,
            _ => Shape::Scalar,
        }
    }

    /// The keys that tell a list's elements apart: none for a set; `None` for an atomic list.
    fn keys(self) -> Option<Vec<&'a str>> {
        let MergePlace::Known(schema) = self else { return None };
        match schema.list_type() {
            ListType::Map => Some(schema.list_keys().iter().map(|key| &**key).collect()),
            ListType::Set => Some(Vec::new()),
            ListType::Atomic => None,
            ListType::Unset => schema.merges().then(|| schema.merge_key().into_iter().collect()),
        }
    }

    /// Whether `name` is a declared field of the struct here.
    pub(super) fn declares(self, name: &str) -> bool {
        matches!(self, MergePlace::Known(schema) if schema.property(name).is_some())
    }

    /// The place of a field.
    pub(super) fn field(self, name: &str) -> MergePlace<'a> {
        match self {
            MergePlace::Known(schema) => match schema.child(name) {
                Some(child) => MergePlace::Known(child),
                None if schema.preserves_unknown() || schema.open() || is_bare(schema) => MergePlace::Open,
                None => MergePlace::Nowhere,
            },
            other => other,
        }
    }

    /// The place of list elements.
    pub(super) fn items(self) -> MergePlace<'a> {
        match self {
            MergePlace::Known(schema) => schema.items().map_or(MergePlace::Open, MergePlace::Known),
            other => other,
        }
    }

    /// The place of a path element.
    pub(super) fn below(self, element: &Element) -> MergePlace<'a> {
        match element {
            Element::Field(name) => self.field(name),
            _ => self.items(),
        }
    }

    /// What tells `item` apart from the list's others.
    pub(super) fn element(self, item: &Value) -> Result<Element, String> {
        let keys = self.keys().ok_or("invalid indexing of non-associative list")?;
        if keys.is_empty() {
            return match item {
                Value::Object(_) => {
                    Err("associative list without keys has an element that's a map type".to_owned())
                }
                Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
                Value::Null => {
                    Err("associative list without keys has an element that's an explicit null".to_owned())
                }
                scalar => Ok(Element::value(scalar)),
            };
        }
        let fields = match item {
            Value::Object(fields) => fields,
            Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
            _ => return Err("associative list with keys may not have non-map elements".to_owned()),
        };
        let mut found = Map::new();
        for key in &keys {
            let default = || match self.items() {
                MergePlace::Known(element) => element.property(key).and_then(SchemaRef::default).cloned(),
                _ => None,
            };
            if let Some(value) = fields.get(*key).cloned().or_else(default) {
                found.insert((*key).to_owned(), value);
            }
        }
        if found.is_empty() {
            let keys: Vec<String> = keys.iter().map(|key| format!("{key:?}")).collect();
            return Err(format!(
                "associative list with keys has an element that omits all key fields [{}] (and doesn't have default \
                 values for any key fields)",
                keys.join(" ")
            ));
        }
        Ok(Element::key(found))
    }
}

/// `runtime.RawExtension` has one owner as a whole.
fn is_raw(schema: SchemaRef<'_>) -> bool {
    is_bare(schema) && schema.type_name() == Some("io.k8s.apimachinery.pkg.runtime.RawExtension")
}

/// An object without declared fields and without a word on others: published types such as RawExtension.
fn is_bare(schema: SchemaRef<'_>) -> bool {
    !schema.is_struct() && schema.additional().is_none()
}

fn is_scalar(schema: SchemaRef<'_>) -> bool {
    matches!(schema.format(), Format::Quantity | Format::IntOrString)
        || matches!(schema.ty(), Type::String | Type::Boolean | Type::Integer | Type::Number)
}

/// The entries of a map; null is an empty one.
pub(super) fn entries(value: Option<&Value>) -> Option<&Map<String, Value>> {
    value.and_then(Value::as_object)
}

/// The elements of a list; null is an empty one.
pub(super) fn elements(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The paths that `object` sets.
pub(super) fn field_set(place: MergePlace<'_>, object: &Value) -> Set {
    let mut set = Set::default();
    collect(place, object, &mut Vec::new(), &mut set);
    set
}

fn collect(place: MergePlace<'_>, value: &Value, path: &mut Vec<Element>, set: &mut Set) {
    match place.shape(value) {
        Shape::Scalar | Shape::Atomic => set.insert(path),
        Shape::Map => {
            for (name, item) in entries(Some(value)).into_iter().flatten() {
                path.push(Element::field(name));
                collect(place.field(name), item, path, set);
                let empty = item.is_null() || item.as_object().is_some_and(Map::is_empty);
                if empty || !place.declares(name) {
                    set.insert(path);
                }
                path.pop();
            }
        }
        Shape::List => {
            let ids: Vec<Option<Element>> =
                elements(Some(value)).iter().map(|item| place.element(item).ok()).collect();
            let mut times: BTreeMap<&Element, usize> = BTreeMap::new();
            ids.iter().flatten().for_each(|id| *times.entry(id).or_default() += 1);
            for (id, item) in ids.iter().zip(elements(Some(value))) {
                let Some(id) = id else { continue };
                path.push(id.clone());
                // An element that is there twice is owned as one, not by its fields.
                if times.get(id) == Some(&1) {
                    collect(place.items(), item, path, set);
                }
                set.insert(path);
                path.pop();
            }
        }
    }
}

/// Whether a list may hold two items of one key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Duplicates {
    Allowed,
    Refused,
}

/// Whether `value` fits the schema as apply asks for: declared fields, JSON types, list elements that can be told apart.
///
/// # Errors
/// The problems in kube-apiserver's words.
pub(super) fn validate(place: MergePlace<'_>, value: &Value, duplicates: Duplicates) -> Result<(), String> {
    let mut problems = Vec::new();
    check(place, value, &mut Vec::new(), duplicates, &mut problems);
    match problems.len() {
        0 => Ok(()),
        1 => Err(problems.remove(0)),
        _ => Err(format!("errors:\n  {}", problems.join("\n  "))),
    }
}

fn problem(path: &[Element], text: &str) -> String {
    if path.is_empty() { text.to_owned() } else { format!("{}: {text}", render(path)) }
}

fn check(
    place: MergePlace<'_>,
    value: &Value,
    path: &mut Vec<Element>,
    duplicates: Duplicates,
    problems: &mut Vec<String>,
) {
    if value.is_null() {
        return;
    }
    if let Some(expected) = mismatch(place, value) {
        problems.push(problem(path, &expected));
        return;
    }
    match value {
        Value::Object(fields) => {
            for (name, item) in fields {
                path.push(Element::field(name));
                match place.field(name) {
                    MergePlace::Nowhere => problems.push(problem(path, "field not declared in schema")),
                    below => check(below, item, path, duplicates, problems),
                }
                path.pop();
            }
        }
        Value::Array(items) => {
            let mut seen = BTreeSet::new();
            for (index, item) in items.iter().enumerate() {
                let id = match place.shape(value) {
                    Shape::List => match place.element(item) {
                        Ok(id) => id,
                        Err(text) => {
                            problems.push(problem(path, &format!("element {index}: {text}")));
                            return;
                        }
                    },
                    _ => Element::Index(index as i64),
                };
                if !seen.insert(id.clone()) && duplicates == Duplicates::Refused {
                    problems.push(problem(path, &format!("duplicate entries for key {id}")));
                }
                path.push(id);
                check(place.items(), item, path, duplicates, problems);
                path.pop();
            }
        }
        _ => {}
    }
}

/// What is wrong with the value's JSON type, if anything.
fn mismatch(place: MergePlace<'_>, value: &Value) -> Option<String> {
    let MergePlace::Known(schema) = place else { return None };
    if matches!(schema.format(), Format::Quantity | Format::IntOrString) {
        return (value.is_object() || value.is_array())
            .then(|| format!("expected any scalar, got &{{{value}}}"));
    }
    let go_type = match value {
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        _ => "map[string]interface {}",
    };
    match schema.ty() {
        Type::Object if !value.is_object() => Some(format!("expected map, got &{{{}}}", go_print(value))),
        Type::Array if !value.is_array() => Some(format!("expected list, got &{{{value}}}")),
        Type::String if !value.is_string() => {
            Some(format!("expected string, got &value.valueUnstructured{{Value:{value}}}"))
        }
        Type::Integer | Type::Number if !value.is_number() => {
            Some(format!("expected numeric (int or float), got {go_type}"))
        }
        Type::Boolean if !value.is_boolean() => Some(format!("expected boolean, got &{{{value}}}")),
        _ => None,
    }
}

impl Set {
    /// The set with every struct field that has children made a member: a struct is there when its fields are.
    #[must_use]
    pub(super) fn with_named_fields(&self, place: MergePlace<'_>) -> Set {
        let mut out = Set { members: self.members.clone(), children: BTreeMap::new() };
        for (element, child) in &self.children {
            if let Element::Field(name) = element
                && place.declares(name)
            {
                out.members.insert(element.clone());
            }
            out.children.insert(element.clone(), child.with_named_fields(place.below(element)));
        }
        out
    }
}
