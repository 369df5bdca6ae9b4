//! A gateway and agents over real TLS on loopback, without HTTP where nothing else is said and over gRPC, with the hub's ports faked over plain maps and the
//! member in memory. What is waited for is a predicate, with a limit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream;
use jiff::Timestamp;
use karmada_agent::identity::IdentityStore;
use karmada_agent::join::{self, JoinError};
use karmada_agent::link::dial::{DialError, Tcp, dial};
use karmada_agent::member::memory::MemoryMember;
use karmada_agent::member::{Gvk, ObjectId};
use karmada_agent::{AgentError, Config, LinkView, Parts, run};
use karmada_bare::{Incoming, Outgoing};
use karmada_certs::{
    Authority, CertificateRequest, ClientKey, JoinToken, PeerIdentity, Pin, agent_subject, client_config_h2,
    server_config, server_names,
};
use karmada_gateway::connection::{Caller, carry};
use karmada_gateway::fleet::LinkState;
use karmada_gateway::ports::*;
use karmada_gateway::{ClockAndRandom, Gateway, Options, SharedFleet};
use karmada_interpreter::Native;
use karmada_proto::frame;
use karmada_proto::last_read::LastRead;
use karmada_proto::v1::{Credit, Hello, Ping, agent_frame};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{broadcast, watch};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_stream::wrappers::{BroadcastStream, ReceiverStream};
use tokio_util::sync::CancellationToken;
use tower::Service as _;

#[path = "identities.rs"]
mod identities;
#[path = "questions.rs"]
mod questions;
#[path = "sessions.rs"]
mod sessions;
#[path = "thousands.rs"]
mod thousands;
#[path = "transports.rs"]
mod transports;

const TOKEN: &str = "abcdef.0123456789abcdef";

/// The hub's state behind the ports.
struct Fake {
    ca: Authority,
    state: Mutex<State>,
    events: broadcast::Sender<(String, WorkEvent)>,
    certificate_life: Duration,
}

#[derive(Default)]
struct State {
    epoch: u64,
    revision: u64,
    seq: u64,
    works: BTreeMap<(String, String), Value>,
    clusters: BTreeMap<String, String>,
    reports: BTreeMap<(String, String), WorkReport>,
    statuses: BTreeMap<String, Value>,
    notices: Vec<WorkNotice>,
    clones: Vec<String>,
    orphans: BTreeSet<String>,
    renewals: u32,
}

impl Fake {
    fn put(&self, cluster: &str, key: &str, manifest: &Value) {
        let spec = json!({"workload": {"manifests": [manifest]}});
        let mut state = self.state.lock();
        state.revision += 1;
        let revision = state.revision;
        let uid = format!("uid-{key}");
        let work = json!({"metadata": {"name": key, "uid": uid}, "spec": spec});
        state.works.insert((cluster.into(), key.into()), work.clone());
        self.send(cluster, revision, &work);
    }

    fn delete(&self, cluster: &str, key: &str) {
        let mut state = self.state.lock();
        state.revision += 1;
        let revision = state.revision;
        let work = state.works.get_mut(&(cluster.into(), key.into())).unwrap();
        work["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        let work = work.clone();
        self.send(cluster, revision, &work);
    }

    fn send(&self, cluster: &str, revision: u64, work: &Value) {
        let work = Work::from_json(revision, Bytes::from(work.to_string()).into()).unwrap();
        let _ = self.events.send((cluster.to_owned(), WorkEvent::Upsert(work)));
    }

    fn seen<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.state.lock())
    }
}

#[async_trait]
impl WorkSource for Fake {
    async fn watch(&self, cluster: &str, resume: Option<u64>) -> Result<WorkFeed, PortError> {
        let state = self.state.lock();
        let mine = cluster.to_owned();
        let receiver = BroadcastStream::new(self.events.subscribe());
        let live = receiver.filter_map(move |event| {
            let event = event.ok().filter(|(cluster, _)| *cluster == mine).map(|(_, event)| event);
            async move { event }
        });
        // History is not kept: only the newest revision can be resumed from.
        if resume == Some(state.revision) {
            return Ok(WorkFeed { full_listing: false, events: live.boxed() });
        }
        let mut events: Vec<WorkEvent> = Vec::new();
        for ((owner, _), work) in &state.works {
            if owner == cluster {
                events.push(WorkEvent::Upsert(
                    Work::from_json(1, Bytes::from(work.to_string()).into()).unwrap(),
                ));
            }
        }
        events.push(WorkEvent::Synced { revision: state.revision });
        Ok(WorkFeed { full_listing: true, events: stream::iter(events).chain(live).boxed() })
    }

    fn all(&self, cluster: &str) -> Vec<Work> {
        let own = |state: &State| {
            let own = state.works.iter().filter(|((owner, _), _)| owner == cluster);
            own.map(|(_, work)| Work::from_json(1, Bytes::from(work.to_string()).into()).unwrap()).collect()
        };
        self.seen(own)
    }

    fn holds(&self, cluster: &str, key: &str) -> bool {
        self.seen(|state| state.works.contains_key(&(cluster.to_owned(), key.to_owned())))
    }
}

#[async_trait]
impl StatusSink for Fake {
    async fn work_status(&self, cluster: &str, report: WorkReport) -> Result<(), PortError> {
        let mut state = self.state.lock();
        let key = (cluster.to_owned(), report.key.clone());
        if !state.works.contains_key(&key) {
            return Err(PortError::never("gone"));
        }
        state.reports.insert(key, report);
        Ok(())
    }
    async fn cluster_status(&self, cluster: &str, status: Bytes) -> Result<(), PortError> {
        let status = serde_json::from_slice(&status).unwrap();
        self.state.lock().statuses.insert(cluster.into(), status);
        Ok(())
    }
    async fn finalize_work(
        &self,
        cluster: &str,
        key: &str,
        uid: &str,
        _: &[String],
    ) -> Result<(), PortError> {
        let mut state = self.state.lock();
        if state.works.remove(&(cluster.into(), key.into())).is_some() {
            state.revision += 1;
            let event = WorkEvent::Deleted {
                key: key.into(),
                uid: uid.into(),
                revision: state.revision,
                preserve: false,
            };
            let _ = self.events.send((cluster.into(), event));
        }
        Ok(())
    }
    async fn event(&self, _: &str, notice: WorkNotice) -> Result<(), PortError> {
        self.state.lock().notices.push(notice);
        Ok(())
    }
    async fn orphans(&self, _: &str, keys: Vec<String>) -> Result<(), PortError> {
        self.state.lock().orphans.extend(keys);
        Ok(())
    }
    fn deletes_confirmed(&self, _: &str) -> Option<Batch> {
        None
    }
    fn deletes_held(&self, _: &str, _: Batch, _: u64) {}
    fn clone_seen(&self, cluster: &str) {
        self.state.lock().clones.push(cluster.into());
    }
}

impl Fake {
    fn grant(&self, cluster: &str, request: &CertificateRequest) -> JoinGrant {
        let certificate = self
            .ca
            .issue_client(&agent_subject(cluster), request, self.certificate_life, Timestamp::now())
            .unwrap();
        JoinGrant {
            certificate,
            ca_bundle: self.ca.certificate_pem().into(),
            endpoints: Vec::new(),
            cluster_name: cluster.into(),
        }
    }
}

#[async_trait]
impl Registrar for Fake {
    async fn join(&self, ask: JoinAsk) -> Result<JoinOutcome, PortError> {
        let refused = |code| Ok(JoinOutcome::Refused(JoinRefusal { code, message: String::new() }));
        if ask.token.reveal() != TOKEN {
            return refused(JoinRefusalCode::TokenUnknown);
        }
        let mut state = self.state.lock();
        if state.clusters.get(&ask.cluster_name).is_some_and(|uid| *uid != ask.cluster_uid) {
            return refused(JoinRefusalCode::NameTaken);
        }
        state.clusters.insert(ask.cluster_name.clone(), ask.cluster_uid);
        drop(state);
        Ok(JoinOutcome::Granted(self.grant(&ask.cluster_name, &ask.request)))
    }
    async fn authorize_session(&self, peer: &PeerIdentity) -> Result<String, SessionRefusal> {
        let cluster = peer.cluster().unwrap_or_default();
        let registered = self.state.lock().clusters.contains_key(cluster);
        if registered { Ok(cluster.into()) } else { Err(SessionRefusal::Unregistered("who?".into())) }
    }
    async fn renew(
        &self,
        cluster: &str,
        _: &PeerIdentity,
        request: CertificateRequest,
    ) -> Result<JoinGrant, PortError> {
        self.state.lock().renewals += 1;
        Ok(self.grant(cluster, &request))
    }
}

#[async_trait]
impl SessionStore for Fake {
    async fn position(&self) -> Result<Position, PortError> {
        Ok(self.seen(|state| Position { epoch: state.epoch, revision: state.revision, timeline: 1 }))
    }
    async fn mint_epoch_above(&self, seen: u64) -> Result<u64, PortError> {
        let mut state = self.state.lock();
        state.epoch = state.epoch.max(seen + 1);
        Ok(state.epoch)
    }
    async fn set_restore_hold(&self, _: &str, _: &RestoreHold) -> Result<(), PortError> {
        Ok(())
    }
    async fn restore_hold(&self, _: &str) -> Result<Option<RestoreHold>, PortError> {
        Ok(None)
    }
    fn seal(&self, epoch: u64) -> Bytes {
        self.ca.seal_epoch(epoch).unwrap().into()
    }
    fn is_sealed(&self, epoch: u64, seal: &[u8]) -> bool {
        self.ca.seal_keys().verify(epoch, seal)
    }
    async fn end_restore_hold(&self, _: &str, _: Batch) -> Result<(), PortError> {
        Ok(())
    }
    fn in_our_past(&self, timeline: u64, cursor: u64) -> bool {
        timeline == 1 && cursor <= self.state.lock().revision
    }
    fn told_as(&self, timeline: u64, _: ClusterIncarnation<'_>) -> u64 {
        timeline
    }
    fn told(&self, _: ClusterIncarnation<'_>, timeline: u64, cursor: u64) -> CursorOrigin {
        if self.in_our_past(timeline, cursor) {
            CursorOrigin::ThisCluster
        } else {
            CursorOrigin::InAnotherLife
        }
    }
    async fn next_session(&self, _: &str) -> Result<u64, PortError> {
        let mut state = self.state.lock();
        state.seq += 1;
        Ok(state.seq)
    }
}

/// A hub on loopback.
struct Hub {
    fake: Arc<Fake>,
    gateway: Arc<Gateway>,
    address: String,
    accept: JoinHandle<()>,
}

impl Hub {
    async fn start(certificate_life: Duration) -> Self {
        let (ca, _) = Authority::create(Timestamp::now()).unwrap();
        let (events, _) = broadcast::channel(16_384);
        let state = Mutex::new(State { epoch: 1, revision: 1, ..State::default() });
        let fake = Arc::new(Fake { ca, state, events, certificate_life });
        Self::serve(fake, "127.0.0.1:0").await
    }

    async fn serve(fake: Arc<Fake>, address: &str) -> Self {
        let ports = Ports {
            works: fake.clone(),
            statuses: fake.clone(),
            registrar: fake.clone(),
            sessions: fake.clone(),
        };
        let options = Options {
            probe_timeout: Duration::from_secs(1),
            sweep: Duration::from_millis(200),
            ..Options::default()
        };
        let sources = ClockAndRandom::new(Timestamp::now, rand::random);
        let fleet = SharedFleet::new(sources, jiff::SignedDuration::from_hours(1), |_, _| {});
        let gateway = Gateway::new(ports, fleet, options);
        let service = karmada_gateway::service::server(&gateway);
        let hour = Duration::from_secs(3600);
        let identity = fake.ca.issue_server(&server_names(None, &[]), hour, Timestamp::now()).unwrap();
        let mut tls = server_config(&identity, &[fake.ca.certificate().clone()]).unwrap();
        tls.alpn_protocols.insert(0, karmada_bare::ALPN.to_vec());
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let tls = TlsAcceptor::from(Arc::new(tls));
        let accept = tokio::spawn(accept(listener, tls, gateway.clone(), service));
        Self { fake, gateway, address, accept }
    }

    fn link(&self, cluster: &str) -> LinkState {
        self.gateway.fleet().link(cluster).state
    }

    /// The clusters that have a session.
    fn live(&self) -> Vec<String> {
        let links = self.gateway.fleet().links().into_iter();
        links.filter(|link| link.session.is_some()).map(|link| link.cluster).collect()
    }

    fn config(&self, cluster: &str) -> Config {
        Config {
            hub: vec![self.address.clone()],
            token: Some(JoinToken::parse(TOKEN).unwrap()),
            pins: vec![self.fake.ca.pin()],
            cluster_name: cluster.into(),
            join_patience: Duration::from_millis(300),
            ..Config::default()
        }
    }
}

/// Serves each connection; the verified peer goes into every request's extensions.
async fn accept(
    listener: TcpListener,
    tls: TlsAcceptor,
    gateway: Arc<Gateway>,
    service: karmada_proto::v1::fleet_server::FleetServer<karmada_gateway::service::FleetService>,
) {
    // The connections end with the hub.
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (tls, service, gateway) = (tls.clone(), service.clone(), gateway.clone());
        connections.spawn(async move {
            let Ok(stream) = tls.accept(stream).await else { return };
            let peer = stream
                .get_ref()
                .1
                .peer_certificates()
                .and_then(|chain| PeerIdentity::from_der(&chain[0]).ok());
            if stream.get_ref().1.alpn_protocol() == Some(karmada_bare::ALPN) {
                return frames(&gateway, peer.unwrap(), stream).await;
            }
            let service =
                hyper::service::service_fn(move |mut request: http::Request<hyper::body::Incoming>| {
                    if let Some(peer) = &peer {
                        request.extensions_mut().insert(peer.clone());
                    }
                    service.clone().call(request)
                });
            let executor = hyper_util::rt::TokioExecutor::new();
            let _ = hyper::server::conn::http2::Builder::new(executor)
                .serve_connection(hyper_util::rt::TokioIo::new(stream), service)
                .await;
        });
    }
}

/// Serves a session without HTTP.
async fn frames(
    gateway: &Arc<Gateway>,
    peer: PeerIdentity,
    stream: tokio_rustls::server::TlsStream<tokio::net::TcpStream>,
) {
    let (reads, writes) = tokio::io::split(stream);
    let limits = karmada_bare::Limits { first: 64 << 10, then: karmada_proto::MESSAGE_LIMIT };
    let caller = Caller { peer, from: None, last_read: LastRead::default(), transport: "bare" };
    let _ = carry(gateway, caller, Incoming::new(reads, limits), Outgoing::new(writes)).await;
}

/// A running agent.
struct Agent {
    member: MemoryMember,
    link: watch::Receiver<LinkView>,
    stop: CancellationToken,
    task: JoinHandle<Result<(), AgentError>>,
}

impl Agent {
    fn start(config: Config, member: MemoryMember, identity_store: IdentityStore) -> Self {
        let (sender, link) = watch::channel(LinkView::default());
        let parts = Parts {
            member: Arc::new(member.clone()),
            interpreter: Arc::new(Native),
            connector: Arc::new(Tcp),
            identity_store,
            link: sender,
            sources: karmada_agent::ClockAndRandom::system(),
        };
        let stop = CancellationToken::new();
        let task = tokio::spawn(run(config, parts, stop.clone()));
        Self { member, link, stop, task }
    }

    async fn end(self) -> MemoryMember {
        self.stop.cancel();
        self.task.await.unwrap().unwrap();
        self.member
    }
}

fn member(name: &str) -> MemoryMember {
    MemoryMember::new(name, 2, Duration::from_millis(20))
}

/// How long a state may take to be reached before a test says that it is not. An agent that was without its hub for a
/// while draws its next dial from up to half a minute, and one that misses draws from twice that, so that less than
/// this would judge the draw.
const PATIENCE: Duration = Duration::from_secs(120);

async fn until(what: &str, mut reached: impl FnMut() -> bool) {
    let waited = tokio::time::timeout(PATIENCE, async {
        while !reached() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(waited.await.is_ok(), "not reached: {what}");
}

fn deployment(name: &str, replicas: u32) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"}, "spec": {"replicas": replicas}})
}

fn deployment_id(name: &str) -> ObjectId {
    ObjectId { gvk: Gvk::new("apps/v1", "Deployment"), namespace: "default".into(), name: name.into() }
}

fn ready_replicas(fake: &Fake, cluster: &str, key: &str) -> Option<u64> {
    fake.seen(|state| {
        let report = state.reports.get(&(cluster.to_owned(), key.to_owned()))?;
        let statuses: Value = serde_json::from_slice(report.manifest_statuses.as_ref()?).ok()?;
        statuses.pointer("/0/status/readyReplicas")?.as_u64()
    })
}
