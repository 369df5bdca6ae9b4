//! The agent of a site, running or not, put together as the agent's own wiring has it, over a ledger in a directory that outlives it.
//!
//! In: starts and ends by the script. Out: what its ledger holds, copies of it, how it stands.

use std::sync::Arc;
use std::time::Duration;

use karmada_agent::agent_state::AgentState;
use karmada_agent::identity::{Identity, IdentityStore};
use karmada_agent::ledger::{self, Ledger};
use karmada_agent::link::dial::Transports;
use karmada_agent::link::{self, Link};
use karmada_agent::member::topology::Topology;
use karmada_agent::member::verified_member::ProvenMember;
use karmada_agent::pods::usage::PodUsages;
use karmada_agent::reconcile::member_body::ClusterNames;
use karmada_agent::reconcile::{agent_objects::Own, engine, retention_layer};
use karmada_agent::tunnel::{Tunnels, allowed::Allowed};
use karmada_agent::{ClockAndRandom, LinkView, cluster_status};
use karmada_interpreter::Native;
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::crash::{Blown, Fuse};
use crate::dice::Dice;
use crate::hub::WallClock;
use crate::ledgers::{self, Camera, copy_files, directory};
use crate::log::Log;
use crate::member::{Rests, Site};
use crate::network::{Line, Network};

struct Running {
    shared: Arc<AgentState>,
    task: JoinHandle<()>,
    stop: CancellationToken,
}

/// An agent.
pub struct Agent {
    pub name: String,
    pub site: Site,
    pub clock: WallClock,
    identity: Identity,
    directory: TempDir,
    dice: Arc<Mutex<Dice>>,
    network: Network,
    log: Log,
    pub life: u64,
    blown: mpsc::Sender<Blown>,
    running: Option<Running>,
    transports: Transports,
    /// Of a version, or before a hub of one, that lacks something: see [`crate::skew`].
    pub is_older: bool,
    /// Copies of its ledger.
    copies: Vec<TempDir>,
    /// By which it ends at a write of its ledger.
    pub camera: Camera,
}

/// What all processes of a run share.
#[derive(Clone)]
pub struct Around {
    pub network: Network,
    pub log: Log,
    pub blown: mpsc::Sender<Blown>,
    /// Told of each write of a ledger, or of the hub's store.
    pub written: Arc<Notify>,
}

impl Agent {
    pub fn new(
        name: &str,
        site: Site,
        identity: Identity,
        clock: WallClock,
        dice: Dice,
        around: &Around,
    ) -> Self {
        Self {
            name: name.to_owned(),
            site,
            clock,
            identity,
            directory: directory(),
            transports: if dice.clone().chance(50) { Transports::Grpc } else { Transports::BareOrGrpc },
            is_older: false,
            dice: Arc::new(Mutex::new(dice)),
            network: around.network.clone(),
            log: around.log.clone(),
            life: 0,
            blown: around.blown.clone(),
            running: None,
            copies: Vec::new(),
            camera: Camera::telling(around.written.clone()),
        }
    }

    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// A process begins over what is in the directory.
    pub fn start(&mut self) {
        if self.running.is_some() {
            return;
        }
        self.life += 1;
        let fuse = Fuse::new(&self.name, self.life, self.blown.clone());
        let ledger = Ledger::open(self.directory.path()).unwrap();
        self.camera.follows(&ledger, self.directory.path(), fuse.clone());
        let cluster = self.identity.cluster_name.clone();
        let names = ClusterNames { before: ledger.is_of(&cluster).unwrap(), now: cluster };
        let (link, _) = watch::channel(LinkView::default());
        let shared = AgentState::new(ledger, link);
        let (clock, draws) = (self.clock.clone(), self.dice.clone());
        let sources = ClockAndRandom::new(move || clock.now(), move || draws.lock().next());
        let rests = Rests::default();
        let seen = self.site.seen_by(fuse.clone(), rests.clone());
        let member = Arc::new(ProvenMember::new(seen, self.identity.cluster_uid.clone()));
        let engine = self.engine(shared.clone(), member.clone(), &sources, names);
        let link = self.link_of(shared.clone(), member.clone(), sources, fuse);
        let (all, log, name) = (shared.clone(), self.log.clone(), self.name.clone());
        let follows = shared.link.subscribe();
        let stops = CancellationToken::new();
        let stop = stops.clone();
        let task = tokio::spawn(async move {
            let works = async {
                tokio::join!(
                    Box::pin(engine::run(engine, stop.clone())),
                    Box::pin(link::run(link, stop.clone())),
                    Box::pin(cluster_status::run(
                        all.clone(),
                        member.clone(),
                        Default::default(),
                        stop.clone()
                    )),
                    ledger::keep_on_disk(&all.ledger, stop.clone()),
                )
            };
            // Before another member than the one that it was joined for, an agent ends.
            let (engine, link, ..) = tokio::select! {
                biased;
                other = member.watch_identity() => return log.line(format_args!("{name} finds {other} and ends")),
                ended = works => ended,
                never = rests.follows(follows) => never,
            };
            log.line(format_args!("{name} ended by itself: {engine:?}, {link:?}"));
        });
        self.log.line(format_args!("{} starts", self.name));
        self.running = Some(Running { shared, task, stop: stops });
    }

    fn engine(
        &self,
        shared: Arc<AgentState>,
        member: Arc<ProvenMember>,
        sources: &ClockAndRandom,
        cluster: ClusterNames,
    ) -> engine::Parts {
        let wall = sources.clone();
        let identity_store = IdentityStore::Directory(self.directory.path().to_owned());
        let (customized, retention) =
            retention_layer::in_front_of(Arc::new(Native), Arc::new(move || wall.now()));
        engine::Parts {
            shared,
            member,
            customized,
            retention,
            cluster,
            own: Arc::new(Own::of(&identity_store, &[])),
            drift_rate: 5.0,
            namespaces: Arc::from([]),
        }
    }

    fn link_of(
        &self,
        shared: Arc<AgentState>,
        member: Arc<ProvenMember>,
        sources: ClockAndRandom,
        fuse: Fuse,
    ) -> Link {
        let now = sources.clone();
        let clock = Arc::new(move || now.now());
        Link {
            shared,
            connector: Arc::new(Line { network: self.network.clone(), site: self.name.clone(), fuse }),
            identity: self.identity.clone(),
            identity_store: IdentityStore::Directory(self.directory.path().to_owned()),
            enrolment: None,
            boot_id: sources.process_name(),
            seed: sources.random(),
            said_topology: Topology::default(),
            transports: match self.life.is_multiple_of(3) {
                _ if self.is_older => Transports::BareOrGrpc,
                true => Transports::Grpc,
                false => self.transports,
            },
            usages: Arc::new(PodUsages::new(member.clone(), clock)),
            sources,
            member: member.clone(),
            tunnels: Arc::new(Tunnels::new(member, Allowed::default())),
        }
    }

    /// The process is asked to end, and is killed where it does not in time.
    pub async fn stop(&mut self, patience: Duration) {
        let Some(running) = &mut self.running else { return };
        running.stop.cancel();
        let is_over = tokio::time::timeout(patience, &mut running.task).await.is_ok();
        self.log.line(format_args!("{} was asked to end: {is_over}", self.name));
        self.crash().await;
    }

    /// The process ends in the middle of whatever it does.
    pub async fn crash(&mut self) {
        let Some(running) = self.running.take() else { return };
        if !running.task.is_finished() {
            running.task.abort();
            let _ = running.task.await;
        }
        drop(running.shared);
        if let Some(left) = self.camera.take() {
            self.directory = left;
        }
        self.log.line(format_args!("{} ends", self.name));
    }

    /// The ledger of the process that runs.
    pub fn ledger(&self) -> Option<&Ledger> {
        self.running.as_ref().map(|running| &running.shared.ledger)
    }

    pub fn link(&self) -> Option<LinkView> {
        self.running.as_ref().map(|running| running.shared.link.borrow().clone())
    }

    /// Whether the ledger knows of a Work.
    pub fn holds(&self, name: &str) -> bool {
        self.ledger().is_some_and(|ledger| ledger.entry(name).is_ok_and(|entry| entry.is_some()))
    }

    /// One bit of what the ledger holds of a Work flips, whether the process runs or not. Out: of which Work.
    pub fn flip_a_bit(&mut self, dice: &mut Dice) -> Option<String> {
        let flipped = ledgers::flip_a_bit(self.directory.path(), dice);
        self.log.line(format_args!("a bit flips in the ledger of {}: {flipped:?}", self.name));
        flipped.map(|(work, _)| work)
    }

    /// What is in the directory is copied, to come back later.
    pub fn copy(&mut self) {
        let copy = directory();
        copy_files(self.directory.path(), copy.path());
        self.copies.push(copy);
        self.log.line(format_args!("the ledger of {} is copied", self.name));
    }

    /// An older copy is put back; the process must not run. With no copy, or where that `is_lost`, there is none.
    pub fn put_back(&mut self, is_lost: bool) {
        let fresh = directory();
        if let Some(copy) = self.copies.pop().filter(|_| !is_lost) {
            copy_files(copy.path(), fresh.path());
        }
        self.directory = fresh;
        self.log.line(format_args!("the ledger of {} is an older one", self.name));
    }

    /// Another process with the same identity, over a copy of the state, before another member.
    pub fn clone_on(&self, site: Site, dice: Dice) -> Self {
        let copy = directory();
        copy_files(self.directory.path(), copy.path());
        Self {
            name: self.name.clone(),
            site,
            clock: self.clock.clone(),
            identity: self.identity.clone(),
            directory: copy,
            transports: self.transports,
            is_older: self.is_older,
            dice: Arc::new(Mutex::new(dice)),
            network: self.network.clone(),
            log: self.log.clone(),
            life: 1000 + self.life,
            blown: self.blown.clone(),
            running: None,
            copies: Vec::new(),
            camera: self.camera.beside(),
        }
    }
}
