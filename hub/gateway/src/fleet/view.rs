//! Links and their sessions as others see them.
//!
//! In: what is known of a cluster's link, the moment. Out: how it stands, since when, and when its agent was heard.

use std::net::IpAddr;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{Fleet, Link, Session};
use crate::clock_and_random::Moment;
use crate::ports::Batch;

/// How a cluster's link stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkState {
    /// A session is live.
    Connected,
    /// A session is there, but silent for one and a half of its intervals.
    Late,
    /// No session.
    Offline,
    /// No session for longer than a link may be away.
    Lost,
}

/// What a session tells of itself while it runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// When a frame or a byte was last heard, monotonic.
    pub heard: Duration,
    /// From when on silence is death, monotonic.
    pub dead_at: Duration,
    /// The newest revision that the agent has stored.
    pub acked: u64,
    /// Works that wait to be sent.
    pub backlog: usize,
    /// Bytes of frames that came.
    pub received: u64,
    /// Bytes of frames that went.
    pub sent: u64,
    /// How long the last question took to be answered.
    pub round_trip: Option<Duration>,
}

/// Deletes that wait for a person's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HoldView {
    /// Of which batch they are.
    pub batch: Batch,
    /// How many.
    pub deletes: u64,
}

/// When an agent was heard, whatever it said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heard {
    /// The last time; now, where it is connected.
    pub last: Option<Timestamp>,
    /// Since when the hub listens for it: its own start, or the last join.
    pub listening_since: Timestamp,
}

/// A link as others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterLink {
    /// The cluster.
    pub cluster: String,
    /// How it stands.
    pub state: LinkState,
    /// Since when contact is there, or is not; `None` where there never was any.
    pub since: Option<Timestamp>,
    /// Of one that is offline: when it will be lost, if nobody comes.
    pub lost_at: Option<Timestamp>,
    /// When the agent was last heard.
    pub last_frame: Option<Timestamp>,
    /// Deletes that wait for a person's word.
    pub hold: Option<HoldView>,
    /// When the agent's certificate ends, the one that it was given last.
    pub certificate_ends: Option<Timestamp>,
    /// Its session.
    pub session: Option<SessionView>,
}

/// A live session as others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionView {
    /// Its number.
    pub seq: u64,
    /// The boot id of the agent's process.
    pub boot_id: String,
    /// For display.
    pub agent_version: String,
    /// What carries its frames.
    pub transport: &'static str,
    /// From where it came, where that is known.
    pub address: Option<IpAddr>,
    /// The epoch that it speaks.
    pub epoch: u64,
    /// The agent's clock less the hub's when it began, in milliseconds.
    pub clock_offset_ms: i64,
    /// When it began.
    pub since: Timestamp,
    /// How long the agent has been silent.
    pub silent: Duration,
    /// What it told of itself last.
    pub progress: Progress,
}

impl<D: Clone> Fleet<D> {
    /// When the agent of `cluster` was heard. What was noted while the clock was ahead is taken to be of this moment, the earliest that
    /// is known to be right, and counts from it.
    pub fn heard(&mut self, cluster: &str, now: Timestamp) -> Heard {
        self.listening_since = self.listening_since.min(now);
        let link = self.links.get_mut(cluster);
        if let Some(link) = link {
            link.since = link.since.map(|since| since.min(now));
            link.joined = link.joined.map(|joined| joined.min(now));
        }
        let link = self.links.get(cluster);
        let joined = link.and_then(|link| link.joined);
        Heard {
            last: link.and_then(|link| link.last_contact(now)),
            listening_since: joined.map_or(self.listening_since, |joined| joined.max(self.listening_since)),
        }
    }

    /// Whether there is contact with the agent of `cluster`.
    pub fn has_contact(&self, cluster: &str) -> bool {
        self.links.get(cluster).is_some_and(|link| link.state != LinkState::Offline)
    }

    /// The link of `cluster`; of one that nothing is known of, an offline one.
    pub fn link(&self, cluster: &str, now: Moment) -> ClusterLink {
        let unknown = Link::default();
        let link = self.links.get(cluster).unwrap_or(&unknown);
        let session = link.session.as_ref().map(|session| session.view(now.elapsed));
        let silent = session.as_ref().and_then(|session| SignedDuration::try_from(session.silent).ok());
        let last_frame = match silent {
            Some(silent) => now.wall.checked_sub(silent).ok(),
            None => link.last_contact(now.wall),
        };
        let away_since =
            link.since.unwrap_or(self.listening_since).max(link.joined.unwrap_or(Timestamp::MIN));
        let is_offline = link.state == LinkState::Offline;
        let lost_at = away_since.saturating_add(self.grace).ok().filter(|_| is_offline);
        let is_lost = lost_at.is_some_and(|lost_at| lost_at <= now.wall);
        ClusterLink {
            cluster: cluster.to_owned(),
            state: if is_lost { LinkState::Lost } else { link.state },
            since: link.since,
            lost_at: lost_at.filter(|_| !is_lost),
            last_frame,
            hold: link.hold,
            certificate_ends: link.certificate_ends,
            session,
        }
    }

    /// The links of all clusters that are known, by name.
    pub fn links(&self, now: Moment) -> Vec<ClusterLink> {
        self.links.keys().map(|cluster| self.link(cluster, now)).collect()
    }
}

impl<D> Link<D> {
    fn last_contact(&self, now: Timestamp) -> Option<Timestamp> {
        if self.state == LinkState::Offline { self.since } else { Some(now) }
    }
}

impl<D> Session<D> {
    fn view(&self, now: Duration) -> SessionView {
        SessionView {
            seq: self.new.seq,
            boot_id: self.new.boot_id.clone(),
            agent_version: self.new.agent_version.clone(),
            transport: self.new.transport,
            address: self.new.address,
            epoch: self.new.epoch,
            clock_offset_ms: self.new.clock_offset_ms,
            since: self.since,
            silent: now.saturating_sub(self.progress.heard),
            progress: self.progress,
        }
    }
}
