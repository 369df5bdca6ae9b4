//! Sessions side by side, with the hub's ports faked and the clock paused: who may still write, and who is told.

mod clocks;
mod questions;
mod replaced;
mod reports;
mod restores;
mod transports;
mod tunnels;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use futures::channel::mpsc;
use futures::stream;
use karmada_certs::{CertificateRequest, PeerIdentity};
use karmada_proto::v1::{Ack, CloseCode, Credit, Hello, Orphans, Ping, RenewRequest, WorkStatus, hub_frame};
use karmada_proto::{body, frame};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::*;
use crate::connection::{self, Caller, open};
use crate::fleet::LinkState;
use crate::options::Options;
use crate::ports::*;
use crate::shared_fleet::SharedFleet;
use crate::testing::{peer, sources};

#[derive(Default)]
struct Fake {
    /// What was written of each Work, in order.
    written: Mutex<Vec<String>>,
    /// So many writes of a Work's status fail first, as on a disk that is full for a moment.
    fails: AtomicU64,
    /// Writes wait for this.
    gate: Notify,
    gated: AtomicBool,
    /// Where each watch was asked to resume.
    resumed: Mutex<Vec<Option<u64>>>,
    sessions: AtomicU64,
    epoch: AtomicU64,
    minted: AtomicU64,
    confirmed: Mutex<Option<Batch>>,
    held: Mutex<Option<(Batch, u64)>>,
    holding: Mutex<Option<RestoreHold>>,
    decided: Mutex<Vec<(String, bool)>>,
    deleting: AtomicBool,
    /// Past the first: the store's revision, and that of what is deleted.
    revision: AtomicU64,
    deleted_at: AtomicU64,
    /// Who is connecting.
    cluster: Mutex<String>,
    /// Which Cluster of that name it is.
    uid: Mutex<String>,
    renewals: AtomicU64,
    revoked: AtomicBool,
    revoke_while_watching: AtomicBool,
    /// How often an identity is still accepted; zero: always.
    accepted: AtomicU64,
    most_at_once: AtomicU64,
    at_once: AtomicU64,
    /// Bytes of unpacked reports, likewise.
    most_bytes: AtomicU64,
    bytes: AtomicU64,
}

#[async_trait]
impl WorkSource for Fake {
    async fn watch(&self, _: &str, resume: Option<u64>) -> Result<WorkFeed, PortError> {
        self.resumed.lock().push(resume);
        if self.revoke_while_watching.load(Ordering::SeqCst) {
            self.revoked.store(true, Ordering::SeqCst);
        }
        let json = br#"{"metadata":{"name":"w","uid":"u","deletionTimestamp":"2026-01-01T00:00:00Z"}}"#;
        let (now, deleted) = (self.revision.load(Ordering::SeqCst), self.deleted_at.load(Ordering::SeqCst));
        let work = Work::from_json(deleted.max(1), Bytes::from_static(json).into())
            .map_err(|e| PortError::never(e.to_string()))?;
        let listed = [WorkEvent::Upsert(work), WorkEvent::Synced { revision: now.max(1) }];
        let listed = if self.deleting.load(Ordering::SeqCst) { listed.to_vec() } else { Vec::new() };
        Ok(WorkFeed { full_listing: true, events: stream::iter(listed).chain(stream::pending()).boxed() })
    }
    fn holds(&self, _: &str, key: &str) -> bool {
        key.starts_with('w')
    }
    fn all(&self, _: &str) -> Vec<Work> {
        Vec::new()
    }
    fn find(&self, cluster: &str, key: &str) -> Option<Work> {
        questions::work().filter(|work| cluster == "m" && *work.key == *key)
    }
}

#[async_trait]
impl StatusSink for Fake {
    async fn work_status(&self, _: &str, report: WorkReport) -> Result<(), PortError> {
        let now = self.at_once.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_at_once.fetch_max(now, Ordering::SeqCst);
        let size = report.manifest_statuses.as_ref().map_or(0, |unpacked| unpacked.len() as u64);
        let bytes = self.bytes.fetch_add(size, Ordering::SeqCst) + size;
        self.most_bytes.fetch_max(bytes, Ordering::SeqCst);
        if self.gated.load(Ordering::SeqCst) {
            self.gate.notified().await;
        }
        self.bytes.fetch_sub(size, Ordering::SeqCst);
        self.at_once.fetch_sub(1, Ordering::SeqCst);
        if self.fails.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
            return Err(PortError::later("the disk is full"));
        }
        self.written.lock().push(format!("{}@{}", report.key, report.revision));
        Ok(())
    }
    async fn cluster_status(&self, _: &str, _: Bytes) -> Result<(), PortError> {
        Ok(())
    }
    async fn finalize_work(&self, _: &str, key: &str, _: &str, _: &[String]) -> Result<(), PortError> {
        self.written.lock().push(format!("finalized {key}"));
        Ok(())
    }
    async fn event(&self, _: &str, _: WorkNotice) -> Result<(), PortError> {
        Ok(())
    }
    async fn orphans(&self, _: &str, _: Vec<String>) -> Result<(), PortError> {
        Ok(())
    }
    fn orphans_decided(&self, _: &str) -> Vec<(String, bool)> {
        self.decided.lock().clone()
    }
    fn deletes_confirmed(&self, _: &str) -> Option<Batch> {
        *self.confirmed.lock()
    }
    fn deletes_held(&self, _: &str, batch: Batch, count: u64) {
        *self.held.lock() = Some((batch, count));
    }
}

#[async_trait]
impl Registrar for Fake {
    async fn join(&self, _: JoinAsk) -> Result<JoinOutcome, PortError> {
        Err(PortError::never("not here"))
    }
    fn uid_of(&self, _: &str) -> String {
        self.uid.lock().clone()
    }
    async fn authorize_session(&self, _: &PeerIdentity) -> Result<String, SessionRefusal> {
        let count = |left: u64| left.checked_sub(1);
        let is_last = self.accepted.fetch_update(Ordering::SeqCst, Ordering::SeqCst, count) == Ok(1);
        let revoked = if is_last {
            self.revoked.swap(true, Ordering::SeqCst)
        } else {
            self.revoked.load(Ordering::SeqCst)
        };
        if revoked {
            Err(SessionRefusal::Revoked("shut out".into()))
        } else {
            Ok(self.cluster.lock().clone())
        }
    }
    async fn renew(&self, _: &str, _: &PeerIdentity, _: CertificateRequest) -> Result<JoinGrant, PortError> {
        self.renewals.fetch_add(1, Ordering::SeqCst);
        Err(PortError::never("not here"))
    }
}

#[async_trait]
impl SessionStore for Fake {
    async fn position(&self) -> Result<Position, PortError> {
        Ok(Position {
            epoch: self.epoch.load(Ordering::SeqCst) + 1,
            revision: self.revision.load(Ordering::SeqCst).max(1),
            timeline: 1,
        })
    }
    async fn mint_epoch_above(&self, seen: u64) -> Result<u64, PortError> {
        self.minted.fetch_add(1, Ordering::SeqCst);
        self.epoch.store(seen, Ordering::SeqCst);
        Ok(seen + 1)
    }
    async fn set_restore_hold(&self, _: &str, held: &RestoreHold) -> Result<(), PortError> {
        *self.holding.lock() = Some(held.clone());
        Ok(())
    }
    async fn restore_hold(&self, _: &str) -> Result<Option<RestoreHold>, PortError> {
        Ok(self.holding.lock().clone())
    }
    fn seal(&self, epoch: u64) -> Bytes {
        Bytes::from(format!("sealed {epoch}"))
    }
    fn is_sealed(&self, epoch: u64, seal: &[u8]) -> bool {
        *seal == self.seal(epoch)[..]
    }
    async fn end_restore_hold(&self, _: &str, held: Batch) -> Result<(), PortError> {
        self.holding.lock().take_if(|now| now.batch == held);
        Ok(())
    }
    fn in_our_past(&self, timeline: u64, cursor: u64) -> bool {
        timeline == 1 && cursor < 1000
    }
    /// Of "m" by the plain number, of others by one of their own.
    fn told_as(&self, timeline: u64, whose: ClusterIncarnation<'_>) -> u64 {
        let is_m = whose == ClusterIncarnation { cluster: "m", uid: "" };
        if is_m { timeline } else { timeline + 1000 * (whose.cluster.len() + 10 * whose.uid.len()) as u64 }
    }
    fn told(&self, whose: ClusterIncarnation<'_>, timeline: u64, cursor: u64) -> CursorOrigin {
        match timeline {
            _ if !self.in_our_past(timeline % 1000, cursor) => CursorOrigin::InAnotherLife,
            _ if self.told_as(1, whose) == timeline => CursorOrigin::ThisCluster,
            _ => CursorOrigin::AnotherCluster,
        }
    }
    async fn next_session(&self, _: &str) -> Result<u64, PortError> {
        Ok(self.sessions.fetch_add(1, Ordering::SeqCst) + 1)
    }
}

/// What a transport says that broke.
#[derive(Debug)]
struct Broken;

struct Rig {
    fake: Arc<Fake>,
    gateway: Arc<Gateway>,
    peer: PeerIdentity,
}

type Inbound = mpsc::UnboundedReceiver<Result<AgentFrame, Broken>>;
type Frames = mpsc::UnboundedSender<Result<AgentFrame, Broken>>;

impl Rig {
    fn new() -> Self {
        Self::over(sources())
    }

    fn over(sources: crate::clock_and_random::ClockAndRandom) -> Self {
        let fake = Arc::new(Fake::default());
        let ports = Ports {
            works: fake.clone(),
            statuses: fake.clone(),
            registrar: fake.clone(),
            sessions: fake.clone(),
        };
        let fleet = SharedFleet::new(sources, jiff::SignedDuration::from_hours(1), |_, _| {});
        Self { fake, gateway: Gateway::new(ports, fleet, Options::default()), peer: peer("m") }
    }

    fn link(&self, cluster: &str) -> LinkState {
        self.gateway.fleet().link(cluster).state
    }

    async fn open(&self) -> Result<(Frames, SessionStream<Inbound>), CloseCode> {
        self.open_with("m", |_| {}).await
    }

    async fn open_with(
        &self,
        cluster: &str,
        change: impl FnOnce(&mut Hello),
    ) -> Result<(Frames, SessionStream<Inbound>), CloseCode> {
        *self.fake.cluster.lock() = cluster.to_owned();
        let (frames, inbound) = mpsc::unbounded();
        let mut hello = hello(cluster);
        change(&mut hello);
        frames.unbounded_send(Ok(frame::agent(agent_frame::Body::Hello(hello)))).unwrap();
        let caller = Caller {
            peer: self.peer.clone(),
            from: None,
            last_read: LastRead::default(),
            transport: "memory",
        };
        let opened = open(&self.gateway, &caller, inbound).await;
        opened.map(|session| (frames, session)).map_err(|close| close.code())
    }
}

fn hello(cluster: &str) -> Hello {
    Hello {
        protocol_min: 1,
        protocol_max: 1,
        cluster_name: cluster.into(),
        boot_id: "b".into(),
        credit: Some(Credit { messages: 100, bytes: 1 << 20 }),
        ..Hello::default()
    }
}

fn status(key: &str, revision: u64, size: usize) -> Result<AgentFrame, Broken> {
    let encoded = body::encode(&Bytes::from(format!("[{}]", " ".repeat(size))));
    Ok(frame::agent(agent_frame::Body::WorkStatus(WorkStatus {
        key: key.into(),
        revision,
        encoding: encoded.encoding.into(),
        decoded_size: encoded.decoded_size,
        manifest_statuses: encoded.bytes,
        ..WorkStatus::default()
    })))
}

/// The stream is polled for as long as it has something to say or do at this moment.
async fn turn(session: &mut SessionStream<Inbound>) -> Vec<hub_frame::Body> {
    let mut said = Vec::new();
    while let Ok(Some(frame)) = tokio::time::timeout(Duration::from_millis(1), session.next()).await {
        said.extend(frame.body);
    }
    said
}
