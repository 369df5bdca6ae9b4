//! What people do to clusters that are there, and to agents that ask to be let in.

use serde_json::{Value, json};

use crate::cluster::Cluster;

#[tokio::test(flavor = "multi_thread")]
async fn adopt_and_refuse_decide_about_keys_that_ask() {
    let hub = Cluster::start().await;
    let (held, asking) = ("1".repeat(64), "a".repeat(64));
    let asks = json!([{"key": asking, "uid": "u2", "since": "2026-01-01T00:00:00Z"}]).to_string();
    let notes = json!({"edge.karmada.io/agent-key": held, "edge.karmada.io/key-request": asks});
    let clusters = "/apis/cluster.karmada.io/v1alpha1/clusters";
    hub.create(
        clusters,
        json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
            "metadata": {"name": "shop", "annotations": notes}, "spec": {"syncMode": "Pull", "id": "u1"}}),
    )
    .await;
    let shop = format!("{clusters}/shop");
    let key = async || {
        hub.get(&shop).await.unwrap()["metadata"]["annotations"]["edge.karmada.io/agent-key"].clone()
    };
    assert!(hub.fail("adopt nowhere").await.contains("there is no cluster nowhere"));
    assert!(hub.fail("adopt shop --key bbbbbbbb").await.contains("0 keys that ask"));
    assert!(hub.succeed("refuse shop").await.contains("refused"));
    assert_eq!(key().await, *held);
    assert!(hub.fail("adopt shop").await.contains("0 keys wait"), "a refused one is named to be adopted");
    assert!(hub.succeed("adopt shop --key aaaaaaaa").await.contains("adopted"));
    assert_eq!(key().await, *asking);
    assert_eq!(hub.get(&shop).await.unwrap()["spec"]["id"], "u2");
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_are_shown_cordoned_tainted_and_deleted() {
    let hub = Cluster::start().await;
    let path = "/apis/cluster.karmada.io/v1alpha1/clusters";
    let cluster = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "shop"}, "spec": {"syncMode": "Pull"}});
    hub.create(path, cluster).await;
    let taints = async || {
        let cluster = hub.get(&format!("{path}/shop")).await.unwrap();
        let all = cluster["spec"]["taints"].as_array().cloned().unwrap_or_default();
        all.iter()
            .map(|t| format!("{}:{}", t["key"].as_str().unwrap(), t["effect"].as_str().unwrap()))
            // The hub's own judgement of a cluster without an agent.
            .filter(|t| {
                !t.starts_with("cluster.karmada.io/not-ready")
                    && !t.starts_with("cluster.karmada.io/unreachable")
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(hub.succeed("cordon shop").await, "shop cluster cordoned\n");
    assert_eq!(hub.succeed("cordon shop").await, "shop cluster already cordoned\n");
    assert_eq!(taints().await, ["cluster.karmada.io/unschedulable:NoSchedule"]);
    hub.succeed("taint clusters shop site=edge:NoExecute").await;
    assert!(hub.fail("taint clusters shop site=core:NoExecute").await.contains("--overwrite"));
    assert_eq!(hub.succeed("uncordon shop").await, "shop cluster uncordoned\n");
    assert_eq!(taints().await, ["site:NoExecute"]);
    assert_eq!(hub.succeed("taint clusters shop site-").await, "cluster/shop untainted\n");
    assert!(taints().await.is_empty());
    assert!(hub.fail("cordon store").await.contains("there is no cluster store"));

    let table = hub.succeed("get clusters").await;
    assert!(table.starts_with("NAME ") || table.starts_with("NAME\n"), "{table}");
    assert!(table.contains("\nshop"), "{table}");
    assert_eq!(hub.succeed("get clusters -o name").await, "cluster.cluster.karmada.io/shop\n");
    let object: Value = serde_json::from_str(&hub.succeed("get cluster shop -o json").await).unwrap();
    assert_eq!((&object["kind"], &object["spec"]["syncMode"]), (&json!("Cluster"), &json!("Pull")));
    assert!(hub.succeed("get cluster shop -o yaml").await.contains("syncMode: Pull"));
    assert_eq!(hub.succeed("delete cluster shop").await, "cluster.cluster.karmada.io \"shop\" deleted\n");
    assert!(hub.fail("get cluster shop").await.contains("not found"));
    assert!(hub.fail("get nosuch").await.contains("doesn't have a resource type"));
    assert!(hub.fail("get clusters --context nosuch").await.contains("there are: karmada-apiserver"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_word_to_a_cluster_that_is_not_there_or_away_or_said_twice_has_words() {
    let hub = Cluster::start().await;
    let all = [
        "confirm nowhere --batch 3/7/1f",
        "release w --cluster nowhere",
        "adopt nowhere",
        "refuse nowhere",
        "cordon nowhere",
        "uncordon nowhere",
        "orphans nowhere",
        "orphans nowhere --all --delete",
        "taint clusters nowhere a=b:NoSchedule",
    ];
    for line in all {
        let said = hub.fail(line).await;
        assert!(
            said.contains("there is no cluster nowhere") && said.contains("karmadactl get clusters"),
            "{line}: {said}"
        );
    }
    let clusters = "/apis/cluster.karmada.io/v1alpha1/clusters";
    let note = json!({"edge.karmada.io/orphans": json!({"a": "undecided", "b": "undecided"}).to_string()});
    hub.create(
        clusters,
        json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": {"name": "shop", "annotations": note}, "spec": {"syncMode": "Pull"}}),
    )
    .await;
    let away = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "ClusterStatusUnknown",
        "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    hub.merge(&format!("{clusters}/shop/status"), away).await;
    assert!(hub.fail("release w --cluster shop").await.contains("there is no work w for cluster shop"));
    assert!(hub.fail("confirm shop --batch 3").await.contains("EPOCH/REVISION/START"));
    let said = hub.succeed("confirm shop --batch 3/7/1f").await;
    assert!(
        said.contains("batch 3/7/1f may go out to shop") && said.contains("told once it is back"),
        "{said}"
    );
    assert!(hub.succeed("confirm shop --batch 3/7/1f").await.contains("were let out to shop before"));
    assert!(hub.fail("adopt shop").await.contains("no key asks for the name shop"));
    assert!(hub.succeed("cordon shop").await.contains("shop cluster cordoned"));
    assert!(hub.succeed("cordon shop").await.contains("already cordoned"));
    assert!(hub.fail("orphans shop --delete").await.contains("say --all"));
    assert!(hub.fail("orphans shop c --delete").await.contains("c is no orphan of shop"));
    let said = hub.succeed("orphans shop a --release").await;
    assert!(said.contains("1 orphans of shop: release") && said.contains("told once it is back"), "{said}");
    let listed = hub.succeed("orphans shop").await;
    assert!(listed.contains("release    a\n") && listed.contains("undecided  b\n"), "{listed}");
    let seen = hub.succeed("get clusters -o wide").await;
    assert!(
        seen.contains("ORPHANS")
            && seen.lines().any(|line| line.starts_with("shop") && line.trim_end().ends_with('2')),
        "{seen}"
    );
}
