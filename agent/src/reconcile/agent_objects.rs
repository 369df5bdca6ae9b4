//! The objects in the member that the agent needs to run: its identity, the copy of its ledger, its Deployment, its account, its rights. Pure.
//!
//! In: where its identity is kept. Out: whether a manifest names one of these. Such a manifest is refused, and nothing of it is removed,
//! whoever asks for it: a hub cannot reach a site whose agent is gone, and whoever replaced its key would own the site.

use crate::identity::IdentityStore;
use crate::member::ObjectId;

const RBAC: &str = "rbac.authorization.k8s.io";

/// The names of the agent's own objects; none where it keeps its identity in a directory, and so is no Pod of the member.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Own(Option<Names>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Names {
    namespace: String,
    identity: String,
    /// What the names of all others are made of.
    stem: String,
    /// Where it has a Role for workloads.
    workload_namespaces: Vec<String>,
}

impl Own {
    /// Of an agent that keeps its identity there, and that was given these namespaces to work in.
    pub fn of(identity_store: &IdentityStore, workload_namespaces: &[String]) -> Self {
        let IdentityStore::Secret { namespace, name, .. } = identity_store else { return Self(None) };
        Self(Some(Names {
            namespace: namespace.clone(),
            identity: name.clone(),
            stem: stem(name).to_owned(),
            workload_namespaces: workload_namespaces.to_vec(),
        }))
    }

    /// Whether `id` may be one of them, in whatever version, and with a namespace that it does not need.
    pub fn has(&self, id: &ObjectId) -> bool {
        let Some(names) = &self.0 else { return false };
        let (is_here, name) = (id.namespace == names.namespace, id.name.as_str());
        let is_named = |ending: &str| name.strip_prefix(&*names.stem) == Some(ending);
        match (id.gvk.group.as_str(), id.gvk.kind.as_str()) {
            ("", "Namespace") => name == names.namespace,
            ("", "Secret") => {
                is_here && (name == names.identity || is_named("-join") || names.is_ledger(name))
            }
            ("", "ServiceAccount") => is_here && is_named("-sa"),
            ("apps" | "extensions", "Deployment") => is_here && is_named(""),
            (RBAC, "ClusterRole" | "ClusterRoleBinding") => is_named(""),
            (RBAC, "Role" | "RoleBinding") => {
                is_named("") && (is_here || names.workload_namespaces.contains(&id.namespace))
            }
            _ => false,
        }
    }
}

impl Names {
    fn is_ledger(&self, name: &str) -> bool {
        let rest = name.strip_prefix(&*self.stem).and_then(|rest| rest.strip_prefix("-ledger"));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    }
}

/// What the names of an agent's objects begin with whose identity is in the Secret `identity`.
pub fn stem(identity: &str) -> &str {
    identity.strip_suffix("-identity").unwrap_or(identity)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::member::Gvk;
    use crate::member::memory::MemoryMember;

    fn id(api_version: &str, kind: &str, namespace: &str, name: &str) -> ObjectId {
        ObjectId { gvk: Gvk::new(api_version, kind), namespace: namespace.into(), name: name.into() }
    }

    fn installed() -> Own {
        let member = Arc::new(MemoryMember::new("m", 1, Duration::ZERO));
        let (namespace, name) = ("karmada-system".into(), "karmada-agent-identity".into());
        Own::of(&IdentityStore::Secret { member, namespace, name }, &["shop".to_owned()])
    }

    #[test]
    fn what_was_installed_is_its_own() {
        let rbac = "rbac.authorization.k8s.io/v1";
        for own in [
            id("v1", "Namespace", "", "karmada-system"),
            id("v1", "Namespace", "needless", "karmada-system"),
            id("v1", "Secret", "karmada-system", "karmada-agent-identity"),
            id("v1", "Secret", "karmada-system", "karmada-agent-join"),
            id("v1", "Secret", "karmada-system", "karmada-agent-ledger-14"),
            id("v1", "ServiceAccount", "karmada-system", "karmada-agent-sa"),
            id("apps/v1", "Deployment", "karmada-system", "karmada-agent"),
            id("apps/v1beta1", "Deployment", "karmada-system", "karmada-agent"),
            id(rbac, "ClusterRole", "", "karmada-agent"),
            id(rbac, "ClusterRoleBinding", "needless", "karmada-agent"),
            id(rbac, "Role", "karmada-system", "karmada-agent"),
            id(rbac, "RoleBinding", "shop", "karmada-agent"),
        ] {
            assert!(installed().has(&own), "{own}");
            assert!(!Own::default().has(&own), "{own}");
        }
    }

    #[test]
    fn what_is_called_alike_is_not() {
        let rbac = "rbac.authorization.k8s.io/v1";
        for other in [
            id("v1", "Namespace", "", "shop"),
            id("v1", "Secret", "shop", "karmada-agent-identity"),
            id("v1", "Secret", "karmada-system", "karmada-agent-ledgers"),
            id("v1", "ConfigMap", "karmada-system", "karmada-agent"),
            id("apps/v1", "Deployment", "shop", "karmada-agent"),
            id("example.com/v1", "Deployment", "karmada-system", "karmada-agent"),
            id(rbac, "ClusterRole", "", "karmada-agent-reader"),
            id(rbac, "Role", "elsewhere", "karmada-agent"),
        ] {
            assert!(!installed().has(&other), "{other}");
        }
    }

    /// As `karmadactl register` names them.
    #[test]
    fn each_name_of_an_installation_is_known() {
        let manifests = include_str!("../../../hub/ctl/src/register/manifests.rs");
        for name in ["AGENT", "ACCOUNT", "IDENTITY", "JOIN", "LEDGER"] {
            let line = manifests.lines().find(|line| line.starts_with(&format!("pub const {name}: &str")));
            let value = line.and_then(|line| line.split('"').nth(1)).unwrap_or_else(|| panic!("{name}"));
            let kinds = [("apps/v1", "Deployment"), ("v1", "ServiceAccount"), ("v1", "Secret")];
            let known = kinds
                .iter()
                .any(|(version, kind)| installed().has(&id(version, kind, "karmada-system", value)));
            assert!(known, "{value}");
        }
    }
}
