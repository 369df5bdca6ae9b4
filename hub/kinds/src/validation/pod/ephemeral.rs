//! Ephemeral containers: laid into a Pod that runs, to look at it, and so without what a service has.
//!
//! In: a Pod's spec. Out: field errors.

use std::collections::BTreeSet;

use karmada_schema::FieldError;
use karmada_schema::path::Path;
use serde_json::Value;

use super::containers::{Of, container, image};
use crate::validation::{Errors, list, text};

const DETAIL: &str = "cannot be set for an Ephemeral Container";

/// Every ephemeral container of the spec.
pub(super) fn containers(of: &Of<'_>, path: &Path<'_>, errors: &mut Errors) {
    let others: BTreeSet<&str> = ["containers", "initContainers"]
        .into_iter()
        .flat_map(|kind| list(of.spec, kind).iter().map(|one| text(one, "name")))
        .collect();
    let mut seen = others.clone();
    for (index, one) in list(of.spec, "ephemeralContainers").iter().enumerate() {
        let at = path.index(index);
        container(one, of, &at, errors);
        image(one, &at, errors);
        if !seen.insert(text(one, "name")) {
            errors.push(FieldError::duplicate(&at.child("name"), text(one, "name")));
        }
        let target = text(one, "targetContainerName");
        if !target.is_empty() && !others.contains(target) {
            errors.push(FieldError::not_found(&at.child("targetContainerName"), target));
        }
        for field in FORBIDDEN {
            if is_set(field, &one[field]) {
                errors.push(FieldError::forbidden(&at.child(field), DETAIL));
            }
        }
        let mounts = at.child("volumeMounts");
        for (index, mount) in list(one, "volumeMounts").iter().enumerate() {
            let at = mounts.index(index);
            for field in ["subPath", "subPathExpr"].into_iter().filter(|field| !text(mount, field).is_empty())
            {
                errors.push(FieldError::forbidden(&at.child(field), DETAIL));
            }
        }
    }
}

/// Fields that are a service's, in the order of the struct.
const FORBIDDEN: [&str; 7] =
    ["ports", "resources", "resizePolicy", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle"];

/// Whether a field says anything. Resources are there always, and say nothing where they are empty; a probe is there or is not.
fn is_set(field: &str, value: &Value) -> bool {
    match field {
        "resources" => value.as_object().is_some_and(|resources| !resources.is_empty()),
        _ => !value.is_null(),
    }
}
