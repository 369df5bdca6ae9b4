//! What a Pod asks for as a whole, beside what its containers ask for.
//!
//! In: a Pod's spec. Out: field errors.

use karmada_quantity::Quantity;
use karmada_schema::FieldError;
use karmada_schema::path::Path;
use serde_json::Value;

use crate::validation::resources::{PodClaims, amounts, claims, resource_name};
use crate::validation::{Errors, amount_shown, entries, list, text};

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
    claims(resources, &PodClaims::of(spec), path, errors);
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

/// Resources of a whole Pod that are compared with its containers'.
const MOST_SUMS: usize = 64;

/// The whole is not less than what containers that run together ask for, or have of huge pages at most.
fn sums(spec: &Value, side: &str, path: &Path<'_>, errors: &mut Errors) {
    let path = path.child(side);
    let all = entries(&spec["resources"], side);
    let all = all.filter(|(name, _)| side == "requests" || name.starts_with("hugepages-"));
    // Each goes through all containers; a Pod of more has names among them that are no resources, and is refused for those.
    for (name, whole) in all.take(MOST_SUMS) {
        let Some(whole) = Quantity::from_value(whole) else { continue };
        if let Some(sum) = together(spec, side, name).filter(|sum| sum.quantity > whole) {
            let detail =
                format!("must be greater than or equal to aggregate container {side} of {}", sum.text);
            errors.push(FieldError::invalid(&path.key(name), text(&spec["resources"][side], name), detail));
        }
    }
}

/// An amount, and how it is written.
#[derive(Clone)]
pub(crate) struct Sum {
    quantity: Quantity,
    /// As it came where it is the only one.
    pub(crate) text: String,
}

impl Sum {
    fn of(amount: &Value) -> Option<Sum> {
        Some(Sum { quantity: Quantity::from_value(amount)?, text: amount_shown(amount) })
    }

    fn plus(self, other: &Sum) -> Sum {
        let form = if self.quantity.nanos() == 0 { other.quantity } else { self.quantity };
        let quantity = Quantity::of_nanos(self.quantity.nanos() + other.quantity.nanos(), form);
        Sum { quantity, text: quantity.to_string() }
    }
}

fn add(one: Option<Sum>, other: &Option<Sum>) -> Option<Sum> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.plus(other)),
        (one, other) => one.or_else(|| other.clone()),
    }
}

fn more(one: Option<Sum>, other: Option<Sum>) -> Option<Sum> {
    match (one, other) {
        (Some(one), Some(other)) if other.quantity > one.quantity => Some(other),
        (one, other) => one.or(other),
    }
}

/// What containers that run together have at most of a resource, by their `requests` or `limits`; `None` where no container says.
pub(crate) fn together(spec: &Value, side: &str, name: &str) -> Option<Sum> {
    let amount = |one: &Value| one["resources"][side].get(name).and_then(Sum::of);
    let mut main = list(spec, "containers").iter().fold(None, |sum, one| add(sum, &amount(one)));
    // Those that stay count from their start on; others alone, beside those before them.
    let (mut beside, mut highest) = (None, None);
    for one in list(spec, "initContainers") {
        let own = amount(one);
        if one["restartPolicy"] == "Always" {
            main = add(main, &own);
            beside = add(beside, &own);
            highest = more(highest, beside.clone());
        } else {
            highest = more(highest, add(own, &beside));
        }
    }
    more(main, highest)
}
