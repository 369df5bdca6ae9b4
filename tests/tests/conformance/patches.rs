//! Patches of every type, field ownership, and fields that nobody knows.

use http::Method;
use serde_json::{Value, json};
use tests::api::text_at;

use crate::request::{Answer, Caller, Calls as _};
use tests::subject::shared;

fn deployment(name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {"replicas": 0,
    "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [
        {"name": "one", "image": "one:1", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
            "ports": [{"containerPort": 80}], "args": ["a", "b"]},
        {"name": "two", "image": "two:1"},
    ]}}}})
}

fn containers(object: &Value) -> &Vec<Value> {
    object["spec"]["template"]["spec"]["containers"].as_array().unwrap()
}

#[test]
fn a_json_patch_does_what_it_says() {
    let subject = shared();
    let caller = subject.caller();
    let path = format!("/api/v1/namespaces/{}/configmaps", subject.namespace("json"));
    caller.post(&path, &json!({"metadata": {"name": "m"}, "data": {"a": "1", "b": "2"}})).is(201);
    let patch = json!([
        {"op": "test", "path": "/data/a", "value": "1"},
        {"op": "replace", "path": "/data/a", "value": "one"},
        {"op": "remove", "path": "/data/b"},
        {"op": "add", "path": "/data/c", "value": "3"},
        {"op": "copy", "from": "/data/c", "path": "/data/d"},
        {"op": "move", "from": "/data/d", "path": "/data/e"},
        {"op": "add", "path": "/metadata/labels", "value": {"l": "m"}},
    ]);
    let refused = caller.patch("json", &format!("{path}/m"), &json!([{"op": "replace", "path": "/data/a", "value": "9"}, {"op": "test", "path": "/data/b", "value": "no"}]));
    refused.refusal(422, "Invalid");
    assert_eq!(caller.get(&format!("{path}/m")).json()["data"]["a"], "1", "all of a patch or nothing");
    let patch = json!(patch.as_array().unwrap());
    let object =
        caller.post(&path, &json!({"metadata": {"name": "n"}, "data": {"a": "1", "b": "2"}})).is(201).json();
    assert_eq!(object["data"]["b"], "2");
    let patched = caller.patch("json", &format!("{path}/n"), &patch).is(200).json();
    assert_eq!(patched["data"], json!({"a": "one", "c": "3", "e": "3"}));
    assert_eq!(patched["metadata"]["labels"]["l"], "m");
}

#[test]
fn a_merge_patch_replaces_lists_and_a_strategic_one_merges_them() {
    let subject = shared();
    let caller = subject.caller();
    let path = format!("/apis/apps/v1/namespaces/{}/deployments", subject.namespace("merge"));
    caller.post(&path, &deployment("d")).is(201);
    let one = format!("{path}/d");
    let spec = |containers: Value| json!({"spec": {"template": {"spec": {"containers": containers}}}});
    let patched = caller
        .patch(
            "strategic-merge",
            &one,
            &spec(json!([{"name": "two", "image": "two:2"}, {"name": "three", "image": "three:1"}])),
        )
        .is(200)
        .json();
    let mut images: Vec<&str> = containers(&patched).iter().map(|c| text_at(c, "/image")).collect();
    images.sort_unstable();
    assert_eq!(images, ["one:1", "three:1", "two:2"]);
    let patched = caller.patch("strategic-merge", &one, &spec(json!([{"name": "three", "$patch": "delete"}, {"name": "one", "args": ["c"], "env": [{"name": "B", "value": "3"}, {"name": "C", "value": "4"}]}]))).is(200).json();
    assert_eq!(containers(&patched).len(), 2);
    let own = containers(&patched).iter().find(|c| c["name"] == "one").unwrap();
    assert_eq!(own["args"], json!(["c"]), "a list of values is replaced");
    let mut env: Vec<String> = own["env"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| format!("{}={}", text_at(e, "/name"), text_at(e, "/value")))
        .collect();
    env.sort();
    assert_eq!(env, ["A=1", "B=3", "C=4"]);
    let patched = caller
        .patch(
            "strategic-merge",
            &one,
            &spec(json!([{"$patch": "replace"}, {"name": "only", "image": "only:1"}])),
        )
        .is(200)
        .json();
    assert_eq!(containers(&patched).len(), 1);
    let finalizers = |patch: Value| {
        caller.patch("strategic-merge", &one, &json!({"metadata": patch})).is(200).json()["metadata"]["finalizers"].clone()
    };
    assert_eq!(finalizers(json!({"finalizers": ["example.com/a"]})), json!(["example.com/a"]));
    assert_eq!(
        finalizers(json!({"finalizers": ["example.com/b"]})),
        json!(["example.com/b", "example.com/a"])
    );
    assert_eq!(
        finalizers(json!({"$deleteFromPrimitiveList/finalizers": ["example.com/a"]})),
        json!(["example.com/b"])
    );
    assert_eq!(finalizers(json!({"finalizers": null})), Value::Null);
    let patched =
        caller.patch("merge", &one, &spec(json!([{"name": "last", "image": "last:1"}]))).is(200).json();
    assert_eq!(containers(&patched).len(), 1);
    let refused = caller.patch("strategic-merge", &one, &json!({"spec": {"$patch": "sideways"}}));
    assert!(matches!(refused.code, 400 | 500), "{} {}", refused.code, refused.text);
}

fn apply(caller: &Caller, path: &str, manager: &str, force: bool, object: &Value) -> Answer {
    caller.patch("apply", &format!("{path}?fieldManager={manager}&force={force}"), object)
}

#[test]
fn appliers_own_what_they_apply() {
    let subject = shared();
    let caller = subject.caller();
    let path = format!("/api/v1/namespaces/{}/configmaps/shared", subject.namespace("apply"));
    let object = |data: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared"}, "data": data});
    apply(&caller, &path, "first", false, &object(json!({"a": "1", "b": "1"}))).is(201);
    apply(&caller, &path, "second", false, &object(json!({"c": "2", "a": "1"}))).is(200);
    let refused = apply(&caller, &path, "second", false, &object(json!({"c": "2", "b": "2"})));
    let message = refused.refusal(409, "Conflict");
    assert_eq!(message, "Apply failed with 1 conflict: conflict with \"first\": .data.b");
    assert_eq!(refused.causes(), ["FieldManagerConflict .data.b"]);
    let taken = apply(&caller, &path, "second", true, &object(json!({"c": "2", "b": "2"}))).is(200).json();
    assert_eq!(taken["data"], json!({"a": "1", "b": "2", "c": "2"}));
    // What the first no longer applies and nobody else owns goes; b has become the second's.
    let left = apply(&caller, &path, "first", false, &object(json!({}))).is(200).json();
    assert_eq!(left["data"], json!({"b": "2", "c": "2"}));
    caller.patch("merge", &format!("{path}?fieldManager=third"), &json!({"data": {"c": "3"}})).is(200);
    let message =
        apply(&caller, &path, "second", false, &object(json!({"c": "2", "b": "2"}))).refusal(409, "Conflict");
    assert!(message.contains("conflict with \"third\""), "{message}");
    let twice = apply(&caller, &path, "second", true, &object(json!({"b": "2"}))).is(200).json();
    let again = apply(&caller, &path, "second", true, &object(json!({"b": "2"}))).is(200).json();
    assert_eq!(
        twice["metadata"]["resourceVersion"], again["metadata"]["resourceVersion"],
        "nothing new, nothing written"
    );
    let stale = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared", "resourceVersion": "1"}});
    apply(&caller, &path, "second", true, &stale).refusal(409, "Conflict");
    let cleared = caller.patch("merge", &path, &json!({"metadata": {"managedFields": [{}]}})).is(200).json();
    assert!(cleared["metadata"].get("managedFields").is_none(), "{cleared}");
}

#[test]
fn applied_lists_are_merged_by_their_keys() {
    let subject = shared();
    let caller = subject.caller();
    let path = format!("/apis/apps/v1/namespaces/{}/deployments/d", subject.namespace("keys"));
    apply(&caller, &path, "base", false, &deployment("d")).is(201);
    let add = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"template": {"spec": {
        "containers": [{"name": "one", "env": [{"name": "C", "value": "3"}], "ports": [{"containerPort": 443}]}, {"name": "side", "image": "side:1"}]}}}});
    let merged = apply(&caller, &path, "side", false, &add).is(200).json();
    let names: Vec<&str> = containers(&merged).iter().map(|c| text_at(c, "/name")).collect();
    assert_eq!(names, ["one", "two", "side"]);
    assert_eq!(containers(&merged)[0]["env"].as_array().unwrap().len(), 3);
    let ports: Vec<&Value> =
        containers(&merged)[0]["ports"].as_array().unwrap().iter().map(|p| &p["containerPort"]).collect();
    assert_eq!(ports, [&json!(80), &json!(443)], "the protocol of a key has its default");
    let none = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}});
    let less = apply(&caller, &path, "side", false, &none).is(200).json();
    let names: Vec<&str> = containers(&less).iter().map(|c| text_at(c, "/name")).collect();
    assert_eq!(names, ["one", "two"]);
    assert_eq!(containers(&less)[0]["env"].as_array().unwrap().len(), 2);
    let scale = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"replicas": 5}});
    let message = apply(&caller, &path, "scaler", false, &scale).refusal(409, "Conflict");
    assert!(message.contains(".spec.replicas"), "{message}");
}

#[test]
fn unknown_and_duplicate_fields_are_judged_as_asked() {
    let subject = shared();
    let caller = subject.caller();
    let path = format!("/apis/apps/v1/namespaces/{}/deployments", subject.namespace("fields"));
    let unknown = |name: &str| {
        let mut object = deployment(name);
        object["spec"]["colour"] = json!("red");
        object["spec"]["template"]["spec"]["containers"][0]["imagee"] = json!("x");
        object
    };
    let refused = caller.post(&format!("{path}?fieldValidation=Strict"), &unknown("strict"));
    let message = refused.refusal(400, "BadRequest");
    assert!(message.contains("strict decoding error: unknown field \"spec.colour\", unknown field \"spec.template.spec.containers[0].imagee\""), "{message}");
    caller.get(&format!("{path}/strict")).refusal(404, "NotFound");
    for query in ["", "?fieldValidation=Warn"] {
        let answer =
            caller.post(&format!("{path}{query}"), &unknown(&format!("warn{}", query.len()))).is(201);
        let warnings = answer.warnings();
        assert!(warnings.contains(&"unknown field \"spec.colour\"".to_owned()), "{warnings:?}");
        assert!(answer.json()["spec"].get("colour").is_none());
    }
    let answer = caller.post(&format!("{path}?fieldValidation=Ignore"), &unknown("ignore")).is(201);
    assert_eq!(answer.warnings(), Vec::<String>::new());

    let twice = r#"{"metadata":{"name":"twice"},"data":{"a":"1","a":"2"}}"#;
    let maps = path.replace("/apis/apps/v1", "/api/v1").replace("deployments", "configmaps");
    let post = |query: &str| {
        caller.send(Method::POST, &format!("{maps}{query}"), &[("content-type", "application/json")], twice)
    };
    let message = post("?fieldValidation=Strict").refusal(400, "BadRequest");
    assert!(message.contains("duplicate field \"data.a\""), "{message}");
    let answer = post("?fieldValidation=Warn").is(201);
    assert_eq!(
        (answer.json()["data"]["a"].clone(), answer.warnings()),
        (json!("2"), vec!["duplicate field \"data.a\"".to_owned()])
    );

    let patch = json!({"spec": {"colour": "red"}});
    for kind in ["merge", "strategic-merge"] {
        let strict = caller.patch(kind, &format!("{path}/ignore?fieldValidation=Strict"), &patch);
        let message = strict.refusal(422, "Invalid");
        assert!(message.contains("unknown field \"spec.colour\""), "{message}");
        let warned = caller.patch(kind, &format!("{path}/ignore"), &patch).is(200);
        assert_eq!(warned.warnings(), ["unknown field \"spec.colour\""], "{kind}");
    }
    let applied = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "ignore"}, "spec": {"colour": "red"}});
    let answer = caller.patch("apply", &format!("{path}/ignore?fieldManager=m"), &applied);
    assert!(
        matches!(answer.code, 400 | 500) && answer.text.contains("colour"),
        "{} {}",
        answer.code,
        answer.text
    );
}
