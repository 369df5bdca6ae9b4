//! What the hub asks about the Pods of one workload in a member: what they use, how many find no node, and what quotas leave for more.
//!
//! In: questions as frames have them, the member. Out: answers as frames have them, or in words why there is none.

pub mod quotas;
pub mod unschedulable;
pub mod usage;

use std::sync::Arc;

/// The wall clock: comes in from outside, so that tests own it.
pub type Clock = Arc<dyn Fn() -> jiff::Timestamp + Send + Sync>;
