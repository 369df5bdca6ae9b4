//! Names of resources as Kubernetes knows them: which are standard, which come in whole units only.
//!
//! In: the name of a resource, such as `cpu` or `example.com/gpu`. Out: yes or no. Pure.

use karmada_field::names;

/// What Kubernetes itself knows by a bare name.
const STANDARD: [&str; 20] = [
    "configmaps",
    "cpu",
    "ephemeral-storage",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "memory",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
    "requests.storage",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
    "storage",
];

/// Whether Kubernetes itself knows a resource.
pub fn is_standard(name: &str) -> bool {
    STANDARD.contains(&name) || name.starts_with("hugepages-") || name.starts_with("requests.hugepages-")
}

/// Whether a bare name is one that a quota can limit: of the known ones, storage alone is not.
pub fn is_standard_for_quota(name: &str) -> bool {
    is_standard(name) && name != "storage"
}

/// Whether a name is in Kubernetes' own domain, or in none.
pub fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Whether a resource is somebody's own, as devices are: Kubernetes' rule (`IsExtendedResourceName`). The name has a domain that is not
/// Kubernetes', and a quota can limit requests of it.
pub fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && names::qualified_name(&format!("requests.{name}")).is_empty()
}

/// Whether a resource is counted, and comes in whole units only.
pub fn is_whole(name: &str) -> bool {
    match name {
        "pods"
        | "services"
        | "replicationcontrollers"
        | "resourcequotas"
        | "secrets"
        | "configmaps"
        | "persistentvolumeclaims"
        | "services.nodeports"
        | "services.loadbalancers" => true,
        _ => is_extended(name) || name.starts_with("count/"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_extended_is_what_kubernetes_says_is() {
        for (name, extended) in [
            ("example.com/gpu", true),
            ("count/jobs.batch", true),
            ("cpu", false),
            ("kubernetes.io/batch", false),
            ("my.kubernetes.io/batch", false),
            ("requests.example.com/gpu", false),
            ("example.com/a gpu", false),
        ] {
            assert_eq!((is_extended(name), is_whole(name)), (extended, extended), "{name}");
        }
        assert!(is_whole("pods") && is_whole("count/jobs.batch"));
    }
}
