//! Who may do what: certificates, service-account tokens, bootstrap tokens, nobody.

use std::path::Path;
use std::time::Duration;

use http::Method;
use kube::config::AuthInfo;
use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair};
use serde_json::{Value, json};
use tests::api::text_at;
use tests::wait::{eventually, so};

use crate::request::{Caller, Calls as _};
use tests::subject::{Subject, shared};

const TIMEOUT: Duration = Duration::from_secs(30);

/// Credentials that the server's own CA signed.
pub fn certificate(subject: &Subject, user: &str, groups: &[&str]) -> AuthInfo {
    certificate_of(&subject.pki(), user, groups)
}

/// Credentials that the CA in a folder signed.
pub fn certificate_of(pki: &Path, user: &str, groups: &[&str]) -> AuthInfo {
    let read = |name: &str| std::fs::read_to_string(pki.join(name)).unwrap();
    signed(&read("ca.crt"), &read("ca.key"), user, groups)
}

fn signed(ca: &str, ca_key: &str, user: &str, groups: &[&str]) -> AuthInfo {
    let issuer = Issuer::from_ca_cert_pem(ca, KeyPair::from_pem(ca_key).unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, user);
    for group in groups {
        params.distinguished_name.push(DnType::OrganizationName, *group);
    }
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let encode = |pem: String| base64::Engine::encode(&base64::engine::general_purpose::STANDARD, pem);
    AuthInfo {
        client_certificate_data: Some(encode(params.signed_by(&key, &issuer).unwrap().pem())),
        client_key_data: Some(encode(key.serialize_pem()).into()),
        ..AuthInfo::default()
    }
}

/// Binds a ClusterRole, in a namespace or (empty) everywhere.
pub fn grant(caller: &Caller, namespace: &str, name: &str, role: &str, subject: &Value) {
    let binding = json!({"metadata": {"name": name}, "subjects": [subject],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}});
    let path = match namespace {
        "" => "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings".to_owned(),
        _ => format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings"),
    };
    caller.post(&path, &binding).is(201);
}

/// A user, as bindings name subjects.
pub fn user(name: &str) -> Value {
    json!({"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"})
}

#[test]
fn the_default_roles_allow_what_they_are_for() {
    let subject = shared();
    let admin = subject.caller();
    let (own, other) = (subject.namespace("own"), subject.namespace("other"));
    for role in ["view", "edit", "admin"] {
        grant(&admin, &own, role, role, &user(&format!("{role}er")));
    }
    grant(&admin, "", &format!("{own}-all"), "cluster-admin", &user("chief"));
    let core = |namespace: &str, plural: &str| format!("/api/v1/namespaces/{namespace}/{plural}");
    let roles = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{own}/roles");
    let object = json!({"metadata": {"generateName": "x-"}});
    let role = json!({"metadata": {"generateName": "x-"}, "rules": []});
    let get = Method::GET;
    let post = Method::POST;
    // viewer, editer, adminer, chief, a stranger
    for (method, path, body, wanted) in [
        (&get, core(&own, "configmaps"), &Value::Null, [200, 200, 200, 200, 403]),
        (&get, core(&own, "pods"), &Value::Null, [200, 200, 200, 200, 403]),
        (&get, core(&own, "secrets"), &Value::Null, [403, 200, 200, 200, 403]),
        (&post, core(&own, "configmaps"), &object, [403, 201, 201, 201, 403]),
        (&post, core(&own, "secrets"), &object, [403, 201, 201, 201, 403]),
        (&get, roles.clone(), &Value::Null, [403, 403, 200, 200, 403]),
        (&post, roles, &role, [403, 403, 201, 201, 403]),
        (&get, core(&other, "configmaps"), &Value::Null, [403, 403, 403, 200, 403]),
        (&get, "/api/v1/configmaps".into(), &Value::Null, [403, 403, 403, 200, 403]),
        (&get, "/api/v1/nodes".into(), &Value::Null, [403, 403, 403, 200, 403]),
        (&get, "/api/v1/namespaces".into(), &Value::Null, [403, 403, 403, 200, 403]),
        (&post, "/api/v1/namespaces?dryRun=All".into(), &object, [403, 403, 403, 201, 403]),
        (&get, "/apis/apps/v1".into(), &Value::Null, [200; 5]),
        (&get, "/openapi/v3".into(), &Value::Null, [200; 5]),
        (&get, "/version".into(), &Value::Null, [200; 5]),
        (&get, "/metrics".into(), &Value::Null, [403, 403, 403, 200, 403]),
    ] {
        let users = ["viewer", "editer", "adminer", "chief", "stranger"];
        for (name, code) in users.iter().zip(wanted) {
            let caller = admin.with(certificate(&subject, name, &["people"]));
            let body = if body.is_null() { String::new() } else { body.to_string() };
            let answer = caller.send(method.clone(), &path, &[("content-type", "application/json")], body);
            assert_eq!(answer.code, code, "{name}: {} {}", answer.what, answer.text);
        }
    }
}

#[test]
fn a_refusal_says_who_may_not_do_what() {
    let subject = shared();
    let admin = subject.caller();
    let namespace = subject.namespace("words");
    let path = format!("/api/v1/namespaces/{namespace}/secrets");
    let stranger = admin.with(certificate(&subject, "jane", &["people"]));
    assert_eq!(
        stranger.get(&path).refusal(403, "Forbidden"),
        format!(
            "secrets is forbidden: User \"jane\" cannot list resource \"secrets\" in API group \"\" in the namespace \"{namespace}\""
        )
    );
    assert_eq!(
        stranger.get("/apis/apps/v1/deployments").refusal(403, "Forbidden"),
        "deployments.apps is forbidden: User \"jane\" cannot list resource \"deployments\" in API group \"apps\" at the cluster scope"
    );
    assert_eq!(
        stranger.get(&format!("{path}/x")).refusal(403, "Forbidden"),
        format!(
            "secrets \"x\" is forbidden: User \"jane\" cannot get resource \"secrets\" in API group \"\" in the namespace \"{namespace}\""
        )
    );
    assert_eq!(
        stranger.get("/metrics").refusal(403, "Forbidden"),
        "forbidden: User \"jane\" cannot get path \"/metrics\""
    );
    // Who it is comes before what is wrong with the request.
    stranger
        .send(Method::POST, &path, &[("content-type", "application/json")], "{")
        .refusal(403, "Forbidden");
    let nobody = admin.anonymous();
    let message = nobody.get(&path).refusal(403, "Forbidden");
    assert!(message.contains("User \"system:anonymous\" cannot list"), "{message}");
    for token in ["nonsense", "abcdef.0123456789abcdef", "a.b.c", "eyJhbGciOiJub25lIn0.e30."] {
        admin.with_token(token).get("/version").refusal(401, "Unauthorized");
    }
    let me = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let answer = stranger.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", &me).is(201).json();
    assert_eq!(text_at(&answer, "/status/userInfo/username"), "jane");
    assert_eq!(answer["status"]["userInfo"]["groups"], json!(["people", "system:authenticated"]));
}

#[test]
fn a_certificate_of_another_ca_is_no_credential() {
    let subject = shared();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let foreign = params.self_signed(&key).unwrap();
    let forged = signed(&foreign.pem(), &key.serialize_pem(), "system:admin", &["system:masters"]);
    let caller = subject.caller().with(forged);
    let outcome =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| caller.get("/api/v1/namespaces").code));
    assert!(matches!(outcome, Err(_) | Ok(401 | 403)), "{outcome:?}");
}

#[test]
fn a_service_account_acts_by_its_token() {
    let subject = shared();
    let admin = subject.caller();
    let namespace = subject.namespace("robots");
    let accounts = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
    admin.post(&accounts, &json!({"metadata": {"name": "robot"}})).is(201);
    let account = json!({"kind": "ServiceAccount", "name": "robot", "namespace": namespace});
    let kubectl = subject.kubectl().in_namespace(&namespace);
    let token = kubectl.ok(&["create", "token", "robot", "--duration=1h"]);
    let robot = admin.with_token(token.trim());
    let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
    let message = robot.get(&maps).refusal(403, "Forbidden");
    assert!(message.contains(&format!("system:serviceaccount:{namespace}:robot")), "{message}");
    grant(&admin, &namespace, "robot", "view", &account);
    robot.get(&maps).is(200);
    robot.post(&maps, &json!({"metadata": {"name": "x"}})).refusal(403, "Forbidden");
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token.trim()}});
    let review = admin.post("/apis/authentication.k8s.io/v1/tokenreviews", &review).is(201).json();
    assert_eq!(review["status"]["authenticated"], true, "{review}");
    // A Secret that asks for a token gets one, and the token lives as long as it.
    let secret = json!({"metadata": {"name": "kept", "annotations": {"kubernetes.io/service-account.name": "robot"}}, "type": "kubernetes.io/service-account-token"});
    let secrets = format!("/api/v1/namespaces/{namespace}/secrets");
    admin.post(&secrets, &secret).is(201);
    let kept = eventually("the Secret's token", TIMEOUT, || {
        let secret = admin.get(&format!("{secrets}/kept")).is(200).json();
        let token = text_at(&secret, "/data/token").to_owned();
        if token.is_empty() { Err(secret.to_string()) } else { Ok(token) }
    });
    let decoded = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, kept).unwrap();
    let kept = admin.with_token(&String::from_utf8(decoded).unwrap());
    kept.get(&maps).is(200);
    admin.delete(&format!("{secrets}/kept"), &Value::Null).is(200);
    refused(&kept, &maps);
    // Without the account its tokens are worth nothing.
    admin.delete(&format!("{accounts}/robot"), &Value::Null).is(200);
    refused(&robot, &maps);
}

#[test]
fn a_bound_token_ends_with_what_it_is_bound_to() {
    let subject = shared();
    let admin = subject.caller();
    let namespace = subject.namespace("bound");
    let core = |plural: &str| format!("/api/v1/namespaces/{namespace}/{plural}");
    admin.post(&core("serviceaccounts"), &json!({"metadata": {"name": "robot"}})).is(201);
    let container = json!([{"name": "c", "image": "i"}]);
    let pod = json!({"metadata": {"name": "p"}, "spec": {"serviceAccountName": "robot", "automountServiceAccountToken": false,
        "nodeName": "nowhere", "containers": container}});
    admin.post(&core("pods"), &pod).is(201);
    admin.post(&core("secrets"), &json!({"metadata": {"name": "s"}})).is(201);
    let node = format!("{namespace}-node");
    admin.post("/api/v1/nodes", &json!({"metadata": {"name": node}})).is(201);
    let whoami = |caller: &Caller| {
        let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        caller.post(path, &json!({})).is(201).json()["status"]["userInfo"]["extra"].clone()
    };
    for (kind, name, path, told) in [
        ("Pod", "p", core("pods/p"), Some(("pod-name", "p"))),
        ("Secret", "s", core("secrets/s"), None),
        ("Node", &*node, format!("/api/v1/nodes/{node}"), Some(("node-name", &*node))),
    ] {
        let request = json!({"spec": {"boundObjectRef": {"kind": kind, "apiVersion": "v1", "name": name}}});
        let made = admin.post(&core("serviceaccounts/robot/token"), &request).is(201).json();
        let robot = admin.with_token(text_at(&made, "/status/token"));
        let extra = whoami(&robot);
        if let Some((key, value)) = told {
            assert_eq!(extra[format!("authentication.kubernetes.io/{key}")], json!([value]), "{extra}");
        }
        if kind == "Pod" {
            assert_eq!(extra["authentication.kubernetes.io/node-name"], json!(["nowhere"]), "{extra}");
        }
        admin.delete(&path, &json!({"gracePeriodSeconds": 0})).is(200);
        refused(&robot, "/version");
    }
    // An account of the same name is another account.
    let made = admin.post(&core("serviceaccounts/robot/token"), &json!({})).is(201).json();
    let robot = admin.with_token(text_at(&made, "/status/token"));
    whoami(&robot);
    admin.delete(&core("serviceaccounts/robot"), &Value::Null).is(200);
    admin.post(&core("serviceaccounts"), &json!({"metadata": {"name": "robot"}})).is(201);
    refused(&robot, "/version");
    // Whoever wants to check such tokens finds the keys.
    let discovery = admin.get("/.well-known/openid-configuration").is(200).json();
    assert_eq!(discovery["issuer"], "https://kubernetes.default.svc.cluster.local");
    let keys = admin.get("/openid/v1/jwks").is(200).json();
    assert!(text_at(&keys, "/keys/0/kid").len() > 8, "{keys}");
}

#[test]
fn karmadas_viewers_and_editors_see_clusters_and_policies_and_no_secret_of_a_cluster() {
    let subject = shared();
    let Subject::Hub(_) = &*subject else { return };
    let admin = subject.caller();
    let namespace = subject.namespace("policies");
    let cluster = json!({"metadata": {"name": "seen"}, "spec": {"syncMode": "Pull",
        "secretRef": {"namespace": "karmada-cluster", "name": "seen"}}});
    admin.post("/apis/cluster.karmada.io/v1alpha1/clusters", &cluster).is(201);
    let secret = json!({"metadata": {"name": "seen"}, "stringData": {"token": "t"}});
    admin.post("/api/v1/namespaces/karmada-cluster/secrets", &secret).is(201);
    for role in ["karmada-view", "karmada-edit", "view"] {
        grant(&admin, "", &format!("{namespace}-{role}"), role, &user(&format!("{namespace}-{role}")));
    }
    let policies = format!("/apis/policy.karmada.io/v1alpha1/namespaces/{namespace}/propagationpolicies");
    let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": {"generateName": "p-"}, "spec": {
        "resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}], "placement": {"clusterAffinity": {"clusterNames": ["seen"]}}}});
    let secrets = "/api/v1/namespaces/karmada-cluster/secrets";
    let clusters = "/apis/cluster.karmada.io/v1alpha1/clusters";
    let get = Method::GET;
    let as_user = |role: &str| admin.with(certificate(&subject, &format!("{namespace}-{role}"), &[]));
    // karmada-view, karmada-edit, view (which karmada-view flows into)
    for (method, path, body, wanted) in [
        (&get, clusters.to_owned(), &Value::Null, [200, 403, 200]),
        (&get, format!("{clusters}/seen"), &Value::Null, [200, 403, 200]),
        (&get, policies.clone(), &Value::Null, [200, 403, 200]),
        (&get, "/apis/work.karmada.io/v1alpha2/resourcebindings".to_owned(), &Value::Null, [200, 403, 200]),
        (&Method::POST, policies, &policy, [403, 201, 403]),
        (&Method::DELETE, format!("{clusters}/seen"), &Value::Null, [403, 403, 403]),
        (&get, format!("{clusters}/seen/proxy/api"), &Value::Null, [403, 403, 403]),
        (&get, secrets.to_owned(), &Value::Null, [403, 403, 403]),
        (&get, format!("{secrets}/seen"), &Value::Null, [403, 403, 403]),
    ] {
        let got = ["karmada-view", "karmada-edit", "view"].map(|role| {
            let body = if body.is_null() { String::new() } else { body.to_string() };
            as_user(role).send(method.clone(), &path, &[("content-type", "application/json")], body).code
        });
        assert_eq!(got, wanted, "{method} {path}");
    }
    admin.delete(&format!("{clusters}/seen"), &Value::Null).is(200);
}

/// Sooner or later: a server may remember for seconds that a token was good.
#[track_caller]
fn refused(caller: &Caller, path: &str) {
    eventually("the token to be refused", TIMEOUT, || {
        let answer = caller.get(path);
        so(answer.code == 401, || answer.text)
    });
}

#[test]
fn a_bootstrap_token_asks_for_an_identity_and_nothing_else() {
    let subject = shared();
    let Subject::Hub(_) = &*subject else { return };
    let admin = subject.caller();
    let token = json!({"metadata": {"name": "bootstrap-token-conf00"}, "type": "bootstrap.kubernetes.io/token", "stringData": {
        "token-id": "conf00", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true",
        "auth-extra-groups": "system:bootstrappers:karmada:default-cluster-token"}});
    let secrets = "/api/v1/namespaces/kube-system/secrets";
    admin.post(secrets, &token).is(201);
    let bearer = admin.with_token("conf00.0123456789abcdef");
    let me = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let who = bearer.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", &me).is(201).json();
    assert_eq!(text_at(&who, "/status/userInfo/username"), "system:bootstrap:conf00");
    for path in [
        "/api/v1/secrets",
        "/api/v1/namespaces",
        "/apis/cluster.karmada.io/v1alpha1/clusters",
        "/api/v1/namespaces/kube-system/secrets/bootstrap-token-conf00",
    ] {
        bearer.get(path).refusal(403, "Forbidden");
    }
    admin.with_token("conf00.fedcba9876543210").get("/version").refusal(401, "Unauthorized");
    let past = json!({"stringData": {"expiration": "2020-01-01T00:00:00Z"}});
    admin.patch("merge", &format!("{secrets}/bootstrap-token-conf00"), &past).is(200);
    bearer.get("/version").refusal(401, "Unauthorized");
    eventually("the token cleaner", TIMEOUT, || {
        let answer = admin.get(&format!("{secrets}/bootstrap-token-conf00"));
        so(answer.code == 404, || answer.text)
    });
}

#[test]
fn nobody_grants_what_they_have_not() {
    let subject = shared();
    let admin = subject.caller();
    let namespace = subject.namespace("climb");
    grant(&admin, &namespace, "climber", "admin", &user("climber"));
    let climber = admin.with(certificate(&subject, "climber", &[]));
    let roles = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles");
    let bindings = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings");
    let all = json!({"metadata": {"name": "all"}, "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]});
    let message = climber.post(&roles, &all).refusal(403, "Forbidden");
    assert!(message.contains("is attempting to grant RBAC permissions not currently held"), "{message}");
    let some = json!({"metadata": {"name": "some"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]});
    climber.post(&roles, &some).is(201);
    let binding = |role: &str| {
        json!({"metadata": {"generateName": "b-"}, "subjects": [user("climber")],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}})
    };
    climber.post(&bindings, &binding("cluster-admin")).refusal(403, "Forbidden");
    climber.post(&bindings, &binding("view")).is(201);
    // Who may impersonate, acts as the other, and is told apart from who may not.
    let as_other = [("impersonate-user", "climber")];
    admin.send(Method::GET, &roles, &as_other, "").is(200);
    admin.send(Method::GET, "/api/v1/nodes", &as_other, "").refusal(403, "Forbidden");
    climber.send(Method::GET, &roles, &[("impersonate-user", "system:admin")], "").refusal(403, "Forbidden");
}

/// What an aggregated role gathers is its controller's, whoever made the role: who applies the role again without rules takes none
/// away, and who writes rules of their own loses them.
#[test]
fn gathered_rules_belong_to_who_gathers_them() {
    const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let subject = shared();
    let admin = subject.caller();
    let own = subject.namespace("gather");
    let label = format!("{own}.example.com/part");
    let rule = |verb: &str| json!([{"apiGroups": ["example.com"], "resources": ["things"], "verbs": [verb]}]);
    let part = json!({"metadata": {"name": format!("{own}-part"), "labels": {&label: "true"}}, "rules": rule("get")});
    admin.post(ROLES, &part).is(201);
    let path = format!("{ROLES}/{own}-all");
    let all = json!({"metadata": {"name": format!("{own}-all")}, "rules": rule("delete"),
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {&label: "true"}}]}});
    admin.post(&format!("{ROLES}?fieldManager=maker"), &all).is(201);
    let gathered = |verb: &str| {
        eventually("the role gathers its parts", TIMEOUT, || {
            let role = admin.get(&path).json();
            so(role["rules"] == rule(verb), || role.to_string())
        });
    };
    gathered("get");
    let role = admin.get(&path).json();
    let managed = role["metadata"]["managedFields"].as_array().unwrap();
    let of = |manager: &str| managed.iter().find(|entry| entry["manager"] == manager).unwrap();
    let gatherer = of("clusterrole-aggregation-controller");
    assert_eq!((&gatherer["operation"], &gatherer["fieldsV1"]), (&json!("Apply"), &json!({"f:rules": {}})));
    assert_eq!(of("maker")["fieldsV1"]["f:rules"], json!(null));
    admin.patch("merge", &format!("{ROLES}/{own}-part"), &json!({"rules": rule("list")})).is(200);
    gathered("list");
    admin.patch("merge", &path, &json!({"rules": rule("delete")})).is(200);
    gathered("list");
}
