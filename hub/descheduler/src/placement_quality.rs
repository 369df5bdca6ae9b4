//! How well a workload stands in its clusters, so that what is merely other is not taken for better.
//!
//! In: who has how many replicas, how much each cluster could hold of them, how they are divided. Out: two numbers to compare. Which clusters a
//! policy names first counts before all; then, by dynamic weights, how evenly the clusters' room is used, and aggregated, how few there are.

use std::collections::BTreeMap;

use karmada_api::binding::TargetCluster;
use karmada_api::policy::{Placement, ReplicaDivisionPreference};

/// A plan is better where it is by this part: what gains less is not worth a move.
const GAIN: f64 = 0.1;

/// How well replicas stand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Quality {
    /// How far from the clusters that are to be filled first: replicas, each by how many sets of clusters come before its own.
    far: i64,
    /// How unevenly room is used, or how many clusters are.
    cost: f64,
}

/// What quality is told by.
pub(crate) struct Measure<'a> {
    /// How many replicas each cluster could hold in all, those that it has included.
    pub(crate) capacity: &'a BTreeMap<String, i64>,
    /// In which of the sets of clusters each is.
    pub(crate) tier: &'a dyn Fn(&str) -> usize,
    /// Whether as few clusters as possible are used.
    pub(crate) is_aggregated: bool,
}

/// Whether a placement is for as few clusters as possible.
pub(crate) fn is_aggregated(placement: &Placement) -> bool {
    let strategy = placement.replica_scheduling.as_ref();
    strategy.and_then(|strategy| strategy.replica_division_preference)
        == Some(ReplicaDivisionPreference::Aggregated)
}

impl Quality {
    pub(crate) fn of(targets: &[TargetCluster], by: &Measure<'_>) -> Quality {
        let tier = |name: &str| i64::try_from((by.tier)(name)).unwrap_or(i64::MAX);
        let far = targets.iter().map(|target| i64::from(target.replicas).saturating_mul(tier(&target.name)));
        let used = targets.iter().filter(|target| target.replicas > 0);
        // The sum of squares over room is least where each has replicas in proportion to it: what the scheduler's division looks for.
        let share = |target: &TargetCluster| {
            let room = by.capacity.get(&target.name).copied().unwrap_or(0).max(1) as f64;
            f64::from(target.replicas) * f64::from(target.replicas) / room
        };
        let cost = if by.is_aggregated { used.count() as f64 } else { used.map(share).sum() };
        Quality { far: far.fold(0, i64::saturating_add), cost }
    }

    /// Whether it is so much better than another that a move is worth it.
    pub(crate) fn is_better_than(self, other: Quality) -> bool {
        self.far < other.far || (self.far == other.far && self.cost <= other.cost * (1.0 - GAIN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quality(targets: &[(&str, i32)], is_aggregated: bool) -> Quality {
        let target = |(name, replicas): &(&str, i32)| TargetCluster {
            name: (*name).to_owned(),
            replicas: *replicas,
            ..TargetCluster::default()
        };
        let capacity = [("a", 10), ("b", 10), ("c", 20)].map(|(name, room)| (name.to_owned(), room)).into();
        let tier = |name: &str| usize::from(name == "c");
        let by = Measure { capacity: &capacity, tier: &tier, is_aggregated };
        Quality::of(&targets.iter().map(target).collect::<Vec<_>>(), &by)
    }

    #[test]
    fn by_weights_it_is_better_to_use_room_evenly() {
        let weighted = |targets: &[(&str, i32)]| quality(targets, false);
        assert!(weighted(&[("a", 5), ("b", 5)]).is_better_than(weighted(&[("a", 9), ("b", 1)])));
        let (one, other) = (weighted(&[("a", 2), ("b", 1)]), weighted(&[("a", 1), ("b", 2)]));
        assert!(!one.is_better_than(other) && !other.is_better_than(one), "who has the odd one is no matter");
        assert!(!weighted(&[("a", 5), ("b", 5)]).is_better_than(weighted(&[("a", 6), ("b", 4)])));
    }

    #[test]
    fn aggregated_fewer_clusters_are_better_and_others_are_not() {
        let aggregated = |targets: &[(&str, i32)]| quality(targets, true);
        assert!(aggregated(&[("a", 6)]).is_better_than(aggregated(&[("a", 3), ("b", 3)])));
        assert!(!aggregated(&[("b", 6)]).is_better_than(aggregated(&[("a", 6)])));
        assert!(!aggregated(&[("a", 1), ("b", 5)]).is_better_than(aggregated(&[("a", 5), ("b", 1)])));
    }

    #[test]
    fn clusters_that_are_named_first_count_before_all() {
        for is_aggregated in [true, false] {
            let (near, far) =
                (quality(&[("a", 3), ("b", 3)], is_aggregated), quality(&[("c", 6)], is_aggregated));
            assert!(near.is_better_than(far) && !far.is_better_than(near));
        }
    }
}
