//! The world of one run: a hub, its sites, the network between them, users, and a person who decides.
//!
//! In: a seed. Out: the log, and what was wrong in the end. Trouble first, of which the script draws some every few seconds; then
//! everything is mended, and the world has a bounded time to become what the hub says.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use karmada_agent::member::{ObjectId, cluster_uid};
use karmada_gateway::ports::{JoinOutcome, Registrar};
use karmada_registry::{Origin, Registry, User, WriteOptions};
use karmada_store::MemoryStore;
use serde_json::json;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use crate::agent::{Agent, Around};
use crate::crash::Blown;
use crate::cursors::{Look, Wants};
use crate::dice::Dice;
use crate::hub::{Hub, WallClock};
use crate::identities::{Authorities, TOKEN};
use crate::invariants::Returns;
use crate::log::Log;
use crate::member::{Deletion, Site};
use crate::network::Network;
use crate::users::Users;

/// A site as the world keeps it.
pub struct Place {
    pub agent: Agent,
    /// Another process with this agent's identity, where there is one.
    pub clone: Option<Agent>,
    /// Whether there ever was one before the same member.
    pub had_clone: bool,
    /// The member that the clone was copied to, where it has one of its own.
    pub elsewhere: Option<Site>,
    pub deletions: Vec<Deletion>,
    /// What brings back what was deleted, so often.
    pub returns: Returns,
    /// How often the agent was ended in the middle of something.
    pub crashes: u64,
    /// Names of objects that the member never takes, or that end who writes them.
    pub bad: BTreeSet<String>,
    /// Objects of others, under names that suspended Works name as well.
    pub others: BTreeSet<ObjectId>,
    /// Deletes that wait for a person: Works that were being deleted in a backup that was put back, of which this agent had not heard.
    pub held: BTreeSet<String>,
    /// How often in a row a person was asked to let deletes go where none waits.
    pub asked_for_nothing: u32,
    /// What the site had was taken back, damaged or copied: a part of it may be an orphan.
    pub was_taken_back: bool,
    pub had_full_disk: bool,
    /// Works in whose rows of the ledger a bit flipped.
    pub flipped: BTreeSet<String>,
    /// Lives of Works, by name and uid, that the hub let go of on this site's word.
    pub gone: BTreeSet<(String, String)>,
    /// Up to which revision the site acknowledged, in which life of the hub; and of which session on that counts.
    pub acked: Option<(u64, u64)>,
    pub acks_from: u64,
    /// When its ledger was looked at last.
    pub looked: Look,
    pub starts_at: Option<Instant>,
    pub clone_ends_at: Option<Instant>,
}

/// A Work that is being deleted.
pub struct Leaving {
    /// How often the hub had been put back when it was seen so first.
    pub hub_returns: u64,
    /// The uids of its objects at the site then.
    pub objects: BTreeSet<String>,
}

/// Everything.
pub struct World {
    pub log: Log,
    pub hub: Hub,
    pub places: Vec<Place>,
    pub network: Network,
    pub users: Users,
    pub backups: Vec<Arc<MemoryStore>>,
    pub hub_starts_at: Option<Instant>,
    pub hub_returns: u64,
    pub wrong: Vec<String>,
    /// Works that are being deleted, as they were seen first: site, name and uid.
    pub leaving: BTreeMap<(String, String, String), Leaving>,
    /// The hub's Works as ledgers are to have them.
    pub wants: Wants,
    blown: mpsc::Receiver<Blown>,
    /// A ledger was written, or the hub's store.
    written: Arc<Notify>,
    pub dice: Dice,
}

impl World {
    /// A hub and its sites, joined and connected.
    pub async fn begin(seed: u64, sites: usize) -> Self {
        let log = Log::new();
        let network = Network::new(log.clone());
        let authorities = Authorities::shared();
        let (sender, blown) = mpsc::channel(256);
        let written = Arc::new(Notify::new());
        let around =
            Around { network: network.clone(), log: log.clone(), blown: sender, written: written.clone() };
        let dice = Dice::new(seed, "hub");
        let mut hub = Hub::new(dice, &around, authorities.clone());
        hub.start().await;
        token(&hub).await;
        let mut places = Vec::new();
        for at in 0..sites {
            let name = format!("s{at}");
            let site = Site::new(&name, log.clone());
            let uid = cluster_uid(&site.memory).await.unwrap();
            let registrar = hub.running.as_ref().unwrap().registrar.clone();
            let joined = registrar.join(authorities.ask(&name, &uid)).await.unwrap();
            assert!(matches!(joined, JoinOutcome::Granted(_)), "{joined:?}");
            let identity = authorities.identity(&name, &uid);
            let clock = WallClock::new(authorities.now);
            let mut agent = Agent::new(&name, site, identity, clock, Dice::new(seed, &name), &around);
            agent.start();
            places.push(Place {
                agent,
                clone: None,
                had_clone: false,
                elsewhere: None,
                deletions: Vec::new(),
                returns: Returns(0),
                crashes: 0,
                bad: BTreeSet::new(),
                others: BTreeSet::new(),
                asked_for_nothing: 0,
                was_taken_back: false,
                had_full_disk: false,
                flipped: BTreeSet::new(),
                gone: BTreeSet::new(),
                acked: None,
                acks_from: 0,
                looked: Look::default(),
                held: BTreeSet::new(),
                starts_at: None,
                clone_ends_at: None,
            });
        }
        Self {
            users: Users::new(Dice::new(seed, "users"), log.clone()),
            log,
            hub,
            places,
            network,
            backups: Vec::new(),
            hub_starts_at: None,
            hub_returns: 0,
            wrong: Vec::new(),
            leaving: BTreeMap::new(),
            wants: Wants::default(),
            blown,
            written,
            dice: Dice::new(seed, "script"),
        }
    }

    /// The hub's registry, while it runs.
    pub fn registry(&self) -> Option<Arc<Registry>> {
        self.hub.running.as_ref().map(|running| running.registry.clone())
    }

    /// Time passes; who is to end ends, who is due starts.
    pub async fn pass(&mut self, time: Duration) {
        let until = Instant::now() + time;
        loop {
            let due = self.due().min(until);
            tokio::select! {
                biased;
                Some(blown) = self.blown.recv() => self.ends(&blown).await,
                () = self.written.notified() => {}
                () = tokio::time::sleep_until(due) => {}
            }
            self.start_who_is_due().await;
            self.look();
            if Instant::now() >= until {
                return;
            }
        }
    }

    fn due(&self) -> Instant {
        let starts = self.places.iter().flat_map(|place| [place.starts_at, place.clone_ends_at]);
        let first = starts.flatten().chain(self.hub_starts_at).min();
        first.unwrap_or_else(|| Instant::now() + Duration::from_secs(3600))
    }

    async fn ends(&mut self, blown: &Blown) {
        if blown.process == "hub" {
            if blown.life == self.hub.life && self.hub.running.is_some() {
                self.log.line(format_args!("the hub ends {}", blown.place));
                self.crash_hub(false).await;
            }
            return;
        }
        let Some(at) = self.places.iter().position(|place| place.agent.name == blown.process) else { return };
        if self.places[at].agent.life == blown.life && self.places[at].agent.is_running() {
            self.log.line(format_args!("{} ends {}", blown.process, blown.place));
            self.crash_agent(at).await;
            return;
        }
        if let Some(clone) = self.places[at].clone.as_mut().filter(|clone| clone.life == blown.life) {
            self.log.line(format_args!("the clone of {} ends {}", blown.process, blown.place));
            clone.crash().await;
        }
    }

    /// The agent ends, to start again some time later.
    pub async fn crash_agent(&mut self, at: usize) {
        let pause = Duration::from_secs(if self.dice.chance(70) {
            self.dice.between(0, 20)
        } else {
            self.dice.between(20, 400)
        });
        let place = &mut self.places[at];
        if !place.agent.is_running() {
            return;
        }
        place.agent.crash().await;
        place.crashes += 1;
        place.starts_at = Some(Instant::now() + pause);
    }

    /// The hub ends, to start again some time later.
    pub async fn crash_hub(&mut self, vanishes: bool) {
        if self.hub.running.is_none() {
            return;
        }
        self.hub.crash(vanishes).await;
        self.hub_starts_later();
    }

    pub fn hub_starts_later(&mut self) {
        let pause = self.dice.between(0, 60);
        self.hub_starts_at = Some(Instant::now() + Duration::from_secs(pause));
    }

    async fn start_who_is_due(&mut self) {
        let now = Instant::now();
        if self.hub_starts_at.is_some_and(|at| at <= now) {
            self.hub_starts_at = None;
            self.hub.start().await;
        }
        for at in 0..self.places.len() {
            if self.places[at].starts_at.is_some_and(|due| due <= now) {
                self.places[at].starts_at = None;
                self.places[at].agent.start();
            }
            let place = &mut self.places[at];
            if place.clone_ends_at.is_some_and(|at| at <= now) {
                place.clone_ends_at = None;
                if let Some(mut clone) = place.clone.take() {
                    clone.crash().await;
                }
            }
        }
    }
}

/// The token that sites join with.
async fn token(hub: &Hub) {
    let registry = hub.running.as_ref().unwrap().registry.clone();
    let user = User {
        name: "users".to_owned(),
        groups: vec!["system:masters".to_owned()],
        origin: Origin::Hub,
        ..User::default()
    };
    let options = WriteOptions { user, field_manager: "users".to_owned(), ..WriteOptions::default() };
    let (id, secret) = TOKEN.split_once('.').unwrap();
    let object = json!({"apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
    "metadata": {"name": format!("bootstrap-token-{id}"), "namespace": "kube-system"}, "data": {
        "token-id": STANDARD.encode(id), "token-secret": STANDARD.encode(secret),
        "usage-bootstrap-authentication": STANDARD.encode("true"),
        "auth-extra-groups": STANDARD.encode("system:bootstrappers:karmada:default-cluster-token"),
    }});
    let secrets = registry.definition("", "v1", "secrets").unwrap();
    registry.create(&secrets, "kube-system", object, &options).await.unwrap();
}
