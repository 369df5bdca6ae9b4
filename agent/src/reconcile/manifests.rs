//! The manifests of a Work's body, and the order in which they are applied.
//!
//! In: the bytes of a body. Out: its manifests as JSON, or why they cannot be had; positions. Pure.

use serde_json::Value;

use super::failure::Failure;
use super::order;
use crate::ledger;
use crate::member::Gvk;

/// The manifests in a body.
///
/// # Errors
/// [`Failure::Malformed`] where it is no such body, or holds more manifests than an agent takes of one Work (5000).
pub fn parse_manifests(body: &[u8]) -> Result<Vec<Value>, Failure> {
    ledger::parse_manifests(body).map_err(|error| Failure::Malformed(error.to_string()))
}

/// Positions of `manifests` in dependency order.
pub(super) fn in_order(manifests: &[Value]) -> Vec<usize> {
    let mut positions: Vec<usize> = (0..manifests.len()).collect();
    positions.sort_by_key(|at| order::class(&Gvk::of(&manifests[*at])));
    positions
}
