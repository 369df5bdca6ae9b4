//! What a workload refers to goes where it goes (`propagateDeps`): its settings, its Secret and its account, without a policy of their own.

use serde_json::json;
use tests::wait::so;

use crate::fleet::{Fleet, await_object, await_targets, has, has_condition, shared};

const WORKLOAD: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {colour: blue}
---
apiVersion: v1
kind: Secret
metadata: {name: keys}
stringData: {password: hidden}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: runner}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      serviceAccountName: runner
      containers:
      - name: main
        image: nginx
        envFrom: [{configMapRef: {name: settings}}, {configMapRef: {name: later, optional: true}}]
      volumes: [{name: keys, secret: {secretName: keys}}]
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: web}]
  propagateDeps: true
  placement: {clusterAffinity: {clusterNames: [north, south]}}
";

const BINDINGS: &str = "/apis/work.karmada.io/v1alpha2/namespaces/following/resourcebindings";
const ITSELF: &str = "/apis/apps/v1/namespaces/following/deployments/web";
const FOLLOWING: [&str; 3] = [
    "/api/v1/namespaces/following/configmaps/settings",
    "/api/v1/namespaces/following/secrets/keys",
    "/api/v1/namespaces/following/serviceaccounts/runner",
];
const LATER: &str = "/api/v1/namespaces/following/configmaps/later";

/// Waits until the binding of a ConfigMap is applied in the clusters that require it.
#[track_caller]
fn await_applied(fleet: &Fleet, name: &str, clusters: &[&str]) {
    await_object(fleet.hub.api(), "the hub", &format!("{BINDINGS}/{name}-configmap"), |binding| {
        let listed = binding.pointer("/spec/requiredBy/0/clusters").and_then(|list| list.as_array());
        let names: Vec<&str> =
            listed.into_iter().flatten().filter_map(|cluster| cluster["name"].as_str()).collect();
        so(names == clusters && binding["spec"].get("placement").is_none(), || binding["spec"].to_string())?;
        has(binding, "/spec/requiredBy/0/name", &json!("web-deployment"))?;
        has_condition(binding, "FullyApplied", "True", "")
    });
}

#[test]
fn what_a_workload_refers_to_goes_where_it_goes_and_with_it() {
    let Some(fleet) = shared() else { return };
    let kubectl = fleet.namespace("following");
    kubectl.apply(WORKLOAD);
    for site in ["north", "south"].map(|name| fleet.site(name)) {
        FOLLOWING.iter().chain([&ITSELF]).for_each(|path| drop(site.await_object(path, |_| Ok(()))));
    }
    await_applied(&fleet, "settings", &["north", "south"]);

    // It changes, and what was missing comes.
    kubectl.ok(&["patch", "configmap", "settings", "--type=merge", "-p", r#"{"data":{"colour":"red"}}"#]);
    kubectl.ok(&["create", "configmap", "later", "--from-literal=a=b"]);
    for site in ["north", "south"].map(|name| fleet.site(name)) {
        site.await_object(FOLLOWING[0], |map| has(map, "/data/colour", &json!("red")));
        site.await_object(LATER, |map| has(map, "/data/a", &json!("b")));
    }

    // The workload moves, and they with it.
    let south = r#"{"spec":{"placement":{"clusterAffinity":{"clusterNames":["south"]}}}}"#;
    kubectl.ok(&["patch", "propagationpolicy", "web", "--type=merge", "-p", south]);
    await_targets(&fleet, &format!("{BINDINGS}/web-deployment"), &["south"]);
    let north = fleet.site("north");
    FOLLOWING.iter().chain([&ITSELF, &LATER]).for_each(|path| north.await_gone(path));
    await_applied(&fleet, "settings", &["south"]);
    fleet.site("south").await_object(FOLLOWING[1], |_| Ok(()));

    // It goes, and they with it; on the hub they are their owner's.
    kubectl.ok(&["delete", "deployment", "web"]);
    let south = fleet.site("south");
    FOLLOWING.iter().chain([&ITSELF, &LATER]).for_each(|path| south.await_gone(path));
    for path in FOLLOWING {
        await_object(fleet.hub.api(), "the hub", path, |_| Ok(()));
    }

    // With their namespace they all go.
    kubectl.apply(WORKLOAD);
    FOLLOWING.iter().chain([&ITSELF, &LATER]).for_each(|path| drop(north.await_object(path, |_| Ok(()))));
    fleet.remove_namespace("following");
}
