//! Who an agent is: the identity that a hub gave it, where that is kept, and when its certificate is renewed.
//!
//! In: what a hub grants, a state directory or a Secret of the member, the time. Out: an identity, or why it cannot be read or kept.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests are of this machine's time"))]

pub mod identity;
pub mod renewal_schedule;
