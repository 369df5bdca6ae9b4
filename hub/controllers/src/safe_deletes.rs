//! Works that a change of placement takes from a site: counted, and held back where they are too many at once.
//!
//! In: changes of Works, LinkPolicies, Clusters; a Work that nobody wants. Out: whether it may go; which bindings are to look again when a
//! person spoke. What waits bears a mark of its own in the store, so that it waits after a restart as well. What went is remembered in memory
//! alone: a restart counts anew.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use karmada_api::cluster::Cluster;
use karmada_api::link_policy::{Deletes, LinkPolicy};
use karmada_api::names;
use karmada_api::strings::labels::REMOVAL_HELD;
use karmada_core::safe_deletes::{self, Site, Verdict, Window};
use parking_lot::Mutex;

use crate::port::{Change, Object};
use crate::runner::Clock;
use crate::typed::Typed;

/// What is known of removals, and who says how many there may be.
pub struct SafeDeletes {
    /// Every LinkPolicy.
    pub policies: Arc<Typed<LinkPolicy>>,
    clusters: Arc<Typed<Cluster>>,
    clock: Clock,
    state: Mutex<State>,
}

/// By execution namespace.
#[derive(Default)]
struct State {
    /// Works that bear a mark, by name.
    marked: BTreeMap<Arc<str>, BTreeMap<Arc<str>, Arc<Object>>>,
    taken: BTreeMap<Arc<str>, Window>,
}

/// What is to be done about a Work that nobody wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    /// It goes.
    Goes,
    /// It waits, and bears the mark that says so.
    Waits,
    /// It waits from now on, and gets this mark; `first`: nothing else waits there.
    Held { mark: String, first: bool },
}

fn mark_of(work: &Object) -> Option<&str> {
    work.labels.get(REMOVAL_HELD).map(String::as_str)
}

impl SafeDeletes {
    /// Nothing is known yet. What is remembered of a cluster is forgotten with it.
    pub fn new(clusters: Arc<Typed<Cluster>>, clock: Clock) -> Arc<Self> {
        let all = clusters.clone();
        let this =
            Arc::new(SafeDeletes { policies: Arc::default(), clusters, clock, state: Mutex::default() });
        // Weak: the clusters' listeners live as long as the clusters, which are held here.
        let forgets = Arc::downgrade(&this);
        all.listen(move |turn| {
            if turn.now.is_none()
                && let Some(this) = forgets.upgrade()
            {
                this.state.lock().taken.remove(names::execution_namespace(&turn.key.name).as_str());
            }
        });
        this
    }

    /// Takes note of a change of a Work.
    pub fn observe(&self, change: &Change) {
        let (Change::Applied(work) | Change::Deleted(work)) = change;
        let waits = matches!(change, Change::Applied(_)) && mark_of(work).is_some() && !work.deleting;
        let mut state = self.state.lock();
        if waits {
            state
                .marked
                .entry(work.key.namespace.clone())
                .or_default()
                .insert(work.key.name.clone(), work.clone());
        } else if let Some(marked) = state.marked.get_mut(&work.key.namespace) {
            marked.remove(&work.key.name);
            if marked.is_empty() {
                state.marked.remove(&work.key.namespace);
            }
        }
    }

    /// The Works of a cluster that bear a mark.
    pub fn marked(&self, cluster: &str) -> Vec<Arc<Object>> {
        let state = self.state.lock();
        let marked = state.marked.get(names::execution_namespace(cluster).as_str());
        marked.map(|works| works.values().cloned().collect()).unwrap_or_default()
    }

    /// Every Work that bears a mark.
    pub fn all_marked(&self) -> Vec<Arc<Object>> {
        self.state.lock().marked.values().flat_map(|works| works.values().cloned()).collect()
    }

    /// Whether a Work may go that nobody wants. `works`: how many its cluster has that are not on their way out; waited for only where it
    /// matters.
    pub async fn judge<E>(
        &self,
        work: &Object,
        works: impl Future<Output = Result<usize, E>>,
    ) -> Result<Removal, E> {
        let namespace = &work.key.namespace;
        let cluster = names::cluster_of_execution_namespace(namespace);
        let cluster = cluster.and_then(|name| self.clusters.get("", name));
        // Of one that is gone or going everything goes.
        let Some(cluster) = cluster.filter(|cluster| !cluster.deleting()) else { return Ok(Removal::Goes) };
        let bounds = safe_deletes::bounds(&cluster, &self.policies.all(""));
        if let Some(mark) = mark_of(work) {
            let goes = safe_deletes::is_confirmed(mark, &cluster) || safe_deletes::hold_nothing(&bounds);
            return Ok(if goes { Removal::Goes } else { Removal::Waits });
        }
        let mut site = self.site(namespace, &cluster, &bounds);
        if !site.waits && site.taken >= bounds.max_objects as usize {
            site.works = works.await?;
        }
        let now = (self.clock)();
        match safe_deletes::judge(&bounds, site) {
            Verdict::Goes => {
                let mut state = self.state.lock();
                state.taken.entry(namespace.clone()).or_default().take(within(&bounds), now);
                Ok(Removal::Goes)
            }
            Verdict::Waits => Ok(Removal::Held { mark: safe_deletes::mark(now), first: !site.waits }),
        }
    }

    /// Of how many clusters it is remembered what went.
    #[cfg(test)]
    pub fn remembers(&self) -> usize {
        self.state.lock().taken.len()
    }

    fn site(&self, namespace: &Arc<str>, cluster: &Cluster, bounds: &Deletes) -> Site {
        let mut state = self.state.lock();
        let mut marked = state.marked.get(namespace).into_iter().flat_map(BTreeMap::values);
        let waits = |work: &&Arc<Object>| {
            mark_of(work).is_some_and(|mark| !safe_deletes::is_confirmed(mark, cluster))
        };
        let waits = marked.any(|work| waits(&work));
        let taken =
            state.taken.get_mut(namespace).map_or(0, |window| window.taken(within(bounds), (self.clock)()));
        Site { works: 0, taken, waits }
    }
}

/// A policy of an earlier version may say a time that cannot be read.
fn within(bounds: &Deletes) -> u32 {
    bounds.within_seconds().unwrap_or(60)
}
