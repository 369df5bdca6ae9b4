//! What an agent's installation consists of. In: what register was asked for. Out: the objects, in the order to apply them.
//!
//! These builders are the only copy of the agent's manifests; `register --dry-run` prints them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use karmada_certs::{JoinToken, Pin};
use serde_json::{Value, json};

use crate::register::HubAddress;
use crate::register::permissions::Profile;

/// Deployment, ClusterRole and its binding, Role and its binding.
pub const AGENT: &str = "karmada-agent";
/// The agent's ServiceAccount.
pub const ACCOUNT: &str = "karmada-agent-sa";
/// The agent's key and certificate: made and written by the agent, in the member.
pub const IDENTITY: &str = "karmada-agent-identity";
/// The token, until the agent has its identity.
pub const JOIN: &str = "karmada-agent-join";
/// Secrets in which an agent may keep its ledger, `-0` to `-15`: one Secret holds 1 MiB.
pub const LEDGER: &str = "karmada-agent-ledger";
/// Who made an object.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The value of [`MANAGED_BY`].
pub const MANAGER: &str = "karmadactl";
/// The agent's Pods.
pub const POD_LABEL: (&str, &str) = ("app", AGENT);
/// On the identity Secret: what the agent says of itself.
pub const STATE: &str = "edge.karmada.io/agent-state";
/// On the Pod template, so that a new token starts the agent anew. The id alone: it is no secret.
const TOKEN_ID: &str = "edge.karmada.io/join-token-id";

const LEDGER_CHUNKS: usize = 16;
/// An unprivileged user of the agent's image.
const USER: u32 = 65532;

/// An agent to install.
#[derive(Clone, Debug)]
pub struct Installation {
    /// The agent's namespace.
    pub namespace: String,
    /// The cluster's name on the hub.
    pub cluster: String,
    /// The hub, as the member reaches it.
    pub hub: HubAddress,
    /// The hub's CA.
    pub pin: Pin,
    /// The token.
    pub token: JoinToken,
    /// The agent's image.
    pub image: String,
    /// 1, or 0 to install it stopped.
    pub replicas: u8,
    /// What it may do.
    pub profile: Profile,
    /// Where, for the profile `namespaced`.
    pub workload_namespaces: Vec<String>,
    /// The Cluster's `spec.provider`.
    pub provider: Option<String>,
    /// The Cluster's `spec.region`.
    pub region: Option<String>,
    /// The Cluster's `spec.zones`.
    pub zones: Vec<String>,
}

impl Installation {
    /// Every object, in order.
    pub fn manifests(&self) -> Vec<Value> {
        let mut objects = vec![self.namespace(&self.namespace)];
        objects.push(self.object("v1", "ServiceAccount", ACCOUNT, Some(&self.namespace)));
        objects.extend(self.cluster_role());
        objects.extend(self.role(&self.namespace, &own_rules()));
        for namespace in &self.workload_namespaces {
            objects.push(self.namespace(namespace));
            objects.extend(self.role(namespace, &self.profile.namespace_rules(namespace)));
        }
        objects.extend([self.join_secret(), self.identity_secret(), self.deployment()]);
        objects
    }

    fn object(&self, version: &str, kind: &str, name: &str, namespace: Option<&str>) -> Value {
        let mut metadata =
            json!({"name": name, "labels": {"app.kubernetes.io/name": AGENT, MANAGED_BY: MANAGER}});
        if let Some(namespace) = namespace {
            metadata["namespace"] = json!(namespace);
        }
        json!({"apiVersion": version, "kind": kind, "metadata": metadata})
    }

    fn namespace(&self, name: &str) -> Value {
        self.object("v1", "Namespace", name, None)
    }

    fn cluster_role(&self) -> [Value; 2] {
        let mut role = self.object(RBAC, "ClusterRole", AGENT, None);
        role["rules"] = json!(self.profile.cluster_rules());
        let mut binding = self.object(RBAC, "ClusterRoleBinding", AGENT, None);
        self.bind(&mut binding, "ClusterRole");
        [role, binding]
    }

    fn role(&self, namespace: &str, rules: &[Value]) -> [Value; 2] {
        let mut role = self.object(RBAC, "Role", AGENT, Some(namespace));
        // The agent's own namespace may be one of the workloads': one Role holds both.
        let mut all = rules.to_vec();
        if namespace == self.namespace && self.workload_namespaces.contains(&self.namespace) {
            all = [own_rules(), self.profile.namespace_rules(namespace)].concat();
        }
        role["rules"] = json!(all);
        let mut binding = self.object(RBAC, "RoleBinding", AGENT, Some(namespace));
        self.bind(&mut binding, "Role");
        [role, binding]
    }

    fn bind(&self, binding: &mut Value, kind: &str) {
        binding["roleRef"] = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": AGENT});
        binding["subjects"] =
            json!([{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": self.namespace}]);
    }

    fn join_secret(&self) -> Value {
        let mut secret = self.object("v1", "Secret", JOIN, Some(&self.namespace));
        secret["type"] = json!("Opaque");
        secret["data"] = json!({"token": BASE64.encode(self.token.reveal())});
        secret
    }

    /// Empty: the agent makes its key where it is used.
    pub fn identity_secret(&self) -> Value {
        let mut secret = self.object("v1", "Secret", IDENTITY, Some(&self.namespace));
        secret["type"] = json!("Opaque");
        secret
    }

    /// The Deployment.
    pub fn deployment(&self) -> Value {
        let (key, value) = POD_LABEL;
        let mut deployment = self.object("apps/v1", "Deployment", AGENT, Some(&self.namespace));
        deployment["metadata"]["labels"][key] = json!(value);
        deployment["spec"] = json!({
            "replicas": self.replicas,
            // Two agents with one identity are a clone: the old one ends before the new one starts.
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": {key: value}},
            "template": {
                "metadata": {
                    "labels": {key: value, "app.kubernetes.io/name": AGENT},
                    "annotations": {TOKEN_ID: self.token.id()},
                },
                "spec": self.pod(),
            },
        });
        deployment
    }

    fn pod(&self) -> Value {
        json!({
            "serviceAccountName": ACCOUNT,
            "automountServiceAccountToken": true,
            "terminationGracePeriodSeconds": 30,
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": USER, "runAsGroup": USER, "fsGroup": USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            // A site of one node has nothing but its control plane.
            "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"}],
            "containers": [self.container()],
            "volumes": [
                // Optional: an agent that has its identity needs no token, so the Secret may be deleted.
                {"name": "join", "secret": {"secretName": JOIN, "optional": true, "defaultMode": 0o440}},
                {"name": "state", "emptyDir": {}},
            ],
        })
    }

    fn container(&self) -> Value {
        let mut container = json!({
            "name": AGENT,
            "image": self.image,
            "imagePullPolicy": "IfNotPresent",
            "args": self.arguments(),
            "securityContext": {
                "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]},
            },
            "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "128Mi"}},
            "volumeMounts": [
                {"name": "join", "mountPath": "/etc/karmada/join", "readOnly": true},
                {"name": "state", "mountPath": "/var/lib/karmada"},
            ],
        });
        if !self.workload_namespaces.is_empty() {
            let list = self.workload_namespaces.join(",");
            container["env"] = json!([{"name": "KARMADA_AGENT_NAMESPACES", "value": list}]);
        }
        container
    }

    /// The agent's command line.
    fn arguments(&self) -> Vec<String> {
        let identity = format!("{}/{IDENTITY}", self.namespace);
        let (hub, pin) = (self.hub.to_string(), self.pin.to_string());
        let zones = Some(self.zones.join(",")).filter(|zones| !zones.is_empty());
        let flags = [
            ("--hub", Some(hub.as_str())),
            ("--token-file", Some("/etc/karmada/join/token")),
            ("--discovery-token-ca-cert-hash", Some(&pin)),
            ("--cluster-name", Some(&self.cluster)),
            // A directory of its own, which nobody else may enter.
            ("--state-dir", Some("/var/lib/karmada/agent")),
            ("--identity-secret", Some(&identity)),
            ("--cluster-provider", self.provider.as_deref()),
            ("--cluster-region", self.region.as_deref()),
            ("--cluster-zones", zones.as_deref()),
        ];
        flags
            .into_iter()
            .filter_map(|(flag, value)| Some([flag.to_owned(), value?.to_owned()]))
            .flatten()
            .collect()
    }
}

const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// What the agent needs in its own namespace, whatever its profile: its identity and its ledger.
fn own_rules() -> Vec<Value> {
    let ledger: Vec<String> = (0..LEDGER_CHUNKS).map(|chunk| format!("{LEDGER}-{chunk}")).collect();
    let named = |names: Value, verbs: Value| json!({"apiGroups": [""], "resources": ["secrets"], "resourceNames": names, "verbs": verbs});
    vec![
        named(json!([IDENTITY]), json!(["get", "update", "patch"])),
        named(json!(ledger), json!(["get", "update", "patch", "delete"])),
        // A creation has no name to check yet.
        json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]}),
    ]
}

/// An agent that is there already, read from its Deployment's arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// The hub's address.
    pub hub: String,
    /// The hash of its CA.
    pub pin: String,
    /// The cluster's name there.
    pub cluster: String,
}

/// `None` if the Deployment is not one of ours (upstream's agent has the same name).
pub fn installed(deployment: &Value) -> Option<Installed> {
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let arguments: Vec<&str> = container["args"].as_array()?.iter().filter_map(Value::as_str).collect();
    let value = |flag: &str| {
        let at = arguments.iter().position(|argument| *argument == flag)?;
        arguments.get(at + 1).map(|value| (*value).to_owned())
    };
    Some(Installed {
        hub: value("--hub")?,
        pin: value("--discovery-token-ca-cert-hash")?,
        cluster: value("--cluster-name")?,
    })
}

/// The id of the token that a Deployment of the agent was made with.
pub fn token_id(deployment: &Value) -> Option<&str> {
    deployment["spec"]["template"]["metadata"]["annotations"][TOKEN_ID].as_str()
}

/// Whether applying `wanted` over `live` starts the agent anew: its template differs in what karmadactl sets and users change.
pub fn restarts(live: &Value, wanted: &Value) -> bool {
    let template = |deployment: &Value| deployment["spec"]["template"].clone();
    let (live, wanted) = (template(live), template(wanted));
    let container = |template: &Value, field: &str| template["spec"]["containers"][0][field].clone();
    let annotation = |template: &Value| template["metadata"]["annotations"][TOKEN_ID].clone();
    ["image", "args", "env"].iter().any(|field| container(&live, field) != container(&wanted, field))
        || annotation(&live) != annotation(&wanted)
}

#[cfg(test)]
mod tests;
