//! ResourceBinding and ClusterResourceBinding, completed.
//!
//! In: the JSON of a binding, and what draws uids. Out: the same JSON with its id, where it had none.

use serde_json::Value;

use super::permanent_id;
use crate::strings::labels;

/// Gives a new ResourceBinding its permanent id.
pub fn default_resource_binding(binding: &mut Value, new_uid: &dyn Fn() -> String) {
    permanent_id(binding, labels::RESOURCE_BINDING_ID, new_uid);
}

/// Gives a new ClusterResourceBinding its permanent id.
pub fn default_cluster_resource_binding(binding: &mut Value, new_uid: &dyn Fn() -> String) {
    permanent_id(binding, labels::CLUSTER_RESOURCE_BINDING_ID, new_uid);
}
