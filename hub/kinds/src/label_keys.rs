//! Label keys by which a new Pod asks for others like itself, or unlike: what they mean for it is written into the selectors.
//!
//! In: a Pod. Out: the same, its selectors with a requirement for each key that it has a label of.

use serde_json::{Map, Value, json};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Fills the selectors of affinity and of spread.
pub(super) fn lay_in(pod: &mut Value) {
    let labels = pod["metadata"]["labels"].as_object().cloned().unwrap_or_default();
    if labels.is_empty() || !pod["spec"].is_object() {
        return;
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let at = |list: &str| format!("/spec/affinity/{kind}/{list}");
        for term in items(pod, &at(PREFERRED)) {
            if let Some(term) = term.get_mut("podAffinityTerm") {
                fill(term, &labels);
            }
        }
        items(pod, &at(REQUIRED)).for_each(|term| fill(term, &labels));
    }
    items(pod, "/spec/topologySpreadConstraints").for_each(|one| fill(one, &labels));
}

fn items<'v>(of: &'v mut Value, pointer: &str) -> impl Iterator<Item = &'v mut Value> {
    of.pointer_mut(pointer).and_then(Value::as_array_mut).into_iter().flatten()
}

fn fill(term: &mut Value, labels: &Map<String, Value>) {
    let mut wanted = Vec::new();
    for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        for key in term[field].as_array().into_iter().flatten() {
            if let Some(value) = key.as_str().and_then(|key| labels.get(key)) {
                wanted.push(json!({"key": key, "operator": operator, "values": [value]}));
            }
        }
    }
    let Some(selector) = term.get_mut("labelSelector").and_then(Value::as_object_mut) else { return };
    if wanted.is_empty() {
        return;
    }
    let all = selector.entry("matchExpressions").or_insert_with(|| json!([]));
    if let Some(all) = all.as_array_mut() {
        all.append(&mut wanted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_become_requirements_where_the_pod_has_the_label_and_the_term_a_selector() {
        let term = |selector: Value| json!({"matchLabelKeys": ["a", "other"], "mismatchLabelKeys": ["c"], "labelSelector": selector});
        let mut pod = json!({"metadata": {"labels": {"a": "b", "c": "d"}}, "spec": {
            "topologySpreadConstraints": [{"matchLabelKeys": ["a"], "labelSelector": {}}],
            "affinity": {"podAffinity": {REQUIRED: [term(json!({})), term(Value::Null)]}}}});
        lay_in(&mut pod);
        let a = json!({"key": "a", "operator": "In", "values": ["b"]});
        let c = json!({"key": "c", "operator": "NotIn", "values": ["d"]});
        assert_eq!(
            pod["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchExpressions"],
            json!([a])
        );
        let terms = &pod["spec"]["affinity"]["podAffinity"][REQUIRED];
        assert_eq!(terms[0]["labelSelector"]["matchExpressions"], json!([a, c]));
        assert!(terms[1]["labelSelector"].is_null());
    }
}
