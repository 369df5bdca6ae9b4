//! The roles and bindings that are there from the start: kube-apiserver's own, as far as there is here what they speak of. Whoever runs
//! this API server adds others ([`OwnRoles`]).
//!
//! In: nothing, all is constant. Out: RBAC objects as JSON. Beside `cluster-admin`, Secrets can be read by `edit` (and so `admin`), and in
//! `kube-system` by the bootstrap signer and the token cleaner.

use std::collections::BTreeMap;

use karmada_registry::user::{AUTHENTICATED, MASTERS, UNAUTHENTICATED};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::rbac::GROUP as RBAC;

const READ: &[&str] = &["get", "list", "watch"];
const WRITE: &[&str] = &["create", "delete", "deletecollection", "patch", "update"];
const READ_WRITE: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// Rule on resources of one or more groups.
fn rule(verbs: &[&str], groups: &[&str], resources: &[&str]) -> Value {
    json!({"apiGroups": groups, "resources": resources, "verbs": verbs})
}

/// Rule on named objects.
fn named(verbs: &[&str], group: &str, resources: &[&str], names: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "resourceNames": names, "verbs": verbs})
}

/// Rule on paths.
fn paths(urls: &[&str]) -> Value {
    json!({"nonResourceURLs": urls, "verbs": ["get"]})
}

fn object(kind: &str, namespace: &str, name: &str) -> Value {
    let mut metadata = json!({
        "name": name,
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    });
    if !namespace.is_empty() {
        metadata["namespace"] = json!(namespace);
    }
    json!({"apiVersion": format!("{RBAC}/v1"), "kind": kind, "metadata": metadata})
}

fn cluster_role(name: &str, rules: Vec<Value>) -> Value {
    let mut role = object("ClusterRole", "", name);
    role["rules"] = Value::Array(rules);
    role
}

/// A ClusterRole whose rules flow into `into`.
fn part_of(into: &str, name: &str, rules: Vec<Value>) -> Value {
    let mut role = cluster_role(name, rules);
    role["metadata"]["labels"][format!("{RBAC_LABEL}/aggregate-to-{into}")] = json!("true");
    role
}

const RBAC_LABEL: &str = "rbac.authorization.k8s.io";

/// A ClusterRole that is put together from those labelled for it; itself flows into `into` where one is named.
fn aggregated(name: &str, into: &str) -> Value {
    let mut role = object("ClusterRole", "", name);
    if !into.is_empty() {
        role["metadata"]["labels"][format!("{RBAC_LABEL}/aggregate-to-{into}")] = json!("true");
    }
    let label = format!("{RBAC_LABEL}/aggregate-to-{name}");
    role["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]});
    role
}

fn role(namespace: &str, name: &str, rules: Vec<Value>) -> Value {
    let mut role = object("Role", namespace, name);
    role["rules"] = Value::Array(rules);
    role
}

fn subject(kind: &str, name: &str) -> Value {
    match kind.split_once(':') {
        Some(("ServiceAccount", namespace)) => {
            json!({"kind": "ServiceAccount", "name": name, "namespace": namespace})
        }
        _ => json!({"apiGroup": RBAC, "kind": kind, "name": name}),
    }
}

/// Binds a ClusterRole (or, in a namespace, the Role of the same name) to subjects.
fn binding(namespace: &str, name: &str, role: &str, subjects: &[(&str, &str)]) -> Value {
    let (kind, role_kind) =
        if namespace.is_empty() { ("ClusterRoleBinding", "ClusterRole") } else { ("RoleBinding", "Role") };
    let mut binding = object(kind, namespace, name);
    binding["roleRef"] = json!({"apiGroup": RBAC, "kind": role_kind, "name": role});
    binding["subjects"] = subjects.iter().map(|(kind, name)| subject(kind, name)).collect();
    binding
}

/// What whoever runs this API server adds to the default roles.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct OwnRoles {
    /// Roles and bindings.
    pub roles: Vec<Value>,
    /// Rules, by role, that it had in an earlier version and must not have: taken away where they still stand.
    pub retired: BTreeMap<String, Vec<Value>>,
}

/// The roles and bindings of kube-apiserver that are there from the start.
pub fn bootstrap_roles() -> Vec<Value> {
    let mut all = everybody();
    all.extend(users());
    all.extend(view());
    all.extend(edit());
    all.extend(servants());
    all.extend(public());
    all
}

/// What comes with any request, with a credential or without.
fn everybody() -> Vec<Value> {
    let discovery = [
        "/api",
        "/api/*",
        "/apis",
        "/apis/*",
        "/healthz",
        "/livez",
        "/openapi",
        "/openapi/*",
        "/readyz",
        "/version",
        "/version/",
    ];
    let asks = |group: &str, resources: &[&str]| rule(&["create"], &[group], resources);
    vec![
        cluster_role("system:discovery", vec![paths(&discovery)]),
        binding("", "system:discovery", "system:discovery", &[("Group", AUTHENTICATED)]),
        cluster_role(
            "system:basic-user",
            vec![
                asks("authorization.k8s.io", &["selfsubjectaccessreviews", "selfsubjectrulesreviews"]),
                asks("authentication.k8s.io", &["selfsubjectreviews"]),
            ],
        ),
        binding("", "system:basic-user", "system:basic-user", &[("Group", AUTHENTICATED)]),
        cluster_role(
            "system:public-info-viewer",
            vec![paths(&["/healthz", "/livez", "/readyz", "/version", "/version/"])],
        ),
        binding(
            "",
            "system:public-info-viewer",
            "system:public-info-viewer",
            &[("Group", AUTHENTICATED), ("Group", UNAUTHENTICATED)],
        ),
    ]
}

/// The roles that people are given.
fn users() -> Vec<Value> {
    let everything = json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]});
    let every_path = json!({"nonResourceURLs": ["*"], "verbs": ["*"]});
    vec![
        cluster_role("cluster-admin", vec![everything, every_path]),
        binding("", "cluster-admin", "cluster-admin", &[("Group", MASTERS)]),
        aggregated("admin", ""),
        aggregated("edit", "admin"),
        aggregated("view", "edit"),
        part_of(
            "admin",
            "system:aggregate-to-admin",
            vec![
                rule(&["create"], &["authorization.k8s.io"], &["localsubjectaccessreviews"]),
                rule(READ_WRITE, &[RBAC], &["roles", "rolebindings"]),
            ],
        ),
    ]
}

fn view() -> Vec<Value> {
    let core = [
        "configmaps",
        "endpoints",
        "persistentvolumeclaims",
        "persistentvolumeclaims/status",
        "pods",
        "replicationcontrollers",
        "replicationcontrollers/scale",
        "serviceaccounts",
        "services",
        "services/status",
    ];
    let facts = [
        "bindings",
        "limitranges",
        "namespaces/status",
        "pods/log",
        "pods/status",
        "replicationcontrollers/status",
        "resourcequotas",
        "resourcequotas/status",
    ];
    let apps = [
        "controllerrevisions",
        "daemonsets",
        "daemonsets/status",
        "deployments",
        "deployments/scale",
        "deployments/status",
        "replicasets",
        "replicasets/scale",
        "replicasets/status",
        "statefulsets",
        "statefulsets/scale",
        "statefulsets/status",
    ];
    let rules = vec![
        rule(READ, &[""], &core),
        rule(READ, &[""], &facts),
        rule(READ, &[""], &["namespaces"]),
        rule(READ, &["", "events.k8s.io"], &["events"]),
        rule(READ, &["discovery.k8s.io"], &["endpointslices"]),
        rule(READ, &["apps"], &apps),
        rule(READ, &["autoscaling"], &["horizontalpodautoscalers", "horizontalpodautoscalers/status"]),
        rule(READ, &["batch"], &["cronjobs", "cronjobs/status", "jobs", "jobs/status"]),
        rule(READ, &["policy"], &["poddisruptionbudgets", "poddisruptionbudgets/status"]),
        rule(READ, &["networking.k8s.io"], &["ingresses", "ingresses/status", "networkpolicies"]),
    ];
    vec![part_of("view", "system:aggregate-to-view", rules)]
}

fn edit() -> Vec<Value> {
    let reach = ["pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "secrets", "services/proxy"];
    let pods = ["pods", "pods/attach", "pods/exec", "pods/portforward", "pods/proxy"];
    let core = [
        "configmaps",
        "persistentvolumeclaims",
        "replicationcontrollers",
        "replicationcontrollers/scale",
        "secrets",
        "serviceaccounts",
        "services",
        "services/proxy",
    ];
    let apps = [
        "daemonsets",
        "deployments",
        "deployments/rollback",
        "deployments/scale",
        "replicasets",
        "replicasets/scale",
        "statefulsets",
        "statefulsets/scale",
    ];
    let rules = vec![
        rule(READ, &[""], &reach),
        rule(&["impersonate"], &[""], &["serviceaccounts"]),
        rule(WRITE, &[""], &pods),
        rule(&["create"], &[""], &["pods/eviction"]),
        rule(WRITE, &[""], &core),
        rule(&["create"], &[""], &["serviceaccounts/token"]),
        rule(WRITE, &["", "events.k8s.io"], &["events"]),
        rule(WRITE, &["apps"], &apps),
        rule(WRITE, &["autoscaling"], &["horizontalpodautoscalers"]),
        rule(WRITE, &["batch"], &["cronjobs", "jobs"]),
        rule(WRITE, &["policy"], &["poddisruptionbudgets"]),
        rule(WRITE, &["networking.k8s.io"], &["ingresses", "networkpolicies"]),
        rule(READ_WRITE, &["coordination.k8s.io"], &["leases"]),
    ];
    vec![part_of("edit", "system:aggregate-to-edit", rules)]
}

/// The roles that other programs are given.
fn servants() -> Vec<Value> {
    let csr = "certificates.k8s.io";
    let monitoring =
        ["/healthz", "/healthz/*", "/livez", "/livez/*", "/metrics", "/metrics/slis", "/readyz", "/readyz/*"];
    let approver = |kind: &str, signer: &str| {
        let name = format!("system:certificates.k8s.io:{kind}-approver");
        cluster_role(&name, vec![named(&["approve"], csr, &["signers"], &[signer])])
    };
    vec![
        cluster_role("system:monitoring", vec![paths(&monitoring)]),
        binding("", "system:monitoring", "system:monitoring", &[("Group", "system:monitoring")]),
        cluster_role(
            "system:auth-delegator",
            vec![
                rule(&["create"], &["authentication.k8s.io"], &["tokenreviews"]),
                rule(&["create"], &["authorization.k8s.io"], &["subjectaccessreviews"]),
            ],
        ),
        cluster_role(
            "system:node-bootstrapper",
            vec![rule(&["create", "get", "list", "watch"], &[csr], &["certificatesigningrequests"])],
        ),
        approver("kube-apiserver-client", "kubernetes.io/kube-apiserver-client"),
        approver("legacy-unknown", "kubernetes.io/legacy-unknown"),
        cluster_role(
            "system:service-account-issuer-discovery",
            vec![paths(&[
                "/.well-known/openid-configuration",
                "/.well-known/openid-configuration/",
                "/openid/v1/jwks",
                "/openid/v1/jwks/",
            ])],
        ),
        binding(
            "",
            "system:service-account-issuer-discovery",
            "system:service-account-issuer-discovery",
            &[("Group", "system:serviceaccounts")],
        ),
        role(
            "kube-system",
            "extension-apiserver-authentication-reader",
            vec![named(READ, "", &["configmaps"], &["extension-apiserver-authentication"])],
        ),
    ]
}

/// The signer of `kube-public/cluster-info`, and who takes ended tokens away.
fn public() -> Vec<Value> {
    let events = || rule(&["create", "patch", "update"], &["", "events.k8s.io"], &["events"]);
    let (signer, cleaner) = ("system:controller:bootstrap-signer", "system:controller:token-cleaner");
    let account = |name| [("ServiceAccount:kube-system", name)];
    vec![
        role("kube-system", signer, vec![rule(READ, &[""], &["secrets"])]),
        binding("kube-system", signer, signer, &account("bootstrap-signer")),
        role(
            "kube-system",
            cleaner,
            vec![rule(&["delete", "get", "list", "watch"], &[""], &["secrets"]), events()],
        ),
        binding("kube-system", cleaner, cleaner, &account("token-cleaner")),
        role(
            "kube-public",
            signer,
            vec![
                rule(READ, &[""], &["configmaps"]),
                named(&["update"], "", &["configmaps"], &["cluster-info"]),
                events(),
            ],
        ),
        binding("kube-public", signer, signer, &account("bootstrap-signer")),
    ]
}
