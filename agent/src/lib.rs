//! The agent of one member cluster: joins a hub, keeps one outbound stream to it, applies the Works it is sent,
//! and reports how they and the cluster are. With the hub gone it goes on enforcing what it last knew.
//!
//! Comes in: a [`Config`], and [`Parts`]: the member, an interpreter, a connector, a place for the identity. Goes
//! out: calls to the member, frames to the hub. [`run`] runs until it is told to stop.
//!
//! ```text
//! hub ⇄ link ⇄ session (pure) → ledger → reconcile → member
//!          ⇡ outbox ← status, summary ←───────────────┘
//! ```

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests are of this machine's time"))]

pub mod announce;
pub mod cause;
pub mod command_line;
pub mod counted_member;
pub mod counts;
pub mod enrolment;
pub mod join;
pub mod link;
pub use karmada_identity::{identity, renewal_schedule};
pub use karmada_ledger as ledger;
pub use karmada_member as member;
pub use karmada_member::retry;
pub use karmada_pods as pods;
pub mod agent_state;
pub mod clock_and_random;
pub mod cluster_status;
pub mod hub_questions;
pub mod ledger_backup;
pub mod metrics;
pub mod name_resolution;
pub mod reconcile;
pub mod state_dir;
pub mod tunnel;
pub mod work_statuses;

pub use karmada_session::{outbox, redial, session};

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use karmada_certs::{JoinToken, Pin};
use karmada_interpreter::Interpreter;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::agent_state::AgentState;
use crate::cause::Cause;
use crate::cluster_status::StatusOptions;
use crate::counted_member::CountedMember;
use crate::enrolment::Enrolment;
use crate::identity::{Identity, IdentityStore, IdentityStoreError};
use crate::join::JoinError;
use crate::ledger::{Ledger, LedgerError};
use crate::ledger_backup::LedgerBackup;
use crate::link::dial::{Connector, Transports};
use crate::member::topology::Topology;
use crate::member::verified_member::ProvenMember;
use crate::member::{Member, MemberError};
use crate::reconcile::agent_objects::Own;
use crate::reconcile::member_body::ClusterNames;
use crate::reconcile::retention_layer;
use crate::tunnel::Tunnels;
use crate::tunnel::allowed::Allowed;

pub use crate::agent_state::LinkView;
pub use crate::clock_and_random::ClockAndRandom;

/// What a person sets.
#[derive(Debug, Clone)]
pub struct Config {
    /// `host:port`s of the hub; needed to join, and tried first after.
    pub hub: Vec<String>,
    /// Needed to join.
    pub token: Option<JoinToken>,
    /// Where the token is instead: read when it is needed, which is when joining.
    pub token_file: Option<PathBuf>,
    /// Of the hub's CA; needed to join.
    pub pins: Vec<Pin>,
    /// The name to join under.
    pub cluster_name: String,
    /// For the Cluster object.
    pub provider: String,
    /// For the Cluster object.
    pub region: String,
    /// For the Cluster object.
    pub zones: Vec<String>,
    /// Where the ledger is; `None`: in memory, for a member that is in memory too.
    pub state_dir: Option<PathBuf>,
    /// The only namespaces of the member that it may watch workloads in; empty for all.
    pub namespaces: Vec<String>,
    /// Looks at drift per second.
    pub drift_rate: f64,
    /// Whether the agent reports whether names of Services resolve.
    pub reports_service_names: bool,
    /// What may be asked of the member by way of the hub.
    pub allowed: Allowed,
    /// What may carry sessions.
    pub transports: Transports,
    /// Where `/healthz` and `/metrics` are served.
    pub metrics: Option<SocketAddr>,
    /// How the member is looked at.
    pub status: StatusOptions,
    /// How long a join is tried while the hub or the member is not reached.
    pub join_patience: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            hub: Vec::new(),
            token: None,
            token_file: None,
            pins: Vec::new(),
            cluster_name: String::new(),
            provider: String::new(),
            region: String::new(),
            zones: Vec::new(),
            state_dir: None,
            namespaces: Vec::new(),
            drift_rate: 5.0,
            reports_service_names: false,
            allowed: Allowed::default(),
            transports: Transports::default(),
            metrics: None,
            status: StatusOptions::default(),
            join_patience: Duration::from_secs(30),
        }
    }
}

impl Config {
    /// Where the cluster is, as far as a person said it.
    fn said_topology(&self) -> Topology {
        let Self { provider, region, zones, .. } = self;
        Topology { provider: provider.clone(), region: region.clone(), zones: zones.clone() }
    }
}

/// What the agent works with.
#[derive(Clone)]
pub struct Parts {
    /// The member.
    pub member: Arc<dyn Member>,
    /// How to read objects.
    pub interpreter: Arc<dyn Interpreter>,
    /// Makes byte streams to the hub.
    pub connector: Arc<dyn Connector>,
    /// Where the identity is.
    pub identity_store: IdentityStore,
    /// Told where the link stands; its receivers see the first welcome.
    pub link: watch::Sender<LinkView>,
    /// Time and randomness.
    pub sources: ClockAndRandom,
}

impl Parts {
    /// Time, for what is timed inside of the agent.
    fn clock(&self) -> karmada_lua::Clock {
        let sources = self.sources.clone();
        Arc::new(move || sources.now())
    }
}

/// Why the agent ended by itself.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The join failed. Not a source: the words are all in this one's.
    #[error("joining: {0}")]
    Join(JoinError),
    /// The token's file is no use.
    #[error("the join token in {file}: {why}")]
    Token {
        /// Which.
        file: String,
        /// What is wrong with it; never what it holds.
        why: String,
    },
    /// Nothing to join with.
    #[error("there is no identity yet, and to join, {0} is needed")]
    Missing(&'static str),
    /// The member was not reached when it had to be.
    #[error("the member: {0}")]
    Member(MemberError),
    /// The member is a hub.
    #[error(
        "the kubeconfig leads to a Karmada control plane (it serves cluster.karmada.io) and to no member: give the kubeconfig of the \
         cluster that is to join"
    )]
    ControlPlane,
    /// The identity belongs to another member.
    #[error(
        "this agent was joined for the cluster whose kube-system has the uid {0}, but {1} answers: nothing is written to it. Give the \
         kubeconfig of the first; or, to join the second, start with a --state-dir (or --identity-secret) of its own and a token"
    )]
    OtherMember(String, String),
    /// The identity cannot be kept.
    #[error(transparent)]
    Keep(#[from] IdentityStoreError),
    /// The ledger cannot be kept.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// A key could not be made.
    #[error(transparent)]
    Cert(#[from] karmada_certs::CertError),
}

impl From<&AgentError> for Cause {
    fn from(error: &AgentError) -> Self {
        match error {
            AgentError::Join(error) => error.into(),
            AgentError::Member(MemberError::Forbidden(_)) => Cause::Permission,
            AgentError::Member(_) => Cause::Member,
            AgentError::Token { .. } => Cause::TokenUnknown,
            AgentError::Missing(_)
            | AgentError::ControlPlane
            | AgentError::OtherMember(..)
            | AgentError::Keep(_)
            | AgentError::Ledger(_)
            | AgentError::Cert(_) => Cause::Other,
        }
    }
}

impl From<JoinError> for AgentError {
    fn from(error: JoinError) -> Self {
        Self::Join(error)
    }
}

impl From<MemberError> for AgentError {
    fn from(error: MemberError) -> Self {
        Self::Member(error)
    }
}

/// Joins where there is no identity yet, then works until `stop`. Where another process works with the same state directory, it first
/// waits until that one has ended.
///
/// # Errors
/// A join that cannot succeed, or a ledger that cannot be kept. The network is never a reason to end, once joined.
pub fn run(
    config: Config,
    parts: Parts,
    stop: CancellationToken,
) -> BoxFuture<'static, Result<(), AgentError>> {
    Box::pin(held_and_run(config, parts, stop))
}

async fn held_and_run(config: Config, parts: Parts, stop: CancellationToken) -> Result<(), AgentError> {
    let _held = match &config.state_dir {
        Some(directory) => tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            held = state_dir::hold(directory) => Some(held),
        },
        None => None,
    };
    let (identity_store, link, sources) =
        (parts.identity_store.clone(), parts.link.clone(), parts.sources.clone());
    let (trouble, of_the_ledger) = watch::channel(None);
    let said = announce::run(identity_store.clone(), sources.clone(), link.subscribe(), of_the_ledger);
    let worked = tokio::select! {
        biased;
        worked = Box::pin(work_on(config, parts, trouble, stop)) => worked,
        () = async { said.await; std::future::pending().await } => Ok(()),
    };
    if let Err(error) = &worked {
        link.send_replace(LinkView::away(error.into(), error));
        let view = link.borrow().clone();
        announce::farewell(&identity_store, &sources, &view).await;
    }
    worked
}

/// Passes on why the ledger is in memory alone, as long as it is.
async fn tell_trouble(
    mut health: watch::Receiver<ledger::LedgerHealth>,
    trouble: watch::Sender<Option<String>>,
    stop: CancellationToken,
) {
    loop {
        let now = health.borrow_and_update().trouble.clone();
        trouble.send_if_modified(|told| {
            let news = *told != now;
            *told = now;
            news
        });
        tokio::select! {
            () = stop.cancelled() => return,
            changed = health.changed() => if changed.is_err() { return },
        }
    }
}

/// Works until `stop`, or an error. Where the cluster gets another name on the hub, everything begins anew under that one.
async fn work_on(
    config: Config,
    parts: Parts,
    trouble: watch::Sender<Option<String>>,
    stop: CancellationToken,
) -> Result<(), AgentError> {
    while !stop.is_cancelled() {
        Box::pin(work(config.clone(), parts.clone(), trouble.clone(), stop.clone())).await?;
    }
    Ok(())
}

/// The ledger of the state directory, out of its backup where that is newer; in memory where there is no directory.
async fn open_ledger(config: &Config, backup: Option<&LedgerBackup>) -> Result<Ledger, AgentError> {
    let Some(directory) = &config.state_dir else { return Ok(Ledger::in_memory()?) };
    if let Some(backup) = backup {
        backup.restore(directory).await;
    }
    Ok(Ledger::open(directory)?)
}

/// What holds the member to the ledger.
fn engine_parts(
    config: &Config,
    parts: &Parts,
    shared: &Arc<AgentState>,
    cluster: ClusterNames,
) -> reconcile::engine::Parts {
    let (customized, retention) = retention_layer::in_front_of(parts.interpreter.clone(), parts.clock());
    reconcile::engine::Parts {
        shared: shared.clone(),
        member: parts.member.clone(),
        customized,
        retention,
        cluster,
        own: Arc::new(Own::of(&parts.identity_store, &config.namespaces)),
        drift_rate: config.drift_rate,
        namespaces: config.namespaces.clone().into(),
    }
}

/// What talks with the hub.
fn link_parts(
    config: &Config,
    parts: &Parts,
    shared: &Arc<AgentState>,
    identity: Identity,
    enrolment: Enrolment,
) -> link::Link {
    link::Link {
        shared: shared.clone(),
        connector: parts.connector.clone(),
        identity,
        identity_store: parts.identity_store.clone(),
        enrolment: Some(enrolment),
        boot_id: parts.sources.process_name(),
        seed: parts.sources.random(),
        sources: parts.sources.clone(),
        member: parts.member.clone(),
        tunnels: Arc::new(Tunnels::new(parts.member.clone(), config.allowed.clone())),
        usages: Arc::new(karmada_pods::usage::PodUsages::new(parts.member.clone(), parts.clock())),
        said_topology: config.said_topology(),
        transports: config.transports,
    }
}

/// Stops all where the member is found to be another than the one that was joined, by this uid.
async fn found_elsewhere(
    proven: &ProvenMember,
    joined_for: String,
    stop: &CancellationToken,
) -> Option<AgentError> {
    let found = tokio::select! {
        biased;
        () = stop.cancelled() => return None,
        found = proven.watch_identity() => found,
    };
    stop.cancel();
    Some(AgentError::OtherMember(joined_for, found))
}

/// Works under one name: until `stop`, an error, or another name.
async fn work(
    config: Config,
    parts: Parts,
    trouble: watch::Sender<Option<String>>,
    stop: CancellationToken,
) -> Result<(), AgentError> {
    let enrolment = Enrolment { config: config.clone(), parts: parts.clone() };
    let identity = tokio::select! {
        biased;
        () = stop.cancelled() => return Ok(()),
        identity = Box::pin(enrolment.identity()) => identity?,
    };
    // From here on nothing is written before the member is known to be the one that was joined.
    let proven = Arc::new(ProvenMember::new(parts.member.clone(), identity.cluster_uid.clone()));
    let parts =
        Parts { identity_store: parts.identity_store.over(proven.clone()), member: proven.clone(), ..parts };
    let (joined_for, stopped) = (identity.cluster_uid.clone(), stop);
    let stop = stopped.child_token();
    let elsewhere = found_elsewhere(&proven, joined_for, &stop);
    let backup = LedgerBackup::of(&parts.identity_store);
    let ledger = open_ledger(&config, backup.as_ref()).await?;
    let cluster = identity.cluster_name.clone();
    let names = ClusterNames { before: ledger.is_of(&cluster)?, now: cluster.clone() };
    let shared = AgentState::new(ledger, parts.link.clone());
    let told = tell_trouble(shared.ledger.health(), trouble, stop.clone());
    let member = CountedMember::new(parts.member.clone(), shared.counts.writes.clone());
    let engine = engine_parts(&config, &Parts { member, ..parts.clone() }, &shared, names);
    let link = link_parts(&config, &parts, &shared, identity, enrolment);
    // Whichever ends first, by an error, ends the others.
    let guarded = async |task: Result<(), LedgerError>| {
        stop.cancel();
        task
    };
    let (elsewhere, (), engine, link, (), (), (), (), ()) = tokio::join!(
        elsewhere,
        told,
        async { guarded(Box::pin(reconcile::engine::run(engine, stop.clone())).await).await },
        async { guarded(Box::pin(link::run(link, stop.clone())).await).await },
        Box::pin(cluster_status::run(shared.clone(), parts.member.clone(), config.status, stop.clone())),
        ledger::keep_on_disk(&shared.ledger, stop.clone()),
        async {
            if config.reports_service_names {
                name_resolution::run(shared.clone(), name_resolution::resolves, stop.clone()).await;
            }
        },
        async {
            if let Some(address) = config.metrics {
                metrics::serve(shared.clone(), cluster, address, stop.clone()).await;
            }
        },
        async {
            if let (Some(backup), Some(_)) = (backup, &config.state_dir) {
                Box::pin(backup.run(&shared.ledger, stop.clone())).await;
            }
        },
    );
    if let Some(elsewhere) = elsewhere {
        return Err(elsewhere);
    }
    engine?;
    Ok(link?)
}
