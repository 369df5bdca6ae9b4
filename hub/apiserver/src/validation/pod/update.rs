//! What may change of a Pod that runs: its spec, its ephemeral containers, its sizes.
//!
//! In: the Pod as it shall be and as it is stored. Out: field errors.

use serde_json::Value;

use super::containers::Of;
use super::{named_volumes, spec};
use crate::schema::FieldError;
use crate::schema::path::Path;
use crate::validation::{Errors, list, text};

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
    }
    let deadline = path.child("activeDeadlineSeconds");
    match (new["activeDeadlineSeconds"].as_i64(), old["activeDeadlineSeconds"].as_i64()) {
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
    let mut munged = new.clone();
    for field in ["containers", "initContainers"] {
        for (index, container) in
            munged.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten().enumerate()
        {
            if let (Some(container), Some(image)) =
                (container.as_object_mut(), old[field][index].get("image"))
            {
                container.insert("image".to_owned(), image.clone());
            }
        }
    }
    for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates", "serviceAccount"] {
        if let Some(munged) = munged.as_object_mut() {
            match old.get(field) {
                Some(value) => munged.insert(field.to_owned(), value.clone()),
                None => munged.remove(field),
            };
        }
    }
    let mut stored = old.clone();
    for spec in [&mut munged, &mut stored] {
        if let Some(spec) = spec.as_object_mut() {
            spec.remove("serviceAccount");
        }
    }
    if munged != stored {
        errors.push(FieldError::forbidden(
            &path,
            format!("pod updates may not change fields other than {UPDATABLE}"),
        ));
    }
}

/// Containers that are laid into a Pod that runs: judged as any, and never changed or taken away.
pub(in crate::validation) fn ephemeral(new: &Value, old: &Value, errors: &mut Errors) {
    let path = Path::field("spec");
    let at = path.child("ephemeralContainers");
    let (now, before) =
        (list(&new["spec"], "ephemeralContainers"), list(&old["spec"], "ephemeralContainers"));
    let volumes = named_volumes(&new["spec"], "", &path.child("volumes"), &mut Errors::new());
    super::ephemeral::containers(&Of { spec: &new["spec"], volumes: &volumes }, &at, errors);
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

/// Sizes of a Pod that runs: of its containers only what they ask for changes.
pub(in crate::validation) fn resized(new: &Value, old: &Value, errors: &mut Errors) {
    let path = Path::field("spec");
    spec(&new["spec"], Some(&new["metadata"]), &path, errors);
    let sized = |object: &Value| {
        let mut spec = object["spec"].clone();
        for kind in ["containers", "initContainers"] {
            for one in spec.get_mut(kind).and_then(Value::as_array_mut).into_iter().flatten() {
                if let Some(one) = one.as_object_mut() {
                    one.remove("resources");
                }
            }
        }
        spec
    };
    if sized(new) != sized(old) {
        errors.push(FieldError::forbidden(&path, "only cpu and memory resources are mutable"));
    }
}
