//! The detector as a shell: conflicts, ends between two writes, restarts.

use serde_json::json;

use super::*;
use crate::port::Api;
use crate::rig::{self, BINDING_API, POLICY_API, Rig, bears_trouble, key};

fn policy() -> Value {
    json!({"apiVersion": POLICY_API, "kind": "PropagationPolicy",
        "metadata": {"name": "p", "namespace": "default", "generation": 1, "labels": {"propagationpolicy.karmada.io/permanent-id": "p"}},
        "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}], "placement": {}}})
}

async fn look(rig: &Rig) -> Result<Action, Error> {
    let makers = Makers { works: Arc::default(), statuses: Arc::default(), settle: Duration::ZERO };
    let detector = Detector::new(rig.shared.clone(), SkipRules::default(), makers);
    let resource = rig.api.resource_of("v1", "ConfigMap").unwrap();
    detector.reconcile(&TemplateKey { resource, key: key("default", "web") }).await
}

#[tokio::test(start_paused = true)]
async fn a_template_is_claimed_and_gets_its_binding_whatever_happens_between() {
    let (api, writes) = bears_trouble(&[policy(), rig::config_map("web")], look).await;
    assert_eq!(writes, 2, "the claim, and the binding");
    let template = api.value("v1", "ConfigMap", "default", "web").unwrap();
    assert_eq!(template["metadata"]["labels"]["propagationpolicy.karmada.io/permanent-id"], "p");
    let binding = api.value(BINDING_API, "ResourceBinding", "default", "web-configmap").unwrap();
    assert_eq!(binding["metadata"]["ownerReferences"][0]["uid"], "t-web");
}

#[tokio::test(start_paused = true)]
async fn what_no_policy_means_any_more_loses_its_marks_whatever_happens_between() {
    let mut template = rig::config_map("web");
    template["metadata"]["labels"] = json!({"propagationpolicy.karmada.io/permanent-id": "gone"});
    let mut binding = rig::binding("web", &json!({}), &["m1"]);
    binding["metadata"]["labels"]["propagationpolicy.karmada.io/permanent-id"] = json!("gone");
    let (api, writes) = bears_trouble(&[template, binding], look).await;
    assert_eq!(writes, 2);
    let binding = api.value(BINDING_API, "ResourceBinding", "default", "web-configmap").unwrap();
    assert!(binding["metadata"]["labels"]["propagationpolicy.karmada.io/permanent-id"].is_null());
    assert_eq!(binding["spec"]["clusters"], json!([{"name": "m1"}]), "what runs stays");
}
