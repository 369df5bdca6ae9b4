//! How objects begin and end: generated names, dry runs, finalizers, owners, namespaces.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use tests::api::{condition, text_at};
use tests::wait::{eventually, so, throughout};

use crate::request::{Caller, Calls as _, gone};
use tests::subject::shared;

const TIMEOUT: Duration = Duration::from_secs(30);

#[track_caller]
fn make(caller: &Caller, path: &str, name: &str, metadata: &Value) -> Value {
    let mut object = json!({"metadata": {"name": name}});
    for (key, value) in metadata.as_object().into_iter().flatten() {
        object["metadata"][key] = value.clone();
    }
    caller.post(path, &object).is(201).json()
}

#[test]
fn names_are_generated() {
    let subject = shared();
    let caller = subject.caller();
    let path = format!("/api/v1/namespaces/{}/secrets", subject.namespace("names"));
    let mut names = BTreeSet::new();
    for _ in 0..20 {
        let made = caller.post(&path, &json!({"metadata": {"generateName": "made-"}})).is(201).json();
        let name = text_at(&made, "/metadata/name").to_owned();
        assert!(name.starts_with("made-") && name.len() == 10, "{name}");
        names.insert(name);
    }
    assert_eq!(names.len(), 20);
    let both = json!({"metadata": {"generateName": "made-", "name": "given"}});
    assert_eq!(text_at(&caller.post(&path, &both).is(201).json(), "/metadata/name"), "given");
}

#[test]
fn a_dry_run_leaves_nothing() {
    let subject = shared();
    let caller = subject.caller();
    let path = format!("/api/v1/namespaces/{}/secrets", subject.namespace("dry"));
    make(&caller, &path, "there", &json!({"labels": {"a": "b"}}));
    let before = caller.get(&path).is(200).json();
    let (one, all) = (format!("{path}/there"), "dryRun=All");
    let label = json!({"metadata": {"labels": {"a": "c"}}});
    caller.post(&format!("{path}?{all}"), &json!({"metadata": {"name": "new"}})).is(201);
    caller
        .post(&format!("{path}?{all}"), &json!({"metadata": {"name": "there"}}))
        .refusal(409, "AlreadyExists");
    caller.post(&format!("{path}?{all}"), &json!({"metadata": {"name": "Bad"}})).refusal(422, "Invalid");
    let patched = caller.patch("merge", &format!("{one}?{all}"), &label).is(200).json();
    assert_eq!(patched["metadata"]["labels"]["a"], "c");
    let applied =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "there", "labels": {"x": "y"}}});
    caller.patch("apply", &format!("{one}?{all}&fieldManager=m"), &applied).is(200);
    let created = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "fresh"}});
    caller.patch("apply", &format!("{path}/fresh?{all}&fieldManager=m"), &created).is(201);
    let mut put = caller.get(&one).is(200).json();
    put["metadata"]["labels"]["a"] = json!("d");
    caller.put(&format!("{one}?{all}"), &put).is(200);
    caller.delete(&format!("{one}?{all}"), &Value::Null).is(200);
    caller.delete(&one, &json!({"dryRun": ["All"]})).is(200);
    caller.delete(&format!("{path}?{all}"), &Value::Null).is(200);
    let after = caller.get(&path).is(200).json();
    assert_eq!(before["items"], after["items"]);
}

#[test]
fn finalizers_hold() {
    let subject = shared();
    let caller = subject.caller();
    let path = format!("/api/v1/namespaces/{}/secrets", subject.namespace("held"));
    make(&caller, &path, "held", &json!({"finalizers": ["example.com/a", "example.com/b"]}));
    let one = format!("{path}/held");
    let answer = caller.delete(&one, &Value::Null).is(200).json();
    assert!(answer["metadata"]["deletionTimestamp"].is_string(), "a held object is the answer: {answer}");
    let since = caller.get(&one).is(200).json()["metadata"]["deletionTimestamp"].clone();
    caller.delete(&one, &Value::Null).is(200);
    assert_eq!(caller.get(&one).is(200).json()["metadata"]["deletionTimestamp"], since);
    caller.post(&path, &json!({"metadata": {"name": "held"}})).refusal(409, "AlreadyExists");
    // One more may not be added now, and the mark cannot be taken away.
    let more = json!({"metadata": {"finalizers": ["example.com/a", "example.com/b", "example.com/c"]}});
    let refused = caller.patch("merge", &one, &more);
    refused.refusal(422, "Invalid");
    assert!(
        refused.causes().contains(&"FieldValueForbidden metadata.finalizers".to_owned()),
        "{}",
        refused.text
    );
    caller
        .patch("merge", &one, &json!({"metadata": {"deletionTimestamp": null, "labels": {"a": "b"}}}))
        .is(200);
    assert_eq!(caller.get(&one).is(200).json()["metadata"]["deletionTimestamp"], since);
    caller.patch("merge", &one, &json!({"metadata": {"finalizers": ["example.com/b"]}})).is(200);
    caller.get(&one).is(200);
    caller.patch("merge", &one, &json!({"metadata": {"finalizers": null}})).is(200);
    caller.get(&one).refusal(404, "NotFound");
}

/// An owner with two dependants, of which one blocks its deletion.
fn family(caller: &Caller, path: &str, owner: &str) -> (String, [String; 2]) {
    let made = make(caller, path, owner, &Value::Null);
    let reference = |blocks: bool| json!({"ownerReferences": [{"apiVersion": "v1", "kind": "Secret", "name": owner, "uid": made["metadata"]["uid"], "blockOwnerDeletion": blocks}]});
    let names = [format!("{owner}-one"), format!("{owner}-two")];
    make(caller, path, &names[0], &reference(true));
    make(caller, path, &names[1], &reference(false));
    (format!("{path}/{owner}"), names.map(|name| format!("{path}/{name}")))
}

#[test]
fn dependants_go_in_the_background() {
    let subject = shared();
    let caller = subject.caller();
    let path = format!("/api/v1/namespaces/{}/secrets", subject.namespace("background"));
    for (n, options) in
        [Value::Null, json!({"propagationPolicy": "Background"}), json!({"orphanDependents": false})]
            .iter()
            .enumerate()
    {
        let (owner, dependants) = family(&caller, &path, &format!("owner-{n}"));
        caller.delete(&owner, options).is(200);
        caller.get(&owner).refusal(404, "NotFound");
        dependants.iter().for_each(|path| gone(&caller, path));
    }
}

#[test]
fn dependants_go_before_their_owner() {
    let subject = shared();
    let caller = subject.caller();
    let path = format!("/api/v1/namespaces/{}/secrets", subject.namespace("foreground"));
    let (owner, [blocking, other]) = family(&caller, &path, "owner");
    caller.patch("merge", &blocking, &json!({"metadata": {"finalizers": ["example.com/hold"]}})).is(200);
    caller.delete(&owner, &json!({"propagationPolicy": "Foreground"})).is(200);
    let marked = caller.get(&owner).is(200).json();
    assert!(
        marked["metadata"]["finalizers"].as_array().unwrap().contains(&json!("foregroundDeletion")),
        "{marked}"
    );
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    gone(&caller, &other);
    eventually("the dependant's mark", TIMEOUT, || {
        let object = caller.get(&blocking).is(200).json();
        so(object["metadata"]["deletionTimestamp"].is_string(), || object.to_string())
    });
    throughout("the owner's waiting", Duration::from_millis(700), || {
        let answer = caller.get(&owner);
        so(answer.code == 200, || answer.text)
    });
    caller.patch("merge", &blocking, &json!({"metadata": {"finalizers": null}})).is(200);
    gone(&caller, &blocking);
    gone(&caller, &owner);
}

#[test]
fn orphans_stay_without_their_owner() {
    let subject = shared();
    let caller = subject.caller();
    let path = format!("/api/v1/namespaces/{}/secrets", subject.namespace("orphans"));
    let (owner, dependants) = family(&caller, &path, "owner");
    caller.delete(&owner, &json!({"propagationPolicy": "Orphan"})).is(200);
    gone(&caller, &owner);
    for path in &dependants {
        let object = caller.get(path).is(200).json();
        assert!(object["metadata"].get("ownerReferences").is_none(), "{object}");
    }
}

#[test]
fn an_object_of_two_owners_outlives_one_and_one_of_none_is_collected() {
    let subject = shared();
    let caller = subject.caller();
    let path = format!("/api/v1/namespaces/{}/secrets", subject.namespace("owners"));
    let uid = |name: &str| make(&caller, &path, name, &Value::Null)["metadata"]["uid"].clone();
    let reference =
        |name: &str, uid: &Value| json!({"apiVersion": "v1", "kind": "Secret", "name": name, "uid": uid});
    let references =
        json!({"ownerReferences": [reference("first", &uid("first")), reference("second", &uid("second"))]});
    make(&caller, &path, "child", &references);
    caller.delete(&format!("{path}/first"), &Value::Null).is(200);
    eventually("the first owner's reference to go", TIMEOUT, || {
        let child = caller.get(&format!("{path}/child")).is(200).json();
        so(child["metadata"]["ownerReferences"].as_array().unwrap().len() == 1, || child.to_string())
    });
    caller.delete(&format!("{path}/second"), &Value::Null).is(200);
    gone(&caller, &format!("{path}/child"));
    // Somebody who never was, and somebody whose name another now bears.
    make(&caller, &path, "living", &Value::Null);
    for owner in ["never", "living"] {
        let nobody =
            json!({"ownerReferences": [reference(owner, &json!("11111111-2222-3333-4444-555555555555"))]});
        make(&caller, &path, "foundling", &nobody);
        gone(&caller, &format!("{path}/foundling"));
    }
    caller.get(&format!("{path}/living")).is(200);
}

#[test]
fn a_namespace_has_what_every_namespace_has() {
    let subject = shared();
    let caller = subject.caller();
    let namespace = subject.namespace("fresh");
    let object = caller.get(&format!("/api/v1/namespaces/{namespace}")).is(200).json();
    assert_eq!(text_at(&object, "/status/phase"), "Active");
    assert_eq!(object["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(object["metadata"]["labels"]["kubernetes.io/metadata.name"], namespace.as_str());
    for path in ["serviceaccounts/default", "configmaps/kube-root-ca.crt"] {
        let path = format!("/api/v1/namespaces/{namespace}/{path}");
        eventually(&path, TIMEOUT, || {
            let answer = caller.get(&path);
            so(answer.code == 200, || answer.text)
        });
    }
    let root =
        caller.get(&format!("/api/v1/namespaces/{namespace}/configmaps/kube-root-ca.crt")).is(200).json();
    assert!(text_at(&root, "/data/ca.crt").contains("BEGIN CERTIFICATE"), "{root}");
    for fixed in ["default", "kube-system", "kube-public"] {
        caller.delete(&format!("/api/v1/namespaces/{fixed}"), &Value::Null).refusal(403, "Forbidden");
    }
}

#[test]
fn a_namespace_goes_with_its_content() {
    let subject = shared();
    let caller = subject.caller();
    let namespace = subject.namespace("ending");
    let path = format!("/api/v1/namespaces/{namespace}");
    make(&caller, &format!("{path}/secrets"), "plain", &Value::Null);
    make(&caller, &format!("{path}/secrets"), "held", &json!({"finalizers": ["example.com/hold"]}));
    let deployment = json!({"metadata": {"name": "d"}, "spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let deployments = format!("/apis/apps/v1/namespaces/{namespace}/deployments");
    caller.post(&deployments, &deployment).is(201);
    // Its finalizer is not let go by a mere update.
    caller.patch("merge", &path, &json!({"spec": {"finalizers": []}})).is(200);
    assert_eq!(caller.get(&path).is(200).json()["spec"]["finalizers"], json!(["kubernetes"]));
    let answer = caller.delete(&path, &Value::Null).is(200).json();
    assert_eq!(text_at(&answer, "/status/phase"), "Terminating", "{answer}");
    let refused = caller.post(&format!("{path}/secrets"), &json!({"metadata": {"name": "late"}}));
    let message = refused.refusal(403, "Forbidden");
    assert!(
        message.contains(&format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        )),
        "{message}"
    );
    assert_eq!(refused.causes(), ["NamespaceTerminating metadata.namespace"]);
    gone(&caller, &format!("{path}/secrets/plain"));
    gone(&caller, &format!("{deployments}/d"));
    eventually("the namespace to say what holds it", TIMEOUT, || {
        let object = caller.get(&path).is(200).json();
        let holds = condition(&object, "NamespaceFinalizersRemaining") == "True"
            && condition(&object, "NamespaceContentRemaining") == "True";
        so(holds && object.to_string().contains("example.com/hold"), || object["status"].to_string())
    });
    caller
        .patch("merge", &format!("{path}/secrets/held"), &json!({"metadata": {"finalizers": null}}))
        .is(200);
    gone(&caller, &path);
    // Another of its name begins empty.
    caller.post("/api/v1/namespaces", &json!({"metadata": {"name": namespace}})).is(201);
    let secrets = caller.get(&format!("{path}/secrets")).is(200).json();
    assert_eq!(secrets["items"].as_array().unwrap().len(), 0);
}

#[test]
fn the_generation_counts_changes_of_the_spec() {
    let subject = shared();
    let caller = subject.caller();
    let namespace = subject.namespace("generation");
    let path = format!("/apis/networking.k8s.io/v1/namespaces/{namespace}/ingresses");
    let object = json!({"metadata": {"name": "i"}, "spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}});
    let one = format!("{path}/i");
    caller.post(&path, &object).is(201);
    let generation = || caller.get(&one).is(200).json()["metadata"]["generation"].as_i64().unwrap();
    assert_eq!(generation(), 1);
    caller.patch("merge", &one, &json!({"metadata": {"labels": {"a": "b"}}})).is(200);
    caller
        .patch(
            "merge",
            &format!("{one}/status"),
            &json!({"status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}]}}}),
        )
        .is(200);
    assert_eq!(generation(), 1);
    caller.patch("merge", &one, &json!({"spec": {"ingressClassName": "x"}})).is(200);
    assert_eq!(generation(), 2);
    let before = caller.get(&one).is(200).json();
    caller.patch("merge", &one, &json!({"spec": {"ingressClassName": "x"}})).is(200);
    let after = caller.get(&one).is(200).json();
    assert_eq!(
        before["metadata"]["resourceVersion"], after["metadata"]["resourceVersion"],
        "nothing changed, nothing was written"
    );
}
