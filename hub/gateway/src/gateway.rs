//! All sessions of one hub: what is done to them from outside.
//!
//! In: what the hub wants of its agents (to leave, to report again, to trust other CAs), and identities that are looked at anew. Out:
//! orders to sessions, by their handles; sessions that are ended.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use bytes::Bytes;
use karmada_certs::PeerIdentity;
use karmada_proto::v1::{Close, CloseCode, RetryClass};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::awaited_tunnels::AwaitedTunnels;
use crate::encodings::Encodings;
use crate::options::Options;
use crate::ports::{Batch, Occurrence, PortError, Ports, Retention, SessionRefusal};
use crate::rate::{Buckets, LineBudget, Rate};
use crate::session::{Document, SessionOrder};
use crate::session_admission;
use crate::session_handle::SessionHandle;
use crate::shared_fleet::SharedFleet;

/// Refusals that are logged: what strangers cause must not fill a disk.
const REFUSALS_LOGGED: Rate = Rate { per_minute: 60.0, burst: 20.0 };
/// Clusters whose sessions are paced apart from each other's.
const PACED: usize = 100_000;

/// The gateway: all sessions of one hub.
pub struct Gateway {
    pub(crate) ports: Ports,
    pub(crate) options: Options,
    pub(crate) fleet: Arc<SharedFleet>,
    /// What all sessions together may have unpacked at once, in KiB.
    pub(crate) unpacked: Semaphore,
    /// The newest epoch that everybody was called into.
    entered: AtomicU64,
    pub(crate) tunnels: AwaitedTunnels,
    /// What sites share of their bodies, packed.
    pub(crate) encodings: Arc<Encodings>,
    /// What questions of all agents together may have unpacked while they are answered, in KiB: apart from reports, as a webhook may take long.
    pub(crate) unpacked_questions: Semaphore,
    /// Who decides for agents what of their objects stays.
    retention: OnceLock<Arc<dyn Retention>>,
    /// The documents that agents are told, by table.
    documents: Mutex<BTreeMap<i32, Arc<Document>>>,
    refusals: Mutex<LineBudget>,
    /// How often each cluster's sessions begin.
    beginnings: Mutex<Buckets<String>>,
    /// How often each cluster's agent gets a certificate.
    renewals: Mutex<Buckets<String>>,
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gateway").field("sessions", &self.fleet.sessions()).finish_non_exhaustive()
    }
}

impl Gateway {
    /// A gateway without sessions, which keeps what it knows of them in `fleet`. Must be called within a tokio runtime.
    pub fn new(ports: Ports, fleet: Arc<SharedFleet>, options: Options) -> Arc<Self> {
        let gateway = Arc::new(Self {
            unpacked: Semaphore::new(options.unpacked_kib as usize),
            unpacked_questions: Semaphore::new(options.unpacked_kib as usize),
            ports,
            options,
            fleet,
            entered: AtomicU64::new(0),
            tunnels: AwaitedTunnels::default(),
            encodings: Arc::default(),
            retention: OnceLock::new(),
            documents: Mutex::default(),
            refusals: Mutex::new(LineBudget::new(REFUSALS_LOGGED)),
            beginnings: Mutex::new(Buckets::new(PACED)),
            renewals: Mutex::new(Buckets::new(PACED)),
        });
        tokio::spawn(sweep(Arc::downgrade(&gateway), gateway.options.sweep));
        gateway
    }

    /// From now on it is asked of this one, for agents, what of their objects stays. The first that is named is asked.
    pub fn retain_by(&self, retention: Arc<dyn Retention>) {
        let _ = self.retention.set(retention);
    }

    pub(crate) fn retention(&self) -> Option<&Arc<dyn Retention>> {
        self.retention.get()
    }

    /// Takes sessions out whose agent is dead and whose stream cannot say so.
    fn bury(&self) {
        for handle in self.fleet.dead(self.options.sweep) {
            if self.fleet.leave(&handle) {
                // Should it come to life again, it must not believe that it is still connected.
                let message = "given up: nothing was heard, or taken, for too long".to_owned();
                let again =
                    session_admission::close(CloseCode::Dead, RetryClass::RetryNow, Duration::ZERO, message);
                handle.order(SessionOrder::Close(again));
                tracing::info!(cluster = handle.cluster, "a session that takes nothing is given up");
            }
        }
    }

    /// Ends the sessions whose certificates have ended by the clock on the wall: each looks at the time that it had left when it began, and
    /// the clock may have been set since.
    fn expire(&self) {
        let now = self.wall_ms();
        for handle in
            self.fleet.handles().iter().filter(|handle| handle.peer.not_after.as_millisecond() <= now)
        {
            self.end(handle, session_admission::expired());
        }
    }

    /// Ends the session of `cluster` where whoever it belongs to is refused now: it counts for nothing from here on, and its
    /// stream is closed. True where it was ended.
    pub async fn review(&self, cluster: &str) -> bool {
        let Some(handle) = self.fleet.handle(cluster) else { return false };
        match self.ports.registrar.authorize_session(&handle.peer).await {
            Ok(_) | Err(SessionRefusal::Unavailable(_)) => false,
            Err(refused) => {
                self.end(&handle, session_admission::refused(&refused));
                true
            }
        }
    }

    /// Takes a session out, so that nothing it says counts any more, and has its stream closed.
    pub(crate) fn end(&self, handle: &SessionHandle, close: Close) {
        self.ports.registrar.note(&Occurrence {
            verb: "disconnect",
            user: Some(&handle.peer.common_name),
            cluster: &handle.cluster,
            from: None,
            refused: Some(&close.message),
            pending: false,
        });
        tracing::info!(cluster = handle.cluster, why = close.message, "a session was ended");
        self.fleet.leave(handle);
        handle.order(SessionOrder::Close(close));
    }

    /// What is known of the fleet: its sessions and links.
    pub fn fleet(&self) -> &Arc<SharedFleet> {
        &self.fleet
    }

    /// Closes the sessions of peers that are not to stay as they are; they may come back at once, spread. How many they were.
    pub fn send_away(&self, goes: impl Fn(&PeerIdentity) -> bool) -> usize {
        let all = self.fleet.handles();
        let going: Vec<_> = all.iter().filter(|handle| goes(&handle.peer)).collect();
        for handle in &going {
            let message = "the CA of the agent's certificate is not trusted any more".to_owned();
            let after = session_admission::spread(self.random(), going.len(), self.options.accept_rate);
            let again = session_admission::close(CloseCode::Recycle, RetryClass::RetryNow, after, message);
            self.end(handle, again);
        }
        going.len()
    }

    /// Tells every agent which CAs are to be trusted now, so many a second as may also come: each asks for a new certificate then.
    pub async fn tell_trust(&self, revision: u64) {
        let mut pace = 0;
        for handle in self.fleet.handles() {
            handle.order(SessionOrder::Trust(revision));
            pace += 1;
            if pace % self.options.accept_rate.max(1) == 0 {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }

    /// The document of its table is this from now on: every agent that holds another is told, so many a second as may also come.
    pub async fn tell(&self, document: Arc<Document>) {
        self.documents.lock().insert(document.table as i32, document.clone());
        let mut pace = 0;
        for handle in self.fleet.handles() {
            // A newer one was told meanwhile, from the start.
            if self.documents.lock().get(&(document.table as i32)) != Some(&document) {
                return;
            }
            handle.order(SessionOrder::Tell(document.clone()));
            pace += 1;
            if pace % self.options.accept_rate.max(1) == 0 {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }

    /// The documents that a session which begins is told.
    pub(crate) fn documents(&self) -> Vec<Arc<Document>> {
        self.documents.lock().values().cloned().collect()
    }

    /// Has the agent of `cluster` tell the cluster's status again. True where it is connected.
    pub fn ask_cluster_status(&self, cluster: &str) -> bool {
        let Some(handle) = self.fleet.handle(cluster) else { return false };
        handle.order(SessionOrder::AskCluster);
        true
    }

    /// Has the agent of `cluster` count free nodes by these grades, JSON of `spec.resourceModels`. True where it is connected.
    pub fn count_by(&self, cluster: &str, models: Bytes) -> bool {
        let Some(handle) = self.fleet.handle(cluster) else { return false };
        handle.order(SessionOrder::CountBy(models));
        true
    }

    /// A person let these deletes, which are held back from `cluster`, go out. Harmless where none are, and where they were listed in a
    /// life of the hub that was taken back.
    pub fn confirm_deletes(&self, cluster: &str, batch: Batch) {
        if !batch.is_of_this_history(&*self.ports.sessions, None) {
            return;
        }
        self.fleet.confirmed(cluster, batch);
        if let Some(handle) = self.fleet.handle(cluster) {
            handle.order(SessionOrder::ConfirmDeletes(batch));
        }
    }

    /// Of `orphans`, the names that stand on `cluster` as such, forgets those that are Works of the hub's by now: what was decided was of the objects of another,
    /// and must not be carried out once this Work is gone. Writes nothing where there are none.
    ///
    /// # Errors
    /// The Cluster cannot be written now.
    pub async fn forget_placed_orphans(
        &self,
        cluster: &str,
        orphans: &BTreeSet<&str>,
    ) -> Result<(), PortError> {
        if !orphans.iter().any(|key| self.ports.works.holds(cluster, key)) {
            return Ok(());
        }
        self.ports.statuses.orphans(cluster, Vec::new()).await
    }

    /// Has the site of `cluster` let go of what it enforces and the hub knows nothing of: names, and whether their objects stay.
    /// Harmless where it did already.
    pub fn let_go(&self, cluster: &str, decided: Vec<(String, bool)>) {
        if let Some(handle) = self.fleet.handle(cluster) {
            let is_orphan = |(key, _): &(String, bool)| !self.ports.works.holds(cluster, key);
            handle.order(SessionOrder::LetGo(decided.into_iter().filter(is_orphan).collect()));
        }
    }

    /// Asks every agent to leave, spread over half of `within`, and returns once all have, or once `within` and a
    /// second for the last have passed. Stop accepting connections first: who leaves comes back at once.
    pub async fn drain(&self, within: Duration) {
        let handles = self.fleet.handles();
        for handle in &handles {
            // Drawn, so that two hubs that stop at once do not send their agents to a third in the same order.
            let after = (within / 2).mul_f64(self.random() as f64 / u64::MAX as f64);
            handle.order(SessionOrder::Drain(after));
        }
        let until = self.now() + within + Duration::from_secs(1);
        while self.fleet.sessions() > 0 && self.now() < until {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Calls everybody into `epoch`, once: who is connected speaks an older one and comes back at once, spread.
    pub(crate) fn enter_epoch(&self, epoch: u64) {
        if self.entered.fetch_max(epoch, Ordering::AcqRel) >= epoch {
            return;
        }
        let handles = self.fleet.handles();
        for handle in &handles {
            let message = "the hub entered a new epoch".to_owned();
            let after = session_admission::spread(self.random(), handles.len(), self.options.accept_rate);
            let again = session_admission::close(CloseCode::Recycle, RetryClass::RetryNow, after, message);
            handle.order(SessionOrder::Close(again));
        }
    }

    /// Whether a session of `cluster` may begin now: each costs a write that is synced, and a line of the log.
    pub(crate) fn paced(&self, cluster: &str) -> Result<(), Close> {
        let taken = self.beginnings.lock().take(cluster.to_owned(), self.options.session_rate, self.now());
        taken.map_err(session_admission::too_often)
    }

    /// Whether the agent of `cluster` may be given a certificate now, or after how long.
    pub(crate) fn may_renew(&self, cluster: &str) -> Result<(), Duration> {
        self.renewals.lock().take(cluster.to_owned(), self.options.renewal_rate, self.now())
    }

    /// Whether a line about a refusal may be logged, and how many before it were not.
    pub(crate) fn may_log_refusal(&self) -> Option<u64> {
        self.refusals.lock().line(self.now())
    }

    /// Monotonic time, on the clock that a connection's bytes are timed by (`karmada_proto::last_read::LastRead`).
    pub fn now(&self) -> Duration {
        self.fleet.sources().elapsed()
    }

    /// What the hub's clock shows, milliseconds since 1970 UTC.
    pub(crate) fn wall_ms(&self) -> i64 {
        self.fleet.sources().now().wall.as_millisecond()
    }

    pub(crate) fn instant(&self, at: Duration) -> Instant {
        self.fleet.sources().instant(at)
    }

    pub(crate) fn random(&self) -> u64 {
        self.fleet.sources().random()
    }
}

/// What no session sees by itself. A stream is polled only while its agent takes what is sent: one that takes nothing never looks at its
/// clock; and none looks at the clock on the wall.
async fn sweep(gateway: Weak<Gateway>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        match gateway.upgrade() {
            Some(gateway) => {
                gateway.bury();
                gateway.expire();
            }
            None => return,
        }
    }
}
