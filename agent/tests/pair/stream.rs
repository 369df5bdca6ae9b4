//! A gateway and agents over real TLS and gRPC on loopback, with the hub's ports faked over plain maps and the
//! member in memory. What is waited for is a predicate, with a limit.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream;
use jiff::Timestamp;
use karmada_agent::identity::Keeper;
use karmada_agent::join::{self, JoinError};
use karmada_agent::link::dial::{DialError, Tcp, dial};
use karmada_agent::member::memory::MemoryMember;
use karmada_agent::member::{Gvk, ObjectId};
use karmada_agent::{AgentError, Config, LinkView, Parts, run};
use karmada_certs::{
    Authority, CertificateRequest, ClientKey, JoinToken, PeerIdentity, Pin, agent_subject, client_config_h2,
    server_config, server_names,
};
use karmada_gateway::fleet::LinkState;
use karmada_gateway::ports::*;
use karmada_gateway::{Gateway, Links, Options, Sources};
use karmada_interpreter::Native;
use karmada_proto::frame;
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

#[path = "thousands.rs"]
mod thousands;

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
    async fn orphans(&self, _: &str, _: Vec<String>) -> Result<(), PortError> {
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
    async fn hold_deletes(&self, _: &str, _: Batch) -> Result<(), PortError> {
        Ok(())
    }
    async fn holds_deletes(&self, _: &str) -> Result<Option<Batch>, PortError> {
        Ok(None)
    }
    fn seal(&self, epoch: u64) -> Bytes {
        self.ca.seal_epoch(epoch).unwrap().into()
    }
    fn is_sealed(&self, epoch: u64, seal: &[u8]) -> bool {
        self.ca.seal_keys().verify(epoch, seal)
    }
    fn in_our_past(&self, timeline: u64, cursor: u64) -> bool {
        timeline == 1 && cursor <= self.state.lock().revision
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
        let sources = Sources::new(Timestamp::now, rand::random);
        let links = Links::new(sources, jiff::SignedDuration::from_hours(1), |_, _| {});
        let gateway = Gateway::new(ports, links, options);
        let service = karmada_gateway::service::of(&gateway);
        let hour = Duration::from_secs(3600);
        let identity = fake.ca.issue_server(&server_names(None, &[]), hour, Timestamp::now()).unwrap();
        let tls = server_config(&identity, &[fake.ca.certificate().clone()]).unwrap();
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let accept = tokio::spawn(accept(listener, TlsAcceptor::from(Arc::new(tls)), service));
        Self { fake, gateway, address, accept }
    }

    fn link(&self, cluster: &str) -> LinkState {
        self.gateway.links().link(cluster).state
    }

    /// The clusters that have a session.
    fn live(&self) -> Vec<String> {
        let links = self.gateway.links().links().into_iter();
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
    service: karmada_proto::v1::fleet_server::FleetServer<karmada_gateway::service::FleetService>,
) {
    // The connections end with the hub.
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (tls, service) = (tls.clone(), service.clone());
        connections.spawn(async move {
            let Ok(stream) = tls.accept(stream).await else { return };
            let peer = stream
                .get_ref()
                .1
                .peer_certificates()
                .and_then(|chain| PeerIdentity::from_der(&chain[0]).ok());
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

/// A running agent.
struct Agent {
    member: MemoryMember,
    link: watch::Receiver<LinkView>,
    stop: CancellationToken,
    task: JoinHandle<Result<(), AgentError>>,
}

impl Agent {
    fn start(config: Config, member: MemoryMember, keeper: Keeper) -> Self {
        let (sender, link) = watch::channel(LinkView::default());
        let parts = Parts {
            member: Arc::new(member.clone()),
            interpreter: Arc::new(Native),
            connector: Arc::new(Tcp),
            keeper,
            link: sender,
            sources: karmada_agent::Sources::system(),
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

async fn until(what: &str, mut reached: impl FnMut() -> bool) {
    let waited = tokio::time::timeout(Duration::from_secs(30), async {
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_whole_line_over_tls() {
    let hub = Hub::start(Duration::from_secs(3600)).await;
    let state = tempfile::tempdir().unwrap();
    let keeper = Keeper::Directory(state.path().to_owned());
    let config = Config { state_dir: Some(state.path().to_owned()), ..hub.config("site1") };
    let agent = Agent::start(config.clone(), member("site1"), keeper.clone());
    hub.fake.put("site1", "web", &deployment("web", 3));
    until("the status is back", || ready_replicas(&hub.fake, "site1", "web") == Some(3)).await;
    until("the cluster's status", || {
        hub.fake.seen(|s| s.statuses.get("site1").is_some_and(|s| s["nodeSummary"]["readyNum"] == 2))
    })
    .await;
    assert!(matches!(*agent.link.borrow(), LinkView::Connected { epoch: 1 }));
    assert_eq!(hub.link("site1"), LinkState::Connected);
    until("the event", || hub.fake.seen(|s| s.notices.iter().any(|n| n.reason == "SyncSucceed"))).await;
    assert_eq!(hub.live(), ["site1"]);

    // The hub is gone: the site goes on, over the agent's own restart.
    let address = hub.address.clone();
    hub.accept.abort();
    let _ = hub.accept.await;
    until("the loss is seen", || !matches!(*agent.link.borrow(), LinkView::Connected { .. })).await;
    let lonely = agent.end().await;
    let without_token = Config { token: None, pins: Vec::new(), ..config };
    let agent = Agent::start(without_token, lonely, keeper);
    agent.member.remove(&deployment_id("web"));
    until("restored without a hub", || agent.member.read(&deployment_id("web")).is_some()).await;

    // The hub is back at the same address, with something new.
    hub.fake.put("site1", "web", &deployment("web", 5));
    let hub = Hub::serve(hub.fake.clone(), &address).await;
    until("the new state arrives", || ready_replicas(&hub.fake, "site1", "web") == Some(5)).await;
    hub.fake.delete("site1", "web");
    until("removed and released", || hub.fake.seen(|s| s.works.is_empty())).await;
    assert!(agent.member.read(&deployment_id("web")).is_none());
    agent.end().await;
    until("the leaving is seen", || hub.link("site1") == LinkState::Offline).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_that_fail_name_the_cause() {
    let hub = Hub::start(Duration::from_secs(3600)).await;
    let (stranger, _) = Authority::create(Timestamp::now()).unwrap();
    let keeper = || Keeper::Directory(tempfile::tempdir().unwrap().keep());
    let good = hub.config("site1");
    let failing = |config: Config, name: &'static str| {
        let agent = Agent::start(config, member(name), keeper());
        async move { agent.task.await.unwrap().unwrap_err() }
    };
    let error = failing(Config { pins: vec![stranger.pin()], ..good.clone() }, "site1").await;
    assert!(matches!(error, AgentError::Join(JoinError::Dial(DialError::Pin { .. }))), "{error}");
    let error = failing(Config { pins: vec![Pin::of_spki(b"x")], ..good.clone() }, "site1").await;
    assert!(error.to_string().contains("discovery-token-ca-cert-hash"), "{error}");
    let wrong = JoinToken::parse("abcdef.xxxxxxxxxxxxxxxx").unwrap();
    let error = failing(Config { token: Some(wrong), ..good.clone() }, "site1").await;
    assert!(error.to_string().contains("the token is unknown"), "{error}");
    let error = failing(Config { hub: vec!["127.0.0.1:1".into()], ..good.clone() }, "site1").await;
    assert!(error.to_string().contains("TCP"), "{error}");
    let error = failing(Config { hub: vec!["no-such-host.invalid:1".into()], ..good.clone() }, "site1").await;
    assert!(error.to_string().contains("DNS"), "{error}");
    let error = failing(Config { token: None, ..good.clone() }, "site1").await;
    assert!(error.to_string().contains("--token"), "{error}");

    let first = Agent::start(good.clone(), member("site1"), keeper());
    until("connected", || matches!(*first.link.borrow(), LinkView::Connected { .. })).await;
    let error = failing(good, "another").await;
    assert!(error.to_string().contains("the name is taken"), "{error}");
    first.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_second_of_two_living_agents_with_one_identity_is_refused() {
    let hub = Hub::start(Duration::from_secs(3600)).await;
    let state = tempfile::tempdir().unwrap();
    let keeper = Keeper::Directory(state.path().to_owned());
    let first = Agent::start(hub.config("site1"), member("site1"), keeper.clone());
    until("connected", || matches!(*first.link.borrow(), LinkView::Connected { .. })).await;
    let second = Agent::start(hub.config("site1"), member("site1"), keeper);
    until(
        "refused",
        || matches!(&*second.link.borrow(), LinkView::Away { reason, .. } if reason.contains("another process")),
    )
    .await;
    assert_eq!(hub.fake.seen(|s| s.clones.clone()), ["site1"]);
    assert!(matches!(*first.link.borrow(), LinkView::Connected { .. }), "the running one keeps its place");
    second.end().await;
    first.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_rotate_without_dropping_the_stream() {
    let hub = Hub::start(Duration::from_secs(6)).await;
    let state = tempfile::tempdir().unwrap();
    let keeper = Keeper::Directory(state.path().to_owned());
    let agent = Agent::start(hub.config("site1"), member("site1"), keeper.clone());
    until("connected", || matches!(*agent.link.borrow(), LinkView::Connected { .. })).await;
    let before = keeper.load().await.unwrap().unwrap().certificate;
    until("renewed twice", || hub.fake.seen(|s| s.renewals >= 2)).await;
    assert_eq!(hub.fake.seen(|s| s.seq), 1, "in one session");
    let mut kept = before.clone();
    for _ in 0..1000 {
        kept = keeper.load().await.unwrap().unwrap().certificate;
        if kept != before {
            break;
        }
        tokio::task::yield_now().await;
    }
    assert_ne!(kept, before);
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_draining_hub_sends_its_agents_away_and_an_unregistered_one_is_told() {
    let hub = Hub::start(Duration::from_secs(3600)).await;
    let keeper = Keeper::Directory(tempfile::tempdir().unwrap().keep());
    let agent = Agent::start(hub.config("site1"), member("site1"), keeper);
    until("connected", || matches!(*agent.link.borrow(), LinkView::Connected { .. })).await;
    hub.gateway.drain(Duration::from_millis(500)).await;
    // Here the door stays open, so it comes back, in a session of its own.
    until("back", || {
        hub.fake.seen(|s| s.seq) == 2 && matches!(*agent.link.borrow(), LinkView::Connected { .. })
    })
    .await;
    hub.fake.state.lock().clusters.clear();
    assert!(hub.gateway.review("site1").await, "whoever it belongs to is refused now");
    until(
        "told",
        || matches!(&*agent.link.borrow(), LinkView::Away { reason, .. } if reason.contains("who?")),
    )
    .await;
    agent.end().await;
}

/// An agent that greets, promises to be heard again within a second, and then neither reads nor speaks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_takes_nothing_is_given_up_and_delays_nobody() {
    let hub = Hub::start(Duration::from_secs(3600)).await;
    let key = ClientKey::generate().unwrap();
    let ask = join::Ask {
        endpoints: vec![hub.address.clone()],
        token: JoinToken::parse(TOKEN).unwrap(),
        pins: vec![hub.fake.ca.pin()],
        cluster_name: "stuck".into(),
        cluster_uid: "uid".into(),
        provider: String::new(),
        region: String::new(),
        zones: Vec::new(),
        patience: Duration::ZERO,
        sources: karmada_agent::Sources::system(),
    };
    let (link, _) = watch::channel(LinkView::default());
    let identity = join::join(&Tcp, &key, &ask, &link).await.unwrap();
    let tls =
        client_config_h2(&identity.trust(), Some(&identity.keyed_certificate(Timestamp::now()))).unwrap();
    let mut client = dial(&Tcp, &hub.address, tls).await.unwrap();
    let (frames, outbound) = tokio::sync::mpsc::channel(4);
    let credit = Some(Credit { messages: u32::MAX, bytes: u64::MAX });
    let hello = Hello {
        protocol_min: 1,
        protocol_max: 1,
        cluster_name: "stuck".into(),
        boot_id: "b".into(),
        credit,
        ..Hello::default()
    };
    frames.send(frame::agent(agent_frame::Body::Hello(hello))).await.unwrap();
    frames.send(frame::agent(agent_frame::Body::Ping(Ping { seq: 1, next_ms: 1000 }))).await.unwrap();
    let unread = client.connect(ReceiverStream::new(outbound)).await.unwrap();
    assert_eq!(hub.live().len(), 1);
    let noise = |at: u32| -> String {
        let letter = |i: u32| char::from(b'a' + ((i ^ at).wrapping_mul(2_654_435_761) >> 20) as u8 % 26);
        (0..200_000).map(letter).collect()
    };
    for at in 0..50 {
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("c{at}"), "namespace": "default"}, "data": {"k": noise(at)}});
        hub.fake.put("stuck", &format!("c{at}"), &config);
    }
    let keeper = Keeper::Directory(tempfile::tempdir().unwrap().keep());
    let quick = Agent::start(hub.config("quick"), member("quick"), keeper);
    hub.fake.put("quick", "web", &deployment("web", 2));
    until("the other is served", || ready_replicas(&hub.fake, "quick", "web") == Some(2)).await;
    until("the stuck one is given up", || hub.link("stuck") == LinkState::Offline).await;
    assert_eq!(hub.live(), ["quick"]);
    drop((unread, frames));
    quick.end().await;
}
