//! A hub, or an API server with Kubernetes' kinds alone in a member's place, and karmadactl run against it.
//!
//! In: the program's arguments. Out: what it printed; requests of the test's own.

use std::process::Output;
use std::sync::Arc;

use futures::StreamExt;
use http::{Method, Request};
use karmada_hub::{Hub, Serves, Settings, StoreKind};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, WatchEvent, WatchParams};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

/// Where agents are installed.
pub(crate) const NAMESPACE: &str = "edge";

/// One that runs, with its store in memory.
pub(crate) struct Cluster {
    pub(crate) directory: TempDir,
    pub(crate) client: Client,
    pub(crate) hub: Hub,
}

impl Cluster {
    pub(crate) async fn start() -> Cluster {
        Cluster::serving(Serves::Fleet).await
    }

    pub(crate) async fn member() -> Cluster {
        Cluster::serving(Serves::Kubernetes).await
    }

    pub(crate) async fn serving(serves: Serves) -> Cluster {
        let directory = tempfile::tempdir().unwrap();
        let settings = Settings {
            serves,
            data_dir: directory.path().to_owned(),
            listen: "127.0.0.1:0".parse().unwrap(),
            advertise: Vec::new(),
            store: StoreKind::Memory,
            accept_data_loss: false,
            encryption: None,
            access: karmada_hub::AccessSettings::default(),
            controllers: true,
            lifecycle: karmada_hub::LifecycleSettings::default(),
        };
        let hub = Hub::start(&settings, Arc::new(jiff::Timestamp::now)).await.unwrap();
        let kubeconfig = Kubeconfig::read_from(hub.data.kubeconfig_file()).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        Cluster { directory, client: Client::try_from(config).unwrap(), hub }
    }

    pub(crate) fn kubeconfig(&self) -> String {
        self.directory.path().join("admin.kubeconfig").to_str().unwrap().to_owned()
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        kind: &str,
        body: &Value,
    ) -> Result<Value, kube::Error> {
        let request = Request::builder().method(method).uri(path).header("content-type", kind);
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        self.client.request(request.body(body).unwrap()).await
    }

    pub(crate) async fn get(&self, path: &str) -> Option<Value> {
        self.send(Method::GET, path, "application/json", &Value::Null).await.ok()
    }

    pub(crate) async fn create(&self, path: &str, object: Value) -> Value {
        self.send(Method::POST, path, "application/json", &object).await.unwrap()
    }

    pub(crate) async fn merge(&self, path: &str, patch: Value) -> Value {
        self.send(Method::PATCH, path, "application/merge-patch+json", &patch).await.unwrap()
    }

    /// Runs karmadactl with this cluster's kubeconfig.
    pub(crate) fn command(&self, arguments: &str) -> Command {
        self.command_with(arguments, &self.kubeconfig())
    }

    pub(crate) fn command_with(&self, arguments: &str, kubeconfig: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_karmadactl"));
        command.args(arguments.split_whitespace()).args(["--kubeconfig", kubeconfig]).kill_on_drop(true);
        command
    }

    pub(crate) async fn run(&self, arguments: &str) -> Output {
        self.command(arguments).output().await.unwrap()
    }

    pub(crate) async fn succeed(&self, arguments: &str) -> String {
        let output = self.run(arguments).await;
        assert!(output.status.success(), "{arguments}: {}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) async fn fail(&self, arguments: &str) -> String {
        let output = self.run(arguments).await;
        assert!(!output.status.success(), "{arguments} succeeded");
        stderr(&output)
    }

    /// Waits until the agent's Deployment for this token is there.
    pub(crate) async fn installed(&self, token: &str) {
        let id = token.split('.').next().unwrap();
        let kind = kube::api::GroupVersionKind::gvk("apps", "v1", "Deployment");
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), NAMESPACE, &ApiResource::from_gvk(&kind));
        let mut events = Box::pin(api.watch(&WatchParams::default(), "0").await.unwrap());
        while let Some(event) = events.next().await {
            let (WatchEvent::Added(found) | WatchEvent::Modified(found)) = event.unwrap() else { continue };
            let annotations = &found.data["spec"]["template"]["metadata"]["annotations"];
            if annotations["edge.karmada.io/join-token-id"] == id {
                return;
            }
        }
        panic!("the watch ended");
    }

    /// What an agent writes of itself.
    pub(crate) async fn say(&self, state: &str, cause: &str) {
        let said = json!({"state": state, "cause": cause, "message": format!("words of {cause}"), "at": "2026-01-01T00:00:00Z"});
        let patch = json!({"metadata": {"annotations": {"edge.karmada.io/agent-state": said.to_string()}}});
        self.merge(&identity(), patch).await;
    }
}

pub(crate) fn identity() -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/secrets/karmada-agent-identity")
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The printed command's arguments, for a member, with the token.
pub(crate) async fn register_line(hub: &Cluster) -> (String, String) {
    let line = hub.succeed("token create --print-register-command").await;
    let (echoed, line) = line.trim().split_once(" | karmadactl ").unwrap();
    assert!(
        line.starts_with(&format!("register {} --token-file - ", hub.hub.address))
            && line.contains("--discovery-token-ca-cert-hash sha256:")
    );
    let token = echoed.strip_prefix("echo ").unwrap().to_owned();
    let line = line.replace("--token-file -", &format!("--token {token}"));
    (format!("{line} --cluster-name shop -n {NAMESPACE}"), token)
}
