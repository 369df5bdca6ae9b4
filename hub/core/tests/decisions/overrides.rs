//! Which objects an override policy may mean: who is looked at again when it changes.

use karmada_api::binding::ObjectReference;
use karmada_api::override_policy::OverridePolicy;
use karmada_core::overrides::{self, may_mean};
use serde_json::{Value, json};

use super::member;

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

fn patching(name: usize, operations: Vec<Value>) -> OverridePolicy {
    serde_json::from_value(json!({"metadata": {"name": format!("p{name:03}"), "namespace": "shop"},
        "spec": {"overrideRules": [{"overriders": {"plaintext": operations}}]}}))
    .unwrap()
}

/// A few policies of a namespace's user would else make a manifest that no stack can take apart.
#[test]
fn operations_that_wrap_a_manifest_level_by_level_are_refused() {
    let nested = |levels: usize| (0..levels).fold(json!({}), |value, _| json!({"a": value}));
    let (mut policies, mut path) = (Vec::new(), "/data2".to_owned());
    for at in 0..3 {
        let operations = (0..40).map(|_| {
            let one = json!({"path": path, "operator": "add", "value": nested(100)});
            path += &"/a".repeat(101);
            one
        });
        policies.push(patching(at, operations.collect()));
    }
    let mut manifest =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "shop"}});
    let none: [OverridePolicy; 0] = [];
    let refused = overrides::apply(&mut manifest, &member("m1"), &none, &policies).unwrap_err();
    assert!(refused.message.contains("levels"), "{refused}");
}

#[test]
fn operations_that_move_a_long_list_again_and_again_are_refused() {
    let front = |_| json!({"path": "/spec/l/0", "operator": "add", "value": 0});
    let policies: Vec<_> = (0..5).map(|at| patching(at, (0..100).map(front).collect())).collect();
    let mut manifest = json!({"apiVersion": "example.com/v1", "kind": "Foo",
        "metadata": {"name": "c", "namespace": "shop"}, "spec": {"l": vec![0; 500_000]}});
    let none: [OverridePolicy; 0] = [];
    let refused = overrides::apply(&mut manifest, &member("m1"), &none, &policies).unwrap_err();
    assert!(refused.message.contains("too many items") && refused.policy == "shop/p001", "{refused}");
}

#[test]
fn of_what_is_too_long_for_a_note_the_policies_are_noted() {
    let long = vec![json!({"path": "/data/a", "operator": "add", "value": "x".repeat(100_000)})];
    let mut manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "shop"}, "data": {}});
    let none: [OverridePolicy; 0] = [];
    let applied = overrides::apply(&mut manifest, &member("m1"), &none, &[patching(1, long)]).unwrap();
    let note = applied.namespaced.names_alone(1 << 10);
    assert_eq!(note, r#"[{"overriders":{},"policyName":"p001"}]"#);
    assert_eq!(applied.namespaced.names_alone(10), "[]");
}
