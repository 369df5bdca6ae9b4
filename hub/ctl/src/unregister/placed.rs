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

/// What the hub has placed in a cluster that leaves.
#[derive(Default)]
pub struct Placed {
    /// The Works that did.
    pub works: Vec<Value>,
    /// What comes of it.
    pub becomes: Becomes,
}

/// What comes of the objects that were placed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Becomes {
    /// The agent removes them.
    #[default]
    Removed,
    /// The agent takes the hub's marks off.
    Kept,
    /// Nobody does anything: the agent is not heard.
    Untouched,
}

impl Becomes {
    /// By whether they are to be kept, and whether the site is silent.
    pub fn of(keeps: bool, is_silent: bool) -> Self {
        match (is_silent, keeps) {
            (true, _) => Becomes::Untouched,
            (false, true) => Becomes::Kept,
            (false, false) => Becomes::Removed,
        }
    }
}

impl Placed {
    /// What becomes of them, in words.
    pub fn fate(&self) -> String {
        fate(&count(&self.works), self.becomes)
            .unwrap_or_else(|| "the hub has placed nothing there".to_owned())
    }

    /// What stays without the hub's marks, in words: all but what is `left` with them.
    pub fn kept(&self, left: &[Left]) -> Option<String> {
        let mut counts = count(&self.works);
        for one in left {
            counts.entry(one.kind.clone()).and_modify(|count| *count = count.saturating_sub(1));
        }
        counts.retain(|_, count| *count > 0);
        fate(&counts, self.becomes).filter(|_| self.becomes == Becomes::Kept)
    }

    /// What is said where nobody could look into the member.
    pub fn unlooked(&self) -> String {
        let fate = fate(&count(&self.works), self.becomes).filter(|_| self.becomes == Becomes::Untouched);
        format!(
            "member: nothing is removed there{}",
            fate.map(|fate| format!("; {fate}")).unwrap_or_default()
        )
    }

    /// What the Works of `cluster` placed and is in the member yet, marked as theirs. A kind that the member does not serve in any
    /// version holds nothing that could be seen.
    pub async fn left(&self, member: &Connection, cluster: &str) -> Result<Vec<Left>, ApiError> {
        let mut served = Served { member, resources: BTreeMap::new() };
        let mut left = Vec::new();
        for manifest in self.works.iter().flat_map(manifests) {
            let Some(path) = served.path(manifest).await? else { continue };
            if let Some(found) = member.find(&path).await?
                && is_marked(&found, cluster)
                && found["metadata"]["deletionTimestamp"].is_null()
            {
                left.push(Left::of(manifest));
            }
        }
        Ok(left)
    }

    /// What is said of what is left; `None` where nothing is.
    pub fn left_in_words(&self, left: &[Left]) -> Option<String> {
        if left.is_empty() {
            return None;
        }
        let more = left.len().saturating_sub(NAMED);
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        let shown: Vec<&str> = left.iter().take(NAMED).map(|one| one.name.as_str()).collect();
        let undone = if self.becomes == Becomes::Kept { "take them off" } else { "remove them" };
        Some(format!(
            "{} objects that the hub placed there are there yet, with its marks, as its agent did not {undone}: {}{more}. Nothing looks \
             after them any more: delete them where they are not needed",
            left.len(),
            shown.join(", ")
        ))
    }
}

/// An object that is in the member yet, with the hub's marks.
pub struct Left {
    /// Its kind, as [`count`] names it.
    kind: String,
    /// Its kind and place.
    name: String,
}

impl Left {
    fn of(manifest: &Value) -> Self {
        let place = object::namespace(manifest).to_owned();
        let place = if place.is_empty() { place } else { place + "/" };
        let name = format!("{} {place}{}", object::kind(manifest), object::name(manifest));
        Self { kind: kind_in_group(manifest), name }
    }
}

fn manifests(work: &Value) -> impl Iterator<Item = &Value> {
    work["spec"]["workload"]["manifests"].as_array().into_iter().flatten()
}

/// A kind, with its group where it is not of Kubernetes' core.
fn kind_in_group(manifest: &Value) -> String {
    let kind = manifest["kind"].as_str().unwrap_or("unnamed kind");
    let group = manifest["apiVersion"].as_str().and_then(|version| version.split_once('/'));
    group.map_or_else(|| kind.to_owned(), |(group, _)| format!("{kind}.{group}"))
}

/// Objects by kind.
pub fn count(works: &[Value]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for manifest in works.iter().flat_map(manifests) {
        *counts.entry(kind_in_group(manifest)).or_default() += 1;
    }
    counts
}

/// What becomes of so many; `None` where there are none.
fn fate(counts: &BTreeMap<String, usize>, becomes: Becomes) -> Option<String> {
    let total: usize = counts.values().sum();
    let kinds: Vec<String> = counts.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    let (is_one, objects) = (total == 1, if total == 1 { "object" } else { "objects" });
    let fate = match (becomes, is_one) {
        (Becomes::Kept, true) => "stays, without the hub's marks",
        (Becomes::Kept, false) => "stay, without the hub's marks",
        (Becomes::Untouched, true) => "stays, with the hub's marks, as its agent is not heard",
        (Becomes::Untouched, false) => "stay, with the hub's marks, as its agent is not heard",
        (Becomes::Removed, true) => "is removed from the member",
        (Becomes::Removed, false) => "are removed from the member",
    };
    let words = format!("{total} {objects} that the hub placed there {fate}: {}", kinds.join(", "));
    (total > 0).then_some(words)
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn objects_are_counted_by_kind() {
        let work = |manifests: Value| json!({"spec": {"workload": {"manifests": manifests}}});
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment"});
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap"});
        let works = [work(json!([deployment, config])), work(json!([config])), work(Value::Null)];
        let placed = |becomes: Becomes| Placed { works: works.to_vec(), becomes };
        assert_eq!(
            placed(Becomes::Removed).fate(),
            "3 objects that the hub placed there are removed from the member: 2 ConfigMap, 1 Deployment.apps"
        );
        assert!(placed(Becomes::Kept).fate().contains("stay, without the hub's marks: 2 ConfigMap"));
        assert_eq!(Placed::default().fate(), "the hub has placed nothing there");
    }

    /// Of one object it is never said both that it has the hub's marks and that it has none.
    #[test]
    fn what_is_said_of_marks_is_true_of_each_object() {
        let config = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "shop"}});
        let works = vec![json!({"spec": {"workload": {"manifests": [config("a"), config("b")]}}})];
        let placed = |keeps: bool, is_silent: bool| Placed {
            works: works.clone(),
            becomes: Becomes::of(keeps, is_silent),
        };
        let left: Vec<Left> = ["a", "b"].map(|name| Left::of(&config(name))).into();
        let kept = placed(true, false);
        let one = "1 object that the hub placed there stays, without the hub's marks: 1 ConfigMap";
        assert_eq!(kept.kept(&left[..1]).as_deref(), Some(one));
        assert_eq!((kept.kept(&left), kept.unlooked().contains("marks")), (None, false));
        let words = kept.left_in_words(&left[..1]).unwrap();
        assert!(words.contains("did not take them off: ConfigMap shop/a."), "{words}");
        // Of a silent site nobody takes anything off, whatever is wished.
        for keeps in [true, false] {
            let silent = placed(keeps, true);
            assert!(silent.fate().contains("2 objects that the hub placed there stay, with the hub's marks"));
            assert_eq!(silent.kept(&[]), None);
            assert!(silent.unlooked().contains("with the hub's marks"), "{}", silent.unlooked());
        }
        assert_eq!((placed(false, false).kept(&[]), kept.left_in_words(&[])), (None, None));
    }
}
