//! Whether both ends hold the same, looked at while a session runs: the agent's pings tell roots, and what differs is found and mended.
//!
//! In: roots of the agent, and of the hub, which the shell works out where it is asked ([`Effect::Root`], [`Effect::Sums`]). Out: a listing
//! of differences where the Works differ; the buckets of statuses that the agent is to tell again.

use std::time::Duration;

use karmada_proto::DIGESTS;
use karmada_proto::digest::{Buckets, Root, Seed};
use karmada_proto::v1::{self, CloseCode, Hello, RetryClass, Table, hub_frame};

use super::{Effect, Session};
use crate::session_admission::close;

/// What was just written or sent may not be seen by both ends yet: what differs is looked at once more after this.
const DEBOUNCE: Duration = Duration::from_secs(2);
/// Pings that tell the same, after which nothing is on its way any more.
const STILL: u32 = 2;
/// Between two listings for what differs, or two times that statuses are asked for: first, and at most.
const BETWEEN_LISTINGS: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(3600));
/// An agent that is alive says in this time what it holds.
const ANSWERS_WITHIN: Duration = Duration::from_secs(600);

/// What differs still after it was mended is no reason to do so at each ping: the pauses grow.
#[derive(Debug)]
struct Pause {
    until: Duration,
    next: Duration,
}

impl Default for Pause {
    fn default() -> Self {
        Self { until: Duration::ZERO, next: BETWEEN_LISTINGS.0 }
    }
}

impl Pause {
    fn is_over(&self, now: Duration) -> bool {
        now >= self.until
    }

    fn begin(&mut self, now: Duration) {
        self.until = now + self.next;
        self.next = (self.next * 2).min(BETWEEN_LISTINGS.1);
    }
}

/// What is known of both ends' roots.
#[derive(Debug)]
pub(super) struct Digests {
    /// What they are salted with, where both ends compare.
    seed: Option<Seed>,
    /// The root of Works that is to be compared once the hub's is known.
    works: Option<Root>,
    /// What the last pings told, and how many told the same while nothing changed.
    still: Option<((Root, u64), u32)>,
    /// The hub's, as of so many changes.
    ours: Option<(u64, Root)>,
    /// The roots of Works differed: to be looked at again at this time, if nothing has changed since.
    look_again: Option<(Duration, u64)>,
    listings: Pause,
    /// The root of statuses that is to be compared.
    statuses: Option<Root>,
    /// The agent is asked for the sums of its statuses.
    asks_sums: bool,
    /// Pings since the agent was asked for anything.
    unanswered: u32,
    theirs: Option<Buckets>,
    asks: Pause,
    /// Since when the agent has not said what it holds.
    waiting_since: Option<Duration>,
}

impl Digests {
    /// For what an agent says in its hello.
    pub(super) fn new(hello: &Hello) -> Self {
        let compares = hello.features.iter().any(|feature| feature == DIGESTS);
        Self {
            seed: Seed::read(&hello.digest_seed).filter(|_| compares),
            works: None,
            still: None,
            ours: None,
            look_again: None,
            listings: Pause::default(),
            statuses: Root::read(&hello.status_root),
            asks_sums: false,
            unanswered: 0,
            theirs: None,
            asks: Pause::default(),
            waiting_since: None,
        }
    }

    /// When there is something to look at.
    pub(super) fn deadline(&self) -> Option<Duration> {
        let answers = self.waiting_since.map(|since| since + ANSWERS_WITHIN);
        [self.look_again.map(|(at, _)| at), answers].into_iter().flatten().min()
    }
}

impl Session {
    /// The statuses that the agent told, by its hello, and those that the hub has.
    pub(super) fn compare_statuses(&mut self) {
        if let (Some(seed), Some(_)) = (self.digests.seed, &self.digests.statuses) {
            self.effects.push_back(Effect::Root(Table::Statuses, seed));
        }
    }

    /// A ping tells what the agent holds.
    pub(super) fn roots_told(&mut self, ping: &v1::Ping, now: Duration) {
        let Some(seed) = self.digests.seed else { return };
        self.ack(v1::Ack { epoch: self.epoch, cursor: ping.cursor });
        self.ask_again();
        if let Some(theirs) = Root::read(&ping.ledger_root).filter(|theirs| self.is_in_sync(*theirs)) {
            self.digests.works = Some(theirs);
            match self.digests.ours {
                Some((changes, ours)) if changes == self.dispatch.changes() => self.works_root(ours, now),
                _ => self.effects.push_back(Effect::Root(Table::Works, seed)),
            }
        }
        if let Some(theirs) = Root::read(&ping.status_root).filter(|_| self.inbox.is_empty()) {
            self.digests.statuses = Some(theirs);
            self.effects.push_back(Effect::Root(Table::Statuses, seed));
        }
    }

    /// An answer that did not come over some pings was lost, or the question was.
    fn ask_again(&mut self) {
        let waits = self.dispatch.is_comparing() || self.digests.asks_sums;
        self.digests.unanswered = if waits { self.digests.unanswered + 1 } else { 0 };
        if self.digests.unanswered > STILL {
            self.digests.unanswered = 0;
            self.digests.asks_sums = false;
            self.dispatch.compare_again();
        }
    }

    /// Whether an agent that holds `theirs` has all that it will have: it acknowledged everything, or nothing has moved over some pings, as an
    /// answer of one end was lost.
    fn is_in_sync(&mut self, theirs: Root) -> bool {
        if !self.dispatch.compares() || !self.dispatch.is_idle() {
            self.digests.still = None;
            return false;
        }
        let now = (theirs, self.dispatch.changes());
        let pings = match self.digests.still {
            Some((then, pings)) if then == now => pings + 1,
            _ => 0,
        };
        self.digests.still = Some((now, pings));
        self.dispatch.is_acked() || pings >= STILL
    }

    /// The answer to [`Effect::Root`].
    pub fn root(&mut self, table: Table, ours: Root, now: Duration) {
        match table {
            Table::Works => {
                self.digests.ours = Some((self.dispatch.changes(), ours));
                self.works_root(ours, now);
            }
            Table::Statuses => self.statuses_root(ours, now),
            // Nobody asks for it: a document has one hash.
            Table::Customizations => {}
        }
    }

    /// Once differing is not enough: the hub's root may be ahead of what this session was given.
    fn works_root(&mut self, ours: Root, now: Duration) {
        if self.digests.works.is_none_or(|theirs| theirs == ours) {
            self.digests.look_again = None;
            self.digests.listings = Pause::default();
            return;
        }
        if !self.digests.listings.is_over(now) {
            return;
        }
        let changes = self.dispatch.changes();
        match self.digests.look_again {
            Some((at, then)) if then == changes && at <= now => {
                self.digests.look_again = None;
                self.digests.listings.begin(now);
                self.is_to_relist = true;
                self.relist(now);
            }
            Some((_, then)) if then == changes => {}
            _ => self.digests.look_again = Some((now + DEBOUNCE, changes)),
        }
    }

    /// Looks at the clock.
    pub(super) fn look_again(&mut self, now: Duration) {
        if let Some((at, changes)) = self.digests.look_again
            && at <= now
        {
            // What has changed since will be told with the next ping.
            if changes != self.dispatch.changes() || !self.dispatch.is_idle() {
                self.digests.look_again = None;
            } else if let Some(seed) = self.digests.seed {
                self.effects.push_back(Effect::Root(Table::Works, seed));
                // Asked once: the answer decides.
                self.digests.look_again = Some((now, changes));
            }
        }
        if !self.dispatch.is_comparing() {
            self.digests.waiting_since = None;
            return;
        }
        let since = *self.digests.waiting_since.get_or_insert(now);
        if now >= since + ANSWERS_WITHIN {
            let message = "the agent does not say what it holds".to_owned();
            self.close(close(CloseCode::Protocol, RetryClass::RetryAfter, Duration::from_secs(5), message));
        }
    }

    fn statuses_root(&mut self, ours: Root, now: Duration) {
        if self.digests.statuses.take().is_none_or(|theirs| theirs == ours) {
            self.digests.asks = Pause::default();
        } else if !self.digests.asks_sums && self.digests.asks.is_over(now) {
            self.digests.asks_sums = true;
            let table = Table::Statuses as u32;
            self.out.push_back(hub_frame::Body::Compare(v1::Compare { table }));
        }
    }

    /// The agent tells the sums of a table's buckets.
    pub(super) fn buckets(&mut self, kind: u32, buckets: &v1::Buckets) {
        match Table::try_from(buckets.table as i32) {
            Ok(Table::Works) if self.dispatch.sums(&buckets.sums) => {}
            Ok(Table::Statuses) if self.digests.asks_sums => {
                self.digests.asks_sums = false;
                self.digests.theirs = Buckets::read(&buckets.sums);
                self.effects.extend(self.digests.seed.map(Effect::Sums));
            }
            Ok(_) => self.refuse("sums that nobody asked for"),
            Err(_) => self.unsupported(kind, buckets.table),
        }
    }

    /// The agent tells rows of a table.
    pub(super) fn rows(&mut self, kind: u32, rows: v1::Rows) {
        match Table::try_from(rows.table as i32) {
            Ok(Table::Works) => {
                if !self.dispatch.rows(rows) {
                    self.refuse("rows that nobody asked for");
                }
            }
            Ok(Table::Statuses | Table::Customizations) => self.refuse("rows that nobody asked for"),
            Err(_) => self.unsupported(kind, rows.table),
        }
    }

    /// The answer to [`Effect::Sums`].
    pub fn sums(&mut self, ours: &Buckets, now: Duration) {
        let Some(theirs) = self.digests.theirs.take() else { return };
        let buckets = ours.differing(&theirs);
        if !buckets.is_empty() {
            self.digests.asks.begin(now);
            let table = Table::Statuses as u32;
            self.out.push_back(hub_frame::Body::Differing(v1::Differing { table, buckets }));
        }
    }
}
