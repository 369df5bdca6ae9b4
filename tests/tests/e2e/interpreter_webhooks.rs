//! A webhook that interprets a kind of its own, between a built hub and real members: it is asked how many replicas an object has, how it is with another
//! number, and whether it is well where it runs.

use serde_json::{Value, json};
use tests::api::text_at;
use tests::wait::{TIMEOUT, eventually, so};

use crate::fleet::{custom_kind, get, has};
use crate::policy_fleet::{apply, by_weights, cluster, leave, shared};

#[allow(dead_code, reason = "the suite of the hub alone uses the rest")]
#[path = "../../../hub/tests/interpreter_webhooks/server.rs"]
mod server;

use self::server::{Server, put};

const NAMESPACE: &str = "hooked";

/// Nobody but the webhook knows that a Gadget's copies are replicas.
fn respond(request: &Value) -> Value {
    let object = &request["object"];
    match request["operation"].as_str().unwrap() {
        "InterpretReplica" => json!({"replicas": object["spec"]["copies"]}),
        "ReviseReplica" => put("/spec/copies", &request["replicas"]),
        "InterpretHealth" => json!({"healthy": object["status"]["phase"] == "Turning"}),
        other => panic!("{other} is not to be asked"),
    }
}

fn path(name: &str) -> String {
    format!("/apis/hooked.example.com/v1/namespaces/{NAMESPACE}/gadgets/{name}")
}

#[test]
fn a_webhook_is_asked_of_a_kind_that_it_alone_knows() {
    let Some(fleet) = shared() else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let webhook = runtime.block_on(Server::start(respond));
    let kubectl = fleet.namespace(NAMESPACE);
    let sites = ["near-1", "near-2"].map(|name| fleet.site(name));
    let definition = custom_kind("hooked.example.com", ("gadgets", "Gadget"), "copies: {type: integer}");
    let everywhere = sites.iter().map(|site| site.member.kubectl()).chain([fleet.hub.kubectl()]);
    for kubectl in everywhere {
        kubectl.apply(&definition);
        kubectl.await_established("gadgets.hooked.example.com");
    }
    // Before both serve it, it would go whole to the one that does.
    for site in &sites {
        eventually(&format!("{} serves it", site.name), TIMEOUT, || {
            let cluster = get(fleet.hub.api(), &cluster(site.name))?;
            let served = cluster["status"]["apiEnablements"].as_array().cloned().unwrap_or_default();
            so(served.iter().any(|one| one["groupVersion"] == "hooked.example.com/v1"), || {
                format!("{} group versions", served.len())
            })
        });
    }
    let rules = json!([{"apiGroups": ["hooked.example.com"], "apiVersions": ["v1"], "kinds": ["Gadget"],
        "operations": ["InterpretReplica", "ReviseReplica", "InterpretHealth"]}]);
    let configuration = json!({"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterWebhookConfiguration",
        "metadata": {"name": "gadgets"}, "webhooks": [{"name": "gadgets.example.com", "clientConfig": webhook.client(),
            "timeoutSeconds": 5, "rules": rules, "interpreterContextVersions": ["v1alpha1"]}]});
    let gadget = json!({"apiVersion": "hooked.example.com/v1", "kind": "Gadget",
        "metadata": {"name": "wheel", "namespace": NAMESPACE}, "spec": {"copies": 6}});
    let placement = by_weights(&[("near-1", 2), ("near-2", 1)]);
    let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": {"name": "gadgets", "namespace": NAMESPACE},
        "spec": {"resourceSelectors": [{"apiVersion": "hooked.example.com/v1", "kind": "Gadget"}], "placement": placement}});
    apply(&fleet, &[&configuration, &gadget, &policy]);
    for (site, copies) in sites.iter().zip([4, 2]) {
        site.await_object(&path("wheel"), |object| has(object, "/spec/copies", &json!(copies)));
    }
    // How it stands there is asked of what the member has.
    let binding =
        format!("/apis/work.karmada.io/v1alpha2/namespaces/{NAMESPACE}/resourcebindings/wheel-gadget");
    let says = |what: &str, near_1: &str, near_2: &str| {
        eventually(what, TIMEOUT, || {
            let binding = get(fleet.hub.api(), &binding)?;
            let items = binding["status"]["aggregatedStatus"].as_array().cloned().unwrap_or_default();
            let health = |name: &str| {
                items
                    .iter()
                    .find(|item| item["clusterName"] == name)
                    .map(|item| text_at(item, "/health").to_owned())
            };
            so(
                health("near-1").as_deref() == Some(near_1) && health("near-2").as_deref() == Some(near_2),
                || binding["status"].to_string(),
            )
        });
    };
    says("nothing turns yet", "Unhealthy", "Unhealthy");
    let turning = r#"{"status": {"phase": "Turning"}}"#;
    let member = sites[0].member.kubectl().in_namespace(NAMESPACE);
    member.ok(&["patch", "gadget", "wheel", "--subresource=status", "--type=merge", "-p", turning]);
    says("one turns", "Healthy", "Unhealthy");
    assert!(
        webhook
            .asked("InterpretReplica")
            .iter()
            .all(|request| request["object"]["metadata"]["name"] == "wheel")
    );
    kubectl.ok(&["delete", "resourceinterpreterwebhookconfiguration", "gadgets"]);
    fleet.hub.kubectl().ok(&["delete", "crd", "gadgets.hooked.example.com", "--timeout=60s"]);
    leave(&fleet, NAMESPACE);
}
