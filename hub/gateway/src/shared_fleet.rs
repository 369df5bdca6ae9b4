//! The state of the fleet as it is shared: by the gateway, which knows it first, and by everybody who asks.
//!
//! In: what sessions do and tell. Out: how each cluster's link stands, and calls of whoever is to look at a cluster ([`Wake`]). The state
//! itself is [`Fleet`], and decides; here are its lock, its clock and the handles of sessions. Nothing is awaited under the lock, and nobody
//! is called.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use karmada_certs::PeerIdentity;
use karmada_proto::v1::{CloseCode, Hello, RetryClass};
use parking_lot::Mutex;
use serde_json::Value;

use crate::clock_and_random::ClockAndRandom;
use crate::fleet::{
    ClusterLink, Entry, Fleet, Heard, HoldView, Newcomer, Progress, StatusVerdict, Wake, WorkProgressCache,
};
use crate::ports::Batch;
use crate::session::SessionOrder;
use crate::session_admission::close;
use crate::session_handle::SessionHandle;

/// The longest version of an agent that is kept.
const VERSION: usize = 64;

/// Calls whoever is to look at a cluster. Must return at once.
pub type Waker = dyn Fn(&str, Wake) + Send + Sync;

/// By which way a session came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Way {
    /// What carries its frames.
    pub transport: &'static str,
    /// The connection's other end, where it is known.
    pub address: Option<IpAddr>,
    /// The epoch that it was let into.
    pub epoch: u64,
}

/// The fleet's state.
pub struct SharedFleet {
    sources: ClockAndRandom,
    fleet: Mutex<Fleet<Arc<SessionHandle>>>,
    wake: Box<Waker>,
}

impl SharedFleet {
    /// Of no cluster yet. A link that was away for longer than `grace` is lost; `wake` is called after each change for those whom it
    /// concerns.
    pub fn new(
        sources: ClockAndRandom,
        grace: SignedDuration,
        wake: impl Fn(&str, Wake) + Send + Sync + 'static,
    ) -> Arc<Self> {
        let fleet = Mutex::new(Fleet::new(sources.now().wall, grace));
        Arc::new(Self { sources, fleet, wake: Box::new(wake) })
    }

    /// Where time and randomness come from.
    pub fn sources(&self) -> &ClockAndRandom {
        &self.sources
    }

    fn call(&self, cluster: &str, wakes: Vec<Wake>) {
        wakes.into_iter().for_each(|wake| (self.wake)(cluster, wake));
    }

    // -------------------------------------------------------------------------------------- sessions

    /// Makes this the session of its cluster and closes the one before. False where a newer one is there.
    pub(crate) fn enter(&self, handle: &Arc<SessionHandle>, hello: &Hello, way: Way) -> bool {
        let now = self.sources.now();
        let new = Newcomer {
            seq: handle.seq,
            boot_id: hello.boot_id.clone(),
            agent_version: hello.agent_version.chars().filter(|c| !c.is_control()).take(VERSION).collect(),
            certificate_ends: handle.peer.not_after,
            transport: way.transport,
            address: way.address,
            epoch: way.epoch,
            clock_offset_ms: hello.clock_ms.saturating_sub(now.wall.as_millisecond()),
            handle: handle.clone(),
        };
        let entry = self.fleet.lock().enter(&handle.cluster, new, now);
        if let Entry::Entered(Some(old)) = &entry {
            let message = "a newer session of this cluster took over".to_owned();
            old.fence();
            let pause = Duration::from_secs(10);
            old.order(SessionOrder::Close(close(
                CloseCode::Replaced,
                RetryClass::RetryAfter,
                pause,
                message,
            )));
        }
        matches!(entry, Entry::Entered(_))
    }

    /// The session ended. True where it was the current one.
    pub(crate) fn leave(&self, handle: &SessionHandle) -> bool {
        let left = self.fleet.lock().leave(&handle.cluster, handle.seq, self.sources.now().wall);
        handle.fence();
        let was_current = left.is_some();
        self.call(&handle.cluster, left.unwrap_or_default());
        was_current
    }

    /// The session says that it is there, or late.
    pub(crate) fn stands(&self, handle: &SessionHandle, is_late: bool) {
        let wakes = self.fleet.lock().stands(&handle.cluster, handle.seq, is_late, self.sources.now().wall);
        self.call(&handle.cluster, wakes);
    }

    /// The session tells of itself.
    pub(crate) fn progressed(&self, handle: &SessionHandle, progress: Progress) {
        if self.fleet.lock().progressed(&handle.cluster, handle.seq, progress) {
            handle.heard.notify_waiters();
        }
    }

    /// The agent was given a certificate that ends then.
    pub(crate) fn renewed(&self, handle: &SessionHandle, until: Timestamp) {
        let wakes = self.fleet.lock().renewed(&handle.cluster, handle.seq, until);
        self.call(&handle.cluster, wakes);
    }

    /// Whether this is the session of its cluster.
    pub(crate) fn is_current(&self, handle: &SessionHandle) -> bool {
        self.fleet.lock().is_current(&handle.cluster, handle.seq)
    }

    /// When the agent was last heard in this session, monotonic; `None` where it is not the cluster's session any more.
    pub(crate) fn heard_in(&self, handle: &SessionHandle) -> Option<Duration> {
        self.fleet.lock().heard_in(&handle.cluster, handle.seq)
    }

    pub(crate) fn handle(&self, cluster: &str) -> Option<Arc<SessionHandle>> {
        self.fleet.lock().handle(cluster)
    }

    pub(crate) fn handles(&self) -> Vec<Arc<SessionHandle>> {
        self.fleet.lock().handles()
    }

    pub(crate) fn dead(&self, grace: Duration) -> Vec<Arc<SessionHandle>> {
        self.fleet.lock().dead(self.sources.elapsed(), grace)
    }

    pub(crate) fn held(&self, cluster: &str, hold: HoldView) {
        let wakes = self.fleet.lock().held(cluster, hold);
        self.call(cluster, wakes);
    }

    pub(crate) fn confirmed(&self, cluster: &str, batch: Batch) {
        let wakes = self.fleet.lock().confirmed(cluster, batch);
        self.call(cluster, wakes);
    }

    /// The site has all that was held back from it.
    pub(crate) fn nothing_held(&self, cluster: &str) {
        let wakes = self.fleet.lock().nothing_held(cluster);
        self.call(cluster, wakes);
    }

    /// The certificate that the live session of `cluster` shows.
    pub fn peer(&self, cluster: &str) -> Option<PeerIdentity> {
        Some(self.handle(cluster)?.peer.clone())
    }

    /// Live sessions.
    pub fn sessions(&self) -> usize {
        self.fleet.lock().sessions()
    }

    // -------------------------------------------------------------------------------------- clusters

    /// There is such a Cluster.
    pub fn exists(&self, cluster: &str) {
        self.fleet.lock().exists(cluster);
    }

    /// There is no such Cluster any more.
    pub fn forget(&self, cluster: &str) {
        self.fleet.lock().forget(cluster);
    }

    /// It joined, perhaps again.
    pub fn joined(&self, cluster: &str) {
        let wakes = self.fleet.lock().joined(cluster, self.sources.now().wall);
        self.call(cluster, wakes);
    }

    /// What the agent `reported` was written, and the Cluster is now `written`.
    pub fn wrote(&self, cluster: &str, reported: &Value, written: &Value) {
        self.fleet.lock().wrote(cluster, reported, written);
    }

    /// Whether the Cluster, which is now `live`, says what its agent said last.
    pub fn verdict(&self, cluster: &str, live: &Value) -> StatusVerdict {
        self.fleet.lock().verdict(cluster, live, self.sources.now().wall)
    }

    /// Whether the agent is to be told that it counts by `wanted`, where agents begin with `standard`; both are digests.
    pub fn counts_otherwise(&self, cluster: &str, wanted: u64, standard: u64) -> bool {
        self.fleet.lock().counts_otherwise(cluster, wanted, standard)
    }

    /// The agent was told to count by grades of this digest.
    pub fn told_resource_models(&self, cluster: &str, digest: u64) {
        self.fleet.lock().told_resource_models(cluster, digest);
    }

    /// What was found of the cluster's Works when somebody looked last, to be given back.
    pub fn take_looks(&self, cluster: &str) -> WorkProgressCache {
        self.fleet.lock().take_looks(cluster)
    }

    /// Keeps what was found of the cluster's Works.
    pub fn keep_looks(&self, cluster: &str, looks: WorkProgressCache) {
        self.fleet.lock().keep_looks(cluster, looks);
    }

    // ----------------------------------------------------------------------------------------- views

    /// When the agent of `cluster` was heard, seen from `now`.
    pub fn heard(&self, cluster: &str, now: Timestamp) -> Heard {
        self.fleet.lock().heard(cluster, now)
    }

    /// Whether there is contact with the agent of `cluster`.
    pub fn has_contact(&self, cluster: &str) -> bool {
        self.fleet.lock().has_contact(cluster)
    }

    /// The link of `cluster`; of one that nothing is known of, an offline one.
    pub fn link(&self, cluster: &str) -> ClusterLink {
        self.fleet.lock().link(cluster, self.sources.now())
    }

    /// The links of all clusters that are known, by name.
    pub fn links(&self) -> Vec<ClusterLink> {
        self.fleet.lock().links(self.sources.now())
    }
}
