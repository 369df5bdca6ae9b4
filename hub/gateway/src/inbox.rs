//! What one agent has reported and the hub has not written yet: one slot per Work, the newest wins.
//!
//! In: reports as they come. Out: the next to write, no two of one subject at the same time. Pure.
//!
//! Bounded by the number of Works of the cluster and by the status credit. A report that failed goes back,
//! unless a newer one of the same Work came meanwhile.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use karmada_proto::STATUS_LIMIT;
use karmada_proto::body::{self, BodyError};

use crate::ports::{Batch, WorkNotice, WorkReport};
use crate::release_empty::ReleaseEmpty;

/// Events waiting at once; beyond that the oldest is dropped: events tell, they do not decide.
const NOTICES: usize = 128;

/// Orphans kept to be told.
const ORPHANS: usize = 1024;

/// JSON as it came over the wire. It is unpacked only to be written: what waits is small, whatever it unpacks to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packed {
    /// How `bytes` are encoded.
    pub encoding: i32,
    /// The encoded bytes.
    pub bytes: Bytes,
    /// What the sender says that it unpacks to.
    pub decoded_size: u64,
}

impl Packed {
    /// Whether it may be unpacked at all; looked at before anything is.
    pub fn is_bounded(&self) -> bool {
        self.decoded_size <= STATUS_LIMIT as u64
    }

    /// What it unpacks to, in KiB.
    pub fn weight(&self) -> u32 {
        weight(self.decoded_size)
    }

    /// The JSON.
    ///
    /// # Errors
    /// It does not unpack to what was said.
    pub fn open(&self) -> Result<Bytes, BodyError> {
        if !self.is_bounded() {
            return Err(BodyError::TooLarge(self.decoded_size));
        }
        body::decode(self.encoding, &self.bytes, self.decoded_size)
    }
}

/// What so many bytes take at most once they are unpacked, in KiB: no more than may be.
pub(crate) fn weight(decoded_size: u64) -> u32 {
    decoded_size.min(STATUS_LIMIT as u64).div_ceil(1024) as u32
}

/// One thing for the status sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// The member no longer holds what Work `key` of `uid` carried.
    Finalize {
        /// The Work's name.
        key: String,
        /// Its uid.
        uid: String,
        /// Uids of the member's objects that were deleted or stripped of our marks; the first few.
        objects: Vec<String>,
    },
    /// A Work's status, and its manifests' statuses as they came.
    Work(WorkReport, Option<Packed>),
    /// The cluster's status as it came, JSON.
    Cluster(Packed),
    /// An event.
    Notice(WorkNotice),
    /// Works that a full listing lacked.
    Orphans(Vec<String>),
    /// The site has all that was held back from it so.
    HoldEnds(Batch),
}

impl Report {
    /// Reports with the same subject must not be written at the same time.
    fn subject(&self) -> &str {
        match self {
            Self::Finalize { key, .. } | Self::Work(WorkReport { key, .. }, _) => key,
            Self::Cluster(_) => " cluster",
            Self::Notice(_) => " notice",
            Self::Orphans(_) => " orphans",
            Self::HoldEnds(_) => " hold",
        }
    }
}

/// The reports of one session.
#[derive(Debug, Default)]
pub struct Inbox {
    works: BTreeMap<String, (WorkReport, Option<Packed>)>,
    /// Works by name and uid: an older life's removal must not hide a newer one's.
    removals: BTreeMap<(String, String), Vec<String>>,
    cluster: Option<Packed>,
    orphans: Option<Vec<String>>,
    end_restore_hold: Option<Batch>,
    notices: VecDeque<WorkNotice>,
    under_way: BTreeSet<String>,
}

impl Inbox {
    /// Takes a report in place of an older one of the same subject.
    pub fn put(&mut self, report: Report) {
        match report {
            Report::Finalize { key, uid, objects } => {
                self.works.remove(&key);
                self.removals.insert((key, uid), objects);
            }
            // The removal of this very Work says more than its status.
            Report::Work(work, _) if self.removals.contains_key(&(work.key.clone(), work.uid.clone())) => {}
            Report::Work(work, statuses) => {
                self.works.insert(work.key.clone(), (work, statuses));
            }
            Report::Cluster(status) => self.cluster = Some(status),
            Report::Orphans(keys) => self.add_orphans(keys),
            Report::HoldEnds(held) => self.end_restore_hold = Some(held),
            Report::Notice(notice) => {
                if self.notices.len() == NOTICES {
                    self.notices.pop_front();
                }
                self.notices.push_back(notice);
            }
        }
    }

    /// A site names its orphans in several frames: each adds to those before.
    fn add_orphans(&mut self, keys: Vec<String>) {
        let held = self.orphans.get_or_insert_default();
        held.extend(keys);
        held.truncate(ORPHANS);
    }

    /// The next report to write whose subject is not being written; call [`Inbox::done`] for it.
    pub fn take(&mut self) -> Option<Report> {
        let free = |subject: &str| !self.under_way.contains(subject);
        let report = if let Some(removal) = self.removals.keys().find(|(key, _)| free(key)).cloned() {
            let objects = self.removals.remove(&removal).unwrap_or_default();
            Some(Report::Finalize { key: removal.0, uid: removal.1, objects })
        } else if let Some(key) = self.works.keys().find(|key| free(key)).cloned() {
            self.works.remove(&key).map(|(work, statuses)| Report::Work(work, statuses))
        } else if free(" cluster") && self.cluster.is_some() {
            self.cluster.take().map(Report::Cluster)
        } else if free(" notice") && !self.notices.is_empty() {
            self.notices.pop_front().map(Report::Notice)
        } else if free(" orphans") && self.orphans.is_some() {
            self.orphans.take().map(Report::Orphans)
        } else if free(" hold") {
            self.end_restore_hold.take().map(Report::HoldEnds)
        } else {
            None
        }?;
        self.under_way.insert(report.subject().to_owned());
        Some(report)
    }

    /// `report` was written or given up; `again` puts it back unless a newer one is there.
    pub fn done(&mut self, report: Report, again: bool) {
        self.under_way.remove(report.subject());
        if !again {
            return;
        }
        match report {
            Report::Finalize { key, uid, objects } => {
                self.removals.entry((key, uid)).or_insert(objects);
            }
            Report::Work(work, statuses) => {
                self.works.entry(work.key.clone()).or_insert((work, statuses));
            }
            Report::Cluster(status) => {
                self.cluster.get_or_insert(status);
            }
            Report::Orphans(keys) => self.add_orphans(keys),
            Report::HoldEnds(held) => {
                self.end_restore_hold.get_or_insert(held);
            }
            Report::Notice(notice) => {
                if self.notices.len() < NOTICES {
                    self.notices.push_front(notice);
                }
            }
        }
    }

    /// Gives back the memory of what is empty.
    pub(crate) fn release_empty(&mut self) {
        self.works.release_empty();
        self.removals.release_empty();
        self.notices.release_empty();
        self.under_way.release_empty();
    }

    /// Whether nothing waits, and nothing is being written.
    pub fn is_empty(&self) -> bool {
        self.waiting() == 0 && self.under_way.is_empty()
    }

    /// Reports that wait.
    pub fn waiting(&self) -> usize {
        self.works.len()
            + self.removals.len()
            + usize::from(self.cluster.is_some())
            + usize::from(self.orphans.is_some())
            + usize::from(self.end_restore_hold.is_some())
            + self.notices.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orphans_that_could_not_be_written_stay_beside_those_that_came_meanwhile() {
        let mut inbox = Inbox::default();
        inbox.put(Report::Orphans(vec!["a".into()]));
        let first = inbox.take().unwrap();
        inbox.put(Report::Orphans(vec!["b".into()]));
        inbox.done(first, true);
        assert_eq!(inbox.take(), Some(Report::Orphans(vec!["b".into(), "a".into()])));
    }

    fn work(key: &str, revision: u64) -> Report {
        let report = WorkReport {
            key: key.into(),
            uid: "u".into(),
            revision,
            generation: 0,
            hash: None,
            applied: None,
            manifest_statuses: None,
        };
        Report::Work(report, None)
    }

    #[test]
    fn one_subject_is_written_once_at_a_time_and_the_newest_wins() {
        let mut inbox = Inbox::default();
        inbox.put(work("a", 1));
        inbox.put(work("a", 2));
        inbox.put(work("b", 3));
        let first = inbox.take().unwrap();
        assert_eq!(first, work("a", 2));
        inbox.put(work("a", 4));
        let second = inbox.take().unwrap();
        assert_eq!(second, work("b", 3));
        assert_eq!(inbox.take(), None, "a is being written");
        inbox.done(first, true);
        assert_eq!(inbox.take(), Some(work("a", 4)), "the failed one is older");
        inbox.done(second, true);
        assert_eq!(inbox.take(), Some(work("b", 3)), "the failed one is all there is");
        assert_eq!(inbox.waiting(), 0);
    }

    #[test]
    fn a_removal_outlives_a_late_status() {
        let mut inbox = Inbox::default();
        let gone = Report::Finalize { key: "a".into(), uid: "u".into(), objects: Vec::new() };
        inbox.put(work("a", 1));
        inbox.put(gone.clone());
        inbox.put(work("a", 2));
        assert_eq!(inbox.take(), Some(gone.clone()));
        inbox.done(gone, false);
        for uid in ["new", "old"] {
            inbox.put(Report::Finalize { key: "a".into(), uid: uid.into(), objects: Vec::new() });
        }
        assert_eq!(inbox.waiting(), 2, "an older life's removal does not hide a newer one's");
    }

    #[test]
    fn events_are_bounded() {
        let mut inbox = Inbox::default();
        for at in 0..1000 {
            let notice = WorkNotice {
                key: at.to_string(),
                uid: String::new(),
                warning: false,
                reason: String::new(),
                message: String::new(),
            };
            inbox.put(Report::Notice(notice));
        }
        assert_eq!(inbox.waiting(), NOTICES);
    }
}
