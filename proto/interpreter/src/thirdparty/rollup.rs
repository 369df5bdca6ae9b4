//! The statuses of members, rolled up: sums, the last word, the generation that all have seen.
//!
//! In: the template and what the members report. Out: pieces of its status. Sums end at the most that the API can hold.

use jiff::Timestamp;
use karmada_api::binding::AggregatedStatusItem;
use karmada_api::object;
use karmada_api::time;
use serde_json::{Map, Value, json};

use super::read::text;
use crate::Answer;
use crate::aggregate::{clear_status, reported, status_mut, sums};

/// What is rolled up of a kind.
pub struct Rollup {
    /// Counts that are summed.
    pub sums: &'static [&'static str],
    /// Texts of which the last that says something is taken; empty where none does.
    pub texts: &'static [&'static str],
}

/// Writes sums, texts and the generation that all members have seen into the template's status.
pub fn roll_up(object: &mut Value, items: &[AggregatedStatusItem], of: &Rollup) -> Answer<()> {
    let generation = observed_generation(object, items);
    let sums = sums(items, of.sums)?;
    let status = status_mut(object);
    status.extend(sums);
    status.insert("observedGeneration".to_owned(), Value::from(generation));
    for field in of.texts {
        status.insert((*field).to_owned(), last(items, field).cloned().unwrap_or_else(|| json!("")));
    }
    Ok(())
}

/// Whether a member's status belongs to the template as it is now: it says so, and it is of its object as that is now.
fn seen(item: &AggregatedStatusItem, template: i64) -> bool {
    let number = |field: &str| item.status.as_ref()?.get(field)?.as_i64();
    let current = number("observedGeneration").zip(number("generation")).is_some_and(|(seen, is)| seen >= is);
    current && number("resourceTemplateGeneration").is_some_and(|given| given >= template)
}

/// The template's generation once every member has seen it, else the one of before.
pub fn observed_generation(object: &Value, items: &[AggregatedStatusItem]) -> i64 {
    let generation = object::generation(object);
    if items.iter().all(|item| seen(item, generation)) {
        return generation;
    }
    object::get(object, &["status", "observedGeneration"]).and_then(Value::as_i64).unwrap_or(0)
}

/// Whether a value is worth to be told.
pub fn says_something(value: &Value) -> bool {
    !matches!(value, Value::Null) && value.as_str() != Some("")
}

/// What the last member says of a field that says something.
pub fn last<'a>(items: &'a [AggregatedStatusItem], field: &str) -> Option<&'a Value> {
    reported(items).filter_map(|status| status.get(field)).filter(|value| says_something(value)).last()
}

/// What the first member says of a field that says something.
pub fn first<'a>(items: &'a [AggregatedStatusItem], field: &str) -> Option<&'a Value> {
    reported(items).filter_map(|status| status.get(field)).find(|value| says_something(value))
}

/// The times that members tell in a field, in order: RFC 3339 in UTC sorts as text. Empty ones are none.
pub fn times<'a>(items: &'a [AggregatedStatusItem], field: &str) -> Vec<&'a str> {
    let mut times: Vec<&str> =
        reported(items).map(|status| text(status, field)).filter(|time| !time.is_empty()).collect();
    times.sort_unstable();
    times
}

/// Sets a field, or takes it away where there is nothing to set.
pub fn put(status: &mut Map<String, Value>, field: &str, value: Option<Value>) {
    match value {
        Some(value) => status.insert(field.to_owned(), value),
        None => status.remove(field),
    };
}

/// Where one member alone is asked, its status is the template's. True where this decided it; nobody asked decides nothing.
pub fn alone(object: &mut Value, items: &[AggregatedStatusItem]) -> bool {
    match items {
        [] => true,
        [item] => {
            match &item.status {
                Some(status) => *status_mut(object) = status.as_object().cloned().unwrap_or_default(),
                None => clear_status(object),
            }
            true
        }
        _ => false,
    }
}

/// The names of those members that `is` picks, as a message lists them.
pub fn clusters(items: &[AggregatedStatusItem], is: impl Fn(&Value) -> bool) -> Option<String> {
    let names: Vec<&str> = items
        .iter()
        .filter(|item| item.status.as_ref().is_some_and(&is))
        .map(|item| item.cluster_name.as_str())
        .collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// A condition that holds since `now`, or since the template said the same before. `times` are the fields that tell when.
pub fn since(earlier: &[Value], says: &Value, times: &[&str], now: Timestamp) -> Value {
    let same = earlier.iter().find(|condition| {
        ["type", "status", "reason", "message"].iter().all(|field| condition.get(field) == says.get(field))
    });
    let now = time::seconds(now);
    let mut condition = says.clone();
    for field in times {
        let time = same.map(|same| text(same, field)).filter(|time| !time.is_empty()).unwrap_or(&now);
        condition[*field] = json!(time);
    }
    condition
}
