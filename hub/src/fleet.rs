//! The gateway's ports, over the store and the registry: where Works come from, where reports go, who may join.
//!
//! In: the registry, the store, what sessions report. Out: the ports that `karmada-gateway` asks for, and what the API server is given of
//! the fleet's: admission, roles, columns, a proxy to members.

mod admission;
mod agent_notes;
mod cluster_connections;
mod cluster_links;
mod cluster_news;
mod cluster_proxy;
mod cluster_status_repair;
mod customization_validation;
pub mod customizations_document;
mod default_roles;
mod estimates;
mod federated_quotas;
mod hub_history;
mod interpreter_webhook_client;
mod join_audit;
mod join_tokens;
mod live_columns;
mod member_ids;
mod pending_works;
mod placement_reviews;
mod pod_usages;
mod registrar;
mod reports;
mod residency;
mod residency_status;
mod resource_models;
mod session_revocation;
mod slow_agents;
mod topology_questions;
mod webhook_retention;
mod works;
mod write_options;

pub use admission::{DeletionProtection, EXEMPT, KarmadaPolicies};
pub use agent_notes::AgentNoteController;
pub use cluster_connections::{Contacts, FleetQueues};
pub use cluster_links::ClusterLinks;
pub use cluster_news::ClusterNews;
pub use cluster_proxy::ClusterProxy;
pub use cluster_status_repair::ClusterStatusRepair;
pub use customization_validation::CustomizationValidation;
pub use default_roles::default_roles;
pub use estimates::Estimates;
pub use federated_quotas::FederatedQuotas;
pub use hub_history::StoredSessions;
pub use interpreter_webhook_client::InterpreterWebhookCalls;
pub use live_columns::Overview;
pub use placement_reviews::PlacementReviews;
pub use pod_usages::PodUsages;
pub use registrar::{Approval, HubRegistrar};
pub use reports::Reports;
pub use residency::ResidencyGuard;
pub use residency_status::ResidencyStatus;
pub use resource_models::Models;
pub use session_revocation::SessionGuard;
pub use topology_questions::TopologyQuestions;
pub use webhook_retention::WebhookRetention;
pub use works::CachedWorks;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
