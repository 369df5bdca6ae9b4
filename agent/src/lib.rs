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

pub mod identity;
pub mod join;
pub mod ledger;
pub mod link;
pub mod member;
pub mod outbox;
pub mod reconcile;
pub mod retry;
pub mod rotation;
pub mod schedule;
pub mod session;
pub mod shared;
pub mod status;
pub mod summary;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use karmada_certs::{ClientKey, JoinToken, Pin};
use karmada_interpreter::Interpreter;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::identity::{Identity, KeepError, Keeper};
use crate::join::JoinError;
use crate::ledger::{Ledger, LedgerError};
use crate::link::dial::Connector;
use crate::member::{Member, MemberError};
use crate::shared::Shared;

pub use crate::shared::LinkView;

/// What a person sets.
#[derive(Debug, Clone)]
pub struct Config {
    /// `host:port`s of the hub; needed to join, and tried first after.
    pub hub: Vec<String>,
    /// Needed to join.
    pub token: Option<JoinToken>,
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
    /// Looks at drift per second.
    pub drift_rate: f64,
    /// How long a join is tried while the hub or the member is not reached.
    pub join_patience: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            hub: Vec::new(),
            token: None,
            pins: Vec::new(),
            cluster_name: String::new(),
            provider: String::new(),
            region: String::new(),
            zones: Vec::new(),
            state_dir: None,
            drift_rate: 5.0,
            join_patience: Duration::from_secs(30),
        }
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
    pub keeper: Keeper,
    /// Told where the link stands; its receivers see the first welcome.
    pub link: watch::Sender<LinkView>,
}

/// Why the agent ended by itself.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The join failed.
    #[error("joining: {0}")]
    Join(#[from] JoinError),
    /// Nothing to join with.
    #[error("there is no identity yet, and to join, {0} is needed")]
    Missing(&'static str),
    /// The member was not reached when it had to be.
    #[error("the member: {0}")]
    Member(#[from] MemberError),
    /// The identity belongs to another member.
    #[error("the state is that of the cluster with uid {0}; this member's is {1}")]
    OtherMember(String, String),
    /// The identity cannot be kept.
    #[error(transparent)]
    Keep(#[from] KeepError),
    /// The ledger cannot be kept.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// A key could not be made.
    #[error(transparent)]
    Cert(#[from] karmada_certs::CertError),
}

/// Joins where there is no identity yet, then works until `stop`.
///
/// # Errors
/// A join that cannot succeed, or a ledger that cannot be kept. The network is never a reason to end, once joined.
pub async fn run(config: Config, parts: Parts, stop: CancellationToken) -> Result<(), AgentError> {
    let identity = tokio::select! {
        biased;
        () = stop.cancelled() => return Ok(()),
        identity = Box::pin(identity(&config, &parts)) => identity?,
    };
    let ledger = match &config.state_dir {
        Some(directory) => Ledger::open(directory)?,
        None => Ledger::in_memory()?,
    };
    let shared = Shared::new(ledger, parts.link.clone());
    let engine = reconcile::engine::Parts {
        shared: shared.clone(),
        member: parts.member.clone(),
        interpreter: parts.interpreter.clone(),
        cluster: identity.cluster_name.clone(),
        drift_rate: config.drift_rate,
    };
    let link = link::Link {
        shared: shared.clone(),
        connector: parts.connector.clone(),
        identity,
        keeper: parts.keeper.clone(),
        boot_id: uuid::Uuid::new_v4().to_string(),
        seed: rand::random(),
    };
    // Whichever ends first, by an error, ends the others.
    let stop = stop.child_token();
    let guarded = async |task: Result<(), LedgerError>| {
        stop.cancel();
        task
    };
    let (engine, link, ()) = tokio::join!(
        async { guarded(Box::pin(reconcile::engine::run(engine, stop.clone())).await).await },
        async { guarded(Box::pin(link::run(link, stop.clone())).await).await },
        Box::pin(summary::run(shared, parts.member.clone(), stop.clone())),
    );
    engine?;
    Ok(link?)
}

/// The identity that is kept, or a new one by joining.
async fn identity(config: &Config, parts: &Parts) -> Result<Identity, AgentError> {
    if let Some(mut identity) = parts.keeper.load().await? {
        // Where the member does not answer now, it is taken at its word: enforcing begins when it is back.
        if let Ok(uid) = member::cluster_uid(&*parts.member).await
            && uid != identity.cluster_uid
        {
            return Err(AgentError::OtherMember(identity.cluster_uid, uid));
        }
        for endpoint in config.hub.iter().rev() {
            identity.endpoints.retain(|known| known != endpoint);
            identity.endpoints.insert(0, endpoint.clone());
        }
        return Ok(identity);
    }
    let token = config.token.clone().ok_or(AgentError::Missing("--token"))?;
    if config.hub.is_empty() {
        return Err(AgentError::Missing("--hub"));
    }
    if config.pins.is_empty() {
        return Err(AgentError::Missing("--discovery-token-ca-cert-hash"));
    }
    if config.cluster_name.is_empty() {
        return Err(AgentError::Missing("--cluster-name"));
    }
    let unreachable =
        |error: &MemberError| matches!(error, MemberError::Unreachable(_) | MemberError::Throttled(_));
    let member = &parts.member;
    let cluster_uid =
        retry::until(config.join_patience, unreachable, || async { member::cluster_uid(&**member).await })
            .await?;
    let key = ClientKey::generate()?;
    let ask = join::Ask {
        endpoints: config.hub.clone(),
        token,
        pins: config.pins.clone(),
        cluster_name: config.cluster_name.clone(),
        cluster_uid,
        provider: config.provider.clone(),
        region: config.region.clone(),
        zones: config.zones.clone(),
        patience: config.join_patience,
    };
    let identity = join::join(&*parts.connector, &key, &ask).await?;
    parts.keeper.save(&identity).await?;
    tracing::info!(cluster = identity.cluster_name, "joined");
    Ok(identity)
}
