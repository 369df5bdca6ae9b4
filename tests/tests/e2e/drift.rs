//! What the agent holds against the member's own hands, and what it leaves alone.

use serde_json::{Value, json};
use tests::agent::{Agent, AgentOptions};
use tests::api::text_at;
use tests::hub::{Hub, HubOptions};
use tests::kubectl::Kubectl;
use tests::wait::{TIMEOUT, so};

use crate::fleet::{Fleet, RegisterCommand, await_gone, await_object, get, has, has_condition, shared};
use crate::private_site::{Line, WORKS, config as lone_config, spec, work};

const SETTINGS: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, labels: {team: a}}
data: {mode: calm, colour: blue}
";

fn policy(name: &str, more: &str) -> String {
    format!(
        "
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {{name: {name}}}
spec:
  resourceSelectors: [{{apiVersion: v1, kind: ConfigMap, name: {name}}}]
  placement: {{clusterAffinity: {{clusterNames: [north, south]}}}}
{more}"
    )
}

fn config(namespace: &str, name: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps/{name}")
}

fn placed(fleet: &Fleet, namespace: &str) -> Kubectl {
    let kubectl = fleet.namespace(namespace);
    kubectl.apply(SETTINGS);
    kubectl.apply(&policy("settings", ""));
    for name in ["north", "south"] {
        fleet.site(name).await_object(&config(namespace, "settings"), |_| Ok(()));
    }
    kubectl
}

#[test]
fn drift_is_undone_and_what_others_add_stays() {
    let Some(fleet) = shared() else { return };
    placed(&fleet, "drift");
    let (north, path) = (fleet.site("north"), config("drift", "settings"));
    let foreign = json!({"metadata": {"labels": {"added-by": "member"}}, "data": {"extra": "local"}});
    north.api().merge(&path, &foreign).unwrap();
    north
        .api()
        .merge(&path, &json!({"metadata": {"labels": {"team": "b"}}, "data": {"mode": "wild"}}))
        .unwrap();
    north.await_object(&path, |object| {
        has(object, "/data/mode", &json!("calm"))?;
        has(object, "/metadata/labels/team", &json!("a"))
    });
    let now = get(north.api(), &path).unwrap();
    has(&now, "/metadata/labels/added-by", &json!("member")).unwrap();
    // A field taken away comes back, and our mark too.
    let marks = json!({"metadata": {"labels": {"karmada.io/managed": null}}, "data": {"colour": null}});
    north.api().merge(&path, &marks).unwrap();
    north.await_object(&path, |object| {
        has(object, "/data/colour", &json!("blue"))?;
        has(object, "/metadata/labels/karmada.io~1managed", &json!("true"))
    });
    north.api().delete(&path).unwrap();
    north.await_object(&path, |object| has(object, "/data/mode", &json!("calm")));
    // What nobody propagated is nobody's business.
    let own =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "own"}, "data": {"a": "b"}});
    let own = north.api().create("/api/v1/namespaces/drift/configmaps", &own).unwrap();
    north.api().delete(&path).unwrap();
    north.await_object(&path, |_| Ok(()));
    let after = get(north.api(), &config("drift", "own")).unwrap();
    assert_eq!(after["metadata"]["resourceVersion"], own["metadata"]["resourceVersion"]);
    fleet.remove_namespace("drift");
}

/// Objects are created, not applied; a field that a later template leaves out goes all the same, and nobody else's does.
#[test]
fn a_field_that_the_template_drops_goes_and_another_managers_stays() {
    let Some(fleet) = shared() else { return };
    placed(&fleet, "dropped");
    let (north, path) = (fleet.site("north"), config("dropped", "settings"));
    north.api().merge(&path, &json!({"data": {"extra": "local"}})).unwrap();
    let on_hub = config("dropped", "settings");
    fleet
        .hub
        .api()
        .merge(
            &on_hub,
            &json!({"metadata": {"labels": {"team": null}}, "data": {"colour": null, "size": "9"}}),
        )
        .unwrap();
    north.await_object(&path, |object| {
        has(object, "/data", &json!({"mode": "calm", "size": "9", "extra": "local"}))?;
        so(object.pointer("/metadata/labels/team").is_none(), || "the label is still there".to_owned())
    });
    let object = get(north.api(), &path).unwrap();
    let ours: Vec<&str> = object["metadata"]["managedFields"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|entry| entry["manager"] == "karmada-agent")
        .map(|entry| text_at(entry, "/operation"))
        .collect();
    assert_eq!(ours, ["Apply"], "what was created is owned by apply now");
    fleet.remove_namespace("dropped");
}

#[test]
fn an_object_in_the_way_is_left_or_adopted_as_the_policy_says() {
    let Some(fleet) = shared() else { return };
    let kubectl = fleet.namespace("in-the-way");
    let (north, path) = (fleet.site("north"), config("in-the-way", "settings"));
    north.await_object("/api/v1/namespaces/in-the-way", |_| Ok(()));
    let own = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"mode": "own"}});
    let own = north.api().create("/api/v1/namespaces/in-the-way/configmaps", &own).unwrap();
    kubectl.apply(SETTINGS);
    kubectl.apply(&policy("settings", ""));
    fleet.site("south").await_object(&path, |object| has(object, "/data/mode", &json!("calm")));
    let works = "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-north/works";
    let work = || {
        let works = fleet.hub.api().list(works).unwrap_or_default();
        works.into_iter().find(|work| {
            work["spec"].to_string().contains("in-the-way")
                && work["spec"].to_string().contains("\"settings\"")
        })
    };
    tests::wait::eventually("the Work says what is in the way", TIMEOUT, || {
        has_condition(&work().unwrap_or_default(), "Applied", "False", "exist")
    });
    let binding = "/apis/work.karmada.io/v1alpha2/namespaces/in-the-way/resourcebindings/settings-configmap";
    await_object(fleet.hub.api(), "the hub", binding, |binding| {
        has_condition(binding, "FullyApplied", "False", "")?;
        let items = binding.pointer("/status/aggregatedStatus").and_then(Value::as_array);
        let north = items.into_iter().flatten().find(|item| item["clusterName"] == "north");
        so(north.is_some_and(|north| text_at(north, "/appliedMessage").contains("exist")), || {
            binding.to_string()
        })
    });
    assert_eq!(get(north.api(), &path).unwrap(), own, "it is not touched");
    kubectl.apply(&policy("settings", "  conflictResolution: Overwrite\n"));
    north.await_object(&path, |object| {
        has(object, "/data/mode", &json!("calm"))?;
        has(object, "/metadata/uid", &own["metadata"]["uid"])?;
        has(object, "/metadata/labels/karmada.io~1managed", &json!("true"))
    });
    await_object(fleet.hub.api(), "the hub", binding, |binding| {
        has_condition(binding, "FullyApplied", "True", "")
    });
    fleet.remove_namespace("in-the-way");
}

#[test]
fn a_deleted_policy_leaves_workloads_and_a_deleted_template_takes_them() {
    let Some(fleet) = shared() else { return };
    let kubectl = placed(&fleet, "deleted");
    let path = config("deleted", "settings");
    let north = fleet.site("north");
    let before = get(north.api(), &path).unwrap();
    kubectl.ok(&["delete", "propagationpolicy", "settings"]);
    await_object(fleet.hub.api(), "the hub", &path, |template| {
        let claim = template.pointer("/metadata/labels/propagationpolicy.karmada.io~1permanent-id");
        so(claim.is_none(), || template.to_string())
    });
    // Still enforced, and still the same.
    north.api().merge(&path, &json!({"data": {"mode": "wild"}})).unwrap();
    let after = north.await_object(&path, |object| has(object, "/data/mode", &json!("calm")));
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert!(get(fleet.site("south").api(), &path).is_ok());
    // Another policy takes over.
    let other = policy("settings", "").replace("[north, south]", "[south, kind-east]");
    kubectl.apply(&other);
    fleet.site("kind-east").await_object(&path, |_| Ok(()));
    north.await_gone(&path);
    kubectl.ok(&["delete", "configmap", "settings"]);
    for site in &fleet.sites {
        site.await_gone(&path);
    }
    let binding = "/apis/work.karmada.io/v1alpha2/namespaces/deleted/resourcebindings/settings-configmap";
    await_gone(fleet.hub.api(), "the hub", binding);
    // The namespace there is still the hub's, and nothing else was touched.
    north.await_object("/api/v1/namespaces/deleted", |_| Ok(()));
    fleet.remove_namespace("deleted");
}

#[test]
fn a_bad_manifest_blocks_no_other() {
    let Some(fleet) = shared() else { return };
    let kubectl = fleet.namespace("bad");
    let works = "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-north/works";
    let work = |name: &str, manifest: Value| {
        json!({"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work", "metadata": {"name": name},
            "spec": {"workload": {"manifests": [manifest]}}})
    };
    // The member refuses one, and knows no such kind as the other.
    let no_selector = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "bad", "namespace": "bad"}, "spec": {"template": {}}});
    let no_kind = json!({"apiVersion": "example.com/v1", "kind": "Windmill",
        "metadata": {"name": "bad", "namespace": "bad"}});
    fleet.hub.api().create(works, &work("e2e-refused", no_selector)).unwrap();
    fleet.hub.api().create(works, &work("e2e-no-kind", no_kind)).unwrap();
    kubectl.apply(SETTINGS);
    kubectl.apply(&policy("settings", ""));
    fleet.site("north").await_object(&config("bad", "settings"), |_| Ok(()));
    for (name, text) in [("e2e-refused", "selector"), ("e2e-no-kind", "Windmill")] {
        let path = format!("{works}/{name}");
        await_object(fleet.hub.api(), "the hub", &path, |work| has_condition(work, "Applied", "False", text));
        fleet.hub.api().delete(&path).unwrap();
        await_gone(fleet.hub.api(), "the hub", &path);
    }
    fleet.remove_namespace("bad");
}

#[test]
fn a_cluster_whose_agent_is_gone_is_deleted_without_it() {
    let Some(fleet) = shared() else { return };
    let (site, hub) = (fleet.site("kind-east"), Hub::start(HubOptions::default()));
    let register = RegisterCommand::make(&hub, &[]);
    let mut agent = Agent::start(AgentOptions {
        hub: register.hub.clone(),
        token: Some(register.token.clone()),
        ca_hash: Some(register.ca_hash),
        cluster_name: Some("leaving".to_owned()),
        kubeconfig: Some(site.member.kubeconfig()),
        ..AgentOptions::default()
    });
    let cluster = "/apis/cluster.karmada.io/v1alpha1/clusters/leaving";
    await_object(hub.api(), "the hub", cluster, |cluster| has_condition(cluster, "Ready", "True", ""));
    let kubectl = hub.kubectl();
    kubectl.apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: left-behind}\n");
    let kubectl = kubectl.in_namespace("left-behind");
    kubectl.apply(SETTINGS);
    kubectl.apply(&policy("settings", "").replace("[north, south]", "[leaving]"));
    let path = config("left-behind", "settings");
    site.await_object(&path, |_| Ok(()));
    // What a policy placed stays when the policy goes; it may not hold the cluster either.
    kubectl.ok(&["delete", "propagationpolicy", "settings"]);
    agent.kill();
    // The hub may take the stream's end for the agent's only after a moment; the deletion waits for that itself.
    kubectl.ok(&["delete", "cluster", "leaving", "--timeout=60s"]);
    await_gone(hub.api(), "the hub", "/api/v1/namespaces/karmada-es-leaving");
    assert!(get(site.api(), &path).is_ok(), "the member keeps what it runs");
    let _ = site.api().delete("/api/v1/namespaces/left-behind");
}

/// `kubectl apply -f work.yaml`: nobody but the hub itself says that it is to wait for the site.
#[test]
fn a_work_that_a_person_wrote_and_deleted_while_its_site_was_away_takes_its_objects_along() {
    let Some(mut line) = Line::start() else { return };
    let object = json!({"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work",
        "metadata": {"name": "by-hand"}, "spec": spec("by-hand", "calm")});
    line.hub.api().create(WORKS, &object).unwrap();
    line.await_mode("by-hand", "calm");
    line.agent.stop();
    line.delete("by-hand");
    let waits = get(line.hub.api(), &work("by-hand")).unwrap();
    assert!(waits["metadata"]["deletionTimestamp"].is_string(), "{waits}");
    assert!(get(line.member.api(), &lone_config("by-hand")).is_ok());
    line.agent.start_again();
    line.await_no("by-hand");
}
