//! Customizations at the sites: what a script says of a kind is reported from there, and what it retains stays there.

use tests::api::text_at;
use tests::wait::{TIMEOUT, eventually, so};

use crate::fleet::shared;

const NAMESPACE: &str = "customized";

fn customization(health: &str) -> String {
    format!(
        r#"apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterCustomization
metadata: {{name: limit-ranges}}
spec:
  target: {{apiVersion: v1, kind: LimitRange}}
  customizations:
    statusReflection:
      luaScript: |
        function ReflectStatus(observedObj)
          return {{kinds = #observedObj.spec.limits, max = observedObj.spec.limits[1].max.cpu}}
        end
    healthInterpretation:
      luaScript: |
        function InterpretHealth(observedObj)
          return {health}
        end
    retention:
      luaScript: |
        function Retain(desiredObj, observedObj)
          desiredObj.spec.limits = observedObj.spec.limits
          return desiredObj
        end
"#
    )
}

#[test]
fn scripts_are_asked_at_the_sites() {
    let Some(fleet) = shared() else { return };
    let kubectl = fleet.namespace(NAMESPACE);
    kubectl.apply(&format!(
        r#"apiVersion: v1
kind: LimitRange
metadata: {{name: small, namespace: {NAMESPACE}}}
spec:
  limits:
  - {{type: Container, max: {{cpu: "1"}}}}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {{name: small, namespace: {NAMESPACE}}}
spec:
  resourceSelectors:
  - {{apiVersion: v1, kind: LimitRange}}
  placement: {{clusterAffinity: {{clusterNames: [north, south]}}}}
"#
    ));
    let binding =
        format!("/apis/work.karmada.io/v1alpha2/namespaces/{NAMESPACE}/resourcebindings/small-limitrange");
    let says = |what: &str, health: &str, max: &str| {
        eventually(what, TIMEOUT, || {
            let binding =
                fleet.hub.api().get(&binding).map_err(|error| error.to_string())?.unwrap_or_default();
            let items = binding["status"]["aggregatedStatus"].as_array().cloned().unwrap_or_default();
            let is = |item: &serde_json::Value| {
                text_at(item, "/health") == health && text_at(item, "/status/max") == max
            };
            so(items.len() == 2 && items.iter().all(is), || binding["status"].to_string())
        });
    };
    says("without a script it has no status", "Healthy", "");
    kubectl.apply(&customization("observedObj.spec.limits[1].max.cpu == '1'"));
    says("what was there is read by the scripts", "Healthy", "1");
    // What the site changes is retained, and reported.
    for site in ["north", "south"] {
        let member = fleet.site(site).member.kubectl().in_namespace(NAMESPACE);
        let patch = r#"{"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}}]}}"#;
        member.ok(&["patch", "limitrange", "small", "--type=merge", "-p", patch]);
    }
    says("the change is reported", "Unhealthy", "2");
    kubectl.ok(&["label", "limitrange", "small", "again=yes"]);
    for site in ["north", "south"] {
        let member = fleet.site(site).member.kubectl().in_namespace(NAMESPACE);
        member.wait_for_field(&["limitrange", "small"], "{.metadata.labels.again}", "yes", TIMEOUT);
        assert_eq!(member.field(&["limitrange", "small"], "{.spec.limits[0].max.cpu}"), "2", "{site}");
    }
    // A changed script takes effect at once, and without it things are as before.
    kubectl.apply(&customization("true"));
    says("the new script is asked", "Healthy", "2");
    // One that fails is told where its author looks: by the Work of each site, and by the template.
    kubectl.apply(&customization("observedObj.status.none.at"));
    says("nobody can say", "Unknown", "2");
    let fails = |kubectl: &tests::kubectl::Kubectl, what: &str| {
        eventually(&format!("{what} tells of it"), TIMEOUT, || {
            let told = kubectl
                .field(&["events", "--field-selector=reason=InterpretHealthFailed"], "{.items[*].message}");
            let words = "the InterpretHealth script of ResourceInterpreterCustomization limit-ranges: ";
            so(told.contains(words), || told)
        });
    };
    fails(&kubectl, "the template");
    fails(&kubectl.in_namespace("karmada-es-north"), "the Work");
    kubectl.ok(&["delete", "resourceinterpretercustomization", "limit-ranges"]);
    says("without the script it is as before", "Healthy", "");
    for site in ["north", "south"] {
        let member = fleet.site(site).member.kubectl().in_namespace(NAMESPACE);
        member.wait_for_field(&["limitrange", "small"], "{.spec.limits[0].max.cpu}", "1", TIMEOUT);
    }
    fleet.remove_namespace(NAMESPACE);
}
