//! Groups that another server answers: how they are found, asked, and told apart from those that do not answer.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use serde_json::{Value, json};
use tests::api::{condition, text_at};
use tests::hub::{Hub, HubOptions};
use tests::runtime;
use tests::wait::eventually;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::access::{certificate, user};
use crate::extension_server::ExtensionServer;
use crate::request::{Caller, Calls as _};
use crate::webhook_server::WebhookServer;
use tests::subject::{Subject, is_hub};

const SOON: Duration = Duration::from_secs(30);
const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";

/// Hands `group` over to the server, by a Service of its own.
fn hand_over(admin: &Caller, group: &str, server: &ExtensionServer) {
    let name = group.split('.').next().unwrap();
    // Karmada's way: the name resolves wherever the hub runs.
    let service =
        json!({"metadata": {"name": name}, "spec": {"type": "ExternalName", "externalName": "localhost"}});
    admin.post("/api/v1/namespaces/default/services", &service).is(201);
    let object = json!({"metadata": {"name": format!("v1.{group}")}, "spec": {
        "group": group, "version": "v1", "groupPriorityMinimum": 1500, "versionPriority": 15, "caBundle": server.ca_bundle,
        "service": {"namespace": "default", "name": name, "port": server.port}}});
    admin.post(SERVICES, &object).is(201);
}

#[track_caller]
fn available(admin: &Caller, group: &str) -> Value {
    eventually(&format!("{group} to be available"), SOON, || {
        let object = admin.get(&format!("{SERVICES}/v1.{group}")).json();
        if condition(&object, "Available") == "True" { Ok(object) } else { Err(object.to_string()) }
    })
}

/// A hub of the test's own: others count the groups of theirs.
fn hub() -> Option<Subject> {
    is_hub().then(|| Subject::Hub(Hub::start(HubOptions::default())))
}

#[test]
fn a_group_that_is_handed_over_is_found_and_answered() {
    let Some(subject) = hub() else { return };
    let admin = subject.caller();
    let group = "things.example.org";
    let server = ExtensionServer::start(group, "things.default.svc", &subject.pki().join("front-proxy"));
    hand_over(&admin, group, &server);
    let object = available(&admin, group);
    assert_eq!(object["status"]["conditions"][0]["reason"], "Passed");
    // It is found in every form of discovery, and by kubectl.
    let groups = admin.get("/apis").is(200).json();
    let names: Vec<&str> = groups["groups"].as_array().unwrap().iter().map(|g| text_at(g, "/name")).collect();
    let place = |name: &str| names.iter().position(|n| *n == name).unwrap();
    assert!(place("apps") < place(group) && place(group) < place("work.karmada.io"), "{names:?}");
    assert_eq!(admin.get(&format!("/apis/{group}")).is(200).json()["preferredVersion"]["version"], "v1");
    let aggregated =
        admin.get_as("/apis", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList").json();
    let items = aggregated["items"].as_array().unwrap();
    let item = items.iter().find(|item| item["metadata"]["name"] == group).unwrap();
    assert_eq!(item["versions"][0]["freshness"], "Current");
    assert_eq!(item["versions"][0]["resources"][0]["resource"], "things");
    let index = admin.get("/openapi/v3").json();
    let address = text_at(&index["paths"][format!("apis/{group}/v1")], "/serverRelativeURL").to_owned();
    assert_eq!(admin.get(&address).is(200).json()["info"]["title"], "things");
    let v2 = admin.get("/openapi/v2").is(200).json();
    assert_eq!(v2["paths"][format!("/apis/{group}/v1/")]["get"]["operationId"], "theirs");
    assert!(
        v2["definitions"]["org.example.v1.Thing"].is_object()
            && v2["paths"]["/apis/apps/v1/deployments"].is_object()
    );
    let listed = subject.kubectl().ok(&["api-resources", "--api-group", group, "-o", "name"]);
    assert_eq!(listed.trim(), format!("things.{group}"));
    // Who asks is said in headers, by a proxy whose certificate says so; nothing that the client says of that gets through.
    let jane = admin.with(certificate(&subject, "jane", &["people"]));
    let things = format!("/apis/{group}/v1/namespaces/default/things");
    let refusal = jane.get(&things).refusal(403, "Forbidden");
    assert!(
        refusal.contains(&format!("cannot list resource \"things\" in API group \"{group}\"")),
        "{refusal}"
    );
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
    let role = json!({"metadata": {"name": "things"}, "rules": [{"apiGroups": [group], "resources": ["*"], "verbs": ["*"]}]});
    admin.post(roles, &role).is(201);
    let binding = json!({"metadata": {"name": "things"}, "subjects": [user("jane")],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "things"}});
    admin.post("/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", &binding).is(201);
    let forged =
        [("x-remote-user", "system:admin"), ("x-remote-group", "system:masters"), ("x-remote-extra-a", "b")];
    let body = "{\"kind\":\"Thing\"}";
    jane.send(Method::POST, &format!("{things}?dryRun=All"), &forged, body).is(200);
    let asked = server.asked(&format!("POST {things}?dryRun=All")).pop().unwrap();
    let all = |name: &str| {
        asked.headers.get_all(name).iter().map(|v| v.to_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!((asked.client.as_str(), asked.body.as_str()), ("front-proxy-client", body));
    assert_eq!(
        (all("x-remote-user"), all("x-remote-group")),
        (vec!["jane".to_owned()], vec!["people".to_owned(), "system:authenticated".to_owned()])
    );
    assert!(all("x-remote-extra-a").is_empty() && all("authorization").is_empty());
    assert_eq!(jane.get(&format!("{things}/none")).is(404).json()["message"], "theirs");
    // A watch passes event by event.
    let watch = jane.watch(&format!("{things}?watch=true"));
    assert_eq!([watch.next_short(), watch.next_short()], ["ADDED a", "ADDED b"]);
    drop(watch);
    // With the object its group is gone, and other groups never were in doubt.
    admin.delete(&format!("{SERVICES}/v1.{group}"), &Value::Null).is(200);
    admin.get(&things).is(404);
    assert!(!admin.get("/apis").text.contains(group));
}

#[test]
fn a_namespace_that_ends_is_emptied_at_other_servers_too() {
    let Some(subject) = hub() else { return };
    let admin = subject.caller();
    let group = "rooms.example.org";
    let server = ExtensionServer::start(group, "rooms.default.svc", &subject.pki().join("front-proxy"));
    hand_over(&admin, group, &server);
    available(&admin, group);
    let end = |name: &str| {
        admin.post("/api/v1/namespaces", &json!({"metadata": {"name": name}})).is(201);
        admin.delete(&format!("/api/v1/namespaces/{name}"), &Value::Null);
    };
    let place = |name: &str| format!("/api/v1/namespaces/{name}");
    end("leaving");
    eventually("the namespace to be gone", SOON, || {
        let answer = admin.get(&place("leaving"));
        if answer.code == 404 { Ok(()) } else { Err(answer.text) }
    });
    let asked = server.asked(&format!("DELETE /apis/{group}/v1/namespaces/leaving/things"));
    let told: Value = serde_json::from_str(&asked[0].body).unwrap();
    assert_eq!(told["propagationPolicy"], "Background");
    assert_eq!(asked[0].headers["x-remote-user"], "system:serviceaccount:kube-system:namespace-controller");
    // While nobody knows what a server keeps, no namespace ends, and it is told why.
    let lost = json!({"metadata": {"name": "v1.lost.example.org"}, "spec": {
        "group": "lost.example.org", "version": "v1", "groupPriorityMinimum": 1500, "versionPriority": 15,
        "insecureSkipTLSVerify": true, "service": {"namespace": "default", "name": "nowhere"}}});
    admin.post(SERVICES, &lost).is(201);
    end("waiting");
    let message = eventually("the namespace to say why", SOON, || {
        let namespace = admin.get(&place("waiting")).json();
        let told = condition(&namespace, "NamespaceDeletionDiscoveryFailure");
        if told == "True" {
            Ok(namespace["status"]["conditions"][0]["message"].clone())
        } else {
            Err(namespace.to_string())
        }
    });
    assert_eq!(
        message,
        "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: lost.example.org/v1: stale GroupVersion discovery: lost.example.org/v1"
    );
    admin.delete(&format!("{SERVICES}/v1.lost.example.org"), &Value::Null).is(200);
    eventually("the namespace to be gone", SOON, || {
        let answer = admin.get(&place("waiting"));
        if answer.code == 404 { Ok(()) } else { Err(answer.text) }
    });
}

#[test]
fn who_gives_no_ca_is_known_by_those_of_the_machine() {
    if !is_hub() {
        return;
    }
    let folder = tests::folder::Folder::new("roots");
    let roots = folder.path().join("roots.pem");
    let env = vec![
        ("SSL_CERT_FILE".to_owned(), roots.display().to_string()),
        ("SSL_CERT_DIR".to_owned(), folder.path().join("none").display().to_string()),
    ];
    let subject = Subject::Hub(Hub::start(HubOptions { env, ..HubOptions::default() }));
    let admin = subject.caller();
    let group = "trusted.example.org";
    let server = ExtensionServer::start(group, "trusted.default.svc", &subject.pki().join("front-proxy"));
    let hook = WebhookServer::start(|_, review| {
        json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
            "response": {"uid": review["request"]["uid"], "allowed": false, "status": {"message": "asked"}}})
    });
    hand_over(&admin, group, &server);
    let place = format!("{SERVICES}/v1.{group}");
    let without = json!({"spec": {"caBundle": null}});
    admin.patch("merge", &place, &without).is(200);
    let mut client = hook.at("/");
    client.as_object_mut().unwrap().remove("caBundle");
    let configuration = json!({"metadata": {"name": "trusted"}, "webhooks": [{
        "name": "trusted.example.org", "clientConfig": client, "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["secrets"]}]}]});
    admin
        .post("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", &configuration)
        .is(201);
    let secrets = "/api/v1/namespaces/default/secrets?dryRun=All";
    let told = |words: &str| {
        eventually(words, SOON, || {
            let answer = admin.post(secrets, &json!({"metadata": {"name": "a"}}));
            if answer.text.contains(words) { Ok(()) } else { Err(answer.text) }
        });
    };
    // Nobody is trusted yet.
    told("failed calling webhook");
    let doubted = eventually("the server to be doubted", SOON, || {
        let object = admin.get(&place).json();
        let told = object["status"]["conditions"][0]["message"].as_str().unwrap_or_default().to_owned();
        if told.contains("tls") { Ok(told) } else { Err(object.to_string()) }
    });
    assert!(doubted.contains("certificate"), "{doubted}");
    let ca = String::from_utf8(STANDARD.decode(&server.ca_bundle).unwrap()).unwrap();
    std::fs::write(&roots, format!("{ca}{}", hook.ca_pem)).unwrap();
    told("denied the request: asked");
    available(&admin, group);
}

#[test]
fn the_service_of_the_hub_itself_comes_back() {
    let Some(subject) = hub() else { return };
    let admin = subject.caller();
    let places = [
        "/api/v1/namespaces/default/services/kubernetes",
        "/api/v1/namespaces/default/endpoints/kubernetes",
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes",
    ];
    for place in places {
        let before = admin.get(place).is(200).json();
        admin.delete(place, &Value::Null).is(200);
        eventually(place, SOON, || {
            let answer = admin.get(place);
            let again = answer.code == 200 && answer.json()["metadata"]["uid"] != before["metadata"]["uid"];
            if again { Ok(()) } else { Err(answer.text) }
        });
    }
    let mut slice = admin.get(places[2]).json();
    slice["endpoints"] = json!([]);
    slice["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    let right = admin.get(places[2]).json()["endpoints"].clone();
    admin.put(places[2], &slice);
    eventually("the endpoints to be put right", SOON, || {
        let now = admin.get(places[2]).json();
        if now["endpoints"] == right { Ok(()) } else { Err(now.to_string()) }
    });
}

#[test]
fn a_connection_becomes_what_both_ends_agree_on() {
    let Some(subject) = hub() else { return };
    let admin = subject.caller();
    let group = "shells.example.org";
    let server = ExtensionServer::start(group, "shells.default.svc", &subject.pki().join("front-proxy"));
    hand_over(&admin, group, &server);
    available(&admin, group);
    let said = runtime().block_on(async {
        let path = format!("/apis/{group}/v1/namespaces/default/things/a/exec?command=x");
        let request = http::Request::post(path).header("connection", "Upgrade").header("upgrade", "loud");
        let request =
            request.header("host", "hub").body(http_body_util::Empty::<hyper::body::Bytes>::new()).unwrap();
        let mut stream = admin.upgraded(request).await;
        stream.write_all(b"hello").await.unwrap();
        let mut held = [0; 5];
        stream.read_exact(&mut held).await.unwrap();
        held
    });
    assert_eq!(&said, b"HELLO");
    admin.delete(&format!("{SERVICES}/v1.{group}"), &Value::Null).is(200);
}

#[test]
fn what_does_not_answer_says_why_and_is_unavailable() {
    let Some(subject) = hub() else { return };
    let admin = subject.caller();
    let group = "absent.example.org";
    let reason = |wanted: &str| {
        eventually(&format!("{group} to say {wanted}"), SOON, || {
            let object = admin.get(&format!("{SERVICES}/v1.{group}")).is(200).json();
            let condition = &object["status"]["conditions"][0];
            if condition["reason"] == wanted { Ok(condition.clone()) } else { Err(object.to_string()) }
        })
    };
    let object = json!({"metadata": {"name": format!("v1.{group}")}, "spec": {
        "group": group, "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 15, "insecureSkipTLSVerify": true,
        "service": {"namespace": "default", "name": "absent", "port": 443}}});
    admin.post(SERVICES, &object).is(201);
    let told = reason("ServiceNotFound");
    assert_eq!(
        (&told["status"], &told["message"]),
        (&json!("False"), &json!("service/absent in \"default\" is not present"))
    );
    let answer = admin.get(&format!("/apis/{group}/v1/things"));
    assert_eq!((answer.code, answer.text.as_str()), (503, "service unavailable\n"));
    let service =
        json!({"metadata": {"name": "absent"}, "spec": {"ports": [{"port": 443, "name": "https"}]}});
    admin.post("/api/v1/namespaces/default/services", &service).is(201);
    reason("EndpointsNotFound");
    let slice = json!({"metadata": {"name": "absent-1", "labels": {"kubernetes.io/service-name": "absent"}},
        "addressType": "IPv4", "endpoints": [{"addresses": ["192.0.2.1"], "conditions": {"ready": false}}],
        "ports": [{"name": "https", "port": 1}]});
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    admin.post(slices, &slice).is(201);
    reason("MissingEndpoints");
    let ready = json!({"endpoints": [{"addresses": ["192.0.2.1"], "conditions": {"ready": true}}]});
    admin.patch("merge", &format!("{slices}/absent-1"), &ready).is(200);
    let told = reason("FailedDiscoveryCheck");
    let message = text_at(&told, "/message");
    assert!(
        message
            .starts_with("failing or missing response from https://192.0.2.1:1/apis/absent.example.org/v1: "),
        "{message}"
    );
    // The group is there, and stale; what is served here is not touched.
    let aggregated =
        admin.get_as("/apis", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList").json();
    let item = aggregated["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|item| item["metadata"]["name"] == group)
        .cloned();
    assert_eq!(item.unwrap()["versions"][0]["freshness"], "Stale");
    admin.get("/apis/apps/v1/deployments").is(200);
    admin.delete(&format!("{SERVICES}/v1.{group}"), &Value::Null).is(200);
    admin.get(&format!("/apis/{group}/v1/things")).is(404);
}

#[test]
fn groups_served_here_have_their_objects_as_long_as_they_are_served() {
    let Some(subject) = hub() else { return };
    let admin = subject.caller();
    let local = admin.get(&format!("{SERVICES}/v1.apps")).is(200).json();
    assert_eq!(local["metadata"]["labels"]["kube-aggregator.kubernetes.io/automanaged"], "onstart");
    assert_eq!(
        (condition(&local, "Available"), &local["status"]["conditions"][0]["reason"]),
        ("True", &json!("Local"))
    );
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let crd = json!({"metadata": {"name": "gadgets.brief.example.org"}, "spec": {"group": "brief.example.org", "scope": "Namespaced",
        "names": {"plural": "gadgets", "kind": "Gadget"}, "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}});
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    admin.post(crds, &crd).is(201);
    let own = format!("{SERVICES}/v1.brief.example.org");
    available(&admin, "brief.example.org");
    assert_eq!(
        admin.get(&own).json()["metadata"]["labels"]["kube-aggregator.kubernetes.io/automanaged"],
        "true"
    );
    admin.delete(&format!("{crds}/gadgets.brief.example.org"), &Value::Null).is(200);
    eventually("its APIService to go", SOON, || {
        let answer = admin.get(&own);
        if answer.code == 404 { Ok(()) } else { Err(answer.text) }
    });
    // What extension servers must know is there, for those who may read it.
    let reader = admin.with(certificate(&subject, "extension", &[]));
    let map = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    reader.get(map).is(403);
    let binding = json!({"metadata": {"name": "extension"}, "subjects": [user("extension")],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "extension-apiserver-authentication-reader"}});
    admin.post("/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/rolebindings", &binding).is(201);
    let data = reader.get(map).is(200).json()["data"].clone();
    assert_eq!(data["requestheader-allowed-names"], "[\"front-proxy-client\"]");
    assert_eq!(data["requestheader-username-headers"], "[\"X-Remote-User\"]");
    for (key, file) in [("client-ca-file", "ca.crt"), ("requestheader-client-ca-file", "front-proxy/ca.crt")]
    {
        assert_eq!(
            text_at(&data, &format!("/{key}")),
            std::fs::read_to_string(subject.pki().join(file)).unwrap()
        );
    }
}
