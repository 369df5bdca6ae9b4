//! What a FederatedHPA came to before: how many replicas were recommended when, and how the target was scaled. In: what was recommended or
//! done, and when. Out: the entries that a window or a policy looks back on.
//!
//! It lives in memory. A hub that starts anew knows nothing of what was before: its windows start with the replicas that the target has, so that it
//! goes neither down nor up sooner than a window's length after; and what was scaled before counts towards no policy any more.

use jiff::{SignedDuration, Timestamp};

/// So many entries of each kind are kept, the youngest ones: with the longest window, an hour, and a look every fifteen seconds, they are 240.
const LONGEST: usize = 4096;

/// What was at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    at: Timestamp,
    /// Replicas.
    pub replicas: i32,
}

impl Entry {
    /// How long ago it was; what is told of a moment to come is of now, as the clock was set back since.
    pub fn age(&self, now: Timestamp) -> SignedDuration {
        now.duration_since(self.at).max(SignedDuration::ZERO)
    }
}

/// What was recommended and done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    pub(super) recommendations: Vec<Entry>,
    pub(super) added: Vec<Entry>,
    pub(super) removed: Vec<Entry>,
    /// When the target was last scaled.
    pub(super) scaled: Option<Timestamp>,
}

impl History {
    /// Begins with what the target has, where nothing is known yet.
    pub fn begin(&mut self, current: i32, now: Timestamp) {
        if self.recommendations.is_empty() {
            self.recommendations.push(Entry { at: now, replicas: current });
        }
    }

    /// Notes what was recommended; what is older than `window` is forgotten.
    pub fn recommended(&mut self, replicas: i32, window: SignedDuration, now: Timestamp) {
        forget(&mut self.recommendations, window, now);
        self.recommendations.push(Entry { at: now, replicas });
    }

    /// Notes that the target was scaled; what is older than `period` is forgotten.
    pub fn scaled(&mut self, from: i32, to: i32, period: SignedDuration, now: Timestamp) {
        forget(&mut self.added, period, now);
        forget(&mut self.removed, period, now);
        if to != from {
            self.scaled = Some(now);
        }
        let entry = Entry { at: now, replicas: to.saturating_sub(from).saturating_abs() };
        match to.cmp(&from) {
            std::cmp::Ordering::Greater => self.added.push(entry),
            std::cmp::Ordering::Less => self.removed.push(entry),
            std::cmp::Ordering::Equal => {}
        }
    }
}

fn forget(entries: &mut Vec<Entry>, older: SignedDuration, now: Timestamp) {
    for entry in &mut *entries {
        entry.at = entry.at.min(now);
    }
    entries.retain(|entry| entry.age(now) <= older);
    let surplus = entries.len().saturating_sub(LONGEST - 1);
    entries.drain(..surplus);
}
