//! What the API takes and nothing acts on yet: whoever writes it is told so in the answer.
//!
//! In: an object that is created, or changed from what it was. Out: warnings, each with the place and what follows. One
//! table holds it all; a capability that comes takes its rows out.

mod table;

use serde_json::Value;

use crate::object;
pub use table::{ROWS, Row};

/// Whether nothing acts on a kind at all.
pub fn is_inert(group: &str, kind: &str) -> bool {
    ROWS.iter().any(|row| row.path.is_empty() && row.group == group && row.kinds.contains(&kind))
}

/// Whether a field, or one that holds it, is told of where it says something.
pub fn is_told(group: &str, kind: &str, path: &str) -> bool {
    let holds = |row: &Row| {
        let rest = path.strip_prefix(row.path);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.') || rest.starts_with("[]"))
    };
    let mut rows = ROWS.iter().filter(|row| row.group == group && row.kinds.contains(&kind));
    rows.any(|row| row.path.is_empty() || holds(row))
}

/// What to tell whoever writes `new`. Of a change, only what it says that was not said there before.
pub fn warnings(group: &str, kind: &str, new: &Value, old: Option<&Value>) -> Vec<String> {
    let body = |object: &Value| {
        let mut object = object.clone();
        for part in ["metadata", "status"] {
            object::root(&mut object).remove(part);
        }
        object
    };
    let rows = ROWS.iter().filter(|row| row.group == group && row.kinds.contains(&kind));
    let mut rows = rows.peekable();
    if rows.peek().is_none() || old.is_some_and(|old| body(old) == body(new)) {
        return Vec::new();
    }
    let mut out = Vec::new();
    for row in rows {
        if row.path.is_empty() {
            out.push(format!("{kind}: {}", row.words));
            continue;
        }
        let steps: Vec<&str> = row.path.split('.').collect();
        let places = |object| {
            let mut places = Vec::new();
            walk(object, &steps, String::new(), row.means, &mut places);
            places
        };
        let before = old.map(places).unwrap_or_default();
        let said = places(new).into_iter().filter(|said| !before.contains(said));
        out.extend(said.map(|(place, _)| format!("{place}: {}", row.words)));
    }
    out
}

/// The places under `value` where `steps` lead to something that means something, and what.
fn walk<'v>(
    value: &'v Value,
    steps: &[&str],
    place: String,
    means: fn(&Value) -> bool,
    out: &mut Vec<(String, &'v Value)>,
) {
    let Some((step, rest)) = steps.split_first() else {
        if means(value) {
            out.push((place, value));
        }
        return;
    };
    let name = step.trim_end_matches("[]");
    let Some(inner) = value.get(name) else { return };
    let place = if place.is_empty() { name.to_owned() } else { format!("{place}.{name}") };
    if name.len() == step.len() {
        return walk(inner, rest, place, means, out);
    }
    for (index, element) in inner.as_array().into_iter().flatten().enumerate() {
        walk(element, rest, format!("{place}[{index}]"), means, out);
    }
}

#[cfg(test)]
mod tests {
    use super::table::{BINDINGS, CONFIG, CUSTOMIZATIONS, POLICIES, POLICY, SERVICES};
    use super::*;
    use serde_json::json;

    /// An object that has everything that the table names: the value at each path, in order.
    fn full(rows: &[(&str, Value)]) -> Value {
        let mut object = json!({"metadata": {"name": "a"}});
        for (path, value) in rows {
            let mut wrapped = value.clone();
            for step in path.split('.').rev() {
                let name = step.trim_end_matches("[]");
                let inner = if name.len() == step.len() { wrapped } else { json!([wrapped]) };
                wrapped = json!({ name: inner });
            }
            json_merge(&mut object, wrapped);
        }
        object
    }

    fn json_merge(into: &mut Value, from: Value) {
        match (into, from) {
            (Value::Object(into), Value::Object(from)) => {
                for (key, value) in from {
                    json_merge(into.entry(key).or_insert(Value::Null), value);
                }
            }
            (into, from) => *into = from,
        }
    }

    /// A group, its kinds, and what stands in an object of them: path and value.
    type Said<'a> = (&'a str, &'a [&'a str], &'a [(&'a str, Value)]);

    #[test]
    fn each_field_that_does_nothing_is_named() {
        let policy = [("spec.association", json!(true))];
        let wide = [("spec.propagateDeps", json!(true))];
        let binding = [
            ("spec.components", json!([{"name": "head", "replicas": 1}])),
            ("spec.clusters[].components", json!([{"name": "head", "replicas": 1}])),
            ("spec.requiredBy[].clusters[].components", json!([{"name": "head", "replicas": 1}])),
            ("spec.replicaRequirements.nodeClaim", json!({"nodeSelector": {"disk": "ssd"}})),
            ("spec.replicaRequirements.namespace", json!("shop")),
            ("spec.replicaRequirements.priorityClassName", json!("gold")),
        ];
        let cluster = [
            ("spec.apiEndpoint", json!("https://north:6443")),
            ("spec.secretRef", json!({"namespace": "a", "name": "b"})),
            ("spec.impersonatorSecretRef", json!({"namespace": "a", "name": "b"})),
            ("spec.insecureSkipTLSVerification", json!(true)),
            ("spec.proxyURL", json!("https://proxy")),
            ("spec.proxyHeader", json!({"a": "b"})),
            ("spec.syncMode", json!("Push")),
        ];
        let script = || json!("function F() end");
        let customization = [("spec.customizations.componentResource.luaScript", script())];
        let service = [
            ("spec.types", json!(["LoadBalancer"])),
            ("spec.ports", json!([{"port": 80}])),
            ("spec.range", json!({"clusterNames": ["a"]})),
            ("spec.serviceProvisionClusters", json!(["a"])),
            ("spec.serviceConsumptionClusters", json!(["b"])),
        ];
        let link = [
            ("spec.contact", json!({"interval": "1h"})),
            ("spec.budget", json!({"bytesPerDay": 1})),
            ("spec.renewal", json!({"expiredFor": "24h"})),
            ("spec.transports", json!(["h2"])),
        ];
        let import = [("spec.type", json!("Headless"))];
        let table: [Said<'_>; 8] = [
            (POLICY, POLICIES, &policy),
            (crate::WORK_GROUP, &["ClusterResourceBinding"], &wide),
            (crate::WORK_GROUP, BINDINGS, &binding),
            (crate::CLUSTER_GROUP, &["Cluster"], &cluster),
            (CONFIG, CUSTOMIZATIONS, &customization),
            (crate::NETWORKING_GROUP, SERVICES, &service),
            (crate::EDGE_GROUP, &["LinkPolicy"], &link),
            ("multicluster.x-k8s.io", &["ServiceImport"], &import),
        ];
        let mut held = 0;
        for (group, kinds, fields) in table {
            held += fields.len();
            for kind in kinds {
                let told = warnings(group, kind, &full(fields), None);
                let places: Vec<&str> = told.iter().map(|text| text.split(": ").next().unwrap()).collect();
                let wanted: Vec<String> = fields.iter().map(|(path, _)| path.replace("[]", "[0]")).collect();
                assert_eq!(places, wanted, "{kind}");
            }
        }
        assert_eq!(
            ROWS.iter().filter(|row| !row.path.is_empty()).count(),
            held,
            "every row is in this table"
        );
    }

    #[test]
    fn what_acts_is_not_warned_of() {
        let policy = json!({"spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}], "propagateDeps": true,
            "preemption": "Never", "priority": 3, "dependentOverrides": ["a"], "conflictResolution": "Overwrite",
            "suspension": {"dispatching": true}, "preserveResourcesOnDeletion": true, "schedulerName": "default-scheduler",
            "failover": {"application": {"decisionConditions": {"tolerationSeconds": 5}}, "cluster": {"purgeMode": "Directly"}},
            "placement": {"clusterAffinities": [{"affinityName": "a"}], "clusterTolerations": [{"key": "a", "effect": "NoExecute", "tolerationSeconds": 30}],
                "spreadConstraints": [{"spreadByField": "region"}], "replicaScheduling": {"replicaSchedulingType": "Divided"}}}});
        for kind in POLICIES {
            assert!(
                warnings(POLICY, kind, &policy, None).is_empty(),
                "{:?}",
                warnings(POLICY, kind, &policy, None)
            );
        }
        let script = json!({"luaScript": "function F() end"});
        let customization = json!({"spec": {"customizations": {"retention": script, "statusReflection": script, "healthInterpretation": script}}});
        assert!(warnings(CONFIG, CUSTOMIZATIONS[0], &customization, None).is_empty());
        let of = |operations: Value| json!({"webhooks": [{"rules": [{"operations": operations}]}]});
        let webhooks = "ResourceInterpreterWebhookConfiguration";
        assert!(warnings(CONFIG, webhooks, &of(json!(["Retain", "*"])), None).is_empty());
        let cluster = json!({"spec": {"syncMode": "Pull", "taints": [{"key": "a", "effect": "NoExecute"}], "resourceModels": [{"grade": 0}]}});
        assert!(warnings(crate::CLUSTER_GROUP, "Cluster", &cluster, None).is_empty());
        assert!(
            warnings(POLICY, "OverridePolicy", &json!({"spec": {"overrideRules": [{}]}}), None).is_empty()
        );
        assert!(warnings("", "Pod", &json!({"spec": {"propagateDeps": true}}), None).is_empty());
    }

    #[test]
    fn it_is_told_when_it_is_said_and_not_again() {
        let of =
            |interval: &str| json!({"metadata": {"name": "a"}, "spec": {"contact": {"interval": interval}}});
        let told = |new: &Value, old: Option<&Value>| warnings("edge.karmada.io", "LinkPolicy", new, old);
        assert_eq!(told(&of("1h"), None), ["spec.contact: agents are in contact always"]);
        let mut labelled = of("1h");
        labelled["metadata"]["labels"] = json!({"a": "b"});
        labelled["status"] = json!({"x": 1});
        assert!(told(&labelled, Some(&of("1h"))).is_empty());
        assert_eq!(told(&of("2h"), Some(&of("1h"))).len(), 1);
        let cluster =
            |endpoint: &str, region: &str| json!({"spec": {"apiEndpoint": endpoint, "region": region}});
        let told = |new: Value, old: Value| warnings(crate::CLUSTER_GROUP, "Cluster", &new, Some(&old));
        assert_eq!(
            told(cluster("https://a", "x"), cluster("https://a", "y")),
            [""; 0],
            "it stood there before"
        );
        assert_eq!(told(cluster("https://b", "x"), cluster("https://a", "x")).len(), 1);
        assert!(is_inert("search.karmada.io", "ResourceRegistry") && !is_inert(POLICY, "PropagationPolicy"));
    }
}
