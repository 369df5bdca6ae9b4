//! What is told of quotas, over the port in memory.

use karmada_core::feature_gates::FeatureGates;
use serde_json::{Value, json};

use super::*;
use crate::port::fake::FakeApi;
use crate::testing::{BINDING_API, POLICY_API, Rig, WORK_API, bears_trouble, key};

const PERIOD: Duration = Duration::from_secs(300);
const BINDING: (&str, &str) = (BINDING_API, "ResourceBinding");

fn quota(namespace: &str) -> Value {
    json!({"apiVersion": POLICY_API, "kind": "FederatedResourceQuota", "metadata": {"name": "q", "namespace": namespace, "generation": 1},
        "spec": {"overall": {"cpu": "10", "memory": "1Gi"}}})
}

/// A Work of the quota `q` in `team`, of which the member says this.
fn work(cluster: &str, used: &str) -> Value {
    let applied = json!({"type": "Applied", "status": "True", "reason": "", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let identifier = json!({"ordinal": 0, "version": "v1", "kind": "ResourceQuota", "resource": "resourcequotas", "name": "q"});
    json!({"apiVersion": WORK_API, "kind": "Work", "metadata": {"name": "q-1", "namespace": format!("karmada-es-{cluster}"),
            "labels": {"federatedresourcequota.karmada.io/namespace": "team", "federatedresourcequota.karmada.io/name": "q"}},
        "spec": {"workload": {"manifests": []}},
        "status": {"conditions": [applied], "manifestStatuses": [{"identifier": identifier,
            "status": {"hard": {"cpu": "4"}, "used": {"cpu": used}}}]}})
}

fn binding(namespace: &str, name: &str, replicas: u32) -> Value {
    json!({"apiVersion": BINDING_API, "kind": "ResourceBinding", "metadata": {"name": name, "namespace": namespace, "generation": 1},
        "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": namespace, "name": name},
            "replicaRequirements": {"resourceRequest": {"cpu": "500m"}}, "clusters": [{"name": "m1", "replicas": replicas}]}})
}

fn status(api: &FakeApi, namespace: &str) -> Value {
    api.value(POLICY_API, "FederatedResourceQuota", namespace, "q").unwrap()["status"].clone()
}

#[tokio::test(start_paused = true)]
async fn what_members_use_is_told_and_summed_whatever_happens_between() {
    let look = async |rig: &Rig| {
        FederatedResourceQuotaStatusController::new(rig.shared.clone(), PERIOD)
            .reconcile(&key("team", "q"))
            .await
    };
    let objects = [quota("team"), work("m2", "1500m"), work("m1", "1"), binding("team", "a", 7)];
    let (api, writes) = bears_trouble(&objects, look).await;
    assert_eq!(writes, 1);
    let members = json!([{"clusterName": "m1", "hard": {"cpu": "4"}, "used": {"cpu": "1"}},
        {"clusterName": "m2", "hard": {"cpu": "4"}, "used": {"cpu": "1500m"}}]);
    let wanted = json!({"overall": {"cpu": "10", "memory": "1Gi"}, "overallUsed": {"cpu": "2500m"}, "aggregatedStatus": members});
    assert_eq!(status(&api, "team"), wanted);
}

async fn enforcing(objects: &[Value]) -> Rig {
    let api = Arc::new(FakeApi::default());
    api.seed_all(objects.to_vec());
    let gates = FeatureGates::default().with(Gate::FederatedQuotaEnforcement);
    Rig::started(api, "2026-05-01T12:00:00Z", gates).await
}

#[tokio::test(start_paused = true)]
async fn where_quotas_are_enforced_bindings_are_counted_and_only_the_changed_one_is_read() {
    let rig = enforcing(&[
        quota("team"),
        quota("other"),
        binding("team", "a", 3),
        binding("team", "b", 5),
        binding("other", "a", 100),
    ])
    .await;
    let controller = FederatedResourceQuotaStatusController::new(rig.shared.clone(), PERIOD);
    controller.reconcile(&key("team", "q")).await.unwrap();
    assert_eq!(status(&rig.api, "team")["overallUsed"], json!({"cpu": "4"}));
    let read = || rig.api.calls("read", "ResourceBinding");
    let before = read();
    rig.edit(BINDING, &key("team", "a"), |one| one["spec"]["clusters"][0]["replicas"] = json!(1)).await;
    controller.reconcile(&key("team", "q")).await.unwrap();
    assert_eq!(status(&rig.api, "team")["overallUsed"], json!({"cpu": "3"}));
    // Once by the index of bindings, once by this.
    assert_eq!(read() - before, 2);
    rig.delete(BINDING, &key("team", "b")).await;
    controller.reconcile(&key("team", "q")).await.unwrap();
    assert_eq!(status(&rig.api, "team")["overallUsed"], json!({"cpu": "500m"}));
    let (revision, writes) = (rig.api.revision(), rig.api.writes());
    controller.reconcile(&key("team", "q")).await.unwrap();
    assert_eq!((rig.api.revision(), rig.api.writes()), (revision, writes), "at rest nothing is written");
    rig.delete((POLICY_API, "FederatedResourceQuota"), &key("team", "q")).await;
    controller.reconcile(&key("team", "q")).await.unwrap();
    assert!(controller.tallies.lock().is_empty(), "nothing is kept of a namespace without quotas");
}

#[tokio::test(start_paused = true)]
async fn where_quotas_are_enforced_they_are_counted_again_after_a_while() {
    let enforced = enforcing(&[quota("team")]).await;
    let counted = Rig::new([quota("team")]).await;
    for (rig, period, again) in [
        (&enforced, PERIOD, Action::RequeueAfter(PERIOD)),
        (&enforced, Duration::ZERO, Action::Done),
        (&counted, PERIOD, Action::Done),
    ] {
        let controller = FederatedResourceQuotaStatusController::new(rig.shared.clone(), period);
        assert_eq!(controller.reconcile(&key("team", "q")).await.unwrap(), again, "{period:?}");
    }
}
