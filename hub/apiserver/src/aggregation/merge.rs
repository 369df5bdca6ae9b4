//! Groups that are handed over, in the documents by which clients discover what is served.
//!
//! In: a document of what is served here, as JSON. Out: the same with the other servers' groups in it, at the place that their
//! priority gives them; a version that is handed over replaces the one served here.

use std::sync::Arc;

use serde_json::{Value, json};

use super::automatic::group_priority;
use super::{Aggregator, Described, Handed};

/// What is handed over, with what is known of it.
pub(crate) struct Groups(Vec<(Arc<Handed>, Option<Arc<Described>>)>);

impl Aggregator {
    /// What is handed over now; `None` where nothing is.
    pub(crate) fn groups(&self) -> Option<Groups> {
        let registered = self.registered();
        if registered.handed.is_empty() {
            return None;
        }
        let described = self.described.read();
        let mut all: Vec<_> = registered
            .handed
            .iter()
            .map(|(place, handed)| (handed.clone(), described.get(place).cloned()))
            .collect();
        all.sort_by_key(|(handed, _)| std::cmp::Reverse((handed.group_priority, handed.version_priority)));
        Some(Groups(all))
    }
}

/// Puts a group where its priority says, and answers its place.
fn place_of(
    groups: &mut Vec<Value>,
    group: &str,
    priority: i64,
    name: fn(&Value) -> &Value,
    new: Value,
) -> usize {
    if let Some(at) = groups.iter().position(|one| *name(one) == *group) {
        return at;
    }
    let before = |one: &Value| group_priority(name(one).as_str().unwrap_or_default()) >= priority;
    let at = groups.iter().take_while(|one| before(one)).count();
    groups.insert(at, new);
    at
}

/// Puts a version behind those of its group, or in the place of one of its name.
fn put_version(versions: &mut Value, version: &str, new: Value) {
    let Some(all) = versions.as_array_mut() else {
        *versions = json!([new]);
        return;
    };
    match all.iter().position(|one| one["version"] == *version) {
        Some(at) => all[at] = new,
        None => all.push(new),
    }
}

impl Groups {
    /// Adds to the groups of an `APIGroupList`.
    pub(crate) fn add_to_list(&self, groups: &mut Vec<Value>) {
        for (handed, _) in &self.0 {
            let (group, version) = (&*handed.group, &*handed.version);
            let entry = json!({"groupVersion": format!("{group}/{version}"), "version": version});
            let new = json!({"name": group, "preferredVersion": entry, "versions": []});
            let at = place_of(groups, group, handed.group_priority, |one| &one["name"], new);
            put_version(&mut groups[at]["versions"], version, entry);
        }
    }

    /// Adds to the items of an `APIGroupDiscoveryList`.
    pub(crate) fn add_to_discovery(&self, items: &mut Vec<Value>) {
        for (handed, described) in &self.0 {
            let (group, version) = (&*handed.group, &*handed.version);
            let mut entry = described.as_ref().map_or(json!({}), |described| described.entry());
            let fresh = handed.available && entry["resources"].is_array();
            entry["version"] = json!(version);
            entry["freshness"] = json!(if fresh { "Current" } else { "Stale" });
            let new = json!({"metadata": {"name": group, "creationTimestamp": null}, "versions": []});
            let at = place_of(items, group, handed.group_priority, |one| &one["metadata"]["name"], new);
            put_version(&mut items[at]["versions"], version, entry);
        }
    }

    /// Adds to the index of OpenAPI v3 documents.
    pub(crate) fn add_to_openapi(&self, index: &mut Value) {
        for (handed, described) in &self.0 {
            let location = format!("apis/{}/{}", handed.group, handed.version);
            let hash = described.as_ref().and_then(|described| described.openapi_hash.as_ref());
            match (hash, index["paths"].as_object_mut()) {
                (Some(hash), Some(paths)) => {
                    let address = format!("/openapi/v3/{location}?hash={hash}");
                    paths.insert(location, json!({"serverRelativeURL": address}));
                }
                (None, Some(paths)) => drop(paths.remove(&location)),
                _ => {}
            }
        }
    }
}
