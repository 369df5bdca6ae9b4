//! What the scheduler placed and clusters do not report yet, kept where the hub protects clusters from being overcommitted.
//!
//! In: what was placed, and changes of bindings. Out: what of each cluster's room is taken. It lives in memory: after a restart of the hub, what
//! was placed a moment ago is known from the next reports.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use karmada_api::binding::{BindingStatus, ResourceBinding, TargetCluster};
use karmada_core::scheduler::assumptions::{Assumptions, Taken, healthy};
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::time::Instant;

use crate::port::{Change, Key};

/// What is kept; nothing where nobody asks for it.
pub(super) struct Reservations {
    kept: Option<Mutex<Kept>>,
    started: Instant,
}

#[derive(Default)]
struct Kept {
    assumptions: Assumptions,
    /// Where the bindings that something is assumed of were healthy when they were last seen.
    healthy: BTreeMap<Key, BTreeSet<String>>,
}

/// What is read of a binding.
#[derive(Deserialize)]
struct Report {
    #[serde(default)]
    status: BindingStatus,
}

impl Reservations {
    pub(super) fn new(are_kept: bool) -> Self {
        Reservations { kept: are_kept.then(Mutex::default), started: Instant::now() }
    }

    pub(super) fn are_kept(&self) -> bool {
        self.kept.is_some()
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// What of each cluster's room is taken.
    pub(super) fn taken(&self) -> Taken {
        let Some(kept) = &self.kept else { return Taken::new() };
        let (mut kept, now) = (kept.lock(), self.now());
        if kept.assumptions.collect(now) > 0 {
            let Kept { assumptions, healthy } = &mut *kept;
            healthy.retain(|key, _| assumptions.contains(&key.namespace, &key.name));
        }
        kept.assumptions.taken(now)
    }

    /// A binding was placed; `binding` is as it was before.
    pub(super) fn placed(&self, binding: &ResourceBinding, targets: &[TargetCluster]) {
        let Some(kept) = &self.kept else { return };
        let (mut kept, now) = (kept.lock(), self.now());
        let unseen = kept.assumptions.unseen(binding, targets, now);
        kept.assumptions.placed(binding, targets, unseen, now);
        let key = Key { namespace: binding.namespace().into(), name: binding.name().into() };
        kept.healthy.insert(key.clone(), healthy(&binding.status.aggregated_status));
        kept.tidy(&key);
    }

    /// Takes note of a change of a binding. One of which nothing is assumed is not read.
    pub(super) fn hear(&self, change: &Change) {
        let Some(kept) = &self.kept else { return };
        let Change::Applied(object) = change else { return };
        let key = &object.key;
        if !kept.lock().healthy.contains_key(key) {
            return;
        }
        let Ok(Report { status }) = object.parse() else { return };
        let (mut kept, now) = (kept.lock(), healthy(&status.aggregated_status));
        let before = kept.healthy.insert(key.clone(), now.clone()).unwrap_or_default();
        kept.assumptions.reported(&key.namespace, &key.name, &before, &now);
        kept.tidy(key);
    }

    /// A binding is gone, or going.
    pub(super) fn remove(&self, key: &Key) {
        let Some(kept) = &self.kept else { return };
        let mut kept = kept.lock();
        kept.assumptions.remove(&key.namespace, &key.name);
        kept.tidy(key);
    }
}

impl Kept {
    /// Nothing is kept of a binding of which nothing is assumed.
    fn tidy(&mut self, key: &Key) {
        if !self.assumptions.contains(&key.namespace, &key.name) {
            self.healthy.remove(key);
        }
    }
}
