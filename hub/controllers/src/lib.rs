//! Thin reconcile shells, one file each, named as in Karmada: they read through [`port::Api`], ask `karmada-core` what
//! should be, and write the difference.

pub mod events;
pub mod informer;
pub mod platform;
pub mod port;
pub mod queue;
pub mod runner;
