//! Cases of patches.

#![allow(clippy::needless_pass_by_value, reason = "a json! reads best where it is passed")]

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::schema::Schemas;

fn smp(live: &Value, patch: Value) -> Result<Value, PatchError> {
    strategic(Schemas::builtin().of("apps", "v1", "Deployment").unwrap(), live, patch)
}

fn deployment(containers: Value) -> Value {
    json!({"spec": {"replicas": 1, "template": {"spec": {"containers": containers}}}})
}

fn names(object: &Value) -> Vec<&str> {
    let list = object["spec"]["template"]["spec"]["containers"].as_array().unwrap();
    list.iter().map(|c| c["name"].as_str().unwrap()).collect()
}

#[test]
fn lists_merge_by_key() {
    let live = deployment(json!([{"name": "a", "image": "x:1"}, {"name": "b", "image": "y:1"}]));
    let patch = deployment(json!([{"name": "b", "image": "y:2"}, {"name": "c", "image": "z:1"}]));
    let merged = smp(&live, patch).unwrap();
    assert_eq!(
        merged["spec"]["template"]["spec"]["containers"],
        json!([{"name": "a", "image": "x:1"}, {"name": "b", "image": "y:2"}, {"name": "c", "image": "z:1"}])
    );
}

#[test]
fn directives_delete_replace_and_retain() {
    let live = deployment(json!([{"name": "a", "image": "x"}, {"name": "b", "image": "y"}]));
    let merged = smp(&live, deployment(json!([{"$patch": "delete", "name": "a"}]))).unwrap();
    assert_eq!(names(&merged), ["b"]);
    let merged = smp(&live, deployment(json!([{"$patch": "replace"}, {"name": "q", "image": "z"}]))).unwrap();
    assert_eq!(names(&merged), ["q"]);
    let merged = smp(&live, json!({"spec": {"$patch": "replace", "paused": true}})).unwrap();
    assert_eq!(merged, json!({"spec": {"paused": true}}));

    let live = json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}});
    let merged =
        smp(&live, json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}})).unwrap();
    assert_eq!(merged["spec"]["strategy"], json!({"type": "Recreate"}));
    let refused = smp(&live, json!({"spec": {"strategy": {"$retainKeys": ["x"], "type": "Recreate"}}}));
    assert!(matches!(refused, Err(PatchError::BadRequest(_))));
}

#[test]
fn primitive_lists_merge_and_lose_what_is_named() {
    let live = json!({"metadata": {"finalizers": ["a", "b", "c"]}});
    let merged = smp(&live, json!({"metadata": {"finalizers": ["d", "a"]}})).unwrap();
    assert_eq!(merged["metadata"]["finalizers"].as_array().unwrap().len(), 4);
    let merged = smp(
        &live,
        json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["b"], "$setElementOrder/finalizers": ["c", "a"]}}),
    )
    .unwrap();
    assert_eq!(merged["metadata"]["finalizers"], json!(["c", "a"]));
}

#[test]
fn lists_without_a_merge_key_are_replaced() {
    let live = deployment(json!([{"name": "a", "args": ["1", "2"]}]));
    let merged = smp(&live, deployment(json!([{"name": "a", "args": ["3"]}]))).unwrap();
    assert_eq!(merged["spec"]["template"]["spec"]["containers"][0]["args"], json!(["3"]));
}

#[test]
fn set_element_order_puts_the_patchs_elements_in_its_order() {
    let live = deployment(json!([{"name": "a"}, {"name": "server"}, {"name": "b"}, {"name": "c"}]));
    let patch = json!({"spec": {"template": {"spec": {
        "$setElementOrder/containers": [{"name": "c"}, {"name": "n"}, {"name": "a"}],
        "containers": [{"name": "n", "image": "new"}, {"name": "b", "$patch": "delete"}]
    }}}});
    let merged = smp(&live, patch).unwrap();
    let order = names(&merged);
    assert_eq!(order.iter().filter(|n| **n != "server").copied().collect::<Vec<_>>(), ["c", "n", "a"]);
    assert!(order.contains(&"server"));
}

#[test]
fn an_object_that_is_replaced_does_not_merge() {
    let schema = Schemas::builtin().of("policy", "v1", "PodDisruptionBudget").unwrap();
    let live = json!({"spec": {"selector": {"matchLabels": {"a": "1"}}}});
    let patch = json!({"spec": {"selector": {"matchLabels": {"b": "2"}}}});
    assert_eq!(strategic(schema, &live, patch.clone()).unwrap(), patch);
}

#[test]
fn a_missing_merge_key_is_told() {
    let live = deployment(json!([{"name": "a"}]));
    let error = smp(&live, deployment(json!([{"image": "x"}]))).unwrap_err();
    assert_eq!(
        error,
        PatchError::Internal("map: map[image:x] does not contain declared merge key: name".into())
    );
}

#[test]
fn directives_never_reach_the_object() {
    let merged = smp(
        &json!({}),
        json!({"spec": {"template": {"spec": {"$setElementOrder/containers": [{"name": "a"}],
            "containers": [{"name": "a", "$setElementOrder/ports": [{"containerPort": 1}], "ports": [{"containerPort": 1}],
                            "image": null}, {"name": "z", "$patch": "delete"}]}}}}),
    )
    .unwrap();
    assert!(!merged.to_string().contains('$'), "{merged}");
    assert!(!merged.to_string().contains("null"), "{merged}");
}

#[test]
fn json_patch_tests_and_refuses() {
    let live = json!({"spec": {"replicas": 1}});
    let patched = json_patch(&live, br#"[{"op":"test","path":"/spec/replicas","value":1},{"op":"replace","path":"/spec/replicas","value":2}]"#);
    assert_eq!(patched.unwrap()["spec"]["replicas"], 2);
    for body in [
        &br#"[{"op":"test","path":"/spec/replicas","value":9}]"#[..],
        br#"[{"op":"remove","path":"/spec/none"}]"#,
        br#"[{"op":"add","path":"/no/where","value":1}]"#,
    ] {
        assert!(matches!(json_patch(&live, body), Err(PatchError::Unprocessable { .. })));
    }
    // What is not there is null to a test: clients say so that they are the first to add it.
    let first = br#"[{"op":"test","path":"/metadata/finalizers","value":null},{"op":"add","path":"/metadata/finalizers","value":["a"]}]"#;
    let bare = json!({"metadata": {"name": "x"}});
    let added = json_patch(&bare, first).unwrap();
    assert_eq!(added["metadata"]["finalizers"], json!(["a"]));
    assert!(matches!(json_patch(&added, first), Err(PatchError::Unprocessable { .. })));
    assert!(matches!(json_patch(&live, b"{"), Err(PatchError::BadRequest(_))));
    assert!(matches!(json_patch(&live, b"{}"), Err(PatchError::BadRequest(_))));
    let many = serde_json::to_vec(&vec![json!({"op": "test", "path": "", "value": 1}); 10_001]).unwrap();
    assert!(matches!(json_patch(&live, &many), Err(PatchError::TooLarge(_))));
}

#[test]
fn merge_patch_removes_nulls() {
    let patched = merge_patch(&json!({"a": {"b": 1, "c": 2}}), br#"{"a":{"b":null,"d":3}}"#).unwrap();
    assert_eq!(patched, json!({"a": {"c": 2, "d": 3}}));
    assert!(matches!(merge_patch(&json!({}), b"[]"), Err(PatchError::BadRequest(_))));
}

proptest! {
    #[test]
    fn set_element_order_holds_for_any_lists(
        live in proptest::collection::btree_set(0u8..12, 0..8),
        order in Just((0u8..12).collect::<Vec<_>>()).prop_shuffle(),
        take in 0usize..12,
    ) {
        let item = |n: &u8| json!({"name": format!("c{n}")});
        let order: Vec<u8> = order.into_iter().take(take).collect();
        let patch = json!({"spec": {"template": {"spec": {
            "$setElementOrder/containers": order.iter().map(item).collect::<Vec<_>>(),
            "containers": order.iter().map(item).collect::<Vec<_>>(),
        }}}});
        let merged = smp(&deployment(live.iter().map(item).collect()), patch.clone()).unwrap();
        let got = names(&merged);
        let wanted: Vec<String> = order.iter().map(|n| format!("c{n}")).collect();
        let named: Vec<&str> = got.iter().copied().filter(|n| wanted.iter().any(|w| w == n)).collect();
        prop_assert_eq!(&named, &wanted);
        prop_assert_eq!(got.len(), live.iter().filter(|n| !order.contains(n)).count() + order.len());
        // The same patch again changes nothing.
        prop_assert_eq!(smp(&merged, patch).unwrap(), merged);
    }
}
