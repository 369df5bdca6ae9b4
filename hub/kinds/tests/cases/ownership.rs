//! Who owns what is filled in.

use karmada_kinds::kind::Kind;
use karmada_schema::apply::{Writer, update_managed};
use serde_json::json;

#[test]
fn a_creator_owns_everything_defaults_among_it() {
    let kind = Kind::builtin("apps", "v1", "Deployment").unwrap();
    let mut object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "d"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [
                {"name": "c", "image": "nginx:1", "ports": [{"containerPort": 80}]}]}},
        },
    });
    kind.decode(&mut object).unwrap();
    kind.default(&mut object);
    let (manager, now) = ("kubectl-create", "2026-01-01T00:00:00Z");
    let resets = kind.row.resets;
    let writer = Writer { manager, api_version: "apps/v1", subresource: "", now, has_status: true, resets };
    update_managed(None, &mut object, writer, kind.schema);
    let set = &object["metadata"]["managedFields"][0]["fieldsV1"];
    assert_eq!(
        set["f:spec"]["f:strategy"],
        json!({"f:type": {}, "f:rollingUpdate": {".": {}, "f:maxSurge": {}, "f:maxUnavailable": {}}})
    );
    assert_eq!(set["f:spec"]["f:template"]["f:spec"]["f:securityContext"], json!({}));
    assert_eq!(set["f:spec"]["f:template"]["f:metadata"]["f:labels"], json!({".": {}, "f:app": {}}));
    assert_eq!(
        set["f:spec"]["f:template"]["f:spec"]["f:containers"]["k:{\"name\":\"c\"}"]["f:ports"],
        json!({".": {}, "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}, "f:protocol": {}}})
    );
    assert!(set.get("f:status").is_none());
    assert!(set["f:metadata"].is_null());
}
