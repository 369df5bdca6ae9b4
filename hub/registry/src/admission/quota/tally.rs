//! What is used of each quota, kept from one write to the next.
//!
//! In: a quota, the cache of the kinds that it counts. Out: what is used now: the last count moved on by the events since. Only
//! where those are no longer kept are the namespace's objects counted anew.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karmada_definitions::resource::StorageId;
use karmada_resource_quota::{self as quota, Amounts, Kind};
use karmada_schema::object::ObjectKey;
use karmada_store::Revision;
use parking_lot::Mutex;
use serde_json::Value;

use crate::cache::{Cache, ResourceCache};

/// One kind's part of what is used of one quota.
struct Counted {
    resource_cache: Arc<ResourceCache>,
    kind: Kind,
    /// Every event up to here is counted.
    place: Revision,
    used: Amounts,
}

impl Counted {
    fn new(cache: &Cache, kind: Kind, namespace: &str, quota: &Value) -> Counted {
        let group = if kind.group.is_empty() { "core" } else { &kind.group };
        let resource_cache = cache.of_resource(&StorageId(format!("{group}/{}", kind.plural).into()));
        let mut counted = Counted { resource_cache, kind, place: 0, used: Amounts::new() };
        counted.count(namespace, quota);
        counted
    }

    /// Counts every object.
    fn count(&mut self, namespace: &str, quota: &Value) {
        let all = self.resource_cache.snapshot(namespace);
        self.used = Amounts::new();
        for object in &all.items {
            quota::add_all(&mut self.used, &self.kind.share(quota, || object.value()));
        }
        self.place = all.revision;
    }

    /// Counts what happened since.
    fn move_on(&mut self, namespace: &str, quota: &Value) {
        let Ok(events) = self.resource_cache.events_after(self.place) else {
            return self.count(namespace, quota);
        };
        for event in events {
            self.place = event.revision;
            if *event.object.key.namespace != *namespace {
                continue;
            }
            if let Some(previous) = &event.previous {
                quota::take_all(&mut self.used, &self.kind.share(quota, || previous.value()));
            }
            if !event.removed {
                quota::add_all(&mut self.used, &self.kind.share(quota, || event.object.value()));
            }
        }
    }
}

/// What is used of one quota.
struct Tally {
    /// What the quota counts: its spec.
    spec: Value,
    kinds: Vec<Counted>,
}

/// What is used of every quota that was asked about.
#[derive(Default)]
pub(super) struct Tallies(Mutex<BTreeMap<ObjectKey, Tally>>);

impl Tallies {
    /// What is used of a quota. Exact where nobody else writes what it counts meanwhile.
    pub(super) fn used(&self, cache: &Cache, key: &ObjectKey, quota: &Value) -> Amounts {
        // Taken out while it is moved on: other namespaces do not wait for it.
        let known = self.0.lock().remove(key).filter(|tally| tally.spec == quota["spec"]);
        let tally = match known {
            Some(mut tally) => {
                tally.kinds.iter_mut().for_each(|counted| counted.move_on(&key.namespace, quota));
                tally
            }
            None => {
                let kinds = quota::kinds(quota).into_iter();
                let kinds = kinds.map(|kind| Counted::new(cache, kind, &key.namespace, quota)).collect();
                Tally { spec: quota["spec"].clone(), kinds }
            }
        };
        let mut used: Amounts =
            quota::hard(quota).into_keys().map(|name| (name, Default::default())).collect();
        for counted in &tally.kinds {
            quota::add_all(&mut used, &counted.used);
        }
        self.0.lock().insert(key.clone(), tally);
        used
    }

    /// Forgets quotas that are no more.
    pub(super) fn keep(&self, quotas: &BTreeSet<&ObjectKey>) {
        self.0.lock().retain(|key, _| quotas.contains(key));
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.lock().len()
    }
}

#[cfg(test)]
mod tests {
    use karmada_store::{Expect, MemoryStore, Store};
    use serde_json::json;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::cache::storage_key;
    use karmada_schema::object::encode;

    struct World {
        store: Arc<dyn Store>,
        cache: Arc<Cache>,
        quota: Value,
        tallies: Tallies,
    }

    impl World {
        async fn put(&self, plural: &str, namespace: &str, name: &str, spec: Value) {
            let kind = if plural == "pods" { "Pod" } else { "ConfigMap" };
            let object = json!({"metadata": {"name": name, "namespace": namespace}, "spec": spec});
            let at =
                storage_key(&StorageId(format!("core/{plural}").into()), &ObjectKey::new(namespace, name));
            let bytes = encode(&object, kind, "v1");
            let now = self.store.get(&at).await.unwrap();
            let expect = now.map_or(Expect::Absent, |now| Expect::Revision(now.mod_revision));
            self.cache.wait_for(self.store.put(&at, bytes, expect).await.unwrap()).await;
        }

        async fn remove(&self, plural: &str, name: &str) {
            let at = storage_key(&StorageId(format!("core/{plural}").into()), &ObjectKey::new("n", name));
            let now = self.store.get(&at).await.unwrap().unwrap().mod_revision;
            self.cache.wait_for(self.store.delete(&at, now).await.unwrap()).await;
        }

        /// What the tally says; it is also what a count from nothing says.
        fn used(&self) -> Vec<String> {
            let key = ObjectKey::new("n", "q");
            let used = self.tallies.used(&self.cache, &key, &self.quota);
            assert_eq!(used, Tallies::default().used(&self.cache, &key, &self.quota));
            used.iter().map(|(name, amount)| format!("{name}={amount}")).collect()
        }
    }

    #[tokio::test]
    async fn a_count_that_moves_on_is_what_counting_anew_says() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let cache = Cache::load(&*store).await.unwrap();
        let stop = CancellationToken::new();
        tokio::spawn(cache.clone().run(store.clone(), stop.clone()));
        let quota = json!({"spec": {"hard": {"pods": "9", "requests.cpu": "9", "configmaps": "9"}}});
        let mut world = World { store, cache, quota, tallies: Tallies::default() };
        let pod = |cpu: &str| json!({"containers": [{"resources": {"requests": {"cpu": cpu}}}]});
        assert_eq!(world.used(), ["configmaps=0", "pods=0", "requests.cpu=0"]);
        world.put("pods", "n", "a", pod("1")).await;
        world.put("pods", "other", "a", pod("5")).await;
        world.put("configmaps", "n", "m", json!({})).await;
        assert_eq!(world.used(), ["configmaps=1", "pods=1", "requests.cpu=1"]);
        world.put("pods", "n", "a", pod("2")).await;
        world.put("pods", "n", "b", pod("500m")).await;
        assert_eq!(world.used(), ["configmaps=1", "pods=2", "requests.cpu=2500m"]);
        world.remove("pods", "a").await;
        assert_eq!(world.used(), ["configmaps=1", "pods=1", "requests.cpu=500m"]);
        // More than is kept: it is counted anew.
        for n in 0..5000 {
            let cpu = if n % 2 == 0 { "1" } else { "2" };
            world.put("pods", "n", "b", pod(cpu)).await;
        }
        assert_eq!(world.used(), ["configmaps=1", "pods=1", "requests.cpu=2"]);
        // Another spec is another count.
        world.quota["spec"]["hard"] = json!({"pods": "1"});
        assert_eq!(world.used(), ["pods=1"]);
        world.tallies.keep(&BTreeSet::new());
        assert_eq!(world.tallies.len(), 0);
        stop.cancel();
    }
}
