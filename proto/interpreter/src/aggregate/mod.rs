//! The statuses that members report, made one status of the template on the hub.
//!
//! In: the template with its present status, and one item per cluster. Out: the template with its new status. An
//! unchanged picture gives an unchanged status, times included.

pub mod deployment;
pub mod job;
pub mod load_balancer;
pub mod phase;
pub mod sums;
pub mod workload;

use karmada_api::binding::AggregatedStatusItem;
use karmada_api::object;
use serde_json::{Map, Value};

use crate::Answer;
use crate::reflect::number;
use crate::reported_status::MOST;

/// The statuses of those clusters that reported one.
pub(crate) fn reported(items: &[AggregatedStatusItem]) -> impl Iterator<Item = &Value> {
    items.iter().filter_map(|item| item.status.as_ref().filter(|status| status.is_object()))
}

/// The sum of a count over all clusters; more than the API can hold is told as the most that it can.
pub(crate) fn sum(items: &[AggregatedStatusItem], field: &str) -> Answer<i64> {
    reported(items).try_fold(0_i64, |sum, status| Ok(sum.saturating_add(number(status, field)?).min(MOST)))
}

/// The sum of each count.
pub(crate) fn sums(items: &[AggregatedStatusItem], fields: &[&str]) -> Answer<Map<String, Value>> {
    fields.iter().map(|field| Ok(((*field).to_owned(), Value::from(sum(items, field)?)))).collect()
}

/// The template's status, to write.
pub(crate) fn status_mut(object: &mut Value) -> &mut Map<String, Value> {
    object::child(object::root(object), "status")
}

/// Sets a number; 0 only where `keep_zero`.
fn put(status: &mut Map<String, Value>, field: &str, value: i64, keep_zero: bool) {
    if keep_zero || value != 0 {
        status.insert(field.to_owned(), Value::from(value));
    } else {
        status.remove(field);
    }
}

/// Whether every cluster has seen the template as it is now: each reports a status, has observed its own object, and
/// was given this generation of the template.
fn all_observed(items: &[AggregatedStatusItem], template_generation: i64) -> Answer<bool> {
    for item in items {
        let Some(status) = item.status.as_ref().filter(|status| status.is_object()) else { return Ok(false) };
        let seen = number(status, "observedGeneration")? >= number(status, "generation")?;
        let given = number(status, "resourceTemplateGeneration")? >= template_generation;
        if !seen || !given {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The observedGeneration of the template: its generation once every cluster has seen it, else what it was.
fn observed_generation(object: &Value, items: &[AggregatedStatusItem]) -> Answer<i64> {
    let generation = object::generation(object);
    if all_observed(items, generation)? {
        return Ok(generation);
    }
    Ok(object::get(object, &["status", "observedGeneration"]).and_then(Value::as_i64).unwrap_or(0))
}

/// Takes an empty status away.
pub(crate) fn clear_status(object: &mut Value) {
    object::root(object).remove("status");
}
