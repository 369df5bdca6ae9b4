//! What may change of a Pod that runs: its spec, its ephemeral containers, its sizes.
//!
//! In: the Pod as it shall be and as it is stored. Out: field errors.

use std::collections::{BTreeMap, HashSet};

use karmada_schema::path::Path;
use karmada_schema::{FieldError, Shown};
use serde_json::Value;

use super::containers::{self, Of};
use super::{named_volumes, spec};
use crate::validation::devices::shown_term;
use crate::validation::{Errors, list, scheduling, text};

/// What a Pod's update may change.
const UPDATABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
                         `spec.tolerations` (only additions to existing tolerations),\
                         `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

pub(super) fn changed(new: &Value, old: &Value, errors: &mut Errors) {
    let path = Path::field("spec");
    for field in ["containers", "initContainers"] {
        if list(new, field).len() != list(old, field).len() {
            errors.push(FieldError::forbidden(
                &path.child(field),
                "pod updates may not add or remove containers",
            ));
            return;
        }
        // Once more than for any Pod, as kube-apiserver does.
        let path = path.child(field);
        for (index, one) in list(new, field).iter().enumerate() {
            if text(one, "image").is_empty() {
                errors.push(FieldError::required(&path.index(index).child("image"), ""));
            }
            containers::image(one, &path.index(index), errors);
        }
    }
    let deadline = path.child("activeDeadlineSeconds");
    match (new["activeDeadlineSeconds"].as_i64(), old["activeDeadlineSeconds"].as_i64()) {
        (Some(later), _) if !(0..=i64::from(i32::MAX)).contains(&later) => {
            let detail = "must be between 0 and 2147483647, inclusive";
            errors.push(FieldError::invalid(&deadline, later, detail));
            return;
        }
        (Some(later), Some(before)) if later > before => {
            let detail = "must be less than or equal to previous value";
            errors.push(FieldError::invalid(&deadline, later, detail));
            return;
        }
        (None, Some(_)) => {
            let detail = "must not update from a positive integer to nil value";
            errors.push(FieldError::invalid(&deadline, Value::Null, detail));
            return;
        }
        _ => {}
    }
    only_added_tolerations(new, old, &path.child("tolerations"), errors);
    only_deleted_gates(new, old, &path.child("schedulingGates"), errors);
    if list(old, "schedulingGates").is_empty() {
        unchanged(but_what_may_change(new, old), old.clone(), &path, errors);
        return;
    }
    // Who waits at a gate may still be told where to run, if only more closely.
    only_added_selectors(new, old, &path.child("nodeSelector"), errors);
    only_closer_affinity(new, old, &path.child("affinity").child("nodeAffinity"), errors);
    let without_place = |mut spec: Value| {
        scheduling::remove_nodes(&mut spec);
        spec
    };
    unchanged(without_place(but_what_may_change(new, old)), without_place(old.clone()), &path, errors);
}

/// The spec with those fields as they were that any update may change.
fn but_what_may_change(new: &Value, old: &Value) -> Value {
    let mut spec = new.clone();
    for field in ["containers", "initContainers"] {
        for (index, container) in
            spec.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten().enumerate()
        {
            if let (Some(container), Some(image)) =
                (container.as_object_mut(), old[field][index].get("image"))
            {
                container.insert("image".to_owned(), image.clone());
            }
        }
    }
    // A grace that was negative means the shortest, and may be called by its name.
    let grace = |spec: &Value| spec["terminationGracePeriodSeconds"].as_i64();
    let is_shortest = grace(old).is_some_and(|grace| grace < 0) && grace(new) == Some(1);
    let free = ["activeDeadlineSeconds", "tolerations", "schedulingGates"];
    for field in free.into_iter().chain(is_shortest.then_some("terminationGracePeriodSeconds")) {
        if let Some(spec) = spec.as_object_mut() {
            match old.get(field) {
                Some(value) => spec.insert(field.to_owned(), value.clone()),
                None => spec.remove(field),
            };
        }
    }
    spec
}

fn unchanged(mut new: Value, mut old: Value, path: &Path<'_>, errors: &mut Errors) {
    // The older name of serviceAccountName.
    for spec in [&mut new, &mut old] {
        spec.as_object_mut().map(|fields| fields.remove("serviceAccount"));
    }
    if new != old {
        errors.push(FieldError::forbidden(
            path,
            format!("pod updates may not change fields other than {UPDATABLE}"),
        ));
    }
}

fn only_added_tolerations(new: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    let of = |spec: &Value| -> Vec<Value> {
        let mut all = list(spec, "tolerations").to_vec();
        for one in all.iter_mut().filter_map(Value::as_object_mut) {
            one.remove("tolerationSeconds");
        }
        all
    };
    let now: HashSet<Value> = of(new).into_iter().collect();
    if !of(old).iter().all(|before| now.contains(before)) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        errors.push(FieldError::forbidden(path, detail));
        return;
    }
    scheduling::tolerations(&new["tolerations"], None, path, errors);
}

fn only_deleted_gates(new: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    let names = |spec| list(spec, "schedulingGates").iter().map(|gate| text(gate, "name"));
    // Each name once, where it stands last.
    let mut added: BTreeMap<&str, usize> =
        names(new).enumerate().map(|(index, name)| (name, index)).collect();
    let before: HashSet<&str> = names(old).collect();
    added.retain(|name, _| !before.contains(name));
    for (name, index) in added {
        let detail = format!("only deletion is allowed, but found new scheduling gate '{name}'");
        errors.push(FieldError::forbidden(&path.index(index).child("name"), detail));
    }
}

fn only_added_selectors(new: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    let before = old["nodeSelector"].as_object();
    if before.into_iter().flatten().any(|(key, value)| new["nodeSelector"].get(key) != Some(value)) {
        let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        errors.push(FieldError::invalid(path, new["nodeSelector"].clone(), detail));
    }
}

/// Terms of the nodes that a Pod requires stay as many, and each may demand more.
fn only_closer_affinity(new: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    let terms = |spec: &Value| -> Vec<Value> {
        list(&spec["affinity"]["nodeAffinity"][REQUIRED], "nodeSelectorTerms").to_vec()
    };
    let (now, before) = (terms(new), terms(old));
    if before.is_empty() {
        return;
    }
    let path = path.child(REQUIRED);
    let path = path.child("nodeSelectorTerms");
    if now.len() != before.len() {
        let each: Vec<String> = now.iter().map(shown_term).collect();
        let sent = &new["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"];
        let shown = if sent.is_array() { format!("[{}]", each.join(",")) } else { "null".to_owned() };
        let detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        errors.push(FieldError::invalid(&path, Shown::Raw(shown), detail));
        return;
    }
    for (index, (now, before)) in now.iter().zip(&before).enumerate() {
        if !demands_more(now, before) {
            let detail = "only additions are allowed (no mutations or deletions)";
            errors.push(FieldError::invalid(&path.index(index), Shown::Raw(shown_term(now)), detail));
        }
    }
}

/// Whether a term begins as it was. One that demanded nothing chose no node, and stays so.
fn demands_more(now: &Value, before: &Value) -> bool {
    let parts = ["matchExpressions", "matchFields"];
    let is_nothing = |term: &Value| parts.iter().all(|part| list(term, part).is_empty());
    if is_nothing(before) && !is_nothing(now) {
        return false;
    }
    parts.iter().all(|part| list(now, part).starts_with(list(before, part)))
}

/// Containers that are laid into a Pod that runs: judged as any, and never changed or taken away.
pub(crate) fn ephemeral(new: &Value, old: &Value, errors: &mut Errors) {
    let path = Path::field("spec");
    let at = path.child("ephemeralContainers");
    let (now, before) =
        (list(&new["spec"], "ephemeralContainers"), list(&old["spec"], "ephemeralContainers"));
    let volumes = named_volumes(&new["spec"], "", &path.child("volumes"), &mut Errors::new());
    super::ephemeral::containers(&Of::new(&new["spec"], &volumes), &at, errors);
    for one in before {
        let name = text(one, "name");
        let detail = match now.iter().find(|other| text(other, "name") == name) {
            None => "removed",
            Some(other) if other != one => "changed",
            Some(_) => continue,
        };
        let detail = format!("existing ephemeral containers {name:?} may not be {detail}\n");
        errors.push(FieldError::forbidden(&at, detail));
    }
}

/// Sizes of a Pod that runs: only what it asks for changes, as a whole or by container.
pub(crate) fn resized(new: &Value, old: &Value, errors: &mut Errors) {
    let path = Path::field("spec");
    spec(&new["spec"], Some(&new["metadata"]), Some(&old["spec"]), &path, errors);
    let sized = |object: &Value| {
        let mut spec = object["spec"].clone();
        for kind in ["containers", "initContainers"] {
            for one in spec.get_mut(kind).and_then(Value::as_array_mut).into_iter().flatten() {
                if let Some(one) = one.as_object_mut() {
                    one.remove("resources");
                }
            }
        }
        spec.as_object_mut().map(|fields| fields.remove("resources"));
        spec
    };
    if sized(new) != sized(old) {
        errors.push(FieldError::forbidden(&path, "only cpu and memory resources are mutable"));
    }
}
