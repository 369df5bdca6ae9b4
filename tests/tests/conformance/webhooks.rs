//! Admission webhooks: whom they are asked about, what they may change, what happens when they say no or are not there.

use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tests::wait::{TIMEOUT, eventually, so};

use crate::request::{Caller, Calls as _};
use crate::webhook_server::WebhookServer;
use tests::subject::{is_hub, shared};

const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1";

/// A webhook on this machine: answers by path and keeps what it was asked.
struct Server {
    server: WebhookServer,
    asked: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Server {
    fn start() -> Server {
        let asked: Arc<Mutex<Vec<(String, Value)>>> = Arc::default();
        let kept = asked.clone();
        let server = WebhookServer::start(move |path, mut review| {
            let request = review["request"].take();
            let response = respond(path, &request);
            kept.lock().unwrap().push((path.to_owned(), request));
            json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response})
        });
        Server { server, asked }
    }

    /// A webhook of this server for ConfigMaps in namespaces labelled `hooked: LABEL`.
    fn hook(&self, name: &str, path: &str, label: &str) -> Value {
        json!({
            "name": name, "admissionReviewVersions": ["v1"], "sideEffects": "None", "timeoutSeconds": 5,
            "clientConfig": self.server.at(path),
            "namespaceSelector": {"matchLabels": {"hooked": label}},
            "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
        })
    }

    /// What was asked at a path about an object of that name.
    fn asked(&self, path: &str, name: &str) -> Vec<Value> {
        let asked = self.asked.lock().unwrap();
        let of = |(at, request): &&(String, Value)| at == path && request["name"] == name;
        asked.iter().filter(of).map(|(_, request)| request.clone()).collect()
    }
}

fn respond(path: &str, request: &Value) -> Value {
    let mut response = json!({"uid": request["uid"], "allowed": true});
    let patch = |operations: Value| json!(STANDARD.encode(operations.to_string()));
    let data = &request["object"]["data"];
    match path {
        "/deny" => {
            if data["bad"].is_string() || request["oldObject"]["data"]["keep"].is_string() {
                response["allowed"] = json!(false);
                response["status"] = json!({"code": 403, "message": "not like this"});
            }
            response["warnings"] = json!(["mind the gap"]);
            response["auditAnnotations"] = json!({"seen": "yes"});
        }
        "/silent" => response["allowed"] = json!(false),
        "/stamp" if request["object"].is_object() => {
            let count = data["count"].as_str().map_or(0, |count| count.parse::<u32>().unwrap()) + 1;
            response["patchType"] = json!("JSONPatch");
            response["patch"] =
                patch(json!([{"op": "add", "path": "/data/count", "value": count.to_string()}]));
        }
        "/label" if request["object"].is_object() => {
            response["patchType"] = json!("JSONPatch");
            response["patch"] =
                patch(json!([{"op": "add", "path": "/metadata/labels", "value": {"stamped": "yes"}}]));
        }
        "/liar" => response["uid"] = json!("another"),
        _ => {}
    }
    response
}

fn configuration(kind: &str, name: &str, hooks: &[Value]) -> Value {
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "webhooks": hooks})
}

fn place(kind: &str) -> String {
    format!("{CONFIGURATIONS}/{}s", kind.to_lowercase())
}

/// A namespace labelled for the hooks of one test.
fn namespace(caller: &Caller, label: &str) -> String {
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": label, "labels": {"hooked": label}}});
    caller.post("/api/v1/namespaces", &object).is(201);
    format!("/api/v1/namespaces/{label}/configmaps")
}

fn map(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

/// Installs the configuration and returns once it is in force: once `probe` is.
#[track_caller]
fn install(caller: &Caller, object: &Value, in_force: &dyn Fn() -> bool) {
    let kind = object["kind"].as_str().unwrap();
    caller.post(&place(kind), object).is(201);
    eventually("the configuration to be in force", TIMEOUT, || so(in_force(), String::new));
}

#[test]
fn a_validating_webhook_says_no_in_its_own_words() {
    let subject = shared();
    let (caller, server) = (subject.caller(), Server::start());
    let path = namespace(&caller, "hooks-deny");
    let kind = "ValidatingWebhookConfiguration";
    let object = configuration(kind, "hooks-deny", &[server.hook("deny.example.com", "/deny", "hooks-deny")]);
    install(&caller, &object, &|| {
        caller.post(&format!("{path}?dryRun=All"), &map("probe", &json!({"bad": "x"}))).code == 403
    });
    let refused = caller.post(&path, &map("a", &json!({"bad": "x"})));
    assert_eq!(refused.code, 403, "{}", refused.text);
    assert_eq!(
        refused.json()["message"],
        "admission webhook \"deny.example.com\" denied the request: not like this"
    );
    assert_eq!(refused.json()["reason"], Value::Null, "{}", refused.text);
    let made = caller.post(&path, &map("a", &json!({"good": "x"}))).is(201);
    assert_eq!(made.warnings(), ["mind the gap"]);
    let asked = server.asked("/deny", "a").pop().unwrap();
    assert_eq!(asked["operation"], "CREATE");
    assert_eq!(asked["kind"], json!({"group": "", "version": "v1", "kind": "ConfigMap"}));
    assert_eq!(asked["resource"], json!({"group": "", "version": "v1", "resource": "configmaps"}));
    assert_eq!((&asked["namespace"], &asked["dryRun"]), (&json!("hooks-deny"), &json!(false)));
    assert_eq!((&asked["oldObject"], &asked["object"]["data"]["good"]), (&Value::Null, &json!("x")));
    assert_eq!(asked["options"]["kind"], "CreateOptions");
    caller.patch("merge", &format!("{path}/a"), &json!({"data": {"keep": "1"}})).is(200);
    let asked = server.asked("/deny", "a").pop().unwrap();
    assert_eq!((&asked["operation"], &asked["options"]["kind"]), (&json!("UPDATE"), &json!("UpdateOptions")));
    assert_eq!(asked["oldObject"]["data"], json!({"good": "x"}));
    let refused = caller.delete(&format!("{path}/a"), &Value::Null);
    assert_eq!(refused.code, 403, "{}", refused.text);
    let asked = server.asked("/deny", "a").pop().unwrap();
    assert_eq!((&asked["operation"], &asked["object"]), (&json!("DELETE"), &Value::Null));
    assert_eq!(asked["oldObject"]["data"]["keep"], "1");

    let kubectl = subject.kubectl().in_namespace("hooks-deny");
    let told = kubectl.run(&["create", "configmap", "b", "--from-literal=bad=1"]);
    let words = "admission webhook \"deny.example.com\" denied the request: not like this";
    assert!(told.stderr.contains(words), "{told:?}");
    caller.delete(&format!("{}/hooks-deny", place(kind)), &Value::Null).is(200);
    eventually("the webhook to be out of force", TIMEOUT, || {
        let answer = caller.delete(&format!("{path}/a"), &Value::Null);
        so(answer.code == 200, || answer.text.clone())
    });
}

#[test]
fn mutating_webhooks_change_and_are_asked_again() {
    let subject = shared();
    let (caller, server) = (subject.caller(), Server::start());
    let path = namespace(&caller, "hooks-change");
    let mut first = server.hook("a.example.com", "/stamp", "hooks-change");
    first["reinvocationPolicy"] = json!("IfNeeded");
    first["objectSelector"] = json!({"matchExpressions": [{"key": "plain", "operator": "DoesNotExist"}]});
    let mut second = server.hook("b.example.com", "/label", "hooks-change");
    second["matchConditions"] = json!([{"name": "not-bare", "expression": "request.operation == 'DELETE' || object.metadata.name != 'bare'"}]);
    let kind = "MutatingWebhookConfiguration";
    install(&caller, &configuration(kind, "hooks-change", &[first, second]), &|| {
        let probe = caller.post(&format!("{path}?dryRun=All"), &map("probe", &json!({"a": "1"})));
        probe.is(201).json()["metadata"]["labels"]["stamped"] == "yes"
    });
    let made = caller.post(&path, &map("a", &json!({"x": "1"}))).is(201).json();
    assert_eq!(
        (&made["data"]["count"], &made["metadata"]["labels"]),
        (&json!("2"), &json!({"stamped": "yes"}))
    );
    let made = caller.post(&path, &map("bare", &json!({"x": "1"}))).is(201).json();
    assert_eq!((&made["data"]["count"], &made["metadata"]["labels"]), (&json!("1"), &Value::Null));
    let mut plain = map("plain", &json!({"x": "1"}));
    plain["metadata"]["labels"] = json!({"plain": "1"});
    let made = caller.post(&path, &plain).is(201).json();
    assert_eq!(made["data"], json!({"x": "1"}));
    caller.delete(&format!("{}/hooks-change", place(kind)), &Value::Null).is(200);
}

#[test]
fn a_webhook_that_cannot_be_asked_is_an_error_or_nothing() {
    let subject = shared();
    let (caller, server) = (subject.caller(), Server::start());
    let kind = "ValidatingWebhookConfiguration";
    let mut gone = server.hook("gone.example.com", "/gone", "hooks-gone");
    gone["clientConfig"]["url"] = json!("https://127.0.0.1:1/gone");
    let path = namespace(&caller, "hooks-gone");
    install(&caller, &configuration(kind, "hooks-gone", &[gone.clone()]), &|| {
        caller.post(&format!("{path}?dryRun=All"), &map("probe", &json!({}))).code == 500
    });
    let message = caller.post(&path, &map("a", &json!({}))).refusal(500, "InternalError");
    assert_eq!(
        message,
        "Internal error occurred: failed calling webhook \"gone.example.com\": failed to call webhook: Post \"https://127.0.0.1:1/gone?timeout=5s\": dial tcp 127.0.0.1:1: connect: connection refused"
    );
    gone["failurePolicy"] = json!("Ignore");
    let mut liar = server.hook("liar.example.com", "/liar", "hooks-gone");
    liar["sideEffects"] = json!("NoneOnDryRun");
    liar["objectSelector"] = json!({"matchLabels": {"ask": "liar"}});
    let mut odd = server.hook("odd.example.com", "/odd", "hooks-gone");
    odd["objectSelector"] = json!({"matchLabels": {"ask": "odd"}});
    odd["matchConditions"] = json!([{"name": "fails", "expression": "object.data.gone == 'x'"}]);
    caller.delete(&format!("{}/hooks-gone", place(kind)), &Value::Null).is(200);
    install(&caller, &configuration(kind, "hooks-gone", &[gone, liar, odd]), &|| {
        caller.post(&format!("{path}?dryRun=All"), &map("probe", &json!({}))).code == 201
    });
    caller.post(&path, &map("a", &json!({}))).is(201);
    let mut asks = map("b", &json!({"x": "1"}));
    asks["metadata"]["labels"] = json!({"ask": "liar"});
    let message = caller.post(&path, &asks).refusal(500, "InternalError");
    let start = "Internal error occurred: failed calling webhook \"liar.example.com\": received invalid webhook response: expected response.uid=";
    assert!(message.starts_with(start), "{message}");
    asks["metadata"]["labels"] = json!({"ask": "odd"});
    let message = caller.post(&path, &asks).refusal(403, "Forbidden");
    let words = "configmaps \"b\" is forbidden: expression 'object.data.gone == 'x'' resulted in error: no such key: gone";
    assert_eq!(message, words);
    caller.delete(&format!("{}/hooks-gone", place(kind)), &Value::Null).is(200);
}

#[test]
fn a_rule_on_one_version_matches_the_others() {
    let subject = shared();
    let (caller, server) = (subject.caller(), Server::start());
    let kind = "ValidatingWebhookConfiguration";
    namespace(&caller, "hooks-versions");
    let mut hook = server.hook("silent.example.com", "/silent", "hooks-versions");
    hook["rules"] = json!([{"operations": ["CREATE"], "apiGroups": ["autoscaling"], "apiVersions": ["v1"], "resources": ["horizontalpodautoscalers"]},
        {"operations": ["UPDATE"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments/scale"]}]);
    let scaler = |name: &str| {
        json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": name},
            "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}, "maxReplicas": 3}})
    };
    let path = "/apis/autoscaling/v2/namespaces/hooks-versions/horizontalpodautoscalers";
    install(&caller, &configuration(kind, "hooks-versions", &[hook]), &|| {
        caller.post(&format!("{path}?dryRun=All"), &scaler("probe")).code == 400
    });
    let refused = caller.post(path, &scaler("a"));
    assert_eq!(refused.code, 400, "{}", refused.text);
    assert_eq!(
        refused.json()["message"],
        "admission webhook \"silent.example.com\" denied the request without explanation"
    );
    let asked = server.asked("/silent", "a").pop().unwrap();
    assert_eq!((&asked["kind"]["version"], &asked["requestKind"]["version"]), (&json!("v1"), &json!("v2")));
    assert_eq!(asked["object"]["apiVersion"], "autoscaling/v1");

    let deployments = "/apis/apps/v1/namespaces/hooks-versions/deployments";
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {
        "replicas": 1, "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    caller.post(deployments, &deployment).is(201);
    let refused = caller.patch("merge", &format!("{deployments}/d/scale"), &json!({"spec": {"replicas": 2}}));
    assert_eq!(refused.code, 400, "{}", refused.text);
    let asked = server.asked("/silent", "d").pop().unwrap();
    assert_eq!((&asked["kind"]["kind"], &asked["subResource"]), (&json!("Scale"), &json!("scale")));
    assert_eq!(
        (&asked["object"]["kind"], &asked["object"]["spec"]["replicas"]),
        (&json!("Scale"), &json!(2))
    );
    caller.delete(&format!("{}/hooks-versions", place(kind)), &Value::Null).is(200);
}

#[test]
fn configurations_are_judged_when_they_come() {
    let subject = shared();
    let caller = subject.caller();
    let kind = "ValidatingWebhookConfiguration";
    let hook = json!({
        "name": "short", "admissionReviewVersions": [], "sideEffects": "Some", "timeoutSeconds": 31, "failurePolicy": "Never",
        "clientConfig": {},
        "rules": [{"operations": ["*", "CREATE"], "apiGroups": [""], "apiVersions": [], "resources": ["configmaps"], "scope": "Odd"}],
        "matchConditions": [{"name": "a", "expression": "object.x =="}, {"name": "b", "expression": "nobody == 1"}, {"name": "c", "expression": "'text'"}],
    });
    let refused = caller.post(&place(kind), &configuration(kind, "wrong", &[hook]));
    refused.refusal(422, "Invalid");
    assert_eq!(
        refused.causes(),
        [
            "FieldValueInvalid webhooks[0].matchConditions[0].expression",
            "FieldValueInvalid webhooks[0].matchConditions[1].expression",
            "FieldValueInvalid webhooks[0].matchConditions[2].expression",
            "FieldValueInvalid webhooks[0].name",
            "FieldValueInvalid webhooks[0].rules[0].operations",
            "FieldValueInvalid webhooks[0].timeoutSeconds",
            "FieldValueNotSupported webhooks[0].failurePolicy",
            "FieldValueNotSupported webhooks[0].rules[0].scope",
            "FieldValueNotSupported webhooks[0].sideEffects",
            "FieldValueRequired webhooks[0].admissionReviewVersions",
            "FieldValueRequired webhooks[0].clientConfig",
            "FieldValueRequired webhooks[0].rules[0].apiVersions",
        ]
    );
}

#[test]
fn a_hub_lives_with_a_webhook_that_refuses_all() {
    if !is_hub() {
        return;
    }
    let hub = tests::hub::Hub::start(tests::hub::HubOptions::default());
    let caller = Caller::of_kubeconfig(&hub.kubeconfig());
    let kind = "ValidatingWebhookConfiguration";
    let mut hook = json!({
        "name": "all.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "clientConfig": {"service": {"name": "s", "namespace": "n"}},
        "rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}],
    });
    caller.post(&place(kind), &configuration(kind, "all", &[hook.clone()])).is(201);
    let message = caller
        .post("/api/v1/namespaces/default/configmaps", &map("a", &json!({})))
        .refusal(500, "InternalError");
    assert!(message.contains("a hub has no cluster network"), "{message}");
    hook["timeoutSeconds"] = json!(1);
    let stored = caller.get(&format!("{}/all", place(kind))).is(200).json();
    let mut changed = stored;
    changed["webhooks"] = json!([hook]);
    caller.put(&format!("{}/all", place(kind)), &changed).is(200);
    caller.delete(&format!("{}/all", place(kind)), &Value::Null).is(200);
    caller.post("/api/v1/namespaces/default/configmaps", &map("a", &json!({}))).is(201);
}

/// What is not stored is admitted too: evictions, token requests, reviews, connections; and a delete's warnings reach who deletes.
#[test]
fn what_is_not_stored_is_admitted_too() {
    let subject = shared();
    let admin = subject.caller();
    let namespace = subject.namespace("unstored");
    let core = |plural: &str| format!("/api/v1/namespaces/{namespace}/{plural}");
    let seen = Arc::new(Mutex::new(Vec::<Value>::new()));
    let told = seen.clone();
    let server = WebhookServer::start(move |_, review| {
        let request = &review["request"];
        told.lock().unwrap().push(request.clone());
        let allowed = request["name"] != "held";
        json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": {
            "uid": request["uid"], "allowed": allowed, "warnings": ["looked at"], "status": {"message": "held", "code": 403}}})
    });
    let rule = |operations: Value, group: &str, resources: Value| json!({"apiGroups": [group], "apiVersions": ["v1"], "operations": operations, "resources": resources});
    let name = format!("{namespace}.example.org");
    let configuration = json!({"metadata": {"name": namespace}, "webhooks": [{
    "name": name, "clientConfig": server.at("/"), "sideEffects": "None", "admissionReviewVersions": ["v1"],
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
    "rules": [
        rule(json!(["CREATE"]), "", json!(["pods/eviction", "serviceaccounts/token"])),
        rule(json!(["CONNECT"]), "", json!(["pods/exec"])),
        rule(json!(["DELETE"]), "", json!(["configmaps"])),
        rule(json!(["CREATE"]), "authorization.k8s.io", json!(["localsubjectaccessreviews"])),
    ]}]});
    admin.post(&format!("{CONFIGURATIONS}/validatingwebhookconfigurations"), &configuration).is(201);
    let pod = |name: &str| json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}], "automountServiceAccountToken": false}});
    for name in ["held", "free"] {
        admin.post(&core("pods"), &pod(name)).is(201);
    }
    let evict = |name: &str| {
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}});
        admin.post(&core(&format!("pods/{name}/eviction")), &eviction)
    };
    let message = evict("held").refusal(403, "");
    assert_eq!(message, format!("admission webhook \"{name}\" denied the request: held"));
    admin.get(&core("pods/held")).is(200);
    let exec = admin.send(
        http::Method::POST,
        &core("pods/held/exec?command=sh&command=-c&stdin=true&container=c"),
        &[],
        "",
    );
    exec.refusal(403, "");
    assert_eq!(evict("free").is(201).warnings(), ["looked at"]);
    admin.post(&core("serviceaccounts"), &json!({"metadata": {"name": "robot"}})).is(201);
    assert_eq!(
        admin.post(&core("serviceaccounts/robot/token"), &json!({})).is(201).warnings(),
        ["looked at"]
    );
    let review = json!({"spec": {"user": "u", "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": namespace}}});
    let reviews = format!("/apis/authorization.k8s.io/v1/namespaces/{namespace}/localsubjectaccessreviews");
    assert_eq!(admin.post(&reviews, &review).is(201).warnings(), ["looked at"]);
    admin.post(&core("configmaps"), &json!({"metadata": {"name": "m"}})).is(201);
    assert_eq!(admin.delete(&core("configmaps/m"), &Value::Null).is(200).warnings(), ["looked at"]);
    admin.post(&core("configmaps"), &json!({"metadata": {"name": "n", "labels": {"all": "of"}}})).is(201);
    let all = core("configmaps?labelSelector=all%3Dof");
    assert_eq!(admin.delete(&all, &Value::Null).is(200).warnings(), ["looked at"]);
    let seen = seen.lock().unwrap();
    let about = |resource: &str, part: &str| {
        let found = seen.iter().find(|request| {
            request["resource"]["resource"] == resource
                && request["subResource"].as_str().unwrap_or("") == part
        });
        found.cloned().unwrap_or_else(|| panic!("no request about {resource}/{part}: {seen:?}"))
    };
    for (resource, part, operation, kind) in [
        ("pods", "eviction", "CREATE", "Eviction"),
        ("pods", "exec", "CONNECT", "PodExecOptions"),
        ("serviceaccounts", "token", "CREATE", "TokenRequest"),
        ("localsubjectaccessreviews", "", "CREATE", "LocalSubjectAccessReview"),
    ] {
        let request = about(resource, part);
        assert_eq!(
            (&request["operation"], &request["kind"]["kind"]),
            (&json!(operation), &json!(kind)),
            "{request}"
        );
        assert_eq!(request["object"]["kind"], kind, "{request}");
    }
    let exec = about("pods", "exec");
    assert_eq!(
        (&exec["object"]["command"], &exec["object"]["stdin"], &exec["options"]),
        (&json!(["sh", "-c"]), &json!(true), &Value::Null)
    );
    drop(seen);
    admin
        .delete(&format!("{CONFIGURATIONS}/validatingwebhookconfigurations/{namespace}"), &Value::Null)
        .is(200);
}
