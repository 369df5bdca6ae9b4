//! The Karmada API as hub and agent both speak it: kinds, names, strings, selection, defaulting, validation.
//!
//! In: objects, as `serde_json::Value` or as the typed kinds here. Out: decisions about single objects, without
//! clock, randomness or IO: `now` and fresh uids are arguments. Nothing here knows of stores, streams or HTTP.
//!
//! | question | module |
//! | --- | --- |
//! | how is it spelled (labels, annotations, finalizers, reasons)? | [`strings`] |
//! | how is it named? | [`names`] |
//! | what fields does a kind have? | [`policy`], [`override_policy`], [`binding`], [`work`], [`cluster`], [`taint_policy`], [`remedy`], [`rebalancer`], [`federated_resource_quota`], [`federated_hpa`], [`cron_federated_hpa`], [`residency_rule`] |
//! | does a selector match? | [`selector`] |
//! | what may not leave the hub in a manifest? | [`manifest`] |
//! | is a cluster ready? | [`readiness`] |
//! | what does a write become, and may it stand? | [`admission`] |
//! | what of it does nothing yet? | [`ignored_fields`] |

pub mod admission;
pub mod binding;
pub mod cluster;
pub mod condition;
pub mod cron_federated_hpa;
pub mod defaulting;
pub mod federated_hpa;
pub mod federated_resource_quota;
pub mod ignored_fields;
pub mod link_policy;
pub mod manifest;
pub mod multi_cluster_service;
pub mod names;
pub mod object;
mod omitempty;
pub mod override_policy;
pub mod policy;
pub mod readiness;
pub mod rebalancer;
pub mod remedy;
pub mod residency_rule;
pub mod resource_name;
pub mod selector;
pub mod strings;
pub mod taint_policy;
pub mod validation;
pub mod work;

pub use karmada_field::time;

/// API group of PropagationPolicy, OverridePolicy and their cluster-scoped forms.
pub const POLICY_GROUP: &str = "policy.karmada.io";
/// API group of Work, ResourceBinding and ClusterResourceBinding.
pub const WORK_GROUP: &str = "work.karmada.io";
/// API group of Cluster.
pub const CLUSTER_GROUP: &str = "cluster.karmada.io";
/// API group of MultiClusterService and MultiClusterIngress.
pub const NETWORKING_GROUP: &str = "networking.karmada.io";
/// API group of LinkPolicy, ClusterLink and ResidencyRule, this product's own.
pub const EDGE_GROUP: &str = "edge.karmada.io";
