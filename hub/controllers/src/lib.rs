//! Thin reconcile shells, one file each, named as in Karmada. In: a key that something changed at, and objects by [`port::Api`]. Out: the
//! difference to what `karmada-core` says should be, written; events; when to look again.

pub mod application_failover;
pub mod binding;
mod bindings_index;
mod claims_index;
pub mod cluster;
pub mod cluster_taint_policy;
pub mod controller_context;
pub mod cron_federated_hpa;
pub mod dependencies;
mod dependencies_index;
pub mod deployment_replicas_syncer;
pub mod detector;
pub mod endpointslice;
pub mod endpointslice_dispatch;
pub mod estimator;
mod eviction_events;
pub mod eviction_loops;
pub mod execution;
pub mod failback;
pub mod federated_hpa;
pub mod federated_resource_quota_status;
pub mod federated_resource_quota_sync;
pub mod fetch;
pub mod graceful_eviction;
pub mod group_turns;
pub mod hpa_scale_target_marker;
mod interpretations;
pub mod measured_questions;
pub mod multiclusterservice;
pub mod namespace;
mod namespaces_index;
pub mod no_execute;
mod owned_works_index;
pub mod placement_review;
pub mod pod_metrics;
pub mod policy;
pub mod propagation;
pub mod remedy;
mod removal_limit;
pub mod reservations;
pub mod residency;
#[cfg(any(test, feature = "fake"))]
pub mod rig;
pub mod scheduler;
pub mod service_export;
pub mod service_import;
mod shared_lists;
pub mod status;
pub mod unified_auth;
pub mod workload_rebalancer;
mod works_index;

use karmada_controller_runtime::typed;
pub use karmada_controller_runtime::{events, informer, metrics, port, queue, runner, workqueues};
