//! The API as a hostile user meets it: the real kubectl, and plain requests, against `karmada-hub serve` over SQLite.
//!
//! In: the built hub (tests share one and keep to namespaces of their own; those that restart or kill it start their own).
//! Out: what kube-apiserver would have answered, or a failure that shows both sides. With
//! `SUBJECT=kube-apiserver` the same tests run against a real member's API server, which is how the
//! expectations here were checked; what only a hub has is then left out.

#![allow(clippy::disallowed_methods, reason = "tests and benches are of this machine's time")]
#![allow(clippy::unwrap_used)]

mod access;
mod aggregation;
mod audit;
mod crds;
mod crds_instances;
mod crds_versions;
mod csr;
mod discovery;
mod disk;
mod encryption;
mod every_kind;
mod extension_server;
mod fairness;
mod health;
mod identity;
mod kubectl_read;
mod kubectl_write;
mod lifecycle;
mod lists;
mod patches;
mod policies_admission;
mod quota;
mod refusals;
mod request;
mod restart;
mod samples;
mod watches;
mod webhook_server;
mod webhooks;
