//! The gate over a registry with a store in memory.

use karmada_registry::{Registry, WriteOptions};
use karmada_store::{Expect, Store};
use serde_json::{Value, json};
use tokio_util::sync::DropGuard;

use super::*;
use crate::fleet::KarmadaPolicies;
use crate::fleet::write_options::write_options;
use crate::registry_in_memory::{RegistryInMemory, standing_clock};
use karmada_api::defaulting::cluster::Grades;
use karmada_api::validation::taint_policy::NoExecute;

struct Rig {
    registry: Registry,
    store: Arc<dyn Store>,
    _stop: DropGuard,
}

fn eu() -> Value {
    json!({"fieldSelector": {"matchExpressions": [{"key": "region", "operator": "In", "values": ["eu"]}]}})
}

fn secret(data: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "patients", "name": "db"}, "data": {"password": data}})
}

impl Rig {
    /// A hub with the clusters `north` in the region eu and `west` in us.
    async fn start() -> Rig {
        let gates: Vec<Box<dyn Admission>> = vec![
            Box::new(KarmadaPolicies { taint_policies: NoExecute::Refused, grades: Grades::Completed }),
            Box::new(ResidencyGuard::default()),
        ];
        let RegistryInMemory { registry, store, stop, .. } =
            RegistryInMemory::start(gates, standing_clock()).await;
        let rig = Rig { registry, store, _stop: stop.drop_guard() };
        for (name, region) in [("north", "eu"), ("west", "us")] {
            let cluster = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name},
                "spec": {"syncMode": "Pull", "region": region}});
            rig.write("cluster.karmada.io", "clusters", "", cluster).await.unwrap();
        }
        rig
    }

    /// Writes an object as it is to be; the warnings, or the refusal's reason and words.
    async fn write(
        &self,
        group: &str,
        plural: &str,
        namespace: &str,
        object: Value,
    ) -> Result<Vec<String>, (String, String)> {
        let definition = self.registry.definition(group, "v1alpha1", plural).unwrap();
        let options: WriteOptions = write_options();
        let key = ObjectKey::new(namespace, object::name(&object));
        let mut change = |live: Option<&Value>| {
            let mut new = live.cloned().unwrap_or_else(|| object.clone());
            new["spec"] = object["spec"].clone();
            for (key, value) in object["metadata"]["labels"].as_object().into_iter().flatten() {
                new["metadata"]["labels"][key] = value.clone();
            }
            Ok(new)
        };
        let written = self.registry.update_or_create(&definition, &key, &options, &mut change).await;
        written.map(|_| options.warnings.all()).map_err(|status| (status.reason.to_string(), status.message))
    }

    async fn rule(&self, name: &str, spec: Value) -> Vec<String> {
        let rule = json!({"apiVersion": "edge.karmada.io/v1alpha1", "kind": "ResidencyRule", "metadata": {"name": name}, "spec": spec});
        self.write(EDGE_GROUP, "residencyrules", "", rule).await.unwrap()
    }

    async fn delete_rule(&self, name: &str) {
        let definition = self.registry.definition(EDGE_GROUP, "v1alpha1", "residencyrules").unwrap();
        let options = karmada_registry::DeleteOptions::default();
        self.registry
            .delete(&definition, &ObjectKey::new("", name), &options, &write_options().user)
            .await
            .unwrap();
    }

    /// Writes a Work by hand.
    async fn work(&self, cluster: &str, name: &str, manifests: Value) -> Result<(), (String, String)> {
        self.labelled(cluster, name, manifests, json!({})).await
    }

    async fn labelled(
        &self,
        cluster: &str,
        name: &str,
        manifests: Value,
        labels: Value,
    ) -> Result<(), (String, String)> {
        let work = json!({"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work", "metadata": {"name": name, "labels": labels},
            "spec": {"workload": {"manifests": manifests}}});
        self.write(WORK_GROUP, "works", &names::execution_namespace(cluster), work).await.map(|_| ())
    }

    fn refuses(written: Result<(), (String, String)>, words: &str) {
        let (reason, message) = written.expect_err(words);
        assert_eq!(reason, "ResidencyViolated");
        assert!(message.contains(words), "{message}");
    }

    /// It is not stored, and whoever wrote it is to try again: nobody is told when the rule can be read.
    #[track_caller]
    fn puts_off(written: Result<(), (String, String)>, words: &str) {
        let (reason, message) = written.expect_err(words);
        assert_eq!(reason, "ServiceUnavailable");
        assert!(message.contains(words), "{message}");
    }
}

#[tokio::test]
async fn a_work_is_refused_for_a_cluster_that_a_rule_does_not_allow_whoever_writes_it() {
    let rig = Rig::start().await;
    rig.work("west", "before", json!([secret("YQ==")])).await.expect("no rule");
    rig.rule("eu-only", json!({"namespaces": ["patients"], "clusterAffinity": eu()})).await;
    let words = "residency rule eu-only does not allow Secret patients/db in cluster west";
    Rig::refuses(rig.work("west", "db", json!([secret("YQ==")])).await, words);
    rig.work("north", "db", json!([secret("YQ==")])).await.expect("the region eu");
    let free =
        json!([{"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "shop", "name": "db"}}]);
    rig.work("west", "free", free).await.expect("nothing covers it");
    // What is there stays, and can be handled; nothing new goes there by it.
    rig.labelled("west", "before", json!([secret("YQ==")]), json!({"a": "b"})).await.expect("the same");
    Rig::refuses(rig.work("west", "before", json!([secret("Yg==")])).await, words);
    Rig::refuses(
        rig.work("nowhere", "db", json!([secret("YQ==")])).await,
        "cluster nowhere, of which nothing is known",
    );
}

#[tokio::test]
async fn the_rules_and_the_clusters_count_as_they_are_at_the_moment() {
    let rig = Rig::start().await;
    let covers = |labels: Value| json!({"resourceSelectors": [{"apiVersion": "v1", "kind": "Secret", "labelSelector": labels}], "clusterAffinity": eu()});
    rig.rule("eu-only", covers(json!({"matchLabels": {"data": "personal"}}))).await;
    let mut personal = secret("YQ==");
    personal["metadata"]["labels"] = json!({"data": "personal"});
    rig.work("west", "plain", json!([secret("YQ==")])).await.expect("without the label");
    Rig::refuses(rig.work("west", "personal", json!([personal])).await, "eu-only");
    rig.rule("eu-only", covers(json!({"matchLabels": {"data": "other"}}))).await;
    rig.work("west", "personal", json!([personal])).await.expect("the rule says something else");
    rig.rule("eu-only", covers(json!({}))).await;
    Rig::refuses(rig.work("west", "more", json!([secret("YQ==")])).await, "eu-only");
    let moved = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "west"},
        "spec": {"syncMode": "Pull", "region": "eu"}});
    rig.write(CLUSTER_GROUP, "clusters", "", moved).await.unwrap();
    rig.work("west", "more", json!([secret("YQ==")])).await.expect("the cluster is in the region now");
    rig.rule("second", json!({"namespaces": ["patients"], "clusterAffinity": {"clusterNames": ["north"]}}))
        .await;
    Rig::refuses(rig.work("west", "another", json!([secret("YQ==")])).await, "residency rule second");
    rig.delete_rule("second").await;
    rig.work("west", "another", json!([secret("YQ==")])).await.expect("the rule is gone");
}

/// As an earlier version or a damaged store may hold it: nobody knows what it covers.
#[tokio::test]
async fn a_rule_that_cannot_be_read_lets_nothing_new_through() {
    for stored in [
        &br#"{"apiVersion":"edge.karmada.io/v1alpha1","kind":"ResidencyRule","metadata":{"name":"odd","uid":"u"},"spec":{"clusterAffinity":7}}"#[..],
        &b"no object"[..],
    ] {
        let rig = Rig::start().await;
        rig.work("north", "before", json!([secret("YQ==")])).await.unwrap();
        let path = "/registry/edge.karmada.io/residencyrules/odd";
        let revision = rig.store.put(path, stored.to_vec().into(), Expect::Absent).await.unwrap();
        rig.registry.cache().wait_for(revision).await;
        Rig::puts_off(rig.work("north", "new", json!([])).await, "odd");
        rig.labelled("north", "before", json!([secret("YQ==")]), json!({"a": "b"})).await.expect("nothing new goes anywhere");
        Rig::puts_off(rig.work("north", "before", json!([secret("Yg==")])).await, "odd");
    }
}

#[tokio::test]
async fn a_rule_that_seems_to_be_mistaken_is_warned_of() {
    let rig = Rig::start().await;
    let selects = |kind: &str| json!({"resourceSelectors": [{"apiVersion": "v1", "kind": kind}], "clusterAffinity": eu()});
    assert_eq!(rig.rule("a", selects("Secret")).await, Vec::<String>::new());
    let told = rig.rule("b", selects("Secrets")).await;
    assert!(
        told.len() == 1 && told[0].starts_with("spec.resourceSelectors[0]: v1 Secrets is not served here"),
        "{told:?}"
    );
    let nowhere = json!({"namespaces": ["patients"], "clusterAffinity": {"clusterNames": ["nord"]}});
    assert_eq!(rig.rule("c", nowhere).await, ["spec.clusterAffinity: it means no cluster that is there now"]);
    let empty = json!({"apiVersion": "edge.karmada.io/v1alpha1", "kind": "ResidencyRule", "metadata": {"name": "d"},
        "spec": {"namespaces": ["patients"], "clusterAffinity": {}}});
    let (reason, message) = rig.write(EDGE_GROUP, "residencyrules", "", empty).await.unwrap_err();
    assert!(reason == "Invalid" && message.contains("spec.clusterAffinity: Required value"), "{message}");
}
