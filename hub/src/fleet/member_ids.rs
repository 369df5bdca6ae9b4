//! Under which names each member is in the fleet, so that a join need not read every Cluster.
//!
//! In: Clusters as they change. Out: for a member's id (the uid of its kube-system namespace, `spec.id`), the name of another Cluster that
//! has it. A Cluster is read when it came or its spec changed, not when its agent reports.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::FutureExt;
use karmada_registry::cache::{Cache, CacheEvent};
use karmada_schema::object::Stored;
use serde::Deserialize;

use super::cluster_links::ClusterLinks;

/// The index. It takes in what changed when it is asked.
#[derive(Default)]
pub(super) struct MemberIds {
    /// Up to where changes were taken in; `None` before the first question.
    place: Option<u64>,
    ids: BTreeMap<Arc<str>, Arc<str>>,
    names: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// Clusters that were read since it was made.
    read: u64,
}

#[derive(Deserialize)]
struct Cluster<'a> {
    #[serde(borrow, default)]
    spec: Spec<'a>,
}

#[derive(Deserialize, Default)]
struct Spec<'a> {
    #[serde(borrow, default)]
    id: Cow<'a, str>,
}

impl MemberIds {
    /// The first Cluster of another name than `name` that has the id.
    pub(super) fn other_name(&mut self, cache: &Cache, id: &str, name: &str) -> Option<Arc<str>> {
        self.catch_up(cache);
        self.names.get(id)?.iter().find(|other| ***other != *name).cloned()
    }

    fn catch_up(&mut self, cache: &Cache) {
        let resource_cache = cache.of_resource(&ClusterLinks::clusters());
        while let Some(place) = self.place {
            let mut subscription = resource_cache.subscribe(place);
            match subscription.next().now_or_never() {
                None => return,
                Some(Ok(events)) => {
                    self.place = Some(subscription.place());
                    events.iter().for_each(|event| self.observe(event));
                }
                // So many changes ago that they are not kept: all are read again.
                Some(Err(_)) => self.place = None,
            }
        }
        let all = resource_cache.snapshot("");
        (self.ids, self.names, self.place) = (BTreeMap::new(), BTreeMap::new(), Some(all.revision));
        all.items.iter().for_each(|cluster| self.put(cluster));
    }

    fn observe(&mut self, event: &CacheEvent) {
        let cluster = &event.object;
        if event.removed {
            return self.remove(&cluster.key.name);
        }
        let is_same = |before: &Arc<Stored>| {
            before.uid() == cluster.uid()
                && before.generation == cluster.generation
                && cluster.generation != 0
        };
        if !event.previous.as_ref().is_some_and(is_same) {
            self.put(cluster);
        }
    }

    fn put(&mut self, cluster: &Arc<Stored>) {
        let name = &cluster.key.name;
        self.remove(name);
        self.read += 1;
        let json = cluster.json();
        let Ok(Cluster { spec: Spec { id } }) = serde_json::from_slice(&json) else { return };
        if !id.is_empty() {
            let id: Arc<str> = Arc::from(&*id);
            self.names.entry(id.clone()).or_default().insert(name.clone());
            self.ids.insert(name.clone(), id);
        }
    }

    fn remove(&mut self, name: &Arc<str>) {
        let Some(id) = self.ids.remove(name) else { return };
        if let Some(names) = self.names.get_mut(&id) {
            names.remove(name);
            if names.is_empty() {
                self.names.remove(&id);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn read(&self) -> u64 {
        self.read
    }
}
