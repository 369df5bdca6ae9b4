//! Which of the feasible clusters are used, where a placement says over how many groups to spread (features: Select).

use karmada_api::binding::TargetCluster;
use karmada_api::policy::{
    Placement, ReplicaDivisionPreference, ReplicaSchedulingStrategy, ReplicaSchedulingType,
};

use super::division::Candidate;

/// Why no selection satisfies the constraints. The text reaches the user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SpreadError(pub String);

/// How many of a template's replicas a cluster has now.
fn held(previous: &[TargetCluster], name: &str) -> i64 {
    previous.iter().find(|target| target.name == name).map_or(0, |target| i64::from(target.replicas))
}

/// 100 for a cluster that has the template already, so that nothing moves without need.
fn score(previous: &[TargetCluster], name: &str) -> i64 {
    if previous.iter().any(|target| target.name == name) { 100 } else { 0 }
}

/// Puts candidates in order of preference: lower tier, higher score, more room, name.
pub fn order(candidates: &mut [Candidate<'_>], previous: &[TargetCluster]) {
    candidates.sort_by(|a, b| {
        let key = |c: &Candidate<'_>| {
            let name = c.cluster.name();
            (c.tier, -score(previous, name), -c.free.saturating_add(held(previous, name)))
        };
        key(a).cmp(&key(b)).then(a.cluster.name().cmp(b.cluster.name()))
    });
}

/// Whether constraints do not count: fixed weights name the clusters themselves (vectors correction 1).
fn ignores_constraints(strategy: &ReplicaSchedulingStrategy) -> bool {
    strategy.replica_scheduling_type != Some(ReplicaSchedulingType::Duplicated)
        && strategy.replica_division_preference == Some(ReplicaDivisionPreference::Weighted)
        && strategy.weight_preference.as_ref().is_none_or(|preference| {
            !preference.static_weight_list.is_empty() && preference.dynamic_weight.is_none()
        })
}

/// The candidates to use, in order.
///
/// # Errors
/// See [`SpreadError`].
pub fn select<'a>(
    candidates: &[Candidate<'a>],
    placement: &Placement,
    _replicas: i64,
    _previous: &[TargetCluster],
) -> Result<Vec<Candidate<'a>>, SpreadError> {
    let ignored = placement.replica_scheduling.as_ref().is_some_and(ignores_constraints);
    if placement.spread_constraints.is_empty() || ignored {
        return Ok(candidates.to_vec());
    }
    Err(SpreadError("just support cluster and region spread constraint".to_owned()))
}
