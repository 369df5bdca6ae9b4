//! One agent of the simulator: the real end of the stream (`karmada_agent::session`) over a real TLS connection, with a ledger and a member
//! that are a map in memory.
//!
//! In: an identity that a hub granted, and the word to report or to read no more. Out: a site that takes every Work at once, says that it is applied and
//! healthy, and dials again as an agent does; what happened is counted in [`Counters`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{SinkExt as _, StreamExt as _};
use karmada_agent::identity::Identity;
use karmada_agent::link::dial::{self, Dialled, Transports};
use karmada_agent::outbox::{Outbox, WorkReport};
use karmada_agent::redial::Schedule;
use karmada_agent::session::{Change, Ended, HeldWork, Opening, Phase, Session, Unfinished};
use karmada_bare::{Incoming, Limits, Outgoing};
use karmada_certs::SealKeys;
use karmada_proto::MESSAGE_LIMIT;
use karmada_proto::digest::{self, Seed, WorkHeader};
use karmada_proto::keepalive::Cadence;
use karmada_proto::v1::{AgentFrame, Applied, HubFrame, Seen};
use tokio::sync::{Notify, mpsc};

use crate::counted_connection::{Counted, Traffic};

const LIMITS: Limits = Limits { first: MESSAGE_LIMIT, then: MESSAGE_LIMIT };
/// Frames on their way to the transport.
const OUTBOUND: usize = 4;

/// What all agents of the simulator did so far.
#[derive(Default)]
pub struct Counters {
    /// Sessions that stand.
    pub connected: AtomicU64,
    /// Sessions that were welcomed.
    pub sessions: AtomicU64,
    /// Works that were taken, or taken anew with another body.
    pub taken: AtomicU64,
    /// Works that were removed.
    pub removed: AtomicU64,
}

/// What the owner says to an agent.
#[derive(Default)]
pub struct Orders {
    /// Rung when there is something to do.
    pub bell: Notify,
    /// Its Works' statuses are to change.
    pub reports: AtomicBool,
    /// It reads nothing more.
    pub is_deaf: AtomicBool,
}

/// A site.
pub struct SimulatedAgent {
    pub identity: Identity,
    pub endpoint: String,
    pub transports: Transports,
    pub number: u64,
    pub cluster_status: Bytes,
    pub traffic: Arc<Traffic>,
    pub counters: Arc<Counters>,
    pub orders: Arc<Orders>,
}

/// What an agent's ledger holds.
#[derive(Default)]
struct Held {
    works: BTreeMap<String, HeldWork>,
    generations: BTreeMap<String, u64>,
    epoch: u64,
    cursor: u64,
    timeline: u64,
    former_cursor: u64,
    seen: Vec<Seen>,
    seal: Bytes,
    outbox: Outbox,
    /// How often statuses changed.
    round: u64,
}

/// Both directions of a session.
struct Stream {
    frames: mpsc::Sender<AgentFrame>,
    inbound: BoxStream<'static, Result<HubFrame, String>>,
}

impl SimulatedAgent {
    /// Dials for ever.
    pub async fn run(self) {
        let started = Instant::now();
        let mut held = Held::default();
        held.outbox.cluster(self.cluster_status.clone());
        let mut schedule = Schedule::new(self.number, 0);
        let (mut cadence, mut unfinished) = (Cadence::default(), Unfinished::default());
        loop {
            let advice = match self.dial().await {
                Ok(stream) => {
                    let session = self.open(&mut held, schedule.attempt(), (cadence, unfinished), started);
                    let (ended, session) =
                        self.converse(session, stream, &mut held, &mut schedule, started).await;
                    let cursor;
                    (cadence, cursor, unfinished) = session.into_parts();
                    self.commit(&mut held, cursor);
                    ended.advice
                }
                Err(_) => karmada_agent::redial::Advice::Lost(Duration::ZERO),
            };
            tokio::time::sleep(schedule.down(advice, started.elapsed())).await;
        }
    }

    async fn dial(&self) -> Result<Stream, String> {
        let shown = self.identity.keyed_certificate(jiff::Timestamp::now());
        let config = karmada_certs::client_config_h2(&self.identity.trust(), Some(&shown));
        let config = config.map_err(|error| error.to_string())?;
        let connector = Counted::of(self.number, self.traffic.clone());
        let dialled = dial::dial_any(&connector, &self.endpoint, config, self.transports).await;
        let (frames, mut outbound) = mpsc::channel(OUTBOUND);
        match dialled.map_err(|error| error.to_string())? {
            Dialled::Bare(connection) => {
                let (reads, writes) = tokio::io::split(*connection);
                let mut out: Outgoing<_, AgentFrame> = Outgoing::new(writes);
                tokio::spawn(async move {
                    while let Some(frame) = outbound.recv().await {
                        if out.send(frame).await.is_err() {
                            return;
                        }
                    }
                });
                let frames_in: Incoming<_, HubFrame> = Incoming::new(reads, LIMITS);
                let inbound = frames_in.map(|frame| frame.map_err(|error| error.to_string())).boxed();
                Ok(Stream { frames, inbound })
            }
            Dialled::Grpc(mut client) => {
                let said = futures::stream::poll_fn(move |context| outbound.poll_recv(context));
                // The hub answers the call once it has read the hello, which is sent after this returns.
                let call =
                    async move { client.connect(said).await.map(|answer| (answer.into_inner(), client)) };
                let inbound = futures::stream::once(call).flat_map(|answered| match answered {
                    Ok((frames, client)) => frames
                        .map(move |frame| {
                            let _until_the_end = &client;
                            frame.map_err(|status| status.to_string())
                        })
                        .boxed(),
                    Err(status) => futures::stream::once(async move { Err(status.to_string()) }).boxed(),
                });
                Ok(Stream { frames, inbound: inbound.boxed() })
            }
        }
    }

    fn open(
        &self,
        held: &mut Held,
        attempt: u32,
        (cadence, unfinished): (Cadence, Unfinished),
        started: Instant,
    ) -> Session {
        let now = jiff::Timestamp::now();
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.number.to_be_bytes());
        bytes[8..].copy_from_slice(&(now.as_nanosecond() as u64).to_be_bytes());
        let seed = Seed::new(bytes);
        held.outbox.session_begins(seed);
        let peer = self.identity.peer(now).expect("the identity was granted");
        let opening = Opening {
            cluster_name: self.identity.cluster_name.clone(),
            cluster_uid: self.identity.cluster_uid.clone(),
            key_fingerprint: peer.key_fingerprint,
            boot_id: format!("simulated-{}", self.number),
            epoch: held.epoch,
            cursor: held.cursor,
            timeline: held.timeline,
            former_cursor: held.former_cursor,
            seen: held.seen.clone(),
            epoch_seal: held.seal.clone(),
            seal_keys: SealKeys::of_bundle(&self.identity.ca_bundle),
            clock_ms: now.as_millisecond(),
            attempt,
            seed,
            status_root: held.outbox.told_root(),
            cluster_digest: held.outbox.told_cluster(),
            holdings: Vec::new(),
        };
        Session::open(opening, held.works.clone(), unfinished, cadence, started.elapsed())
    }

    async fn converse(
        &self,
        mut session: Session,
        Stream { frames, mut inbound }: Stream,
        held: &mut Held,
        schedule: &mut Schedule,
        started: Instant,
    ) -> (Ended, Session) {
        let mut welcomed = false;
        loop {
            session.tick(started.elapsed());
            if session.has_changes() {
                let changes = session.take_changes();
                self.commit(held, changes);
                session.committed(started.elapsed());
            }
            if session.welcomed() && !welcomed {
                welcomed = true;
                schedule.up(started.elapsed());
                self.counters.connected.fetch_add(1, Ordering::Relaxed);
                self.counters.sessions.fetch_add(1, Ordering::Relaxed);
            }
            while session.take_ask().is_some() {}
            if self.orders.reports.swap(false, Ordering::Relaxed) {
                held.change_statuses();
            }
            let full = send(&mut session, held, &frames, started.elapsed());
            if let Some(ended) = session.ended().cloned() {
                if welcomed {
                    self.counters.connected.fetch_sub(1, Ordering::Relaxed);
                }
                return (ended, session);
            }
            let due = if full { None } else { held.outbox.due_at() };
            let deadline = due.map_or(session.deadline(), |due| due.min(session.deadline()));
            let deadline = tokio::time::Instant::from_std(started + deadline);
            let is_deaf = self.orders.is_deaf.load(Ordering::Relaxed);
            tokio::select! {
                message = inbound.next(), if !is_deaf && session.listens() => match message {
                    Some(Ok(frame)) => take(&mut session, frame, started.elapsed()),
                    Some(Err(why)) => session.lost(why),
                    None => session.lost("the hub ended the stream".into()),
                },
                _ = frames.reserve(), if full => {}
                () = self.orders.bell.notified() => {}
                () = tokio::time::sleep_until(deadline) => {}
            }
        }
    }

    fn commit(&self, held: &mut Held, changes: Vec<Change>) {
        for change in changes {
            match &change {
                Change::Put { .. } => drop(self.counters.taken.fetch_add(1, Ordering::Relaxed)),
                Change::Delete { .. } => drop(self.counters.removed.fetch_add(1, Ordering::Relaxed)),
                _ => {}
            }
            held.apply(change);
        }
    }
}

/// Takes a frame. No body is kept: what is told by a difference is asked for as a whole.
fn take(session: &mut Session, frame: HubFrame, now: Duration) {
    session.frame(frame, now);
    if session.base_wanted().is_some() {
        session.base(None);
    }
}

/// True where the transport takes no more for now.
fn send(session: &mut Session, held: &mut Held, frames: &mpsc::Sender<AgentFrame>, now: Duration) -> bool {
    loop {
        match frames.try_reserve() {
            Ok(place) => match session.next_frame(&mut held.outbox, now) {
                Some(frame) => place.send(frame),
                None => return false,
            },
            Err(mpsc::error::TrySendError::Full(())) => return true,
            Err(mpsc::error::TrySendError::Closed(())) => {
                session.lost("the connection is gone".into());
                return false;
            }
        }
    }
}

impl Held {
    /// Keeps what an agent's ledger keeps of a change, and does at once what an agent would do to its member.
    fn apply(&mut self, change: Change) {
        match change {
            Change::Put { key, uid, revision, hash, suspended, preserve, generation, retry, .. } => {
                let marks = WorkHeader { uid: &uid, suspended, preserve, generation, retry: &retry };
                let content = digest::work_row(marks, &hash);
                let work = HeldWork { uid, revision, hash, phase: Phase::Desired, content };
                self.works.insert(key.clone(), work);
                self.generations.insert(key.clone(), generation);
                self.report(&key);
            }
            Change::Touch { key, uid, revision, suspended, preserve, generation, retry } => {
                if let Some(work) = self.works.get_mut(&key) {
                    let marks = WorkHeader { uid: &uid, suspended, preserve, generation, retry: &retry };
                    work.content = digest::work_row(marks, &work.hash);
                    (work.uid, work.revision) = (uid, revision);
                    self.generations.insert(key.clone(), generation);
                    self.report(&key);
                }
            }
            Change::Delete { key, uid, revision, preserve, retry } => {
                if let Some(work) = self.works.get_mut(&key) {
                    work.content = digest::deleting(&uid, preserve, &retry);
                    (work.revision, work.phase) = (revision, Phase::Removed);
                    work.uid.clone_from(&uid);
                    self.outbox.removed(&key, &uid, revision, Vec::new());
                }
            }
            Change::Forget { key } => {
                self.works.remove(&key);
                self.generations.remove(&key);
                self.outbox.forget(&key);
            }
            Change::Epoch(epoch) => {
                self.epoch = epoch;
                self.begin_anew();
            }
            Change::Listing => self.begin_anew(),
            Change::Listed { key, revision } => self.revision(&key, revision),
            Change::Unlisted { key } => self.revision(&key, 0),
            Change::Cursor(cursor) => (self.cursor, self.former_cursor) = (cursor, 0),
            Change::Timeline(timeline) => self.timeline = timeline,
            Change::Seen(seen) => self.seen = seen,
            Change::Seal(seal) => self.seal = seal,
            Change::KeepFormer { .. } | Change::Document { .. } => {}
        }
    }

    fn begin_anew(&mut self) {
        self.former_cursor = self.former_cursor.max(self.cursor);
        self.cursor = 0;
        self.works.values_mut().for_each(|work| work.revision = 0);
    }

    fn revision(&mut self, key: &str, revision: u64) {
        if let Some(work) = self.works.get_mut(key) {
            work.revision = revision;
        }
    }

    fn change_statuses(&mut self) {
        self.round += 1;
        let keys: Vec<String> = self.works.keys().cloned().collect();
        keys.iter().for_each(|key| self.report(key));
    }

    /// Says that a Work is applied, and how its one Deployment is.
    fn report(&mut self, key: &str) {
        let Some(work) = self.works.get(key).filter(|work| work.phase == Phase::Desired) else { return };
        let generation = self.generations.get(key).copied().unwrap_or(0);
        // A status that differs from round to round, as a Deployment's conditions do.
        let statuses = serde_json::json!([{
            "identifier": {"ordinal": 0, "group": "apps", "version": "v1", "kind": "Deployment", "resource": "deployments",
                "namespace": "default", "name": "all"},
            "status": {"replicas": 1, "readyReplicas": 1, "updatedReplicas": 1, "availableReplicas": 1,
                "observedGeneration": self.round + 1},
            "health": "Healthy",
        }]);
        let report = WorkReport {
            uid: work.uid.clone(),
            revision: work.revision,
            hash: work.hash.clone(),
            generation,
            applied: Some(Applied {
                ok: true,
                reason: "AppliedSuccessful".into(),
                message: "Manifest has been successfully applied".into(),
                retriable: false,
            }),
            manifest_statuses: Some(statuses.to_string().into()),
        };
        self.outbox.work(key, report);
    }
}
