//! What a Pod asks for as a whole, where it says only a part of it.
//!
//! In: a Pod's spec, its containers defaulted. Out: the same with `resources` filled in: limits of huge pages from what containers
//! may use, requests from what containers ask for, and what is left from the limits.

use std::collections::BTreeMap;

use karmada_quantity::Quantity;
use serde_json::Value;

use super::{Fields, object};
use crate::validation::pod::resources::together;

/// Fills the Pod's own resources in, where it has any.
pub(super) fn resources(spec: &mut Fields) {
    let said = |side: &str| {
        let resources = spec.get("resources")?.as_object()?;
        Some(resources.get(side).and_then(Value::as_object).cloned().unwrap_or_default())
    };
    let (Some(mut limits), Some(mut requests)) = (said("limits"), said("requests")) else { return };
    if limits.is_empty() && requests.is_empty() {
        return;
    }
    for (name, limit) in of_containers(spec, "limits") {
        if is_huge(&name) && !requests.contains_key(&name) {
            limits.entry(name).or_insert(limit);
        }
    }
    if limits.is_empty() {
        return;
    }
    for (name, request) in of_containers(spec, "requests") {
        if matches!(&*name, "cpu" | "memory") {
            requests.entry(name).or_insert(request);
        }
    }
    let known = limits.iter().filter(|(name, _)| matches!(&***name, "cpu" | "memory") || is_huge(name));
    for (name, limit) in known {
        requests.entry(name.clone()).or_insert_with(|| limit.clone());
    }
    let resources = object(spec, "resources");
    resources.insert("limits".to_owned(), limits.into());
    if !requests.is_empty() {
        resources.insert("requests".to_owned(), requests.into());
    }
}

fn is_huge(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// What all containers have together, by resource; written as they write it.
fn of_containers(spec: &Fields, side: &str) -> BTreeMap<String, Value> {
    let spec = Value::Object(spec.clone());
    let lists = ["containers", "initContainers"].map(|list| spec[list].as_array());
    let mut out = BTreeMap::new();
    for one in lists.into_iter().flatten().flatten() {
        for (name, amount) in one["resources"][side].as_object().into_iter().flatten() {
            if !out.contains_key(name)
                && Quantity::from_value(amount).is_some()
                && let Some(sum) = together(&spec, side, name)
            {
                out.insert(name.clone(), sum.text.into());
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn filled(spec: Value) -> Value {
        let mut spec = spec;
        resources(spec.as_object_mut().unwrap());
        spec["resources"].take()
    }

    #[test]
    fn requests_come_from_containers_and_then_from_limits() {
        let containers = json!([
            {"resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"hugepages-2Mi": "2Mi"}}},
            {"resources": {"requests": {"cpu": "250m"}}},
        ]);
        let whole =
            filled(json!({"containers": containers, "resources": {"limits": {"cpu": "2", "memory": "4Gi"}}}));
        assert_eq!(whole["limits"], json!({"cpu": "2", "memory": "4Gi", "hugepages-2Mi": "2Mi"}));
        assert_eq!(whole["requests"], json!({"cpu": "750m", "memory": "1Gi", "hugepages-2Mi": "2Mi"}));
        let none = filled(json!({"containers": [{}], "resources": {"limits": {"cpu": "2"}}}));
        assert_eq!(none["requests"], json!({"cpu": "2"}));
    }

    #[test]
    fn a_pod_that_says_nothing_of_itself_is_left_alone() {
        let containers = json!([{"resources": {"requests": {"cpu": "1"}}}]);
        assert_eq!(filled(json!({"containers": containers})), Value::Null);
        assert_eq!(filled(json!({"containers": containers, "resources": {}})), json!({}));
        let asked = json!({"requests": {"memory": "1Gi"}});
        assert_eq!(filled(json!({"containers": containers, "resources": asked})), asked);
    }
}
