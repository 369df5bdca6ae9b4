//! The table of users, verbs and resources, and that answers follow the roles at once.

use super::*;

fn people() -> BTreeMap<&'static str, User> {
    let agents = ["system:karmada:agents", AUTHENTICATED];
    let joins = ["system:bootstrappers", "system:bootstrappers:karmada:default-cluster-token", AUTHENTICATED];
    BTreeMap::from([
        ("admin", user("root", &[MASTERS, AUTHENTICATED])),
        ("agent-a", user("system:karmada:agent:a", &agents)),
        ("generator", user("system:karmada:agent:rbac-generator", &agents)),
        ("joiner", user("system:bootstrap:abcdef", &joins)),
        ("anonymous", user(ANONYMOUS, &[UNAUTHENTICATED])),
        ("stranger", user("mallory", &[AUTHENTICATED])),
        ("viewer", user("vera", &[AUTHENTICATED])),
        ("editor", user("ed", &["developers", AUTHENTICATED])),
        ("robot", user("system:serviceaccount:shop:robot", &["system:serviceaccounts", AUTHENTICATED])),
        ("prometheus", user("prometheus", &["system:monitoring", AUTHENTICATED])),
    ])
}

/// who, verb, group ("core"), resource or path, namespace ("-"), name ("-"), outcome.
const DOORS: &str = "
admin       delete  core                  namespaces            -            shop  yes
admin       get     -                     /metrics              -            -     yes
agent-a     get     cluster.karmada.io    clusters              -            a     no
agent-a     update  cluster.karmada.io    clusters/status       -            a     no
agent-a     patch   cluster.karmada.io    clusters/status       -            a     no
agent-a     update  cluster.karmada.io    clusters              -            a     no
agent-a     delete  cluster.karmada.io    clusters              -            a     no
agent-a     get     cluster.karmada.io    clusters              -            b     no
agent-a     update  cluster.karmada.io    clusters/status       -            b     no
agent-a     list    cluster.karmada.io    clusters              -            -     no
agent-a     watch   cluster.karmada.io    clusters              -            -     no
agent-a     create  cluster.karmada.io    clusters              -            c     no
agent-a     get     cluster.karmada.io    clusters/proxy        -            a     no
agent-a     list    work.karmada.io       works                 karmada-es-a -     no
agent-a     watch   work.karmada.io       works                 karmada-es-a -     no
agent-a     get     work.karmada.io       works                 karmada-es-a w     no
agent-a     update  work.karmada.io       works/status          karmada-es-a w     no
agent-a     update  work.karmada.io       works                 karmada-es-a w     no
agent-a     delete  work.karmada.io       works                 karmada-es-a w     no
agent-a     create  work.karmada.io       works                 karmada-es-a w     no
agent-a     list    work.karmada.io       works                 karmada-es-b -     no
agent-a     get     work.karmada.io       works                 karmada-es-b w     no
agent-a     update  work.karmada.io       works/status          karmada-es-b w     no
agent-a     list    work.karmada.io       works                 -            -     no
agent-a     get     core                  secrets               karmada-cluster a  no
agent-a     get     core                  secrets               karmada-es-a s     no
agent-a     list    core                  secrets               -            -     no
agent-a     get     core                  namespaces            -            karmada-es-a no
agent-a     create  core                  events                karmada-es-a e     no
agent-a     create  certificates.k8s.io   certificatesigningrequests - x           no
agent-a     create  core                  serviceaccounts/token kube-system  x     no
agent-a     impersonate core              users                 -            root  no
agent-a     update  rbac.authorization.k8s.io clusterroles      -            cluster-admin no
agent-a     update  edge.karmada.io       clusterlinks/confirm  -            a     no
agent-a     create  edge.karmada.io       linkpolicies          -            p     no
agent-a     delete  edge.karmada.io       residencyrules        -            p     no
agent-a     list    policy.karmada.io     propagationpolicies   shop         -     no
agent-a     create  authorization.k8s.io  selfsubjectaccessreviews - -             yes
agent-a     get     -                     /metrics              -            -     no
agent-a     get     -                     /openapi/v3           -            -     yes
generator   get     cluster.karmada.io    clusters              -            a     no
generator   create  rbac.authorization.k8s.io clusterroles      -            x     no
generator   list    core                  secrets               -            -     no
joiner      create  certificates.k8s.io   certificatesigningrequests - x           no
joiner      get     core                  configmaps            kube-public  cluster-info no
joiner      list    core                  secrets               kube-system  -     no
joiner      get     core                  secrets               kube-system  bootstrap-token-abcdef no
joiner      create  cluster.karmada.io    clusters              -            c     no
joiner      get     cluster.karmada.io    clusters              -            a     no
joiner      list    work.karmada.io       works                 karmada-es-a -     no
joiner      get     -                     /version              -            -     yes
anonymous   get     core                  configmaps            kube-public  cluster-info yes
anonymous   list    core                  configmaps            kube-public  -     no
anonymous   watch   core                  configmaps            kube-public  cluster-info no
anonymous   get     core                  configmaps            kube-public  other no
anonymous   get     core                  configmaps            kube-system  cluster-info no
anonymous   get     core                  secrets               kube-public  cluster-info no
anonymous   get     -                     /healthz              -            -     yes
anonymous   get     -                     /version              -            -     yes
anonymous   get     -                     /api                  -            -     no
anonymous   get     -                     /openapi/v2           -            -     no
anonymous   get     -                     /metrics              -            -     no
anonymous   create  authorization.k8s.io  selfsubjectaccessreviews - -             no
stranger    get     -                     /apis/apps            -            -     yes
stranger    list    core                  pods                  shop         -     no
stranger    create  authorization.k8s.io  subjectaccessreviews  -            -     no
viewer      list    core                  pods                  -            -     yes
viewer      get     core                  pods/log              shop         web   yes
viewer      get     core                  pods/exec             shop         web   no
viewer      list    cluster.karmada.io    clusters              -            -     yes
viewer      get     policy.karmada.io     propagationpolicies   shop         p     yes
viewer      get     work.karmada.io       resourcebindings      shop         b     yes
viewer      get     work.karmada.io       works                 karmada-es-a w     no
viewer      list    work.karmada.io       works                 -            -     no
viewer      watch   work.karmada.io       works/status          karmada-es-a w     no
viewer      list    core                  secrets               -            -     no
viewer      get     core                  secrets               karmada-cluster a  no
viewer      update  policy.karmada.io     propagationpolicies   shop         p     no
viewer      get     rbac.authorization.k8s.io clusterroles      -            view  no
editor      update  apps                  deployments           shop         web   yes
editor      get     core                  secrets               shop         s     yes
editor      get     core                  secrets               karmada-cluster a  no
editor      get     core                  secrets               other        s     no
editor      create  policy.karmada.io     propagationpolicies   shop         p     yes
editor      create  policy.karmada.io     propagationpolicies   other        p     no
editor      update  cluster.karmada.io    clusters              -            a     no
editor      patch   cluster.karmada.io    clusters/status       -            a     no
editor      create  edge.karmada.io       linkpolicies          -            p     no
editor      delete  edge.karmada.io       residencyrules        -            p     no
editor      update  work.karmada.io       resourcebindings      shop         b     no
editor      patch   work.karmada.io       works                 karmada-es-a w     no
editor      create  rbac.authorization.k8s.io rolebindings      shop         x     no
editor      get     work.karmada.io       works                 karmada-es-a w     no
editor      list    work.karmada.io       works                 shop         -     no
editor      delete  work.karmada.io       works                 shop         w     no
robot       get     core                  configmaps            shop         own   yes
robot       get     core                  configmaps            shop         other no
robot       list    core                  configmaps            shop         -     no
robot       get     core                  configmaps            other        own   no
robot       update  apps                  deployments/scale     shop         web   yes
robot       update  apps                  deployments/status    shop         web   no
robot       get     -                     /openid/v1/jwks       -            -     yes
stranger    get     -                     /openid/v1/jwks       -            -     no
prometheus  get     -                     /metrics              -            -     yes
prometheus  get     -                     /livez/ping           -            -     yes
";

fn door(line: &str) -> (&str, Attributes, bool) {
    let cells: Vec<&str> = line.split_whitespace().collect();
    let [who, verb, group, what, namespace, name, outcome] = cells[..] else { panic!("{line}") };
    let cell = |text: &str| if text == "-" { String::new() } else { text.to_owned() };
    if what.starts_with('/') {
        return (who, Attributes::path(verb, what), outcome == "yes");
    }
    let (resource, subresource) = what.split_once('/').unwrap_or((what, ""));
    let attributes = Attributes {
        verb: verb.to_owned(),
        group: if group == "core" { String::new() } else { group.to_owned() },
        version: "v1".to_owned(),
        resource: resource.to_owned(),
        subresource: subresource.to_owned(),
        namespace: cell(namespace),
        name: cell(name),
        path: String::new(),
    };
    (who, attributes, outcome == "yes")
}

#[tokio::test]
async fn who_gets_through_which_door() {
    let hub = hub(world()).await;
    let people = people();
    let mut tried = 0;
    for line in DOORS.lines().filter(|line| !line.is_empty()) {
        let (who, attributes, expected) = door(line);
        let decision = hub.authorizer.authorize(&people[who], &attributes);
        assert_eq!(decision.allowed, expected, "{line}: {}", decision.reason);
        tried += 1;
    }
    assert!(tried > 80);
}

#[tokio::test]
async fn answers_follow_the_roles_and_name_the_binding() {
    let hub = hub(world()).await;
    let (mallory, options) = (user("mallory", &[]), masters());
    let list = Attributes { verb: "list".into(), resource: "pods".into(), ..Attributes::default() };
    let person = json!({"kind": "User", "name": "mallory"});
    let binding = bound("", "late", "ClusterRole", "late", person);
    let catalogue = hub.registry.catalogue();
    let bindings = catalogue.kind("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding").unwrap();
    let roles = catalogue.kind("rbac.authorization.k8s.io", "v1", "ClusterRole").unwrap();
    assert_eq!(hub.authorizer.authorize(&mallory, &list), Decision::default());
    hub.registry.create(bindings, "", binding, &options).await.unwrap();
    let missing = "RBAC: clusterrole.rbac.authorization.k8s.io \"late\" not found";
    assert_eq!(hub.authorizer.authorize(&mallory, &list).reason, missing);
    let rules = |verb: &str| json!([{"apiGroups": [""], "resources": ["pods"], "verbs": [verb]}]);
    hub.registry.create(roles, "", role("", "late", rules("list")), &options).await.unwrap();
    let decision = hub.authorizer.authorize(&mallory, &list);
    let by = "RBAC: allowed by ClusterRoleBinding \"late\" of ClusterRole \"late\" to User \"mallory\"";
    assert_eq!((decision.allowed, decision.reason.as_str()), (true, by));
    let mut narrowed = |_: Option<&Value>| Ok(role("", "late", rules("get")));
    hub.registry.update(roles, &ObjectKey::new("", "late"), &options, &mut narrowed).await.unwrap();
    assert!(!hub.authorizer.authorize(&mallory, &list).allowed, "a changed role holds at once");
    let mut widened = |_: Option<&Value>| Ok(role("", "late", rules("list")));
    hub.registry.update(roles, &ObjectKey::new("", "late"), &options, &mut widened).await.unwrap();
    assert!(hub.authorizer.authorize(&mallory, &list).allowed);
    let (key, asked) = (ObjectKey::new("", "late"), DeleteOptions::default());
    hub.registry.delete(bindings, &key, &asked, &options.user).await.unwrap();
    assert!(!hub.authorizer.authorize(&mallory, &list).allowed, "a removed binding holds at once");
}
