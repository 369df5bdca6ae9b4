//! What watchers see: one [`Event`] per durable write.
//!
//! Types alone: backends make events when a write is durable; watches give them out in the order of their revisions.

use std::sync::Arc;

use bytes::Bytes;

use crate::{KeyValue, Revision};

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
