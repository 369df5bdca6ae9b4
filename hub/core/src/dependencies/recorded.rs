//! What a referrer notes of its dependencies on itself, and which objects that note means.
//!
//! In: dependencies, as the interpreter tells them; objects. Out: the annotation's text and back; whether it means an object; the referrer with
//! its note and its finalizer, or without.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use karmada_api::binding::{ObjectReference, ResourceBinding};
use karmada_api::selector::{self, SelectorError};
use karmada_api::strings::{annotations, finalizers};
use karmada_interpreter::DependentObject;

/// An object that may be meant.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// Its kind.
    pub kind: &'a str,
    /// Its namespace, or empty.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its uid.
    pub uid: &'a str,
    /// Its resourceVersion, or empty.
    pub resource_version: &'a str,
    /// Its labels.
    pub labels: &'a BTreeMap<String, String>,
}

impl Candidate<'_> {
    /// How a binding names it.
    pub fn reference(&self, api_version: &str) -> ObjectReference {
        ObjectReference {
            api_version: api_version.to_owned(),
            kind: self.kind.to_owned(),
            namespace: self.namespace.to_owned(),
            name: self.name.to_owned(),
            uid: self.uid.to_owned(),
            resource_version: self.resource_version.to_owned(),
        }
    }
}

/// The text of the annotation.
pub fn text(dependencies: &[DependentObject]) -> String {
    // Strings, lists and maps of strings: nothing in it can fail.
    serde_json::to_string(dependencies).unwrap_or_else(|_| "[]".to_owned())
}

/// The dependencies that a text tells; `null` and no text tell none.
///
/// # Errors
/// It is no list of dependencies.
pub fn read(text: Option<&str>) -> Result<Vec<DependentObject>, serde_json::Error> {
    let Some(text) = text else { return Ok(Vec::new()) };
    Ok(serde_json::from_str::<Option<Vec<DependentObject>>>(text)?.unwrap_or_default())
}

fn labels_of(dependency: &DependentObject) -> Option<LabelSelector> {
    let said = dependency.label_selector.clone()?;
    let expressions = said.match_expressions.into_iter().map(|said| LabelSelectorRequirement {
        key: said.key,
        operator: said.operator,
        values: Some(said.values),
    });
    Some(LabelSelector {
        match_labels: Some(said.match_labels),
        match_expressions: Some(expressions.collect()),
    })
}

/// Whether a dependency's selector can be read.
///
/// # Errors
/// It cannot.
pub fn check(dependency: &DependentObject) -> Result<(), SelectorError> {
    match labels_of(dependency).filter(|_| dependency.name.is_empty()) {
        Some(selector) => selector::labels_match(&selector, &BTreeMap::new()).map(drop),
        None => Ok(()),
    }
}

/// Whether a dependency means an object of its kind: by name where it has one, else by labels. Where it has neither it means none, and an empty
/// selector means all. The version is not compared: one object is served in several.
///
/// # Errors
/// The selector cannot be read.
pub fn means(dependency: &DependentObject, object: &Candidate<'_>) -> Result<bool, SelectorError> {
    if dependency.kind != object.kind || dependency.namespace != object.namespace {
        return Ok(false);
    }
    if !dependency.name.is_empty() {
        return Ok(dependency.name == object.name);
    }
    labels_of(dependency).map_or(Ok(false), |selector| selector::labels_match(&selector, object.labels))
}

/// Whether one of them means an object that is served as `api_version`.
///
/// # Errors
/// None does, and a selector cannot be read: it may have been meant by that one.
pub fn matches(
    dependencies: &[DependentObject],
    api_version: &str,
    object: &Candidate<'_>,
) -> Result<bool, SelectorError> {
    let mut unread = None;
    for dependency in dependencies.iter().filter(|dependency| dependency.api_version == api_version) {
        match means(dependency, object) {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(error) => unread = unread.or(Some(error)),
        }
    }
    unread.map_or(Ok(false), Err)
}

/// The referrer with the note of what follows it and the finalizer that has that released first; where nothing is to follow it, without
/// both. None where it is so already.
pub fn noted(binding: &ResourceBinding, dependencies: Option<&[DependentObject]>) -> Option<ResourceBinding> {
    let mut wanted = binding.clone();
    let notes = wanted.metadata.annotations.get_or_insert_default();
    let held = wanted.metadata.finalizers.get_or_insert_default();
    if let Some(dependencies) = dependencies {
        notes.insert(annotations::DEPENDENCIES.to_owned(), text(dependencies));
        if !held.iter().any(|finalizer| finalizer == finalizers::DEPENDENCIES) {
            held.push(finalizers::DEPENDENCIES.to_owned());
        }
    } else {
        notes.remove(annotations::DEPENDENCIES);
        held.retain(|finalizer| finalizer != finalizers::DEPENDENCIES);
    }
    // An absent list and an empty one are the same to the API, and must be here.
    let same = |binding: &ResourceBinding| {
        let metadata = &binding.metadata;
        (metadata.annotations.clone().unwrap_or_default(), metadata.finalizers.clone().unwrap_or_default())
    };
    (same(&wanted) != same(binding)).then_some(wanted)
}
