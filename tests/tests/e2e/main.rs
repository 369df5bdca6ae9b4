//! The whole line on real parts: a built hub with its SQLite store, three members (etcd, kube-apiserver,
//! controllers, scheduler, kwok's nodes), built agents as plain processes beside them, the real kubectl.
//!
//! All tests share one [`fleet::Fleet`]; those of what policies decide share another ([`policy_fleet`]). Those that leave the line alone run side by
//! side, each in namespaces of its own; those that break it have it for themselves and find it whole again.

#![allow(clippy::disallowed_methods, reason = "tests and benches are of this machine's time")]
// A test fails by panicking.
#![allow(clippy::unwrap_used)]

mod backup_restore;
mod bad_lines;
mod charts;
mod cluster_links;
mod cluster_proxy;
mod cron;
mod custom_kinds;
mod customizations;
mod dependencies;
mod dispatching;
mod drift;
mod evictions;
mod exact_estimates;
mod faults;
mod federated_hpa;
mod fleet;
mod hanging_member;
mod interpreter_webhooks;
mod join;
mod kinds;
mod logs;
mod members_decide;
mod namespaced_permissions;
mod placements;
mod policy_choice;
mod policy_fleet;
mod private_site;
mod quota;
mod rebalancing;
mod register;
mod register_failures;
mod removal_limit;
mod resource_models;
mod security;
mod services;
mod site_loss;
mod slow_line;
mod thirdparty;
mod tutorial;
