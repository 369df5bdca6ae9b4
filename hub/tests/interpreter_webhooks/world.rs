//! A hub and a member with its agent, in this process, and what is written to the hub and looked at there.
//!
//! In: objects. Out: what became of them, once it did.

use std::sync::Arc;
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

pub(crate) type Resource = (&'static str, &'static str, &'static str);

pub(crate) const DEPLOYMENTS: Resource = ("apps", "v1", "deployments");
pub(crate) const BINDINGS: Resource = ("work.karmada.io", "v1alpha2", "resourcebindings");
pub(crate) const CONFIGURATIONS: Resource =
    ("config.karmada.io", "v1alpha1", "resourceinterpreterwebhookconfigurations");

/// What is looked at is there within this.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn options(subresource: &str) -> WriteOptions {
    let user = User { name: "test".into(), groups: vec!["system:masters".into()], ..User::default() };
    WriteOptions {
        user,
        subresource: subresource.into(),
        field_manager: "test".into(),
        ..WriteOptions::default()
    }
}

pub(crate) async fn create(hub: &Hub, of: Resource, namespace: &str, object: Value) {
    let definition = hub.registry.definition(of.0, of.1, of.2).unwrap();
    let created = hub.registry.create(&definition, namespace, object, &options("")).await;
    created.unwrap_or_else(|status| panic!("{}: {}", of.2, status.message));
}

pub(crate) async fn change(
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

pub(crate) async fn forget_hooks(hub: &Hub) {
    let definition = hub.registry.definition(CONFIGURATIONS.0, CONFIGURATIONS.1, CONFIGURATIONS.2).unwrap();
    let (key, user) = (ObjectKey::new("", "hooks"), options("").user);
    hub.registry.delete(&definition, &key, &DeleteOptions::default(), &user).await.unwrap();
}

pub(crate) fn get(hub: &Hub, of: Resource, namespace: &str, name: &str) -> Option<Value> {
    let definition = hub.registry.definition(of.0, of.1, of.2).unwrap();
    hub.registry.get(&definition, namespace, name).ok().map(|object| object.value())
}

/// Waits until an object is as it should be.
pub(crate) async fn until(
    hub: &Hub,
    of: Resource,
    name: &str,
    what: &str,
    is_so: impl Fn(&Value) -> bool,
) -> Value {
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
pub(crate) struct World {
    pub(crate) hub: Hub,
    pub(crate) member: Hub,
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
    pub(crate) async fn start() -> World {
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

    pub(crate) async fn end(self) {
        self.stop.cancel();
        self.member.stop().await;
        self.hub.stop().await;
    }
}

pub(crate) fn configuration(client: &Value, operations: &[&str], seconds: u64) -> Value {
    let rules = json!([{"apiGroups": ["apps"], "apiVersions": ["v1"], "kinds": ["Deployment"], "operations": operations}]);
    json!({"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterWebhookConfiguration", "metadata": {"name": "hooks"},
        "webhooks": [{"name": "deployments.example.com", "clientConfig": client, "timeoutSeconds": seconds, "rules": rules,
            "interpreterContextVersions": ["v1alpha1"]}]})
}

pub(crate) async fn apply_sample(hub: &Hub) {
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
