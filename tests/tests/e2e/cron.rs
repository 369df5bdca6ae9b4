//! Scaling by the clock: a workload's replicas arrive in the member, and whatever else has a scale, or bounds, is set as well.

use std::time::Duration;

use serde_json::json;
use tests::wait::{eventually, so};

use crate::fleet::{await_object, has, shared};

const DEFINITION: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: lamps.lit.example.com}
spec:
  group: lit.example.com
  scope: Namespaced
  names: {plural: lamps, kind: Lamp}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {scale: {specReplicasPath: .spec.bulbs, statusReplicasPath: .status.bulbs}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {bulbs: {type: integer}}}
          status: {type: object, properties: {bulbs: {type: integer}}}
";

const TARGETS: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: nginx}]}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: web}]
  placement: {clusterAffinity: {clusterNames: [north]}}
---
apiVersion: lit.example.com/v1
kind: Lamp
metadata: {name: porch}
spec: {bulbs: 1}
---
apiVersion: autoscaling.karmada.io/v1alpha1
kind: FederatedHPA
metadata: {name: web}
spec: {minReplicas: 1, maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}
";

const CLOCKS: &str = "
apiVersion: autoscaling.karmada.io/v1alpha1
kind: CronFederatedHPA
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  rules:
  - {name: up, schedule: '* * * * *', targetReplicas: 3}
  - {name: rests, schedule: '* * * * *', targetReplicas: 9, suspend: true}
---
apiVersion: autoscaling.karmada.io/v1alpha1
kind: CronFederatedHPA
metadata: {name: porch}
spec:
  scaleTargetRef: {apiVersion: lit.example.com/v1, kind: Lamp, name: porch}
  rules: [{name: up, schedule: '* * * * *', timeZone: Asia/Kolkata, targetReplicas: 5}]
---
apiVersion: autoscaling.karmada.io/v1alpha1
kind: CronFederatedHPA
metadata: {name: bounds}
spec:
  scaleTargetRef: {apiVersion: autoscaling.karmada.io/v1alpha1, kind: FederatedHPA, name: web}
  rules: [{name: up, schedule: '* * * * *', targetMinReplicas: 2, targetMaxReplicas: 8}]
---
apiVersion: autoscaling.karmada.io/v1alpha1
kind: CronFederatedHPA
metadata: {name: gone}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: gone}
  rules: [{name: up, schedule: '* * * * *', targetReplicas: 3}]
";

const NEVER: &str = "
apiVersion: autoscaling.karmada.io/v1alpha1
kind: CronFederatedHPA
metadata: {name: never}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  rules: [{name: up, schedule: '0 0 31 2 *', targetReplicas: 3}]
";

const CRONS: &str = "/apis/autoscaling.karmada.io/v1alpha1/namespaces/clocked/cronfederatedhpas";
const ITSELF: &str = "/apis/apps/v1/namespaces/clocked/deployments/web";

/// A whole minute comes within a minute, and where a busy machine lets that pass, the next.
const A_MINUTE: Duration = Duration::from_secs(150);

#[test]
fn what_has_a_scale_or_bounds_is_scaled_by_the_clock() {
    let Some(fleet) = shared() else { return };
    let (kubectl, hub) = (fleet.namespace("clocked"), fleet.hub.api());
    kubectl.apply(DEFINITION);
    kubectl.await_established("lamps.lit.example.com");
    kubectl.apply(TARGETS);
    let refused = kubectl.with_manifests(&["apply"], NEVER).refused();
    assert!(refused.contains("spec.rules[0].schedule") && refused.contains("never comes"), "{refused}");
    let applied = kubectl.with_manifests(&["apply"], CLOCKS);
    assert!(!applied.stderr.contains("Warning"), "it acts: {applied}");
    applied.ok();
    let rests = await_object(hub, "the hub", &format!("{CRONS}/web"), |cron| {
        let next = cron.pointer("/status/executionHistories/0/nextExecutionTime");
        so(next.is_some(), || cron["status"].to_string())
    });
    assert_eq!(rests["status"]["executionHistories"][1], json!({"ruleName": "rests"}));

    eventually("the clock's minute", A_MINUTE, || {
        let replicas = kubectl.field(&["deployment", "web"], "{.spec.replicas}");
        so(replicas == "3", || replicas.clone())
    });
    fleet.site("north").await_object(ITSELF, |web| has(web, "/spec/replicas", &json!(3)));
    await_object(hub, "the hub", &format!("{CRONS}/web"), |cron| {
        has(cron, "/status/executionHistories/0/successfulExecutions/0/appliedReplicas", &json!(3))?;
        has(cron, "/status/executionHistories/1", &json!({"ruleName": "rests"}))
    });
    let porch = "/apis/lit.example.com/v1/namespaces/clocked/lamps/porch";
    await_object(hub, "the hub", porch, |lamp| has(lamp, "/spec/bulbs", &json!(5)));
    let bounded = "/apis/autoscaling.karmada.io/v1alpha1/namespaces/clocked/federatedhpas/web";
    await_object(hub, "the hub", bounded, |hpa| {
        has(hpa, "/spec/minReplicas", &json!(2))?;
        has(hpa, "/spec/maxReplicas", &json!(8))
    });
    await_object(hub, "the hub", &format!("{CRONS}/gone"), |cron| {
        let message = "/status/executionHistories/0/failedExecutions/0/message";
        has(cron, message, &json!("deployments.apps \"gone\" not found"))
    });
    eventually("the event", A_MINUTE, || {
        let reasons =
            kubectl.field(&["events", "--field-selector=involvedObject.name=gone"], "{.items[*].reason}");
        so(reasons.contains("ScaleFailed"), || reasons.clone())
    });
    fleet.remove_namespace("clocked");
    kubectl.ok(&["delete", "crd", "lamps.lit.example.com", "--timeout=60s"]);
}
