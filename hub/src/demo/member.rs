//! A member cluster of the demo: the hub's own API server with Kubernetes' kinds alone, in memory, and somebody who plays its
//! controllers and nodes. In: its name. Out: a cluster that agents and kubectl take for one, and the members' kubeconfig.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use futures::FutureExt as _;
use karmada_controllers::port::Api;
use karmada_controllers::workqueues::Workqueues;
use karmada_registry::Clock;
use karmada_schema::object::ObjectKey;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::simulated_controllers;
use crate::registry_api::RegistryApi;
use crate::{AccessSettings, Hub, LifecycleSettings, Serves, Settings, StoreKind};

/// Nodes of a member.
const NODES: usize = 3;

/// A running member.
pub struct Member {
    /// Its name.
    pub name: String,
    /// Its API server.
    pub api: Hub,
}

impl Member {
    /// Starts one that keeps its keys in `directory`.
    pub async fn start(
        name: &str,
        directory: &Path,
        clock: &Clock,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) -> Result<Member> {
        let settings = Settings {
            serves: Serves::Kubernetes,
            accept_data_loss: false,
            encryption: None,
            data_dir: directory.to_owned(),
            listen: ([127, 0, 0, 1], 0).into(),
            advertise: Vec::new(),
            store: StoreKind::Memory,
            controllers: true,
            lifecycle: LifecycleSettings::default(),
            access: AccessSettings::default(),
        };
        let api = Hub::start(&settings, clock.clone()).await.with_context(|| format!("starting {name}"))?;
        for at in 1..=NODES {
            make_node(&api, &format!("{name}-node{at}")).await?;
        }
        let client = RegistryApi::new(
            api.registry.clone(),
            "kube-controller-manager",
            Arc::new(Workqueues::default()),
        );
        let client: Arc<dyn Api> = Arc::new(client);
        tasks.spawn(simulated_controllers::run(client, api.registry.clone(), stop.clone()).boxed());
        Ok(Member { name: name.to_owned(), api })
    }
}

async fn make_node(api: &Hub, name: &str) -> Result<()> {
    let amounts = json!({"cpu": "4", "memory": "8Gi", "pods": "110", "ephemeral-storage": "64Gi"});
    let ready =
        json!({"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "played by the demo"});
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}});
    let status = json!({"capacity": amounts, "allocatable": amounts, "conditions": [ready]});
    super::create(api, ("", "v1", "nodes"), "", node).await?;
    let catalogue = api.registry.catalogue();
    let definition = catalogue.resource("", "v1", "nodes").context("nodes are not served")?;
    let mut options = super::options();
    options.subresource = "status".to_owned();
    let mut change = |live: Option<&Value>| {
        let mut node = live.cloned().unwrap_or_default();
        node["status"] = status.clone();
        Ok(node)
    };
    let written = api.registry.update(definition, &ObjectKey::new("", name), &options, &mut change).await;
    written.map(|_| ()).map_err(|status| anyhow!("making the node {name}: {}", status.message))
}

/// Writes one kubeconfig with a context for each member.
pub fn write_kubeconfig(members: &[Member], file: &Path) -> Result<()> {
    let (mut clusters, mut users, mut contexts) = (Vec::new(), Vec::new(), Vec::new());
    for member in members {
        let own = member.api.data.kubeconfig_file();
        let text = std::fs::read_to_string(&own).with_context(|| format!("reading {}", own.display()))?;
        let config: Value =
            serde_json::from_str(&text).with_context(|| format!("reading {}", own.display()))?;
        let name = &member.name;
        clusters.push(json!({"name": name, "cluster": config["clusters"][0]["cluster"]}));
        users.push(json!({"name": name, "user": config["users"][0]["user"]}));
        contexts.push(json!({"name": name, "context": {"cluster": name, "user": name}}));
    }
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "clusters": clusters, "users": users, "contexts": contexts,
        "current-context": members.first().map(|member| member.name.clone()).unwrap_or_default(),
    });
    karmada_certs::files::write_private(file, config.to_string().as_bytes())
        .with_context(|| format!("writing {}", file.display()))
}
