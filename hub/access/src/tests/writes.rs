//! Acting as another, writing roles, and the default roles.

use super::*;

fn acting(headers: &[(&str, &str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap());
    }
    map
}

#[tokio::test]
async fn only_who_may_impersonate_acts_as_another() {
    let rules = json!([
        {"apiGroups": [""], "resources": ["users"], "resourceNames": ["jane"], "verbs": ["impersonate"]},
        {"apiGroups": [""], "resources": ["groups"], "resourceNames": ["devs"], "verbs": ["impersonate"]},
        {"apiGroups": ["authentication.k8s.io"], "resources": ["userextras/scopes"], "verbs": ["impersonate"]},
    ]);
    let hub = hub(vec![
        role("", "actor", rules),
        bound("", "actor", "ClusterRole", "actor", json!({"kind": "User", "name": "proxy"})),
    ])
    .await;
    let act = |who: &User, headers: &[(&str, &str)]| {
        let pods = Attributes { verb: "list".into(), resource: "pods".into(), ..Attributes::default() };
        impersonate(&hub.authorizer, who.clone(), &acting(headers), &pods)
    };
    let (proxy, admin) = (user("proxy", &[AUTHENTICATED]), user("root", &[MASTERS]));
    assert_eq!(act(&proxy, &[]).unwrap(), proxy);
    let jane =
        [("Impersonate-User", "jane"), ("Impersonate-Group", "devs"), ("Impersonate-Extra-Scopes", "view")];
    let became = act(&proxy, &jane).unwrap();
    assert_eq!(
        (became.name.as_str(), &became.groups[..]),
        ("jane", &["devs".to_owned(), AUTHENTICATED.to_owned()][..])
    );
    assert_eq!(became.extra["scopes"], ["view"]);
    let refused: [&[(&str, &str)]; 4] = [
        &[("Impersonate-User", "root")],
        &[("Impersonate-User", "jane"), ("Impersonate-Group", "devs"), ("Impersonate-Group", MASTERS)],
        &[("Impersonate-User", "jane"), ("Impersonate-Uid", "7")],
        &[("Impersonate-User", "system:serviceaccount:shop:robot")],
    ];
    for headers in refused {
        assert_eq!(act(&proxy, headers).unwrap_err().code, 403, "{headers:?}");
    }
    assert_eq!(act(&admin, &[("Impersonate-Group", "devs")]).unwrap_err().code, 400);
    let robot = act(&admin, &[("Impersonate-User", "system:serviceaccount:shop:robot")]).unwrap();
    assert_eq!(robot.groups, ["system:serviceaccounts", "system:serviceaccounts:shop", AUTHENTICATED]);
    let nobody = act(&admin, &[("Impersonate-User", ANONYMOUS)]).unwrap();
    assert_eq!(nobody.groups, [UNAUTHENTICATED]);
}

#[tokio::test]
async fn one_may_be_another_for_some_requests_alone() {
    let rules = json!([
        {"apiGroups": ["authentication.k8s.io"], "resources": ["users", "nodes"], "verbs": ["impersonate:user-info", "impersonate:arbitrary-node"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["impersonate-on:user-info:list", "impersonate-on:arbitrary-node:list"]},
        {"apiGroups": ["authentication.k8s.io"], "resources": ["serviceaccounts", "groups"], "verbs": ["impersonate:user-info"]},
    ]);
    let bind = bound("", "actor", "ClusterRole", "actor", json!({"kind": "User", "name": "proxy"}));
    let hub = hub(vec![role("", "actor", rules), bind]).await;
    let proxy = user("proxy", &[AUTHENTICATED]);
    let act = |verb: &str, headers: &[(&str, &str)]| {
        let pods = Attributes { verb: verb.into(), resource: "pods".into(), ..Attributes::default() };
        impersonate(&hub.authorizer, proxy.clone(), &acting(headers), &pods)
    };
    assert_eq!(act("list", &[("Impersonate-User", "jane")]).unwrap().name, "jane");
    let node = act("list", &[("Impersonate-User", "system:node:n")]).unwrap();
    assert_eq!(node.groups, ["system:nodes", AUTHENTICATED]);
    let refused = act("delete", &[("Impersonate-User", "jane")]).unwrap_err();
    assert!(
        refused.message.contains("cannot impersonate-on:user-info:delete resource \"pods\""),
        "{refused:?}"
    );
    // An account is nobody's for being called with a group beside its name.
    let robot = [("Impersonate-User", "system:serviceaccount:shop:robot"), ("Impersonate-Group", "devs")];
    assert_eq!(act("list", &robot).unwrap_err().code, 403);
}

#[tokio::test]
async fn nobody_writes_roles_beyond_their_own_rights() {
    let hub = hub({
        let mut all = world();
        let granter = json!([
            {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["*"], "verbs": ["create", "update"]},
            {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "resourceNames": ["view"], "verbs": ["bind"]},
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
        ]);
        all.push(role("", "granter", granter));
        all.push(bound("", "granter", "ClusterRole", "granter", json!({"kind": "User", "name": "gran"})));
        all
    })
    .await;
    let pods = |verb: &str| json!([{"apiGroups": [""], "resources": ["pods"], "verbs": [verb]}]);
    let everyone = json!({"kind": "Group", "name": "all"});
    let gathering = json!({"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]});
    let mut aggregate = role("", "gatherer", json!([]));
    aggregate["aggregationRule"] = gathering;
    let table = [
        (role("shop", "reader", pods("get")), None),
        (role("", "reader", pods("list")), None),
        (role("shop", "writer", pods("delete")), Some(403)),
        (role("", "all", pods("*")), Some(403)),
        (aggregate, Some(403)),
        (bound("shop", "b1", "ClusterRole", "view", everyone.clone()), None),
        (bound("shop", "b2", "ClusterRole", "edit", everyone.clone()), Some(403)),
        (bound("", "b3", "ClusterRole", "cluster-admin", everyone.clone()), Some(403)),
        (bound("shop", "b4", "ClusterRole", "nothing", everyone.clone()), Some(404)),
        (bound("shop", "b5", "Role", "reader", everyone), None),
    ];
    let (gran, catalogue) = (user("gran", &[AUTHENTICATED]), hub.registry.catalogue());
    let options = WriteOptions { user: gran, ..WriteOptions::default() };
    for (object, code) in table {
        let definition =
            catalogue.kind("rbac.authorization.k8s.io", "v1", object["kind"].as_str().unwrap()).unwrap();
        let (namespace, name) = (meta::namespace(&object).to_owned(), meta::name(&object).to_owned());
        let outcome = hub.registry.create(definition, &namespace, object.clone(), &options).await;
        assert_eq!(outcome.as_ref().err().map(|status| status.code), code, "{name}");
        if let (Err(status), "writer") = (outcome, name.as_str()) {
            assert_eq!(
                status.message,
                "roles.rbac.authorization.k8s.io \"writer\" is forbidden: user \"gran\" (groups=[\"system:authenticated\"]) \
                 is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"delete\"]}"
            );
        }
        if code == Some(403) {
            assert!(hub.registry.create(definition, &namespace, object, &masters()).await.is_ok(), "{name}");
        }
    }
}

#[tokio::test]
async fn the_default_roles_are_put_in_place_once() {
    let hub = hub(Vec::new()).await;
    let first = reconcile(&hub.registry, &hubs()).await.unwrap();
    assert_eq!((first.created, first.updated), (bootstrap_roles().len() + hubs().roles.len(), 0));
    assert_eq!(reconcile(&hub.registry, &hubs()).await.unwrap(), Reconciled::default());
    let revision = hub.registry.cache().revision();
    reconcile(&hub.registry, &hubs()).await.unwrap();
    assert_eq!(hub.registry.cache().revision(), revision, "nothing is written when nothing is missing");
}
