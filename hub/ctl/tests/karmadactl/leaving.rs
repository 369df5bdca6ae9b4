//! A cluster on its way out: one whose site is dead, and one that is still connected while it leaves.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::cluster::Cluster;
use crate::fleet::{Agent, propagate, until};

const CLUSTER: &str = "/apis/cluster.karmada.io/v1alpha1/clusters/old";
const WORKS: &str = "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-old/works";
const BINDING: &str = "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings/settings-configmap";

fn config(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}})
}

fn config_path(name: &str) -> String {
    format!("/api/v1/namespaces/default/configmaps/{name}")
}

/// As the binding controller makes it: it stays until its site, or somebody for it, lets go.
fn work(name: &str) -> Value {
    let metadata = json!({"name": name, "finalizers": ["karmada.io/execution-controller"]});
    json!({"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work", "metadata": metadata,
        "spec": {"workload": {"manifests": [config(name)]}}})
}

/// A way to `target` on which nothing passes any more once the token is cancelled, and nothing is closed: as of a site without power.
async fn way_to(target: std::net::SocketAddr) -> (String, CancellationToken) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, dead) = (listener.local_addr().unwrap().to_string(), CancellationToken::new());
    let ends = dead.clone();
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let ends = ends.clone();
            tokio::spawn(async move {
                let mut far = TcpStream::connect(target).await.unwrap();
                let passes = tokio::io::copy_bidirectional(&mut near, &mut far);
                if ends.run_until_cancelled(passes).await.is_none() {
                    std::future::pending::<()>().await;
                }
            });
        }
    });
    (address, dead)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forced_unregister_of_a_dead_site_with_works_ends_within_its_wait_and_leaves_nothing() {
    let (hub, member) = (Cluster::start().await, Cluster::member().await);
    let (way, dead) = way_to(hub.hub.address).await;
    let agent = Agent::start_by(&hub, &member, "old", way).await;
    propagate(&hub).await;
    for at in 0..40 {
        hub.create(WORKS, work(&format!("w{at}"))).await;
    }
    for name in ["settings", "w0", "w39"] {
        until(&member, "what is placed", &config_path(name), |found| found.is_some()).await;
    }
    // The hub still takes the site for connected; the member answers nobody.
    dead.cancel();
    drop(agent);
    let (config, nobody) = (hub.kubeconfig(), tempfile::tempdir().unwrap());
    let silent = nobody.path().join("member.kubeconfig");
    let text = std::fs::read_to_string(member.kubeconfig()).unwrap();
    let text = text.replace(&member.hub.address.to_string(), "127.0.0.1:1");
    assert!(text.contains("127.0.0.1:1"), "{text}");
    std::fs::write(&silent, text).unwrap();
    let leave = format!("unregister old --force --karmada-config {config} --wait 30s");
    let started = Instant::now();
    let output = hub.command_with(&leave, silent.to_str().unwrap()).output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &crate::cluster::stderr(&output);
    assert!(output.status.success(), "{said}");
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
    assert!(said.contains("cluster old removed") && said.contains("nothing is removed there"), "{said}");
    assert!(hub.get(CLUSTER).await.is_none());
    assert!(hub.get(WORKS).await.unwrap()["items"].as_array().unwrap().is_empty());
    until(&hub, "the end of its namespace", "/api/v1/namespaces/karmada-es-old", |found| found.is_none())
        .await;
    let binding = hub.get(BINDING).await.unwrap();
    assert!(!binding["spec"]["clusters"].to_string().contains("old"), "{binding}");
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    for role in ["clusterroles/system:karmada:old:agent", "clusterrolebindings/system:karmada:old:agent"] {
        assert!(hub.get(&format!("{rbac}/{role}")).await.is_none(), "{role}");
    }
    assert!(hub.get("/apis/coordination.k8s.io/v1/namespaces/karmada-cluster/leases/old").await.is_none());
}

/// The namespace closes first. What asks for the site meanwhile is refused or goes elsewhere; the stream that stands brings it nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_in_deletion_is_sent_no_new_work_over_its_stream() {
    let (hub, member) = (Cluster::start().await, Cluster::member().await);
    let _agent = Agent::start(&hub, &member, "old").await;
    hub.create(WORKS, work("held")).await;
    until(&member, "what is placed", &config_path("held"), |found| found.is_some()).await;
    // The member lets the object go only later, and so the Cluster stays, and its session.
    member.merge(&config_path("held"), json!({"metadata": {"finalizers": ["example.com/later"]}})).await;
    hub.send(http::Method::DELETE, CLUSTER, "application/json", &Value::Null).await.unwrap();
    let deleting =
        |found: Option<&Value>| found.is_some_and(|o| o["metadata"]["deletionTimestamp"].is_string());
    until(&member, "the delete on its way", &config_path("held"), deleting).await;
    let refused = hub.send(http::Method::POST, WORKS, "application/json", &work("new")).await.unwrap_err();
    assert!(refused.to_string().contains("being terminated"), "{refused}");
    // By a policy that names it, placed by hand, and by a Work that is there already and says something new.
    propagate(&hub).await;
    until(&hub, "the binding", BINDING, |found| found.is_some()).await;
    hub.merge(BINDING, json!({"spec": {"clusters": [{"name": "old"}]}})).await;
    let more = json!({"spec": {"workload": {"manifests": [config("held"), config("new")]}}});
    hub.merge(&format!("{WORKS}/held"), more).await;
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(5) {
        for name in ["settings", "new"] {
            assert!(
                member.get(&config_path(name)).await.is_none(),
                "{name} was brought to a site that leaves"
            );
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let page = http::Request::get("/metrics").body(Vec::new()).unwrap();
    let page = hub.client.request_text(page).await.unwrap();
    assert!(page.contains("karmada_hub_agent_connected{member_cluster=\"old\"} 1\n"), "the stream stands");
    member.merge(&config_path("held"), json!({"metadata": {"finalizers": null}})).await;
    until(&hub, "the end of the Cluster", CLUSTER, |found| found.is_none()).await;
    assert!(member.get(&config_path("new")).await.is_none());
}
