//! Workloads whose members decide how many replicas they have: what a propagated HorizontalPodAutoscaler scales is marked, and left as its members scale
//! it; a divided Deployment says how many its members have in all.

use std::time::Duration;

use karmada_api::strings::labels::RETAIN_REPLICAS;
use serde_json::{Value, json};
use tests::api::text_at;
use tests::wait::{TIMEOUT, eventually, so, throughout};

use crate::fleet::{Fleet, Site, await_object, get, has};
use crate::policy_fleet::{
    apply, await_replicas, await_runs, by_weights, deployment, deployment_path, in_clusters, leave, places,
    policy, shared,
};

/// As long as it takes an agent to put back what drifted, and some.
const A_WHILE: Duration = Duration::from_secs(5);

/// A Deployment of the hub bears the mark by which its members' replicas stay, or does not.
#[track_caller]
fn await_mark(fleet: &Fleet, (namespace, name): (&str, &str), marked: bool) {
    eventually(&format!("{name} marked: {marked}"), TIMEOUT, || {
        let template = get(fleet.hub.api(), &deployment_path(namespace, name))?;
        let is_marked = template["metadata"]["labels"][RETAIN_REPLICAS] == "true";
        so(is_marked == marked, || template["metadata"].to_string())
    });
}

/// Scales a Deployment in its member, as that one's autoscaler would.
fn scale(site: &Site, (namespace, name): (&str, &str), replicas: u64) {
    let kubectl = site.member.kubectl().in_namespace(namespace);
    kubectl.ok(&["scale", "deployment", name, &format!("--replicas={replicas}")]);
}

#[test]
fn what_a_propagated_autoscaler_scales_is_left_to_its_members() {
    let Some(fleet) = shared() else { return };
    const WEB: (&str, &str) = ("autoscaled", "web");
    let kubectl = fleet.namespace(WEB.0);
    let (one, two) = ("near-1", "near-2");
    apply(&fleet, &[&deployment(WEB.0, WEB.1, 2), &policy(WEB.0, WEB.1, in_clusters(&[one, two]))]);
    await_runs(&fleet, WEB, &places(&[(one, 2), (two, 2)]));
    await_mark(&fleet, WEB, false);
    // It has no metrics to go by, and scales nothing itself.
    let autoscaler = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": WEB.1, "namespace": WEB.0}, "spec": {"minReplicas": 1, "maxReplicas": 9,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": WEB.1}}});
    let mut places_it = policy(WEB.0, "autoscaler", in_clusters(&[one, two]));
    places_it["spec"]["resourceSelectors"] =
        json!([{"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "name": WEB.1}]);
    apply(&fleet, &[&autoscaler, &places_it]);
    await_mark(&fleet, WEB, true);
    let marked =
        |object: &Value| so(object["metadata"]["labels"][RETAIN_REPLICAS] == "true", || object.to_string());
    fleet.site(one).await_object(&deployment_path(WEB.0, WEB.1), marked);
    scale(fleet.site(one), WEB, 3);
    await_replicas(fleet.site(one), WEB, 3);
    // What the hub says otherwise arrives, and its replicas do not.
    let image =
        r#"[{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "nginx:2"}]"#;
    kubectl.ok(&["patch", "deployment", WEB.1, "--type=json", "-p", image]);
    let newer = |object: &Value| has(object, "/spec/template/spec/containers/0/image", &json!("nginx:2"));
    fleet.site(one).await_object(&deployment_path(WEB.0, WEB.1), newer);
    await_replicas(fleet.site(one), WEB, 3);
    await_replicas(fleet.site(two), WEB, 2);
    // Without the autoscaler the hub's number holds again.
    kubectl.ok(&["delete", "hpa", WEB.1]);
    await_mark(&fleet, WEB, false);
    await_replicas(fleet.site(one), WEB, 2);
    leave(&fleet, WEB.0);
}

#[test]
fn a_divided_deployment_says_how_many_replicas_its_members_have() {
    let Some(fleet) = shared() else { return };
    const WEB: (&str, &str) = ("counted", "web");
    let kubectl = fleet.namespace(WEB.0);
    let (one, two) = ("near-1", "near-2");
    let mut template = deployment(WEB.0, WEB.1, 4);
    template["metadata"]["labels"][RETAIN_REPLICAS] = json!("true");
    let divided = by_weights(&[(one, 1), (two, 1)]);
    apply(&fleet, &[&template, &policy(WEB.0, WEB.1, divided)]);
    await_runs(&fleet, WEB, &places(&[(one, 2), (two, 2)]));
    scale(fleet.site(one), WEB, 4);
    kubectl.wait_for_field(&["deployment", WEB.1], "{.spec.replicas}", "6", TIMEOUT);
    await_replicas(fleet.site(one), WEB, 4);
    scale(fleet.site(two), WEB, 1);
    kubectl.wait_for_field(&["deployment", WEB.1], "{.spec.replicas}", "5", TIMEOUT);
    // However the hub divides that, the members keep what they decided, and nothing moves any more.
    let path = deployment_path(WEB.0, WEB.1);
    await_object(fleet.hub.api(), "the hub", &path, |template| has(template, "/status/replicas", &json!(5)));
    throughout("it rests", A_WHILE, || {
        let said = |api: &tests::api::Api| {
            get(api, &path).map(|object| object["spec"]["replicas"].as_u64().unwrap_or(0))
        };
        let all = [
            said(fleet.hub.api())?,
            said(fleet.site(one).member.api())?,
            said(fleet.site(two).member.api())?,
        ];
        so(all == [5, 4, 1], || format!("{all:?}"))
    });
    let template = get(fleet.hub.api(), &path).unwrap();
    assert_eq!(text_at(&template, "/metadata/name"), WEB.1);
    leave(&fleet, WEB.0);
}
