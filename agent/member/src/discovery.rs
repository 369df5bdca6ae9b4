//! What a member serves: kinds to resources, from the aggregated discovery documents (v2) or, for older members,
//! the legacy ones.
//!
//! In: documents as the member sent them. Out: how a kind is served, and whether the member told all; a document that cannot be read only
//! makes that untrue. Pure.

use std::collections::BTreeMap;

use karmada_api::cluster::{ApiEnablement, ApiResource};
use serde::Deserialize;

use super::Gvk;

/// One resource, as needed to build its URLs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// Plural.
    pub plural: String,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// Whether an object of it can be read. A review or a binding is an answer to its request, and nothing that is kept.
    pub readable: bool,
}

/// Everything served.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Discovery {
    kinds: BTreeMap<Gvk, Resource>,
    complete: bool,
}

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    items: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    #[serde(default)]
    metadata: Name,
    #[serde(default)]
    versions: Vec<Version>,
}

#[derive(Deserialize, Default)]
struct Name {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct Version {
    version: String,
    #[serde(default)]
    resources: Vec<Described>,
    #[serde(default)]
    freshness: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Described {
    resource: String,
    #[serde(default)]
    response_kind: Option<Kind>,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    verbs: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Kind {
    group: String,
    version: String,
    kind: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LegacyList {
    group_version: String,
    #[serde(default)]
    resources: Vec<LegacyResource>,
}

#[derive(Deserialize)]
struct LegacyResource {
    name: String,
    kind: String,
    #[serde(default)]
    namespaced: bool,
    #[serde(default)]
    verbs: Vec<String>,
}

/// Where no verbs are said, nothing is known against it.
fn is_readable(verbs: &[String]) -> bool {
    verbs.is_empty() || verbs.iter().any(|verb| verb == "get")
}

impl Discovery {
    /// From APIGroupDiscoveryLists (of `/api` and of `/apis`). `None` where one of them is something else: an
    /// older member answered with its legacy document.
    pub fn aggregated(documents: &[&[u8]]) -> Option<Self> {
        let mut served = Self { kinds: BTreeMap::new(), complete: true };
        for document in documents {
            let kind: serde_json::Value = serde_json::from_slice(document).ok()?;
            if kind.get("kind")? != "APIGroupDiscoveryList" {
                return None;
            }
            let document: Document = serde_json::from_value(kind).ok()?;
            for group in document.items {
                for version in group.versions {
                    served.complete &= version.freshness != "Stale";
                    for described in version.resources {
                        served.add(&group.metadata.name, &version.version, described);
                    }
                }
            }
        }
        Some(served)
    }

    fn add(&mut self, group: &str, version: &str, described: Described) {
        let Some(kind) = described.response_kind else { return };
        // A resource may answer with a kind of another group (scale-like ones); what counts is where it is served.
        let _ = (&kind.group, &kind.version);
        let gvk = Gvk { group: group.into(), version: version.into(), kind: kind.kind };
        let namespaced = described.scope == "Namespaced";
        let readable = is_readable(&described.verbs);
        self.kinds.entry(gvk).or_insert(Resource { plural: described.resource, namespaced, readable });
    }

    /// From legacy APIResourceLists, one per group and version. `complete` is false where some failed.
    pub fn legacy(lists: &[Vec<u8>], complete: bool) -> Self {
        let mut served = Self { kinds: BTreeMap::new(), complete };
        for list in lists {
            let Ok(list) = serde_json::from_slice::<LegacyList>(list) else {
                served.complete = false;
                continue;
            };
            for resource in list.resources.into_iter().filter(|r| !r.name.contains('/')) {
                let gvk = Gvk::new(&list.group_version, &resource.kind);
                let readable = is_readable(&resource.verbs);
                let entry = Resource { plural: resource.name, namespaced: resource.namespaced, readable };
                served.kinds.entry(gvk).or_insert(entry);
            }
        }
        served
    }

    /// How a kind is served.
    pub fn resource(&self, gvk: &Gvk) -> Option<&Resource> {
        self.kinds.get(gvk)
    }

    /// Another version as which a kind is served; of several, the last by name.
    pub fn other_version(&self, gvk: &Gvk) -> Option<String> {
        let same = self.kinds.keys().rev().find(|other| other.group == gvk.group && other.kind == gvk.kind);
        same.map(|other| other.version.clone())
    }

    /// Whether anything of a group is served.
    pub fn has_group(&self, group: &str) -> bool {
        self.kinds.keys().any(|gvk| gvk.group == group)
    }

    /// Whether every group said what it serves.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// For `Cluster.status.apiEnablements`: sorted, and whether complete.
    pub fn enablements(&self) -> (Vec<ApiEnablement>, bool) {
        let mut groups: BTreeMap<String, Vec<ApiResource>> = BTreeMap::new();
        for (gvk, resource) in &self.kinds {
            let group_version = if gvk.group.is_empty() {
                gvk.version.clone()
            } else {
                format!("{}/{}", gvk.group, gvk.version)
            };
            let entry = ApiResource { name: resource.plural.clone(), kind: gvk.kind.clone() };
            groups.entry(group_version).or_default().push(entry);
        }
        let sorted = groups.into_iter().map(|(group_version, mut resources)| {
            resources.sort();
            ApiEnablement { group_version, resources }
        });
        (sorted.collect(), self.complete)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aggregated_documents_give_kinds_and_sorted_enablements() {
        let core = br#"{"kind":"APIGroupDiscoveryList","items":[{"versions":[{"version":"v1","resources":[
            {"resource":"services","responseKind":{"kind":"Service"},"scope":"Namespaced"},
            {"resource":"namespaces","responseKind":{"kind":"Namespace"},"scope":"Cluster"}]}]}]}"#;
        let groups = br#"{"kind":"APIGroupDiscoveryList","items":[{"metadata":{"name":"apps"},"versions":[
            {"version":"v1","freshness":"Current","resources":[{"resource":"deployments","responseKind":{"group":"apps","version":"v1","kind":"Deployment"},"scope":"Namespaced"}]}]}]}"#;
        let served = Discovery::aggregated(&[core, groups]).unwrap();
        let namespaced = |gvk| served.resource(&gvk).map(|r| (r.plural.as_str(), r.namespaced));
        assert_eq!(namespaced(Gvk::new("v1", "Namespace")), Some(("namespaces", false)));
        assert_eq!(namespaced(Gvk::new("apps/v1", "Deployment")), Some(("deployments", true)));
        let (enablements, complete) = served.enablements();
        assert!(complete);
        let names: Vec<_> =
            enablements.iter().map(|e| (e.group_version.as_str(), e.resources.len())).collect();
        assert_eq!(names, [("apps/v1", 1), ("v1", 2)]);
        assert_eq!(enablements[1].resources[0].name, "namespaces");
        assert!(Discovery::aggregated(&[br#"{"kind":"APIVersions"}"#]).is_none());
    }

    #[test]
    fn what_is_only_created_cannot_be_read() {
        let core = br#"{"kind":"APIGroupDiscoveryList","items":[{"versions":[{"version":"v1","resources":[
            {"resource":"bindings","responseKind":{"kind":"Binding"},"scope":"Namespaced","verbs":["create"]},
            {"resource":"pods","responseKind":{"kind":"Pod"},"scope":"Namespaced","verbs":["create","get","list"]}]}]}]}"#;
        let legacy = br#"{"groupVersion":"v1","resources":[{"name":"bindings","kind":"Binding","namespaced":true,"verbs":["create"]},
            {"name":"pods","kind":"Pod","namespaced":true,"verbs":["create","get","list"]}]}"#;
        for served in [Discovery::aggregated(&[core]).unwrap(), Discovery::legacy(&[legacy.to_vec()], true)] {
            let readable = |kind| served.resource(&Gvk::new("v1", kind)).map(|resource| resource.readable);
            assert_eq!((readable("Binding"), readable("Pod")), (Some(false), Some(true)));
        }
    }

    #[test]
    fn stale_groups_and_failed_lists_are_incomplete() {
        let stale = br#"{"kind":"APIGroupDiscoveryList","items":[{"metadata":{"name":"m"},"versions":[{"version":"v1","freshness":"Stale"}]}]}"#;
        assert!(!Discovery::aggregated(&[stale]).unwrap().enablements().1);
        let list = br#"{"groupVersion":"apps/v1","resources":[{"name":"deployments","kind":"Deployment","namespaced":true},{"name":"deployments/status","kind":"Deployment","namespaced":true}]}"#;
        let served = Discovery::legacy(&[list.to_vec(), b"oops".to_vec()], true);
        assert_eq!(served.enablements().0[0].resources.len(), 1);
        assert!(!served.enablements().1);
    }
}
