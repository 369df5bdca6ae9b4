//! What watchers see, and the bounded channel they see it through.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::mpsc;

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
}

/// Why a watch ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WatchError {
    /// The watcher fell further behind than the store keeps for it: list again.
    #[error("the watcher fell behind and lost its place")]
    Lagged,
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

/// A running watch: batches of events in order, one commit's events at most split at the end of a batch.
pub struct Watch {
    pub(crate) batches: mpsc::Receiver<Result<Arc<[Event]>, WatchError>>,
}

impl Watch {
    /// The next batch; `None` only after an error was returned.
    ///
    /// Cancel-safe.
    pub async fn next(&mut self) -> Option<Result<Arc<[Event]>, WatchError>> {
        self.batches.recv().await
    }
}
