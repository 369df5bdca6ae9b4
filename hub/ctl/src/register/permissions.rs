//! What an agent may do in its member. In: a profile. Out: RBAC rules.

use clap::ValueEnum;
use serde_json::{Value, json};

/// How much of the member the agent may touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Profile {
    /// Workloads in the namespaces of --workload-namespaces, and nothing else; reads nodes for the summary
    Namespaced,
    /// Workloads (Deployments, Jobs, Services, ConfigMaps, Secrets and their like) and Namespaces, in the whole cluster; no RBAC,
    /// custom resources, webhooks or volumes of the cluster
    Workloads,
    /// Everything, as upstream's agent: every kind that the hub may ever send
    Full,
}

const READ: [&str; 3] = ["get", "list", "watch"];
const WRITE: [&str; 8] = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

fn rule(groups: &[&str], resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": groups, "resources": resources, "verbs": verbs})
}

/// Kinds that a workload consists of, all of them in namespaces.
pub fn workload_rules() -> Vec<Value> {
    let core = [
        "configmaps",
        "endpoints",
        "persistentvolumeclaims",
        "pods",
        "podtemplates",
        "replicationcontrollers",
        "secrets",
        "serviceaccounts",
        "services",
    ];
    let apps = ["controllerrevisions", "daemonsets", "deployments", "replicasets", "statefulsets"];
    vec![
        rule(&[""], &core, &WRITE),
        rule(&["apps"], &apps, &WRITE),
        rule(&["batch"], &["cronjobs", "jobs"], &WRITE),
        rule(&["autoscaling"], &["horizontalpodautoscalers"], &WRITE),
        rule(&["policy"], &["poddisruptionbudgets"], &WRITE),
        rule(&["networking.k8s.io"], &["ingresses", "networkpolicies"], &WRITE),
        rule(&["discovery.k8s.io"], &["endpointslices"], &WRITE),
        // Services that cross clusters, where somebody defined these kinds.
        rule(&["multicluster.x-k8s.io"], &["serviceexports", "serviceimports"], &WRITE),
        // What the Pods of workloads use, for autoscalers of the hub.
        rule(&["metrics.k8s.io"], &["pods"], &["get", "list"]),
        rule(&["custom.metrics.k8s.io"], &["*"], &["get", "list"]),
    ]
}

/// What every agent reads: the cluster's id (the uid of kube-system), its nodes and its health, and which kinds are defined there: the
/// removal of an object whose kind is not served waits for as long as the kind is.
fn summary_rules() -> Vec<Value> {
    vec![
        rule(&[""], &["nodes"], &READ),
        rule(&["apiextensions.k8s.io"], &["customresourcedefinitions"], &["get", "list"]),
        rule(&["apiregistration.k8s.io"], &["apiservices"], &["get", "list"]),
        json!({"apiGroups": [""], "resources": ["namespaces"], "resourceNames": ["kube-system"], "verbs": ["get"]}),
        json!({"nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version", "/version/", "/api", "/api/*", "/apis", "/apis/*",
            "/openapi", "/openapi/*"], "verbs": ["get"]}),
    ]
}

impl Profile {
    /// Rules that hold in the whole cluster.
    pub fn cluster_rules(self) -> Vec<Value> {
        match self {
            Profile::Namespaced => summary_rules(),
            Profile::Workloads => {
                let mut rules = summary_rules();
                rules.push(rule(&[""], &["namespaces"], &WRITE));
                rules.push(rule(&[""], &["limitranges", "resourcequotas"], &READ));
                rules.push(rule(
                    &["", "events.k8s.io"],
                    &["events"],
                    &["get", "list", "watch", "create", "patch"],
                ));
                rules.extend(workload_rules());
                rules
            }
            Profile::Full => {
                vec![rule(&["*"], &["*"], &["*"]), json!({"nonResourceURLs": ["*"], "verbs": ["get"]})]
            }
        }
    }

    /// Rules that hold in one of the workloads' namespaces; the namespace itself may be read, watched by its name, and labelled.
    pub fn namespace_rules(self, namespace: &str) -> Vec<Value> {
        if self != Profile::Namespaced {
            return Vec::new();
        }
        let own = json!({"apiGroups": [""], "resources": ["namespaces"], "resourceNames": [namespace], "verbs": ["get", "list", "watch", "patch", "update"]});
        let events = rule(&["", "events.k8s.io"], &["events"], &["get", "list", "watch", "create", "patch"]);
        [vec![own, events], workload_rules()].concat()
    }
}
