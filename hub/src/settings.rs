//! How a hub runs, as plain values: what flags, the demo and tests fill in.
//!
//! Types alone, with the values that hold where nothing else is said.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use karmada_access::{Anonymous, FrontProxy, IssuerOptions};
use karmada_api::validation::taint_policy::NoExecute;
use karmada_apiserver::audit::LogOptions;
use karmada_controllers::propagation::LoopOptions;
use karmada_controllers::shared_options::SharedOptions;
use karmada_core::feature_gates::FeatureGates;
use karmada_descheduler::descheduler::Descheduling;
use karmada_descheduler::rebalancing::RebalancingOptions;

use crate::fleet::Approval;

/// Which store keeps the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// One file in the data directory.
    Sqlite,
    /// Nothing outlives the process.
    Memory,
}

/// Which kinds are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serves {
    /// Kubernetes' and Karmada's, and agents: a hub.
    Fleet,
    /// Kubernetes' alone, as a member cluster does: what the demo and tests take for one.
    Kubernetes,
}

/// How a hub runs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which kinds are served.
    pub serves: Serves,
    /// Where CA, keys and state live.
    pub data_dir: PathBuf,
    /// Where to listen; port 0 takes any.
    pub listen: SocketAddr,
    /// Hosts or URLs under which clients and agents reach the hub, the first one first.
    pub advertise: Vec<String>,
    /// The store.
    pub store: StoreKind,
    /// Whether to start where what was acknowledged is not all there, without it and in a new epoch.
    pub accept_data_loss: bool,
    /// How values are encrypted on the disk; none where they are not.
    pub encryption: Option<EncryptionSettings>,
    /// Whether the control loops run; without them this is an API server alone.
    pub controllers: bool,
    /// Which capabilities are on, and how workloads leave clusters.
    pub lifecycle: LifecycleSettings,
    /// Who is let in, and how that is logged.
    pub access: AccessSettings,
}

/// Which capabilities are on, and how workloads leave clusters.
#[derive(Clone, Debug, Default)]
pub struct LifecycleSettings {
    /// The feature gates.
    pub gates: FeatureGates,
    /// What several loops are told alike.
    pub shared: SharedOptions,
    /// What single loops are told.
    pub loops: LoopOptions,
    /// How replicas without room are given up; nothing, where they are not.
    pub descheduling: Option<Descheduling>,
    /// How replicas are moved to where they would be placed now; nothing, where they are not.
    pub rebalancing: Option<RebalancingOptions>,
    /// Whether ClusterTaintPolicies may make workloads leave clusters.
    pub taint_policies: NoExecute,
    /// How long agents may take to say how much room their nodes have, or which replicas find none.
    pub estimates: Duration,
}

/// How values are encrypted on the disk.
#[derive(Clone, Debug)]
pub struct EncryptionSettings {
    /// File with an EncryptionConfiguration.
    pub file: PathBuf,
    /// Whether it is looked at again while the hub runs.
    pub reloads: bool,
    /// Whether it was said that others may read the file.
    pub warned: Arc<AtomicBool>,
}

/// Who is let in, and how that is logged.
#[derive(Clone, Debug)]
pub struct AccessSettings {
    /// The audit log; none where it is off.
    pub audit: Option<AuditSettings>,
    /// Seats that priority levels share; none where nobody waits for a seat.
    pub seats: Option<u32>,
    /// The proxy in front whose word counts; none where there is none.
    pub proxy: Option<ProxySettings>,
    /// OpenID Connect issuers that are believed.
    pub issuers: Vec<IssuerOptions>,
    /// Where nobody needs a credential.
    pub anonymous: Anonymous,
    /// Who says yes to a cluster that joins under a new name.
    pub approval: Approval,
    /// Connections that one address may hold at once; 0 for any number.
    pub connections_per_address: usize,
    /// How long connections may keep the port waiting.
    pub patience: PortPatience,
    /// Whether a new Pod must have an account that exists, and is given its token.
    pub accounts_of_pods: bool,
}

/// How long connections may keep the port waiting.
#[derive(Clone, Copy, Debug)]
pub struct PortPatience {
    /// A handshake that takes longer is given up: it holds a task and a socket.
    pub handshake: Duration,
    /// A connection without a request or a session goes after this long; kube-apiserver's clients dial again.
    pub idle: Duration,
    /// How long an idle connection may take to say goodbye.
    pub farewell: Duration,
}

impl Default for PortPatience {
    fn default() -> Self {
        PortPatience {
            handshake: Duration::from_secs(10),
            idle: Duration::from_secs(120),
            farewell: Duration::from_secs(5),
        }
    }
}

/// Connections of one address, where nothing else is said: the agents behind one NAT or load balancer among them.
pub const CONNECTIONS_PER_ADDRESS: usize = 4096;

impl Default for AccessSettings {
    fn default() -> Self {
        AccessSettings {
            audit: None,
            seats: Some(600),
            proxy: None,
            issuers: Vec::new(),
            anonymous: Anonymous::Everywhere,
            approval: Approval::Auto,
            connections_per_address: CONNECTIONS_PER_ADDRESS,
            patience: PortPatience::default(),
            accounts_of_pods: false,
        }
    }
}

/// The audit log.
#[derive(Clone, Debug)]
pub struct AuditSettings {
    /// File with the policy.
    pub policy_file: PathBuf,
    /// Where events go.
    pub log: LogOptions,
}

/// A proxy in front.
#[derive(Clone, Debug)]
pub struct ProxySettings {
    /// PEM of the CAs of its certificate.
    pub ca_pem: String,
    /// Its names and headers.
    pub headers: FrontProxy,
}
