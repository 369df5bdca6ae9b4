//! Reviews and token requests.

use super::*;

#[tokio::test]
async fn reviews_answer_as_the_doors_do() {
    let hub = hub({
        let mut all = world();
        all.extend([account("robot"), pod("web", "robot"), pod("alien", "other"), join_token("abcdef", &[])]);
        all
    })
    .await;
    let catalogue = hub.registry.catalogue();
    let review = |group: &str, kind: &str, namespace: &str, who: &User, spec: Value| {
        let definition = catalogue.kind(group, "v1", kind).unwrap();
        hub.reviews.review(definition, namespace, who, json!({"metadata": {}, "spec": spec}))
    };
    let (asks, who) = ("authorization.k8s.io", "authentication.k8s.io");
    let vera = user("vera", &[AUTHENTICATED]);
    let pods = json!({"resourceAttributes": {"verb": "list", "resource": "pods", "namespace": "shop"}});
    let own = review(asks, "SelfSubjectAccessReview", "", &vera, pods.clone()).unwrap();
    assert_eq!(own["status"]["allowed"], true);
    assert_eq!(own["kind"], "SelfSubjectAccessReview");
    let path = json!({"nonResourceAttributes": {"verb": "get", "path": "/metrics"}});
    assert_eq!(
        review(asks, "SelfSubjectAccessReview", "", &vera, path).unwrap()["status"],
        json!({"allowed": false})
    );
    assert_eq!(review(asks, "SelfSubjectAccessReview", "", &vera, json!({})).unwrap_err().code, 422);
    assert_eq!(review(asks, "SubjectAccessReview", "", &vera, pods.clone()).unwrap_err().code, 422);
    let mut of_ed = pods;
    of_ed["user"] = json!("ed");
    of_ed["groups"] = json!(["developers"]);
    assert_eq!(
        review(asks, "SubjectAccessReview", "", &vera, of_ed.clone()).unwrap()["status"]["allowed"],
        true
    );
    let local = |namespace: &str| review(asks, "LocalSubjectAccessReview", namespace, &vera, of_ed.clone());
    assert_eq!(local("shop").unwrap()["status"]["allowed"], true);
    assert_eq!(local("other").unwrap_err().code, 422);
    let rules = review(asks, "SelfSubjectRulesReview", "", &vera, json!({"namespace": "shop"})).unwrap();
    let listed = rules["status"]["resourceRules"].as_array().unwrap();
    assert!(listed.iter().any(|r| r["resources"].as_array().unwrap().contains(&json!("clusters"))));
    assert_eq!(rules["status"]["incomplete"], false);
    assert_eq!(review(asks, "SelfSubjectRulesReview", "", &vera, json!({})).unwrap_err().code, 400);
    let me = review(who, "SelfSubjectReview", "", &vera, json!({})).unwrap();
    assert_eq!(me["status"]["userInfo"], json!({"username": "vera", "groups": [AUTHENTICATED]}));
    let token = |spec: Value| review(who, "TokenReview", "", &vera, spec).unwrap()["status"].clone();
    assert_eq!(
        token(json!({"token": "abcdef.0123456789abcdef"}))["user"]["username"],
        "system:bootstrap:abcdef"
    );
    let bad = token(json!({"token": "abcdef.0123456789abcdee"}));
    assert_eq!((bad.get("authenticated"), bad["error"].is_string()), (None, true));
    token_requests(&hub, &token);
}

fn token_requests(hub: &Hub, review: &dyn Fn(Value) -> Value) {
    let ask = |name: &str, spec: Value| hub.reviews.token("shop", name, json!({"spec": spec}));
    let made = ask("robot", json!({})).unwrap();
    assert_eq!(made["spec"]["expirationSeconds"], 3600);
    assert_eq!(made["status"]["expirationTimestamp"], "2026-05-01T13:00:00Z");
    let token = made["status"]["token"].as_str().unwrap();
    let user = hub.authenticator.authenticate(&bearing(token), None).unwrap();
    assert_eq!(user.name, "system:serviceaccount:shop:robot");
    let vault = ask("robot", json!({"audiences": ["vault"]})).unwrap();
    let vault = vault["status"]["token"].as_str().unwrap();
    assert_eq!(hub.authenticator.authenticate(&bearing(vault), None).unwrap_err().code, 401);
    let judged = review(json!({"token": vault, "audiences": ["vault", "other"]}));
    assert_eq!(
        (judged["authenticated"].clone(), judged["audiences"].clone()),
        (json!(true), json!(["vault"]))
    );
    let to_pod = |name: &str, uid: &str| json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}});
    let table = [
        ("ghost", json!({}), Some(404)),
        ("robot", json!({"expirationSeconds": 599}), Some(422)),
        ("robot", json!({"expirationSeconds": 1i64 << 33}), Some(422)),
        ("robot", to_pod("web", "uid-web"), None),
        ("robot", to_pod("web", "older"), Some(409)),
        ("robot", to_pod("gone", ""), Some(404)),
        ("robot", to_pod("alien", ""), Some(400)),
        (
            "robot",
            json!({"boundObjectRef": {"apiVersion": "v1", "kind": "ConfigMap", "name": "a"}}),
            Some(400),
        ),
    ];
    for (name, spec, code) in table {
        assert_eq!(ask(name, spec.clone()).err().map(|status| status.code), code, "{name} {spec}");
    }
}
