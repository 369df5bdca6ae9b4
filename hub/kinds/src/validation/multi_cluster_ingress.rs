//! Ingresses over several clusters: what they say is what an Ingress says; where they are reached is told by whoever carries them out.
//!
//! In: the object, on an update with what stands. Out: field errors; on an update those of the status too.

use karmada_schema::path::Path;
use serde_json::Value;

use super::{Errors, facts, judge, statuses};

/// What is wrong with an ingress, or with its change.
pub(crate) fn multi_cluster_ingress(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    judge(facts::NETWORKING_V1_INGRESS, new, old, &Path::ROOT, errors);
    if let Some(old) = old {
        statuses::balancer(new, old, errors);
    }
}
