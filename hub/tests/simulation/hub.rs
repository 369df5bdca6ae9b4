//! The hub of a run: its store, and while it runs the registry, the gateway and the ports between them, as the hub's own wiring has them.
//!
//! In: starts, ends, backups and restores by the script; connections of the network. Out: what is in the store, for users and invariants.
//! Its controllers do not run: users here write Works themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use futures::StreamExt as _;
use jiff::{SignedDuration, Timestamp};
use karmada_agent::ledger::Ledger;
use karmada_bare::{Incoming, Outgoing};
use karmada_certs::PeerIdentity;
use karmada_controllers::events::Recorder;
use karmada_controllers::port::{Api, Key};
use karmada_controllers::queue::Queue;
use karmada_controllers::runner::Controller;
use karmada_controllers::workqueues::Workqueues;
use karmada_core::cluster::Grace;
use karmada_gateway::connection::{Caller, connect};
use karmada_gateway::ports::Ports;
use karmada_gateway::session::Document;
use karmada_gateway::{ClockAndRandom, Gateway, Options, SharedFleet, service};
use karmada_hub::fleet::{CachedWorks, ClusterStatusRepair, Contacts, HubRegistrar, Reports, StoredSessions};
use karmada_hub::{DataDir, RegistryApi};
use karmada_kinds::catalogue;
use karmada_proto::DOCUMENTS;
use karmada_proto::last_read::LastRead;
use karmada_proto::v1::{AgentFrame, HubFrame, Table};
use karmada_registry::cache::Cache;
use karmada_registry::{Parts, Registry};
use karmada_store::{MemoryStore, Store};
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service as _;

use crate::agent::Around;
use crate::crash::{Blown, Fuse};
use crate::dice::Dice;
use crate::disk::Disk;
use crate::identities::Authorities;
use crate::log::Log;
use crate::network::Network;
use crate::pipe::End;
use crate::skew::{self, Skew};

/// A wall clock that somebody may set.
#[derive(Clone)]
pub struct WallClock {
    base: Timestamp,
    began: Instant,
    ahead: Arc<AtomicI64>,
}

impl WallClock {
    pub fn new(base: Timestamp) -> Self {
        Self { base, began: Instant::now(), ahead: Arc::default() }
    }

    pub fn now(&self) -> Timestamp {
        let passed = SignedDuration::try_from(self.began.elapsed()).unwrap();
        self.base + passed + SignedDuration::from_secs(self.ahead.load(Ordering::Relaxed))
    }

    /// It shows so many seconds more than it should.
    pub fn set_ahead(&self, seconds: i64) {
        self.ahead.store(seconds, Ordering::Relaxed);
    }
}

/// The hub while it runs.
pub struct Running {
    pub registry: Arc<Registry>,
    pub gateway: Arc<Gateway>,
    pub registrar: Arc<HubRegistrar>,
    pub sessions: Arc<StoredSessions>,
    pub disk: Arc<Disk>,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

impl Running {
    /// What the hub does when a Cluster changed, or some time after it.
    pub async fn repair(&self, site: &str) {
        let repair = ClusterStatusRepair::new(self.registry.clone(), self.gateway.clone());
        let key = Key { namespace: "".into(), name: site.into() };
        // What cannot be written now is tried again with the next look.
        let _ = repair.reconcile(&key).await;
    }
}

/// The hub, running or not.
pub struct Hub {
    pub clock: WallClock,
    pub running: Option<Running>,
    store: Arc<MemoryStore>,
    authorities: Arc<Authorities>,
    dice: Arc<Mutex<Dice>>,
    network: Network,
    log: Log,
    pub life: u64,
    /// Which versions its agents are of.
    pub skew: Skew,
    /// What every agent is told whole, once there is one.
    pub document: Option<Arc<Document>>,
    blown: mpsc::Sender<Blown>,
    /// Told of each write of its store.
    written: Arc<Notify>,
}

impl Hub {
    pub fn new(dice: Dice, around: &Around, authorities: Arc<Authorities>) -> Self {
        let Around { network, log, blown, written } = around.clone();
        Self {
            clock: WallClock::new(authorities.now),
            running: None,
            store: Arc::new(MemoryStore::new()),
            authorities,
            dice: Arc::new(Mutex::new(dice)),
            network,
            skew: Skew::new(log.clone()),
            log,
            life: 0,
            document: None,
            blown,
            written,
        }
    }

    /// The hub starts over what is in its store.
    pub async fn start(&mut self) {
        if self.running.is_some() {
            return;
        }
        self.life += 1;
        let fuse = Fuse::new("hub", self.life, self.blown.clone());
        let disk = Arc::new(Disk::new(self.store.clone(), fuse.clone(), self.written.clone()));
        let store: Arc<dyn Store> = disk.clone();
        let (draws, clock) = (self.dice.clone(), self.clock.clone());
        let id = draws.lock().next();
        let data = self.authorities.data.clone();
        let sessions = Arc::new(StoredSessions::open(store.clone(), data.clone(), id).await.unwrap());
        let cache = Cache::load(&*store).await.unwrap();
        let (stop, tracker, mut tasks) = (CancellationToken::new(), TaskTracker::new(), JoinSet::new());
        let following = (cache.clone(), store.clone(), stop.clone());
        tasks.spawn(async move { drop(following.0.run(following.1, following.2).await) });
        let (wall, ids) = (clock.clone(), draws.clone());
        let clock: karmada_registry::Clock = Arc::new(move || wall.now());
        let registry = Arc::new(Registry::new(Parts {
            store,
            cache: cache.clone(),
            catalogue: catalogue::shipped(),
            admission: Vec::new(),
            authorizer: karmada_access::Authorizer::new(cache),
            clock: clock.clone(),
            ids: Arc::new(move || {
                let mut dice = ids.lock();
                uuid::Builder::from_random_bytes(
                    (u128::from(dice.next()) << 64 | u128::from(dice.next())).to_be_bytes(),
                )
                .into_uuid()
            }),
        }));
        let gateway = self.gateway(&registry, (data, sessions.clone()), &tracker, (stop.clone(), clock));
        let (connections, accepted) = mpsc::channel(64);
        let versions = self.skew.clone();
        tasks.spawn(accept(accepted, self.authorities.acceptor.clone(), gateway.0.clone(), versions));
        self.network.hub_listens(connections, fuse);
        self.log.line(format_args!(
            "the hub starts at {} in epoch {}",
            self.store.revision(),
            self.store.epoch()
        ));
        let (gateway, registrar) = gateway;
        if let Some(document) = &self.document {
            gateway.tell(document.clone()).await;
        }
        self.running = Some(Running { registry, gateway, registrar, sessions, disk, stop, tasks });
    }

    fn gateway(
        &self,
        registry: &Arc<Registry>,
        (data, sessions): (Arc<DataDir>, Arc<StoredSessions>),
        tracker: &TaskTracker,
        (stop, clock): (CancellationToken, karmada_registry::Clock),
    ) -> (Arc<Gateway>, Arc<HubRegistrar>) {
        let (wall, draws) = (clock.clone(), self.dice.clone());
        let sources = ClockAndRandom::new(move || wall(), move || draws.lock().next());
        let fleet = SharedFleet::new(sources, Grace::default().silence, |_, _| {});
        let workqueues = Arc::new(Workqueues::default());
        let api: Arc<dyn Api> = Arc::new(RegistryApi::new(registry.clone(), "simulation", workqueues));
        let recorder = Recorder::new(api, "simulation", clock);
        let reports = Reports::new(registry.clone(), fleet.clone(), recorder, Arc::new(Queue::default()));
        let contacts = Arc::new(Contacts(fleet.clone()));
        let registrar = HubRegistrar::new(registry.clone(), data, vec!["hub:1".to_owned()], contacts);
        let registrar = Arc::new(registrar);
        let ports = Ports {
            works: Arc::new(CachedWorks::start(registry.clone(), tracker, stop)),
            statuses: Arc::new(reports),
            registrar: registrar.clone(),
            sessions,
        };
        (Gateway::new(ports, fleet, Options::default()), registrar)
    }

    /// All agents are told this whole from now on.
    pub async fn tells(&mut self, text: &str) {
        let document = Arc::new(Document::new(Table::Customizations, &text.to_owned().into()));
        self.document = Some(document.clone());
        if let Some(running) = &self.running {
            running.gateway.tell(document).await;
        }
    }

    /// It goes down in order: its agents are asked to leave, and nobody new is let in.
    pub async fn drain(&mut self, within: Duration) {
        let Some(running) = &self.running else { return };
        self.log.line("the hub goes down in order");
        self.network.hub_closes();
        running.gateway.drain(within).await;
        self.crash(false).await;
    }

    /// It ends as by a power cut, or is killed: its peers hear nothing of it where it `vanishes`.
    pub async fn crash(&mut self, vanishes: bool) {
        let Some(mut running) = self.running.take() else { return };
        running.disk.end();
        self.network.hub_is_gone(vanishes);
        running.stop.cancel();
        running.tasks.shutdown().await;
        drop(running);
        // What another process finds: no history, and no write of the one that ended.
        self.store = Arc::new(self.store.copied());
        self.log.line("the hub ends");
    }

    /// It ends at its `write`th write from now on.
    pub fn ends_at(&self, write: u64) {
        if let Some(running) = &self.running {
            running.disk.ends_at(write);
        }
    }

    /// Nothing is to happen to it any more.
    pub fn is_well(&self) {
        if let Some(running) = &self.running {
            running.disk.ends_at(0);
            running.disk.set_full(false);
            running.disk.set_slowness(Duration::ZERO);
        }
    }

    /// Where the ledger of a site, which takes documents, holds another than the one that is told.
    pub fn document_lacks(&self, site: &str, ledger: &Ledger) -> Option<String> {
        let told = self.document.as_ref().filter(|_| !self.skew.missing(site).contains(DOCUMENTS))?;
        let held = ledger.document(told.table as u32).ok().flatten();
        let is_held = held.is_some_and(|(hash, _)| hash == told.hash);
        (!is_held).then(|| format!("{site} holds another document than the one that is told"))
    }

    /// A backup of the store, while the hub runs or not.
    pub fn backup(&self) -> Arc<MemoryStore> {
        Arc::new(self.store.copied())
    }

    /// A backup is put back; the hub must not run. Its epoch is raised where the restore is announced.
    pub async fn restore(&mut self, backup: &MemoryStore, announced: bool) {
        let epoch = backup.epoch();
        self.store = Arc::new(backup.copied());
        if announced {
            self.store.raise_epoch(epoch).await.unwrap();
        }
        self.log.line(format_args!("the hub is put back to {}", self.store.revision()));
    }

    /// History is not kept any more.
    pub async fn compact(&self) {
        let _ = self.store.compact(self.store.revision()).await;
    }

    pub fn revision(&self) -> u64 {
        self.store.revision()
    }
}

/// Serves each connection; the verified peer goes into every request's extensions.
async fn accept(
    mut connections: mpsc::Receiver<(String, End)>,
    tls: TlsAcceptor,
    gateway: Arc<Gateway>,
    skew: Skew,
) {
    // The connections end with the hub.
    let mut serving = JoinSet::new();
    let service = service::server(&gateway);
    while let Some((site, stream)) = connections.recv().await {
        let (tls, service, gateway) = (tls.clone(), service.clone(), gateway.clone());
        let versions = skew.session(&site);
        serving.spawn(async move {
            let handshake = tokio::time::timeout(Duration::from_secs(10), tls.accept(stream)).await;
            let Ok(Ok(stream)) = handshake else { return };
            let chain = stream.get_ref().1.peer_certificates();
            let peer = chain.and_then(|chain| PeerIdentity::from_der(&chain[0]).ok());
            if stream.get_ref().1.alpn_protocol() == Some(karmada_bare::ALPN) {
                return frames(&gateway, peer.unwrap(), stream, versions).await;
            }
            let service =
                hyper::service::service_fn(move |mut request: http::Request<hyper::body::Incoming>| {
                    if let Some(peer) = &peer {
                        request.extensions_mut().insert(peer.clone());
                    }
                    service.clone().call(request)
                });
            let executor = hyper_util::rt::TokioExecutor::new();
            let io = hyper_util::rt::TokioIo::new(stream);
            let _ = hyper::server::conn::http2::Builder::new(executor).serve_connection(io, service).await;
        });
        while serving.try_join_next().is_some() {}
    }
}

/// Serves a session without HTTP.
async fn frames(gateway: &Arc<Gateway>, peer: PeerIdentity, stream: TlsStream<End>, versions: skew::Session) {
    let (reads, writes) = tokio::io::split(stream);
    let limits = karmada_bare::Limits { first: 64 << 10, then: karmada_proto::MESSAGE_LIMIT };
    let caller = Caller { peer, from: None, last_read: LastRead::default(), transport: "bare" };
    let versions = &versions;
    let incoming: Incoming<_, AgentFrame> = Incoming::new(reads, limits);
    let incoming = incoming.map(|frame| frame.map(|frame| versions.to_hub(frame)));
    let frames = connect(gateway, caller, incoming).await;
    let outgoing: Outgoing<_, HubFrame> = Outgoing::new(writes);
    let _ = frames.map(|frame| Ok(versions.to_agent(frame))).forward(outgoing).await;
}
