//! What every controller runs on: the port to the hub, one watch of each kind for all, queues, the loop that calls `reconcile`, events.
//!
//! In: an [`Api`](port::Api), controllers. Out: calls of `reconcile`, one at a time per key, tried again with growing pauses; what is written goes
//! through the port. Nothing here knows a kind of the fleet.

pub mod events;
pub mod histogram;
pub mod informer;
pub mod karmada_metrics;
pub mod port;
pub mod queue;
pub mod runner;
pub mod typed;
pub mod workqueues;
