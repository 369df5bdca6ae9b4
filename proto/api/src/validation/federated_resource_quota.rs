//! Which FederatedResourceQuotas may be stored.
//!
//! In: the JSON of a quota. Out: what is wrong with it: names, amounts, and clusters that are given more together than there is overall.
//! Pure.

use serde_json::Value;

use super::cluster::cluster_name;
use crate::binding::ResourceList;
use crate::federated_resource_quota::FederatedResourceQuota;
use crate::resource_name::{is_standard, is_standard_for_quota, is_whole};
use karmada_field::{FieldError, names};
use karmada_quantity::Quantity;

/// The longest name: it becomes the value of a label.
const MAX_NAME: usize = 63;

/// What is wrong with a quota.
pub fn validate_federated_resource_quota(new: &Value) -> Vec<FieldError> {
    let quota: FederatedResourceQuota = match super::read(new, "") {
        Ok(quota) => quota,
        Err(unreadable) => return unreadable,
    };
    let mut errors = Vec::new();
    if quota.name().len() > MAX_NAME {
        let why = format!("must be no more than {MAX_NAME} characters");
        errors.push(FieldError::invalid("metadata.name", quota.name(), why));
    }
    errors.extend(amounts(&quota.spec.overall, "spec.overall"));
    errors.extend(assigned(&quota));
    for (index, assignment) in quota.spec.static_assignments.iter().enumerate() {
        let path = super::at("spec.staticAssignments", index);
        errors.extend(cluster_name(&assignment.cluster_name, &format!("{path}.clusterName")));
        for (name, amount) in assignment.hard.iter().flatten() {
            let path = format!("{path}.hard[{name}]");
            errors.extend(amount_of(name, *amount, &path));
            if !quota.spec.overall.contains_key(name) {
                let why = "assignment resourceName is not exist in overall";
                errors.push(FieldError::invalid(&path, name.as_str(), why));
            }
        }
    }
    errors.extend(status(&quota));
    errors
}

/// What all clusters are given together must be there. Assignments of one cluster are all counted.
fn assigned(quota: &FederatedResourceQuota) -> Vec<FieldError> {
    let given = |name: &String| {
        let hard = quota.spec.static_assignments.iter().filter_map(|one| one.hard.as_ref()?.get(name));
        hard.fold(Quantity::ZERO, |sum, amount| sum.plus(*amount))
    };
    let overall = quota.spec.overall.iter();
    let short = overall.filter(|(name, limit)| given(name) > **limit);
    short
        .map(|(name, limit)| {
            let path = format!("spec.overall[{name}]");
            FieldError::invalid(&path, limit.to_string(), "overall is less than assignments")
        })
        .collect()
}

fn status(quota: &FederatedResourceQuota) -> Vec<FieldError> {
    let status = &quota.status;
    let mut errors = amounts(&status.overall, "status.overall");
    errors.extend(amounts(&status.overall_used, "status.overallUsed"));
    for (index, member) in status.aggregated_status.iter().enumerate() {
        let path = super::at("status.aggregatedStatus", index);
        errors.extend(cluster_name(&member.cluster_name, &format!("{path}.clusterName")));
        errors.extend(amounts(&member.hard, &format!("{path}.hard")));
        errors.extend(amounts(&member.used, &format!("{path}.used")));
    }
    errors
}

/// What is wrong with amounts of a quota.
fn amounts(list: &ResourceList, path: &str) -> Vec<FieldError> {
    list.iter().flat_map(|(name, amount)| amount_of(name, *amount, &format!("{path}[{name}]"))).collect()
}

fn amount_of(name: &str, amount: Quantity, path: &str) -> Vec<FieldError> {
    let mut wrong = Vec::new();
    let bare = !name.contains('/');
    let unqualified = names::qualified_name(name);
    if unqualified.is_empty() && bare && !is_standard(name) {
        wrong.push((name.to_owned(), "must be a standard resource type or fully qualified".to_owned()));
    }
    wrong.extend(unqualified.into_iter().map(|why| (name.to_owned(), why)));
    if bare && !is_standard_for_quota(name) {
        wrong.push((name.to_owned(), "must be a standard resource for quota".to_owned()));
    }
    if amount.is_negative() {
        wrong.push((amount.to_string(), "must be greater than or equal to 0".to_owned()));
    }
    if is_whole(name) && amount.milli() % 1000 != 0 {
        wrong.push((amount.to_string(), "must be an integer".to_owned()));
    }
    wrong.into_iter().map(|(value, why)| FieldError::invalid(path, value, why)).collect()
}
