//! How many long answers a connection has under way: its listener may give it a place where it holds up nobody.
//!
//! In: the listener's count, as an extension of each request; the begin and end of each long answer. Out: whether there is any.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The count of one connection. Clones are the same count.
#[derive(Clone, Debug, Default)]
pub struct LongAnswers(Arc<AtomicUsize>);

/// One long answer, from before it is made until it is sent. Counted until dropped.
#[derive(Debug)]
pub struct LongAnswer(Arc<AtomicUsize>);

impl LongAnswers {
    /// Whether there is one just now.
    pub fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    /// One begins.
    pub fn begin(&self) -> LongAnswer {
        self.0.fetch_add(1, Ordering::Relaxed);
        LongAnswer(self.0.clone())
    }
}

impl Drop for LongAnswer {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
