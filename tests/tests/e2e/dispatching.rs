//! What is placed and not sent: suspended policies, for all clusters and for some; and what stays in the members when its template goes.

use std::time::Duration;

use serde_json::{Value, json};
use tests::wait::{so, throughout};

use crate::fleet::{Fleet, get, has};
use crate::policy_fleet::{
    apply, await_placed, await_replicas, await_runs, binding, deployment, deployment_path, in_clusters,
    leave, places, policy, shared,
};

const A_WHILE: Duration = Duration::from_secs(2);

/// The Works of a Deployment, by their sites, and whether each is held back.
fn held(fleet: &Fleet, name: &str) -> Value {
    let held = |site: &str| {
        let works = format!("/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-{site}/works");
        let works = fleet.hub.api().list(&works).unwrap();
        let of_it =
            |work: &&Value| work.pointer("/spec/workload/manifests/0/metadata/name") == Some(&json!(name));
        works.iter().find(of_it).map(|work| work["spec"]["suspendDispatching"] == true)
    };
    json!([held("near-1"), held("far")])
}

#[test]
fn what_is_suspended_is_placed_and_sent_to_nobody_until_it_is_not() {
    let Some(fleet) = shared() else { return };
    const NS: &str = "suspended";
    const WEB: (&str, &str) = (NS, "held-back");
    fleet.namespace(NS);
    let suspended = |how: Value| {
        let mut policy = policy(NS, WEB.1, in_clusters(&["near-1", "far"]));
        policy["spec"]["suspension"] = how;
        policy
    };
    let all = places(&[("near-1", 2), ("far", 2)]);
    apply(&fleet, &[&deployment(NS, WEB.1, 2), &suspended(json!({"dispatching": true}))]);
    await_placed(&fleet, WEB, &all);
    tests::wait::eventually("Works that are held back", tests::wait::TIMEOUT, || {
        let seen = held(&fleet, WEB.1);
        so(seen == json!([true, true]), || seen.to_string())
    });
    throughout("nothing is sent", A_WHILE, || {
        let there = fleet.sites.iter().find(|site| get(site.api(), &deployment_path(NS, WEB.1)).is_ok());
        so(there.is_none(), || format!("{:?}", there.map(|site| site.name)))
    });
    apply(&fleet, &[&suspended(Value::Null)]);
    await_runs(&fleet, WEB, &all);
    assert_eq!(held(&fleet, WEB.1), json!([false, false]));

    // One site is left as it is, also where somebody changes what is there: nobody corrects it.
    let one = json!({"dispatchingOnClusters": {"clusterNames": ["far"]}});
    apply(&fleet, &[&suspended(one)]);
    tests::wait::eventually("far held back", tests::wait::TIMEOUT, || {
        let seen = held(&fleet, WEB.1);
        so(seen == json!([false, true]), || seen.to_string())
    });
    apply(&fleet, &[&deployment(NS, WEB.1, 3)]);
    await_placed(&fleet, WEB, &places(&[("near-1", 3), ("far", 3)]));
    await_replicas(fleet.site("near-1"), WEB, 3);
    throughout("far is left", A_WHILE, || {
        has(&get(fleet.site("far").api(), &deployment_path(NS, WEB.1))?, "/spec/replicas", &json!(2))
    });
    await_replicas(fleet.site("far"), WEB, 2);
    apply(&fleet, &[&suspended(Value::Null)]);
    await_runs(&fleet, WEB, &places(&[("near-1", 3), ("far", 3)]));
    leave(&fleet, NS);
}

#[test]
fn what_is_to_be_preserved_runs_on_without_its_template() {
    let Some(fleet) = shared() else { return };
    const NS: &str = "preserved";
    let kubectl = fleet.namespace(NS);
    let preserving = |name: &str, preserve: bool| {
        let mut policy = policy(NS, name, in_clusters(&["near-1"]));
        policy["spec"]["preserveResourcesOnDeletion"] = json!(preserve);
        policy
    };
    let near = fleet.site("near-1");
    for (name, preserve) in [("kept", true), ("taken", false)] {
        apply(&fleet, &[&deployment(NS, name, 2), &preserving(name, preserve)]);
        await_runs(&fleet, (NS, name), &places(&[("near-1", 2)]));
    }
    let uid = |name: &str| get(near.api(), &deployment_path(NS, name)).unwrap()["metadata"]["uid"].clone();
    let before = uid("kept");
    kubectl.ok(&["delete", "deployment", "kept", "taken"]);
    await_replicas(near, (NS, "taken"), 0);
    for name in ["kept", "taken"] {
        crate::fleet::await_gone(fleet.hub.api(), "the hub", &binding(NS, name));
    }
    // It is nobody's now: without the hub's marks but for that which says of what it was, and what is changed there stays changed.
    let kept = near.await_object(&deployment_path(NS, "kept"), |kept| {
        let mut marks = kept["metadata"]["annotations"].clone();
        marks.as_object_mut().and_then(|marks| marks.remove("edge.karmada.io/kept-from"));
        let marks = json!([kept["metadata"]["labels"], marks]).to_string();
        so(!marks.contains("karmada"), || marks)
    });
    assert_eq!(kept["metadata"]["uid"], before);
    await_replicas(near, (NS, "kept"), 2);
    near.member.kubectl().in_namespace(NS).ok(&["scale", "deployment/kept", "--replicas=3"]);
    await_replicas(near, (NS, "kept"), 3);
    // Made again, it is the same one, taken over where that is allowed.
    let mut over = preserving("kept", false);
    over["spec"]["conflictResolution"] = json!("Overwrite");
    apply(&fleet, &[&deployment(NS, "kept", 2), &over]);
    await_runs(&fleet, (NS, "kept"), &places(&[("near-1", 2)]));
    assert_eq!(uid("kept"), before);
    leave(&fleet, NS);
}
