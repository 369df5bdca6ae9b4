//! Sessions side by side, with the hub's ports faked and the clock paused: who may still write, and who is told.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use futures::channel::mpsc;
use futures::stream;
use karmada_certs::{CertificateRequest, PeerIdentity};
use karmada_proto::v1::{CloseCode, Credit, Hello, Ping, WorkStatus, hub_frame};
use karmada_proto::{body, frame};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::*;
use crate::connection::{self, Caller, open};
use crate::fleet::LinkState;
use crate::links::Links;
use crate::options::Options;
use crate::ports::*;
use crate::testing::{peer, sources};

#[derive(Default)]
struct Fake {
    /// What was written of each Work, in order.
    written: Mutex<Vec<String>>,
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
    holding: Mutex<Option<Batch>>,
    decided: Mutex<Vec<(String, bool)>>,
    deleting: AtomicBool,
    /// Past the first: the store's revision, and that of what is deleted.
    revision: AtomicU64,
    deleted_at: AtomicU64,
    /// Who is connecting.
    cluster: Mutex<String>,
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
    async fn hold_deletes(&self, _: &str, since: Batch) -> Result<(), PortError> {
        *self.holding.lock() = Some(since);
        Ok(())
    }
    async fn holds_deletes(&self, _: &str) -> Result<Option<Batch>, PortError> {
        Ok(*self.holding.lock())
    }
    fn seal(&self, epoch: u64) -> Bytes {
        Bytes::from(format!("sealed {epoch}"))
    }
    fn is_sealed(&self, epoch: u64, seal: &[u8]) -> bool {
        *seal == self.seal(epoch)[..]
    }
    fn in_our_past(&self, timeline: u64, _: u64) -> bool {
        timeline == 1
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
        let fake = Arc::new(Fake::default());
        let ports = Ports {
            works: fake.clone(),
            statuses: fake.clone(),
            registrar: fake.clone(),
            sessions: fake.clone(),
        };
        let links = Links::new(sources(), jiff::SignedDuration::from_hours(1), |_, _| {});
        Self { fake, gateway: Gateway::new(ports, links, Options::default()), peer: peer("m") }
    }

    fn link(&self, cluster: &str) -> LinkState {
        self.gateway.links().link(cluster).state
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
        let caller =
            Caller { peer: self.peer.clone(), from: None, pulse: Pulse::default(), transport: "memory" };
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

#[tokio::test(start_paused = true)]
async fn what_a_replaced_session_has_under_way_is_not_written_after_the_newer_ones() {
    let rig = Rig::new();
    let (old_frames, mut old) = rig.open().await.unwrap();
    rig.fake.gated.store(true, Ordering::SeqCst);
    old_frames.unbounded_send(status("w", 1, 0)).unwrap();
    turn(&mut old).await;
    let (new_frames, mut new) = rig.open().await.unwrap();
    rig.fake.gated.store(false, Ordering::SeqCst);
    new_frames.unbounded_send(status("w", 2, 0)).unwrap();
    turn(&mut new).await;
    rig.fake.gate.notify_waiters();
    let said = turn(&mut old).await;
    assert!(
        said.iter().any(|body| matches!(body, hub_frame::Body::Close(c) if c.code() == CloseCode::Replaced))
    );
    assert_eq!(*rig.fake.written.lock(), ["w@2"], "the older word never comes last");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_was_given_up_is_closed_when_it_comes_to_life() {
    let rig = Rig::new();
    let (frames, mut session) = rig.open().await.unwrap();
    frames.unbounded_send(Ok(frame::agent(agent_frame::Body::Ping(Ping { seq: 1, next_ms: 1000 })))).unwrap();
    turn(&mut session).await;
    // Its transport takes nothing, so that nobody polls it; the hub gives it up.
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(rig.link("m"), LinkState::Offline);
    frames.unbounded_send(Ok(frame::agent(agent_frame::Body::Ping(Ping { seq: 2, next_ms: 1000 })))).unwrap();
    frames.unbounded_send(status("w", 1, 0)).unwrap();
    let said = turn(&mut session).await;
    assert!(matches!(said.last(), Some(hub_frame::Body::Close(_))), "{said:?}");
    assert!(session.next().await.is_none(), "and it ends");
    assert_eq!(rig.link("m"), LinkState::Offline, "both sides say the same");
    assert!(rig.fake.written.lock().is_empty(), "nothing is written in its name");
}

#[tokio::test(start_paused = true)]
async fn who_is_shut_out_while_a_session_opens_gets_none() {
    let rig = Rig::new();
    rig.fake.revoke_while_watching.store(true, Ordering::SeqCst);
    assert_eq!(rig.open().await.err(), Some(CloseCode::Revoked));
    assert!(rig.gateway.links().sessions() == 0);
}

#[tokio::test(start_paused = true)]
async fn reports_of_no_work_of_the_cluster_are_dropped_unread() {
    let rig = Rig::new();
    let (frames, mut session) = rig.open().await.unwrap();
    frames.unbounded_send(status("stranger", 1, 0)).unwrap();
    let removed =
        karmada_proto::v1::Removed { key: "stranger".into(), never_held: true, ..Default::default() };
    frames.unbounded_send(Ok(frame::agent(agent_frame::Body::Removed(removed)))).unwrap();
    frames.unbounded_send(status("w", 1, 0)).unwrap();
    turn(&mut session).await;
    assert_eq!(*rig.fake.written.lock(), ["w@1"]);
    assert_eq!(session.session.refused(), 2);
}

/// An agent that asks and asks, and takes no answers: what waits for it does not grow with what it sends.
#[tokio::test(start_paused = true)]
async fn who_takes_no_answers_is_not_listened_to() {
    let rig = Rig::new();
    let (frames, mut session) = rig.open().await.unwrap();
    turn(&mut session).await;
    let ping = |seq| Ping { seq, next_ms: 1000 };
    for seq in 0..10_000 {
        frames.unbounded_send(Ok(frame::agent(agent_frame::Body::Ping(ping(seq))))).unwrap();
    }
    for _ in 0..100 {
        assert!(session.next().await.is_some());
    }
    assert!(frames.len() > 9_700, "{} of 10,000 are still to be read", frames.len());
    let answered = turn(&mut session).await;
    assert_eq!(answered.len(), 9_900, "and each is answered once it is taken");
}

/// The agent removed what the hub finalised long ago: it is told that it may forget it.
#[tokio::test(start_paused = true)]
async fn what_a_site_removes_that_is_gone_from_the_hub_it_may_forget() {
    let rig = Rig::new();
    let (frames, mut session) = rig.open().await.unwrap();
    turn(&mut session).await;
    let removed = |key: String| {
        let removed = karmada_proto::v1::Removed { key, uid: "u".into(), revision: 3, ..Default::default() };
        Ok(frame::agent(agent_frame::Body::Removed(removed)))
    };
    frames.unbounded_send(removed("stranger".into())).unwrap();
    let said = turn(&mut session).await;
    let [hub_frame::Body::Tombstone(released)] = &said[..] else { panic!("{said:?}") };
    assert_eq!((released.key.as_str(), released.uid.as_str(), released.revision), ("stranger", "u", 3));
    frames.unbounded_send(removed("k".repeat(300))).unwrap();
    assert!(turn(&mut session).await.is_empty());
    assert_eq!(session.session.refused(), 1);
}

/// Polls all sessions, each write let through, until so many reports are written.
async fn write_out(rig: &Rig, sessions: &mut [(Frames, SessionStream<Inbound>)], reports: usize) {
    while rig.fake.written.lock().len() < reports {
        rig.fake.gate.notify_waiters();
        for (_, session) in &mut *sessions {
            turn(session).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_unpacked_at_once_is_bounded_in_a_session_and_in_all() {
    let rig = Rig::new();
    rig.fake.gated.store(true, Ordering::SeqCst);
    let size = STATUS_LIMIT - 2;
    let mut sessions = vec![rig.open().await.unwrap()];
    for at in 0..200 {
        sessions[0].0.unbounded_send(status(&format!("w{at}"), 1, size)).unwrap();
    }
    turn(&mut sessions[0].1).await;
    assert_eq!(rig.fake.most_at_once.load(Ordering::SeqCst), 1, "one of the largest at a time");
    // Eleven more want the same; eight have it at once, and whoever waits has nothing unpacked.
    for at in 1..12 {
        let (frames, mut session) = rig.open_with(&format!("m{at}"), |_| {}).await.unwrap();
        for of in 0..5 {
            frames.unbounded_send(status(&format!("w{at}-{of}"), 1, size)).unwrap();
        }
        turn(&mut session).await;
        sessions.push((frames, session));
        let most = rig.fake.most_at_once.load(Ordering::SeqCst);
        assert_eq!(most, (at + 1).min(8), "with {} sessions", at + 1);
    }
    assert_eq!(rig.gateway.unpacked.available_permits(), 0);
    rig.fake.gated.store(false, Ordering::SeqCst);
    write_out(&rig, &mut sessions, 200 + 11 * 5).await;
    assert_eq!(rig.fake.most_at_once.load(Ordering::SeqCst), 8, "nor while one hands on to another");
    assert_eq!(rig.gateway.unpacked.available_permits(), 8 * 1024, "all is given back");
}

/// Five hundred reports, three hundred bytes of the wire at most each, that unpack to half a gigabyte: never more than 8 MiB of it is
/// there at once.
#[tokio::test(start_paused = true)]
async fn what_five_hundred_small_reports_unpack_to_is_never_there_at_once() {
    let rig = Rig::new();
    rig.fake.gated.store(true, Ordering::SeqCst);
    let (mut sessions, mut on_the_wire) = (Vec::new(), 0);
    for at in 0..10 {
        let (frames, session) = rig.open_with(&format!("m{at}"), |_| {}).await.unwrap();
        for of in 0..50 {
            let report = status(&format!("w{at}-{of}"), 1, STATUS_LIMIT - 2).unwrap();
            let Some(agent_frame::Body::WorkStatus(packed)) = &report.body else { panic!("{report:?}") };
            let length = packed.manifest_statuses.len();
            assert!(length <= 300, "{length} bytes");
            on_the_wire += length;
            frames.unbounded_send(Ok(report)).unwrap();
        }
        sessions.push((frames, session));
    }
    for (_, session) in &mut sessions {
        turn(session).await;
    }
    rig.fake.gated.store(false, Ordering::SeqCst);
    write_out(&rig, &mut sessions, 500).await;
    let most = rig.fake.most_bytes.load(Ordering::SeqCst);
    println!(
        "{on_the_wire} bytes of the wire, {} MiB unpacked, {most} bytes at once",
        (500 * STATUS_LIMIT) >> 20
    );
    assert!(most > 0 && most <= 8 << 20, "{most} bytes at once");
}

fn closes(said: &[hub_frame::Body]) -> Vec<(CloseCode, u64)> {
    let close = |body: &hub_frame::Body| match body {
        hub_frame::Body::Close(close) => Some((close.code(), close.after_ms)),
        _ => None,
    };
    said.iter().filter_map(close).collect()
}

#[tokio::test(start_paused = true)]
async fn a_number_without_proof_moves_nobody_but_its_site_and_a_proved_one_moves_all_once() {
    let rig = Rig::new();
    let mut others = Vec::new();
    for name in ["one", "two", "three"] {
        others.push(rig.open_with(name, |_| {}).await.unwrap());
    }
    for (epoch, seal) in [(7, ""), (7, "sealed 8"), (u64::MAX, ""), (u64::MAX, "x")] {
        let seal = Bytes::from_static(seal.as_bytes());
        let lone =
            rig.open_with("liar", |hello| (hello.epoch, hello.epoch_seal, hello.cursor) = (epoch, seal, 5));
        let (_frames, mut session) = lone.await.unwrap();
        let said = turn(&mut session).await;
        let Some(hub_frame::Body::Welcome(welcome)) = said.first() else { panic!("{said:?}") };
        assert_eq!((welcome.epoch, &welcome.epoch_seal[..]), (1, &b"sealed 1"[..]));
        assert!(matches!(said[1], hub_frame::Body::SnapshotStart(_)), "it is listed everything");
    }
    for (_, session) in &mut others {
        assert_eq!(closes(&turn(session).await), [], "nobody else hears of it");
    }
    let restored = |hello: &mut Hello| (hello.epoch, hello.epoch_seal) = (7, Bytes::from_static(b"sealed 7"));
    let (_frames, mut session) = rig.open_with("first", restored).await.unwrap();
    let said = turn(&mut session).await;
    assert!(matches!(&said[0], hub_frame::Body::Welcome(welcome) if welcome.epoch == 8));
    let mut waits = Vec::new();
    for (_, session) in &mut others {
        let closes = closes(&turn(session).await);
        assert_eq!(closes[0].0, CloseCode::Recycle);
        waits.push(closes[0].1);
    }
    assert!(waits.windows(2).any(|two| two[0] != two[1]), "not all at one moment: {waits:?}");
    let (_frames, mut again) = rig.open_with("second", restored).await.unwrap();
    turn(&mut again).await;
    assert_eq!(rig.fake.minted.load(Ordering::SeqCst), 1, "one restore is one epoch");
    assert_eq!(closes(&turn(&mut session).await), [], "who is in it stays");
}

#[tokio::test(start_paused = true)]
async fn a_cursor_of_another_history_resumes_nothing() {
    let rig = Rig::new();
    for (timeline, listed) in [(1, false), (2, true), (0, true)] {
        let hello = |hello: &mut Hello| (hello.epoch, hello.cursor, hello.timeline) = (1, 1, timeline);
        let (_frames, session) = rig.open_with("m", hello).await.unwrap();
        let asked = rig.fake.resumed.lock().pop().unwrap();
        assert_eq!(asked, (!listed).then_some(1), "{timeline}");
        drop(session);
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_restore_listed_deletes_wait_for_a_person_over_all_sessions() {
    let rig = Rig::new();
    rig.fake.deleting.store(true, Ordering::SeqCst);
    let tombstones = |said: &[hub_frame::Body]| {
        said.iter().filter(|body| matches!(body, hub_frame::Body::Tombstone(_))).count()
    };
    let (_frames, mut session) = rig.open().await.unwrap();
    assert_eq!(tombstones(&turn(&mut session).await), 1, "nobody was restored");
    rig.fake.epoch.store(4, Ordering::SeqCst);
    let batch = |epoch, revision| Batch { epoch, revision };
    let restored = |hello: &mut Hello| (hello.epoch, hello.objects) = (3, 7);
    let (_frames, mut session) = rig.open_with("m", restored).await.unwrap();
    let said = turn(&mut session).await;
    assert!(said.iter().any(|body| matches!(body, hub_frame::Body::SnapshotEnd(_))), "{said:?}");
    assert_eq!((tombstones(&said), *rig.fake.held.lock()), (0, Some((batch(5, 1), 1))));
    let (_frames, mut session) = rig.open_with("m", |hello| hello.epoch = 5).await.unwrap();
    assert_eq!(tombstones(&turn(&mut session).await), 0, "nor in the sessions after it");
    for (word, why) in [(batch(4, 9), "a word of another epoch"), (batch(5, 0), "one of an earlier listing")]
    {
        rig.gateway.confirm_deletes("m", word);
        assert_eq!(tombstones(&turn(&mut session).await), 0, "{why}");
    }
    rig.gateway.confirm_deletes("m", batch(5, 1));
    assert_eq!(tombstones(&turn(&mut session).await), 1);
    *rig.fake.confirmed.lock() = Some(batch(5, 1));
    let (_frames, mut session) = rig.open_with("m", |hello| hello.epoch = 5).await.unwrap();
    assert_eq!(tombstones(&turn(&mut session).await), 1, "it is remembered");
    // Restored once more, in the same epoch: what is listed now, nobody has seen.
    rig.fake.revision.store(8, Ordering::SeqCst);
    rig.fake.deleted_at.store(7, Ordering::SeqCst);
    let (_frames, mut session) = rig.open_with("m", restored).await.unwrap();
    assert_eq!(tombstones(&turn(&mut session).await), 0, "the word was for another batch");
    assert_eq!(*rig.fake.held.lock(), Some((batch(5, 8), 1)));
    rig.gateway.confirm_deletes("m", batch(5, 1));
    assert_eq!(tombstones(&turn(&mut session).await), 0, "nor does it count when it is said again");
    rig.gateway.confirm_deletes("m", batch(5, 8));
    assert_eq!(tombstones(&turn(&mut session).await), 1);
}

/// A frame takes as long as a slow link needs for it; as long as its bytes come, its sender is alive.
#[tokio::test(start_paused = true)]
async fn bytes_of_an_unfinished_frame_are_life() {
    let rig = Rig::new();
    for trickles in [true, false] {
        let (frames, session) = rig.open().await.unwrap();
        let pulse = Pulse::default();
        let mut session = session.heard_by(pulse.clone());
        let ping = Ping { seq: 1, next_ms: 1000 };
        frames.unbounded_send(Ok(frame::agent(agent_frame::Body::Ping(ping)))).unwrap();
        let mut said = turn(&mut session).await;
        for _ in 0..60 {
            if trickles {
                pulse.beat(rig.gateway.now());
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
            said.extend(turn(&mut session).await);
        }
        let closed = said.iter().any(|body| matches!(body, hub_frame::Body::Close(_)));
        assert_eq!(closed, !trickles);
        let asked = said.iter().any(|body| matches!(body, hub_frame::Body::Ping(_)));
        assert!(!trickles || !asked, "who is heard is not asked whether it is there");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_session_that_was_ended_has_under_way_is_dropped() {
    let rig = Rig::new();
    let (frames, mut session) = rig.open().await.unwrap();
    rig.fake.gated.store(true, Ordering::SeqCst);
    frames.unbounded_send(status("w", 1, 0)).unwrap();
    turn(&mut session).await;
    rig.fake.revoked.store(true, Ordering::SeqCst);
    assert!(rig.gateway.review("m").await);
    rig.fake.gated.store(false, Ordering::SeqCst);
    rig.fake.gate.notify_waiters();
    frames.unbounded_send(status("w2", 2, 0)).unwrap();
    let said = turn(&mut session).await;
    assert!(
        said.iter().any(|body| matches!(body, hub_frame::Body::Close(c) if c.code() == CloseCode::Revoked)),
        "{said:?}"
    );
    assert!(rig.fake.written.lock().is_empty(), "{:?}", rig.fake.written.lock());
    assert_eq!(rig.link("m"), LinkState::Offline);
    assert!(rig.gateway.links().sessions() == 0);
}

#[tokio::test(start_paused = true)]
async fn who_is_told_to_trust_others_and_who_is_sent_away() {
    let rig = Rig::new();
    let (_frames, mut session) = rig.open().await.unwrap();
    turn(&mut session).await;
    rig.gateway.tell_trust(9).await;
    let said = turn(&mut session).await;
    let told = said.iter().find_map(|body| match body {
        hub_frame::Body::Resync(again) => Some(again.trust_bundle_revision),
        _ => None,
    });
    assert_eq!(told, Some(9));
    assert_eq!(rig.gateway.send_away(|_| false), 0);
    let issuer = rig.peer.issuer.clone();
    assert_eq!(rig.gateway.send_away(|peer| peer.issuer == issuer), 1);
    let said = turn(&mut session).await;
    let Some(hub_frame::Body::Close(close)) = said.last() else { panic!("{said:?}") };
    assert_eq!((close.code(), close.retry()), (CloseCode::Recycle, karmada_proto::v1::RetryClass::RetryNow));
    assert!(rig.gateway.links().sessions() == 0);
}

/// The hub's file was copied back and nobody raised the epoch: the cursor that the agent was told says so.
#[tokio::test(start_paused = true)]
async fn deletes_are_held_from_who_was_told_a_cursor_by_another_life_of_the_hub() {
    for (timeline, cursor, objects, held) in [(9, 5, 3, 1), (1, 5, 3, 0), (0, 0, 3, 0), (9, 5, 0, 0)] {
        let rig = Rig::new();
        rig.fake.deleting.store(true, Ordering::SeqCst);
        let opened = rig.open_with("m", |hello| {
            (hello.epoch, hello.timeline, hello.cursor, hello.objects) = (1, timeline, cursor, objects);
        });
        let (_frames, mut session) = opened.await.unwrap();
        let said = turn(&mut session).await;
        assert_eq!(rig.fake.held.lock().map_or(0, |(_, count)| count), held, "{timeline} {cursor} {objects}");
        let told = said.iter().any(|body| matches!(body, hub_frame::Body::Tombstone(_)));
        assert_eq!(told, held == 0, "{timeline} {cursor} {objects}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_drain_draws_when_each_is_to_leave() {
    let rig = Rig::new();
    let mut open = Vec::new();
    for at in 0..8 {
        open.push(rig.open_with(&format!("m{at}"), |_| {}).await.unwrap());
    }
    for (_, session) in &mut open {
        turn(session).await;
    }
    let gateway = rig.gateway.clone();
    tokio::spawn(async move { gateway.drain(Duration::from_secs(1000)).await });
    let mut after = Vec::new();
    for (_, session) in &mut open {
        let said = turn(session).await;
        after.extend(said.iter().find_map(|body| match body {
            hub_frame::Body::Drain(drain) => Some(drain.after_ms),
            _ => None,
        }));
    }
    assert_eq!(after.len(), 8);
    assert!(after.iter().all(|after| *after <= 500_000));
    let by_position: Vec<u64> = (0..8).map(|at| 500_000 * at / 8).collect();
    assert_ne!(after, by_position, "not by place");
}

/// Refused once it had replaced the session before it: neither of the two is there then, and the link must not be said to stand.
#[tokio::test(start_paused = true)]
async fn a_link_stands_by_a_session_alone() {
    let rig = Rig::new();
    let (_frames, mut old) = rig.open().await.unwrap();
    turn(&mut old).await;
    assert_eq!(rig.link("m"), LinkState::Connected);
    rig.fake.accepted.store(2, Ordering::SeqCst);
    assert_eq!(rig.open().await.err(), Some(CloseCode::Revoked));
    turn(&mut old).await;
    drop(old);
    assert!(rig.gateway.links().sessions() == 0);
    assert_eq!(rig.link("m"), LinkState::Offline);
}

/// A session from its hello to its end over channels in memory: what carries frames is of no concern to it.
#[tokio::test(start_paused = true)]
async fn a_session_runs_over_any_stream_and_sink() {
    let rig = Rig::new();
    *rig.fake.cluster.lock() = "m".to_owned();
    let (frames, inbound) = mpsc::unbounded::<Result<AgentFrame, Broken>>();
    let (outbound, mut said) = mpsc::channel(1);
    let caller = Caller { peer: rig.peer.clone(), from: None, pulse: Pulse::default(), transport: "memory" };
    let gateway = rig.gateway.clone();
    let carried = tokio::spawn(async move { connection::carry(&gateway, caller, inbound, outbound).await });
    let say = |body| frames.unbounded_send(Ok(frame::agent(body))).unwrap();
    say(agent_frame::Body::Hello(hello("m")));
    let body = |frame: Option<HubFrame>| frame.and_then(|frame| frame.body);
    assert!(matches!(body(said.next().await), Some(hub_frame::Body::Welcome(_))));
    assert!(matches!(body(said.next().await), Some(hub_frame::Body::SnapshotStart(_))));
    assert_eq!(rig.gateway.links().link("m").session.map(|session| session.transport), Some("memory"));
    say(agent_frame::Body::Ping(Ping { seq: 3, next_ms: 1000 }));
    assert!(matches!(body(said.next().await), Some(hub_frame::Body::Pong(pong)) if pong.seq == 3));
    frames.unbounded_send(status("w", 1, 0)).unwrap();
    while rig.fake.written.lock().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    rig.fake.revoked.store(true, Ordering::SeqCst);
    assert!(rig.gateway.review("m").await);
    loop {
        match body(said.next().await).unwrap() {
            hub_frame::Body::Close(close) => break assert_eq!(close.code(), CloseCode::Revoked),
            hub_frame::Body::Credit(_) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(said.next().await.is_none(), "the sink is closed");
    carried.await.unwrap().unwrap();
    assert_eq!((rig.link("m"), rig.gateway.links().sessions()), (LinkState::Offline, 0));
}

/// A sink that breaks ends the session, and so does a stream that does.
#[tokio::test(start_paused = true)]
async fn a_transport_that_breaks_ends_the_session() {
    let rig = Rig::new();
    *rig.fake.cluster.lock() = "m".to_owned();
    for sink_breaks in [true, false] {
        let (frames, inbound) = mpsc::unbounded::<Result<AgentFrame, Broken>>();
        let (outbound, mut said) = mpsc::channel(1);
        let caller =
            Caller { peer: rig.peer.clone(), from: None, pulse: Pulse::default(), transport: "memory" };
        let gateway = rig.gateway.clone();
        let carried =
            tokio::spawn(async move { connection::carry(&gateway, caller, inbound, outbound).await });
        frames.unbounded_send(Ok(frame::agent(agent_frame::Body::Hello(hello("m"))))).unwrap();
        assert!(said.next().await.is_some());
        if sink_breaks {
            drop(said);
        } else {
            frames.unbounded_send(Err(Broken)).unwrap();
            while said.next().await.is_some() {}
        }
        assert_eq!(carried.await.unwrap().is_err(), sink_breaks);
        assert_eq!(rig.gateway.links().sessions(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_person_decided_of_orphans_reaches_the_site_and_its_end_is_told() {
    let rig = Rig::new();
    let (frames, mut session) = rig.open().await.unwrap();
    turn(&mut session).await;
    let say = |body| frames.unbounded_send(Ok(frame::agent(body))).unwrap();
    let named = || {
        let keys = ["x1", "x2", "w"].map(str::to_owned).to_vec();
        agent_frame::Body::Orphans(karmada_proto::v1::Orphans { keys })
    };
    let tombstones = |said: Vec<hub_frame::Body>| {
        let told = said.into_iter().filter_map(|body| match body {
            hub_frame::Body::Tombstone(told) => Some((told.key.clone(), told.reason(), told.preserve)),
            _ => None,
        });
        told.collect::<Vec<_>>()
    };
    use karmada_proto::v1::TombstoneReason::Released;
    say(named());
    assert_eq!(tombstones(turn(&mut session).await), [], "nobody decided anything");
    rig.gateway.let_go("m", vec![("x1".into(), true), ("w".into(), false)]);
    assert_eq!(
        tombstones(turn(&mut session).await),
        [("x1".to_owned(), Released, true)],
        "not what the hub holds"
    );
    rig.gateway.let_go("m", vec![("x1".into(), true)]);
    assert_eq!(tombstones(turn(&mut session).await), [], "it is told once");
    // Decided while the site was away.
    *rig.fake.decided.lock() = vec![("x2".into(), false), ("w".into(), false)];
    say(named());
    assert_eq!(tombstones(turn(&mut session).await), [("x2".to_owned(), Released, false)]);
    for key in ["x2", "x3"] {
        let removed = karmada_proto::v1::Removed { key: key.into(), held: true, ..Default::default() };
        say(agent_frame::Body::Removed(removed));
    }
    assert_eq!(tombstones(turn(&mut session).await).len(), 2, "both may be forgotten");
    assert_eq!(*rig.fake.written.lock(), ["finalized x2"], "of what was not decided on, nothing is told");
}
