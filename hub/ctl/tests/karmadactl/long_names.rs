//! Objects whose names are as long as Kubernetes lets them be: what is named after them goes where they go.

use http::Method;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::fleet::{Agent, until};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn policy(api_version: &str, kind: &str, name: &str) -> Value {
    json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": {"name": format!("p-{}", name.len())},
        "spec": {"propagateDeps": true, "resourceSelectors": [{"apiVersion": api_version, "kind": kind, "name": name}],
            "placement": {"clusterAffinity": {"clusterNames": ["site"]}}}})
}

async fn placed_by_policy(hub: &Cluster, policy: Value) {
    hub.create("/apis/policy.karmada.io/v1alpha1/namespaces/default/propagationpolicies", policy).await;
}

/// With 243 letters the name of a ConfigMap's binding just fits and that of its Work does not; with 245 neither does.
#[tokio::test(flavor = "multi_thread")]
async fn an_object_with_a_long_name_goes_where_it_is_placed_and_goes_away_again() {
    let (hub, member) = (Cluster::start().await, Cluster::member().await);
    let _agent = Agent::start(&hub, &member, "site").await;
    let names = [243, 245, 253].map(|letters| "a".repeat(letters));
    for name in &names {
        let map =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "v"}});
        hub.create(MAPS, map).await;
        placed_by_policy(&hub, policy("v1", "ConfigMap", name)).await;
    }
    for name in &names {
        let path = format!("{MAPS}/{name}");
        until(&member, "the ConfigMap", &path, |found| found.is_some_and(|map| map["data"]["k"] == "v"))
            .await;
        let said = hub.succeed(&format!("explain-placement ConfigMap {name}")).await;
        assert!(said.contains("site"), "{said}");
        hub.send(Method::DELETE, &path, "application/json", &Value::Null).await.unwrap();
    }
    for name in &names {
        until(&member, "the ConfigMap's end", &format!("{MAPS}/{name}"), |found| found.is_none()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_a_long_name_follows_what_refers_to_it() {
    let (hub, member) = (Cluster::start().await, Cluster::member().await);
    let _agent = Agent::start(&hub, &member, "site").await;
    let name = "b".repeat(250);
    hub.create(MAPS, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})).await;
    let container = json!({"name": "c", "image": "nginx", "envFrom": [{"configMapRef": {"name": name}}]});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}}});
    hub.create("/apis/apps/v1/namespaces/default/deployments", deployment).await;
    placed_by_policy(&hub, policy("apps/v1", "Deployment", "web")).await;
    until(&member, "the ConfigMap", &format!("{MAPS}/{name}"), |found| found.is_some()).await;
}
