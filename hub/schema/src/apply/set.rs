//! A set of field paths: a tree of members and children, and fieldsV1 as its JSON form.
//!
//! In: paths, or fieldsV1 of any manager. Out: union, intersection and differences of sets, paths in order, fieldsV1. Pure; knows no
//! schema.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::element::Element;

/// Paths. A path may be in the set while its children are, or not: `{"f:a": {".": {}, "f:b": {}}}` holds `a` and `a.b`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set {
    pub(super) members: BTreeSet<Element>,
    pub(super) children: BTreeMap<Element, Set>,
}

impl Set {
    /// Adds a path; the empty one adds nothing.
    pub fn insert(&mut self, path: &[Element]) {
        match path {
            [] => {}
            [last] => {
                self.members.insert(last.clone());
            }
            [first, rest @ ..] => self.children.entry(first.clone()).or_default().insert(rest),
        }
    }

    /// Whether the path itself is in the set.
    pub fn has(&self, path: &[Element]) -> bool {
        match path {
            [] => false,
            [last] => self.members.contains(last),
            [first, rest @ ..] => self.children.get(first).is_some_and(|child| child.has(rest)),
        }
    }

    pub(super) fn has_member(&self, element: &Element) -> bool {
        self.members.contains(element)
    }

    /// What is below `element`, where there is any.
    pub(super) fn below(&self, element: &Element) -> Option<&Set> {
        self.children.get(element).filter(|child| !child.is_empty())
    }

    /// Whether no path is in the set.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty() && self.children.values().all(Set::is_empty)
    }

    /// Paths of either.
    #[must_use]
    pub fn union(&self, other: &Set) -> Set {
        let mut out = self.clone();
        out.absorb(other);
        out
    }

    /// Adds the paths of the other. What is here already is not gone through: many small sets make a large one in time that grows
    /// with them all.
    pub(super) fn absorb(&mut self, other: &Set) {
        self.members.extend(other.members.iter().cloned());
        for (element, child) in &other.children {
            match self.children.get_mut(element) {
                Some(own) => own.absorb(child),
                None => {
                    self.children.insert(element.clone(), child.clone());
                }
            }
        }
    }

    /// Paths of both.
    #[must_use]
    pub fn intersection(&self, other: &Set) -> Set {
        let children = self.children.iter().filter_map(|(element, child)| {
            let both = child.intersection(other.children.get(element)?);
            (!both.is_empty()).then(|| (element.clone(), both))
        });
        Set {
            members: self.members.intersection(&other.members).cloned().collect(),
            children: children.collect(),
        }
    }

    /// Paths of this that are not in the other. A path in the other does not take its children with it.
    #[must_use]
    pub fn difference(&self, other: &Set) -> Set {
        self.minus(other, |_, _| false)
    }

    /// As [`Set::difference`], but a path in the other takes its children with it.
    #[must_use]
    pub fn recursive_difference(&self, other: &Set) -> Set {
        self.minus(other, |other, element| other.members.contains(element))
    }

    /// `ends`: whether what is below goes with a path.
    fn minus(&self, other: &Set, ends: fn(&Set, &Element) -> bool) -> Set {
        let children = self.children.iter().filter_map(|(element, child)| {
            if ends(other, element) {
                return None;
            }
            let left = match other.children.get(element) {
                Some(theirs) => child.minus(theirs, ends),
                None => child.clone(),
            };
            (!left.is_empty()).then(|| (element.clone(), left))
        });
        Set {
            members: self.members.difference(&other.members).cloned().collect(),
            children: children.collect(),
        }
    }

    /// Every path: members first, then what is below, each in order.
    pub fn paths(&self) -> Vec<Vec<Element>> {
        let mut out = Vec::new();
        self.collect(&mut Vec::new(), &mut out);
        out
    }

    fn collect(&self, prefix: &mut Vec<Element>, out: &mut Vec<Vec<Element>>) {
        for member in &self.members {
            prefix.push(member.clone());
            out.push(prefix.clone());
            prefix.pop();
        }
        for (element, child) in &self.children {
            prefix.push(element.clone());
            child.collect(prefix, out);
            prefix.pop();
        }
    }

    /// Reads fieldsV1. Keys of kinds that are not known are skipped.
    ///
    /// # Errors
    /// A value that is no object.
    pub fn from_fields(fields: &Value) -> Result<Set, String> {
        let fields = fields.as_object().ok_or_else(|| format!("expected an object, got {fields}"))?;
        let mut set = Set::default();
        for (key, value) in fields {
            let Some(element) = (key != ".").then(|| Element::parse(key)).flatten() else { continue };
            let child = Set::from_fields(value)?;
            let leaf = value.as_object().is_some_and(|fields| fields.is_empty() || fields.contains_key("."));
            if leaf || child.is_empty() {
                set.members.insert(element.clone());
            }
            if !child.is_empty() {
                set.children.insert(element, child);
            }
        }
        Ok(set)
    }

    /// The set as fieldsV1.
    pub fn to_fields(&self) -> Value {
        let mut fields = Map::new();
        for (element, child) in self.children.iter().filter(|(_, child)| !child.is_empty()) {
            let mut below = child.to_fields();
            if let (true, Some(below)) = (self.members.contains(element), below.as_object_mut()) {
                below.insert(".".to_owned(), Value::Object(Map::new()));
            }
            fields.insert(element.encode(), below);
        }
        for member in &self.members {
            fields.entry(member.encode()).or_insert_with(|| Value::Object(Map::new()));
        }
        Value::Object(fields)
    }
}
