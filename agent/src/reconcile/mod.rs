//! Bringing the member to what the ledger says, and keeping it there.
//!
//! Comes in: keys whose desired state changed, events of the member, time. Goes out: calls to the member, outcomes
//! into the ledger, reports into the outbox. Level-triggered: each step reads the ledger and the member anew, so
//! that a start, a retry and a drift take one path. Absence never deletes: only a tombstone in the ledger does.
//!
//! - [`order`], [`workqueue`], [`adaptive_limit`]: what is next, and how fast (pure).
//! - [`member_body`]: what is sent, and whether it is there already (pure).
//! - [`observed_during_write`]: which is newer, what a watch told or what a write was answered (pure).
//! - [`agent_objects`]: what the agent itself lives by in the member, which no Work may name (pure).
//! - [`unanswered`]: what the member may still carry out though nobody waits for it (pure).
//! - [`orphan_candidates`]: what bears our marks though nobody holds its Work (pure). [`orphan_scan`]: where no watch tells of it. [`orphan_rows`]: what is
//!   told of them (pure).
//! - [`service_endpoints`]: where Services of the member are reached, for other clusters.
//! - [`failure_log`]: what fails for many by one cause, told once a minute.
//! - [`fence`]: whether this agent is the one that may act, and has heard enough to (pure).
//! - [`retention_layer`]: what of the member's objects stays where a webhook decides it, as the hub answered.
//! - [`catch_panics`]: an odd object is an error, not a panic.
//! - [`manifests`]: what a Work's body holds. [`failure`]: why one is not applied.
//! - [`retry_after`]: how long the member asks to be left alone. [`targets`]: which Works an object of the member belongs to.
//! - [`apply`], [`removal`]: one Work, applied or taken away. [`watcher`]: a kind's events. [`engine`]: the loop.

pub mod adaptive_limit;
pub mod agent_objects;
pub mod apply;
pub mod catch_panics;
pub mod engine;
pub mod failure;
mod failure_log;
pub mod fence;
pub mod manifests;
pub mod member_body;
mod observed_during_write;
pub mod order;
mod orphan_candidates;
pub mod orphan_rows;
mod orphan_scan;
pub mod removal;
pub mod retention_layer;
mod retry_after;
mod service_endpoints;
mod targets;
mod unanswered;
mod watcher;
pub mod workqueue;

pub use crate::ledger::outcome;
