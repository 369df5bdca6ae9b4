//! The descheduler: replicas that find no node where they were placed are given up there, so that the scheduler places them elsewhere. In: bindings as
//! they are placed, what their clusters report and their agents answer. Out: `spec.clusters` with fewer replicas, events, when to look again.

pub mod descheduler;
mod turns;
pub mod unschedulable;
