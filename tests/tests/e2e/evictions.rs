//! How workloads leave a cluster that is well enough to be told: cordoned and tainted by karmadactl, and unhealthy where they are; by purge mode, and
//! with what of their status goes along.

use serde_json::{Value, json};
use tests::wait::{TIMEOUT, eventually, so};

use crate::fleet::{Fleet, await_object, get, has};
use crate::policy_fleet::{
    alone, apply, await_placed, await_replicas, await_runs, binding, ctl, deployment, deployment_path,
    in_clusters, leave, places, policy,
};

/// Pods of this Deployment run on nodes with a label of the namespace's name alone.
fn on_labelled_nodes(of: (&str, &str)) -> Value {
    let mut deployment = deployment(of.0, of.1, 2);
    deployment["spec"]["template"]["spec"]["nodeSelector"] = json!({of.0: "yes"});
    deployment
}

/// Puts the label on a site's nodes, or takes it off.
fn label_nodes(fleet: &Fleet, site: &str, namespace: &str, on: bool) {
    let label = if on { format!("{namespace}=yes") } else { format!("{namespace}-") };
    fleet.site(site).member.kubectl().ok(&["label", "nodes", "--all", &label]);
}

/// In near-1, or else in far.
fn near_or_far(of: (&str, &str), spec: &[(&str, Value)]) -> Value {
    let group = |name: &str, cluster: &str| json!({"affinityName": name, "clusterNames": [cluster]});
    let groups = json!({"clusterAffinities": [group("first", "near-1"), group("second", "far")]});
    let mut policy = policy(of.0, of.1, groups);
    for (field, value) in spec {
        policy["spec"][field] = value.clone();
    }
    policy
}

/// The task by which a workload leaves near-1, once it does.
#[track_caller]
fn await_task(fleet: &Fleet, of: (&str, &str), wanted: &Value) {
    await_object(fleet.hub.api(), "the hub", &binding(of.0, of.1), |binding| {
        let task = &binding["spec"]["gracefulEvictionTasks"][0];
        let seen = json!([task["fromCluster"], task["reason"], task["purgeMode"], task["suppressDeletion"]]);
        so(seen == *wanted, || binding.to_string())
    });
}

#[test]
fn a_cordoned_cluster_keeps_what_it_has_and_gets_nothing_new() {
    let Some(fleet) = alone() else { return };
    const NS: &str = "cordoned";
    fleet.namespace(NS);
    let both = |name: &str| policy(NS, name, in_clusters(&["near-1", "near-2"]));
    let everywhere = places(&[("near-1", 1), ("near-2", 1)]);
    apply(&fleet, &[&deployment(NS, "old", 1), &both("old")]);
    await_runs(&fleet, (NS, "old"), &everywhere);
    assert_eq!(ctl(&fleet, &["cordon", "near-1"]), "near-1 cluster cordoned\n");
    apply(&fleet, &[&deployment(NS, "new", 1), &both("new")]);
    await_runs(&fleet, (NS, "new"), &places(&[("near-2", 1)]));
    await_runs(&fleet, (NS, "old"), &everywhere);
    assert_eq!(ctl(&fleet, &["uncordon", "near-1"]), "near-1 cluster uncordoned\n");
    await_runs(&fleet, (NS, "new"), &everywhere);
    leave(&fleet, NS);
}

#[test]
fn workloads_leave_a_tainted_cluster_as_their_policies_say() {
    let Some(fleet) = alone() else { return };
    const NS: &str = "tainted";
    fleet.namespace(NS);
    let of = |name: &'static str| (NS, name);
    let (slow, quick, firm) = (of("slow"), of("quick"), of("firm"));
    label_nodes(&fleet, "near-1", NS, true);
    let directly = ("failover", json!({"cluster": {"purgeMode": "Directly"}}));
    let bears = json!([{"key": "maintenance", "operator": "Exists", "effect": "NoExecute"}]);
    let mut firm_policy = near_or_far(firm, &[]);
    firm_policy["spec"]["placement"]["clusterTolerations"] = bears;
    for (name, policy) in
        [(slow, near_or_far(slow, &[])), (quick, near_or_far(quick, &[directly])), (firm, firm_policy)]
    {
        apply(&fleet, &[&on_labelled_nodes(name), &policy]);
        await_runs(&fleet, name, &places(&[("near-1", 2)]));
    }
    ctl(&fleet, &["taint", "clusters", "near-1", "maintenance=tonight:NoExecute"]);
    for name in [slow, quick] {
        await_placed(&fleet, name, &places(&[("far", 2)]));
    }
    // Nothing of either runs in far yet: no node there is theirs.
    let far = fleet.site("far");
    for name in [slow, quick] {
        far.await_object(&deployment_path(name.0, name.1), |there| {
            has(there, "/status/unavailableReplicas", &json!(2))
        });
    }
    await_replicas(fleet.site("near-1"), quick, 0);
    await_task(&fleet, slow, &json!(["near-1", "TaintUntolerated", "Gracefully", null]));
    await_replicas(fleet.site("near-1"), slow, 2);
    label_nodes(&fleet, "far", NS, true);
    for name in [slow, quick] {
        await_runs(&fleet, name, &places(&[("far", 2)]));
    }
    await_runs(&fleet, firm, &places(&[("near-1", 2)]));
    ctl(&fleet, &["taint", "clusters", "near-1", "maintenance:NoExecute-"]);
    let tasks = |name: (&str, &str)| {
        get(fleet.hub.api(), &binding(name.0, name.1)).unwrap()["spec"]["gracefulEvictionTasks"].clone()
    };
    eventually("all tasks to end", TIMEOUT, || {
        let left = [tasks(slow), tasks(quick)];
        so(left.iter().all(Value::is_null), || format!("{left:?}"))
    });
    for site in ["near-1", "far"] {
        label_nodes(&fleet, site, NS, false);
    }
    leave(&fleet, NS);
}

#[test]
fn an_unhealthy_workload_moves_and_takes_its_state_along() {
    let Some(fleet) = alone() else { return };
    const NS: &str = "unhealthy";
    const LABEL: &str = "failover.example.com/updated";
    fleet.namespace(NS);
    let (moved, kept) = ((NS, "moved"), (NS, "kept"));
    let failover = |purge: &str, state: Value| {
        (
            "failover",
            json!({"application": {"decisionConditions": {"tolerationSeconds": 2}, "purgeMode": purge, "statePreservation": state}}),
        )
    };
    let with_all = ("propagateDeps", json!(true));
    let state = json!({"rules": [{"aliasLabelName": LABEL, "jsonPath": "{.updatedReplicas}"}]});
    label_nodes(&fleet, "near-1", NS, true);
    for (of, rule) in [(moved, failover("Directly", state)), (kept, failover("Never", Value::Null))] {
        apply(&fleet, &[&on_labelled_nodes(of), &near_or_far(of, &[rule, with_all.clone()])]);
        await_runs(&fleet, of, &places(&[("near-1", 2)]));
    }
    // Nothing of it can run there any more, as somebody changed the nodes.
    label_nodes(&fleet, "near-1", NS, false);
    let near = fleet.site("near-1");
    near.member.kubectl().in_namespace(NS).ok(&["delete", "pods", "--all", "--wait=false"]);
    for of in [moved, kept] {
        await_placed(&fleet, of, &places(&[("far", 2)]));
    }
    await_task(&fleet, moved, &json!(["near-1", "ApplicationFailure", "Directly", null]));
    await_task(&fleet, kept, &json!(["near-1", "ApplicationFailure", "Never", true]));
    // What moved says in its next site what it was.
    let (far, path) = (fleet.site("far"), |of: (&str, &str)| deployment_path(of.0, of.1));
    far.await_object(&path(moved), |there| {
        so(there["metadata"]["labels"][LABEL] == "2", || there.to_string())
    });
    near.await_gone(&path(moved));
    far.await_object(&path(kept), |there| {
        so(there["metadata"]["labels"].get(LABEL).is_none(), || there.to_string())
    });
    label_nodes(&fleet, "far", NS, true);
    await_runs(&fleet, moved, &places(&[("far", 2)]));
    await_replicas(far, kept, 2);
    // What stays for a person to look at goes when that person says so.
    has(&get(near.api(), &path(kept)).unwrap(), "/status/unavailableReplicas", &json!(2)).unwrap();
    let bound = binding(NS, "kept");
    let mut tasks = get(fleet.hub.api(), &bound).unwrap()["spec"]["gracefulEvictionTasks"].clone();
    tasks[0]["suppressDeletion"] = json!(false);
    fleet.hub.api().merge(&bound, &json!({"spec": {"gracefulEvictionTasks": tasks}})).unwrap();
    await_runs(&fleet, kept, &places(&[("far", 2)]));
    label_nodes(&fleet, "far", NS, false);
    leave(&fleet, NS);
}
