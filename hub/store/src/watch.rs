//! A running watch.
//!
//! In: a place in the [`feed`](crate::feed). Out: batches of events, in order, each once, or the reason
//! why there will be no more.

use std::sync::Arc;

use tokio::sync::Notify;

use crate::feed::{Feed, Step};
use crate::{Event, Revision, StoreError, WatchError};

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
    /// A watch of the keys with `prefix`, from the write after `after`.
    pub(crate) fn open(feed: &Arc<Feed>, prefix: &str, after: Revision) -> Result<Watch, StoreError> {
        let (id, wake) = feed.subscribe(prefix, after)?;
        Ok(Watch { feed: feed.clone(), id, wake, ended: false })
    }

    /// The next batch, never empty; `None` only after an error was returned.
    ///
    /// Cancel-safe: the place moves only when a batch is returned.
    ///
    /// # Errors
    /// [`WatchError::Lagged`] where events that were not told are no longer kept or cannot be read, [`WatchError::Closed`] with the store.
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
