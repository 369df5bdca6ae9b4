//! Whether the hub is there: when it was heard last, and when it is pinged.
//!
//! In: frames and bytes that came, frames that went, pongs, the time. Out: pings that are due, and whether the hub has been silent for too
//! long. `now` is monotonic time since any fixed start. Pure.

use std::time::Duration;

use karmada_proto::keepalive::{Cadence, unanswered_after};
use karmada_proto::v1;

/// The line to the hub.
#[derive(Debug)]
pub(super) struct Liveness {
    /// How long the pauses between pings are.
    pub(super) cadence: Cadence,
    /// How many were sent.
    pub(super) pings: u64,
    awaiting_pong: bool,
    sent: Duration,
    heard: Duration,
}

impl Liveness {
    /// A line on which something was just heard and sent.
    pub(super) fn new(cadence: Cadence, now: Duration) -> Self {
        Self { cadence, pings: 0, awaiting_pong: false, sent: now, heard: now }
    }

    /// A frame came.
    pub(super) fn heard_frame(&mut self, now: Duration) {
        self.heard = now;
    }

    /// Bytes came at `at`, though perhaps no whole frame.
    pub(super) fn heard_bytes(&mut self, at: Duration) {
        self.heard = self.heard.max(at);
    }

    /// A frame went out.
    pub(super) fn sends(&mut self, now: Duration) {
        self.sent = now;
    }

    /// The answer to a ping.
    pub(super) fn answered(&mut self, seq: u64) {
        if self.awaiting_pong && seq == self.pings {
            self.awaiting_pong = false;
            self.cadence.proved();
        }
    }

    /// Whether the hub has been silent for so long that nobody is there.
    pub(super) fn is_dead(&self, now: Duration) -> bool {
        now.saturating_sub(self.heard) >= unanswered_after(self.cadence.interval)
    }

    /// The ping that is due now.
    pub(super) fn ping(&mut self, now: Duration) -> Option<v1::Ping> {
        if self.ping_due() > now {
            return None;
        }
        self.pings += 1;
        self.awaiting_pong = true;
        self.sent = now;
        let next_ms = self.cadence.interval.as_millis() as u64;
        Some(v1::Ping { seq: self.pings, next_ms, ..v1::Ping::default() })
    }

    fn ping_due(&self) -> Duration {
        // Either direction idle for an interval; while a pong is awaited, no second ping before another.
        let quiet_since = if self.awaiting_pong { self.sent } else { self.sent.min(self.heard) };
        quiet_since + self.cadence.interval
    }

    /// When a ping is due, or the hub is dead.
    pub(super) fn deadline(&self) -> Duration {
        let dead = self.heard + unanswered_after(self.cadence.interval);
        self.ping_due().min(dead)
    }
}
