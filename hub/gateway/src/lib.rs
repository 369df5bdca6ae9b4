//! The fleet's end of the stream, on the hub.
//!
//! Comes in: agents' gRPC calls, already authenticated by the listener (the verified peer's
//! `karmada_certs::PeerIdentity` is found in the request's extensions; none means no client certificate; beside it, where the
//! listener tells, the connection's `karmada_proto::pulse::Pulse`). Goes
//! out: Works to agents, reports to the hub's ports. Mount [`Gateway::service`] on the hub's one port.
//!
//! - [`session`]: one agent's session as a pure state machine; [`stream`]: the shell around it.
//! - [`queue`], [`inbox`]: what waits to be sent, and to be written; [`wire`]: what of a Work is sent.
//! - [`admission`], [`service`], [`registry`]: who becomes a session, and which one is current.
//! - [`join`], [`rate`]: how strangers become agents, and how often anybody may.
//! - [`ports`]: what the hub implements.

pub mod admission;
pub mod inbox;
pub mod join;
pub mod options;
pub mod ports;
pub mod queue;
pub mod rate;
pub mod registry;
pub mod service;
pub mod session;
mod stream;
mod wire;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use karmada_certs::PeerIdentity;
use karmada_proto::MESSAGE_LIMIT;
use karmada_proto::join::JOIN_LIMIT;
use karmada_proto::v1::fleet_server::FleetServer;
use karmada_proto::v1::{Close, CloseCode, RetryClass};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::Instant;

pub use options::Options;
pub use ports::Ports;
pub use rate::{LineBudget, Rate};
pub use registry::SessionView;
pub use service::FleetService;

/// Refusals that are logged: what strangers cause must not fill a disk.
const REFUSALS_LOGGED: Rate = Rate { per_minute: 60.0, burst: 20.0 };

/// The gateway: all sessions of one hub.
pub struct Gateway {
    ports: Ports,
    options: Options,
    registry: registry::Registry,
    /// What all sessions together may have unpacked at once, in KiB.
    unpacked: Semaphore,
    started: Instant,
    wall_clock: fn() -> i64,
    random: fn() -> u64,
    /// The newest epoch that everybody was called into.
    entered: AtomicU64,
    refusals: Mutex<LineBudget>,
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gateway").field("sessions", &self.registry.count()).finish_non_exhaustive()
    }
}

impl Gateway {
    /// A gateway without sessions. Must be called within a tokio runtime.
    pub fn new(ports: Ports, options: Options) -> Arc<Self> {
        let wall_clock = || jiff::Timestamp::now().as_millisecond();
        let registry = registry::Registry::default();
        let refusals = Mutex::new(LineBudget::new(REFUSALS_LOGGED));
        let random = || RandomState::new().build_hasher().finish();
        let unpacked = Semaphore::new(options.unpacked_kib as usize);
        let gateway = Arc::new(Self {
            unpacked,
            ports,
            options,
            registry,
            started: Instant::now(),
            wall_clock,
            random,
            entered: AtomicU64::new(0),
            refusals,
        });
        tokio::spawn(sweep(Arc::downgrade(&gateway), gateway.options.sweep));
        gateway
    }

    /// Takes sessions out whose agent is dead and whose stream cannot say so.
    fn bury(&self) {
        let now = self.now();
        for handle in self.registry.all() {
            if now > handle.dead_at().saturating_add(self.options.sweep) && self.registry.leave(&handle) {
                // Should it come to life again, it must not believe that it is still connected.
                let message = "given up: nothing was heard, or taken, for too long".to_owned();
                let again = admission::close(CloseCode::Dead, RetryClass::RetryNow, Duration::ZERO, message);
                handle.order(session::Control::Close(again));
                tracing::info!(cluster = handle.cluster, "a session that takes nothing is given up");
                self.ports.statuses.cluster_liveness(&handle.cluster, ports::LinkState::Offline);
            }
        }
    }

    /// The tonic service, for any number of ports.
    pub fn service(self: &Arc<Self>) -> FleetServer<FleetService> {
        FleetServer::new(FleetService::new(self.clone())).max_decoding_message_size(MESSAGE_LIMIT)
    }

    /// The same for callers who showed no certificate: they can only join, and what they say is short.
    pub fn service_for_strangers(self: &Arc<Self>) -> FleetServer<FleetService> {
        FleetServer::new(FleetService::new(self.clone())).max_decoding_message_size(JOIN_LIMIT)
    }

    /// Ends the session of `cluster` where whoever it belongs to is refused now: it counts for nothing from here on, and its
    /// stream is closed. True where it was ended.
    pub async fn review(&self, cluster: &str) -> bool {
        let Some(handle) = self.registry.get(cluster) else { return false };
        let Some(peer) = &handle.peer else { return false };
        match self.ports.registrar.authorize_session(peer).await {
            Ok(_) | Err(ports::SessionRefusal::Unavailable(_)) => false,
            Err(refused) => {
                self.end(&handle, admission::refused(&refused));
                true
            }
        }
    }

    /// The certificate that the live session of `cluster` shows.
    pub fn peer(&self, cluster: &str) -> Option<PeerIdentity> {
        self.registry.get(cluster)?.peer.clone()
    }

    /// When the certificate of the agent of `cluster` ends, the one that it was given last.
    pub fn certificate_ends(&self, cluster: &str) -> Option<jiff::Timestamp> {
        self.registry.get(cluster)?.certificate_ends()
    }

    /// Takes a session out, so that nothing it says counts any more, and has its stream closed.
    fn end(&self, handle: &registry::Handle, close: Close) {
        let user = handle.peer.as_ref().map(|peer| peer.common_name.as_str());
        self.ports.registrar.note(&ports::Occurrence {
            verb: "disconnect",
            user,
            cluster: &handle.cluster,
            from: None,
            refused: Some(&close.message),
            pending: false,
        });
        tracing::info!(cluster = handle.cluster, why = close.message, "a session was ended");
        if self.registry.leave(handle) {
            self.ports.statuses.cluster_liveness(&handle.cluster, ports::LinkState::Offline);
        }
        handle.order(session::Control::Close(close));
    }

    /// The live sessions, by cluster.
    pub fn sessions(&self) -> Vec<SessionView> {
        self.registry.views(self.now())
    }

    /// The live session of `cluster`.
    pub fn session(&self, cluster: &str) -> Option<SessionView> {
        Some(self.registry.get(cluster)?.view(self.now()))
    }

    /// Closes the session of `cluster`, whose identity is no longer accepted. True where there was one.
    pub fn disconnect(&self, cluster: &str, code: CloseCode, message: &str) -> bool {
        let Some(handle) = self.registry.get(cluster) else { return false };
        let pause = Duration::from_secs(60);
        let close = admission::close(code, RetryClass::Rejoin, pause, message.to_owned());
        handle.order(session::Control::Close(close));
        true
    }

    /// Closes the sessions of peers that are not to stay as they are; they may come back at once, spread. How many they were.
    pub fn send_away(&self, goes: impl Fn(&PeerIdentity) -> bool) -> usize {
        let all = self.registry.all();
        let going: Vec<_> = all.iter().filter(|handle| handle.peer.as_ref().is_some_and(&goes)).collect();
        for handle in &going {
            let message = "the CA of the agent's certificate is not trusted any more".to_owned();
            let after = admission::spread((self.random)(), going.len(), self.options.accept_rate);
            let again = admission::close(CloseCode::Recycle, RetryClass::RetryNow, after, message);
            self.end(handle, again);
        }
        going.len()
    }

    /// Tells every agent which CAs are to be trusted now, so many a second as may also come: each asks for a new certificate then.
    pub async fn tell_trust(&self, revision: u64) {
        let mut pace = 0;
        for handle in self.registry.all() {
            handle.order(session::Control::Trust(revision));
            pace += 1;
            if pace % self.options.accept_rate.max(1) == 0 {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }

    /// Has the agent of `cluster` tell the cluster's status again. True where it is connected.
    pub fn ask_cluster_status(&self, cluster: &str) -> bool {
        let Some(handle) = self.registry.get(cluster) else { return false };
        handle.order(session::Control::AskCluster);
        true
    }

    /// Has the agent of `cluster` count free nodes by these grades, JSON of `spec.resourceModels`. True where it is connected.
    pub fn count_by(&self, cluster: &str, models: Bytes) -> bool {
        let Some(handle) = self.registry.get(cluster) else { return false };
        handle.order(session::Control::CountBy(models));
        true
    }

    /// A person let the deletes that are held back from `cluster` in `epoch` go out. Harmless where none are.
    pub fn confirm_deletes(&self, cluster: &str, epoch: u64) {
        if let Some(handle) = self.registry.get(cluster) {
            handle.order(session::Control::ConfirmDeletes(epoch));
        }
    }

    /// Asks every agent to leave, spread over half of `within`, and returns once all have, or once `within` and a
    /// second for the last have passed. Stop accepting connections first: who leaves comes back at once.
    pub async fn drain(&self, within: Duration) {
        let handles = self.registry.all();
        for handle in &handles {
            // Drawn, so that two hubs that stop at once do not send their agents to a third in the same order.
            let after = (within / 2).mul_f64((self.random)() as f64 / u64::MAX as f64);
            handle.order(session::Control::Drain(after));
        }
        let until = Instant::now() + within + Duration::from_secs(1);
        while self.registry.count() > 0 && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Calls everybody into `epoch`, once: who is connected speaks an older one and comes back at once, spread.
    fn enter_epoch(&self, epoch: u64) {
        if self.entered.fetch_max(epoch, Ordering::AcqRel) >= epoch {
            return;
        }
        let handles = self.registry.all();
        for handle in &handles {
            let message = "the hub entered a new epoch".to_owned();
            let after = admission::spread((self.random)(), handles.len(), self.options.accept_rate);
            let again = admission::close(CloseCode::Recycle, RetryClass::RetryNow, after, message);
            handle.order(session::Control::Close(again));
        }
    }

    /// Where the gateway's clock begins: what tells it of a connection's bytes (`karmada_proto::pulse::Pulse`, in a request's
    /// extensions) counts from here.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Monotonic time since this gateway began.
    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn instant(&self, at: Duration) -> Instant {
        self.started + at
    }
}

/// A stream is polled only while its agent takes what is sent: one that takes nothing never looks at its clock.
async fn sweep(gateway: Weak<Gateway>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        match gateway.upgrade() {
            Some(gateway) => gateway.bury(),
            None => return,
        }
    }
}

/// A gateway over `ports` and the service to mount.
pub fn service(ports: Ports, options: Options) -> (Arc<Gateway>, FleetServer<FleetService>) {
    let gateway = Gateway::new(ports, options);
    let service = gateway.service();
    (gateway, service)
}
