//! Names, labels, annotations, owners, finalizers; and what of the metadata may not change.
//!
//! In: a kind's rule for names, the object, on an update what stands. Out: field errors under `metadata`, in kube-apiserver's order and as
//! often as it says them. Pure.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::fields::{Errors, entries, invalid_each, list, text, whole_lists};
use crate::path::Path;
use crate::{FieldError, addresses, names};

/// What a kind's objects may be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// A DNS subdomain: most kinds, and all structural ones.
    Subdomain,
    /// The same in kube-apiserver's newer way: `name` is judged, `generateName` is not.
    LongName,
    /// A DNS label.
    Label,
    /// A segment of a URL path.
    PathSegment,
    /// An IP address.
    Address,
    /// Anything.
    Any,
    /// Judged last: metadata is looked at only where the kind's own rules find nothing wrong.
    Late,
}

impl NameRule {
    /// Whether metadata is judged last.
    pub fn is_late(self) -> bool {
        self == NameRule::Late
    }

    /// What is wrong with the beginning of a name, which more is appended to.
    fn check_beginning(self, name: &str) -> Vec<String> {
        match name.strip_suffix('-').filter(|rest| !rest.is_empty()) {
            Some(rest) if matches!(self, NameRule::Subdomain | NameRule::Label) => {
                self.check(&format!("{rest}a"))
            }
            _ if self == NameRule::LongName => Vec::new(),
            _ => self.check(name),
        }
    }

    /// What is wrong with a name.
    fn check(self, name: &str) -> Vec<String> {
        match self {
            NameRule::Subdomain => names::dns_subdomain(name),
            NameRule::LongName => names::long_name(name),
            NameRule::Label => names::dns_label(name),
            NameRule::PathSegment => names::path_segment(name),
            NameRule::Address => addresses::strict(name),
            NameRule::Any | NameRule::Late => Vec::new(),
        }
    }
}

/// Annotations of one object may hold this many bytes.
const MAX_ANNOTATIONS: usize = 256 * 1024;

/// Everything that is wrong with the metadata.
pub fn validate_metadata(rule: NameRule, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let path = Path::field("metadata");
    let (meta, errors) = (&new["metadata"], &mut Vec::new());
    match old {
        None => created(rule, meta, &path, errors),
        Some(old) => updated(meta, &old["metadata"], &path, errors),
    }
    labels(&meta["labels"], &path.child("labels"), errors);
    annotations(meta, &path.child("annotations"), errors);
    owners(meta, &path.child("ownerReferences"), errors);
    if old.is_none() {
        finalizers(meta, &path.child("finalizers"), errors);
    }
    std::mem::take(errors)
}

/// What is wrong with changed metadata. kube-apiserver judges it twice, once for all kinds and once for each, and says both.
pub fn validate_metadata_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = validate_metadata(NameRule::PathSegment, new, None);
    for _ in 0..2 {
        errors.extend(validate_metadata(NameRule::PathSegment, new, Some(old)));
    }
    errors
}

fn created(rule: NameRule, meta: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (name, generate) = (text(meta, "name"), text(meta, "generateName"));
    if !generate.is_empty() {
        invalid_each(errors, &path.child("generateName"), generate, rule.check_beginning(generate));
    }
    if name.is_empty() {
        errors.push(FieldError::required(&path.child("name"), "name or generateName is required"));
    } else {
        invalid_each(errors, &path.child("name"), name, rule.check(name));
    }
    if let Some(generation) = meta["generation"].as_i64().filter(|generation| *generation < 0) {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(&path.child("generation"), generation, detail));
    }
    let namespace = text(meta, "namespace");
    if !namespace.is_empty() {
        invalid_each(errors, &path.child("namespace"), namespace, names::dns_label(namespace));
    }
}

fn updated(meta: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    if old["deletionTimestamp"].is_string() {
        let before: HashSet<&Value> = list(old, "finalizers").iter().collect();
        let mut new: Vec<&str> = list(meta, "finalizers")
            .iter()
            .filter(|f| !before.contains(f))
            .filter_map(Value::as_str)
            .collect();
        if !new.is_empty() {
            new.sort_unstable();
            let names: Vec<String> = new.iter().map(|name| format!("{name:?}")).collect();
            errors.push(FieldError::forbidden(
                &path.child("finalizers"),
                format!(
                    "no new finalizers can be added if the object is being deleted, found new finalizers \
                     []string{{{}}}",
                    names.join(", ")
                ),
            ));
        }
    }
    let (generation, before) = (meta["generation"].as_i64(), old["generation"].as_i64());
    if let Some(generation) =
        generation.filter(|generation| before.is_some_and(|before| *generation < before))
    {
        errors.push(FieldError::invalid(&path.child("generation"), generation, "must not be decremented"));
    }
    for field in
        ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"]
    {
        // An update that leaves a field out means the one that is stored.
        if !meta[field].is_null() && meta[field] != "" && meta[field] != old[field] {
            errors.push(FieldError::invalid(&path.child(field), meta[field].clone(), "field is immutable"));
        }
    }
}

/// Labels: qualified names and short values.
pub fn labels(labels: &Value, path: &Path<'_>, errors: &mut Errors) {
    for (key, value) in labels.as_object().into_iter().flatten() {
        invalid_each(errors, path, key, names::qualified_name(key));
        let value = value.as_str().unwrap_or_default();
        invalid_each(errors, path, value, names::label_value(value));
    }
}

/// Annotations: qualified names, and not too much in all.
pub fn annotations(meta: &Value, path: &Path<'_>, errors: &mut Errors) {
    for (key, _) in entries(meta, "annotations") {
        invalid_each(errors, path, key, names::qualified_name(&key.to_lowercase()));
    }
    if meta["annotations"].as_object().is_some_and(|annotations| !annotations_fit(annotations)) {
        errors.push(FieldError::too_long(path, MAX_ANNOTATIONS as u64));
    }
}

/// Whether an object may have these annotations, as far as their size goes.
pub(crate) fn annotations_fit(annotations: &Map<String, Value>) -> bool {
    let size = |(key, value): (&String, &Value)| key.len() + value.as_str().map_or(0, str::len);
    annotations.iter().map(size).sum::<usize>() <= MAX_ANNOTATIONS
}

fn owners(meta: &Value, path: &Path<'_>, errors: &mut Errors) {
    let owners = list(meta, "ownerReferences");
    let (mut controller, mut shown): (Option<String>, _) = (None, whole_lists(owners));
    for owner in owners {
        for (field, message) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ] {
            if text(owner, field).is_empty() {
                errors.push(FieldError::invalid(&path.child(field), text(owner, field), message));
            }
        }
        if text(owner, "apiVersion") == "v1" && text(owner, "kind") == "Event" {
            let message = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(FieldError::invalid(path, owner.clone(), message));
        }
        if owner["controller"] == true {
            let this = format!("{}/{}", text(owner, "kind"), text(owner, "name"));
            match &controller {
                None => controller = Some(this),
                Some(first) if shown.next().is_some() => errors.push(FieldError::invalid(
                    path,
                    owners.to_vec(),
                    format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} \
                         and {this}"
                    ),
                )),
                Some(_) => {}
            }
        }
    }
}

/// Built-in kinds take finalizers of Kubernetes' own, or with a domain.
pub fn standard_finalizers(new: &Value, errors: &mut Errors) {
    let path = Path::field("metadata");
    let path = path.child("finalizers");
    for (index, finalizer) in
        list(&new["metadata"], "finalizers").iter().filter_map(Value::as_str).enumerate()
    {
        if !finalizer.contains('/') && !matches!(finalizer, "kubernetes" | "orphan" | "foregroundDeletion") {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(FieldError::invalid(&path.index(index), finalizer, detail));
        }
    }
}

fn finalizers(meta: &Value, path: &Path<'_>, errors: &mut Errors) {
    let all = list(meta, "finalizers");
    for finalizer in all.iter().filter_map(Value::as_str) {
        invalid_each(errors, path, finalizer, names::qualified_name(finalizer));
    }
    let has = |name: &str| all.iter().any(|one| one == name);
    if has("orphan") && has("foregroundDeletion") {
        let message = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(FieldError::invalid(path, all.to_vec(), message));
    }
}

/// The labels of an object inside another.
pub(crate) fn embedded_labels(metadata: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    labels(&metadata["labels"], &path.child("labels"), errors);
}
