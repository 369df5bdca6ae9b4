//! Users whom others vouch for: a proxy in front of the hub, and an OpenID Connect issuer.

use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Method;
use serde_json::{Value, json};
use tests::api::text_at;
use tests::hub::{Hub, HubOptions};

use crate::access::{certificate_of, user};
use crate::request::{Answer, Caller};
use crate::webhook_server::WebhookServer;

const REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

fn whoami(caller: &Caller, headers: &[(&str, &str)]) -> Answer {
    let mut all = vec![("content-type", "application/json")];
    all.extend(headers);
    caller.send(Method::POST, REVIEWS, &all, "{}")
}

fn hub(args: &[String]) -> Hub {
    Hub::start(HubOptions { args: args.to_vec(), ..HubOptions::default() })
}

fn ca(folder: &Path) {
    karmada_certs::Authority::load_or_create(folder, jiff::Timestamp::now()).unwrap();
}

#[test]
fn a_proxy_in_front_says_who_asks_and_nobody_else_does() {
    let folder = tempfile::tempdir().unwrap();
    ca(folder.path());
    let args = [
        format!("--requestheader-client-ca-file={}", folder.path().join("ca.crt").display()),
        "--requestheader-allowed-names=front".to_owned(),
    ];
    let hub = hub(&args);
    let admin = Caller::of_kubeconfig(&hub.kubeconfig());
    let headers = [
        ("x-remote-user", "jane"),
        ("x-remote-group", "people"),
        ("x-remote-uid", "u1"),
        ("x-remote-extra-acme.com%2fteam", "a"),
    ];
    let front = admin.with(certificate_of(folder.path(), "front", &[]));
    let who = whoami(&front, &headers).is(201).json();
    assert_eq!(
        who["status"]["userInfo"],
        json!({"username": "jane", "uid": "u1", "groups": ["people", "system:authenticated"], "extra": {"acme.com/team": ["a"]}})
    );
    // The proxies' CA makes nobody a user, and no agent, and its certificates without a user are no credential; a proxy of another name is
    // nobody.
    whoami(&front, &[]).is(401);
    let other = admin.with(certificate_of(folder.path(), "other", &["system:masters"]));
    whoami(&other, &headers).is(401);
    let agent = admin.with(certificate_of(folder.path(), "system:admin", &["system:masters"]));
    whoami(&agent, &[]).is(401);
    // Clients of the hub's own CA, and those without a certificate, may say what they like.
    let own = admin.with(certificate_of(&hub.data_dir().join("pki"), "john", &[]));
    assert_eq!(text_at(&whoami(&own, &headers).is(201).json(), "/status/userInfo/username"), "john");
    let message = whoami(&admin.anonymous(), &headers).refusal(403, "Forbidden");
    assert!(message.contains("system:anonymous"), "{message}");
    // Extension servers are told of both proxies.
    let map = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    let data = admin.get(map).is(200).json()["data"].clone();
    assert_eq!(data["requestheader-allowed-names"], "[\"front-proxy-client\",\"front\"]");
}

/// An issuer with one key, and tokens that it signs.
struct Issuer {
    key: karmada_certs::ServiceAccountKey,
    url: String,
}

impl Issuer {
    /// Starts one; its CA is written to a file.
    fn start(ca_file: &Path) -> Issuer {
        let folder = tempfile::tempdir().unwrap();
        let key = karmada_certs::ServiceAccountKey::load_or_create(folder.path()).unwrap();
        let point = key.public_point();
        let encoded = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let public = json!({"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": key.key_id(),
            "x": encoded(&point[1..33]), "y": encoded(&point[33..])});
        let url = std::sync::Arc::new(std::sync::OnceLock::<String>::new());
        let own = url.clone();
        let server = WebhookServer::start(move |path, _| match path {
            "/.well-known/openid-configuration" => {
                let url = own.get().unwrap();
                json!({"issuer": url, "jwks_uri": format!("{url}/keys")})
            }
            _ => json!({"keys": [public]}),
        });
        let client = server.at("");
        url.set(text_at(&client, "/url").to_owned()).unwrap();
        let bundle = text_at(&client, "/caBundle");
        std::fs::write(ca_file, base64::engine::general_purpose::STANDARD.decode(bundle).unwrap()).unwrap();
        Issuer { key, url: text_at(&client, "/url").to_owned() }
    }

    fn token(&self, changed: &Value) -> String {
        let mut claims = json!({"iss": self.url, "aud": "hub", "sub": "jane", "roles": ["ops"], "team": "a",
            "exp": jiff::Timestamp::now().as_second() + 600});
        for (claim, value) in changed.as_object().unwrap() {
            claims[claim] = value.clone();
        }
        self.key.sign(claims.to_string().as_bytes()).unwrap()
    }
}

#[test]
fn an_issuers_tokens_are_good_for_what_their_claims_say() {
    let folder = tempfile::tempdir().unwrap();
    let ca_file = folder.path().join("issuer.crt");
    let issuer = Issuer::start(&ca_file);
    let args = [
        format!("--oidc-issuer-url={}", issuer.url),
        "--oidc-client-id=hub".to_owned(),
        "--oidc-groups-claim=roles".to_owned(),
        "--oidc-groups-prefix=oidc:".to_owned(),
        "--oidc-required-claim=team=a".to_owned(),
        "--oidc-signing-algs=ES256".to_owned(),
        format!("--oidc-ca-file={}", ca_file.display()),
    ];
    let mut hub = hub(&args);
    let admin = Caller::of_kubeconfig(&hub.kubeconfig());
    let token = issuer.token(&json!({}));
    let jane = admin.with_token(&token);
    let name = format!("{}#jane", issuer.url);
    let who = whoami(&jane, &[]).is(201).json();
    assert_eq!(
        who["status"]["userInfo"],
        json!({"username": name, "groups": ["oidc:ops", "system:authenticated"]})
    );
    // Roles bind to them as to anybody.
    let maps = "/api/v1/namespaces/default/configmaps";
    jane.get(maps).refusal(403, "Forbidden");
    let binding = json!({"metadata": {"name": "ops"}, "subjects": [{"kind": "Group", "name": "oidc:ops"}, user("nobody")],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}});
    admin.post("/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", &binding).is(201);
    jane.get(maps).is(200);
    for changed in [
        json!({"exp": 1000}),
        json!({"aud": "other"}),
        json!({"team": "b"}),
        json!({"iss": "https://other.example.org"}),
        json!({"sub": ""}),
    ] {
        whoami(&admin.with_token(&issuer.token(&changed)), &[]).refusal(401, "Unauthorized");
    }
    let stranger = karmada_certs::ServiceAccountKey::generate().unwrap();
    let claims = token.split('.').nth(1).unwrap();
    let forged = stranger.sign(&URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap();
    whoami(&admin.with_token(&forged), &[]).is(401);
    whoami(&admin.with_token(&token[..token.len() - 2]), &[]).is(401);
    let review =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}});
    let review = admin.post("/apis/authentication.k8s.io/v1/tokenreviews", &review).is(201).json();
    assert_eq!(
        (&review["status"]["authenticated"], text_at(&review, "/status/user/username")),
        (&json!(true), &*name)
    );
    // A token of the hub's own is as good as ever, and none is in the log.
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    admin.post(accounts, &json!({"metadata": {"name": "robot"}})).is(201);
    let own = admin.post(&format!("{accounts}/robot/token"), &json!({})).is(201).json();
    whoami(&admin.with_token(text_at(&own, "/status/token")), &[]).is(201);
    let log = std::fs::read_to_string(hub.process().unwrap().log()).unwrap();
    for token in [token.as_str(), text_at(&own, "/status/token")] {
        assert!(!log.contains(token.rsplit('.').next().unwrap()), "{log}");
    }
}

#[test]
fn issuers_may_be_configured_by_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let ca_file = folder.path().join("issuer.crt");
    let issuer = Issuer::start(&ca_file);
    let authority = std::fs::read_to_string(&ca_file).unwrap();
    let configuration = json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration",
        "jwt": [{
            "issuer": {"url": issuer.url, "audiences": ["hub"], "certificateAuthority": authority},
            "claimMappings": {"username": {"claim": "sub", "prefix": "corp:"}, "groups": {"claim": "roles", "prefix": ""}}}]});
    let file = folder.path().join("authentication.yaml");
    std::fs::write(&file, configuration.to_string()).unwrap();
    let hub = hub(&[format!("--authentication-config={}", file.display())]);
    let admin = Caller::of_kubeconfig(&hub.kubeconfig());
    let who = whoami(&admin.with_token(&issuer.token(&json!({}))), &[]).is(201).json();
    assert_eq!(
        who["status"]["userInfo"],
        json!({"username": "corp:jane", "groups": ["ops", "system:authenticated"]})
    );
    let by_rules = json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration",
        "jwt": [{
            "issuer": {"url": issuer.url, "audiences": ["hub"], "certificateAuthority": authority},
            "claimMappings": {"username": {"expression": "claims.team + '/' + claims.sub"}, "groups": {"expression": "claims.roles.map(r, 'r-' + r)"}},
            "claimValidationRules": [{"expression": "claims.team in ['a', 'b']", "message": "unknown team"}],
            "userValidationRules": [{"expression": "user.username != 'a/root'", "message": "reserved"}]}],
        "anonymous": {"enabled": true, "conditions": [{"path": "/readyz"}]}});
    std::fs::write(&file, by_rules.to_string()).unwrap();
    let other = self::hub(&[format!("--authentication-config={}", file.display())]);
    let caller = Caller::of_kubeconfig(&other.kubeconfig());
    let who = whoami(&caller.with_token(&issuer.token(&json!({}))), &[]).is(201).json();
    assert_eq!(
        who["status"]["userInfo"],
        json!({"username": "a/jane", "groups": ["r-ops", "system:authenticated"]})
    );
    for changed in [json!({"team": "c"}), json!({"sub": "root"})] {
        whoami(&caller.with_token(&issuer.token(&changed)), &[]).is(401);
    }
    caller.anonymous().get("/readyz").is(200);
    caller.anonymous().get("/version").refusal(401, "Unauthorized");
    admin.anonymous().get("/version").is(200);
    // An issuer that is not there costs its bearers the answer, in time.
    drop(issuer);
    let started = std::time::Instant::now();
    whoami(&admin.with_token("a.b.c"), &[]).is(401);
    assert!(started.elapsed() < Duration::from_secs(5));
}
