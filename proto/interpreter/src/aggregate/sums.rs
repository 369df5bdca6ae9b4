//! PodDisruptionBudget and HorizontalPodAutoscaler: plain sums.
//!
//! In: the template, and what each cluster reports. Out: the template's status, in the place of the one before; a count that is no whole
//! number is an error.

use jiff::Timestamp;
use karmada_api::binding::AggregatedStatusItem;
use karmada_api::object;
use serde_json::{Map, Value};

use super::sums;
use crate::Answer;

/// PodDisruptionBudget: also who is being disrupted, by cluster and pod.
///
/// # Errors
/// A count that a member reports is no whole number.
pub fn disruption_budget(object: &mut Value, items: &[AggregatedStatusItem], _now: Timestamp) -> Answer<()> {
    let fields = ["currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods"];
    let mut status = sums(items, &fields)?;
    let mut disrupted = Map::new();
    for item in items {
        let pods = item.status.as_ref().and_then(|s| s.get("disruptedPods")).and_then(Value::as_object);
        for (pod, since) in pods.into_iter().flatten() {
            disrupted.insert(format!("{}/{pod}", item.cluster_name), since.clone());
        }
    }
    if !disrupted.is_empty() {
        status.insert("disruptedPods".to_owned(), Value::Object(disrupted));
    }
    object::root(object).insert("status".to_owned(), Value::Object(status));
    Ok(())
}

/// HorizontalPodAutoscaler: nothing is said before a cluster is asked.
///
/// # Errors
/// A count that a member reports is no whole number.
pub fn autoscaler(object: &mut Value, items: &[AggregatedStatusItem], _now: Timestamp) -> Answer<()> {
    if !items.is_empty() {
        let status = sums(items, &["currentReplicas", "desiredReplicas"])?;
        object::root(object).insert("status".to_owned(), Value::Object(status));
    }
    Ok(())
}
