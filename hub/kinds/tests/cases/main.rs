//! What each kind is, by cases: ours, and those that a kube-apiserver was asked once (`data/`).

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by ending")]

mod admitted;
mod crd_refusals;
mod defaults;
mod facts;
mod fields;
mod fleet_vectors;
mod kind;
mod mutations;
mod ownership;
mod recorded;
mod recorded_writes;
mod refusals;
mod validation;
#[path = "../../../../proto/api/tests/recorded/mod.rs"]
mod vectors;
