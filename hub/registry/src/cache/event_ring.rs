//! Recent events in order, pulled by any number of readers, bounded in count, bytes and age.
//!
//! In: events with rising revisions. Out: for each reader the events after its place, or [`Expired`] once its place has been
//! dropped. Readers hold no buffer here: one that never reads costs nothing.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use karmada_store::Revision;
use parking_lot::RwLock;
use tokio::sync::watch;
use tokio::time::Instant;

use super::CacheEvent;

/// At most this many events are kept…
const MAX_EVENTS: usize = 4096;
/// …and at most this many bytes of objects, beyond a floor of…
const MAX_BYTES: usize = 6 << 20;
/// …this many events, which may weigh more…
const MIN_EVENTS: usize = 16;
/// …up to so many bytes…
const MIN_EVENTS_BYTES: usize = MIN_EVENTS * karmada_schema::object::LARGEST;
/// …but for these, whatever they weigh…
const FEWEST: usize = 2;
/// …unless they are older than a client may reasonably be away.
const MAX_AGE: Duration = Duration::from_secs(300);

/// The reader's place has been dropped: list again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expired;

/// A bounded log of events.
pub(super) struct Ring {
    log: RwLock<Log>,
    latest: watch::Sender<Revision>,
}

#[derive(Default)]
struct Log {
    events: VecDeque<(Instant, Arc<CacheEvent>)>,
    bytes: usize,
    /// Every event up to here has been dropped (or was before our time).
    dropped: Revision,
}

impl Default for Ring {
    fn default() -> Self {
        Ring { log: RwLock::default(), latest: watch::Sender::new(0) }
    }
}

fn weight(event: &CacheEvent) -> usize {
    event.object.json_len() + 256
}

impl Ring {
    /// Declares that nothing before `revision` can be read here.
    pub(super) fn start_at(&self, revision: Revision) {
        self.log.write().dropped = revision;
        self.latest.send_replace(revision);
    }

    /// Appends an event; its revision is above all before it.
    pub(super) fn push(&self, event: Arc<CacheEvent>) {
        let revision = event.revision;
        {
            let mut log = self.log.write();
            log.bytes += weight(&event);
            log.events.push_back((Instant::now(), event));
            while log.is_too_much() {
                log.drop_oldest();
            }
        }
        self.latest.send_replace(revision);
    }

    /// Drops what is older than any client may be away.
    pub(super) fn trim(&self, now: Instant) {
        let mut log = self.log.write();
        while log.events.front().is_some_and(|(at, _)| now.duration_since(*at) > MAX_AGE) {
            log.drop_oldest();
        }
        if log.events.is_empty() {
            log.events.shrink_to_fit();
        }
    }

    /// The events after `after`, oldest first.
    pub(super) fn after(&self, after: Revision) -> Result<Vec<Arc<CacheEvent>>, Expired> {
        let log = self.log.read();
        if after < log.dropped {
            return Err(Expired);
        }
        let start = log.events.partition_point(|(_, event)| event.revision <= after);
        Ok(log.events.iter().skip(start).map(|(_, event)| event.clone()).collect())
    }

    /// A reader that has seen everything up to `after`.
    pub(super) fn subscribe(&self, after: Revision) -> Subscription<'_> {
        Subscription { ring: self, place: after, latest: self.latest.subscribe() }
    }
}

impl Log {
    fn is_too_much(&self) -> bool {
        let events = self.events.len();
        events > MAX_EVENTS
            || (self.bytes > MAX_BYTES && events > MIN_EVENTS)
            || (self.bytes > MIN_EVENTS_BYTES && events > FEWEST)
    }

    fn drop_oldest(&mut self) {
        if let Some((_, event)) = self.events.pop_front() {
            self.bytes -= weight(&event);
            self.dropped = event.revision;
        }
    }
}

/// One reader of a ring.
pub struct Subscription<'a> {
    ring: &'a Ring,
    place: Revision,
    latest: watch::Receiver<Revision>,
}

impl Subscription<'_> {
    /// Waits for events after the reader's place and returns all of them.
    ///
    /// Cancel-safe: the place moves only when events are returned.
    ///
    /// # Errors
    /// Events after the reader's place are no longer kept: it is to list again.
    pub async fn next(&mut self) -> Result<Vec<Arc<CacheEvent>>, Expired> {
        loop {
            self.latest.borrow_and_update();
            let events = self.ring.after(self.place)?;
            if let Some(last) = events.last() {
                self.place = last.revision;
                return Ok(events);
            }
            // The sender lives in the ring that is borrowed here.
            let _ = self.latest.changed().await;
        }
    }

    /// The revision up to which the reader has seen everything.
    pub fn place(&self) -> Revision {
        self.place
    }
}
