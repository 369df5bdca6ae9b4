//! The FlowSchemas and PriorityLevelConfigurations that are there from the first start: mandatory and suggested ones, as
//! kube-apiserver lays them down.
//!
//! Facts, as JSON objects. Nothing here acts.

use serde_json::{Value, json};

const VERSION: &str = "flowcontrol.apiserver.k8s.io/v1";

/// The annotation that says whether a spec follows its default.
pub const AUTOUPDATE: &str = "apf.kubernetes.io/autoupdate-spec";

fn object(kind: &str, name: &str, spec: Value) -> Value {
    let mut object = json!({"apiVersion": VERSION, "kind": kind,
        "metadata": {"name": name, "annotations": {AUTOUPDATE: "true"}}});
    object["spec"] = spec;
    object
}

fn limited(name: &str, shares: u32, lendable: u32, response: &Value) -> Value {
    let limited =
        json!({"nominalConcurrencyShares": shares, "lendablePercent": lendable, "limitResponse": response});
    object("PriorityLevelConfiguration", name, json!({"type": "Limited", "limited": limited}))
}

fn queued(name: &str, shares: u32, lendable: u32, queues: u32, hand: u32) -> Value {
    let queuing = json!({"queues": queues, "handSize": hand, "queueLengthLimit": 50});
    limited(name, shares, lendable, &json!({"type": "Queue", "queuing": queuing}))
}

/// The levels without which there is nothing.
pub fn mandatory_levels() -> Vec<Value> {
    let exempt = json!({"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}});
    vec![
        object("PriorityLevelConfiguration", "exempt", exempt),
        limited("catch-all", 5, 0, &json!({"type": "Reject"})),
    ]
}

/// Every level.
pub fn levels() -> Vec<Value> {
    let mut all = mandatory_levels();
    all.extend([
        queued("system", 30, 33, 64, 6),
        queued("node-high", 40, 25, 64, 6),
        queued("leader-election", 10, 0, 16, 4),
        queued("workload-high", 40, 50, 128, 6),
        queued("workload-low", 100, 90, 128, 6),
        queued("global-default", 20, 50, 128, 6),
    ]);
    all
}

fn schema(name: &str, level: &str, precedence: u32, distinguisher: &str, rules: &Value) -> Value {
    let mut spec = json!({"priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence});
    if !distinguisher.is_empty() {
        spec["distinguisherMethod"] = json!({"type": distinguisher});
    }
    spec["rules"] = json!([rules]);
    object("FlowSchema", name, spec)
}

fn groups(names: &[&str]) -> Vec<Value> {
    names.iter().map(|name| json!({"kind": "Group", "group": {"name": name}})).collect()
}

fn users(names: &[&str]) -> Vec<Value> {
    names.iter().map(|name| json!({"kind": "User", "user": {"name": name}})).collect()
}

/// ServiceAccounts of `kube-system`.
fn accounts(names: &[&str]) -> Vec<Value> {
    let one = |name| json!({"kind": "ServiceAccount", "serviceAccount": {"name": name, "namespace": "kube-system"}});
    names.iter().map(one).collect()
}

fn resources(verbs: &[&str], group: &str, resources: &[&str], cluster: bool) -> Value {
    let mut rule = json!({"verbs": verbs, "apiGroups": [group], "resources": resources, "namespaces": ["*"]});
    if cluster {
        rule["clusterScope"] = json!(true);
    }
    rule
}

fn everything(subjects: &[Value]) -> Value {
    json!({
        "subjects": subjects,
        "resourceRules": [resources(&["*"], "*", &["*"], true)],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    })
}

fn only(subjects: &[Value], rules: &[Value]) -> Value {
    json!({"subjects": subjects, "resourceRules": rules})
}

const ANYBODY: [&str; 2] = ["system:unauthenticated", "system:authenticated"];

/// The schemas without which a request might match none.
pub fn mandatory_schemas() -> Vec<Value> {
    vec![
        schema("exempt", "exempt", 1, "", &everything(&groups(&["system:masters"]))),
        schema("catch-all", "catch-all", 10_000, "ByUser", &everything(&groups(&ANYBODY))),
    ]
}

/// Every schema.
pub fn schemas() -> Vec<Value> {
    let leases = || resources(&["get", "create", "update"], "coordination.k8s.io", &["leases"], false);
    let servants = ["system:kube-controller-manager", "system:kube-scheduler"];
    let mut electors = users(&servants);
    electors.extend(accounts(&["*"]));
    let nodes = vec![
        resources(&["*"], "", &["nodes", "nodes/status"], true),
        resources(&["*"], "coordination.k8s.io", &["leases"], false),
    ];
    let probes = json!({"subjects": groups(&ANYBODY), "nonResourceRules": [
        {"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}]});
    let mut all = mandatory_schemas();
    all.extend([
        schema("system-nodes", "system", 500, "ByUser", &everything(&groups(&["system:nodes"]))),
        schema("system-node-high", "node-high", 400, "ByUser", &only(&groups(&["system:nodes"]), &nodes)),
        schema("probes", "exempt", 2, "", &probes),
        schema("system-leader-election", "leader-election", 100, "ByUser", &only(&electors, &[leases()])),
        schema(
            "kube-controller-manager",
            "workload-high",
            800,
            "ByNamespace",
            &everything(&users(&servants[..1])),
        ),
        schema("kube-scheduler", "workload-high", 800, "ByNamespace", &everything(&users(&servants[1..]))),
        schema(
            "kube-system-service-accounts",
            "workload-high",
            900,
            "ByNamespace",
            &everything(&accounts(&["*"])),
        ),
        schema(
            "service-accounts",
            "workload-low",
            9000,
            "ByUser",
            &everything(&groups(&["system:serviceaccounts"])),
        ),
        schema("global-default", "global-default", 9900, "ByUser", &everything(&groups(&ANYBODY))),
    ]);
    all
}
