//! `karmada-hub demo`: a hub, agents and embedded members in one process, a sample spread over them, shown as it arrives.
//!
//! In: how many clusters. Out: lines for a person, and two kubeconfigs that work until Ctrl-C: the hub's, and one with a context for
//! each member. It is the real thing: real TLS, real joins by token, real agents, a Kubernetes API for each member. The members keep
//! all in memory, and their Pods are make-believe.

mod member;
mod simulated_controllers;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures::future::BoxFuture;
use karmada_agent::identity::IdentityStore;
use karmada_agent::link::dial::Tcp;
use karmada_agent::member::kube::KubeMember;
use karmada_agent::{Config, LinkView, Parts};
use karmada_certs::JoinToken;
use karmada_interpreter::Chain;
use karmada_registry::{Clock, User, WriteOptions};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::demo::member::Member;
use crate::{AccessSettings, Hub, LifecycleSettings, Serves, Settings, StoreKind};

/// How long a member may take to join, and the sample to arrive everywhere, before the demo gives up.
const SAMPLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Replicas of the sample, two for each cluster.
const REPLICAS_PER_CLUSTER: usize = 2;

/// Runs the demo until `stop`.
///
/// # Errors
/// A part cannot be started, or an agent or the sample is not there in time. All is stopped before it returns.
pub fn run(clusters: usize, clock: Clock, stop: CancellationToken) -> BoxFuture<'static, Result<()>> {
    Box::pin(run_until(clusters, clock, stop))
}

async fn run_until(clusters: usize, clock: Clock, stop: CancellationToken) -> Result<()> {
    let started = Instant::now();
    let directory = Directory::make()?;
    let settings = Settings {
        serves: Serves::Fleet,
        data_dir: directory.0.join("hub"),
        listen: ([127, 0, 0, 1], 0).into(),
        advertise: Vec::new(),
        store: StoreKind::Memory,
        accept_data_loss: false,
        encryption: None,
        controllers: true,
        lifecycle: LifecycleSettings::default(),
        access: AccessSettings::default(),
    };
    let hub = Hub::start(&settings, clock.clone()).await?;
    say(started, &format!("hub          {}", hub.url));
    let tasks = TaskTracker::new();
    let mut members = Vec::new();
    let shown = Box::pin(async {
        for number in 1..=clusters {
            let name = format!("member{number}");
            let keys = directory.0.join(&name).join("api");
            members.push(Member::start(&name, &keys, &clock, &tasks, &stop).await?);
        }
        show(&hub, &members, &directory, started, &tasks, &stop).await
    });
    let outcome = tokio::select! {
        () = stop.cancelled() => Ok(()),
        outcome = shown => outcome,
    };
    if outcome.is_ok() {
        stop.cancelled().await;
    }
    stop.cancel();
    tasks.close();
    tasks.wait().await;
    futures::future::join_all(members.into_iter().map(|member| member.api.stop())).await;
    hub.stop().await;
    outcome
}

/// Starts the agents, spreads the sample, and tells how it goes.
async fn show(
    hub: &Hub,
    members: &[Member],
    directory: &Directory,
    started: Instant,
    tasks: &TaskTracker,
    stop: &CancellationToken,
) -> Result<()> {
    let config = directory.0.join("members.config");
    member::write_kubeconfig(members, &config)?;
    let (token, clusters) = (make_token(hub).await?, members.len());
    let mut links = Vec::new();
    for member in members {
        links.push(start_agent(hub, directory, member, &token, tasks, stop).await?);
    }
    for (member, mut link) in members.iter().zip(links) {
        let connected = link.wait_for(|view| matches!(view, LinkView::Connected { .. }));
        tokio::time::timeout(SAMPLE_TIMEOUT, connected)
            .await
            .with_context(|| format!("{} did not connect", member.name))??;
        await_placeable(hub, &member.name).await?;
        say(started, &format!("{:<12} joined over TLS", member.name));
    }
    apply_sample(hub, clusters).await?;
    say(started, "sample       deployment/nginx and a PropagationPolicy applied");
    watch_sample(hub, clusters, started).await?;
    invite(hub, &config);
    Ok(())
}

async fn start_agent(
    hub: &Hub,
    directory: &Directory,
    member: &Member,
    token: &JoinToken,
    tasks: &TaskTracker,
    stop: &CancellationToken,
) -> Result<tokio::sync::watch::Receiver<LinkView>> {
    let name = &member.name;
    let state = directory.0.join(name).join("agent");
    std::fs::create_dir_all(&state).with_context(|| format!("making {}", state.display()))?;
    let (link, seen) = tokio::sync::watch::channel(LinkView::default());
    let config = Config {
        hub: vec![hub.address.to_string()],
        token: Some(token.clone()),
        pins: vec![hub.data.authorities().signing().pin()],
        cluster_name: name.clone(),
        ..Config::default()
    };
    let parts = Parts {
        member: Arc::new(KubeMember::connect(Some(&member.api.data.kubeconfig_file())).await?),
        interpreter: Arc::new(Chain::default()),
        connector: Arc::new(Tcp),
        identity_store: IdentityStore::Directory(state),
        link,
        sources: karmada_agent::ClockAndRandom::system(),
    };
    let (name, stop) = (name.clone(), stop.clone());
    tasks.spawn(async move {
        if let Err(error) = karmada_agent::run(config, parts, stop).await {
            tracing::error!(cluster = name, %error, "an agent of the demo ended");
        }
    });
    Ok(seen)
}

fn options() -> WriteOptions {
    let user = User { name: "demo".to_owned(), groups: vec!["system:masters".to_owned()], ..User::default() };
    WriteOptions { user, field_manager: "karmada-hub-demo".to_owned(), ..WriteOptions::default() }
}

async fn create(hub: &Hub, api: (&str, &str, &str), namespace: &str, object: Value) -> Result<()> {
    let catalogue = hub.registry.catalogue();
    let definition = catalogue.resource(api.0, api.1, api.2).context("a kind of the demo is not served")?;
    let created = hub.registry.create(definition, namespace, object, &options()).await;
    created.map(|_| ()).map_err(|status| anyhow!("making a {}: {}", definition.kind, status.message))
}

/// A join token, as `karmadactl token create` makes it.
async fn make_token(hub: &Hub) -> Result<JoinToken> {
    let token = JoinToken::generate(&mut crate::randomness::generator());
    let field = |text: &str| BASE64.encode(text);
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
        "metadata": {"name": format!("bootstrap-token-{}", token.id()), "namespace": "kube-system"},
        "data": {
            "token-id": field(token.id()), "token-secret": field(token.secret()),
            "usage-bootstrap-authentication": field("true"), "usage-bootstrap-signing": field("true"),
            "auth-extra-groups": field("system:bootstrappers:karmada:default-cluster-token"),
        },
    });
    create(hub, ("", "v1", "secrets"), "kube-system", secret).await?;
    Ok(token)
}

async fn apply_sample(hub: &Hub, clusters: usize) -> Result<()> {
    let labels = json!({"app": "nginx"});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "nginx", "labels": labels},
        "spec": {"replicas": REPLICAS_PER_CLUSTER * clusters, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "nginx", "image": "nginx"}]}}},
    });
    let policy = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": {"name": "nginx"},
        "spec": {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "nginx"}],
            "placement": {"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}},
        },
    });
    create(hub, ("policy.karmada.io", "v1alpha1", "propagationpolicies"), "default", policy).await?;
    create(hub, ("apps", "v1", "deployments"), "default", deployment).await
}

/// Waits until workloads can be placed on a Cluster: what is placed before goes to the others, and stays there.
async fn await_placeable(hub: &Hub, name: &str) -> Result<()> {
    let catalogue = hub.registry.catalogue();
    let clusters = catalogue.resource("cluster.karmada.io", "v1alpha1", "clusters");
    let clusters = clusters.context("clusters are not served")?;
    let begun = Instant::now();
    loop {
        let cluster = hub.registry.get(clusters, "", name).map(|cluster| cluster.value()).unwrap_or_default();
        if placeable(&cluster) {
            return Ok(());
        }
        if begun.elapsed() > SAMPLE_TIMEOUT {
            return Err(anyhow!("{name} did not become ready in {} s", SAMPLE_TIMEOUT.as_secs()));
        }
        let next = hub.registry.cache().revision() + 1;
        let _ = tokio::time::timeout(Duration::from_millis(200), hub.registry.cache().wait_for(next)).await;
    }
}

/// Ready, and the taint of before is off: the hub takes that away by a write of its own, after the one that says Ready.
fn placeable(cluster: &Value) -> bool {
    let mut conditions = cluster["status"]["conditions"].as_array().into_iter().flatten();
    let tainted = cluster["spec"]["taints"].as_array().is_some_and(|taints| !taints.is_empty());
    conditions.any(|one| one["type"] == "Ready" && one["status"] == "True") && !tainted
}

/// Tells of the sample's replicas as the hub's own Deployment shows them, until all are ready.
async fn watch_sample(hub: &Hub, clusters: usize, started: Instant) -> Result<()> {
    let catalogue = hub.registry.catalogue();
    let definition = catalogue.resource("apps", "v1", "deployments").context("deployments are not served")?;
    let wanted = (REPLICAS_PER_CLUSTER * clusters) as i64;
    let (mut told, begun) = (-1, Instant::now());
    loop {
        let nginx =
            hub.registry.get(definition, "default", "nginx").map_err(|status| anyhow!(status.message))?;
        let ready = nginx.value()["status"]["readyReplicas"].as_i64().unwrap_or(0);
        if ready != told {
            say(started, &format!("nginx        {ready}/{wanted} ready over {clusters} clusters"));
            told = ready;
        }
        if ready == wanted {
            return Ok(());
        }
        if begun.elapsed() > SAMPLE_TIMEOUT {
            return Err(anyhow!("the sample did not become ready in {} s", SAMPLE_TIMEOUT.as_secs()));
        }
        let next = hub.registry.cache().revision() + 1;
        let _ = tokio::time::timeout(Duration::from_millis(200), hub.registry.cache().wait_for(next)).await;
    }
}

#[allow(clippy::print_stdout, reason = "the demo talks to a person")]
fn say(started: Instant, line: &str) {
    println!("{:>5.1} s  {line}", started.elapsed().as_secs_f32());
}

#[allow(clippy::print_stdout, reason = "the demo talks to a person")]
fn invite(hub: &Hub, members: &Path) {
    println!(
        "
  export KUBECONFIG={}
  MEMBERS={}

  kubectl get clusters
  kubectl get deployment nginx --watch
  kubectl scale deployment nginx --replicas=9
  kubectl get resourcebinding nginx-deployment -o jsonpath='{{.spec.clusters}}'
  kubectl get works -A
  kubectl --kubeconfig $MEMBERS --context member1 get deployments,pods

  Ctrl-C ends it all.",
        hub.data.kubeconfig_file().display(),
        members.display()
    );
}

/// A folder of the demo's own, gone with it.
struct Directory(PathBuf);

impl Directory {
    fn make() -> Result<Directory> {
        let path = std::env::temp_dir().join(format!("karmada-demo-{}", std::process::id()));
        std::fs::create_dir_all(&path).with_context(|| format!("making {}", path.display()))?;
        Ok(Directory(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_takes_workloads_once_it_is_ready_and_untainted() {
        let cluster = |ready: &str, taints: Value| json!({"spec": {"taints": taints}, "status": {"conditions": [{"type": "Ready", "status": ready}]}});
        assert!(placeable(&cluster("True", Value::Null)) && placeable(&cluster("True", json!([]))));
        let tainted = json!([{"key": "cluster.karmada.io/not-ready", "effect": "NoSchedule"}]);
        assert!(!placeable(&cluster("True", tainted)), "Ready is written first, the taint goes after it");
        assert!(!placeable(&cluster("False", json!([]))) && !placeable(&Value::Null));
    }
}
