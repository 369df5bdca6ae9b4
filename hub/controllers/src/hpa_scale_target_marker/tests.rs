//! The marker, over the port in memory.

use serde_json::json;

use super::*;
use crate::port::fake::FakeApi;
use crate::testing::{Rig, bears_trouble, key};

const RETAINS: &str = "resourcetemplate.karmada.io/retain-replicas";

fn hpa(name: &str, labels: &Value, target: &str) -> Value {
    json!({"apiVersion": HPA.0, "kind": HPA.1, "metadata": {"name": name, "namespace": "shop", "labels": labels},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": target}, "maxReplicas": 3}})
}

fn propagated() -> Value {
    json!({"propagationpolicy.karmada.io/permanent-id": "p"})
}

fn deployment(meta: &Value) -> Value {
    let mut all = json!({"name": "web", "namespace": "shop"});
    all.as_object_mut().unwrap().extend(meta.as_object().unwrap().clone());
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": all, "spec": {"replicas": 2}})
}

async fn look(rig: &Rig) -> Result<Action, Error> {
    let target = ScaleTarget { api_version: "apps/v1".into(), kind: "Deployment".into(), name: "web".into() };
    let key = TargetKey { namespace: "shop".into(), target };
    HpaScaleTargetMarker::new(rig.shared.clone()).reconcile(&key).await
}

fn label(api: &FakeApi) -> Option<String> {
    let web = api.value("apps/v1", "Deployment", "shop", "web").unwrap();
    object::label(&web, RETAINS).map(str::to_owned)
}

#[tokio::test(start_paused = true)]
async fn a_propagated_autoscalers_target_is_marked_once_whatever_happens_between() {
    let objects = [deployment(&json!({})), hpa("h", &propagated(), "web"), hpa("g", &propagated(), "other")];
    let (api, writes) = bears_trouble(&objects, look).await;
    assert_eq!((label(&api).as_deref(), writes), (Some("true"), 1));
}

#[tokio::test(start_paused = true)]
async fn the_mark_goes_with_its_autoscaler_also_if_that_went_while_the_hub_was_down() {
    let rig = Rig::new([deployment(&json!({})), hpa("h", &propagated(), "web")]).await;
    look(&rig).await.unwrap();
    rig.delete(HPA, &key("shop", "h")).await;
    let rig = rig.restarted().await;
    let deployments = rig.api.resource_of("apps/v1", "Deployment").unwrap();
    let seen = rig.api.get(&deployments, "shop", "web").await.unwrap();
    let woken = bears_mark("apps/v1", "Deployment", &Change::Applied(seen));
    assert_eq!(woken.len(), 1, "a start looks at what is marked");
    look(&rig).await.unwrap();
    assert_eq!(label(&rig.api), None);
}

#[tokio::test(start_paused = true)]
async fn an_autoscaler_of_the_hub_alone_and_a_persons_own_label_change_nothing() {
    let own = json!({"labels": {RETAINS: "true"}});
    for objects in [
        vec![deployment(&json!({})), hpa("h", &json!({}), "web")],
        vec![deployment(&own), hpa("h", &propagated(), "web")],
        vec![deployment(&own)],
    ] {
        let rig = Rig::new(objects.clone()).await;
        look(&rig).await.unwrap();
        assert_eq!(rig.api.writes(), 0, "{objects:?}");
    }
}

/// Who may write an autoscaler in one namespace marks nothing of the whole cluster by it.
#[tokio::test(start_paused = true)]
async fn what_is_in_no_namespace_is_not_marked() {
    let mut wide = hpa("h", &propagated(), "shop");
    wide["spec"]["scaleTargetRef"] = json!({"apiVersion": "v1", "kind": "Namespace", "name": "shop"});
    let shop = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    let rig = Rig::new([wide.clone(), shop]).await;
    let hpas = rig.api.resource_of(HPA.0, HPA.1).unwrap();
    let seen = rig.api.get(&hpas, "shop", "h").await.unwrap();
    let woken = scaled_by(&Change::Applied(seen));
    assert_eq!(woken.len(), 1);
    HpaScaleTargetMarker::new(rig.shared.clone()).reconcile(&woken[0]).await.unwrap();
    assert_eq!(rig.api.writes(), 0);
}
