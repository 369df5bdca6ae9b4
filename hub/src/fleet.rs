//! The gateway's ports, over the store and the registry: where Works come from, where reports go, who may join.

mod agents;
mod cluster_link;
mod cluster_links;
mod cluster_proxy;
mod cluster_report;
mod contacts;
mod default_roles;
mod gates;
mod guard;
mod join;
mod join_audit;
mod keys;
mod models;
mod orphans;
mod overview;
mod pending;
mod registrar;
mod repair;
mod reports;
mod sessions;
mod tokens;
mod works;

pub use agents::{AgentNote, Agents};
pub use cluster_links::ClusterLinks;
pub use cluster_proxy::ClusterProxy;
pub use contacts::{Contacts, Woken};
pub use default_roles::default_roles;
pub use gates::{DeletionProtection, EXEMPT, KarmadaPolicies};
pub use guard::SessionGuard;
pub use models::Models;
pub use overview::Overview;
pub use registrar::{Approval, HubRegistrar};
pub use repair::Repair;
pub use reports::Reports;
pub use sessions::StoredSessions;
pub use works::CachedWorks;
