//! When each binding is looked at: once in an interval, and not in the first one after a start.
//!
//! In: who is looked at, by a clock that nobody sets. Out: how long each is still left alone. It lives in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::SignedDuration;
use karmada_controllers::port::Key;
use parking_lot::Mutex;
use tokio::time::Instant;

pub(crate) struct Turns {
    interval: SignedDuration,
    /// When each was looked at, or first seen.
    looked: Mutex<BTreeMap<Key, Instant>>,
}

impl Turns {
    pub(crate) fn every(interval: SignedDuration) -> Arc<Self> {
        Arc::new(Turns { interval, looked: Mutex::default() })
    }

    /// How long it is still left alone; from when it is first seen for one interval.
    pub(crate) fn rests(&self, key: &Key) -> SignedDuration {
        let since = *self.looked.lock().entry(key.clone()).or_insert_with(Instant::now);
        self.interval - SignedDuration::try_from(since.elapsed()).unwrap_or(SignedDuration::MAX)
    }

    /// It was looked at now.
    pub(crate) fn looked(&self, key: &Key) {
        self.looked.lock().insert(key.clone(), Instant::now());
    }

    /// It is none of those any more.
    pub(crate) fn forget(&self, key: &Key) {
        self.looked.lock().remove(key);
    }
}
