//! The policy controller as a shell.

use serde_json::json;

use super::*;
use crate::testing::{self, BINDING_API, Rig, bears_trouble, key};

const MARK: &str = "propagationpolicy.karmada.io/permanent-id";

async fn look(rig: &Rig) -> Result<Action, Error> {
    rig.note_claims(("v1", "ConfigMap")).await;
    Policy::new(rig.shared.clone(), Arc::default()).reconcile(&key("default", "p")).await
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_goes_lets_go_of_everything_first_whatever_happens_between() {
    let policy = json!({"apiVersion": POLICY_API, "kind": "PropagationPolicy",
        "metadata": {"name": "p", "namespace": "default", "generation": 2, "labels": {MARK: "p"},
            "deletionTimestamp": "2026-05-01T11:00:00Z", "finalizers": [finalizers::PROPAGATION_POLICY]},
        "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}], "placement": {}}});
    let mut template = testing::config_map("web");
    template["metadata"]["labels"] = json!({MARK: "p"});
    let binding = testing::binding("web", &json!({}), &["m1"]);
    let (api, writes) = bears_trouble(&[policy, template, binding], look).await;
    assert_eq!(writes, 3, "the binding, the template, the policy");
    assert_eq!(api.value(POLICY_API, "PropagationPolicy", "default", "p"), None);
    for (api_version, kind, name) in
        [("v1", "ConfigMap", "web"), (BINDING_API, "ResourceBinding", "web-configmap")]
    {
        let object = api.value(api_version, kind, "default", name).unwrap();
        assert!(object["metadata"]["labels"][MARK].is_null(), "{kind}");
    }
}

/// The permanent id of a policy that was copied is another's, and so is what that one claimed.
#[tokio::test(start_paused = true)]
async fn a_copy_of_a_policy_lets_go_of_nothing_that_the_original_has() {
    let policy = |name: &str, more: Value| {
        let mut metadata =
            json!({"name": name, "namespace": "default", "generation": 1, "labels": {MARK: "id"}});
        object::root(&mut metadata).extend(more.as_object().unwrap().clone());
        json!({"apiVersion": POLICY_API, "kind": "PropagationPolicy", "metadata": metadata,
            "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}], "placement": {}}})
    };
    let leaves =
        json!({"deletionTimestamp": "2026-05-01T11:00:00Z", "finalizers": [finalizers::PROPAGATION_POLICY]});
    for (gone, kept) in [("p", true), ("web", false)] {
        let claimed = |mut object: Value| {
            object["metadata"]["labels"][MARK] = json!("id");
            object["metadata"]["annotations"] = json!({"propagationpolicy.karmada.io/namespace": "default",
                "propagationpolicy.karmada.io/name": "web"});
            object
        };
        let of = |name: &str| policy(name, if name == gone { leaves.clone() } else { json!({}) });
        let template = claimed(testing::config_map("web"));
        let binding = claimed(testing::binding("web", &json!({}), &["m1"]));
        let rig = Rig::new([of("p"), of("web"), template, binding]).await;
        rig.note_claims(("v1", "ConfigMap")).await;
        let controller = Policy::new(rig.shared.clone(), Arc::default());
        controller.reconcile(&key("default", gone)).await.unwrap();
        for (api_version, kind, name) in
            [("v1", "ConfigMap", "web"), (BINDING_API, "ResourceBinding", "web-configmap")]
        {
            let object = rig.api.value(api_version, kind, "default", name).unwrap();
            assert_eq!(object["metadata"]["labels"][MARK].is_string(), kept, "{gone} goes: {kind}");
        }
    }
}
