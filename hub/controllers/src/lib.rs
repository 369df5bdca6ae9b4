//! Thin reconcile shells, one file each, named as in Karmada except for those that the README lists. In: a key that something changed at,
//! and objects by [`port::Api`]. Out: the difference to what `karmada-core` says should be, written; events; when to look again.

pub mod agent_ports;
pub mod application_failover;
pub mod binding;
pub mod cluster;
pub mod cluster_taint_policy;
mod cluster_taints;
pub mod controller_context;
pub mod cron_federated_hpa;
pub mod dependencies;
pub mod deployment_replicas_syncer;
pub mod detector;
pub mod endpointslice;
pub mod endpointslice_dispatch;
mod eviction_events;
pub mod eviction_options;
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
pub mod multiclusterservice;
pub mod namespace;
pub mod no_execute;
mod overlap_warnings;
pub mod placement_review;
pub mod policy;
pub mod propagation;
pub mod remedy;
mod removal_limit;
mod rendered_generations;
pub mod reservations;
pub mod residency;
pub mod scheduler;
pub mod service_export;
pub mod service_import;
mod shared_lists;
pub mod shared_options;
pub mod status;
#[cfg(any(test, feature = "fake"))]
pub mod testing;
pub mod unified_auth;
pub mod workload_rebalancer;

use karmada_controller_runtime::typed;
pub use karmada_controller_runtime::{events, informer, karmada_metrics, port, queue, runner, workqueues};
use karmada_indexes as indexes;
