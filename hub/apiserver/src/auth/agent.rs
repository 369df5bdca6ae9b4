//! What one cluster's agent may do over HTTP: see its own Cluster and write its status, follow its own Works and write theirs.
//!
//! Nothing in here lists the fleet, reads a Secret, or reaches another cluster's namespace; what upstream's agent needs beyond
//! that goes through the stream, where the session is the identity. Names as upstream's, so that tools that look find them.

use serde_json::{Value, json};

/// The ClusterRole, Role and bindings of the agent of `cluster`. The Role's namespace is `karmada-es-CLUSTER`.
pub fn agent_roles(cluster: &str) -> Vec<Value> {
    let user = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": format!("system:karmada:agent:{cluster}")});
    let (own, works) =
        (format!("system:karmada:{cluster}:agent"), format!("system:karmada:{cluster}:agent-work"));
    let namespace = format!("karmada-es-{cluster}");
    let object = |kind: &str, name: &str, namespace: &str| {
        let mut metadata = json!({"name": name, "labels": {"karmada.io/system": "true"}});
        if !namespace.is_empty() {
            metadata["namespace"] = json!(namespace);
        }
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata})
    };
    let with = |mut object: Value, field: &str, value: Value| {
        object[field] = value;
        object
    };
    let bound = |object: Value, kind: &str, name: &str| {
        let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name});
        with(with(object, "roleRef", role), "subjects", json!([user]))
    };
    let cluster_rules = json!([
        {"apiGroups": ["cluster.karmada.io"], "resources": ["clusters"], "resourceNames": [cluster], "verbs": ["get"]},
        {"apiGroups": ["cluster.karmada.io"], "resources": ["clusters/status"], "resourceNames": [cluster],
         "verbs": ["get", "patch", "update"]},
    ]);
    let work_rules = json!([
        {"apiGroups": ["work.karmada.io"], "resources": ["works"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["work.karmada.io"], "resources": ["works/status"], "verbs": ["get", "patch", "update"]},
    ]);
    vec![
        with(object("ClusterRole", &own, ""), "rules", cluster_rules),
        bound(object("ClusterRoleBinding", &own, ""), "ClusterRole", &own),
        with(object("Role", &works, &namespace), "rules", work_rules),
        bound(object("RoleBinding", &works, &namespace), "Role", &works),
    ]
}
