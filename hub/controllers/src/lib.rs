//! Thin reconcile shells, one file each, named as in Karmada: they read through [`port::Api`], ask `karmada-core` what
//! should be, and write the difference.

pub mod binding;
pub mod cluster;
pub mod cluster_news;
pub mod detector;
pub mod events;
pub mod execution;
pub mod fetch;
pub mod informer;
pub mod namespace;
pub mod platform;
pub mod policies;
pub mod policy;
pub mod port;
pub mod queue;
pub mod runner;
pub mod scheduler;
pub mod status;
pub mod workqueues;
pub mod works_index;
