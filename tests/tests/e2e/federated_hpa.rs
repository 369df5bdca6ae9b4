//! Scaling by what Pods use: what a member's metrics server says of Pods there is asked for by the hub, and the workload follows.
//!
//! The members of the tests have no metrics server: one that serves the same objects from a CustomResourceDefinition stands for it.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tests::wait::{TIMEOUT, eventually, so};

use crate::fleet::{await_object, has, has_condition, shared};

const METRICS_SERVER: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: pods.metrics.k8s.io
  annotations: {api-approved.kubernetes.io: 'unapproved, for tests'}
spec:
  group: metrics.k8s.io
  scope: Namespaced
  names: {plural: pods, singular: podmetrics, kind: PodMetrics, listKind: PodMetricsList}
  versions:
  - name: v1beta1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";

const WORKLOAD: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: nginx, resources: {requests: {cpu: 100m}}}]}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: web}]
  placement:
    clusterAffinity: {clusterNames: [south]}
    replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted}
";

const AUTOSCALER: &str = "
apiVersion: autoscaling.karmada.io/v1alpha1
kind: FederatedHPA
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 1
  maxReplicas: 10
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]
";

const AUTOSCALED: &str = "/apis/autoscaling.karmada.io/v1alpha1/namespaces/measured/federatedhpas/web";
const ITSELF: &str = "/apis/apps/v1/namespaces/measured/deployments/web";
const MEASURES: &str = "/apis/metrics.k8s.io/v1beta1/namespaces/measured/pods";

/// Some looks of the autoscaler.
const LOOKS: Duration = Duration::from_secs(75);

#[test]
fn statement_75_a_workload_follows_what_its_pods_use_in_the_member() {
    let Some(fleet) = shared() else { return };
    let (kubectl, hub, south) = (fleet.namespace("measured"), fleet.hub.api(), fleet.site("south"));
    kubectl.apply(WORKLOAD);
    let mut pods = Vec::new();
    eventually("Pods run in the member", TIMEOUT, || {
        pods = south.member.running_pods("measured").map_err(|error| error.to_string())?;
        so(pods.len() == 2, || format!("{pods:?}"))
    });
    let applied = kubectl.with_manifests(&["apply"], AUTOSCALER);
    assert!(!applied.stderr.contains("Warning"), "it acts: {applied}");
    applied.ok();
    let silent = await_object(hub, "the hub", AUTOSCALED, |hpa| {
        has_condition(hpa, "ScalingActive", "False", "unable to get metrics for resource cpu")
    });
    let words = "south: the member does not serve metrics.k8s.io";
    has_condition(&silent, "ClustersMeasured", "False", words).unwrap();

    south.member.kubectl().apply(METRICS_SERVER);
    south.member.kubectl().await_established("pods.metrics.k8s.io");
    for pod in &pods {
        let measured = Timestamp::now() + SignedDuration::from_secs(5);
        let object = json!({"apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetrics",
            "metadata": {"name": pod, "namespace": "measured", "labels": {"app": "web"}},
            "timestamp": measured.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(), "window": "1s",
            "containers": [{"name": "main", "usage": {"cpu": "100m", "memory": "1Mi"}}]});
        south.api().create(MEASURES, &object).expect("it is stored");
    }
    eventually("it is scaled", LOOKS, || {
        let replicas = kubectl.field(&["deployment", "web"], "{.spec.replicas}");
        so(replicas == "4", || replicas.clone())
    });
    south.await_object(ITSELF, |web| has(web, "/spec/replicas", &json!(4)));
    await_object(hub, "the hub", AUTOSCALED, |hpa| {
        has(hpa, "/status/desiredReplicas", &json!(4))?;
        has(hpa, "/status/currentMetrics/0/resource/current/averageUtilization", &json!(100))?;
        has_condition(hpa, "ScalingActive", "True", "cpu resource utilization")?;
        has_condition(hpa, "ClustersMeasured", "True", "every cluster")
    });
    eventually("the event", LOOKS, || {
        let reasons = kubectl
            .field(&["events", "--field-selector=involvedObject.kind=FederatedHPA"], "{.items[*].reason}");
        so(reasons.contains("SuccessfulRescale"), || reasons.clone())
    });
    fleet.remove_namespace("measured");
    south.member.kubectl().ok(&["delete", "crd", "pods.metrics.k8s.io", "--timeout=60s"]);
}
