//! What a Pod asks for as a whole, beside what its containers ask for.
//!
//! In: a Pod's spec. Out: field errors.

use serde_json::Value;

use crate::schema::FieldError;
use crate::schema::path::Path;
use crate::schema::quantity::Quantity;
use crate::validation::resources::{amounts, claims, resource_name};
use crate::validation::{Errors, entries, list, text};

/// `spec.resources`.
pub(super) fn of_pod(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let resources = &spec["resources"];
    if !resources.is_object() {
        return;
    }
    if spec["os"]["name"] == "windows" {
        errors.push(FieldError::forbidden(path, "may not be set for a windows pod"));
        return;
    }
    if resources["claims"].is_array() {
        let detail = "claims may not be set for Resources at pod-level";
        errors.push(FieldError::forbidden(&path.child("claims"), detail));
    }
    amounts(resources, known, path, errors);
    claims(resources, list(spec, "resourceClaims"), path, errors);
    sums(spec, "requests", path, errors);
    sums(spec, "limits", path, errors);
    let all = path.child("containers");
    for (index, one) in list(spec, "containers").iter().enumerate() {
        let at = all.index(index);
        for (name, limit) in entries(&one["resources"], "limits") {
            let whole = resources["limits"].get(name);
            if let (Some(limit), Some(whole)) =
                (Quantity::from_value(limit), whole.and_then(Quantity::from_value))
                && limit > whole
            {
                let detail = format!(
                    "must be less than or equal to pod limits of {}",
                    text(&resources["limits"], name)
                );
                let at = at.key(name);
                errors.push(FieldError::invalid(
                    &at.child("limits"),
                    text(&one["resources"]["limits"], name),
                    detail,
                ));
            }
        }
    }
}

/// The name of a resource that a Pod as a whole can ask for.
fn known(name: &str, path: &Path<'_>, errors: &mut Errors) {
    let before = errors.len();
    resource_name(name, path, errors);
    if errors.len() == before && !matches!(name, "cpu" | "memory") && !name.starts_with("hugepages-") {
        errors.push(FieldError::not_supported(path, name, &["cpu", "hugepages-", "memory"]));
    }
}

/// The whole is not less than what containers that run together ask for, or have of huge pages at most.
fn sums(spec: &Value, side: &str, path: &Path<'_>, errors: &mut Errors) {
    let path = path.child(side);
    let all = entries(&spec["resources"], side);
    for (name, whole) in all.filter(|(name, _)| side == "requests" || name.starts_with("hugepages-")) {
        let Some(whole) = Quantity::from_value(whole) else { continue };
        let sum = together(spec, side, name);
        if sum > whole.nanos() {
            let sum = Quantity::of_nanos(sum, whole).canonical();
            let detail = format!("must be greater than or equal to aggregate container {side} of {sum}");
            errors.push(FieldError::invalid(&path.key(name), text(&spec["resources"][side], name), detail));
        }
    }
}

/// What containers that run together have at most of a resource, by their `requests` or `limits`, in units of 10⁻⁹.
pub(crate) fn together(spec: &Value, side: &str, name: &str) -> i128 {
    let amount = |one: &Value| {
        one["resources"][side].get(name).and_then(Quantity::from_value).map_or(0, Quantity::nanos)
    };
    let main: i128 = list(spec, "containers").iter().map(amount).sum();
    // Those that stay count from their start on; others alone, beside those before them.
    let (mut beside, mut highest) = (0, 0);
    for one in list(spec, "initContainers") {
        if one["restartPolicy"] == "Always" {
            beside += amount(one);
            highest = highest.max(beside);
        } else {
            highest = highest.max(beside + amount(one));
        }
    }
    (main + beside).max(highest)
}
