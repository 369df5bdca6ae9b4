//! The walk-through that every Karmada tutorial shows, as one sequence on one nginx.

use serde_json::json;
use tests::wait::{TIMEOUT, eventually, so};

use crate::fleet::{Fleet, get, has, shared};

const NAMESPACE: &str = "tutorial";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/tutorial/deployments/nginx";

/// The Deployment of the tutorial.
fn nginx(replicas: u32) -> String {
    format!(
        "
apiVersion: apps/v1
kind: Deployment
metadata: {{name: nginx, labels: {{app: nginx}}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: nginx}}}}
  template:
    metadata: {{labels: {{app: nginx}}}}
    spec: {{containers: [{{name: nginx, image: nginx}}]}}
"
    )
}

/// A policy for it, with this placement.
fn policy(placement: &str) -> String {
    format!(
        "
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {{name: nginx-propagation}}
spec:
  resourceSelectors: [{{apiVersion: apps/v1, kind: Deployment, name: nginx}}]
  placement: {placement}
"
    )
}

/// Each site runs so many, and the others know nothing of it.
#[track_caller]
fn spread(fleet: &Fleet, replicas: &[(&str, u32)]) {
    for site in &fleet.sites {
        match replicas.iter().find(|(name, _)| *name == site.name) {
            Some((_, count)) => {
                site.await_object(DEPLOYMENT, |object| {
                    has(object, "/spec/replicas", &json!(count))?;
                    has(object, "/status/readyReplicas", &json!(count))
                });
            }
            None => {
                site.await_gone(DEPLOYMENT);
                eventually("no Pod is left", TIMEOUT, || {
                    let pods = site.member.running_pods(NAMESPACE).map_err(|error| format!("{error:#}"))?;
                    so(pods.is_empty(), || format!("{} still runs {pods:?}", site.name))
                });
            }
        }
    }
}

#[test]
fn the_tutorial_on_one_nginx() {
    let Some(fleet) = shared() else { return };
    let kubectl = fleet.namespace(NAMESPACE);
    kubectl.apply(&nginx(2));
    kubectl.apply(&policy("{clusterAffinity: {clusterNames: [north, south]}}"));
    kubectl.wait_for_field(&["deploy", "nginx"], "{.status.readyReplicas}", "4", TIMEOUT);
    spread(&fleet, &[("north", 2), ("south", 2)]);
    let works = "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-kind-east/works";
    let others = fleet.hub.api().list(works).unwrap();
    let of_nginx = |work: &&serde_json::Value| {
        work.pointer("/spec/workload/manifests/0/metadata/name") == Some(&json!("nginx"))
    };
    assert_eq!(others.iter().find(of_nginx), None);

    kubectl.apply(&policy("{clusterAffinity: {labelSelector: {matchLabels: {tier: none}}}}"));
    spread(&fleet, &[("kind-east", 2)]);
    kubectl.wait_for_field(&["deploy", "nginx"], "{.status.readyReplicas}", "2", TIMEOUT);

    kubectl.apply(&policy(
        "
    clusterAffinity: {clusterNames: [north, south]}
    replicaScheduling:
      replicaSchedulingType: Divided
      replicaDivisionPreference: Weighted
      weightPreference:
        staticWeightList:
        - {targetCluster: {clusterNames: [north]}, weight: 2}
        - {targetCluster: {clusterNames: [south]}, weight: 1}",
    ));
    kubectl.ok(&["scale", "deployment/nginx", "--replicas=6"]);
    kubectl.ok(&["rollout", "status", "deployment/nginx", "--timeout=60s"]);
    kubectl.ok(&["wait", "--for=condition=Available", "deployment/nginx", "--timeout=60s"]);
    spread(&fleet, &[("north", 4), ("south", 2)]);
    eventually("READY 6/6", TIMEOUT, || {
        let table = kubectl.ok(&["get", "deploy", "nginx"]);
        so(table.contains("6/6"), || table)
    });
    let template = get(fleet.hub.api(), DEPLOYMENT).unwrap();
    for field in ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"] {
        has(&template, &format!("/status/{field}"), &json!(6)).unwrap();
    }

    kubectl.ok(&["delete", "deployment", "nginx"]);
    spread(&fleet, &[]);
    fleet.remove_namespace(NAMESPACE);
}
