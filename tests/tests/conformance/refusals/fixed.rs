//! What may not change once it is there.

use serde_json::json;
use tests::api::text_at;

use crate::request::Calls as _;
use tests::subject::shared;

#[test]
fn what_may_not_change_does_not() {
    let subject = shared();
    let caller = subject.caller();
    let namespace = subject.namespace("fixed");
    let core = format!("/api/v1/namespaces/{namespace}");
    let deployments = format!("/apis/apps/v1/namespaces/{namespace}/deployments");
    let template = |label: &str| json!({"metadata": {"labels": {"a": label}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let deployment = json!({"metadata": {"name": "d"}, "spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template("b")}});
    caller.post(&deployments, &deployment).is(201);
    caller
        .post(
            &format!("{core}/secrets"),
            &json!({"metadata": {"name": "s"}, "type": "Opaque", "immutable": true}),
        )
        .is(201);
    caller
        .post(
            &format!("{core}/configmaps"),
            &json!({"metadata": {"name": "c"}, "immutable": true, "data": {"a": "b"}}),
        )
        .is(201);
    let job = json!({"metadata": {"name": "j"}, "spec": {"suspend": true, "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}});
    let jobs = format!("/apis/batch/v1/namespaces/{namespace}/jobs");
    caller.post(&jobs, &job).is(201);
    let bindings = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings");
    let binding = json!({"metadata": {"name": "b"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}});
    caller.post(&bindings, &binding).is(201);
    let selector = json!({"spec": {"selector": {"matchLabels": {"a": "c"}}, "template": template("c")}});
    for (path, patch, causes) in [
        (format!("{deployments}/d"), selector, "FieldValueInvalid spec.selector"),
        (format!("{core}/secrets/s"), json!({"type": "other"}), "FieldValueInvalid type"),
        (format!("{core}/secrets/s"), json!({"data": {"a": "Yg=="}}), "FieldValueForbidden data"),
        (format!("{core}/configmaps/c"), json!({"data": {"a": "c"}}), "FieldValueForbidden data"),
        (format!("{jobs}/j"), json!({"spec": {"completions": 5}}), "FieldValueInvalid spec.completions"),
        (format!("{bindings}/b"), json!({"roleRef": {"name": "edit"}}), "FieldValueInvalid roleRef"),
    ] {
        let answer = caller.patch("merge", &path, &patch);
        answer.refusal(422, "Invalid");
        assert!(answer.causes().contains(&causes.to_owned()), "{path}: {:?}", answer.causes());
    }
    let another = json!({"metadata": {"name": "c", "uid": "another"}, "immutable": true, "data": {"a": "b"}});
    caller.put(&format!("{core}/configmaps/c"), &another).refusal(409, "Conflict");
    // What the server owns is kept without a word.
    let kept = json!({"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z", "generation": 99}});
    let patched = caller.patch("merge", &format!("{deployments}/d"), &kept).is(200).json();
    assert!(!text_at(&patched, "/metadata/creationTimestamp").starts_with("2001"), "{patched}");
    assert!(patched["metadata"].get("deletionTimestamp").is_none(), "{patched}");
    assert_eq!(patched["metadata"]["generation"], 1, "{patched}");
}
