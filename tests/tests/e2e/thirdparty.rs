//! Kinds of other projects, which nobody taught the fleet: divided, followed by what they refer to, and told by their members.

use serde_json::{Value, json};
use tests::wait::so;

use crate::fleet::{Site, await_object, has, shared};

const NAMESPACE: &str = "thirdparty";
const DEFINITION: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: clonesets.apps.kruise.io}
spec:
  group: apps.kruise.io
  scope: Namespaced
  names: {plural: clonesets, kind: CloneSet}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
";
const DEFINITION_NAME: &str = "clonesets.apps.kruise.io";
const CLONES: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {a: b}
---
apiVersion: apps.kruise.io/v1alpha1
kind: CloneSet
metadata: {name: web}
spec:
  replicas: 6
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: r/web:1
        envFrom: [{configMapRef: {name: settings}}]
        resources: {requests: {cpu: 10m}}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: clones}
spec:
  propagateDeps: true
  resourceSelectors: [{apiVersion: apps.kruise.io/v1alpha1, kind: CloneSet}]
  placement:
    clusterAffinity: {clusterNames: [north, south]}
    replicaScheduling:
      replicaSchedulingType: Divided
      replicaDivisionPreference: Weighted
      weightPreference:
        staticWeightList:
        - {targetCluster: {clusterNames: [north]}, weight: 2}
        - {targetCluster: {clusterNames: [south]}, weight: 1}
";
const PATH: &str = "/apis/apps.kruise.io/v1alpha1/namespaces/thirdparty/clonesets/web";
const SETTINGS: &str = "/api/v1/namespaces/thirdparty/configmaps/settings";
const BINDING: &str = "/apis/work.karmada.io/v1alpha2/namespaces/thirdparty/resourcebindings/web-cloneset";

/// Says in a member what its controller would: so many replicas of the object as it is there, of which so many are ready.
fn say(site: &Site, replicas: i64, ready: i64) {
    let object = site.await_object(PATH, |object| has(object, "/spec/replicas", &json!(replicas)));
    let status = json!({"status": {
        "observedGeneration": object["metadata"]["generation"], "replicas": replicas, "updatedReplicas": replicas,
        "readyReplicas": ready, "availableReplicas": ready, "labelSelector": "app=web", "collisionCount": 1}});
    let member = site.member.kubectl().in_namespace(NAMESPACE);
    member.ok(&[
        "patch",
        "cloneset",
        "web",
        "--subresource=status",
        "--type=merge",
        "-p",
        &status.to_string(),
    ]);
}

/// The health that the binding tells of each cluster, in the order of their names.
fn health(binding: &Value) -> Vec<(String, String)> {
    let items = binding.pointer("/status/aggregatedStatus").and_then(Value::as_array).into_iter().flatten();
    let text = |item: &Value, key: &str| item[key].as_str().unwrap_or("").to_owned();
    let mut told: Vec<_> = items.map(|item| (text(item, "clusterName"), text(item, "health"))).collect();
    told.sort();
    told
}

#[test]
fn a_clone_set_is_divided_and_told_by_its_members() {
    let Some(fleet) = shared() else { return };
    let (hub, north, south) = (fleet.hub.api(), fleet.site("north"), fleet.site("south"));
    let kubectl = fleet.namespace(NAMESPACE);
    for kubectl in [fleet.hub.kubectl(), north.member.kubectl(), south.member.kubectl()] {
        kubectl.apply(DEFINITION);
        kubectl.await_established(DEFINITION_NAME);
    }
    for site in [north, south] {
        let path = format!("/apis/cluster.karmada.io/v1alpha1/clusters/{}", site.name);
        await_object(hub, "the hub", &path, |cluster| {
            let served =
                cluster.pointer("/status/apiEnablements").and_then(Value::as_array).into_iter().flatten();
            let group = |group: &Value| group["groupVersion"] == "apps.kruise.io/v1alpha1";
            so(served.into_iter().any(group), || cluster["status"]["apiEnablements"].to_string())
        });
    }
    kubectl.apply(CLONES);

    // Its replicas are known, and so are their requests; each member gets its share, and what the pods refer to.
    let binding = await_object(hub, "the hub", BINDING, |binding| {
        let clusters = binding.pointer("/spec/clusters").and_then(Value::as_array).map_or(0, Vec::len);
        so(clusters == 2, || binding.to_string())
    });
    assert_eq!(binding["spec"]["replicas"], 6);
    assert_eq!(binding["spec"]["replicaRequirements"]["resourceRequest"]["cpu"], "10m");
    for (site, replicas) in [(north, 4), (south, 2)] {
        site.await_object(PATH, |object| has(object, "/spec/replicas", &json!(replicas)));
        site.await_object(SETTINGS, |settings| has(settings, "/data/a", &json!("b")));
    }

    // What the members say is summed, and told of the template as all have it.
    say(north, 4, 4);
    say(south, 2, 1);
    let told = await_object(hub, "the hub", PATH, |object| {
        has(object, "/status/replicas", &json!(6))?;
        has(object, "/status/readyReplicas", &json!(5))?;
        has(object, "/status/observedGeneration", &object["metadata"]["generation"])
    });
    assert_eq!(told["status"]["labelSelector"], "app=web");
    assert_eq!(told["status"]["collisionCount"], Value::Null, "it is no part of what is reported");
    let stands = |south: &str| {
        let wanted =
            [("north", "Healthy"), ("south", south)].map(|(name, is)| (name.to_owned(), is.to_owned()));
        await_object(hub, "the hub", BINDING, |binding| {
            so(health(binding) == wanted, || binding["status"].to_string())
        });
    };
    stands("Unhealthy");
    say(south, 2, 2);
    stands("Healthy");
    await_object(hub, "the hub", PATH, |object| has(object, "/status/readyReplicas", &json!(6)));

    // A template that changed is not told as seen before each member has seen it.
    kubectl.ok(&["patch", "cloneset", "web", "--type=merge", "-p", r#"{"spec":{"minReadySeconds":5}}"#]);
    for site in [north, south] {
        site.await_object(PATH, |object| has(object, "/spec/minReadySeconds", &json!(5)));
    }
    say(north, 4, 3);
    let waits = await_object(hub, "the hub", PATH, |object| has(object, "/status/readyReplicas", &json!(5)));
    let generation = |object: &Value| object["metadata"]["generation"].as_i64();
    assert!(waits["status"]["observedGeneration"].as_i64() < generation(&waits), "{waits}");
    say(south, 2, 2);
    await_object(hub, "the hub", PATH, |object| {
        has(object, "/status/observedGeneration", &object["metadata"]["generation"])
    });

    fleet.remove_namespace(NAMESPACE);
    for kubectl in [fleet.hub.kubectl(), north.member.kubectl(), south.member.kubectl()] {
        kubectl.ok(&["delete", "crd", DEFINITION_NAME]);
    }
}
