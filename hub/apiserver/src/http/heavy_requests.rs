//! How many heavy requests a connection has under way: its listener may give it a place where it holds up nobody.
//!
//! Heavy is a long list, until it is sent, a request with a long body, until it is answered, and one of a flow that has many under way already. In: the listener's count, as
//! an extension of each request; the begin and end of each heavy request. Out: whether there is any.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The count of one connection. Clones are the same count.
#[derive(Clone, Debug, Default)]
pub struct HeavyRequests(Arc<AtomicUsize>);

/// One heavy request, from before it is worked on. Counted until dropped.
#[derive(Debug)]
pub struct HeavyRequest(Arc<AtomicUsize>);

impl HeavyRequests {
    /// Whether there is one just now.
    pub fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    /// One begins.
    pub fn begin(&self) -> HeavyRequest {
        self.0.fetch_add(1, Ordering::Relaxed);
        HeavyRequest(self.0.clone())
    }
}

impl Drop for HeavyRequest {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
