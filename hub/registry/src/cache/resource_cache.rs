//! The cache of one resource: its live objects in key order and its recent events.
//!
//! A list at a recent revision is the present with the events since then undone, so that the pages of a chunked list agree
//! with each other without any snapshot being kept.
//!
//! In: objects at the first load, then writes with rising revisions. Out: single objects, lists as they are or were at a revision, and
//! subscriptions; [`Expired`] where events that it takes are no longer kept. Reads wait for the lock alone.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use karmada_definitions::resource::StorageId;
use karmada_schema::object::{ObjectKey, Stored};
use karmada_store::Revision;
use parking_lot::RwLock;
use tokio::time::Instant;

use super::CacheEvent;
use super::event_ring::{Expired, Ring, Subscription};
use super::key_ordered::{KeyOrdered, Keyed};

/// Objects of a list and the revision they show.
pub struct Listing {
    /// Objects in key order.
    pub items: Vec<Arc<Stored>>,
    /// The revision shown.
    pub revision: Revision,
}

/// The cache of one resource.
pub struct ResourceCache {
    state: RwLock<State>,
    ring: Ring,
}

struct State {
    objects: BTreeSet<KeyOrdered>,
    /// The last event applied here, or the revision the cache started at.
    revision: Revision,
}

impl ResourceCache {
    pub(super) fn starting_at(revision: Revision) -> Self {
        let resource_cache = ResourceCache {
            state: RwLock::new(State { objects: BTreeSet::new(), revision }),
            ring: Ring::default(),
        };
        resource_cache.ring.start_at(revision);
        resource_cache
    }

    pub(super) fn start_at(&self, revision: Revision) {
        self.state.write().revision = revision;
        self.ring.start_at(revision);
    }

    /// Puts an object in without an event: the first load.
    pub(super) fn place(&self, object: Arc<Stored>) {
        self.state.write().objects.replace(KeyOrdered(object));
    }

    /// Applies one write; one that was applied before changes nothing.
    pub(super) fn apply(
        &self,
        storage: &StorageId,
        object: Option<Arc<Stored>>,
        key: Option<&ObjectKey>,
        revision: Revision,
    ) {
        let mut state = self.state.write();
        if revision <= state.revision {
            return;
        }
        state.revision = revision;
        let event = match object {
            Some(object) => {
                let previous = state.objects.replace(KeyOrdered(object.clone()));
                let previous = previous.map(|placed| placed.0).filter(|p| p.revision < revision);
                CacheEvent { storage: storage.clone(), revision, previous, object, removed: false }
            }
            None => {
                let Some(KeyOrdered(previous)) = key.and_then(|key| state.objects.take(key as &dyn Keyed))
                else {
                    return;
                };
                let object = Arc::new(previous.removed_at(revision));
                CacheEvent {
                    storage: storage.clone(),
                    revision,
                    previous: Some(previous),
                    object,
                    removed: true,
                }
            }
        };
        // Pushed under the lock, so that a list and a subscription from its revision fit without gap or overlap.
        self.ring.push(Arc::new(event));
    }

    pub(super) fn trim(&self, now: Instant) {
        self.ring.trim(now);
    }

    /// One live object.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<Stored>> {
        self.state.read().objects.get(key as &dyn Keyed).map(|placed| placed.0.clone())
    }

    /// The last write that is seen here.
    pub fn revision(&self) -> Revision {
        self.state.read().revision
    }

    /// How many objects live.
    pub fn len(&self) -> usize {
        self.state.read().objects.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Live objects of `namespace` (empty: all) after `after` (exclusive) for which `keep` holds, at most `limit` (0: all)
    /// of them. The flag says whether more would follow.
    pub fn list(
        &self,
        namespace: &str,
        after: Option<&ObjectKey>,
        limit: usize,
        keep: &dyn Fn(&Stored) -> bool,
    ) -> (Vec<Arc<Stored>>, bool) {
        let state = self.state.read();
        let mut out = Vec::new();
        for object in state.within(namespace, after) {
            if keep(object) {
                if limit > 0 && out.len() == limit {
                    return (out, true);
                }
                out.push(object.clone());
            }
        }
        (out, false)
    }

    /// As [`ResourceCache::list`], as it was at `revision`.
    ///
    /// # Errors
    /// Events after `revision` are no longer kept.
    pub fn list_at(
        &self,
        revision: Revision,
        namespace: &str,
        after: Option<&ObjectKey>,
        limit: usize,
        keep: &dyn Fn(&Stored) -> bool,
    ) -> Result<(Vec<Arc<Stored>>, bool), Expired> {
        let state = self.state.read();
        let since = self.ring.after(revision)?;
        let mut then: BTreeMap<ObjectKey, Option<Arc<Stored>>> = BTreeMap::new();
        for event in &since {
            then.entry(event.object.key.clone()).or_insert_with(|| event.previous.clone());
        }
        let unchanged = state.within(namespace, after).filter(|o| !then.contains_key(&o.key)).cloned();
        let range = then.range(bounds(namespace, after)).filter_map(|(_, o)| o.clone());
        let undone = range.filter(|o| namespace.is_empty() || *o.key.namespace == *namespace);
        let mut all: Vec<Arc<Stored>> = unchanged.chain(undone).filter(|o| keep(o)).collect();
        all.sort_by(|a, b| a.key.cmp(&b.key));
        let more = limit > 0 && all.len() > limit;
        if more {
            all.truncate(limit);
        }
        Ok((all, more))
    }

    /// The events after `revision` that are there already, oldest first.
    ///
    /// # Errors
    /// They are no longer kept.
    pub(crate) fn events_after(&self, revision: Revision) -> Result<Vec<Arc<CacheEvent>>, Expired> {
        self.ring.after(revision)
    }

    /// Events after `revision`.
    pub fn subscribe(&self, after: Revision) -> Subscription<'_> {
        self.ring.subscribe(after)
    }

    /// Everything live in `namespace` and the revision from which a subscription continues without gap or overlap.
    pub fn snapshot(&self, namespace: &str) -> Listing {
        let state = self.state.read();
        Listing { items: state.within(namespace, None).cloned().collect(), revision: state.revision }
    }
}

impl State {
    /// What lives in `namespace` (empty: anywhere) after `after`, in key order.
    fn within<'a>(
        &'a self,
        namespace: &'a str,
        after: Option<&ObjectKey>,
    ) -> impl Iterator<Item = &'a Arc<Stored>> {
        let (start, end) = bounds(namespace, after);
        let range = (start.as_ref().map(|key| key as &dyn Keyed), end.as_ref().map(|key| key as &dyn Keyed));
        let objects = self.objects.range::<dyn Keyed, _>(range).map(|placed| &placed.0);
        objects.take_while(move |object| namespace.is_empty() || *object.key.namespace == *namespace)
    }
}

fn bounds(namespace: &str, after: Option<&ObjectKey>) -> (Bound<ObjectKey>, Bound<ObjectKey>) {
    let start = match after {
        Some(key) => Bound::Excluded(key.clone()),
        None if namespace.is_empty() => Bound::Unbounded,
        None => Bound::Included(ObjectKey::new(namespace, "")),
    };
    (start, Bound::Unbounded)
}
