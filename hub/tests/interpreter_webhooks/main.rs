//! Webhooks that interpret resources, on a hub with an agent and a member, all over real TLS: what the webhook says is what stands in bindings, in the
//! member and in statuses, also where the agent could not have asked it.

#![allow(clippy::disallowed_methods, reason = "tests and benches are of this machine's time")]
#![allow(clippy::unwrap_used)]

mod server;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use karmada_agent::identity::IdentityStore;
use karmada_agent::link::dial::Tcp;
use karmada_agent::member::kube::KubeMember;
use karmada_agent::{Config, LinkView, Parts};
use karmada_certs::JoinToken;
use karmada_hub::{Hub, Serves, Settings, StoreKind};
use karmada_interpreter::Chain;
use karmada_registry::{DeleteOptions, User, WriteOptions};
use karmada_schema::object::ObjectKey;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use self::server::{Server, put};

type Resource = (&'static str, &'static str, &'static str);

const DEPLOYMENTS: Resource = ("apps", "v1", "deployments");
const BINDINGS: Resource = ("work.karmada.io", "v1alpha2", "resourcebindings");
const CONFIGURATIONS: Resource =
    ("config.karmada.io", "v1alpha1", "resourceinterpreterwebhookconfigurations");

/// What is looked at is there within this.
const PATIENCE: Duration = Duration::from_secs(60);

fn options(subresource: &str) -> WriteOptions {
    let user = User { name: "test".into(), groups: vec!["system:masters".into()], ..User::default() };
    WriteOptions {
        user,
        subresource: subresource.into(),
        field_manager: "test".into(),
        ..WriteOptions::default()
    }
}

async fn create(hub: &Hub, of: Resource, namespace: &str, object: Value) {
    let definition = hub.registry.definition(of.0, of.1, of.2).unwrap();
    let created = hub.registry.create(&definition, namespace, object, &options("")).await;
    created.unwrap_or_else(|status| panic!("{}: {}", of.2, status.message));
}

async fn change(
    hub: &Hub,
    of: Resource,
    (namespace, name): (&str, &str),
    subresource: &str,
    edit: fn(&mut Value),
) {
    let definition = hub.registry.definition(of.0, of.1, of.2).unwrap();
    let mut change = |live: Option<&Value>| {
        let mut object = live.cloned().unwrap();
        edit(&mut object);
        Ok(object)
    };
    let key = ObjectKey::new(namespace, name);
    let written = hub.registry.update(&definition, &key, &options(subresource), &mut change).await;
    written.unwrap_or_else(|status| panic!("{}: {}", of.2, status.message));
}

async fn forget_hooks(hub: &Hub) {
    let definition = hub.registry.definition(CONFIGURATIONS.0, CONFIGURATIONS.1, CONFIGURATIONS.2).unwrap();
    let (key, user) = (ObjectKey::new("", "hooks"), options("").user);
    hub.registry.delete(&definition, &key, &DeleteOptions::default(), &user).await.unwrap();
}

fn get(hub: &Hub, of: Resource, namespace: &str, name: &str) -> Option<Value> {
    let definition = hub.registry.definition(of.0, of.1, of.2).unwrap();
    hub.registry.get(&definition, namespace, name).ok().map(|object| object.value())
}

/// Waits until an object is as it should be.
async fn until(hub: &Hub, of: Resource, name: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let begun = Instant::now();
    loop {
        let found = get(hub, of, "default", name);
        if let Some(object) = found.as_ref().filter(|object| is_so(object)) {
            return object.clone();
        }
        assert!(begun.elapsed() < PATIENCE, "{what} within {PATIENCE:?}: {found:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A hub, and a member with its agent.
struct World {
    hub: Hub,
    member: Hub,
    stop: CancellationToken,
    _directory: TempDir,
}

async fn serve(serves: Serves, directory: std::path::PathBuf) -> Hub {
    let settings = Settings {
        serves,
        accept_data_loss: false,
        encryption: None,
        data_dir: directory,
        listen: ([127, 0, 0, 1], 0).into(),
        advertise: Vec::new(),
        store: StoreKind::Memory,
        access: karmada_hub::AccessSettings::default(),
        controllers: true,
        lifecycle: karmada_hub::LifecycleSettings::default(),
    };
    Hub::start(&settings, Arc::new(jiff::Timestamp::now)).await.unwrap()
}

impl World {
    async fn start() -> World {
        let directory = tempfile::tempdir().unwrap();
        let hub = serve(Serves::Fleet, directory.path().join("hub")).await;
        let member = serve(Serves::Kubernetes, directory.path().join("member")).await;
        let token = JoinToken::parse("abcdef.0123456789abcdef").unwrap();
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
            "metadata": {"name": "bootstrap-token-abcdef", "namespace": "kube-system"},
            "data": {"token-id": STANDARD.encode("abcdef"), "token-secret": STANDARD.encode("0123456789abcdef"),
                "usage-bootstrap-authentication": STANDARD.encode("true"),
                "auth-extra-groups": STANDARD.encode("system:bootstrappers:karmada:default-cluster-token")}});
        create(&hub, ("", "v1", "secrets"), "kube-system", secret).await;
        let stop = CancellationToken::new();
        let (link, mut seen) = tokio::sync::watch::channel(LinkView::default());
        let config = Config {
            hub: vec![hub.address.to_string()],
            token: Some(token),
            pins: vec![hub.data.authorities().signing().pin()],
            cluster_name: "m1".into(),
            ..Config::default()
        };
        let state = directory.path().join("agent");
        std::fs::create_dir_all(&state).unwrap();
        let parts = Parts {
            member: Arc::new(KubeMember::connect(Some(&member.data.kubeconfig_file())).await.unwrap()),
            interpreter: Arc::new(Chain::default()),
            connector: Arc::new(Tcp),
            identity_store: IdentityStore::Directory(state),
            link,
            sources: karmada_agent::ClockAndRandom::system(),
        };
        tokio::spawn(Box::pin(karmada_agent::run(config, parts, stop.clone())));
        let connected = seen.wait_for(|view| matches!(view, LinkView::Connected { .. }));
        tokio::time::timeout(PATIENCE, connected).await.unwrap().unwrap();
        World { hub, member, stop, _directory: directory }
    }

    async fn end(self) {
        self.stop.cancel();
        self.member.stop().await;
        self.hub.stop().await;
    }
}

fn configuration(client: &Value, operations: &[&str], seconds: u64) -> Value {
    let rules = json!([{"apiGroups": ["apps"], "apiVersions": ["v1"], "kinds": ["Deployment"], "operations": operations}]);
    json!({"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterWebhookConfiguration", "metadata": {"name": "hooks"},
        "webhooks": [{"name": "deployments.example.com", "clientConfig": client, "timeoutSeconds": seconds, "rules": rules,
            "interpreterContextVersions": ["v1alpha1"]}]})
}

async fn apply_sample(hub: &Hub) {
    let labels = json!({"app": "web"});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "main"}]}}}});
    let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": {"name": "web"},
        "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}], "propagateDeps": true,
            "placement": {"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}}}});
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "chosen"}, "data": {"a": "b"}});
    create(hub, ("", "v1", "configmaps"), "default", map).await;
    create(hub, ("policy.karmada.io", "v1alpha1", "propagationpolicies"), "default", policy).await;
    create(hub, DEPLOYMENTS, "default", deployment).await;
}

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
