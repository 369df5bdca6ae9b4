//! Recorded cases of the reference implementation: whole schedules, in steps as they follow each other, and the rules that whole schedules
//! are made of.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

#[path = "../../../../proto/api/tests/recorded/mod.rs"]
mod recorded;

mod assumptions;
mod components;
mod ordered;
mod spread;
mod spread_differences;
mod steps;
mod triggers;
mod workload_affinity;
