//! `karmadactl unregister`: what it takes away, from whom, and what it says of what it does not.

use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use kube::config::Kubeconfig;
use serde_json::{Value, json};

use crate::cluster::{Cluster, NAMESPACE, identity, register_line};

#[tokio::test(flavor = "multi_thread")]
async fn unregister_leaves_a_namespace_that_holds_anything_of_anybody_elses() {
    let (hub, member) = (Cluster::start().await, Cluster::member().await);
    let (line, token) = register_line(&hub).await;
    let line = format!("{line} --permissions namespaced --workload-namespaces shop,empty");
    let running = member.command(&line).spawn().unwrap();
    member.installed(&token).await;
    member.say("Connected", "").await;
    assert!(running.wait_with_output().await.unwrap().status.success());
    // A kind that no list of ours names.
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "theirs"}, "spec": {}});
    member.create("/apis/coordination.k8s.io/v1/namespaces/shop/leases", lease).await;
    let leave = format!("unregister shop -n {NAMESPACE} --karmada-config {} --wait 5s", hub.kubeconfig());
    let said = member.succeed(&leave).await;
    assert!(said.contains("namespace shop stays: it holds leases/theirs and 0 more"), "{said}");
    let namespace = async |name: &str| member.get(&format!("/api/v1/namespaces/{name}")).await;
    let stays = namespace("shop").await.unwrap();
    assert!(stays["metadata"]["deletionTimestamp"].is_null());
    assert!(namespace("empty").await.is_none_or(|found| !found["metadata"]["deletionTimestamp"].is_null()));
}

#[tokio::test(flavor = "multi_thread")]
async fn unregister_takes_no_other_clusters_agent_away() {
    let (hub, member) = (Cluster::start().await, Cluster::member().await);
    let (line, token) = register_line(&hub).await;
    let running = member.command(&line).spawn().unwrap();
    member.installed(&token).await;
    member.say("Connected", "").await;
    assert!(running.wait_with_output().await.unwrap().status.success());
    let clusters = "/apis/cluster.karmada.io/v1alpha1/clusters";
    let other = |id: &str| {
        json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "other"},
            "spec": {"syncMode": "Pull", "id": id}})
    };
    // The agent of this member is in a namespace of its own, which is not named here.
    let config = format!("--karmada-config {} --wait 5s", hub.kubeconfig());
    hub.create(clusters, other("")).await;
    let wrong = member.fail(&format!("unregister other {config}")).await;
    assert!(
        wrong.contains(&format!("namespace {NAMESPACE}, is that of the cluster shop, not of other")),
        "{wrong}"
    );
    let elsewhere = member.fail(&format!("unregister shop {config}")).await;
    assert!(elsewhere.contains(&format!("give -n {NAMESPACE}")), "{elsewhere}");
    hub.merge(&format!("{clusters}/other"), json!({"spec": {"id": "another-uid"}})).await;
    let wrong = member.fail(&format!("unregister other -n {NAMESPACE} {config}")).await;
    assert!(wrong.contains("the hub knows other by another-uid") && wrong.contains("--force"), "{wrong}");
    for path in [identity(), format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments/karmada-agent")] {
        assert!(member.get(&path).await.is_some(), "{path}");
    }
    assert!(hub.get(&format!("{clusters}/other")).await.is_some());
    member.succeed(&format!("unregister other -n {NAMESPACE} {config} --force")).await;
    assert!(hub.get(&format!("{clusters}/other")).await.is_none());
    assert!(member.get(&identity()).await.is_some(), "the other member's is left alone");
}

#[tokio::test(flavor = "multi_thread")]
async fn unregister_says_what_nobody_removed() {
    let (hub, member) = (Cluster::start().await, Cluster::member().await);
    let clusters = "/apis/cluster.karmada.io/v1alpha1/clusters";
    let spec = json!({"syncMode": "Pull"});
    hub.create(clusters, json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "shop"}, "spec": spec})).await;
    let works = "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-shop/works";
    let mut placed = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "left", "namespace": "default"}});
    let work = json!({"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work", "metadata": {"name": "w"},
        "spec": {"workload": {"manifests": [placed]}}});
    while hub.get("/api/v1/namespaces/karmada-es-shop").await.is_none() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    hub.create(works, work).await;
    while hub.get(&format!("{works}/w")).await.unwrap()["metadata"]["finalizers"].is_null() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    placed["metadata"]["annotations"] =
        json!({"work.karmada.io/namespace": "karmada-es-shop", "work.karmada.io/name": "w"});
    member.create("/api/v1/namespaces/default/configmaps", placed).await;
    let silent = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "ClusterStatusUnknown",
        "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    hub.merge(&format!("{clusters}/shop/status"), silent).await;
    let leave = format!("unregister shop --karmada-config {} --wait 20s", hub.kubeconfig());
    let refused = member.fail(&leave).await;
    assert!(
        refused.contains("does not hear the agent of shop") && refused.contains("(1 objects)"),
        "{refused}"
    );
    assert!(hub.get(&format!("{clusters}/shop")).await.unwrap()["metadata"]["deletionTimestamp"].is_null());
    let heard = json!({"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "ClusterReady",
        "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    hub.merge(&format!("{clusters}/shop/status"), heard).await;
    // Nobody is there to remove what it placed, and somebody lets the Work go: the hub itself, where it finds once more that it does not
    // hear the agent.
    let let_go = async {
        let at = format!("{works}/w");
        loop {
            match hub.get(&at).await {
                Some(work) if work["metadata"]["deletionTimestamp"].is_null() => {}
                Some(_) => break hub.merge(&at, json!({"metadata": {"finalizers": null}})).await,
                None => break Value::Null,
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let (said, _) = tokio::join!(member.fail(&leave), let_go);
    assert!(
        said.contains("shop is unregistered, but 1 objects") && said.contains("ConfigMap default/left"),
        "{said}"
    );
    assert!(hub.get(&format!("{clusters}/shop")).await.is_none());
}

/// Has `member` joined to `hub` as `shop`.
async fn joined(hub: &Cluster, member: &Cluster, flags: &str) {
    let (line, token) = register_line(hub).await;
    let running = member.command(&format!("{line} {flags}")).spawn().unwrap();
    member.installed(&token).await;
    member.say("Connected", "").await;
    assert!(running.wait_with_output().await.unwrap().status.success());
}

/// A cluster of that name that two hubs know.
fn shop() -> Value {
    json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "shop"}, "spec": {"syncMode": "Pull"}})
}

fn agent() -> String {
    format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments/karmada-agent")
}

const CLUSTERS: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";

#[tokio::test(flavor = "multi_thread")]
async fn unregister_takes_no_other_hubs_agent_away() {
    let (own, other, member) = (Cluster::start().await, Cluster::start().await, Cluster::member().await);
    joined(&own, &member, "").await;
    own.create(CLUSTERS, shop()).await;
    other.create(CLUSTERS, shop()).await;
    let leave = |hub: &Cluster| {
        format!("unregister shop -n {NAMESPACE} --karmada-config {} --wait 5s", hub.kubeconfig())
    };
    let wrong = member.fail(&leave(&other)).await;
    assert!(
        wrong.contains("is that of another hub") && wrong.contains(&own.hub.address.to_string()),
        "{wrong}"
    );
    assert!(other.get(&format!("{CLUSTERS}/shop")).await.is_some() && member.get(&agent()).await.is_some());
    let said = member.succeed(&format!("{} --force", leave(&other))).await;
    assert!(said.contains("nothing is removed there"), "{said}");
    assert!(other.get(&format!("{CLUSTERS}/shop")).await.is_none() && member.get(&agent()).await.is_some());
    // After a change of the CA the agent trusts another one than that by which it joined.
    let trusted =
        Kubeconfig::read_from(other.hub.data.kubeconfig_file()).unwrap().clusters[0].cluster.clone().unwrap();
    let ca = BASE64.decode(trusted.certificate_authority_data.unwrap()).unwrap();
    let bundle = json!({"ca_bundle": String::from_utf8(ca).unwrap()});
    member.merge(&identity(), json!({"data": {"identity.json": BASE64.encode(bundle.to_string())}})).await;
    member.succeed(&leave(&other)).await;
    assert!(member.get(&agent()).await.is_none());
}

/// A definition of a kind of `example.com` that is served as `versions`, of which the first is stored.
fn definition(kind: &str, versions: &[&str]) -> Value {
    let plural = format!("{}s", kind.to_lowercase());
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let versions: Vec<Value> = versions
        .iter()
        .enumerate()
        .map(|(at, name)| json!({"name": name, "served": true, "storage": at == 0, "schema": schema}))
        .collect();
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {"group": "example.com", "scope": "Namespaced", "versions": versions,
            "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind}}})
}

impl Cluster {
    /// Makes a kind, and waits until it is served.
    async fn define(&self, kind: &str, versions: &[&str]) {
        self.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition(kind, versions))
            .await;
        let path = format!("/apis/example.com/{}/namespaces/default/{}s", versions[0], kind.to_lowercase());
        while self.get(&path).await.is_none() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_only_another_version_than_the_preferred_one_has_keeps_a_namespace_too() {
    let (hub, member) = (Cluster::start().await, Cluster::member().await);
    joined(&hub, &member, "--permissions namespaced --workload-namespaces shop").await;
    member.define("Gadget", &["v1"]).await;
    member.define("Widget", &["v1alpha1"]).await;
    let theirs =
        json!({"apiVersion": "example.com/v1alpha1", "kind": "Widget", "metadata": {"name": "theirs"}});
    member.create("/apis/example.com/v1alpha1/namespaces/shop/widgets", theirs).await;
    let leave = format!("unregister shop -n {NAMESPACE} --karmada-config {} --wait 5s", hub.kubeconfig());
    let said = member.succeed(&leave).await;
    assert!(said.contains("namespace shop stays: it holds widgets/theirs and 0 more"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_is_named_in_a_version_that_is_served_no_more() {
    let (hub, member) = (Cluster::start().await, Cluster::member().await);
    hub.create(CLUSTERS, shop()).await;
    member.define("Widget", &["v1"]).await;
    let placed = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "left", "namespace": "default",
        "annotations": {"work.karmada.io/namespace": "karmada-es-shop", "work.karmada.io/name": "w"}}});
    member.create("/apis/example.com/v1/namespaces/default/widgets", placed.clone()).await;
    let mut older = placed;
    older["apiVersion"] = json!("example.com/v1beta1");
    let work = json!({"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work", "metadata": {"name": "w"},
        "spec": {"workload": {"manifests": [older]}}});
    while hub.get("/api/v1/namespaces/karmada-es-shop").await.is_none() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    hub.create("/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-shop/works", work).await;
    let leave = format!("unregister shop --karmada-config {} --wait 20s --force", hub.kubeconfig());
    let said = member.succeed(&leave).await;
    assert!(
        said.contains("1 objects that the hub placed there are there yet")
            && said.contains("Widget default/left"),
        "{said}"
    );
}

/// A kubeconfig as the hub's, that leads to `address`.
fn leading_to(address: &str, hub: &Cluster) -> String {
    let text = std::fs::read_to_string(hub.kubeconfig()).unwrap();
    let file = hub.directory.path().join(format!("to-{}", address.replace(':', "-")));
    std::fs::write(&file, text.replace(&hub.hub.address.to_string(), address)).unwrap();
    file.to_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn with_force_a_hub_that_is_gone_keeps_nobody() {
    let hub = Cluster::start().await;
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gone = closed.local_addr().unwrap().to_string();
    drop(closed);
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mute = silent.local_addr().unwrap().to_string();
    let _held = tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = silent.accept().await {
            held.push(stream);
        }
    });
    for address in [gone, mute] {
        let member = Cluster::member().await;
        joined(&hub, &member, "").await;
        let line = format!(
            "unregister shop -n {NAMESPACE} --karmada-config {} --wait 6s",
            leading_to(&address, &hub)
        );
        let began = Instant::now();
        let said = member.succeed(&format!("{line} --force")).await;
        assert!(began.elapsed() < Duration::from_secs(7), "{:?}", began.elapsed());
        for words in [
            "the cluster shop is still registered there",
            "stays there, with the hub's marks",
            "unregister shop --force",
        ] {
            assert!(said.contains(words), "{words}: {said}");
        }
        assert!(member.get(&agent()).await.is_none() && member.get(&identity()).await.is_none());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unregister_says_where_nothing_was_there() {
    let (hub, member) = (Cluster::start().await, Cluster::member().await);
    for flags in ["", " --dry-run"] {
        let leave = format!("unregister nope --karmada-config {} --wait 5s{flags}", hub.kubeconfig());
        let said = member.succeed(&leave).await;
        assert!(said.contains("hub: cluster nope is not registered"), "{said}");
        assert!(said.contains("member: there is no agent in the namespace karmada-system"), "{said}");
        assert!(said.contains("nothing is removed") && !said.contains("are removed"), "{said}");
    }
}
