//! Whether the member's own object of the same name may be taken over (`spec.conflictResolution` of a policy).
//!
//! In: the object that is to be applied, and the one that is there. Out: whether it may be changed.

use karmada_api::object;
use karmada_api::strings::annotations::{CONFLICT_OVERWRITE, CONFLICT_RESOLUTION};
use karmada_api::strings::labels::{MANAGED, MANAGED_VALUE};
use serde_json::Value;

/// Whether an object that the member already has may be changed: it is managed, or the Work says to take it over.
pub fn allow_update(desired: &Value, observed: &Value) -> bool {
    object::label(observed, MANAGED) == Some(MANAGED_VALUE)
        || object::annotation(desired, CONFLICT_RESOLUTION) == Some(CONFLICT_OVERWRITE)
}
