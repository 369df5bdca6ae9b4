//! What the hub has placed in a cluster. In: the cluster's Works, and the member. Out: how many objects of each kind, in words; and what
//! of it is there yet, with the hub's marks on it, when the hub has let the cluster go.

use std::collections::BTreeMap;

use karmada_api::names::execution_namespace;
use karmada_api::object;
use karmada_api::strings::annotations;
use serde_json::Value;

use crate::connection::{ApiError, Connection};

/// Objects that are named, of those that are left.
const NAMED: usize = 5;

/// Objects by kind, kinds named with their group where they are not Kubernetes' core.
pub fn count(works: &[Value]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for work in works {
        let manifests = work["spec"]["workload"]["manifests"].as_array();
        for manifest in manifests.into_iter().flatten() {
            let kind = manifest["kind"].as_str().unwrap_or("unnamed kind");
            let group = manifest["apiVersion"].as_str().and_then(|version| version.split_once('/'));
            let name = group.map_or_else(|| kind.to_owned(), |(group, _)| format!("{kind}.{group}"));
            *counts.entry(name).or_default() += 1;
        }
    }
    counts
}

/// What becomes of them.
pub fn fate(counts: &BTreeMap<String, usize>, keep: bool) -> String {
    if counts.is_empty() {
        return "the hub has placed nothing there".to_owned();
    }
    let total: usize = counts.values().sum();
    let kinds: Vec<String> = counts.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    let fate = match (total, keep) {
        (1, true) => "object that the hub placed there stays, without the hub's marks",
        (_, true) => "objects that the hub placed there stay, without the hub's marks",
        (1, false) => "object that the hub placed there is removed from the member",
        (_, false) => "objects that the hub placed there are removed from the member",
    };
    format!("{total} {fate}: {}", kinds.join(", "))
}

/// What a member serves, as far as it was asked for.
struct Served<'a> {
    member: &'a Connection,
    /// The resources of groups' versions.
    resources: BTreeMap<String, Value>,
}

impl Served<'_> {
    async fn resources(&mut self, version: &str) -> Result<&Value, ApiError> {
        if !self.resources.contains_key(version) {
            let root = if version.contains('/') { "/apis" } else { "/api" };
            let list = self.member.find(&format!("{root}/{version}")).await?.unwrap_or_default();
            self.resources.insert(version.to_owned(), list);
        }
        Ok(&self.resources[version])
    }

    /// Where a manifest's object is: in its own version, or in another one of its group where the member serves its own no more.
    async fn path(&mut self, manifest: &Value) -> Result<Option<String>, ApiError> {
        let own = object::api_version(manifest);
        if let Some(path) = path_in(self.resources(own).await?, own, manifest) {
            return Ok(Some(path));
        }
        let Some((group, _)) = own.split_once('/') else { return Ok(None) };
        let versions = self.member.find(&format!("/apis/{group}")).await?.unwrap_or_default();
        for version in versions["versions"].as_array().into_iter().flatten() {
            let version = version["groupVersion"].as_str().unwrap_or_default();
            if let Some(path) = path_in(self.resources(version).await?, version, manifest) {
                return Ok(Some(path));
            }
        }
        Ok(None)
    }
}

/// What the Works of `cluster` placed and is in the member yet, marked as theirs. A kind that the member does not serve in any version
/// holds nothing that could be seen.
pub async fn left(member: &Connection, cluster: &str, works: &[Value]) -> Result<Vec<String>, ApiError> {
    let mut served = Served { member, resources: BTreeMap::new() };
    let mut left = Vec::new();
    for work in works {
        let manifests = work["spec"]["workload"]["manifests"].as_array();
        for manifest in manifests.into_iter().flatten() {
            let Some(path) = served.path(manifest).await? else { continue };
            if let Some(found) = member.find(&path).await?
                && is_marked(&found, cluster)
                && found["metadata"]["deletionTimestamp"].is_null()
            {
                let place = object::namespace(manifest).to_owned();
                let place = if place.is_empty() { place } else { place + "/" };
                left.push(format!("{} {place}{}", object::kind(manifest), object::name(manifest)));
            }
        }
    }
    Ok(left)
}

/// Where a manifest's object is, by the resources of a version.
fn path_in(resources: &Value, version: &str, manifest: &Value) -> Option<String> {
    let kind = object::kind(manifest);
    let is_it = |resource: &&Value| {
        resource["kind"] == kind && resource["name"].as_str().is_some_and(|name| !name.contains('/'))
    };
    let resource = resources["resources"].as_array()?.iter().find(is_it)?;
    let (plural, name) = (resource["name"].as_str()?, object::name(manifest));
    let root = if version.contains('/') { "/apis" } else { "/api" };
    Some(match object::namespace(manifest) {
        "" => format!("{root}/{version}/{plural}/{name}"),
        namespace => format!("{root}/{version}/namespaces/{namespace}/{plural}/{name}"),
    })
}

/// Whether an object says that a Work of `cluster` brought it.
fn is_marked(found: &Value, cluster: &str) -> bool {
    object::annotation(found, annotations::WORK_NAMESPACE) == Some(execution_namespace(cluster).as_str())
}

/// What is said of what is left; `None` where nothing is.
pub fn left_in_words(left: &[String]) -> Option<String> {
    if left.is_empty() {
        return None;
    }
    let more = left.len().saturating_sub(NAMED);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    let shown: Vec<&str> = left.iter().take(NAMED).map(String::as_str).collect();
    Some(format!(
        "{} objects that the hub placed there are there yet, with its marks, as its agent did not remove them: {}{more}. Nothing looks \
         after them any more: delete them where they are not needed",
        left.len(),
        shown.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn objects_are_counted_by_kind() {
        let work = |manifests: Value| json!({"spec": {"workload": {"manifests": manifests}}});
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment"});
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap"});
        let counts = count(&[work(json!([deployment, config])), work(json!([config])), work(Value::Null)]);
        let text = fate(&counts, false);
        assert_eq!(
            text,
            "3 objects that the hub placed there are removed from the member: 2 ConfigMap, 1 Deployment.apps"
        );
        assert!(fate(&counts, true).contains("stay, without the hub's marks: 2 ConfigMap"));
        assert_eq!(fate(&count(&[]), true), "the hub has placed nothing there");
    }
}
