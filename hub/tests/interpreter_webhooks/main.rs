//! Webhooks that interpret resources, on a hub with an agent and a member, all over real TLS: what the webhook says is what stands in bindings, in the
//! member and in statuses, also where the agent could not have asked it.

#![allow(clippy::disallowed_methods, reason = "tests and benches are of this machine's time")]
#![allow(clippy::unwrap_used)]

mod server;
mod world;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use self::server::{Server, put};
use self::world::*;

/// A webhook that says of everything something else than what is known without it.
fn respond(request: &Value) -> Value {
    let object = &request["object"];
    match request["operation"].as_str().unwrap() {
        "InterpretReplica" => json!({"replicas": 7}),
        "ReviseReplica" => put("/spec/replicas", &json!(request["replicas"].as_i64().unwrap() + 4)),
        "InterpretDependency" => {
            json!({"dependencies": [{"apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "name": "chosen"}]})
        }
        // What is known natively leaves out of a Deployment's conditions those that say that all is well.
        "InterpretStatus" => {
            json!({"rawStatus": {"conditions": object["status"]["conditions"], "generation": object["metadata"]["generation"]}})
        }
        "InterpretHealth" => {
            json!({"healthy": object["status"]["conditions"][0]["reason"] == "SaidByTheTest"})
        }
        "AggregateStatus" => {
            let items = request["aggregatedStatus"].as_array().map_or(0, Vec::len);
            put("/status", &json!({"readyReplicas": 40 + items}))
        }
        // What the member's own scaler set stays.
        "Retain" => put("/spec/replicas", &request["observedObject"]["spec"]["replicas"]),
        other => panic!("{other} is not to be asked"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_webhook_says_stands_on_the_hub_and_in_the_member() {
    let (world, webhook) = (World::start().await, Server::start(respond).await);
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": server::SERVICE},
        "spec": {"type": "ExternalName", "externalName": "localhost"}});
    create(&world.hub, ("", "v1", "services"), "default", service).await;
    create(&world.hub, CONFIGURATIONS, "", configuration(&webhook.client_of_service(), &["*"], 5)).await;
    apply_sample(&world.hub).await;
    let binding = until(&world.hub, BINDINGS, "web-deployment", "the binding", |binding| {
        binding["spec"]["clusters"][0]["replicas"] == 7
    })
    .await;
    assert_eq!(binding["spec"]["replicas"], 7);
    until(&world.member, DEPLOYMENTS, "web", "the member's Deployment", |web| web["spec"]["replicas"] == 11)
        .await;
    until(&world.member, ("", "v1", "configmaps"), "chosen", "what follows it", |map| {
        map["data"]["a"] == "b"
    })
    .await;
    change(&world.member, DEPLOYMENTS, ("default", "web"), "status", |web| {
        let generation = web["metadata"]["generation"].clone();
        web["status"] = json!({"observedGeneration": generation, "replicas": 11, "readyReplicas": 11, "conditions": [
            {"type": "Available", "status": "True", "reason": "SaidByTheTest", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
                "lastUpdateTime": "2026-01-01T00:00:00Z"}]});
    })
    .await;
    let binding = until(&world.hub, BINDINGS, "web-deployment", "its health", |binding| {
        binding["status"]["aggregatedStatus"][0]["health"] == "Healthy"
    })
    .await;
    let told = &binding["status"]["aggregatedStatus"][0]["status"];
    assert_eq!(
        (&told["conditions"][0]["reason"], told["generation"].is_i64()),
        (&json!("SaidByTheTest"), true),
        "{told}"
    );
    until(&world.hub, DEPLOYMENTS, "web", "the template's status", |web| {
        web["status"]["readyReplicas"] == 41
    })
    .await;
    // It sees the object as the member has it, and nothing of what the hub adds on the way.
    let seen = webhook.asked("InterpretHealth").pop().unwrap();
    assert_eq!(
        (&seen["object"]["spec"]["replicas"], &seen["object"]["status"]["readyReplicas"]),
        (&json!(11), &json!(11))
    );
    assert!(seen["object"]["status"].get("edge.karmada.io/observed").is_none());
    // Somebody at the site scales it: the agent has the hub ask, and what the webhook keeps stays, also where the template changes.
    change(&world.member, DEPLOYMENTS, ("default", "web"), "", |web| web["spec"]["replicas"] = json!(15))
        .await;
    let begun = Instant::now();
    let keeps = |request: &Value| request["observedObject"]["spec"]["replicas"] == 15;
    while !webhook.asked("Retain").iter().any(keeps) {
        assert!(begun.elapsed() < PATIENCE, "it is not asked: {:?}", webhook.asked("Retain"));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let seen = webhook.asked("Retain").into_iter().rfind(keeps).unwrap();
    assert_eq!(seen["object"]["spec"]["replicas"], 11);
    assert!(seen["observedObject"].get("status").is_none());
    change(&world.hub, DEPLOYMENTS, ("default", "web"), "", |web| {
        web["spec"]["template"]["spec"]["containers"][0]["image"] = json!("newer");
    })
    .await;
    let web = until(&world.member, DEPLOYMENTS, "web", "the newer image", |web| {
        web["spec"]["template"]["spec"]["containers"][0]["image"] == "newer"
    })
    .await;
    assert_eq!(web["spec"]["replicas"], 15);
    let count = webhook.asked("Retain").len();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(webhook.asked("Retain").len() <= count + 1, "at rest nothing is asked");
    // Without the webhook the site reports as it did before, and everything is as it is known natively.
    forget_hooks(&world.hub).await;
    until(&world.member, DEPLOYMENTS, "web", "native replicas", |web| web["spec"]["replicas"] == 2).await;
    until(&world.hub, BINDINGS, "web-deployment", "the native status", |binding| {
        let status = &binding["status"]["aggregatedStatus"][0]["status"];
        status["readyReplicas"] == 11 && status.get("conditions").is_none()
    })
    .await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_hangs_or_is_not_trusted_is_named_and_holds_up_nobody_else() {
    let (world, webhook) = (World::start().await, Server::start(respond).await);
    webhook.state.hangs.store(true, Ordering::Relaxed);
    create(&world.hub, CONFIGURATIONS, "", configuration(&webhook.client(), &["InterpretReplica"], 1)).await;
    // Configurations and templates are watched apart: which is told first, nobody promises.
    tokio::time::sleep(Duration::from_secs(1)).await;
    apply_sample(&world.hub).await;
    let events: Resource = ("", "v1", "events");
    let told = async |words: &str| {
        let begun = Instant::now();
        loop {
            let definition = world.hub.registry.definition(events.0, events.1, events.2).unwrap();
            let all = world.hub.registry.cache().of_resource(&definition.storage).snapshot("").items;
            let is_meant = |event: &Value| {
                let message = event["message"].as_str().unwrap_or_default();
                event["reason"] == "ApplyPolicyFailed"
                    && message.contains("hooks/deployments.example.com")
                    && message.contains(words)
            };
            if all.iter().any(|event| is_meant(&event.value())) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "an event with {words:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    told("context deadline exceeded").await;
    assert_eq!(get(&world.hub, BINDINGS, "default", "web-deployment"), None);
    // Another kind, that it does not claim, goes its way meanwhile.
    let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": {"name": "maps"},
        "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "chosen"}]}});
    create(&world.hub, ("policy.karmada.io", "v1alpha1", "propagationpolicies"), "default", policy).await;
    until(&world.member, ("", "v1", "configmaps"), "chosen", "the other kind", |_| true).await;
    // One whose certificate is of nobody that is believed.
    change(&world.hub, CONFIGURATIONS, ("", "hooks"), "", |hooks| {
        let stranger = karmada_certs::Authority::create(jiff::Timestamp::now()).unwrap().0;
        hooks["webhooks"][0]["clientConfig"]["caBundle"] = json!(STANDARD.encode(stranger.certificate_pem()));
    })
    .await;
    told("tls: ").await;
    assert_eq!(get(&world.hub, BINDINGS, "default", "web-deployment"), None);
    webhook.state.hangs.store(false, Ordering::Relaxed);
    webhook.state.rambles.store(true, Ordering::Relaxed);
    forget_hooks(&world.hub).await;
    create(&world.hub, CONFIGURATIONS, "", configuration(&webhook.client(), &["InterpretReplica"], 1)).await;
    told("the answer is longer than 3145728 bytes").await;
    assert_eq!(get(&world.hub, BINDINGS, "default", "web-deployment"), None);
    webhook.state.rambles.store(false, Ordering::Relaxed);
    until(&world.hub, BINDINGS, "web-deployment", "the binding", |binding| binding["spec"]["replicas"] == 7)
        .await;
    world.end().await;
}
