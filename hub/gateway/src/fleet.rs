//! What is known of each cluster's link and session: one entry a cluster, in memory alone, for liveness is not stored.
//!
//! In: sessions that come and go ([`Fleet::enter`], [`Fleet::leave`]), what each tells of itself, what its agent reported and was told;
//! with the moment of it. Out: how each link stands ([`Fleet::link`], [`Fleet::heard`]), and after each change who is to look at the
//! cluster ([`Wake`]). No clock, no lock, no IO; `D` is how a session is reached, which only its owner knows.
//!
//! What is promised: a link stands by its session, and ends with it; what a session says that was replaced changes nothing; of a
//! cluster that is gone nothing is kept once its session has ended.

mod reported;
mod resource_models;
mod view;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use self::reported::Reported;
pub use self::reported::{AGAIN, StatusVerdict};
use self::resource_models::ToldResourceModels;
pub use self::view::{ClusterLink, Heard, HoldView, LinkState, Progress, SessionView};
use crate::clock_and_random::Moment;
use crate::ports::Batch;

/// Who is to look at a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wake {
    /// Whoever judges whether it can be used: contact began or ended.
    Contact,
    /// Whoever keeps what is known of its agent: there is another session or another certificate.
    Agent,
    /// What tells its agent the Cluster's resource models: there is another session.
    ResourceModels,
    /// What shows its link: the state that a ClusterLink shows changed.
    Link,
}

/// A session as it comes.
#[derive(Debug, Clone)]
pub struct Newcomer<D> {
    /// Its number: a newer one has a higher.
    pub seq: u64,
    /// The boot id of the agent's process.
    pub boot_id: String,
    /// For display.
    pub agent_version: String,
    /// When the certificate that it shows ends.
    pub certificate_ends: Timestamp,
    /// What carries its frames.
    pub transport: &'static str,
    /// From where it came, where that is known.
    pub address: Option<IpAddr>,
    /// The epoch that it speaks.
    pub epoch: u64,
    /// The agent's clock less the hub's, in milliseconds.
    pub clock_offset_ms: i64,
    /// How it is reached.
    pub handle: D,
}

struct Session<D> {
    new: Newcomer<D>,
    since: Timestamp,
    progress: Progress,
    /// It told that it stands.
    stands: bool,
}

/// What was found of each Work of a cluster.
pub type WorkProgressCache = BTreeMap<Arc<str>, WorkProgress>;

/// What was found of a Work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkProgress {
    /// The revision that was looked at.
    pub revision: u64,
    /// Since when it is pending, if it is.
    pub pending: Option<Timestamp>,
    /// Since when it waits for a person to let it go, if it does.
    pub held: Option<Timestamp>,
}

/// One cluster.
struct Link<D> {
    session: Option<Session<D>>,
    state: LinkState,
    /// Since when contact is there, or is not. Of one that was late before it ended, contact ended when it was late.
    since: Option<Timestamp>,
    late: Option<Timestamp>,
    joined: Option<Timestamp>,
    certificate_ends: Option<Timestamp>,
    hold: Option<HoldView>,
    reported: Option<Reported>,
    grades: Option<ToldResourceModels>,
    looks: WorkProgressCache,
    /// Its Cluster is gone: nothing is kept once the session has ended.
    gone: bool,
}

impl<D> Default for Link<D> {
    fn default() -> Self {
        Self {
            session: None,
            state: LinkState::Offline,
            since: None,
            late: None,
            joined: None,
            certificate_ends: None,
            hold: None,
            reported: None,
            grades: None,
            looks: WorkProgressCache::new(),
            gone: false,
        }
    }
}

/// What became of a session that came.
#[derive(Debug, PartialEq, Eq)]
pub enum Entry<D> {
    /// It is the cluster's session now; the one before it, where there was one.
    Entered(Option<D>),
    /// A newer one is there.
    Late,
}

/// All clusters.
pub struct Fleet<D> {
    listening_since: Timestamp,
    /// A link that was away for longer is lost.
    grace: SignedDuration,
    links: BTreeMap<String, Link<D>>,
}

impl<D: Clone> Fleet<D> {
    /// Of no cluster yet. The hub listens from now on; a link that was away for longer than `grace` is lost.
    pub fn new(now: Timestamp, grace: SignedDuration) -> Self {
        Self { listening_since: now, grace, links: BTreeMap::new() }
    }

    // -------------------------------------------------------------------------------------- clusters

    /// There is such a Cluster.
    pub fn exists(&mut self, cluster: &str) {
        self.entry(cluster);
    }

    /// There is no such Cluster any more.
    pub fn forget(&mut self, cluster: &str) {
        let Some(link) = self.links.get_mut(cluster) else { return };
        let kept = Link {
            session: link.session.take(),
            state: link.state,
            since: link.since,
            late: link.late,
            gone: true,
            ..Link::default()
        };
        *link = kept;
        if link.session.is_none() {
            self.links.remove(cluster);
        }
    }

    /// It joined, perhaps again: its grace begins now, whenever it was heard before.
    pub fn joined(&mut self, cluster: &str, now: Timestamp) -> Vec<Wake> {
        let link = self.entry(cluster);
        link.joined = Some(now);
        // Who was heard before was another, whatever the clock says of which came first.
        if link.state == LinkState::Offline {
            link.since = None;
        }
        vec![Wake::Contact, Wake::Link]
    }

    fn entry(&mut self, cluster: &str) -> &mut Link<D> {
        let link = self.links.entry(cluster.to_owned()).or_default();
        link.gone = false;
        link
    }

    // -------------------------------------------------------------------------------------- sessions

    /// A session comes. It stands once it says so ([`Fleet::stands`]).
    pub fn enter(&mut self, cluster: &str, new: Newcomer<D>, now: Moment) -> Entry<D> {
        let link = self.entry(cluster);
        if link.session.as_ref().is_some_and(|live| live.new.seq >= new.seq) {
            return Entry::Late;
        }
        let progress = Progress { heard: now.elapsed, dead_at: Duration::MAX, ..Progress::default() };
        link.certificate_ends = Some(new.certificate_ends);
        let session = Session { new, since: now.wall, progress, stands: false };
        let before = link.session.replace(session);
        Entry::Entered(before.map(|before| before.new.handle))
    }

    /// The session ended. `None` where it was not the current one.
    pub fn leave(&mut self, cluster: &str, seq: u64, now: Timestamp) -> Option<Vec<Wake>> {
        self.current(cluster, seq)?;
        let link = self.links.get_mut(cluster)?;
        link.session = None;
        link.reported = None;
        if let Some(grades) = &mut link.grades {
            grades.left();
        }
        let had_contact = link.state != LinkState::Offline;
        if had_contact {
            // Who was late before it was given up was last heard before that.
            link.since = Some(link.late.take().unwrap_or(now));
            link.state = LinkState::Offline;
        }
        if link.gone {
            self.links.remove(cluster);
        }
        Some(if had_contact { vec![Wake::Contact, Wake::Link] } else { vec![Wake::Link] })
    }

    /// The session says how it stands: it is there, or it is late.
    pub fn stands(&mut self, cluster: &str, seq: u64, is_late: bool, now: Timestamp) -> Vec<Wake> {
        let Some(session) = self.current(cluster, seq) else { return Vec::new() };
        let is_new = !std::mem::replace(&mut session.stands, true);
        let Some(link) = self.links.get_mut(cluster) else { return Vec::new() };
        let begins = link.state == LinkState::Offline;
        let state = if is_late { LinkState::Late } else { LinkState::Connected };
        let is_another = std::mem::replace(&mut link.state, state) != state;
        link.late = is_late.then_some(now);
        if begins {
            link.since = Some(now);
        }
        let wakes = [
            (begins, Wake::Contact),
            (is_new, Wake::Agent),
            (is_new, Wake::ResourceModels),
            (is_new || is_another, Wake::Link),
        ];
        wakes.into_iter().filter_map(|(due, wake)| due.then_some(wake)).collect()
    }

    /// The session tells of itself. True where its agent was heard since it told last.
    pub fn progressed(&mut self, cluster: &str, seq: u64, progress: Progress) -> bool {
        let Some(session) = self.current(cluster, seq) else { return false };
        std::mem::replace(&mut session.progress, progress).heard != progress.heard
    }

    /// The agent was given a certificate that ends then.
    pub fn renewed(&mut self, cluster: &str, seq: u64, until: Timestamp) -> Vec<Wake> {
        let Some(link) = self.links.get_mut(cluster).filter(|link| link.is_of(seq)) else {
            return Vec::new();
        };
        link.certificate_ends = Some(until);
        vec![Wake::Agent, Wake::Link]
    }

    /// Whether this is the session of its cluster.
    pub fn is_current(&self, cluster: &str, seq: u64) -> bool {
        self.links.get(cluster).is_some_and(|link| link.is_of(seq))
    }

    /// When the agent was last heard in this session, monotonic; `None` where it is not the cluster's session any more.
    pub fn heard_in(&self, cluster: &str, seq: u64) -> Option<Duration> {
        let live = self.links.get(cluster)?.session.as_ref().filter(|live| live.new.seq == seq);
        live.map(|live| live.progress.heard)
    }

    fn current(&mut self, cluster: &str, seq: u64) -> Option<&mut Session<D>> {
        self.links.get_mut(cluster)?.session.as_mut().filter(|live| live.new.seq == seq)
    }

    /// How the session of `cluster` is reached.
    pub fn handle(&self, cluster: &str) -> Option<D> {
        Some(self.links.get(cluster)?.session.as_ref()?.new.handle.clone())
    }

    /// How each live session is reached, by cluster.
    pub fn handles(&self) -> Vec<D> {
        self.live().map(|session| session.new.handle.clone()).collect()
    }

    /// Those that have been silent for so long after their death that nobody looks at their clock.
    pub fn dead(&self, now: Duration, grace: Duration) -> Vec<D> {
        let dead = self.live().filter(|session| now > session.progress.dead_at.saturating_add(grace));
        dead.map(|session| session.new.handle.clone()).collect()
    }

    /// Live sessions.
    pub fn sessions(&self) -> usize {
        self.live().count()
    }

    fn live(&self) -> impl Iterator<Item = &Session<D>> {
        self.links.values().filter_map(|link| link.session.as_ref())
    }

    /// Deletes wait for a person's word.
    pub fn held(&mut self, cluster: &str, hold: HoldView) -> Vec<Wake> {
        let Some(link) = self.links.get_mut(cluster) else { return Vec::new() };
        if link.hold.replace(hold) == Some(hold) { Vec::new() } else { vec![Wake::Link] }
    }

    /// A person let these deletes go out.
    pub fn confirmed(&mut self, cluster: &str, batch: Batch) -> Vec<Wake> {
        let Some(link) = self.links.get_mut(cluster) else { return Vec::new() };
        if link.hold.take_if(|hold| batch.covers(hold.batch)).is_some() {
            vec![Wake::Link]
        } else {
            Vec::new()
        }
    }

    /// The site has all that was held back from it.
    pub fn nothing_held(&mut self, cluster: &str) -> Vec<Wake> {
        let was_held = self.links.get_mut(cluster).and_then(|link| link.hold.take()).is_some();
        if was_held { vec![Wake::Link] } else { Vec::new() }
    }

    /// What the agent `reported` was written, and the Cluster is now `written`. Kept while its session is there.
    pub fn wrote(&mut self, cluster: &str, reported: &Value, written: &Value) {
        if let Some(link) = self.links.get_mut(cluster).filter(|link| link.session.is_some()) {
            link.reported = Some(Reported::new(reported, written, link.reported.as_ref()));
        }
    }

    /// Whether the Cluster, which is now `live`, says what its agent said last.
    pub fn verdict(&mut self, cluster: &str, live: &Value, now: Timestamp) -> StatusVerdict {
        let reported = self.links.get_mut(cluster).and_then(|link| link.reported.as_mut());
        reported.map_or(StatusVerdict::Right, |reported| reported.verdict(live, now))
    }

    /// Whether the agent is to be told that it counts by `wanted`, where agents begin with `standard`; both are digests.
    pub fn counts_otherwise(&self, cluster: &str, wanted: u64, standard: u64) -> bool {
        let grades = self.links.get(cluster).and_then(|link| link.grades);
        ToldResourceModels::differ(grades, wanted, standard)
    }

    /// The agent was told to count by grades of this digest.
    pub fn told_resource_models(&mut self, cluster: &str, digest: u64) {
        if let Some(link) = self.links.get_mut(cluster) {
            link.grades = Some(ToldResourceModels::told(digest));
        }
    }

    /// What was found of the cluster's Works when somebody looked last, to be given back.
    pub fn take_looks(&mut self, cluster: &str) -> WorkProgressCache {
        self.links.get_mut(cluster).map(|link| std::mem::take(&mut link.looks)).unwrap_or_default()
    }

    /// Keeps what was found of the cluster's Works.
    pub fn keep_looks(&mut self, cluster: &str, looks: WorkProgressCache) {
        if let Some(link) = self.links.get_mut(cluster) {
            link.looks = looks;
        }
    }
}

impl<D> Link<D> {
    /// Whether this is its session.
    fn is_of(&self, seq: u64) -> bool {
        self.session.as_ref().is_some_and(|live| live.new.seq == seq)
    }
}

#[cfg(test)]
mod tests;
