//! The whole line on real parts: a built hub with its SQLite store, three members (etcd, kube-apiserver,
//! controllers, scheduler, kwok's nodes), built agents as plain processes beside them, the real kubectl.
//!
//! All tests share one [`fleet::Fleet`]. Those that leave the line alone run side by side, each in namespaces of
//! its own; those that break it have it for themselves and find it whole again.

#![allow(clippy::disallowed_methods, reason = "tests and benches are of this machine's time")]
// A test fails by panicking.
#![allow(clippy::unwrap_used)]

mod backup_restore;
mod bad_lines;
mod causes;
mod charts;
mod cron;
mod custom;
mod customizations;
mod dependencies;
mod enforcing;
mod faults;
mod federated_hpa;
mod fleet;
mod grades;
mod hanging;
mod join;
mod kinds;
mod line;
mod links;
mod logs;
mod narrow;
mod quota;
mod reach;
mod rebalancing;
mod register;
mod removal_limit;
mod room;
mod security;
mod services;
mod slow;
mod thirdparty;
mod tutorial;
