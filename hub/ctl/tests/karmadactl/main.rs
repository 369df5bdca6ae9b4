//! The program itself against a hub, and against the hub's API server with Kubernetes' kinds alone, which stands in for a member's.
//! No kubelet and no agent run: the test writes what they would.

#![allow(clippy::disallowed_methods, reason = "tests and benches are of this machine's time")]
// Helpers of tests are no tests to the lint.
#![allow(clippy::unwrap_used)]

mod clocks;
mod cluster;
mod clusters;
mod fleet;
mod leaving;
mod long_names;
mod placement;
mod registration;
mod unregister;
