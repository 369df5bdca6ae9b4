//! Every decision of the hub as a pure function: objects in, objects and reasons out. In: objects as the API has them, and the time. Out:
//! what is to be written, or why not.
//!
//! Nothing here reads a clock, draws a random number, waits or writes. Controllers read the state, call one of these,
//! and write what differs. Orders of maps and lists that come in never decide what goes out.
//!
//! ```text
//! template + policies  ── detector ──▶ ResourceBinding
//! binding + clusters   ── scheduler ─▶ binding.spec.clusters, and why
//! binding + template   ── binding ───▶ one Work per cluster (overrides inside)
//! what a template needs ─ dependencies ▶ attached bindings, required by its own
//! Works' statuses      ── status ────▶ binding.status, template.status
//! a key that asks       ── registration ▶ a name, a wait or a refusal
//! what only a site has  ── orphans ───▶ what stands on its Cluster until a person decides
//! agents' contact      ── cluster ───▶ Ready, taints
//! conditions + policies ─ taint_policy ▶ taints; remedy ▶ actions
//! taints, unhealthiness ─ eviction, failover ▶ tasks by which a binding leaves clusters; failback ▶ and returns
//! members' HPAs        ── hpa_scale_target ▶ retain-replicas; deployment_replicas_syncer ▶ template's replicas
//! hub namespaces       ── namespace ─▶ one Work per cluster
//! Services over clusters ─ multi_cluster_service ▶ Service, binding, questions to providers, EndpointSlices for consumers
//! exported Services    ── service_export ▶ questions to who has them, EndpointSlices on the hub; service_import ▶ Services for who imports them
//! the hub's RBAC       ── unified_auth ▶ who may be impersonated in a cluster
//! quotas + bindings    ── quota ─────▶ whether a write fits, what is used, one Work per assignment
//! rules + an object    ── residency ─▶ in which clusters it may be
//! ```

pub mod binding;
pub mod cluster;
pub mod cluster_expressions;
pub mod controllers_list;
pub mod dependencies;
pub mod deployment_replicas_syncer;
pub mod detector;
pub mod eviction;
pub mod failback;
pub mod failover;
pub mod feature_gates;
pub mod hpa_scale_target;
pub mod interpreter_webhook;
pub mod kind_facts;
pub mod multi_cluster_service;
pub mod namespace;
pub mod object_size;
pub mod orphans;
pub mod overrides;
pub mod placement_review;
pub mod quota;
pub mod rebalancer;
pub mod registration;
pub mod remedy;
pub mod removal_limit;
pub mod residency;
pub mod round_robin;
pub mod scheduler;
pub mod service_export;
pub mod service_import;
pub mod skipped_resources;
pub mod status;
pub mod taint_policy;
pub mod targets;
pub mod template_ownership;
pub mod unified_auth;
pub mod work_name_taken;

pub(crate) use karmada_api::condition::new_condition as condition;
pub use karmada_api::condition::set_condition;
/// The time without fractions, as the API stores times.
pub use karmada_api::time::whole_seconds as seconds;
/// As the API server writes ages in its tables; `karmadactl` writes them the same way.
pub use karmada_schema::duration::human_duration;
