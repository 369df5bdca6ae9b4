//! Where workloads go: spread over regions and zones, groups with overflow, as few clusters as can be, together or apart, by expressions, and never
//! where a ResidencyRule forbids it. What karmadactl says before and after is what the members then run.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use tests::api::text_at;
use tests::wait::{TIMEOUT, so, throughout};

use crate::fleet::{Fleet, await_gone, await_object, get, has};
use crate::policy_fleet::{
    Places, apply, apply_as_predicted, asking, await_replicas, await_runs, await_unplaced, binding, cluster,
    deployment, explained, in_clusters, leave, placed, places, policy, predicted, shared,
};

/// All replicas in each of some clusters of this many groups.
fn spread(names: &[&str], by: &str, groups: u64, clusters: u64) -> Value {
    let mut placement = in_clusters(names);
    placement["spreadConstraints"] = json!([
        {"spreadByField": by, "minGroups": groups, "maxGroups": groups},
        {"spreadByField": "cluster", "minGroups": clusters, "maxGroups": clusters},
    ]);
    placement
}

/// What the chosen clusters say of themselves (`/spec/region`).
fn said(fleet: &Fleet, chosen: &Places, pointer: &str) -> BTreeSet<String> {
    let clusters = chosen.keys().map(|name| get(fleet.hub.api(), &cluster(name)).unwrap());
    clusters.map(|cluster| text_at(&cluster, pointer).to_owned()).collect()
}

/// Some choice of several that are right: that which karmadactl had told.
#[track_caller]
fn goes_where_it_is_told(fleet: &Fleet, of: (&str, &str), placement: Value) -> Places {
    let (template, policy) = (deployment(of.0, of.1, 2), policy(of.0, of.1, placement));
    let (told, review) = predicted(fleet, &[&template, &policy]);
    assert!(!told.is_empty(), "{review}");
    apply(fleet, &[&template, &policy]);
    await_runs(fleet, of, &told);
    assert_eq!(explained(fleet, of).0, told);
    told
}

#[test]
fn workloads_are_spread_over_regions_and_zones() {
    let Some(fleet) = shared() else { return };
    const NS: &str = "spread";
    fleet.namespace(NS);
    let three = ["near-1", "near-2", "far"];
    let regions = goes_where_it_is_told(&fleet, (NS, "regions"), spread(&three, "region", 2, 2));
    assert_eq!(said(&fleet, &regions, "/spec/region"), ["north", "south"].map(str::to_owned).into());
    assert_eq!(regions.values().copied().collect::<Vec<_>>(), [2, 2]);
    let zones = goes_where_it_is_told(&fleet, (NS, "zones"), spread(&["near-1", "near-2"], "zone", 2, 2));
    assert_eq!(zones, places(&[("near-1", 2), ("near-2", 2)]));
    // Two regions are none too few for whom three were asked; a third comes with another cluster.
    let wide = |names: &[&str]| policy(NS, "wide", spread(names, "region", 3, 3));
    let template = deployment(NS, "wide", 1);
    let (told, review) = predicted(&fleet, &[&template, &wide(&three)]);
    assert!(told.is_empty() && text_at(&review, "/outcome") != "Scheduled", "{review}");
    apply(&fleet, &[&template, &wide(&three)]);
    await_unplaced(&fleet, (NS, "wide"), text_at(&review, "/message"));
    for site in &fleet.sites {
        await_replicas(site, (NS, "wide"), 0);
    }
    apply(&fleet, &[&wide(&["near-1", "near-2", "far", "spare"])]);
    let kubectl = fleet.hub.kubectl().in_namespace(NS);
    kubectl.wait_for_field(&["deployment", "wide"], "{.status.readyReplicas}", "3", TIMEOUT);
    let chosen = placed(&get(fleet.hub.api(), &binding(NS, "wide")).unwrap());
    await_runs(&fleet, (NS, "wide"), &chosen);
    assert_eq!(said(&fleet, &chosen, "/spec/region"), ["north", "south", "west"].map(str::to_owned).into());
    leave(&fleet, NS);
}

/// Replicas by room.
fn aggregated(mut placement: Value) -> Value {
    placement["replicaScheduling"] =
        json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"});
    placement
}

#[test]
fn what_finds_no_room_in_its_group_overflows_and_what_does_stays_in_few_clusters() {
    let Some(fleet) = shared() else { return };
    const NS: &str = "room";
    fleet.namespace(NS);
    // Nobody is in the first group; the second has room for eight by its nodes' grade, and whoever comes beyond them goes on.
    let group = |name: &str, clusters: &[&str]| json!({"affinityName": name, "clusterNames": clusters});
    let nobody = json!({"affinityName": "nobody", "labelSelector": {"matchLabels": {"no": "such"}}});
    let mut home = group("home", &["near-1"]);
    home["overflowAffinities"] = json!([group("cloud", &["spare"])]);
    let groups = aggregated(json!({"clusterAffinities": [nobody, home, group("later", &["far"])]}));
    let big = asking(deployment(NS, "big", 12), json!({"cpu": "1"}));
    apply_as_predicted(&fleet, &[&big, &policy(NS, "big", groups)], &[("near-1", 8), ("spare", 4)]);
    let group = get(fleet.hub.api(), &binding(NS, "big")).unwrap();
    has(&group, "/status/schedulerObservingAffinityName", &json!("home")).unwrap();
    // Each cluster has room for eight of these.
    let few = |replicas| asking(deployment(NS, "few", replicas), json!({"memory": "8Gi"}));
    let both = policy(NS, "few", aggregated(in_clusters(&["near-2", "far"])));
    let (first, review) = predicted(&fleet, &[&few(6), &both]);
    let at: Vec<&String> = first.keys().collect();
    assert_eq!((at.len(), first.values().sum::<u64>()), (1, 6), "{review}");
    apply_as_predicted(&fleet, &[&few(6), &both], &[(at[0], 6)]);
    apply(&fleet, &[&few(12)]);
    let kubectl = fleet.hub.kubectl().in_namespace(NS);
    kubectl.wait_for_field(&["deployment", "few"], "{.status.readyReplicas}", "12", TIMEOUT);
    let grown = placed(&get(fleet.hub.api(), &binding(NS, "few")).unwrap());
    await_runs(&fleet, (NS, "few"), &grown);
    assert!(grown.len() == 2 && grown[at[0]] >= 6, "nothing that ran moves: {grown:?}");
    leave(&fleet, NS);
}

/// A template of a group, and a policy that keeps it `where_to` its group is.
fn grouped(of: (&str, &str), group: &str, (term, names): (&str, &[&str])) -> [Value; 2] {
    let mut template = deployment(of.0, of.1, 1);
    template["metadata"]["labels"]["group"] = json!(group);
    let mut placement = in_clusters(names);
    placement["spreadConstraints"] = json!([{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]);
    placement["workloadAffinity"] = json!({term: {"groupByLabelKey": "group"}});
    [template, policy(of.0, of.1, placement)]
}

#[test]
fn workloads_of_a_group_are_placed_together_or_apart() {
    let Some(fleet) = shared() else { return };
    const NS: &str = "groups";
    fleet.namespace(NS);
    let all = ["near-1", "near-2", "far", "spare"];
    let place = |name: &str, group: &str, term: &str, names: &[&str], wanted: &str| {
        let [template, policy] = grouped((NS, name), group, (term, names));
        apply_as_predicted(&fleet, &[&template, &policy], &[(wanted, 1)]);
    };
    place("shop", "shop", "affinity", &["spare"], "spare");
    place("cache", "shop", "affinity", &all, "spare");
    let [template, policy] = grouped((NS, "queue"), "shop", ("affinity", &["far"]));
    apply(&fleet, &[&template, &policy]);
    await_unplaced(&fleet, (NS, "queue"), "0/4 clusters are available");
    // Which of two takes the first depends on what others run there at the moment.
    place("one", "rivals", "antiAffinity", &["far"], "far");
    place("two", "rivals", "antiAffinity", &["far", "spare"], "spare");
    let [template, policy] = grouped((NS, "three"), "rivals", ("antiAffinity", &["far", "spare"]));
    apply(&fleet, &[&template, &policy]);
    await_unplaced(&fleet, (NS, "three"), "0/4 clusters are available");
    // Where one of them goes, there is a place.
    fleet.hub.kubectl().in_namespace(NS).ok(&["delete", "deployment", "one"]);
    await_runs(&fleet, (NS, "three"), &places(&[("far", 1)]));
    leave(&fleet, NS);
}

#[test]
fn an_expression_chooses_clusters_and_another_one_others() {
    let Some(fleet) = shared() else { return };
    const NS: &str = "expressions";
    fleet.namespace(NS);
    let template = deployment(NS, "web", 2);
    let by = |filter: &str| {
        let mut policy = policy(NS, "web", json!({}));
        policy["metadata"]["annotations"] = json!({"edge.karmada.io/cluster-filter": filter});
        policy
    };
    let south = by("cluster.spec.region == 'south' && object.metadata.name == 'web'");
    apply_as_predicted(&fleet, &[&template, &south], &[("far", 2)]);
    let north = by("cluster.spec.region == 'north'");
    apply_as_predicted(&fleet, &[&template, &north], &[("near-1", 2), ("near-2", 2)]);
    let (_, review) = explained(&fleet, (NS, "web"));
    let clusters = review["clusters"].as_array().unwrap();
    let far = clusters.iter().find(|cluster| cluster["name"] == "far").unwrap();
    assert_eq!(far["reason"], "cluster(s) did not match the policy's cluster-filter", "{review}");
    let wrong = by("cluster.spec.regoin == 'north'");
    let refusal = fleet.hub.kubectl().with_manifests(&["apply"], &wrong.to_string()).refused();
    assert!(refusal.contains("undefined field 'regoin'"), "{refusal}");
    await_runs(&fleet, (NS, "web"), &places(&[("near-1", 2), ("near-2", 2)]));
    leave(&fleet, NS);
}

#[test]
fn what_a_residency_rule_covers_is_in_no_other_cluster_whoever_sends_it() {
    let Some(fleet) = shared() else { return };
    const NS: &str = "residency";
    let kubectl = fleet.namespace(NS);
    let rule = json!({"apiVersion": "edge.karmada.io/v1alpha1", "kind": "ResidencyRule", "metadata": {"name": "stays-north"},
        "spec": {"namespaces": [NS], "clusterAffinity":
            {"fieldSelector": {"matchExpressions": [{"key": "region", "operator": "In", "values": ["north"]}]}}}});
    apply(&fleet, &[&rule]);
    let everywhere = policy(NS, "web", json!({}));
    let kept = [("near-1", 1), ("near-2", 1)];
    apply_as_predicted(&fleet, &[&deployment(NS, "web", 1), &everywhere], &kept);
    let (_, review) = explained(&fleet, (NS, "web"));
    let reasons: Vec<&str> = review["clusters"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|cluster| cluster["reason"].as_str())
        .filter(|reason| reason.contains("stays-north"))
        .collect();
    assert_eq!(reasons.len(), 2, "far and spare: {review}");
    // A Work that a person writes is refused, and names the rule.
    let data =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "data", "namespace": NS}});
    let work = |site: &str| {
        json!({"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work", "metadata": {"name": "smuggled", "namespace": format!("karmada-es-{site}")},
            "spec": {"workload": {"manifests": [data]}}})
    };
    let refusal = fleet.hub.kubectl().with_manifests(&["create"], &work("far").to_string()).refused();
    let named = "residency rule stays-north does not allow ConfigMap residency/data in cluster far";
    assert!(refusal.contains(named), "{refusal}");
    fleet.hub.kubectl().with_manifests(&["create"], &work("near-1").to_string()).ok();
    let path = format!("/api/v1/namespaces/{NS}/configmaps/data");
    fleet.site("near-1").await_object(&path, |_| Ok(()));
    fleet.site("far").await_gone(&path);
    // Without the rule it goes where its policy says.
    kubectl.ok(&["delete", "residencyrule", "stays-north"]);
    let all = places(&[("near-1", 1), ("near-2", 1), ("far", 1), ("spare", 1)]);
    await_runs(&fleet, (NS, "web"), &all);
    fleet.hub.kubectl().ok(&["delete", "work", "smuggled", "-n", "karmada-es-near-1"]);
    leave(&fleet, NS);
}

#[test]
fn a_rebalancer_places_anew_what_would_have_stayed() {
    let Some(fleet) = shared() else { return };
    const NS: &str = "rebalancer";
    fleet.namespace(NS);
    let label = |site: &str, label: &str| {
        fleet.hub.kubectl().ok(&["label", "cluster", site, label]);
    };
    label("near-1", "rebalancer=yes");
    let labelled = json!({"labelSelector": {"matchLabels": {"rebalancer": "yes"}}});
    let placement = json!({"clusterAffinity": labelled, "replicaScheduling": {
        "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
        "weightPreference": {"staticWeightList": [{"targetCluster": labelled, "weight": 1}]}}});
    let parts = [deployment(NS, "web", 4), policy(NS, "web", placement)];
    apply_as_predicted(&fleet, &[&parts[0], &parts[1]], &[("near-1", 4)]);
    label("far", "rebalancer=yes");
    let before = places(&[("near-1", 4)]);
    throughout("what has its cluster keeps it", Duration::from_secs(3), || {
        let now = placed(&get(fleet.hub.api(), &binding(NS, "web"))?);
        so(now == before, || format!("{now:?}"))
    });
    assert_eq!(explained(&fleet, (NS, "web")).0, before, "and it is explained as it is");
    let of =
        |name: &str| json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": NS, "name": name});
    let rebalancer = json!({"apiVersion": "apps.karmada.io/v1alpha1", "kind": "WorkloadRebalancer", "metadata": {"name": NS},
        "spec": {"workloads": [of("web"), of("nobody")]}});
    apply(&fleet, &[&rebalancer]);
    await_runs(&fleet, (NS, "web"), &places(&[("far", 2), ("near-1", 2)]));
    let path = format!("/apis/apps.karmada.io/v1alpha1/workloadrebalancers/{NS}");
    await_object(fleet.hub.api(), "the hub", &path, |rebalancer| {
        let observed = rebalancer["status"]["observedWorkloads"].as_array().cloned().unwrap_or_default();
        let result = |name: &str| {
            let found = observed.iter().find(|one| one["workload"]["name"] == name);
            found.map(|one| json!([one["result"], one["reason"]])).unwrap_or_default()
        };
        let seen = json!({"web": result("web"), "nobody": result("nobody")});
        let wanted = json!({"web": ["Successful", null], "nobody": ["Failed", "ReferencedBindingNotFound"]});
        has(&json!({"seen": seen}), "/seen", &wanted)
    });
    // Once it is over it goes, if it says so.
    let over = json!({"spec": {"ttlSecondsAfterFinished": 1, "workloads": [of("web")]}});
    fleet.hub.api().merge(&path, &over).unwrap();
    await_gone(fleet.hub.api(), "the hub", &path);
    for site in ["near-1", "far"] {
        label(site, "rebalancer-");
    }
    leave(&fleet, NS);
}
