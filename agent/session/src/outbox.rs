//! What the hub has still to hear: the newest report per Work, removals, events, the cluster's status.
//!
//! In: outcomes and statuses as they come, what a process before had told, what the hub says that it holds. Out: the next frame to send,
//! with the credit it costs, and digests of what was told. Pure.
//!
//! Bounded: a newer report replaces the older, an equal one is nothing. A Work's reports are at least a second apart. What the hub was told
//! is kept ([`told_statuses`]), and compared with what it holds at the start of each session and while one runs: what differs is told
//! again, and nothing else.

mod told_statuses;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use karmada_proto::body::{self, Packing};
use karmada_proto::digest::{self, Buckets, Content, Root, Seed};
use karmada_proto::one_line;
use karmada_proto::v1::{Applied, ClusterStatus, EventReport, Orphans, Removed, WorkStatus, agent_frame};

pub use self::told_statuses::ToldStatus;
use self::told_statuses::ToldWorks;

/// Between two reports of one Work that say the same of applying it.
const SPACING: Duration = Duration::from_secs(1);
/// Events waiting at once; the oldest is dropped first.
const EVENTS: usize = 256;

/// Orphans told in one frame.
const ORPHANS: usize = 256;

/// What is known of one Work.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkReport {
    /// The Work's uid.
    pub uid: String,
    /// The revision that this is about.
    pub revision: u64,
    /// The hash of the body that this is about.
    pub hash: Bytes,
    /// The generation of the Work that this is about.
    pub generation: u64,
    /// The outcome of applying it.
    pub applied: Option<Applied>,
    /// JSON array: the manifests' statuses.
    pub manifest_statuses: Option<Bytes>,
}

#[derive(Debug)]
struct Entry {
    report: WorkReport,
    /// Where the index of what is due holds it.
    due: Option<Duration>,
    sent: Option<Sent>,
}

/// What was told last.
#[derive(Debug)]
struct Sent {
    at: Duration,
    revision: u64,
    applied: Option<Applied>,
}

impl Entry {
    fn due_at(&self) -> Duration {
        match &self.sent {
            Some(sent) if sent.revision == self.report.revision && sent.applied == self.report.applied => {
                sent.at + SPACING
            }
            _ => Duration::ZERO,
        }
    }
}

/// Everything to be told.
#[derive(Debug, Default)]
pub struct Outbox {
    works: BTreeMap<String, Entry>,
    /// The Works that have news, by when it may be told.
    due: BTreeSet<(Duration, String)>,
    removed: BTreeMap<String, (Removed, bool)>,
    removals_held: bool,
    orphans: BTreeSet<String>,
    told: ToldWorks,
    cluster: Option<(Bytes, bool)>,
    /// Of the cluster's status, as it was told last.
    cluster_told: Option<Content>,
    events: VecDeque<EventReport>,
}

impl Outbox {
    /// One whose Works the hub was told so by a process before.
    pub fn with_told(told: BTreeMap<String, ToldStatus>) -> Self {
        Self { told: ToldWorks::new(told), ..Self::default() }
    }

    /// A Work stands like this. True where that is news.
    pub fn work(&mut self, key: &str, report: WorkReport) -> bool {
        match self.works.get_mut(key) {
            Some(entry) if entry.report == report => return false,
            Some(entry) => entry.report = report,
            None => {
                self.works.insert(key.to_owned(), Entry { report, due: None, sent: None });
            }
        }
        let is_told = self.works.get(key).is_some_and(|entry| self.told.is_told(key, &entry.report));
        if is_told {
            self.unmark(key);
        } else {
            self.schedule(key);
        }
        true
    }

    /// What waited to be told is told already.
    fn unmark(&mut self, key: &str) {
        if let Some(due) = self.works.get_mut(key).and_then(|entry| entry.due.take()) {
            self.due.remove(&(due, key.to_owned()));
        }
    }

    fn schedule(&mut self, key: &str) {
        let Some(entry) = self.works.get_mut(key) else { return };
        let at = entry.due_at();
        match entry.due.replace(at) {
            Some(before) if before == at => return,
            Some(before) => drop(self.due.remove(&(before, key.to_owned()))),
            None => {}
        }
        self.due.insert((at, key.to_owned()));
    }

    fn drop_work(&mut self, key: &str) {
        if let Some(due) = self.works.remove(key).and_then(|entry| entry.due) {
            self.due.remove(&(due, key.to_owned()));
        }
        self.told.forget(key);
    }

    /// What was last said of a Work.
    pub fn report(&self, key: &str) -> Option<&WorkReport> {
        self.works.get(key).map(|entry| &entry.report)
    }

    /// The member no longer holds what `key` carried, and `object_uids` are what was deleted or stripped of our marks;
    /// told until the hub releases it.
    pub fn removed(&mut self, key: &str, uid: &str, revision: u64, object_uids: Vec<String>) {
        self.drop_work(key);
        let (key_told, uid) = (key.to_owned(), uid.to_owned());
        let removed = Removed { key: key_told, uid, revision, object_uids, never_held: false, held: true };
        self.removed.insert(key.to_owned(), (removed, true));
    }

    /// `key` is enforced, or to be removed, again: that it was removed once is told no more. To a hub that was put back to a time when it was
    /// being deleted, that word would end a Work whose objects the member has.
    pub fn is_back(&mut self, key: &str) {
        self.removed.remove(key);
    }

    /// The Works whose removal is told.
    pub fn removals(&self) -> impl Iterator<Item = &String> {
        self.removed.keys()
    }

    /// While the ledger is in memory alone, `held` is true: a removal that the hub hears of is final there, and a ledger that forgets it in
    /// a crash would bring back what was removed.
    pub fn hold_removals(&mut self, held: bool) {
        self.removals_held = held;
    }

    /// The hub needs to hear nothing more of `key`.
    pub fn forget(&mut self, key: &str) {
        self.drop_work(key);
        self.removed.remove(key);
        self.orphans.remove(key);
    }

    /// The cluster's status, JSON. True where that is news.
    pub fn cluster(&mut self, status: Bytes) -> bool {
        if self.cluster.as_ref().is_some_and(|(old, _)| *old == status) {
            return false;
        }
        self.cluster = Some((status, true));
        true
    }

    /// An event. What it says may be anybody's words: on one line, and short.
    pub fn event(&mut self, event: EventReport) {
        let event = EventReport { message: one_line(&event.message), ..event };
        if self.events.len() == EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    /// Works that a full listing lacked.
    pub fn orphans(&mut self, keys: Vec<String>) {
        self.orphans = keys.into_iter().collect();
    }

    /// A Work of which the member has objects and that nobody holds. True where that is news.
    pub fn orphan(&mut self, key: &str) -> bool {
        self.orphans.insert(key.to_owned())
    }

    /// A new session, whose digests are over `seed`: what is told until it is answered is told again.
    pub fn session_begins(&mut self, seed: Seed) {
        self.told.begin(seed);
        for (_, dirty) in self.removed.values_mut() {
            *dirty = true;
        }
    }

    /// The hub holds nothing of what it was told.
    pub fn all_again(&mut self) {
        self.told.forget_all();
        for entry in self.works.values_mut() {
            (entry.due, entry.sent) = (Some(Duration::ZERO), None);
        }
        self.due = self.works.keys().map(|key| (Duration::ZERO, key.clone())).collect();
        for (_, dirty) in self.removed.values_mut() {
            *dirty = true;
        }
        self.cluster_again();
    }

    /// The hub holds something else of the Works in these buckets than what it was told: they are told again.
    pub fn again(&mut self, buckets: &BTreeSet<u32>) {
        let is_inside = |key: &String| buckets.contains(&(digest::bucket(key) as u32));
        self.told.forget_buckets(buckets);
        for key in self.works.keys().filter(|key| is_inside(key)).cloned().collect::<Vec<_>>() {
            self.schedule(&key);
        }
        for (_, (_, dirty)) in self.removed.iter_mut().filter(|(key, _)| is_inside(key)) {
            *dirty = true;
        }
    }

    /// The root over what the hub was told of Works.
    pub fn told_root(&self) -> Root {
        self.told.root()
    }

    /// The same, where nothing waits to be told.
    pub fn root_if_idle(&self) -> Option<Root> {
        self.due.is_empty().then(|| self.told.root())
    }

    /// The sums of its buckets.
    pub fn told_buckets(&self) -> Buckets {
        self.told.buckets()
    }

    /// Of the cluster's status as it was told last; `None` where it never was, or is to be told.
    pub fn told_cluster(&self) -> Option<Content> {
        self.cluster_told.filter(|_| !matches!(self.cluster, Some((_, true))))
    }

    /// What the hub was told since this was asked: to be kept for the next process.
    pub fn take_told(&mut self) -> Vec<(String, Option<ToldStatus>)> {
        self.told.take_changed()
    }

    /// The cluster's status is told again.
    pub fn cluster_again(&mut self) {
        if let Some((_, dirty)) = &mut self.cluster {
            *dirty = true;
        }
    }

    /// The next removal, orphans or event: said before any status.
    pub fn next_prompt(&mut self) -> Option<agent_frame::Body> {
        if !self.removals_held
            && let Some((removed, dirty)) = self.removed.values_mut().find(|(_, dirty)| *dirty)
        {
            *dirty = false;
            return Some(agent_frame::Body::Removed(removed.clone()));
        }
        if !self.orphans.is_empty() {
            let keys: Vec<String> = std::iter::from_fn(|| self.orphans.pop_first()).take(ORPHANS).collect();
            return Some(agent_frame::Body::Orphans(Orphans { keys }));
        }
        self.events.pop_front().map(agent_frame::Body::Event)
    }

    /// The next report, packed as the hub can unpack it, and the credit it costs.
    pub fn next_report(&mut self, packing: Packing, now: Duration) -> Option<(agent_frame::Body, u64)> {
        if let Some((status, dirty)) = &mut self.cluster
            && *dirty
        {
            *dirty = false;
            self.cluster_told =
                serde_json::from_slice(status).ok().map(|status| digest::cluster_digest(&status));
            let encoded = body::encode_for(status, packing);
            let cost = encoded.bytes.len() as u64;
            let frame = ClusterStatus {
                encoding: encoded.encoding.into(),
                decoded_size: encoded.decoded_size,
                body: encoded.bytes,
            };
            return Some((agent_frame::Body::ClusterStatus(frame), cost));
        }
        self.due.first().filter(|(at, _)| *at <= now)?;
        let (_, key) = self.due.pop_first()?;
        let entry = self.works.get_mut(&key)?;
        let report = &entry.report;
        let sent = Sent { at: now, revision: report.revision, applied: report.applied.clone() };
        (entry.due, entry.sent) = (None, Some(sent));
        self.told.tell(&key, report);
        let mut frame = WorkStatus {
            key,
            uid: report.uid.clone(),
            revision: report.revision,
            hash: report.hash.clone(),
            generation: report.generation,
            applied: report.applied.clone(),
            ..WorkStatus::default()
        };
        if let Some(statuses) = &report.manifest_statuses {
            let encoded = body::encode_for(statuses, packing);
            frame.encoding = encoded.encoding.into();
            frame.decoded_size = encoded.decoded_size;
            frame.manifest_statuses = encoded.bytes;
        }
        let cost = frame.manifest_statuses.len() as u64;
        Some((agent_frame::Body::WorkStatus(frame), cost))
    }

    /// When the next report is due; `None` where nothing waits.
    pub fn due_at(&self) -> Option<Duration> {
        self.due.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(revision: u64) -> WorkReport {
        WorkReport {
            uid: "u".into(),
            revision,
            hash: Bytes::copy_from_slice(&revision.to_be_bytes()),
            manifest_statuses: Some(Bytes::from_static(b"[]")),
            ..WorkReport::default()
        }
    }

    #[test]
    fn a_removal_is_told_no_more_once_the_work_is_back() {
        let mut outbox = Outbox::default();
        outbox.removed("a", "u", 2, vec!["object".into()]);
        outbox.removed("b", "u", 2, Vec::new());
        outbox.is_back("a");
        outbox.session_begins(Seed::new([1; 16]));
        let told = std::iter::from_fn(|| outbox.next_prompt());
        let told: Vec<String> = told
            .filter_map(
                |body| if let agent_frame::Body::Removed(removed) = body { Some(removed.key) } else { None },
            )
            .collect();
        assert_eq!(told, ["b"]);
    }

    /// The hub that was told may have been put back since, or ended before it wrote it down.
    #[test]
    fn a_removal_is_told_in_each_session_until_the_hub_needs_to_hear_no_more() {
        let mut outbox = Outbox::default();
        outbox.removed("a", "u", 2, Vec::new());
        let is_told =
            |outbox: &mut Outbox| matches!(outbox.next_prompt(), Some(agent_frame::Body::Removed(_)));
        for _ in 0..3 {
            outbox.session_begins(Seed::new([1; 16]));
            assert!(is_told(&mut outbox));
            assert!(!is_told(&mut outbox), "once");
        }
        outbox.forget("a");
        outbox.session_begins(Seed::new([1; 16]));
        assert!(!is_told(&mut outbox));
    }

    fn reports(outbox: &mut Outbox, now: u64) -> Vec<u64> {
        std::iter::from_fn(|| outbox.next_report(Packing::default(), Duration::from_secs(now)))
            .map(|(body, _)| match body {
                agent_frame::Body::WorkStatus(status) => status.revision,
                _ => 0,
            })
            .collect()
    }

    #[test]
    fn the_newest_is_told_once_and_a_second_apart() {
        let mut outbox = Outbox::default();
        assert!(outbox.work("a", report(1)));
        assert!(!outbox.work("a", report(1)), "nothing changed");
        assert_eq!(reports(&mut outbox, 10), [1]);
        for statuses in ["[1]", "[2]", "[3]"] {
            let manifest_statuses = Some(Bytes::from_static(statuses.as_bytes()));
            outbox.work("a", WorkReport { manifest_statuses, ..report(1) });
        }
        assert_eq!(reports(&mut outbox, 10), [0; 0]);
        assert_eq!(outbox.due_at(), Some(Duration::from_secs(11)));
        assert_eq!(reports(&mut outbox, 11), [1]);
        assert_eq!(outbox.due_at(), None);
        outbox.all_again();
        assert_eq!(reports(&mut outbox, 11), [1], "a new session hears everything");
    }

    #[test]
    fn a_removal_that_is_not_on_disk_is_not_told() {
        let mut outbox = Outbox::default();
        outbox.removed("a", "u", 2, Vec::new());
        outbox.hold_removals(true);
        assert_eq!(outbox.next_prompt(), None);
        outbox.all_again();
        assert_eq!(outbox.next_prompt(), None, "nor to a new session");
        outbox.hold_removals(false);
        assert!(matches!(outbox.next_prompt(), Some(agent_frame::Body::Removed(_))));
    }

    #[test]
    fn an_event_is_one_short_line() {
        let mut outbox = Outbox::default();
        outbox.event(EventReport { message: "a\r\nb".repeat(100_000), ..EventReport::default() });
        let Some(agent_frame::Body::Event(told)) = outbox.next_prompt() else { panic!() };
        assert!(told.message.len() < 3000 && told.message.starts_with("a  ba"), "{}", told.message.len());
    }

    #[test]
    fn an_outcome_waits_for_nothing() {
        let mut outbox = Outbox::default();
        outbox.work("a", report(1));
        assert_eq!(reports(&mut outbox, 10), [1]);
        outbox.work("a", WorkReport { manifest_statuses: None, ..report(1) });
        assert_eq!(outbox.due_at(), None, "a report without statuses leaves those that were told");
        outbox.work("a", WorkReport { manifest_statuses: Some(Bytes::from_static(b"[2]")), ..report(1) });
        assert_eq!(outbox.due_at(), Some(Duration::from_secs(11)));
        outbox.work("a", report(2));
        assert_eq!(reports(&mut outbox, 10), [2], "a new body's");
        outbox.work("a", WorkReport { applied: Some(Applied::default()), ..report(2) });
        assert_eq!(reports(&mut outbox, 10), [2], "a new outcome");
        assert_eq!(outbox.due_at(), None, "nothing is told twice");
    }

    #[test]
    fn a_removal_replaces_reports_and_is_told_in_each_session_until_released() {
        let mut outbox = Outbox::default();
        outbox.work("a", report(1));
        outbox.removed("a", "u", 2, Vec::new());
        assert_eq!(reports(&mut outbox, 1), [0; 0]);
        assert!(matches!(outbox.next_prompt(), Some(agent_frame::Body::Removed(_))));
        assert!(outbox.next_prompt().is_none());
        outbox.all_again();
        assert!(outbox.next_prompt().is_some());
        outbox.forget("a");
        outbox.all_again();
        assert!(outbox.next_prompt().is_none());
    }
}
