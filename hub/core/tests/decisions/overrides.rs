//! Which objects an override policy may mean: who is looked at again when it changes.

use karmada_api::binding::ObjectReference;
use karmada_api::override_policy::OverridePolicy;
use karmada_core::overrides::may_mean;
use serde_json::{Value, json};

fn policy(namespace: &str, selectors: &Value) -> OverridePolicy {
    serde_json::from_value(json!({"metadata": {"name": "o", "namespace": namespace}, "spec": {"resourceSelectors": selectors, "overrideRules": []}}))
        .unwrap()
}

#[test]
fn a_policy_may_mean_what_its_selectors_name_in_its_own_namespace() {
    let object: ObjectReference = serde_json::from_value(
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"}),
    )
    .unwrap();
    let meant = json!({"apiVersion": "apps/v1", "kind": "Deployment"});
    let but = |field: &str, value: &str| {
        let mut selector = meant.clone();
        selector[field] = json!(value);
        json!([selector])
    };
    for (namespace, selectors, means) in [
        ("", json!([]), true),
        ("shop", json!([]), true),
        ("home", json!([]), false),
        ("", json!([meant]), true),
        ("shop", json!([meant]), true),
        ("home", json!([meant]), false),
        ("", but("kind", "StatefulSet"), false),
        ("", but("apiVersion", "apps/v2"), false),
        ("", but("namespace", "shop"), true),
        ("", but("namespace", "home"), false),
        ("", but("name", "web"), true),
        ("", but("name", "db"), false),
        ("shop", but("name", "db"), false),
        ("", json!([{"apiVersion": "apps/v2", "kind": "Deployment"}, meant]), true),
    ] {
        assert_eq!(may_mean(&policy(namespace, &selectors), &object), means, "{namespace} {selectors}");
    }
}
