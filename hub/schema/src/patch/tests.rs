//! Cases of patches.

#![allow(clippy::needless_pass_by_value, reason = "a json! reads best where it is passed")]

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::Schemas;

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

/// The cause of a refusal that kube-apiserver answers with one sentence.
fn cause(refused: Result<Value, PatchError>) -> String {
    match refused {
        Err(PatchError::Unprocessable { cause }) => cause,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn copies_that_double_an_object_end_where_their_sum_is_too_large() {
    let live = json!({"metadata": {"name": "a"}, "data": {"k": "v".repeat(100)}});
    // 1.3 KB: each operation copies all of the object so far into itself.
    let copies: Vec<Value> =
        (0..30).map(|n| json!({"op": "copy", "from": "/data", "path": format!("/data/{n}")})).collect();
    let body = Value::Array(copies).to_string();
    assert!(body.len() < 1500);
    let why = cause(json_patch(&live, body.as_bytes()));
    assert!(why.contains("the accumulated size increase of copy is"), "{why}");
    // One after the other, beside each other: the sum counts, as each is kept.
    let live = json!({"data": {"k": "v".repeat(900_000)}});
    let copies = |times: usize| {
        let all = (0..times).map(|n| json!({"op": "copy", "from": "/data/k", "path": format!("/data/{n}")}));
        Value::Array(all.collect()).to_string()
    };
    json_patch(&live, copies(3).as_bytes()).unwrap();
    cause(json_patch(&live, copies(4).as_bytes()));
}

#[test]
fn no_operation_makes_an_object_that_is_too_deep_to_be_read_again() {
    let live = json!({"a": {"b": "c"}, "x": {}});
    let wrap = |times: usize, op: &str| {
        let all = (0..times).flat_map(|n| {
            let (from, to) = (["/a", "/z"][n % 2], ["/z", "/a"][n % 2]);
            [
                json!({"op": "add", "path": to, "value": {}}),
                json!({"op": op, "from": from, "path": format!("{to}/n")}),
            ]
        });
        Value::Array(all.collect()).to_string()
    };
    for op in ["move", "copy"] {
        json_patch(&live, wrap(50, op).as_bytes()).unwrap();
        for times in [200, 4900] {
            let why = cause(json_patch(&live, wrap(times, op).as_bytes()));
            assert!(why.contains("levels"), "{why}");
        }
    }
    // Added below what is there: the value's own depth counts as well.
    let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!([inner]));
    let add = |path: &str, value: Value| json!([{"op": "add", "path": path, "value": value}]).to_string();
    json_patch(&live, add("/x/y", nested(100)).as_bytes()).unwrap();
    for op in ["add", "replace"] {
        let patch = json!([{"op": "add", "path": "/x/y", "value": nested(60)},
            {"op": op, "path": format!("/x/y{}", "/0".repeat(60)), "value": nested(70)}]);
        cause(json_patch(&live, patch.to_string().as_bytes()));
    }
    let test = json!([{"op": "test", "path": "/x", "value": nested(100)}]).to_string();
    cause(json_patch(&live, test.as_bytes()));
}

#[test]
fn long_lists_merge_in_one_pass() {
    let many = |from: usize| Value::Array((from..from + 60_000).map(|n| json!(format!("f/{n}"))).collect());
    let begin = std::time::Instant::now();
    let live = json!({"metadata": {"finalizers": many(0)}});
    let merged = smp(
        &live,
        json!({"metadata": {"finalizers": many(30_000), "$setElementOrder/finalizers": many(30_000)}}),
    );
    assert_eq!(merged.unwrap()["metadata"]["finalizers"].as_array().unwrap().len(), 90_000);
    let gone = smp(&live, json!({"metadata": {"$deleteFromPrimitiveList/finalizers": many(10)}})).unwrap();
    assert_eq!(gone["metadata"]["finalizers"].as_array().unwrap().len(), 10);
    let containers = |from: usize| {
        deployment(Value::Array((from..from + 20_000).map(|n| json!({"name": format!("c{n}")})).collect()))
    };
    let merged = smp(&containers(0), containers(10_000)).unwrap();
    assert_eq!(names(&merged).len(), 30_000);
    let deletes = (0..20_000).map(|n| json!({"$patch": "delete", "name": format!("c{n}")})).collect();
    assert!(names(&smp(&containers(0), deployment(Value::Array(deletes))).unwrap()).is_empty());
    assert!(begin.elapsed().as_secs() < 60, "each element was held against each: {:?}", begin.elapsed());
}
