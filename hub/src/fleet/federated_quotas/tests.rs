//! Enforcement over a registry with a store in memory.

use karmada_registry::Registry;
use karmada_schema::object::ObjectKey;
use serde_json::json;
use tokio_util::sync::DropGuard;

use super::*;
use crate::fleet::write_options::write_options;
use crate::registry_in_memory::{RegistryInMemory, standing_clock};

struct Rig {
    registry: Arc<Registry>,
    _stop: DropGuard,
}

impl Rig {
    async fn start() -> Rig {
        let RegistryInMemory { registry, cache, stop, .. } =
            RegistryInMemory::start(Vec::new(), standing_clock()).await;
        let registry = Arc::new(registry.judging(Box::new(FederatedQuotas::new(&cache))));
        Rig { registry, _stop: stop.drop_guard() }
    }

    async fn limit(&self, name: &str, cpu: &str) {
        let definition =
            self.registry.definition("policy.karmada.io", "v1alpha1", "federatedresourcequotas").unwrap();
        let quota = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "FederatedResourceQuota",
            "metadata": {"name": name}, "spec": {"overall": {"cpu": cpu}}});
        let key = ObjectKey::new("team", name);
        let mut change = |live: Option<&Value>| {
            let mut new = live.cloned().unwrap_or_else(|| quota.clone());
            new["spec"] = quota["spec"].clone();
            Ok(new)
        };
        self.registry.update_or_create(&definition, &key, &write_options(), &mut change).await.unwrap();
    }

    /// Places replicas of a workload of 1 CPU each; the refusal's words where it is refused.
    async fn place(&self, namespace: &str, name: &str, replicas: u32) -> Result<(), String> {
        self.place_as("v1alpha2", namespace, name, replicas).await
    }

    async fn place_as(
        &self,
        version: &str,
        namespace: &str,
        name: &str,
        replicas: u32,
    ) -> Result<(), String> {
        let definition = self.registry.definition("work.karmada.io", version, "resourcebindings").unwrap();
        let resource =
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": namespace, "name": name});
        let clusters = json!([{"name": "m1", "replicas": replicas}]);
        let binding = match version {
            "v1alpha1" => {
                let mut resource = resource;
                resource["resourcePerReplicas"] = json!({"cpu": "1"});
                json!({"apiVersion": "work.karmada.io/v1alpha1", "kind": "ResourceBinding", "metadata": {"name": name},
                    "spec": {"resource": resource, "clusters": clusters}})
            }
            _ => {
                json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding", "metadata": {"name": name},
                "spec": {"resource": resource, "replicas": replicas, "clusters": clusters,
                    "replicaRequirements": {"resourceRequest": {"cpu": "1"}}}})
            }
        };
        let key = ObjectKey::new(namespace, name);
        let mut change = |live: Option<&Value>| {
            let mut new = live.cloned().unwrap_or_else(|| binding.clone());
            new["spec"] = binding["spec"].clone();
            Ok(new)
        };
        let written = self.registry.update_or_create(&definition, &key, &write_options(), &mut change).await;
        written.map(|_| ()).map_err(|status| {
            assert_eq!((status.code, &*status.reason), (403, "QuotaExceeded"), "{}", status.message);
            status.message
        })
    }
}

fn refusal(quota: &str, sum: u32, limit: u32) -> Result<(), String> {
    Err(format!(
        "FederatedResourceQuota(team/{quota}) exceeded for resource cpu: requested sum {sum}, limit {limit}."
    ))
}

#[tokio::test]
async fn what_does_not_fit_is_refused_until_there_is_room() {
    let rig = Rig::start().await;
    assert_eq!(rig.place("team", "a", 3).await, Ok(()), "no quota");
    rig.limit("q", "5").await;
    assert_eq!(rig.place("team", "b", 3).await, refusal("q", 6, 5));
    assert_eq!(rig.place("elsewhere", "b", 30).await, Ok(()), "of another namespace");
    assert_eq!(rig.place("team", "b", 2).await, Ok(()));
    assert_eq!(rig.place("team", "b", 3).await, refusal("q", 6, 5));
    assert_eq!(rig.place("team", "a", 2).await, Ok(()));
    assert_eq!(rig.place("team", "b", 3).await, Ok(()));
    rig.limit("second", "4").await;
    assert_eq!(rig.place("team", "c", 1).await, refusal("q", 6, 5));
    rig.limit("q", "50").await;
    assert_eq!(rig.place("team", "c", 1).await, refusal("second", 6, 4));
    assert_eq!(rig.place("team", "b", 2).await, Ok(()), "less is never refused");
}

#[tokio::test]
async fn an_older_version_of_the_kind_is_no_way_around() {
    let rig = Rig::start().await;
    rig.limit("q", "5").await;
    assert_eq!(rig.place_as("v1alpha1", "team", "a", 6).await, refusal("q", 6, 5));
    assert_eq!(rig.place_as("v1alpha1", "team", "a", 5).await, Ok(()));
    assert_eq!(rig.place("team", "b", 1).await, refusal("q", 6, 5));
}

/// Ten writers, each of whom fits alone, and room for three.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_writers_at_once_no_more_get_in_than_there_is_room_for() {
    let rig = Arc::new(Rig::start().await);
    rig.limit("q", "7").await;
    let writers = (0..10).map(|writer| {
        let rig = rig.clone();
        tokio::spawn(async move { rig.place("team", &format!("w{writer}"), 2).await.is_ok() })
    });
    let mut placed = 0;
    for writer in writers.collect::<Vec<_>>() {
        placed += usize::from(writer.await.unwrap());
    }
    assert_eq!(placed, 3);
}

#[tokio::test]
async fn nothing_is_kept_of_namespaces_that_have_no_quotas_any_more() {
    let rig = Rig::start().await;
    let gate = FederatedQuotas::new(rig.registry.cache());
    drop(gate.turn(&"gone".into()));
    rig.limit("q", "7").await;
    drop(gate.turn(&"team".into()));
    assert_eq!(gate.turns.lock().keys().map(|key| key.to_string()).collect::<Vec<_>>(), ["team"]);
}
