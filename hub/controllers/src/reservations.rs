//! What was placed and clusters do not report yet: one store for all who place, so that nobody gives away what another has given.
//!
//! In: what the scheduler placed and what rebalancing moved, and changes of bindings. Out: what of each cluster's room is taken. It is kept where
//! the hub protects clusters from being overcommitted, and where it moves replicas. It lives in memory: after a restart of the hub, what was
//! placed a moment ago is known from the next reports.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use karmada_api::binding::{BindingStatus, ResourceBinding, TargetCluster};
use karmada_core::scheduler::assumptions::{Assumptions, Taken, healthy};
use parking_lot::{Mutex, MutexGuard};
use serde::Deserialize;
use tokio::time::Instant;

use crate::port::{Change, Key};

/// What is kept; nothing where nobody asks for it.
pub struct Reservations {
    kept: Mutex<Kept>,
    are_kept: AtomicBool,
    started: Instant,
}

#[derive(Default)]
struct Kept {
    assumptions: Assumptions,
    /// Where the bindings that something is assumed of were healthy when they were last seen.
    healthy: BTreeMap<Key, BTreeSet<String>>,
    /// The last placement of each of these, by a number of its own.
    marks: BTreeMap<Key, Mark>,
    next: u64,
}

/// A placement, by which who looked at a binding before it knows that there is another since; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark(u64);

/// What is read of a binding.
#[derive(Deserialize)]
struct Report {
    #[serde(default)]
    status: BindingStatus,
}

impl Reservations {
    /// Nothing is reserved. Where they are not kept, nothing ever is before [`Reservations::keep`].
    pub fn new(are_kept: bool) -> Self {
        Reservations { kept: Mutex::default(), are_kept: are_kept.into(), started: Instant::now() }
    }

    /// They are kept from now on, for good.
    pub fn keep(&self) {
        self.are_kept.store(true, Ordering::Relaxed);
    }

    fn kept(&self) -> Option<MutexGuard<'_, Kept>> {
        self.are_kept.load(Ordering::Relaxed).then(|| self.kept.lock())
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// What of each cluster's room is taken.
    pub fn taken(&self) -> Taken {
        let Some(mut kept) = self.kept() else { return Taken::new() };
        let now = self.now();
        if kept.assumptions.collect(now) > 0 {
            let Kept { assumptions, healthy, marks, .. } = &mut *kept;
            healthy.retain(|key, _| assumptions.contains(&key.namespace, &key.name));
            marks.retain(|key, _| assumptions.contains(&key.namespace, &key.name));
        }
        kept.assumptions.taken(now)
    }

    /// The last placement of a binding of which anything is reserved.
    pub fn mark(&self, key: &Key) -> Mark {
        self.kept().and_then(|kept| kept.marks.get(key).copied()).unwrap_or_default()
    }

    /// The same as [`Reservations::remove`], unless the binding was placed since it had this mark: what that gave is in no report yet.
    pub fn remove_as_of(&self, key: &Key, mark: Mark) {
        if let Some(mut kept) = self.kept()
            && kept.marks.get(key).copied().unwrap_or_default() == mark
        {
            kept.forget(key);
        }
    }

    /// A binding was placed; `binding` is as it was before.
    pub fn placed(&self, binding: &ResourceBinding, targets: &[TargetCluster]) -> Mark {
        let Some(mut kept) = self.kept() else { return Mark::default() };
        let now = self.now();
        let unseen = kept.assumptions.unseen(binding, targets, now);
        kept.assumptions.placed(binding, targets, unseen, now);
        let key = Key { namespace: binding.namespace().into(), name: binding.name().into() };
        kept.healthy.insert(key.clone(), healthy(&binding.status.aggregated_status));
        kept.next += 1;
        let mark = Mark(kept.next);
        kept.marks.insert(key.clone(), mark);
        kept.tidy(&key);
        mark
    }

    /// Takes note of a change of a binding. One of which nothing is assumed is not read.
    pub fn hear(&self, change: &Change) {
        let Change::Applied(object) = change else { return };
        let key = &object.key;
        if !self.kept().is_some_and(|kept| kept.healthy.contains_key(key)) {
            return;
        }
        let Ok(Report { status }) = object.parse() else { return };
        let (mut kept, now) = (self.kept.lock(), healthy(&status.aggregated_status));
        let before = kept.healthy.insert(key.clone(), now.clone()).unwrap_or_default();
        kept.assumptions.reported(&key.namespace, &key.name, &before, &now);
        kept.tidy(key);
    }

    /// A binding is gone or going, or all that it was given is in the reports, or what it was given was not written.
    pub fn remove(&self, key: &Key) {
        if let Some(mut kept) = self.kept() {
            kept.forget(key);
        }
    }
}

impl Kept {
    /// Nothing is assumed of a binding any more.
    fn forget(&mut self, key: &Key) {
        self.assumptions.remove(&key.namespace, &key.name);
        self.tidy(key);
    }

    /// Nothing is kept of a binding of which nothing is assumed.
    fn tidy(&mut self, key: &Key) {
        if !self.assumptions.contains(&key.namespace, &key.name) {
            self.healthy.remove(key);
            self.marks.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_looked_before_another_placed_takes_nothing_of_that_away() {
        let reservations = Reservations::new(true);
        let key = Key { namespace: "shop".into(), name: "web".into() };
        let binding = |replicas: i64| -> ResourceBinding {
            serde_json::from_value(json!({"metadata": {"namespace": "shop", "name": "web"}, "spec": {"replicas": replicas,
                "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"},
                "replicaRequirements": {"resourceRequest": {"cpu": "1"}}}}))
            .unwrap()
        };
        let on = |replicas: i32| [TargetCluster { name: "m1".into(), replicas, ..TargetCluster::default() }];
        let looked = reservations.mark(&key);
        let mine = reservations.placed(&binding(1), &on(1));
        reservations.remove_as_of(&key, looked);
        assert!(!reservations.taken().is_empty(), "it was placed since");
        let theirs = reservations.placed(&binding(3), &on(3));
        assert_ne!(mine, theirs);
        reservations.remove_as_of(&key, mine);
        assert!(!reservations.taken().is_empty(), "another placed it since");
        reservations.remove_as_of(&key, theirs);
        assert!(reservations.taken().is_empty());
        assert_eq!(reservations.mark(&key), Mark::default());
    }
}
