//! The live sessions, one per cluster, and their fence: a newer session number closes an older one.
//!
//! No socket is awaited under the lock (rule R20). A session's end unregisters it only where it is still the
//! current one, so that a late clean-up never takes a newer session away (rule R2).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::task::AtomicWaker;
use karmada_certs::PeerIdentity;
use karmada_proto::v1::{CloseCode, RetryClass};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::admission::close;
use crate::session::Control;

/// The longest version of an agent that is kept.
const VERSION: usize = 64;

/// What others see of a session, and how they reach it.
#[derive(Debug)]
pub struct Handle {
    /// The cluster.
    pub cluster: String,
    /// The session's number.
    pub seq: u64,
    /// Of the agent's process.
    pub boot_id: String,
    /// For display.
    pub agent_version: String,
    /// Wall clock at the start, milliseconds since 1970 UTC.
    pub since_ms: i64,
    /// Whose certificate the stream shows.
    pub peer: Option<PeerIdentity>,
    /// Wakes the session's stream.
    pub waker: AtomicWaker,
    /// A frame was heard.
    pub heard: Notify,
    heard_at: AtomicU64,
    dead_at: AtomicU64,
    acked: AtomicU64,
    backlog: AtomicU64,
    controls: Mutex<VecDeque<Control>>,
    fenced: Mutex<bool>,
    /// When the certificate ends that was given in this session.
    renewed_until: Mutex<Option<jiff::Timestamp>>,
}

impl Handle {
    /// A handle for a session about to open.
    pub fn new(
        cluster: &str,
        seq: u64,
        hello: &karmada_proto::v1::Hello,
        since_ms: i64,
        now: Duration,
    ) -> Self {
        Self {
            cluster: cluster.to_owned(),
            seq,
            boot_id: hello.boot_id.clone(),
            agent_version: hello.agent_version.chars().filter(|c| !c.is_control()).take(VERSION).collect(),
            since_ms,
            peer: None,
            waker: AtomicWaker::new(),
            heard: Notify::new(),
            heard_at: AtomicU64::new(now.as_micros() as u64),
            dead_at: AtomicU64::new(u64::MAX),
            acked: AtomicU64::new(0),
            backlog: AtomicU64::new(0),
            controls: Mutex::default(),
            fenced: Mutex::new(false),
            renewed_until: Mutex::default(),
        }
    }

    /// The same, for a stream that shows this certificate.
    #[must_use]
    pub fn of(mut self, peer: &PeerIdentity) -> Self {
        self.peer = Some(peer.clone());
        self
    }

    /// The agent was given a certificate that ends then.
    pub fn renewed(&self, until: jiff::Timestamp) {
        *self.renewed_until.lock() = Some(until);
    }

    /// When the agent's certificate ends, the one that it was given last.
    pub fn certificate_ends(&self) -> Option<jiff::Timestamp> {
        let renewed = *self.renewed_until.lock();
        renewed.or_else(|| self.peer.as_ref().map(|peer| peer.not_after))
    }

    /// Gives the session an order.
    pub fn order(&self, control: Control) {
        self.controls.lock().push_back(control);
        self.waker.wake();
    }

    /// The next order.
    pub fn take_order(&self) -> Option<Control> {
        self.controls.lock().pop_front()
    }

    /// Nothing more is written in this session's name. Returns once nothing is being written.
    pub fn fence(&self) {
        *self.fenced.lock() = true;
    }

    /// Does `write` unless the session is fenced, which it then is not before `write` is over.
    pub fn unless_fenced<T>(&self, write: impl FnOnce() -> T) -> Option<T> {
        let fenced = self.fenced.lock();
        (!*fenced).then(write)
    }

    /// Notes how the session stands.
    pub fn note(&self, heard_at: Duration, dead_at: Duration, acked: u64, backlog: usize) {
        self.dead_at.store(dead_at.as_micros() as u64, Ordering::Relaxed);
        let heard_at = heard_at.as_micros() as u64;
        if self.heard_at.swap(heard_at, Ordering::Relaxed) != heard_at {
            self.heard.notify_waiters();
        }
        self.acked.store(acked, Ordering::Relaxed);
        self.backlog.store(backlog as u64, Ordering::Relaxed);
    }

    /// As others see it.
    pub fn view(&self, now: Duration) -> SessionView {
        SessionView {
            cluster: self.cluster.clone(),
            seq: self.seq,
            agent_version: self.agent_version.clone(),
            since_ms: self.since_ms,
            silent: now.saturating_sub(self.heard_at()),
            acked: self.acked.load(Ordering::Relaxed),
            backlog: self.backlog.load(Ordering::Relaxed),
        }
    }

    /// From when on silence is death, on the gateway's clock.
    pub fn dead_at(&self) -> Duration {
        Duration::from_micros(self.dead_at.load(Ordering::Relaxed))
    }

    /// When a frame was last heard, on the gateway's clock.
    pub fn heard_at(&self) -> Duration {
        Duration::from_micros(self.heard_at.load(Ordering::Relaxed))
    }
}

/// A live session as others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionView {
    /// The cluster.
    pub cluster: String,
    /// The session's number.
    pub seq: u64,
    /// For display.
    pub agent_version: String,
    /// Wall clock at the start, milliseconds since 1970 UTC.
    pub since_ms: i64,
    /// How long the agent has been silent.
    pub silent: Duration,
    /// The newest revision that the agent has stored.
    pub acked: u64,
    /// Works waiting to be sent.
    pub backlog: u64,
}

/// The live sessions.
#[derive(Debug, Default)]
pub struct Registry {
    live: Mutex<BTreeMap<String, Arc<Handle>>>,
}

impl Registry {
    /// The session of `cluster`.
    pub fn get(&self, cluster: &str) -> Option<Arc<Handle>> {
        self.live.lock().get(cluster).cloned()
    }

    /// Makes `handle` the session of its cluster and closes the one before. False where a newer one is there.
    pub fn enter(&self, handle: &Arc<Handle>) -> bool {
        let old = {
            let mut live = self.live.lock();
            if live.get(&handle.cluster).is_some_and(|old| old.seq >= handle.seq) {
                return false;
            }
            live.insert(handle.cluster.clone(), handle.clone())
        };
        if let Some(old) = old {
            let message = "a newer session of this cluster took over".to_owned();
            let pause = Duration::from_secs(10);
            old.fence();
            let replaced = close(CloseCode::Replaced, RetryClass::RetryAfter, pause, message);
            old.order(Control::Close(replaced));
        }
        true
    }

    /// The session ended. True where it was the current one.
    pub fn leave(&self, handle: &Handle) -> bool {
        let mut live = self.live.lock();
        let current = live.get(&handle.cluster).is_some_and(|live| live.seq == handle.seq);
        if current {
            live.remove(&handle.cluster);
        }
        drop(live);
        handle.fence();
        current
    }

    /// Whether this is the session of its cluster now.
    pub fn is_current(&self, handle: &Handle) -> bool {
        self.live.lock().get(&handle.cluster).is_some_and(|live| live.seq == handle.seq)
    }

    /// Live sessions.
    pub fn count(&self) -> usize {
        self.live.lock().len()
    }

    /// All handles, by cluster.
    pub fn all(&self) -> Vec<Arc<Handle>> {
        self.live.lock().values().cloned().collect()
    }

    /// All sessions as others see them.
    pub fn views(&self, now: Duration) -> Vec<SessionView> {
        self.all().iter().map(|handle| handle.view(now)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_proto::v1::Hello;

    fn handle(seq: u64) -> Arc<Handle> {
        Arc::new(Handle::new("a", seq, &Hello::default(), 0, Duration::ZERO))
    }

    #[test]
    fn a_newer_session_closes_the_older_and_outlives_its_clean_up() {
        let registry = Registry::default();
        let (one, two) = (handle(1), handle(2));
        assert!(registry.enter(&one) && registry.enter(&two));
        assert!(
            matches!(one.take_order(), Some(Control::Close(close)) if close.code() == CloseCode::Replaced)
        );
        assert!(!registry.leave(&one), "the old session's clean-up comes late");
        assert_eq!(registry.get("a").unwrap().seq, 2);
        assert!(!registry.enter(&handle(2)) && !registry.enter(&one), "an older number never enters");
        assert!(registry.leave(&two));
        assert_eq!(registry.count(), 0);
    }
}
