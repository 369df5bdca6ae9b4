//! What tests of the fleet's shells need: a hub without control loops over a store in memory, whose clock stands until it is moved, and
//! one agent that joins and opens a session, with no network between them.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::StreamExt;
use futures::channel::mpsc;
use jiff::{SignedDuration, Timestamp};
use karmada_certs::{CertificateRequest, ClientKey, PeerIdentity, agent_subject};
use karmada_controllers::events::Recorder;
use karmada_controllers::port::{Api, Key};
use karmada_controllers::queue::Queue;
use karmada_controllers::workqueues::Workqueues;
use karmada_definitions::resource::ResourceDefinition;
use karmada_definitions::status::Status;
use karmada_gateway::connection::{Caller, connect};
use karmada_gateway::ports::Ports;
use karmada_gateway::{ClockAndRandom, Gateway, Options, SharedFleet};
use karmada_proto::frame;
use karmada_proto::last_read::LastRead;
use karmada_proto::v1::{AgentFrame, Credit, Hello, HubFrame, agent_frame, hub_frame};
use karmada_registry::{AdmissionRequest, Registry, RegistryContext, admission::Admission};
use karmada_schema::object::{ObjectKey, Stored};
use karmada_store::Store;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::{CachedWorks, Contacts, HubRegistrar, Reports, StoredSessions, write_options::write_options};
use crate::data_dir::DataDir;
use crate::registry_api::RegistryApi;
use crate::registry_in_memory::RegistryInMemory;

/// The cluster of the one agent.
pub(super) const NORTH: &str = "north";

/// Refuses all writes while it is told to, as a full disk does.
#[derive(Clone, Default)]
pub(super) struct FullDisk(Arc<AtomicBool>);

impl FullDisk {
    pub(super) fn is_full(&self, full: bool) {
        self.0.store(full, Ordering::SeqCst);
    }
}

impl Admission for FullDisk {
    fn admit(&self, _: &RegistryContext, _: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        if self.0.load(Ordering::SeqCst) { Err(Status::unavailable("the disk is full")) } else { Ok(()) }
    }
}

/// Lets something happen while the next write is on its way: what it was made from is not what stands any more.
#[derive(Clone, Default)]
pub(super) struct Meanwhile(Arc<Mutex<Option<Happening>>>);

type Happening = Box<dyn FnOnce() + Send>;

impl Meanwhile {
    /// Somebody changes an object so. The test needs a runtime of several threads.
    pub(super) fn edited(
        &self,
        rig: &Rig,
        resource: &str,
        change: impl Fn(&mut Value) + Send + Sync + 'static,
    ) {
        let (registry, definition) = (rig.registry.clone(), rig.definition(resource));
        let happening = move || {
            let write = edit(&registry, &definition, ("", NORTH), "", &change);
            let runtime = tokio::runtime::Handle::current();
            tokio::task::block_in_place(|| runtime.block_on(write));
        };
        *self.0.lock() = Some(Box::new(happening));
    }
}

impl Admission for Meanwhile {
    fn admit(&self, _: &RegistryContext, _: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        let happening = self.0.lock().take();
        if let Some(happening) = happening {
            happening();
        }
        Ok(())
    }
}

async fn edit(
    registry: &Registry,
    definition: &ResourceDefinition,
    (namespace, name): (&str, &str),
    subresource: &str,
    change: &(impl Fn(&mut Value) + Send + Sync),
) {
    let options = karmada_registry::WriteOptions { subresource: subresource.into(), ..write_options() };
    let mut whole = |live: Option<&Value>| {
        let mut object = live.cloned().unwrap();
        change(&mut object);
        Ok(object)
    };
    let key = ObjectKey::new(namespace, name);
    registry.update(definition, &key, &options, &mut whole).await.unwrap();
}

/// The hub.
pub(super) struct Rig {
    pub(super) registry: Arc<Registry>,
    pub(super) gateway: Arc<Gateway>,
    pub(super) reports: Arc<Reports>,
    pub(super) sessions: Arc<StoredSessions>,
    pub(super) store: Arc<dyn Store>,
    pub(super) disk: FullDisk,
    pub(super) meanwhile: Meanwhile,
    /// Clusters that the cluster controller is called to.
    pub(super) called: Arc<Queue<Key>>,
    now: Arc<Mutex<Timestamp>>,
    data: Arc<DataDir>,
    _folder: tempfile::TempDir,
    /// What ends the registry's tasks, and those of each start.
    _stops: Vec<DropGuard>,
}

impl Rig {
    /// A hub with a Cluster [`NORTH`], whose agent is not connected.
    pub(super) async fn start() -> Rig {
        let now = Arc::new(Mutex::new(Timestamp::now()));
        let clock: karmada_registry::Clock = {
            let now = now.clone();
            Arc::new(move || *now.lock())
        };
        let (disk, meanwhile) = (FullDisk::default(), Meanwhile::default());
        let folder = tempfile::tempdir().unwrap();
        let data = Arc::new(DataDir::open(folder.path(), clock()).unwrap());
        let gates: Vec<Box<dyn Admission>> = vec![Box::new(meanwhile.clone()), Box::new(disk.clone())];
        let RegistryInMemory { registry, store, stop, .. } = RegistryInMemory::start(gates, clock).await;
        let (registry, stored) = (Arc::new(registry), (store.clone(), data.clone()));
        let Process { gateway, reports, sessions, called } = process(&registry, &stored, 1, &stop).await;
        let _stops = vec![stop.drop_guard()];
        let _folder = folder;
        Rig {
            registry,
            gateway,
            reports,
            sessions,
            store,
            disk,
            meanwhile,
            called,
            now,
            data,
            _folder,
            _stops,
        }
    }

    /// The hub ended and starts anew over the same store: what was in memory is gone, and nobody is connected.
    pub(super) async fn restart(&mut self) {
        let stored = (self.store.clone(), self.data.clone());
        let stop = CancellationToken::new();
        let begun = process(&self.registry, &stored, 2, &stop).await;
        Process {
            gateway: self.gateway,
            reports: self.reports,
            sessions: self.sessions,
            called: self.called,
        } = begun;
        self._stops.push(stop.drop_guard());
    }

    /// Lets time pass.
    pub(super) fn later(&self, by: Duration) {
        *self.now.lock() += by;
    }

    pub(super) fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<Arc<Stored>> {
        self.registry.get(&self.definition(resource), namespace, name).ok()
    }

    /// The Cluster as it is now.
    pub(super) fn cluster(&self) -> Value {
        self.get("clusters", "", NORTH).unwrap().value()
    }

    pub(super) fn definition(&self, resource: &str) -> Arc<ResourceDefinition> {
        let group = if resource == "works" { "work.karmada.io" } else { "cluster.karmada.io" };
        self.registry.definition(group, "v1alpha1", resource).unwrap()
    }

    pub(super) async fn create(&self, resource: &str, namespace: &str, object: Value) -> Arc<Stored> {
        let definition = self.definition(resource);
        self.registry.create(&definition, namespace, object, &write_options()).await.unwrap().object
    }

    /// Somebody on the hub changes an object, or a subresource of it.
    pub(super) async fn edit(
        &self,
        resource: &str,
        (namespace, name): (&str, &str),
        subresource: &str,
        change: impl Fn(&mut Value) + Send + Sync,
    ) {
        edit(&self.registry, &self.definition(resource), (namespace, name), subresource, &change).await;
    }

    /// An agent of [`NORTH`] with the key that its Cluster names, which is made with the first.
    pub(super) async fn agent(&self) -> Agent {
        let key = ClientKey::generate().unwrap();
        let subject = agent_subject(NORTH);
        let request = CertificateRequest::from_der(&key.request(&subject).unwrap()).unwrap();
        let authorities = self.data.authorities();
        let day = Duration::from_secs(24 * 3600);
        let now = *self.now.lock();
        let pem = authorities.signing().issue_client(&subject, &request, day, now).unwrap();
        let peer = PeerIdentity::from_pem(&pem).unwrap();
        let holds = karmada_core::registration::keys::KEY;
        let cluster = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
            "metadata": {"name": NORTH, "annotations": {holds: peer.key_fingerprint.clone()}},
            "spec": {"syncMode": "Pull", "id": "u"}});
        self.create("clusters", "", cluster).await;
        self.connect(peer).await
    }

    /// The agent of that identity connects.
    pub(super) async fn connect(&self, peer: PeerIdentity) -> Agent {
        let (frames, inbound) = mpsc::unbounded();
        let hello = Hello {
            protocol_min: 1,
            protocol_max: 1,
            cluster_name: NORTH.into(),
            boot_id: "b".into(),
            credit: Some(Credit { messages: 100, bytes: 1 << 20 }),
            ..Hello::default()
        };
        frames.unbounded_send(Ok(frame::agent(agent_frame::Body::Hello(hello)))).unwrap();
        let caller =
            Caller { peer: peer.clone(), from: None, last_read: LastRead::default(), transport: "memory" };
        let session = connect(&self.gateway, caller, inbound).await.boxed();
        let mut agent = Agent { peer, _frames: frames, session };
        let said = agent.hears().await;
        assert!(matches!(said.first(), Some(hub_frame::Body::Welcome(_))), "{said:?}");
        agent
    }
}

/// What of the hub a start makes.
struct Process {
    gateway: Arc<Gateway>,
    reports: Arc<Reports>,
    sessions: Arc<StoredSessions>,
    called: Arc<Queue<Key>>,
}

async fn process(
    registry: &Arc<Registry>,
    (store, data): &(Arc<dyn Store>, Arc<DataDir>),
    id: u64,
    stop: &CancellationToken,
) -> Process {
    let sessions = Arc::new(StoredSessions::open(store.clone(), data.clone(), id).await.unwrap());
    let wall = registry.clone();
    let sources = ClockAndRandom::new(move || wall.now(), || 7);
    let fleet = SharedFleet::new(sources, SignedDuration::from_secs(40), |_, _| {});
    let api = RegistryApi::new(registry.clone(), "tests", Arc::new(Workqueues::default()));
    let (api, clock): (Arc<dyn Api>, _) = (Arc::new(api), registry.clone());
    let recorder = Recorder::new(api, "tests", Arc::new(move || clock.now()));
    let called = Arc::new(Queue::default());
    let reports = Arc::new(Reports::new(registry.clone(), fleet.clone(), recorder, called.clone()));
    let contacts = Arc::new(Contacts(fleet.clone()));
    let registrar = HubRegistrar::new(registry.clone(), data.clone(), Vec::new(), contacts);
    let ports = Ports {
        works: Arc::new(CachedWorks::start(registry.clone(), &TaskTracker::new(), stop.clone())),
        statuses: reports.clone(),
        registrar: Arc::new(registrar),
        sessions: sessions.clone(),
    };
    Process { gateway: Gateway::new(ports, fleet, Options::default()), reports, sessions, called }
}

/// An agent as the hub sees it: what it is sent, and whether its session lives.
pub(super) struct Agent {
    pub(super) peer: PeerIdentity,
    _frames: mpsc::UnboundedSender<Result<AgentFrame, Infallible>>,
    session: futures::stream::BoxStream<'static, HubFrame>,
}

impl Agent {
    /// What the hub has to say at this moment.
    pub(super) async fn hears(&mut self) -> Vec<hub_frame::Body> {
        let mut said = Vec::new();
        let moment = Duration::from_millis(20);
        while let Ok(Some(frame)) = tokio::time::timeout(moment, self.session.next()).await {
            said.extend(frame.body);
        }
        said
    }
}
