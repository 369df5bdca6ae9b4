//! What the hub fills in on a write of the Karmada kinds.
//!
//! In: the object as JSON, `now`, and a source of fresh uids. Out: the same object, completed in place. Every
//! function may run twice: the second time changes nothing.

pub mod binding;
pub mod cluster;
pub mod policy;
pub mod work;

use serde_json::Value;

use crate::object;
use crate::strings::labels;

/// Gives a MultiClusterService its permanent id.
pub fn multi_cluster_service(service: &mut Value, new_uid: &dyn Fn() -> String) {
    permanent_id(service, labels::MULTI_CLUSTER_SERVICE_ID, new_uid);
}

/// Gives the object its permanent id if it has none yet.
fn permanent_id(object: &mut Value, label: &str, new_uid: &dyn Fn() -> String) {
    if object::label(object, label).is_none_or(str::is_empty) {
        object::set_label(object, label, &new_uid());
    }
}
