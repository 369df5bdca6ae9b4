//! Works that a change of placement takes from a site: counted, and held back where they are too many at once.
//!
//! In: changes of Works, LinkPolicies, Clusters; a Work that nobody wants. Out: whether it may go; which bindings are to look again when a
//! person spoke. What waits bears a mark of its own in the store, so that it waits after a restart as well. What went is remembered in memory
//! alone: a restart counts anew.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karmada_api::binding::ObjectReference;
use karmada_api::cluster::Cluster;
use karmada_api::link_policy::{Deletes, LinkPolicy};
use karmada_api::names;
use karmada_api::strings::annotations::CONFIRM_REMOVALS;
use karmada_api::strings::labels::REMOVAL_HELD;
use karmada_core::removal_limit::{self, RemovalVerdict, Site, Window};
use parking_lot::Mutex;
use serde::Deserialize;

use crate::fetch::{self, kinds};
use crate::port::{Api, Change, Object};
use crate::runner::{Clock, Error};
use crate::typed::{Transition, Typed};

/// What is known of removals, and who says how many there may be.
pub struct RemovalLimit {
    /// Every LinkPolicy.
    pub policies: Arc<Typed<LinkPolicy>>,
    api: Arc<dyn Api>,
    clusters: Arc<Typed<Cluster>>,
    clock: Clock,
    state: Mutex<State>,
}

/// Works that wait to be let go, by name.
type HeldWorks = BTreeMap<Arc<str>, HeldWork>;

struct HeldWork {
    since: Timestamp,
    /// Whether it waits for itself alone, as it takes others along.
    takes_others: bool,
    work: Arc<Object>,
}

/// By execution namespace.
#[derive(Default)]
struct State {
    held: BTreeMap<Arc<str>, HeldWorks>,
    taken: BTreeMap<Arc<str>, Window>,
}

/// What is read of a Cluster that cannot be read as a whole.
#[derive(Deserialize)]
struct Head {
    metadata: ObjectMeta,
}

/// What is to be done about a Work that nobody wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    /// It goes.
    Goes,
    /// It waits, and its label says so.
    Waits,
    /// It waits from now on, and its label is to say so; `first`: nothing else waits there.
    Held { since: String, first: bool },
}

/// Since when a Work waits. A label that says no moment is none: nobody could ever let such a Work go.
fn waits_since(work: &Object) -> Option<Timestamp> {
    removal_limit::held_since(work.labels.get(REMOVAL_HELD)?)
}

impl RemovalLimit {
    /// Nothing is known yet. What is remembered of a cluster is forgotten with it.
    pub fn new(api: Arc<dyn Api>, clusters: Arc<Typed<Cluster>>, clock: Clock) -> Arc<Self> {
        let all = clusters.clone();
        let (policies, state) = (Arc::default(), Mutex::default());
        let this = Arc::new(RemovalLimit { policies, api, clusters, clock, state });
        // Weak: the clusters' listeners live as long as the clusters, which are held here.
        let forgets = Arc::downgrade(&this);
        all.listen(move |transition| {
            if transition.now.is_none()
                && let Some(this) = forgets.upgrade()
            {
                this.state.lock().taken.remove(names::execution_namespace(&transition.key.name).as_str());
            }
        });
        this
    }

    /// Takes note of a change of a Work.
    pub fn observe(&self, change: &Change) {
        let (Change::Applied(work) | Change::Deleted(work)) = change;
        let applied = matches!(change, Change::Applied(_)) && !work.deleting;
        let mut state = self.state.lock();
        if let Some(since) = waits_since(work).filter(|_| applied) {
            // One that cannot be read may be one of too many.
            let takes_others = work.parse().is_ok_and(|work| removal_limit::carries_what_takes_others(&work));
            let held = state.held.entry(work.key.namespace.clone()).or_default();
            held.insert(work.key.name.clone(), HeldWork { since, takes_others, work: work.clone() });
        } else if let Some(held) = state.held.get_mut(&work.key.namespace) {
            held.remove(&work.key.name);
            if held.is_empty() {
                state.held.remove(&work.key.namespace);
            }
        }
    }

    /// The Works of a cluster that wait to be let go.
    pub fn held_works(&self, cluster: &str) -> Vec<Arc<Object>> {
        let state = self.state.lock();
        let held = state.held.get(names::execution_namespace(cluster).as_str());
        held.into_iter().flat_map(BTreeMap::values).map(|held| held.work.clone()).collect()
    }

    /// Every Work that waits to be let go.
    pub fn all_held(&self) -> Vec<Arc<Object>> {
        let state = self.state.lock();
        state.held.values().flat_map(BTreeMap::values).map(|held| held.work.clone()).collect()
    }

    /// The cluster of a Work; `None` where it is gone or going, as everything goes then. One that is there and cannot be read is not gone: what
    /// its metadata say holds for it.
    async fn cluster_of(&self, work: &Object) -> Result<Option<Arc<Cluster>>, Error> {
        let Some(name) = names::cluster_of_execution_namespace(&work.key.namespace) else { return Ok(None) };
        let is_unread = self.clusters.unread("").iter().any(|unread| **unread == *name);
        if let Some(known) = self.clusters.get("", name).filter(|_| !is_unread) {
            return Ok(Some(known).filter(|cluster| !cluster.deleting()));
        }
        let found = fetch::get_object(&*self.api, &kinds::clusters(&*self.api)?, "", name).await?;
        let Some(found) = found.filter(|cluster| !cluster.deleting) else { return Ok(None) };
        let Head { metadata } = found.parse()?;
        Ok(Some(Arc::new(Cluster { metadata, ..Cluster::default() })))
    }

    /// Whether a Work of this object may go that nobody wants. `works`: how many its cluster has that are not on their way out; waited for only
    /// where it matters.
    ///
    /// # Errors
    /// The Cluster cannot be read, or `works` fails.
    pub async fn judge(
        &self,
        work: &Object,
        of: &ObjectReference,
        works: impl Future<Output = Result<usize, Error>>,
    ) -> Result<Removal, Error> {
        let Some(cluster) = self.cluster_of(work).await? else { return Ok(Removal::Goes) };
        let bounds = removal_limit::bounds(&cluster, &self.policies.all(""));
        if let Some(since) = waits_since(work) {
            return Ok(if is_let_go(since, &cluster, &bounds) { Removal::Goes } else { Removal::Waits });
        }
        let takes_others = removal_limit::takes_others(of);
        let asked =
            SiteBounds { namespace: &work.key.namespace, cluster: &cluster, bounds: &bounds, takes_others };
        if let Some(removal) = self.decide(&asked, None) {
            return Ok(removal);
        }
        let works = works.await?;
        Ok(self.decide(&asked, Some(works)).unwrap_or(Removal::Waits))
    }

    /// Whether a Work waited for a person, and waits no more.
    ///
    /// # Errors
    /// The Cluster cannot be read.
    pub async fn is_let_go(&self, work: &Object) -> Result<bool, Error> {
        let Some(since) = waits_since(work) else { return Ok(false) };
        let Some(cluster) = self.cluster_of(work).await? else { return Ok(false) };
        Ok(is_let_go(since, &cluster, &removal_limit::bounds(&cluster, &self.policies.all(""))))
    }

    /// The Works that wait at a cluster of which a person just said that they may go, or for which another LinkPolicy may hold now.
    pub fn to_judge_again(&self, transition: &Transition<Cluster>) -> Vec<Arc<Object>> {
        let word = |cluster: &Cluster| {
            let said = cluster.annotation(CONFIRM_REMOVALS).map(str::to_owned);
            Some((said, cluster.metadata.labels.clone().unwrap_or_default(), cluster.deleting()))
        };
        let (before, now) =
            (transition.before.as_deref().and_then(word), transition.now.as_deref().and_then(word));
        if now == before { Vec::new() } else { self.held_works(&transition.key.name) }
    }

    /// Decides, and notes what goes, in one step: of those who ask at once each is to see what the others took. `None` where it depends on
    /// how many works there are.
    fn decide(&self, asked: &SiteBounds<'_>, works: Option<usize>) -> Option<Removal> {
        let (SiteBounds { namespace, cluster, bounds, .. }, now) = (*asked, (self.clock)());
        let mut state = self.state.lock();
        let site = state.site(asked, works.unwrap_or_default(), now);
        let first = !state.waiting(asked).any(|_| true);
        if works.is_none() && !site.waits && site.taken >= bounds.max_objects as usize {
            return None;
        }
        Some(match removal_limit::verdict(bounds, site) {
            RemovalVerdict::Goes => {
                state.taken.entry(namespace.clone()).or_default().take(within(bounds), now);
                Removal::Goes
            }
            RemovalVerdict::Waits => {
                let since = removal_limit::waits_since(now, cluster);
                Removal::Held { since: removal_limit::held_since_text(since), first }
            }
        })
    }

    /// Of how many clusters it is remembered what went.
    #[cfg(test)]
    pub fn remembers(&self) -> usize {
        self.state.lock().taken.len()
    }
}

/// Whether what was held back at this moment waits no more.
fn is_let_go(since: Timestamp, cluster: &Cluster, bounds: &Deletes) -> bool {
    let said = removal_limit::let_go_until(cluster);
    said.is_some_and(|until| since <= until) || removal_limit::hold_nothing(bounds)
}

/// What is asked about: a site, and what holds for it.
#[derive(Clone, Copy)]
struct SiteBounds<'a> {
    namespace: &'a Arc<str>,
    cluster: &'a Cluster,
    bounds: &'a Deletes,
    takes_others: bool,
}

impl State {
    /// The Works of a site of which no person said yet that they may go.
    fn waiting(&self, asked: &SiteBounds<'_>) -> impl Iterator<Item = &HeldWork> {
        let said = removal_limit::let_go_until(asked.cluster);
        let held = self.held.get(asked.namespace).into_iter().flat_map(BTreeMap::values);
        held.filter(move |held| said.is_none_or(|until| held.since > until))
    }

    fn site(&mut self, asked: &SiteBounds<'_>, works: usize, now: Timestamp) -> Site {
        let waits = self.waiting(asked).any(|held| !held.takes_others);
        let window = self.taken.get_mut(asked.namespace);
        let taken = window.map_or(0, |window| window.taken(within(asked.bounds), now));
        Site { works, taken, waits, takes_others: asked.takes_others }
    }
}

/// A policy of an earlier version may say a time that cannot be read.
fn within(bounds: &Deletes) -> u32 {
    bounds.within_seconds().unwrap_or(60)
}
