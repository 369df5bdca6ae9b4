//! Who may be impersonated in a member, as the hub's RBAC says who may use that cluster's proxy. Pure.
//!
//! In: a Cluster, the hub's ClusterRoles and ClusterRoleBindings. Out: the Works that carry a ClusterRole `karmada-impersonator` and its binding there,
//! or that there are to be none. Rules count as the hub's own authorizer reads them. What an agent may grant in its member is the member's to say:
//! an agent without that right says so in the Work.

use std::collections::BTreeSet;

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use karmada_api::cluster::Cluster;
use karmada_api::manifest::record_managed;
use karmada_api::strings::{annotations, finalizers, labels, namespaces};
use karmada_api::work::{Work, WorkSpec, WorkloadTemplate};
use karmada_api::{names, object};
use serde_json::{Value, json};

use crate::work_name_taken;

/// Name of the ClusterRole, of its binding and of the account that it is for.
pub const IMPERSONATOR: &str = "karmada-impersonator";

const RBAC: &str = "rbac.authorization.k8s.io";

/// Whoever is in it may do everything on every API server: no site gives that to whom another API server says is in it.
const MASTERS: &str = "system:masters";

/// Who may be impersonated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subjects {
    /// Users, by name.
    pub users: BTreeSet<String>,
    /// ServiceAccounts, by name: RBAC of a whole cluster knows no namespace of them.
    pub service_accounts: BTreeSet<String>,
    /// Groups, by name.
    pub groups: BTreeSet<String>,
}

impl Subjects {
    /// Whether there is nobody.
    pub fn is_empty(&self) -> bool {
        self.users.is_empty() && self.service_accounts.is_empty() && self.groups.is_empty()
    }
}

/// Which clusters a role lets be reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// None.
    #[default]
    Nothing,
    /// These.
    Clusters(BTreeSet<String>),
    /// All, also those that come.
    Everything,
}

impl Reach {
    /// Whether this cluster is among them.
    pub fn has(&self, cluster: &str) -> bool {
        match self {
            Reach::Nothing => false,
            Reach::Clusters(names) => names.contains(cluster),
            Reach::Everything => true,
        }
    }
}

fn any(list: Option<&Vec<String>>, mut is_meant: impl FnMut(&str) -> bool) -> bool {
    list.into_iter().flatten().any(|item| is_meant(item))
}

/// Verbs by which a proxy is used: those of the methods of a request that names one object.
const OPEN: [&str; 7] = ["*", "get", "create", "update", "patch", "delete", "connect"];

/// Whether a rule is of the `proxy` of this resource.
fn is_of_proxy(rule: &PolicyRule, group: &str, resource: &str) -> bool {
    rule.verbs.iter().any(|verb| OPEN.contains(&verb.as_str()))
        && any(rule.api_groups.as_ref(), |said| said == "*" || said == group)
        && any(rule.resources.as_ref(), |said| {
            said == "*" || said == "*/proxy" || said.strip_suffix("/proxy") == Some(resource)
        })
}

/// Whether a rule says anything of proxies: all others are of no concern here.
fn concerns_proxies(rule: &PolicyRule) -> bool {
    is_of_proxy(rule, karmada_api::CLUSTER_GROUP, "clusters")
        || is_of_proxy(rule, "search.karmada.io", "proxying")
}

/// Of a role, nothing is kept but its name and what it says of proxies.
pub fn keep_proxies(role: &mut ClusterRole) {
    bare(&mut role.metadata);
    role.aggregation_rule = None;
    if let Some(rules) = &mut role.rules {
        rules.retain(concerns_proxies);
    }
}

/// Of a binding, nothing is kept but whom it gives what.
pub fn keep_subjects(binding: &mut ClusterRoleBinding) {
    bare(&mut binding.metadata);
}

fn bare(metadata: &mut ObjectMeta) {
    *metadata = ObjectMeta { name: metadata.name.take(), ..ObjectMeta::default() };
}

/// Which clusters these rules let be reached: by their proxies, by name or all; and all by the search's, which leads to whichever has an object.
pub fn reach(rules: &[PolicyRule]) -> Reach {
    let mut named = BTreeSet::new();
    for rule in rules {
        if is_of_proxy(rule, "search.karmada.io", "proxying") {
            return Reach::Everything;
        }
        if is_of_proxy(rule, karmada_api::CLUSTER_GROUP, "clusters") {
            match rule.resource_names.as_deref().unwrap_or_default() {
                [] => return Reach::Everything,
                names => named.extend(names.iter().cloned()),
            }
        }
    }
    if named.is_empty() { Reach::Nothing } else { Reach::Clusters(named) }
}

/// Whom the hub lets use the proxy of `cluster`. Roles of one namespace give nothing that is in none.
pub fn subjects<'a>(
    cluster: &str,
    roles: impl IntoIterator<Item = &'a ClusterRole>,
    bindings: impl IntoIterator<Item = &'a ClusterRoleBinding>,
) -> Subjects {
    let reaching: BTreeSet<&str> = roles
        .into_iter()
        .filter(|role| reach(role.rules.as_deref().unwrap_or_default()).has(cluster))
        .filter_map(|role| role.metadata.name.as_deref())
        .collect();
    let mut all = Subjects::default();
    let meant = |binding: &&ClusterRoleBinding| {
        binding.role_ref.kind == "ClusterRole" && reaching.contains(&*binding.role_ref.name)
    };
    for subject in bindings.into_iter().filter(meant).flat_map(|binding| binding.subjects.iter().flatten()) {
        let of_kind = match subject.kind.as_str() {
            "User" => &mut all.users,
            "ServiceAccount" => &mut all.service_accounts,
            "Group" if subject.name != MASTERS => &mut all.groups,
            _ => continue,
        };
        of_kind.insert(subject.name.clone());
    }
    all
}

/// The names of the two Works in a cluster's execution namespace: the usual ones, and those that they have where a policy's Works have these.
pub fn work_names(cluster: &str) -> Vec<String> {
    let usual = ["ClusterRole", "ClusterRoleBinding"].map(|kind| names::work_name(kind, IMPERSONATOR, ""));
    let second =
        usual.clone().map(|name| names::second_work_name(&name, &work_name_taken::owning_cluster(cluster)));
    [usual, second].concat()
}

/// Whether a Work is one of these two: somebody else's may have such a name.
pub fn is_ours(work: &Work) -> bool {
    let owners = work.metadata.owner_references.as_deref().unwrap_or_default();
    owners.iter().any(|owner| owner.kind == "Cluster" && owner.controller == Some(true))
}

/// The Works that a cluster is to have; none where nobody may use its proxy, or where it is leaving.
pub fn impersonation_works(cluster: &Cluster, subjects: &Subjects) -> Vec<Work> {
    if subjects.is_empty() || cluster.deleting() {
        return Vec::new();
    }
    vec![work(cluster, role(subjects)), work(cluster, binding())]
}

fn manifest(kind: &str) -> Value {
    json!({"apiVersion": format!("{RBAC}/v1"), "kind": kind, "metadata": {"name": IMPERSONATOR}})
}

fn role(subjects: &Subjects) -> Value {
    let kinds = [
        ("users", &subjects.users),
        ("serviceaccounts", &subjects.service_accounts),
        ("groups", &subjects.groups),
    ];
    let rule = |(resource, names): (&str, &BTreeSet<String>)| json!({"apiGroups": [""], "resources": [resource], "resourceNames": names, "verbs": ["impersonate"]});
    let rules: Vec<Value> = kinds.into_iter().filter(|(_, names)| !names.is_empty()).map(rule).collect();
    let mut role = manifest("ClusterRole");
    role["rules"] = rules.into();
    role
}

fn binding() -> Value {
    let mut binding = manifest("ClusterRoleBinding");
    binding["roleRef"] = json!({"apiGroup": RBAC, "kind": "ClusterRole", "name": IMPERSONATOR});
    binding["subjects"] =
        json!([{"kind": "ServiceAccount", "name": IMPERSONATOR, "namespace": namespaces::CLUSTER}]);
    binding
}

/// The Work that carries a manifest to a cluster. It goes with the Cluster.
fn work(cluster: &Cluster, mut manifest: Value) -> Work {
    let name = names::work_name(object::kind(&manifest), IMPERSONATOR, "");
    let namespace = names::execution_namespace(cluster.name());
    object::set_label(&mut manifest, labels::SYSTEM, "true");
    object::set_label(&mut manifest, labels::MANAGED, labels::MANAGED_VALUE);
    object::set_annotation(&mut manifest, annotations::WORK_NAMESPACE, &namespace);
    object::set_annotation(&mut manifest, annotations::WORK_NAME, &name);
    object::set_annotation(&mut manifest, annotations::TEMPLATE_UID, "");
    record_managed(&mut manifest);
    let owner = OwnerReference {
        api_version: format!("{}/v1alpha1", karmada_api::CLUSTER_GROUP),
        kind: "Cluster".to_owned(),
        name: cluster.name().to_owned(),
        uid: cluster.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    };
    Work {
        api_version: "work.karmada.io/v1alpha1".to_owned(),
        kind: "Work".to_owned(),
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(namespace),
            finalizers: Some(vec![finalizers::EXECUTION.to_owned()]),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: WorkSpec { workload: WorkloadTemplate { manifests: vec![manifest] }, ..WorkSpec::default() },
        ..Work::default()
    }
}
