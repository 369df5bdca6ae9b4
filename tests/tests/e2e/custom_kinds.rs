//! Kinds that users bring to the hub: propagated like any other, to sites that serve them, and cleared away with their
//! namespace and their definition.

use serde_json::{Value, json};
use tests::wait::so;

use crate::fleet::{alone, await_gone, await_object, await_targets, custom_kind, has};

fn definition() -> String {
    custom_kind("brought.example.com", ("widgets", "Widget"), "size: {type: integer, default: 3}")
}

const WIDGET: &str = "
apiVersion: brought.example.com/v1
kind: Widget
metadata: {name: wheel}
spec: {}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: widgets}
spec:
  resourceSelectors: [{apiVersion: brought.example.com/v1, kind: Widget}]
  placement: {clusterAffinity: {clusterNames: [north, south]}}
";

const PATH: &str = "/apis/brought.example.com/v1/namespaces/brought/widgets/wheel";
const BINDING: &str = "/apis/work.karmada.io/v1alpha2/namespaces/brought/resourcebindings/wheel-widget";
const WIDGETS: &str = "widgets.brought.example.com";

#[test]
fn a_kind_that_a_user_brings_goes_where_it_is_served() {
    let Some(fleet) = alone() else { return };
    let kubectl = fleet.namespace("brought");
    kubectl.apply(&definition());
    kubectl.await_established(WIDGETS);
    let north = &fleet.site("north").member;
    north.kubectl().apply(&definition());
    north.kubectl().await_established(WIDGETS);
    kubectl.apply(WIDGET);
    // Only where the kind is served.
    await_targets(&fleet, BINDING, &["north"]);
    fleet.site("north").await_object(PATH, |object| has(object, "/spec/size", &json!(3)));
    let south = &fleet.site("south").member;
    south.kubectl().apply(&definition());
    await_targets(&fleet, BINDING, &["north", "south"]);
    fleet.site("south").await_object(PATH, |object| has(object, "/spec/size", &json!(3)));

    // A change arrives, and each member's status comes back.
    kubectl.ok(&["patch", "widget", "wheel", "--type=merge", "-p", r#"{"spec":{"size":5}}"#]);
    fleet.site("south").await_object(PATH, |object| has(object, "/spec/size", &json!(5)));
    let status = r#"{"status":{"turning":true}}"#;
    let member = north.kubectl().in_namespace("brought");
    member.ok(&["patch", "widget", "wheel", "--subresource=status", "--type=merge", "-p", status]);
    await_object(fleet.hub.api(), "the hub", BINDING, |binding| {
        let items = binding.pointer("/status/aggregatedStatus").and_then(Value::as_array);
        let told = items.into_iter().flatten().find(|item| item["clusterName"] == "north");
        let turning = told.is_some_and(|item| item["status"]["turning"] == true);
        so(turning, || binding["status"].to_string())
    });

    // With its definition go the instances, on the hub and, through their bindings, in the members.
    kubectl.ok(&["delete", "crd", "widgets.brought.example.com", "--timeout=60s"]);
    await_gone(fleet.hub.api(), "the hub", BINDING);
    fleet.site("north").await_gone(PATH);
    fleet.site("south").await_gone(PATH);

    // A namespace takes the objects of such kinds along as well.
    kubectl.apply(&definition());
    kubectl.await_established(WIDGETS);
    kubectl.apply(WIDGET);
    fleet.site("north").await_object(PATH, |_| Ok(()));
    fleet.remove_namespace("brought");
    await_gone(fleet.hub.api(), "the hub", PATH);
    fleet.site("north").await_gone(PATH);
    for member in [north, south] {
        member.kubectl().ok(&["delete", "crd", "widgets.brought.example.com"]);
    }
    fleet.hub.kubectl().ok(&["delete", "crd", "widgets.brought.example.com"]);
}
