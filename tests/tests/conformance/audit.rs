//! The audit log, as a hub writes it by a policy file.

use std::path::PathBuf;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tests::api::text_at;
use tests::hub::{Hub, HubOptions};
use tests::wait::{eventually, so};

use crate::request::Caller;
use crate::webhook_server::WebhookServer;

const SOON: Duration = Duration::from_secs(20);

const POLICY: &str = r#"
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  resources: [{group: "", resources: [secrets]}]
- level: RequestResponse
  omitManagedFields: true
  verbs: [create, update, patch]
  resources: [{group: "", resources: [configmaps, serviceaccounts/token]}, {group: authentication.k8s.io}]
- level: Metadata
  resources: [{group: "", resources: [configmaps, pods]}, {group: apps}]
- level: Metadata
  nonResourceURLs: [/version]
"#;

/// A hub with a log, and the folder that both are in.
struct Audited {
    hub: Hub,
    log: PathBuf,
    _folder: tempfile::TempDir,
}

fn audited(policy: &str) -> Audited {
    let folder = tempfile::tempdir().unwrap();
    let (file, log) = (folder.path().join("policy.yaml"), folder.path().join("audit.log"));
    std::fs::write(&file, policy).unwrap();
    let flag = |name: &str, path: &PathBuf| format!("--{name}={}", path.display());
    let args = vec![flag("audit-policy-file", &file), flag("audit-log-path", &log)];
    let hub = Hub::start(HubOptions { args, ..HubOptions::default() });
    Audited { hub, log, _folder: folder }
}

impl Audited {
    fn caller(&self) -> Caller {
        Caller::of_kubeconfig(&self.hub.kubeconfig())
    }

    fn lines(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The events of the request with this id, once there are so many.
    #[track_caller]
    fn events(&self, id: &str, count: usize) -> Vec<Value> {
        eventually("the request's audit events", SOON, || {
            let found: Vec<Value> = self.lines().into_iter().filter(|event| event["auditID"] == id).collect();
            if found.len() >= count { Ok(found) } else { Err(format!("{found:?}")) }
        })
    }
}

fn with_id<'a>(id: &'a str, more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let mut all = vec![("audit-id", id), ("content-type", "application/json")];
    all.extend(more);
    all
}

#[test]
fn events_say_who_did_what_and_how_it_ended() {
    let audited = audited(POLICY);
    let admin = audited.caller();
    let maps = "/api/v1/namespaces/default/configmaps";
    let body = json!({"metadata": {"name": "a"}, "data": {"k": "v"}}).to_string();
    let answer = admin.send(Method::POST, maps, &with_id("made", &[]), body.clone()).is(201);
    assert_eq!(answer.header("audit-id"), "made");
    let event = &audited.events("made", 1)[0];
    for (pointer, wanted) in [
        ("/kind", "Event"),
        ("/apiVersion", "audit.k8s.io/v1"),
        ("/level", "RequestResponse"),
        ("/stage", "ResponseComplete"),
        ("/requestURI", maps),
        ("/verb", "create"),
        ("/user/username", "system:admin"),
        ("/objectRef/resource", "configmaps"),
        ("/objectRef/namespace", "default"),
        ("/objectRef/name", "a"),
        ("/requestObject/data/k", "v"),
        ("/responseObject/data/k", "v"),
        ("/annotations/authorization.k8s.io~1decision", "allow"),
    ] {
        assert_eq!(text_at(event, pointer), wanted, "{pointer}: {event}");
    }
    assert_eq!(event["responseStatus"]["code"], 201);
    assert_eq!(event["sourceIPs"], json!(["127.0.0.1"]));
    assert!(event.pointer("/responseObject/metadata/uid").is_some());
    assert!(event.pointer("/responseObject/metadata/managedFields").is_none(), "{event}");
    // What was refused is told too, with whom it was meant to be done as.
    let headers = with_id("refused", &[("impersonate-user", "jane")]);
    admin.send(Method::GET, &format!("{maps}/a"), &headers, "").is(403);
    let event = &audited.events("refused", 1)[0];
    assert_eq!(text_at(event, "/level"), "Metadata");
    assert_eq!(text_at(event, "/impersonatedUser/username"), "jane");
    assert_eq!(text_at(event, "/annotations/authorization.k8s.io~1decision"), "forbid");
    assert_eq!(
        (text_at(event, "/responseStatus/reason"), &event["responseStatus"]["code"]),
        ("Forbidden", &json!(403))
    );
    assert!(event.get("requestObject").is_none() && event.get("responseObject").is_none());
    let bad = admin.with_token("nonsense");
    bad.send(Method::GET, "/version", &with_id("nobody", &[]), "").is(401);
    let event = &audited.events("nobody", 1)[0];
    assert_eq!(
        (text_at(event, "/stage"), &event["responseStatus"]["code"]),
        ("ResponseStarted", &json!(401))
    );
    assert_eq!(event["user"], json!({}));
    // A conflict's words are in the status.
    admin.send(Method::POST, maps, &with_id("again", &[]), body).is(409);
    assert_eq!(text_at(&audited.events("again", 1)[0], "/responseStatus/reason"), "AlreadyExists");
}

#[test]
fn what_the_policy_leaves_out_is_not_written_and_no_token_ever() {
    let audited = audited(POLICY);
    let admin = audited.caller();
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"k": "very-secret-value"}}).to_string();
    admin.send(Method::POST, "/api/v1/namespaces/default/secrets", &with_id("secret", &[]), secret).is(201);
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    admin.post(accounts, &json!({"metadata": {"name": "robot"}})).is(201);
    let made = admin
        .send(Method::POST, &format!("{accounts}/robot/token"), &with_id("token", &[]), "{}")
        .is(201)
        .json();
    let token = text_at(&made, "/status/token").to_owned();
    let review =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}});
    let reviews = "/apis/authentication.k8s.io/v1/tokenreviews";
    admin.send(Method::POST, reviews, &with_id("review", &[]), review.to_string()).is(201);
    admin.with_token(&token).send(Method::GET, "/version", &with_id("bearer", &[]), "").is(200);
    for (id, user) in [
        ("token", "system:admin"),
        ("review", "system:admin"),
        ("bearer", "system:serviceaccount:default:robot"),
    ] {
        assert_eq!(text_at(&audited.events(id, 1)[0], "/user/username"), user);
    }
    let text = std::fs::read_to_string(&audited.log).unwrap();
    let signature = token.rsplit('.').next().unwrap();
    assert!(!text.contains(signature) && !text.contains("very-secret-value"));
    assert!(!audited.lines().iter().any(|event| event["auditID"] == "secret"));
}

#[test]
fn a_watch_is_told_at_its_beginning_and_at_its_end() {
    let audited = audited(POLICY);
    let admin = audited.caller();
    let path = "/api/v1/namespaces/default/configmaps?watch=1&timeoutSeconds=1";
    admin.send(Method::GET, path, &with_id("watch", &[]), "").is(200);
    let stages: Vec<Value> = audited.events("watch", 2).iter().map(|event| event["stage"].clone()).collect();
    assert_eq!(stages, ["ResponseStarted", "ResponseComplete"]);
    let metrics = admin.get("/metrics").text;
    assert!(metrics.contains("apiserver_audit_error_total 0"), "{metrics}");
}

#[test]
fn policies_and_webhooks_annotate() {
    let audited = audited(POLICY);
    let admin = audited.caller();
    let policy = json!({"metadata": {"name": "tells"}, "spec": {
        "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]},
        "validations": [{"expression": "object.metadata.name != 'odd'", "message": "odd names"}],
        "auditAnnotations": [
            {"key": "named", "valueExpression": "'it is ' + object.metadata.name"},
            {"key": "never", "valueExpression": "null"}]}});
    let binding = json!({"metadata": {"name": "tells"}, "spec": {"policyName": "tells", "validationActions": ["Audit"]}});
    let group = "/apis/admissionregistration.k8s.io/v1";
    admin.post(&format!("{group}/validatingadmissionpolicies"), &policy).is(201);
    admin.post(&format!("{group}/validatingadmissionpolicybindings"), &binding).is(201);
    let webhook = WebhookServer::start(|_, review| {
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {
            "uid": review["request"]["uid"], "allowed": true, "auditAnnotations": {"seen": "yes"}}})
    });
    let hook = json!({"metadata": {"name": "h"}, "webhooks": [{
        "name": "h.example.org", "clientConfig": webhook.at("/"), "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]}]});
    admin.post(&format!("{group}/validatingwebhookconfigurations"), &hook).is(201);
    let maps = "/api/v1/namespaces/default/configmaps";
    let body = json!({"metadata": {"name": "odd"}}).to_string();
    admin.send(Method::POST, maps, &with_id("odd", &[]), body).is(201);
    let event = &audited.events("odd", 1)[0];
    let notes = &event["annotations"];
    assert_eq!(notes["tells/named"], "it is odd", "{event}");
    assert_eq!(notes["h.example.org/seen"], "yes", "{event}");
    assert!(notes.get("tells/never").is_none());
    let failure = notes["validation.policy.admission.k8s.io/validation_failure"].as_str().unwrap_or_default();
    let failure: Value = serde_json::from_str(failure).unwrap_or_else(|error| panic!("{error}: {event}"));
    assert_eq!(
        failure,
        json!([{"message": "odd names", "policy": "tells", "binding": "tells", "expressionIndex": 0, "validationActions": ["Audit"]}])
    );
}

/// What Pod security decided, and by which labels, is in the event of each write that it looked at.
#[test]
fn pod_security_annotates() {
    const PREFIX: &str = "pod-security.kubernetes.io/";
    let audited = audited(POLICY);
    let admin = audited.caller();
    for (name, labels) in [
        ("free", json!({})),
        ("strict", json!({"enforce": "baseline", "audit": "restricted", "audit-version": "v1.8"})),
    ] {
        let labels = labels.as_object().unwrap().iter();
        let labels: Value = labels.map(|(key, value)| (format!("{PREFIX}{key}"), value.clone())).collect();
        let namespace = json!({"metadata": {"name": name, "labels": labels}});
        admin.post("/api/v1/namespaces", &namespace).is(201);
    }
    let violations = "would violate PodSecurity \"restricted:v1.8\": allowPrivilegeEscalation != false (container \"c\" must set \
        securityContext.allowPrivilegeEscalation=false), runAsNonRoot != true (pod or container \"c\" must set \
        securityContext.runAsNonRoot=true)";
    let of_the_node = violations.replace("v1.8\": ", "v1.8\": host namespaces (hostPID=true), ");
    let own = json!({"containers": [{"name": "c", "image": "i"}]});
    let shared = json!({"hostPID": true, "containers": [{"name": "c", "image": "i"}]});
    for (id, namespace, plural, spec, code, policy, noted) in [
        ("free", "free", "pods", &shared, 201, "privileged:latest", None),
        ("passed", "strict", "pods", &own, 201, "baseline:latest", Some(violations)),
        ("refused", "strict", "pods", &shared, 403, "baseline:latest", Some(&*of_the_node)),
        ("template", "strict", "deployments", &shared, 201, "", Some(&*of_the_node)),
    ] {
        let (root, body) = match plural {
            "pods" => ("/api/v1", json!({"metadata": {"name": id}, "spec": spec})),
            _ => {
                let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": spec});
                let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template});
                ("/apis/apps/v1", json!({"metadata": {"name": id}, "spec": spec}))
            }
        };
        let path = format!("{root}/namespaces/{namespace}/{plural}");
        admin.send(Method::POST, &path, &with_id(id, &[]), body.to_string()).is(code);
        let notes = &audited.events(id, 1)[0]["annotations"];
        let note = |key: &str| notes[format!("{PREFIX}{key}")].as_str().unwrap_or_default().to_owned();
        assert_eq!(note("enforce-policy"), policy, "{id}: {notes}");
        assert_eq!(note("audit-violations"), noted.unwrap_or_default(), "{id}: {notes}");
    }
}

#[test]
fn a_hub_does_not_start_with_a_policy_that_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.yaml");
    std::fs::write(&file, "kind: Policy\napiVersion: audit.k8s.io/v1\nrules: []\n").unwrap();
    let data = folder.path().join("data");
    let output = std::process::Command::new(tests::built::program("karmada-hub"))
        .args(["serve", "--listen=127.0.0.1:0", "--audit-log-path=-"])
        .args([format!("--data-dir={}", data.display()), format!("--audit-policy-file={}", file.display())])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    so(!output.status.success() && told.contains("0 rules"), || told.to_string()).unwrap();
}
