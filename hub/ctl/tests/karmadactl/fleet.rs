//! With an agent that runs: what is shown of a cluster, and what becomes of its workloads when it leaves.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use karmada_agent::identity::IdentityStore;
use karmada_agent::link::dial::Tcp;
use karmada_agent::member::kube::KubeMember;
use karmada_agent::{Config, LinkView, Parts};
use karmada_certs::JoinToken;
use karmada_interpreter::Native;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::cluster::Cluster;

const SETTINGS: &str = "/api/v1/namespaces/default/configmaps/settings";
const PATIENCE: Duration = Duration::from_secs(60);

/// An agent in this process. It ends when it is dropped.
pub struct Agent {
    stop: CancellationToken,
    _state: TempDir,
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Agent {
    /// Joins `member` to `hub` under `name`, and waits for the session.
    pub async fn start(hub: &Cluster, member: &Cluster, name: &str) -> Agent {
        Agent::start_by(hub, member, name, hub.hub.address.to_string()).await
    }

    /// The same, with this way to the hub.
    pub async fn start_by(hub: &Cluster, member: &Cluster, name: &str, way: String) -> Agent {
        let token = hub.succeed("token create").await;
        let (link, mut seen) = tokio::sync::watch::channel(LinkView::default());
        let config = Config {
            hub: vec![way],
            token: Some(JoinToken::parse(token.trim()).unwrap()),
            pins: vec![hub.hub.data.authorities().signing().pin()],
            cluster_name: name.to_owned(),
            ..Config::default()
        };
        let state = tempfile::tempdir().unwrap();
        let parts = Parts {
            member: Arc::new(KubeMember::connect(Some(&member.hub.data.kubeconfig_file())).await.unwrap()),
            interpreter: Arc::new(Native),
            connector: Arc::new(Tcp),
            identity_store: IdentityStore::Directory(state.path().to_owned()),
            link,
            sources: karmada_agent::ClockAndRandom::system(),
        };
        let stop = CancellationToken::new();
        tokio::spawn(Box::pin(karmada_agent::run(config, parts, stop.clone())));
        let connected = seen.wait_for(|view| matches!(view, LinkView::Connected { .. }));
        tokio::time::timeout(PATIENCE, connected).await.unwrap().unwrap();
        Agent { stop, _state: state }
    }
}

/// Looks until the object at `path` (`None`: none is there) is as `right` says.
pub async fn until(
    cluster: &Cluster,
    what: &str,
    path: &str,
    right: impl Fn(Option<&Value>) -> bool,
) -> Value {
    let started = tokio::time::Instant::now();
    loop {
        let found = cluster.get(path).await;
        if right(found.as_ref()) {
            return found.unwrap_or_default();
        }
        assert!(started.elapsed() < PATIENCE, "{what}: {found:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn is_managed(object: &Value) -> bool {
    object["metadata"]["labels"]["karmada.io/managed"] == "true"
}

pub async fn propagate(hub: &Cluster) {
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"mode": "calm"}});
    hub.create("/api/v1/namespaces/default/configmaps", config).await;
    let selector = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "settings"});
    let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": {"name": "settings"},
        "spec": {"resourceSelectors": [selector], "placement": {"clusterAffinity": {"clusterNames": ["old", "new"]}}}});
    hub.create("/apis/policy.karmada.io/v1alpha1/namespaces/default/propagationpolicies", policy).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_leaves_may_keep_its_workloads_and_has_them_back_under_another_name() {
    let (hub, member) = (Cluster::start().await, Cluster::member().await);
    let old = Agent::start(&hub, &member, "old").await;
    propagate(&hub).await;
    let placed = until(&member, "the ConfigMap", SETTINGS, |found| found.is_some_and(is_managed)).await;

    let leave = format!("unregister old --karmada-config {} --wait 60s", hub.kubeconfig());
    let dry = member.succeed(&format!("{leave} --dry-run")).await;
    assert!(
        dry.contains("cluster old would be deleted; 1 object that the hub placed there is removed"),
        "{dry}"
    );
    assert!(dry.contains("1 ConfigMap"), "{dry}");
    let leave = format!("{leave} --keep-workloads");
    let dry = member.succeed(&format!("{leave} --dry-run")).await;
    assert!(
        dry.contains("1 object that the hub placed there stays, without the hub's marks: 1 ConfigMap"),
        "{dry}"
    );
    let said = member.succeed(&leave).await;
    assert!(said.contains("hub: cluster old removed\n"), "{said}");
    assert!(
        said.contains("member: 1 object that the hub placed there stays, without the hub's marks"),
        "{said}"
    );
    let kept = member.get(SETTINGS).await.unwrap();
    assert_eq!(kept["metadata"]["uid"], placed["metadata"]["uid"]);
    assert!(!is_managed(&kept) && kept["data"]["mode"] == "calm", "{kept}");
    drop(old);

    // Under its new name it takes up what it had, without making it anew.
    let new = Agent::start(&hub, &member, "new").await;
    hub.merge(SETTINGS, json!({"data": {"mode": "brisk"}})).await;
    let again = until(&member, "the ConfigMap under the new name", SETTINGS, |found| {
        found.is_some_and(|found| is_managed(found) && found["data"]["mode"] == "brisk")
    })
    .await;
    assert_eq!(again["metadata"]["uid"], placed["metadata"]["uid"], "it was never away");

    // The wish alone, as an interrupted command leaves it, changes nothing while the Cluster lives.
    let cluster = "/apis/cluster.karmada.io/v1alpha1/clusters/new";
    hub.merge(cluster, json!({"metadata": {"annotations": {"edge.karmada.io/keep-workloads": "true"}}}))
        .await;
    hub.send(Method::DELETE, SETTINGS, "application/json", &Value::Null).await.unwrap();
    until(&member, "the end of the ConfigMap", SETTINGS, |found| found.is_none()).await;
    drop(new);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_leaves_without_the_wish_leaves_nothing() {
    let (hub, member) = (Cluster::start().await, Cluster::member().await);
    let _agent = Agent::start(&hub, &member, "old").await;
    propagate(&hub).await;
    until(&member, "the ConfigMap", SETTINGS, |found| found.is_some_and(is_managed)).await;
    member.succeed(&format!("unregister old --karmada-config {} --wait 60s", hub.kubeconfig())).await;
    assert!(member.get(SETTINGS).await.is_none());
    let events = hub.get("/api/v1/namespaces/default/events").await.unwrap();
    let events = events["items"].as_array().unwrap();
    let told = |reason: &str| {
        events.iter().any(|event| event["reason"] == reason && event["involvedObject"]["name"] == "old")
    };
    assert!(told("ClusterLeaving"), "{events:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_shown_with_what_the_hub_knows_of_its_agent() {
    let (hub, member) = (Cluster::start().await, Cluster::member().await);
    hub.create(
        "/apis/cluster.karmada.io/v1alpha1/clusters",
        json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "away"}, "spec": {"syncMode": "Pull"}}),
    )
    .await;
    let _agent = Agent::start(&hub, &member, "old").await;
    propagate(&hub).await;
    until(&member, "the ConfigMap", SETTINGS, |found| found.is_some_and(is_managed)).await;
    let started = tokio::time::Instant::now();
    let (head, near, away) = loop {
        let table = hub.succeed("get clusters -o wide").await;
        let line =
            |name: &str| table.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
        let lines = (line("NAME"), line("old"), line("away"));
        // The last column: nothing waits any more.
        if lines.1.split_whitespace().last() == Some("0") {
            break lines;
        }
        assert!(started.elapsed() < PATIENCE, "{table}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    for column in ["LAST-SEEN", "AGENT", "TAINTS", "PENDING"] {
        assert!(head.contains(column), "{head}");
    }
    assert!(near.contains(env!("CARGO_PKG_VERSION")), "{near}");
    assert!(away.contains("<unknown>") && away.contains("cluster.karmada.io/not-ready:NoSchedule"), "{away}");
    assert!(!hub.succeed("get clusters").await.contains("PENDING"), "only where it is asked for");

    let page =
        hub.client.request_text(http::Request::get("/metrics").body(Vec::new()).unwrap()).await.unwrap();
    for line in [
        "cluster_ready_state{member_cluster=\"away\"} 0\n",
        "karmada_hub_agent_connected{member_cluster=\"old\"} 1\n",
        "karmada_hub_works_pending{member_cluster=\"old\"} 0\n",
        "karmada_hub_agent_last_contact_timestamp_seconds{member_cluster=\"old\"} ",
        "karmada_hub_sessions 1\n",
        "workqueue_adds_total{name=\"scheduler\"} ",
        "workqueue_queue_duration_seconds_bucket{name=\"binding-controller\",le=\"60\"} ",
        "apiserver_request_total{code=\"201\",component=\"apiserver\",group=\"cluster.karmada.io\",resource=\"clusters\",scope=\"cluster\",subresource=\"\",verb=\"POST\",version=\"v1alpha1\"} 1\n",
        "process_resident_memory_bytes ",
        "process_start_time_seconds ",
    ] {
        assert!(page.contains(line), "{line}: {page}");
    }
    // A path into a member leads there.
    let proxied = hub.get("/apis/cluster.karmada.io/v1alpha1/clusters/old/proxy/api").await;
    assert_eq!(proxied.map(|answer| answer["kind"].clone()), Some(json!("APIVersions")));
}

/// What `kubectl --kubeconfig members.config --context NAME` reads.
async fn of_member(config: &std::path::Path, context: &str, path: &str) -> Result<Value, String> {
    ask_member(config, context, http::Request::get(path)).await
}

async fn ask_member(
    config: &std::path::Path,
    context: &str,
    request: http::request::Builder,
) -> Result<Value, String> {
    let config = kube::config::Kubeconfig::read_from(config).map_err(|error| error.to_string())?;
    let options = kube::config::KubeConfigOptions { context: Some(context.to_owned()), ..Default::default() };
    let config = kube::Config::from_custom_kubeconfig(config, &options).await.unwrap();
    let client = kube::Client::try_from(config).unwrap();
    let answer = client.request(request.body(Vec::new()).unwrap()).await;
    answer.map_err(|error| format!("{error:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demos_members_are_clusters_to_look_at() {
    let stop = CancellationToken::new();
    let demo = tokio::spawn(karmada_hub::demo::run(2, Arc::new(jiff::Timestamp::now), stop.clone()));
    let folder = std::env::temp_dir().join(format!("karmada-demo-{}", std::process::id()));
    let config = folder.join("members.config");
    // The second time round, Pods that somebody deleted have been made again.
    for member in ["member1", "member2", "member1"] {
        let started = tokio::time::Instant::now();
        loop {
            let found = of_member(&config, member, "/api/v1/namespaces/default/pods").await;
            let pods = found.as_ref().ok().and_then(|found| found["items"].as_array().cloned());
            let pods = pods.unwrap_or_default();
            let deployment =
                of_member(&config, member, "/apis/apps/v1/namespaces/default/deployments/nginx").await;
            let ready = deployment.is_ok_and(|deployment| deployment["status"]["readyReplicas"] == 2);
            if ready && pods.len() == 2 && pods.iter().all(|pod| pod["status"]["phase"] == "Running") {
                break;
            }
            assert!(!demo.is_finished(), "the demo ended: {:?}", demo.await);
            assert!(started.elapsed() < PATIENCE, "{member}: {found:?}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        let pods = http::Request::delete("/api/v1/namespaces/default/pods");
        ask_member(&config, member, pods).await.unwrap();
    }
    stop.cancel();
    demo.await.unwrap().unwrap();
    assert!(!folder.exists(), "it leaves nothing behind");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ends_of_certificates_are_shown_and_an_agents_version_outlives_its_session() {
    let (hub, member) = (Cluster::start().await, Cluster::member().await);
    let agent = Agent::start(&hub, &member, "north").await;
    let path = "/apis/cluster.karmada.io/v1alpha1/clusters/north";
    let noted = |found: Option<&Value>| {
        found.is_some_and(|cluster| cluster["metadata"]["annotations"]["edge.karmada.io/agent"].is_string())
    };
    until(&hub, "what is kept of the agent", path, noted).await;
    let ends = hub.succeed("certs check-expiration").await;
    let ca = hub.hub.data.authorities().ends()[0].name.clone();
    for row in ["server ", "admin.kubeconfig ", "agent/north "] {
        let line = ends.lines().find(|line| line.starts_with(row)).unwrap_or_else(|| panic!("{row}: {ends}"));
        assert!(line.ends_with(&ca) && line.contains(" UTC "), "{line}");
    }
    let ten_years = |line: &str| line.contains(" 10y ") || line.contains(" 9y ");
    assert!(ends.lines().any(|line| line.starts_with("ca ") && ten_years(line)), "{ends}");
    drop(agent);
    tokio::time::timeout(PATIENCE, async {
        let sessions = || http::Request::get("/metrics").body(Vec::new()).unwrap();
        while !hub.client.request_text(sessions()).await.unwrap().contains("karmada_hub_sessions 0\n") {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await
    .unwrap();
    let wide = hub.succeed("get clusters -o wide").await;
    assert!(wide.contains(env!("CARGO_PKG_VERSION")), "{wide}");
}

/// More Works than one page of a list has.
const PLANNED: usize = 501;

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_lists_what_a_site_will_do_once_it_is_back() {
    let hub = Cluster::start().await;
    hub.create(
        "/apis/cluster.karmada.io/v1alpha1/clusters",
        json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "away"}, "spec": {"syncMode": "Pull"}}),
    )
    .await;
    let namespace = "/api/v1/namespaces/karmada-es-away";
    until(&hub, "the namespace of its Works", namespace, |found| found.is_some()).await;
    assert_eq!(hub.succeed("plan away").await, "away has everything as the hub wants it\n");
    for at in 0..PLANNED {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "shop", "name": format!("map-{at}")}});
        let work = json!({"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work", "metadata": {"name": format!("work-{at}")},
            "spec": {"workload": {"manifests": [map]}}});
        hub.create("/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-away/works", work).await;
    }
    let plan = hub.succeed("plan away").await;
    let planned = plan.lines().filter(|line| line.starts_with("create ")).count();
    assert_eq!(planned, PLANNED, "{plan}");
    let last = plan.lines().find(|line| line.contains("shop/map-500 ")).unwrap_or_else(|| panic!("{plan}"));
    assert!(last.contains("ConfigMap shop/map-500") && last.contains("work-500"), "{last}");
    assert!(hub.fail("plan nowhere").await.contains("there is no cluster nowhere"));
}
