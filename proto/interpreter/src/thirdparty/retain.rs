//! What the member decides of other people's kinds: whether an object is suspended.
//!
//! In: the object that is to be applied, and the one that the member has. Out: the first, with the member's value in a field. Pure.

use karmada_api::object;
use serde_json::Value;

use super::read::present;
use crate::Answer;

/// Keeps what the member has at `path`, where what is wanted has the `parent` of it: what is not there is not retained, and keeps nothing
/// else from being applied.
pub fn keep(desired: &mut Value, observed: &Value, parent: &[&str], path: &[&str]) {
    if let Some(value) = present(observed, path).filter(|_| present(desired, parent).is_some()) {
        object::set(desired, path, value.clone());
    }
}

/// Keeps `spec.suspend`: whoever stopped the object in the member is not overruled by the hub.
pub fn suspension(desired: &mut Value, observed: &Value) -> Answer<()> {
    keep(desired, observed, &["spec"], &["spec", "suspend"]);
    Ok(())
}
