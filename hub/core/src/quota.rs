//! FederatedResourceQuota: what the bindings of a namespace use together, whether one more write fits, what is told of it, and the
//! ResourceQuotas that clusters are given.
//!
//! In: quotas, what bindings use ([`Tally`]), Works. Out: a refusal or none, a status ([`status`]), Works to write and to remove ([`works`]).

pub mod status;
mod tally;
pub mod works;

use karmada_api::binding::ResourceList;
use karmada_api::federated_resource_quota::FederatedResourceQuota;
use karmada_quantity::Quantity;

pub use self::tally::{Seen, Tally, used_by};

/// Why a binding's write is refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error(
    "FederatedResourceQuota({quota}) exceeded for resource {resource}: requested sum {sum}, limit {limit}."
)]
pub struct Exceeded {
    /// Its namespace and name.
    quota: String,
    resource: String,
    sum: Quantity,
    limit: Quantity,
}

/// What `after` asks for beyond `before`, where it does.
fn raised<'a>(
    before: &'a ResourceList,
    after: &'a ResourceList,
) -> impl Iterator<Item = (&'a String, Quantity)> {
    after.iter().filter_map(|(resource, amount)| {
        let more = amount.minus(before.get(resource).copied().unwrap_or_default());
        (more > Quantity::ZERO).then_some((resource, more))
    })
}

/// Whether a write asks for more of anything. One that does not is never refused, and need not wait for others.
pub fn asks_for_more(before: &ResourceList, after: &ResourceList) -> bool {
    raised(before, after).next().is_some()
}

/// Whether a binding that used `before` may use `after`, where all bindings of the namespace, itself as it was among them, use `used`.
///
/// Only what the write asks more of is held against it: where a quota was lowered under what is used, workloads can still be made smaller and
/// changed otherwise. (Karmada refuses every change of a tracked amount then.)
///
/// # Errors
/// The first resource, by name, of which there is not enough.
pub fn admit(
    quota: &FederatedResourceQuota,
    used: &ResourceList,
    (before, after): (&ResourceList, &ResourceList),
) -> Result<(), Exceeded> {
    for (resource, more) in raised(before, after) {
        let Some(limit) = quota.spec.overall.get(resource) else { continue };
        let sum = used.get(resource).copied().unwrap_or_default().plus(more);
        if sum > *limit {
            return Err(Exceeded {
                quota: format!("{}/{}", quota.namespace(), quota.name()),
                resource: resource.clone(),
                sum: shown(resource, sum),
                limit: *limit,
            });
        }
    }
    Ok(())
}

/// A sum as it is told: bytes with binary suffixes, processors in thousandths, anything else as a number.
fn shown(resource: &str, sum: Quantity) -> Quantity {
    match resource {
        "cpu" => Quantity::from_milli(sum.milli()),
        "memory" | "ephemeral-storage" => Quantity::from_binary_units(sum.units()),
        _ => Quantity::from_units(sum.units()),
    }
}
