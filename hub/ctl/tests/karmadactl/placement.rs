//! Where an object is placed and why not elsewhere, and where the templates of a file would be.

use serde_json::{Value, json};

use crate::cluster::Cluster;

const CLUSTERS: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";

/// A hub with three clusters, none of which has an agent, and a ConfigMap that a policy places in two of them.
async fn hub() -> Cluster {
    let hub = Cluster::start().await;
    for name in ["a", "b", "c"] {
        let cluster = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name}, "spec": {"syncMode": "Pull"}});
        hub.create(CLUSTERS, cluster).await;
        let serves = json!({"status": {"apiEnablements": [{"groupVersion": "v1", "resources": [{"name": "configmaps", "kind": "ConfigMap"}]},
            {"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}],
            "resourceSummary": {"allocatable": {"cpu": "10", "memory": "64Gi", "pods": "110"}}}});
        hub.merge(&format!("{CLUSTERS}/{name}/status"), serves).await;
    }
    hub.create(
        "/api/v1/namespaces/default/configmaps",
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared"}, "data": {"x": "y"}}),
    )
    .await;
    let placement = json!({"clusterAffinity": {"clusterNames": ["a", "b"]},
        "clusterTolerations": [{"operator": "Exists", "key": "cluster.karmada.io/not-ready"}, {"operator": "Exists", "key": "cluster.karmada.io/unreachable"}]});
    hub.create("/apis/policy.karmada.io/v1alpha1/namespaces/default/propagationpolicies",
        json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": {"name": "near"},
            "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}], "placement": placement}})).await;
    hub
}

fn row<'a>(text: &'a str, cluster: &str) -> &'a str {
    let begins = format!("{cluster} ");
    text.lines().find(|line| line.starts_with(&begins)).unwrap_or_else(|| panic!("{cluster}: {text}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_is_explained_cluster_by_cluster_and_as_it_would_be() {
    let hub = hub().await;
    let told = hub.succeed("explain-placement configmap shared").await;
    assert!(told.contains("Policy:   PropagationPolicy default/near\nOutcome:  Scheduled\n"), "{told}");
    assert!(row(&told, "a").contains("Chosen") && row(&told, "b").contains("Chosen"), "{told}");
    assert!(row(&told, "c").contains("did not match the placement cluster affinity"), "{told}");
    let without = hub.succeed("explain-placement cm shared --without b --manifests").await;
    assert!(!without.lines().any(|line| line.starts_with("b ")) && without.contains("--- a\n"), "{without}");
    let tainted = hub.succeed("explain-placement ConfigMap shared --tainted a=down:NoExecute -o json").await;
    let review: Value = serde_json::from_str(&tainted).unwrap();
    assert_eq!(review[0]["status"]["outcome"], "Scheduled", "{review}");
    assert!(hub.fail("explain-placement configmap shared --full z").await.contains("there is no cluster z"));
    assert!(
        hub.fail("explain-placement widgets shared").await.contains("serves nothing that is called widgets")
    );
    assert!(hub.fail("explain-placement configmap nothing").await.contains("not found"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_templates_of_a_file_are_placed_as_if_its_policies_were_applied_and_nothing_is() {
    let hub = hub().await;
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: nginx}]}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment}]
  placement:
    clusterAffinity: {clusterNames: [b, c]}
    clusterTolerations: [{operator: Exists, key: cluster.karmada.io/not-ready}, {operator: Exists, key: cluster.karmada.io/unreachable}]
    replicaScheduling:
      replicaSchedulingType: Divided
      replicaDivisionPreference: Weighted
      weightPreference:
        staticWeightList: [{targetCluster: {clusterNames: [b]}, weight: 1}, {targetCluster: {clusterNames: [c]}, weight: 3}]
---
apiVersion: policy.karmada.io/v1alpha1
kind: OverridePolicy
metadata: {name: mirror}
spec:
  overrideRules:
  - targetCluster: {clusterNames: [c]}
    overriders: {imageOverrider: [{component: Registry, operator: add, value: mirror.example.com}]}
";
    std::fs::write(file.path(), text).unwrap();
    let command = format!("schedule --dry-run -f {}", file.path().display());
    let told = hub.succeed(&format!("{command} --manifests")).await;
    assert!(told.contains("Policy:   PropagationPolicy default/web\nOutcome:  Scheduled\n"), "{told}");
    let words = |cluster: &str| row(&told, cluster).split_whitespace().collect::<Vec<_>>()[1..5].join(" ");
    assert_eq!(
        (words("b"), words("c")),
        ("Chosen - 1 -".to_owned(), "Chosen - 3 mirror".to_owned()),
        "{told}"
    );
    assert!(told.contains("image: mirror.example.com/nginx"), "{told}");
    assert!(
        hub.get("/apis/apps/v1/namespaces/default/deployments/web").await.is_none(),
        "nothing is applied"
    );
    assert!(
        hub.get("/apis/policy.karmada.io/v1alpha1/namespaces/default/propagationpolicies/web")
            .await
            .is_none()
    );
    // What the hub would not take it does not review.
    std::fs::write(file.path(), text.replace("replicas: 4", "replicas: -4")).unwrap();
    assert!(hub.fail(&command).await.contains("must be greater than or equal to 0"));
    std::fs::write(file.path(), text.replace("component: Registry", "component: Nonsense")).unwrap();
    assert!(hub.fail(&command).await.contains("OverridePolicy"), "{}", hub.fail(&command).await);
}
