//! What the hub has placed in a cluster. In: the cluster's Works. Out: how many objects of each kind, in words.

use std::collections::BTreeMap;

use serde_json::Value;

/// Objects by kind, kinds named with their group where they are not Kubernetes' core.
pub fn count(works: &[Value]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for work in works {
        let manifests = work["spec"]["workload"]["manifests"].as_array();
        for manifest in manifests.into_iter().flatten() {
            let kind = manifest["kind"].as_str().unwrap_or("unnamed kind");
            let group = manifest["apiVersion"].as_str().and_then(|version| version.split_once('/'));
            let name = group.map_or_else(|| kind.to_owned(), |(group, _)| format!("{kind}.{group}"));
            *counts.entry(name).or_default() += 1;
        }
    }
    counts
}

/// What becomes of them.
pub fn fate(counts: &BTreeMap<String, usize>, keep: bool) -> String {
    if counts.is_empty() {
        return "the hub has placed nothing there".to_owned();
    }
    let total: usize = counts.values().sum();
    let kinds: Vec<String> = counts.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    let fate = match (total, keep) {
        (1, true) => "object that the hub placed there stays, without the hub's marks",
        (_, true) => "objects that the hub placed there stay, without the hub's marks",
        (1, false) => "object that the hub placed there is removed from the member",
        (_, false) => "objects that the hub placed there are removed from the member",
    };
    format!("{total} {fate}: {}", kinds.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn objects_are_counted_by_kind() {
        let work = |manifests: Value| json!({"spec": {"workload": {"manifests": manifests}}});
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment"});
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap"});
        let counts = count(&[work(json!([deployment, config])), work(json!([config])), work(Value::Null)]);
        let text = fate(&counts, false);
        assert_eq!(
            text,
            "3 objects that the hub placed there are removed from the member: 2 ConfigMap, 1 Deployment.apps"
        );
        assert!(fate(&counts, true).contains("stay, without the hub's marks: 2 ConfigMap"));
        assert_eq!(fate(&count(&[]), true), "the hub has placed nothing there");
    }
}
