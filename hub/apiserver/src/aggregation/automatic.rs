//! The APIServices of the groups that are served here: made by the hub, labelled so, and gone with their group.
//!
//! Pure. In: the catalogue. Out: the objects, with the priorities that order groups and versions in discovery as in
//! kube-apiserver.

use karmada_definitions::resource::{Catalogue, Family};
use karmada_kinds::api_service::GROUP;
use serde_json::{Value, json};

/// The label of objects that the hub keeps.
pub(super) const AUTOMANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";

/// What groups of custom kinds get: after everything else.
const CUSTOM: (i64, i64) = (1000, 100);

/// Priorities of Kubernetes' own groups: the group's, the version's.
const KNOWN: [(&str, &str, i64, i64); 26] = [
    ("", "v1", 18_000, 1),
    ("apps", "v1", 17_800, 15),
    ("events.k8s.io", "v1", 17_750, 15),
    ("authentication.k8s.io", "v1", 17_700, 15),
    ("authorization.k8s.io", "v1", 17_600, 15),
    ("autoscaling", "v1", 17_500, 15),
    ("autoscaling", "v2", 17_500, 30),
    ("batch", "v1", 17_400, 15),
    ("certificates.k8s.io", "v1", 17_300, 15),
    ("certificates.k8s.io", "v1beta1", 17_300, 9),
    ("networking.k8s.io", "v1", 17_200, 15),
    ("policy", "v1", 17_100, 15),
    ("rbac.authorization.k8s.io", "v1", 17_000, 15),
    ("storage.k8s.io", "v1", 16_800, 15),
    ("apiextensions.k8s.io", "v1", 16_700, 15),
    ("admissionregistration.k8s.io", "v1", 16_700, 15),
    ("admissionregistration.k8s.io", "v1beta1", 16_700, 12),
    ("scheduling.k8s.io", "v1", 16_600, 15),
    ("coordination.k8s.io", "v1", 16_500, 15),
    ("node.k8s.io", "v1", 16_300, 15),
    ("discovery.k8s.io", "v1", 16_200, 15),
    ("resource.k8s.io", "v1", 16_200, 21),
    ("resource.k8s.io", "v1beta2", 16_200, 15),
    ("resource.k8s.io", "v1beta1", 16_200, 9),
    ("flowcontrol.apiserver.k8s.io", "v1", 16_100, 21),
    ("internal.apiserver.k8s.io", "v1alpha1", 16_000, 9),
];

fn priorities(group: &str, version: &str) -> (i64, i64) {
    let known = KNOWN.iter().find(|(g, v, _, _)| (*g, *v) == (group, version));
    known.map_or(CUSTOM, |(_, _, group, version)| (*group, *version))
}

/// The priority of a group that is served here. This API's own comes first.
pub(super) fn group_priority(group: &str) -> i64 {
    if group == GROUP {
        return i64::MAX;
    }
    KNOWN.iter().find(|(g, ..)| *g == group).map_or(CUSTOM.0, |(_, _, priority, _)| *priority)
}

/// An APIService for each group version that is served here, but for its own.
pub(super) fn wanted(catalogue: &Catalogue) -> Vec<Value> {
    let groups = catalogue.groups().iter().filter(|(group, _)| &**group != GROUP);
    let all = groups.flat_map(|(group, versions)| versions.iter().map(move |version| (group, version)));
    all.map(|(group, (version, definitions))| {
        let custom = definitions.iter().any(|definition| definition.family == Family::Custom);
        let (group_priority, version_priority) = priorities(group, version);
        let mut spec = json!({"groupPriorityMinimum": group_priority, "version": version, "versionPriority": version_priority});
        if !group.is_empty() {
            spec["group"] = json!(group);
        }
        json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "APIService",
            "metadata": {"name": format!("{version}.{group}"), "labels": {AUTOMANAGED: if custom { "true" } else { "onstart" }}},
            "spec": spec,
        })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_group_that_is_served_has_its_object() {
        let all = wanted(&karmada_kinds::catalogue::shipped());
        let of = |name: &str| all.iter().find(|object| object["metadata"]["name"] == name).cloned();
        assert_eq!(
            of("v1.").unwrap()["spec"],
            json!({"groupPriorityMinimum": 18_000, "version": "v1", "versionPriority": 1})
        );
        assert_eq!(of("v1.apps").unwrap()["metadata"]["labels"][AUTOMANAGED], "onstart");
        assert_eq!(of("v1alpha1.work.karmada.io").unwrap()["metadata"]["labels"][AUTOMANAGED], "true");
        assert_eq!(of("v1.apiregistration.k8s.io"), None);
        assert!(
            all.iter()
                .filter(|object| !object["metadata"]["name"].as_str().unwrap().contains("karmada"))
                .all(|object| {
                    object["spec"]["groupPriorityMinimum"].as_i64() > Some(1000)
                        || object["spec"]["group"] == "multicluster.x-k8s.io"
                }),
            "a group of Kubernetes' own has no priority"
        );
    }
}
