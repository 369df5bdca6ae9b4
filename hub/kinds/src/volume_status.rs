//! The status of a volume: since when it is in its phase.
//!
//! In: the volume as it is to be stored and as it stands, and the time as text. Out: the same volume with `lastPhaseTransitionTime`; a date
//! that was sent with a new phase stays.

use serde_json::{Value, json};

/// Dates a change of the phase, and keeps the date of one that stays.
pub(crate) fn finish(new: &mut Value, old: &Value, now: &str) {
    let (before, after) = (&old["status"], &new["status"]);
    let (was, is) = (&before["lastPhaseTransitionTime"], &after["lastPhaseTransitionTime"]);
    if before["phase"] == after["phase"] && is.is_null() && !was.is_null() {
        new["status"]["lastPhaseTransitionTime"] = was.clone();
    } else if before["phase"] != after["phase"] && (is.is_null() || is == was) {
        new["status"]["lastPhaseTransitionTime"] = json!(now);
    }
}
