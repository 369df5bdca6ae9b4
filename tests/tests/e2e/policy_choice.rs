//! Which policy has a template: by priority where several would, by preemption where one has it already, and a lazy one once the template changes.

use std::time::Duration;

use serde_json::{Value, json};
use tests::wait::{so, throughout};

use crate::fleet::{Fleet, get};
use crate::policy_fleet::{
    Places, apply, apply_as_predicted, await_runs, binding, deployment, explained, in_clusters, leave,
    placed, places, policy, shared,
};

/// Long enough for whatever would come of a policy.
const A_WHILE: Duration = Duration::from_secs(2);

/// Nothing moves for a while.
#[track_caller]
fn stays(fleet: &Fleet, of: (&str, &str), wanted: &Places) {
    throughout("it stays where it is", A_WHILE, || {
        let now = placed(&get(fleet.hub.api(), &binding(of.0, of.1))?);
        so(now == *wanted, || format!("{now:?}"))
    });
    await_runs(fleet, of, wanted);
}

/// A policy of another name for a Deployment.
fn called(name: &str, mut policy: Value, spec: &[(&str, Value)]) -> Value {
    policy["metadata"]["name"] = json!(name);
    for (field, value) in spec {
        policy["spec"][field] = value.clone();
    }
    policy
}

#[test]
fn of_several_policies_the_strongest_has_a_template_and_takes_it_only_by_preemption() {
    let Some(fleet) = shared() else { return };
    const NS: &str = "strength";
    const WEB: (&str, &str) = (NS, "web");
    fleet.namespace(NS);
    let to = |cluster: &str| policy(NS, "web", in_clusters(&[cluster]));
    let priority = |number: i64| ("priority", json!(number));
    let always = ("preemption", json!("Always"));
    // A policy of the whole fleet gives way to any of the namespace.
    let mut fleet_wide = called("strength", to("spare"), &[priority(100)]);
    fleet_wide["kind"] = json!("ClusterPropagationPolicy");
    fleet_wide["metadata"]["namespace"] = Value::Null;
    fleet_wide["spec"]["resourceSelectors"][0]["namespace"] = json!(NS);
    let weak = called("weak", to("near-1"), &[priority(1)]);
    let strong = called("strong", to("near-2"), &[priority(5)]);
    let web = deployment(NS, "web", 1);
    apply_as_predicted(&fleet, &[&web, &fleet_wide], &[("spare", 1)]);
    // It has it, and keeps it: nobody says that it may be taken.
    apply(&fleet, &[&weak, &strong]);
    stays(&fleet, WEB, &places(&[("spare", 1)]));
    apply(&fleet, &[&called("weak", to("near-1"), &[priority(1), always.clone()])]);
    await_runs(&fleet, WEB, &places(&[("near-1", 1)]));
    // The stronger one takes nothing until it says so, and then nobody weaker takes it back.
    stays(&fleet, WEB, &places(&[("near-1", 1)]));
    apply(&fleet, &[&called("strong", to("near-2"), &[priority(5), always.clone()])]);
    await_runs(&fleet, WEB, &places(&[("near-2", 1)]));
    apply(&fleet, &[&called("equal", to("far"), &[priority(5), always])]);
    stays(&fleet, WEB, &places(&[("near-2", 1)]));
    let (_, review) = explained(&fleet, WEB);
    assert_eq!(review["policy"]["name"], "strong", "{review}");
    // A template that comes anew goes to the strongest; of two that are equal, to that whose name comes first.
    let kubectl = fleet.hub.kubectl().in_namespace(NS);
    kubectl.ok(&["delete", "deployment", "web"]);
    for site in &fleet.sites {
        site.await_gone(&crate::policy_fleet::deployment_path(NS, "web"));
    }
    apply_as_predicted(&fleet, &[&web], &[("far", 1)]);
    kubectl.ok(&["delete", "propagationpolicies", "equal", "strong"]);
    await_runs(&fleet, WEB, &places(&[("near-1", 1)]));
    fleet.hub.kubectl().ok(&["delete", "clusterpropagationpolicy", "strength"]);
    leave(&fleet, NS);
}

#[test]
fn a_lazy_policy_waits_for_a_change_of_the_template() {
    let Some(fleet) = shared() else { return };
    const NS: &str = "lazy";
    const WEB: (&str, &str) = (NS, "web");
    fleet.namespace(NS);
    let lazy = ("activationPreference", json!("Lazy"));
    let to = |cluster: &str| {
        called("web", policy(NS, "web", in_clusters(&[cluster])), std::slice::from_ref(&lazy))
    };
    // To what comes after it, it is as any other.
    apply(&fleet, &[&to("near-1")]);
    apply(&fleet, &[&deployment(NS, "web", 1)]);
    await_runs(&fleet, WEB, &places(&[("near-1", 1)]));
    apply(&fleet, &[&to("far")]);
    stays(&fleet, WEB, &places(&[("near-1", 1)]));
    apply(&fleet, &[&deployment(NS, "web", 2)]);
    await_runs(&fleet, WEB, &places(&[("far", 2)]));
    // Nor does it take up what was there before it, until that changes.
    apply(&fleet, &[&deployment(NS, "old", 1)]);
    // Of two that are made within a second nobody knows which was first.
    std::thread::sleep(A_WHILE);
    let old = called("old", policy(NS, "old", in_clusters(&["near-2"])), &[lazy]);
    apply(&fleet, &[&old]);
    throughout("nobody has it", A_WHILE, || {
        let found = fleet.hub.api().get(&binding(NS, "old")).map_err(|error| error.to_string())?;
        so(found.is_none(), || format!("{found:?}"))
    });
    let kubectl = fleet.hub.kubectl().in_namespace(NS);
    kubectl.ok(&["label", "deployment", "old", "touched=yes"]);
    await_runs(&fleet, (NS, "old"), &places(&[("near-2", 1)]));
    leave(&fleet, NS);
}
