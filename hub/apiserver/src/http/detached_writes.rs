//! Requests that may change something are worked on to their end, whoever goes away or loses patience meanwhile.
//!
//! In: the work on one such request, how long its caller waits. Out: its answer, or that the caller's patience ended first. What is promised: a write
//! that reaches the store is recorded in the audit log with what became of it, and what it holds while it is under way (a quota's room, the addresses
//! of a Service) is held until the write can be seen. kube-apiserver's handlers run on in the same way.
//!
//! Reads are dropped with their callers: nobody is told anything any more.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use tokio::sync::oneshot;

/// Work that runs by itself.
pub type WriteTask = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Who runs the work on writes: put into the request's extensions by the listener, which knows on which threads it holds up nobody and waits
/// for it when it ends.
#[derive(Clone)]
pub struct WriteExecutor(Arc<dyn Fn(WriteTask) + Send + Sync>);

impl WriteExecutor {
    /// Those to whom `run` hands work; it must not wait for it.
    pub fn new(run: impl Fn(WriteTask) + Send + Sync + 'static) -> WriteExecutor {
        WriteExecutor(Arc::new(run))
    }

    /// Carries on to the end, and answers where that comes before the caller's patience ends.
    pub(super) async fn run_detached<T: Send + 'static>(
        &self,
        patience: Option<Duration>,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Unanswered> {
        let (tell, told) = oneshot::channel();
        (self.0)(Box::pin(async move { drop(tell.send(work.await)) }));
        let told = match patience {
            Some(patience) => tokio::time::timeout(patience, told).await.map_err(|_| Unanswered::Late)?,
            None => told.await,
        };
        told.map_err(|_| Unanswered::Broken)
    }
}

impl Default for WriteExecutor {
    /// The runtime's own.
    fn default() -> Self {
        WriteExecutor::new(|work| drop(tokio::spawn(work)))
    }
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unanswered {
    /// The caller's patience ended. The work goes on.
    Late,
    /// The work broke down.
    Broken,
}

/// Whether a request may change something.
pub(super) fn may_change(method: &Method) -> bool {
    matches!(*method, Method::POST | Method::PUT | Method::PATCH | Method::DELETE)
}

#[cfg(test)]
mod tests;
