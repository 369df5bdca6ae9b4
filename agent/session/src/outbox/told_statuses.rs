//! What the hub was told of each Work, as digests, and the root over them. Pure.
//!
//! In: reports as they are told; the session's seed. Out: whether a report says what was told already, the root and the buckets' sums for the hub
//! to compare with what it holds, and what changed, to be kept for the next process.

use std::collections::{BTreeMap, BTreeSet};

use karmada_proto::digest::{self, Buckets, Content, ReportedOutcome, Root, Seed, bucket};
use karmada_proto::quote::{MESSAGE, REASON, bounded};
use karmada_proto::v1::Applied;

use super::WorkReport;

/// What the hub was told of one Work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ToldStatus {
    /// Of all of it.
    pub content: Content,
    /// Of the manifests' statuses that were told last: a report without any leaves them as they are.
    pub statuses: Option<Content>,
    /// Of the Work's uid: the statuses of another Work of this name are none of it.
    pub uid: Content,
}

/// Of all Works.
#[derive(Debug, Default)]
pub(super) struct ToldWorks {
    rows: BTreeMap<String, ToldStatus>,
    seed: Option<Seed>,
    root: Root,
    changed: BTreeSet<String>,
}

impl ToldWorks {
    pub(super) fn new(rows: BTreeMap<String, ToldStatus>) -> Self {
        Self { rows, ..Self::default() }
    }

    /// What `report` comes to, after what was told of the Work before.
    fn after(&self, key: &str, report: &WorkReport) -> ToldStatus {
        let uid = digest::json(&report.uid.as_str().into());
        let before = self.rows.get(key).filter(|before| before.uid == uid);
        let statuses = match &report.manifest_statuses {
            Some(json) => digest::statuses(&serde_json::from_slice(json).unwrap_or_default()),
            None => before.and_then(|before| before.statuses),
        };
        // As the hub keeps them.
        let said = |applied: &Applied| {
            (applied.ok, bounded(&applied.reason, REASON), bounded(&applied.message, MESSAGE))
        };
        let applied = report.applied.as_ref().map(said);
        let content = digest::status_row(ReportedOutcome {
            uid: &report.uid,
            hash: &report.hash,
            generation: report.generation,
            applied: applied.as_ref().map(|(ok, reason, message)| (*ok, reason.as_str(), message.as_str())),
            statuses,
        });
        ToldStatus { content, statuses, uid }
    }

    /// Whether `report` says what the hub was told already.
    pub(super) fn is_told(&self, key: &str, report: &WorkReport) -> bool {
        self.rows.get(key).is_some_and(|told| *told == self.after(key, report))
    }

    /// The hub is told.
    pub(super) fn tell(&mut self, key: &str, report: &WorkReport) {
        let told = self.after(key, report);
        self.set(key, Some(told));
    }

    /// There is no such Work any more.
    pub(super) fn forget(&mut self, key: &str) {
        self.set(key, None);
    }

    fn set(&mut self, key: &str, told: Option<ToldStatus>) {
        let before = match told {
            Some(told) => self.rows.insert(key.to_owned(), told),
            None => self.rows.remove(key),
        };
        if before == told {
            return;
        }
        self.changed.insert(key.to_owned());
        let Some(seed) = &self.seed else { return };
        if let Some(before) = before {
            self.root.remove(seed, key, &before.content);
        }
        if let Some(told) = told {
            self.root.add(seed, key, &told.content);
        }
    }

    /// Digests are over this from now on.
    pub(super) fn begin(&mut self, seed: Seed) {
        self.root = Root::of(&seed, contents(&self.rows));
        self.seed = Some(seed);
    }

    /// The hub was told nothing.
    pub(super) fn forget_all(&mut self) {
        let keys: Vec<String> = self.rows.keys().cloned().collect();
        keys.iter().for_each(|key| self.forget(key));
    }

    /// The hub was told nothing of the Works in these buckets.
    pub(super) fn forget_buckets(&mut self, buckets: &BTreeSet<u32>) {
        let inside = self.rows.keys().filter(|key| buckets.contains(&(bucket(key) as u32)));
        let keys: Vec<String> = inside.cloned().collect();
        keys.iter().for_each(|key| self.forget(key));
    }

    pub(super) fn root(&self) -> Root {
        self.root
    }

    pub(super) fn buckets(&self) -> Buckets {
        match &self.seed {
            Some(seed) => Buckets::of(seed, contents(&self.rows)),
            None => Buckets::of(&Seed::new([0; 16]), []),
        }
    }

    pub(super) fn take_changed(&mut self) -> Vec<(String, Option<ToldStatus>)> {
        let changed = std::mem::take(&mut self.changed);
        changed.into_iter().map(|key| (key.clone(), self.rows.get(&key).copied())).collect()
    }
}

fn contents(rows: &BTreeMap<String, ToldStatus>) -> impl Iterator<Item = (&str, Content)> {
    rows.iter().map(|(key, told)| (key.as_str(), told.content))
}
