//! The descheduler: what stands badly where it was placed is placed elsewhere. In: bindings as they are placed, with what their clusters report
//! and their agents answer. Out: `spec.clusters` with other numbers, events, when to look again.
//!
//! ```text
//! replicas that find no node ── unschedulable ▶ fewer there; the scheduler places them anew   (descheduler acts)
//! all are ready               ── standing ────▶ whether it may be moved now
//! what would be decided now   ── better_plan ─▶ whether that is better, and a step towards it  (rebalancing acts)
//! not ready where it went    ── rollback ────▶ a step back
//! ```

pub mod better_plan;
pub mod budget;
pub mod descheduler;
mod exact_room;
mod look_intervals;
pub mod movability;
pub mod move_note;
mod moves_in_flight;
mod placement_quality;
pub mod rebalancing;
pub mod rollback;
mod spread_constraints;
mod steps_to_plan;
pub mod unschedulable;
