//! Thin reconcile shells, one file each, named as in Karmada: they read through [`port::Api`], ask `karmada-core` what
//! should be, and write the difference.

pub mod binding;
mod bindings_index;
mod claims_index;
pub mod cluster;
pub mod cluster_news;
pub mod detector;
mod enablements;
pub mod events;
pub mod execution;
pub mod fetch;
pub mod informer;
pub mod kube_controller_manager;
mod names_index;
pub mod namespace;
pub mod policy;
pub mod port;
pub mod propagation;
pub mod queue;
#[cfg(test)]
mod rig;
pub mod runner;
pub mod scheduler;
pub mod shared;
pub mod status;
mod typed;
pub mod workqueues;
mod works_index;
