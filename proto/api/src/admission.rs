//! The one door for the API server: what a write of a Karmada kind becomes, and whether it may stand.
//!
//! In: group, kind, operation, the object, the stored one, `now` and fresh uids. Out: the completed object, and
//! wrong fields. Kinds that are not listed here pass unchanged.

use jiff::Timestamp;
use serde_json::Value;

use crate::defaulting::cluster::Grades;
use crate::{
    CLUSTER_GROUP, EDGE_GROUP, NETWORKING_GROUP, POLICY_GROUP, WORK_GROUP, defaulting, object, validation,
};
use karmada_field::FieldError;

/// What a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A new object.
    Create,
    /// A stored object changes (metadata and spec, not status).
    Update,
}

/// What comes in from outside.
pub struct Context<'a> {
    /// The present.
    pub now: Timestamp,
    /// A fresh UUID each time it is called.
    pub new_uuid: &'a dyn Fn() -> String,
    /// What becomes of a Cluster's grades of nodes.
    pub grades: Grades,
}

/// Completes an object before it is validated and stored. `old` is the stored object on update.
pub fn mutate(
    group: &str,
    kind: &str,
    operation: Operation,
    new: &mut Value,
    old: Option<&Value>,
    context: &Context<'_>,
) {
    let creating = operation == Operation::Create;
    let uuid = context.new_uuid;
    match (group, kind) {
        (POLICY_GROUP, "PropagationPolicy") => {
            defaulting::policy::default_propagation_policy(new, creating, uuid);
        }
        (POLICY_GROUP, "ClusterPropagationPolicy") => {
            defaulting::policy::default_cluster_propagation_policy(new, creating, uuid);
        }
        (POLICY_GROUP, "OverridePolicy") => defaulting::policy::default_override_policy(new),
        (WORK_GROUP, "Work") => defaulting::work::default_work(new, uuid),
        (WORK_GROUP, "ResourceBinding") if creating => {
            defaulting::binding::default_resource_binding(new, uuid);
        }
        (WORK_GROUP, "ClusterResourceBinding") if creating => {
            defaulting::binding::default_cluster_resource_binding(new, uuid);
        }
        (NETWORKING_GROUP, "MultiClusterService") if creating => {
            defaulting::multi_cluster_service(new, uuid);
        }
        (CLUSTER_GROUP, "Cluster") => {
            defaulting::cluster::default_cluster(new, old, context.now, context.grades);
        }
        _ => {}
    }
}

/// What is wrong with an object, after [`mutate`] and after its schema was checked.
pub fn validate(
    group: &str,
    kind: &str,
    operation: Operation,
    new: &Value,
    old: Option<&Value>,
) -> Vec<FieldError> {
    match (group, kind) {
        (POLICY_GROUP, "PropagationPolicy" | "ClusterPropagationPolicy") => {
            // A policy on its way out only loses its finalizer; what it says no longer matters.
            if object::deleting(new) {
                return Vec::new();
            }
            validation::policy::validate_propagation_policy(new, old)
        }
        (POLICY_GROUP, "OverridePolicy" | "ClusterOverridePolicy") => {
            validation::override_policy::validate_override_policy(new)
        }
        (POLICY_GROUP, "FederatedResourceQuota") => {
            validation::federated_resource_quota::validate_federated_resource_quota(new)
        }
        (WORK_GROUP, "ResourceBinding" | "ClusterResourceBinding") => {
            let mut errors = validation::binding::validate_binding(new);
            let names = |of: &Value| {
                ["apiVersion", "kind", "namespace", "name"]
                    .map(|field| of.pointer(&format!("/spec/resource/{field}")).cloned())
            };
            if operation == Operation::Create || old.is_some_and(|old| names(old) != names(new)) {
                errors.extend(validation::binding::validate_reach(new));
            }
            errors
        }
        (CLUSTER_GROUP, "Cluster") => validation::cluster::validate_cluster(new),
        (EDGE_GROUP, "LinkPolicy") => validation::link_policy::validate_link_policy(new),
        (EDGE_GROUP, "ResidencyRule") => validation::residency_rule::validate_residency_rule(new),
        _ => Vec::new(),
    }
}

/// Why an object of any kind may not be deleted: it is marked as protected. To be answered with a
/// 403.
pub fn refuse_deletion(object: &Value) -> Option<String> {
    use crate::strings::labels::{DELETION_PROTECTED, DELETION_PROTECTED_ALWAYS};
    (object::label(object, DELETION_PROTECTED) == Some(DELETION_PROTECTED_ALWAYS)).then(|| {
        format!("This resource is protected, please make sure to remove the label: {DELETION_PROTECTED}")
    })
}
