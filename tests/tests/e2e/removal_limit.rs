//! A policy that is changed by mistake takes little from a site: beyond what its LinkPolicy allows, what runs there goes on until a person
//! says otherwise.

use tests::api::Api;
use tests::wait::{TIMEOUT, eventually, so};

use crate::fleet::{alone, karmadactl};

const LINK_POLICY: &str = "
apiVersion: edge.karmada.io/v1alpha1
kind: LinkPolicy
metadata: {name: careful}
spec:
  clusterSelector: {matchLabels: {tier: gold}}
  deletes: {maxObjects: 3, maxPercent: 0, within: 10m}
";

const COUNT: usize = 5;

/// Five ConfigMaps, and a policy that places them in one site.
fn placed_in(site: &str) -> String {
    let maps = (0..COUNT).map(|at| {
        format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m{at}, namespace: careful}}\ndata: {{a: b}}\n")
    });
    let policy = format!(
        "---\napiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {{name: all, namespace: careful}}
spec:\n  resourceSelectors: [{{apiVersion: v1, kind: ConfigMap}}]\n  placement: {{clusterAffinity: {{clusterNames: [{site}]}}}}\n"
    );
    maps.chain([policy]).collect()
}

fn count(member: &Api) -> usize {
    let found = member.list("/api/v1/namespaces/careful/configmaps").unwrap_or_default();
    found.iter().filter(|map| map["metadata"]["name"] != "kube-root-ca.crt").count()
}

#[track_caller]
fn await_count(what: &str, member: &Api, wanted: usize) {
    eventually(what, TIMEOUT, || {
        let there = count(member);
        so(there == wanted, || there.to_string())
    });
}

#[test]
fn what_a_change_of_policy_takes_beyond_its_bounds_waits_for_a_word() {
    let Some(mut fleet) = alone() else { return };
    let hub = fleet.hub.kubectl();
    hub.apply(LINK_POLICY);
    hub.ok(&["create", "namespace", "careful"]);
    hub.apply(&placed_in("north"));
    await_count("all is in the first site", fleet.sites[0].member.api(), COUNT);
    hub.apply(&placed_in("south"));
    await_count("all is in the second", fleet.sites[1].member.api(), COUNT);
    await_count("the first keeps what is too much", fleet.sites[0].member.api(), COUNT - 3);
    let link = ["clusterlink", "north"];
    eventually("the link shows it", TIMEOUT, || {
        let held = hub.field(&link, "{.status.heldRemovals.count}");
        so(held == "2", || held.clone())
    });
    let kubeconfig = fleet.hub.kubeconfig();
    let plan = karmadactl(&kubeconfig, &["plan", "north"]).ok();
    assert_eq!(plan.lines().filter(|line| line.starts_with("keep ")).count(), 2, "{plan}");
    assert!(plan.contains("2 removals are held back: karmadactl confirm north --batch "), "{plan}");

    // The word is not forgotten that nobody has given yet.
    fleet.hub.start_again();
    let hub = fleet.hub.kubectl();
    eventually("the link shows it after a restart", TIMEOUT, || {
        let held = hub.run(&["get", "clusterlink", "north", "-o", "jsonpath={.status.heldRemovals.count}"]);
        so(held.stdout == "2", || held.stdout.clone())
    });
    assert_eq!(count(fleet.sites[0].member.api()), 2);
    let batch = hub.field(&link, "{.status.heldRemovals.batch}");
    karmadactl(&kubeconfig, &["confirm", "north", "--batch", &batch]).ok();
    await_count("a word lets it go", fleet.sites[0].member.api(), 0);

    // What a person deletes is not asked about.
    let nothing = r#"{"spec":{"clusterSelector":null,"deletes":{"maxObjects":0}}}"#;
    hub.ok(&["patch", "linkpolicy", "careful", "--type=merge", "-p", nothing]);
    hub.ok(&["delete", "configmaps", "-n", "careful", "--all", "--wait=false"]);
    await_count("deleted templates go", fleet.sites[1].member.api(), 0);
    hub.ok(&["delete", "linkpolicy", "careful"]);
    hub.ok(&["delete", "namespace", "careful", "--wait=false"]);
}
