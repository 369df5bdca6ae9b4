//! What watchers see: one [`Event`] per durable write, read through a [`Watch`].
//!
//! In: a place in the [`feed`](crate::feed). Out: batches of events, in order, each once, or the reason
//! why there will be no more.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::Notify;

use crate::feed::{Feed, Step};
use crate::{KeyValue, Revision, StoreError};

/// One durable write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The key was created or changed. `previous` is the value before, where there was one.
    Put {
        /// The key as the write left it.
        current: KeyValue,
        /// What it was before this write.
        previous: Option<Bytes>,
    },
    /// The key was removed.
    Delete {
        /// The key.
        key: Arc<str>,
        /// The removal's own revision.
        revision: Revision,
        /// The value it had.
        previous: Bytes,
    },
}

impl Event {
    /// What it weighs on the disk, about: its value and its key.
    pub(crate) fn stored_bytes(&self) -> u64 {
        let bytes = match self {
            Event::Put { current, .. } => current.value.len() + current.key.len(),
            Event::Delete { key, .. } => key.len(),
        };
        bytes as u64
    }

    /// The write's revision.
    pub fn revision(&self) -> Revision {
        match self {
            Event::Put { current, .. } => current.mod_revision,
            Event::Delete { revision, .. } => *revision,
        }
    }

    /// The key written.
    pub fn key(&self) -> &Arc<str> {
        match self {
            Event::Put { current, .. } => &current.key,
            Event::Delete { key, .. } => key,
        }
    }

    /// What the event holds in memory, in bytes, roughly.
    pub(crate) fn weight(&self) -> usize {
        let values = match self {
            Event::Put { current, previous } => current.value.len() + previous.as_ref().map_or(0, Bytes::len),
            Event::Delete { previous, .. } => previous.len(),
        };
        // The event itself, its key and its allocations' own overhead.
        values + self.key().len() + 160
    }
}

/// Why a watch ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WatchError {
    /// The watcher fell further behind than the store keeps for it (or the kept events cannot be read):
    /// list again.
    #[error("the watcher fell behind and lost its place")]
    Lagged,
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

/// A running watch: batches of events in order, one commit's events at most split at the end of a batch.
///
/// A watch holds no events of its own: it is a place in the store's feed, so that a slow watcher costs
/// nothing but the place.
pub struct Watch {
    feed: Arc<Feed>,
    id: u64,
    wake: Arc<Notify>,
    ended: bool,
}

impl Watch {
    pub(crate) fn new(feed: Arc<Feed>, id: u64, wake: Arc<Notify>) -> Self {
        Watch { feed, id, wake, ended: false }
    }

    /// The next batch, never empty; `None` only after an error was returned.
    ///
    /// Cancel-safe: the place moves only when a batch is returned.
    pub async fn next(&mut self) -> Option<Result<Arc<[Event]>, WatchError>> {
        if self.ended {
            return None;
        }
        loop {
            match self.feed.step(self.id) {
                Step::Batch(events) => return Some(Ok(events)),
                Step::Wait => self.wake.notified().await,
                Step::Behind { prefix, after } => match self.feed.read_backlog(prefix, after).await {
                    Ok(chunk) => {
                        if let Some(events) = self.feed.pass(self.id, chunk) {
                            return Some(Ok(events));
                        }
                    }
                    Err(StoreError::Closed) => return self.end(WatchError::Closed),
                    Err(error) => {
                        tracing::debug!(%error, "a watcher lost its place");
                        return self.end(WatchError::Lagged);
                    }
                },
                Step::End(reason) => return self.end(reason),
            }
        }
    }

    fn end(&mut self, reason: WatchError) -> Option<Result<Arc<[Event]>, WatchError>> {
        self.ended = true;
        Some(Err(reason))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.feed.unsubscribe(self.id);
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("id", &self.id).field("ended", &self.ended).finish()
    }
}
