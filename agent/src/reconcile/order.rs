//! The order in which kinds depend on each other: definitions, namespaces, what workloads refer to, workloads, and last the webhooks that
//! may refuse all of these. Deletes go the other way.
//!
//! In: a kind, or a Work's manifests. Out: a number from 0 to 4. Pure.

use serde_json::Value;

use crate::member::Gvk;

/// How early a kind must be there; smaller is earlier.
pub fn class(gvk: &Gvk) -> u8 {
    match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("apiextensions.k8s.io", "CustomResourceDefinition") => 0,
        ("", "Namespace") => 1,
        ("rbac.authorization.k8s.io" | "storage.k8s.io" | "scheduling.k8s.io" | "node.k8s.io", _) => 2,
        (
            "",
            "ServiceAccount"
            | "ConfigMap"
            | "Secret"
            | "PersistentVolume"
            | "PersistentVolumeClaim"
            | "ResourceQuota"
            | "LimitRange",
        ) => 2,
        ("admissionregistration.k8s.io", _) => 4,
        _ => 3,
    }
}

/// The class of a Work: that of its earliest manifest.
pub fn of_manifests(manifests: &[Value]) -> u8 {
    manifests.iter().map(|manifest| class(&Gvk::of(manifest))).min().unwrap_or(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_need_comes_first() {
        let order = [
            ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
            ("v1", "Namespace"),
            ("rbac.authorization.k8s.io/v1", "ClusterRole"),
            ("apps/v1", "Deployment"),
            ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"),
        ];
        let classes: Vec<_> = order.iter().map(|(v, k)| class(&Gvk::new(v, k))).collect();
        assert!(classes.is_sorted() && classes.windows(2).all(|w| w[0] < w[1]), "{classes:?}");
        assert_eq!(class(&Gvk::new("v1", "Secret")), 2);
        assert_eq!(class(&Gvk::new("example.com/v1", "Namespace")), 3, "somebody else's kind of that name");
    }
}
