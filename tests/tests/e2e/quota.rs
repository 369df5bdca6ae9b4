//! A namespace's quota over the fleet: what each site may use of it arrives there, and no more is placed than it allows in all.

use serde_json::json;
use tests::hub::HubOptions;
use tests::wait::{TIMEOUT, eventually, so};

use crate::fleet::{await_gone, await_object, has};
use crate::private_site::Line;

const QUOTA: &str = "
apiVersion: policy.karmada.io/v1alpha1
kind: FederatedResourceQuota
metadata: {name: team, namespace: default}
spec:
  overall: {cpu: \"4\"}
  staticAssignments: [{clusterName: lone, hard: {cpu: \"3\"}}]
";

const WORKLOADS: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: small, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {app: small}}
  template:
    metadata: {labels: {app: small}}
    spec:
      containers: [{name: main, image: nginx, resources: {requests: {cpu: \"1\"}}}]
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: all, namespace: default}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment}]
  placement: {}
";

const LARGE: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: large, namespace: default}
spec:
  replicas: 3
  selector: {matchLabels: {app: large}}
  template:
    metadata: {labels: {app: large}}
    spec:
      containers: [{name: main, image: nginx, resources: {requests: {cpu: \"1\"}}}]
";

const THERE: &str = "/api/v1/namespaces/default/resourcequotas/team";

#[test]
fn no_more_is_placed_than_a_quota_allows_and_each_site_has_its_part() {
    let args = vec!["--feature-gates=FederatedQuotaEnforcement=true".to_owned()];
    let Some(line) = Line::under(HubOptions { args, ..HubOptions::default() }) else { return };
    let (hub, member) = (line.hub.kubectl(), line.member.api());
    hub.apply(QUOTA);
    await_object(member, "the member", THERE, |quota| has(quota, "/spec/hard/cpu", &json!("3")));
    hub.apply(WORKLOADS);
    let quota = ["federatedresourcequota", "team", "-n", "default"];
    eventually("what is used is told", TIMEOUT, || {
        let used = hub.field(&quota, "{.status.overallUsed.cpu}");
        so(used == "2", || used.clone())
    });
    hub.apply(LARGE);
    let binding = ["resourcebinding", "large-deployment", "-n", "default"];
    eventually("it is held", TIMEOUT, || {
        let reason = hub.field(&binding, "{.status.conditions[?(@.type=='Scheduled')].reason}");
        so(reason == "QuotaExceeded", || reason.clone())
    });
    assert_eq!(hub.field(&binding, "{.spec.clusters}"), "");
    let more = r#"{"spec":{"overall":{"cpu":"5"}}}"#;
    hub.ok(&["patch", "federatedresourcequota", "team", "-n", "default", "--type=merge", "-p", more]);
    eventually("it goes once there is room", TIMEOUT, || {
        let placed = hub.field(&binding, "{.spec.clusters[0].name}");
        so(placed == "lone", || placed.clone())
    });
    hub.ok(&["delete", "federatedresourcequota", "team", "-n", "default"]);
    await_gone(member, "the member", THERE);
}
