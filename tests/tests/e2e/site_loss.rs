//! Sites that are lost: with the presets of `deploy/presets`, their workloads go to those that are left, then to the standby, and return.

use serde_json::{Value, json};
use tests::api::condition;
use tests::folder::workspace_root;
use tests::wait::{eventually, so};

use crate::fleet::{Fleet, SILENCE, Site, get};
use crate::policy_fleet::{
    alone, apply, await_placed, await_replicas, await_runs, cluster, deployment, deployment_path, leave,
    places,
};

const NAMESPACE: &str = "site-loss";
const WEB: (&str, &str) = (NAMESPACE, "web");
const DB: (&str, &str) = (NAMESPACE, "db");

/// A preset with shorter times, as it is otherwise.
fn preset(name: &str, times: &[(&str, &str)]) -> String {
    let file = workspace_root().join(format!("deploy/presets/{name}.yaml"));
    let mut text = std::fs::read_to_string(file).unwrap();
    for (long, short) in times {
        assert!(text.contains(long), "{name} does not say {long}");
        text = text.replace(long, short);
    }
    text
}

/// A Deployment that a preset takes.
fn of_preset(name: &str, preset: &str, replicas: u32) -> Value {
    let mut object = deployment(NAMESPACE, name, replicas);
    object["metadata"]["labels"]["preset"] = json!(preset);
    object
}

/// Waits until the hub has lost a site: nobody hears it, its workloads are to leave it, and a Remedy says what else is to be done.
#[track_caller]
fn await_lost(fleet: &Fleet, name: &str) {
    eventually(&format!("{name} lost"), SILENCE, || {
        let cluster = get(fleet.hub.api(), &cluster(name))?;
        let taints = cluster["spec"]["taints"].as_array().cloned().unwrap_or_default();
        let mut effects: Vec<&str> = taints
            .iter()
            .filter(|taint| taint["key"] == "cluster.karmada.io/unreachable")
            .filter_map(|taint| taint["effect"].as_str())
            .collect();
        effects.sort_unstable();
        let is_lost = condition(&cluster, "Ready") == "Unknown" && effects == ["NoExecute", "NoSchedule"];
        so(is_lost && remedies(&cluster) == json!(["TrafficControl"]), || cluster.to_string())
    });
}

fn remedies(cluster: &Value) -> Value {
    cluster["status"]["remedyActions"].clone()
}

fn uid(site: &Site, of: (&str, &str)) -> Value {
    get(site.api(), &deployment_path(of.0, of.1)).unwrap()["metadata"]["uid"].clone()
}

/// The hub's policies, and who is near, far, first and second.
fn set_up(fleet: &Fleet) {
    let kubectl = fleet.hub.kubectl();
    kubectl.apply(&preset("lost-sites", &[]));
    let times =
        [("tolerationSeconds: 60", "tolerationSeconds: 1"), ("failback-after: 10m", "failback-after: 10s")];
    kubectl.apply(&preset("two-cities-three-centres", &times));
    kubectl.apply(&preset("remote-standby", &times));
    let when = json!({"clusterConditionMatch": {"conditionType": "Ready", "operator": "NotEqual", "conditionStatus": "True"}});
    apply(
        fleet,
        &[
            &json!({"apiVersion": "remedy.karmada.io/v1alpha1", "kind": "Remedy", "metadata": {"name": "site-loss"},
        "spec": {"decisionMatches": [when], "actions": ["TrafficControl"]}}),
        ],
    );
    for (site, city, role) in
        [("near-1", "near", "primary"), ("near-2", "near", "none"), ("far", "far", "standby")]
    {
        let labels = [format!("city={city}"), format!("role={role}")];
        kubectl.ok(&["label", "cluster", site, &labels[0], &labels[1], "--overwrite"]);
    }
}

fn clean_up(fleet: &Fleet) {
    leave(fleet, NAMESPACE);
    let kubectl = fleet.hub.kubectl();
    kubectl.ok(&[
        "delete",
        "clusterpropagationpolicies",
        "preset-two-cities-three-centres",
        "preset-remote-standby",
    ]);
    kubectl.ok(&[
        "delete",
        "clustertaintpolicies",
        "preset-unreachable-sites",
        "preset-sites-that-are-not-ready",
    ]);
    kubectl.ok(&["delete", "remedy", "site-loss"]);
    for site in ["near-1", "near-2", "far"] {
        kubectl.ok(&["label", "cluster", site, "city-", "role-"]);
    }
}

#[test]
fn a_standby_takes_over_when_no_active_site_is_left_and_gives_back() {
    let Some(mut fleet) = alone() else { return };
    fleet.namespace(NAMESPACE);
    set_up(&fleet);
    apply(&fleet, &[&of_preset("web", "two-cities-three-centres", 6), &of_preset("db", "remote-standby", 2)]);
    await_runs(&fleet, WEB, &places(&[("near-1", 3), ("near-2", 3)]));
    await_runs(&fleet, DB, &places(&[("near-1", 2)]));
    let before = uid(fleet.site("near-1"), DB);

    fleet.site_mut("near-1").agent.kill();
    await_lost(&fleet, "near-1");
    await_placed(&fleet, WEB, &places(&[("near-2", 6)]));
    await_placed(&fleet, DB, &places(&[("far", 2)]));
    for (site, web, db) in [("near-2", 6, 0), ("far", 0, 2), ("spare", 0, 0)] {
        await_replicas(fleet.site(site), WEB, web);
        await_replicas(fleet.site(site), DB, db);
    }
    // Nobody could tell it: what it ran, it runs.
    await_replicas(fleet.site("near-1"), WEB, 3);
    await_replicas(fleet.site("near-1"), DB, 2);

    fleet.site_mut("near-2").agent.kill();
    await_lost(&fleet, "near-2");
    await_placed(&fleet, WEB, &places(&[("far", 6)]));
    await_replicas(fleet.site("far"), WEB, 6);
    await_replicas(fleet.site("spare"), WEB, 0);
    let kubectl = fleet.hub.kubectl().in_namespace(NAMESPACE);
    let group = ["resourcebinding", "web-deployment"];
    assert_eq!(kubectl.field(&group, "{.status.schedulerObservingAffinityName}"), "far");

    for name in ["near-1", "near-2"] {
        fleet.site_mut(name).agent.start_again();
    }
    for name in ["near-1", "near-2"] {
        fleet.site(name).await_ready(&fleet.hub);
    }
    await_runs(&fleet, WEB, &places(&[("near-1", 3), ("near-2", 3)]));
    await_runs(&fleet, DB, &places(&[("near-1", 2)]));
    assert_ne!(uid(fleet.site("near-1"), DB), before, "what had left it was removed, and came anew");
    assert_eq!(kubectl.field(&group, "{.status.schedulerObservingAffinityName}"), "near");
    let returns = ["events", "--field-selector", "reason=Failback,involvedObject.kind=Deployment"];
    let words = kubectl.field(&returns, "{.items[*].message}");
    assert!(words.contains("Returns from far to near-1, near-2, which its policy prefers."), "{words}");
    for site in &fleet.sites {
        assert_eq!(remedies(&site.cluster(&fleet.hub).unwrap()), Value::Null, "{} is well", site.name);
    }
    clean_up(&fleet);
}
