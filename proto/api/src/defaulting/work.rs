//! Work, completed: its id, and manifests fit to travel.
//!
//! In: the JSON of a Work, and what draws uids. Out: the same JSON, its manifests without what a cluster fills in itself and marked with
//! the Work's id.

use serde_json::Value;

use super::permanent_id;
use crate::manifest;
use crate::object;
use crate::strings::labels;

/// Gives a Work its permanent id, prunes its manifests, and records what labels and annotations the hub set.
pub fn default_work(work: &mut Value, new_uid: &dyn Fn() -> String) {
    permanent_id(work, labels::WORK_ID, new_uid);
    let id = object::label(work, labels::WORK_ID).unwrap_or_default().to_owned();
    let manifests = work.pointer_mut("/spec/workload/manifests").and_then(Value::as_array_mut);
    if let Some(manifests) = manifests {
        default_manifests(manifests, &id);
    }
}

/// What the Work of this permanent id carries: without what a member decides, with the Work's mark and a note of what the template says.
pub fn default_manifests(manifests: &mut [Value], id: &str) {
    for wanted in manifests.iter_mut().filter(|manifest| manifest.is_object()) {
        manifest::prune(wanted, true);
        object::set_label(wanted, labels::WORK_ID, id);
        manifest::record_managed(wanted);
    }
}
