//! A listing of which only the differences are sent: what the agent says that it holds, compared with what waits to be sent.
//!
//! In: that all of a listing has come in; the agent's sums and rows. Out: what to ask it next; in the end its slots hold what it lacks
//! or holds otherwise, and nothing else. What is compared is in [`listing_diff`](crate::session::listing_diff).

use std::sync::Arc;

use bytes::Bytes;
use karmada_proto::v1::{self, Table, hub_frame};

use super::Dispatch;
use super::known::{Known, ToldHeader};
use super::listing::Listing;
use crate::ports::Work;
use crate::session::listing_diff::{Comparison, Holds, Row, Step};

/// Keys in one frame of what the hub lacks.
const LACKING: usize = 128;

impl Dispatch {
    /// Whether what the agent holds is compared with what it is to hold: not while deletes are held back from it.
    pub(in crate::session) fn compares(&self) -> bool {
        self.seed.is_some()
    }

    /// Whether the agent is asked what it holds.
    pub(in crate::session) fn is_comparing(&self) -> bool {
        matches!(self.listing, Listing::Comparing(_))
    }

    /// All that the agent is to hold is at hand.
    pub(super) fn gathered(&mut self, revision: u64) {
        let Some(seed) = self.seed else { return };
        let start = v1::SnapshotStart { epoch: self.epoch, differences: true, anew: self.is_anew };
        self.said.push_back(hub_frame::Body::SnapshotStart(start));
        self.listing = Listing::Comparing(revision);
        let mut comparison = Comparison::new(seed, self.queue.works().filter_map(row_of).collect());
        let step = comparison.begin(self.theirs.take());
        self.comparison = Some(comparison);
        self.compared(step);
    }

    /// The agent tells the sums of its buckets. False where nobody asked for them.
    pub(in crate::session) fn sums(&mut self, sums: &[u8]) -> bool {
        let step = self.comparison.as_mut().map(|comparison| comparison.sums(sums));
        step.is_some_and(|step| self.compared(step))
    }

    /// The agent tells rows. False where nobody asked for them.
    pub(in crate::session) fn rows(&mut self, rows: v1::Rows) -> bool {
        let step = self.comparison.as_mut().map(|comparison| comparison.rows(rows));
        step.is_some_and(|step| self.compared(step))
    }

    /// The agent did not answer: it is asked from the beginning.
    pub(in crate::session) fn compare_again(&mut self) {
        if let Some(comparison) = &mut self.comparison {
            let step = comparison.begin(None);
            self.compared(step);
        }
    }

    fn compared(&mut self, step: Step) -> bool {
        let table = Table::Works as u32;
        match step {
            Step::AskSums => self.said.push_back(hub_frame::Body::Compare(v1::Compare { table })),
            Step::AskRows(buckets) => {
                self.said.push_back(hub_frame::Body::Differing(v1::Differing { table, buckets }));
            }
            Step::Wait => {}
            Step::Equal | Step::Known => self.differences_known(),
            Step::Nonsense => return false,
        }
        true
    }

    /// What the agent holds as it should is sent no more; what it holds otherwise is offered, what it lacks sent.
    fn differences_known(&mut self) {
        let (Listing::Comparing(revision), Some(mut comparison)) = (self.listing, self.comparison.take())
        else {
            return;
        };
        for (Row { work, hash, .. }, holds) in comparison.outcome() {
            if holds == Holds::Same {
                self.holds_already(work, hash);
                continue;
            }
            // What was sent of it in this session did not come through.
            self.known.remove(&work.key);
            self.never_held.remove(&work.key);
            if holds != Holds::Marks {
                self.queue.resend(&work.key);
            }
        }
        let lacking = comparison.beyond().into_iter().filter(|key| !self.queue.holds(key));
        let lacking: Vec<String> = lacking.collect();
        for keys in lacking.chunks(LACKING) {
            self.said.push_back(hub_frame::Body::Lacking(v1::Lacking { keys: keys.to_vec() }));
        }
        self.listing = Listing::Ended(revision);
    }

    /// The agent holds what is listed of a Work. What changed of it since is sent all the same.
    fn holds_already(&mut self, work: Work, hash: Bytes) {
        self.queue.discard(&work.key, work.revision);
        let header =
            Some(if work.deleting { ToldHeader::of_tombstone(&work) } else { ToldHeader::of(&work) });
        self.known.insert(work.key.clone(), Known { uid: work.uid.clone(), hash, header });
        if work.deleting {
            self.deleting.insert(work.key.clone(), work);
        }
    }
}

/// What an agent is to hold of a Work that waits; `None` where that cannot be told.
fn row_of(work: &Work) -> Option<(Arc<str>, Row)> {
    Some((work.key.clone(), Row::of(work)?))
}
