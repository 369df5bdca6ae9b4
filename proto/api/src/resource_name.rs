//! Names of resources as Kubernetes knows them: which are standard, which come in whole units only.
//!
//! In: the name of a resource, such as `cpu` or `example.com/gpu`. Out: yes or no. Pure.

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

/// Whether a resource is somebody's own, as devices are.
pub fn is_extended(name: &str) -> bool {
    name.split_once('/').is_some_and(|(domain, _)| !domain.ends_with("kubernetes.io") && domain != "count")
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
