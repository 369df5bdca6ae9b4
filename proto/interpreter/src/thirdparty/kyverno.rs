//! Kyverno: Policy and ClusterPolicy.
//!
//! In: their objects, and what members report of them. Out: rules counted over all members, and whether they are in force.

use jiff::Timestamp;
use karmada_api::binding::AggregatedStatusItem;
use serde_json::{Map, Value};

use super::conditions;
use super::read::{conditions, present, text, whole};
use super::reflect::{Generations, Reflection, reflect};
use super::rollup::put;
use crate::aggregate::{reported, status_mut};
use crate::reported_status::MOST;
use crate::row::{NONE, Row};
use crate::{Answer, InterpretError};

/// Policy and ClusterPolicy.
pub const POLICY: Row = Row {
    aggregate: Some(aggregate),
    reflect: Some(|object| reflect(object, &STATUS)),
    health: Some(health),
    ..NONE
};

const STATUS: Reflection = Reflection {
    fields: &["ready", "conditions", "autogen", "rulecount"],
    counts: &[],
    generations: Generations::Untold,
};

/// As it says itself; where it says nothing, by its condition Ready.
fn health(object: &Value) -> Answer<bool> {
    let Some(status) = present(object, &["status"]) else { return Ok(false) };
    match status.get("ready").filter(|ready| !ready.is_null()) {
        Some(Value::Bool(ready)) => return Ok(*ready),
        Some(other) => {
            return Err(InterpretError::Object(format!("status.ready is neither true nor false: {other}")));
        }
        None => {}
    }
    let holds = |condition: &Value| {
        text(condition, "type") == "Ready"
            && text(condition, "status") == "True"
            && text(condition, "reason") == "Succeeded"
    };
    Ok(conditions(status).iter().any(holds))
}

fn aggregate(object: &mut Value, items: &[AggregatedStatusItem], _now: Timestamp) -> Answer<()> {
    if items.is_empty() {
        return Ok(());
    }
    let mut out = Map::new();
    out.insert("rulecount".to_owned(), Value::Object(rules(items)?));
    let conditions = conditions::merged(items)?;
    put(&mut out, "conditions", (!conditions.is_empty()).then_some(Value::Array(conditions)));
    for field in ["ready", "autogen"] {
        let told =
            reported(items).filter_map(|status| status.get(field)).filter(|value| !value.is_null()).last();
        let said = told.filter(|value| !value.as_object().is_some_and(Map::is_empty));
        put(&mut out, field, said.cloned());
    }
    *status_mut(object) = out;
    Ok(())
}

/// How many rules of each sort there are. A member that counts says all four.
fn rules(items: &[AggregatedStatusItem]) -> Answer<Map<String, Value>> {
    let mut out = Map::new();
    for sort in ["validate", "generate", "mutate", "verifyimages"] {
        let mut sum = 0_i64;
        for counted in reported(items).filter_map(|status| present(status, &["rulecount"])) {
            sum = sum.saturating_add(whole(counted, sort)?).min(MOST);
        }
        out.insert(sort.to_owned(), Value::from(sum));
    }
    Ok(out)
}
