//! Which of the feasible clusters are used, where a placement says over how many groups to spread.
//!
//! In: candidates in order of preference. Out: those to use, in order. Clusters and regions choose first; providers, zones and labels
//! then have their say ([`fields`]).

mod fields;
mod region_choice;

use std::collections::{BTreeMap, HashMap};

use karmada_api::binding::TargetCluster;
use karmada_api::policy::{
    Placement, ReplicaDivisionPreference, ReplicaSchedulingStrategy, ReplicaSchedulingType, SpreadConstraint,
};

use self::fields::Fields;
pub use self::fields::values_of;
use self::region_choice::Group;
use super::division::Candidate;

/// Why no selection satisfies the constraints. The text reaches the user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SpreadError(pub String);

/// How many of a template's replicas each cluster has now; of a workload of several parts, its one set. Looked up, and never walked: its order is
/// no matter.
struct Held<'t>(HashMap<&'t str, i64>);

impl<'t> Held<'t> {
    fn of(previous: &'t [TargetCluster]) -> Self {
        let has =
            |target: &TargetCluster| i64::from(target.replicas).max(i64::from(!target.components.is_empty()));
        Held(previous.iter().map(|target| (&*target.name, has(target))).collect())
    }

    /// What a cluster can hold in all: what it has, and what is free.
    fn available(&self, candidate: &Candidate<'_>) -> i64 {
        candidate.free.saturating_add(self.0.get(candidate.cluster.name()).copied().unwrap_or(0))
    }
}

/// 100 for a cluster that has the template already, so that nothing moves without need.
pub fn locality_score(has_it: bool) -> i64 {
    if has_it { 100 } else { 0 }
}

/// Puts candidates in order of preference: lower tier, higher score, more room, name.
pub fn order(candidates: &mut [Candidate<'_>], previous: &[TargetCluster]) {
    // As a fleet is listed they stand by name already, and those that are otherwise alike stay as they stand.
    candidates.sort_by(|a, b| a.cluster.name().cmp(b.cluster.name()));
    let held = Held::of(previous);
    candidates.sort_by_cached_key(|c| (c.tier, -c.score, -held.available(c)));
}

/// Whether constraints do not count: fixed weights name the clusters themselves.
fn ignores_constraints(strategy: &ReplicaSchedulingStrategy) -> bool {
    strategy.replica_scheduling_type != Some(ReplicaSchedulingType::Duplicated)
        && strategy.replica_division_preference == Some(ReplicaDivisionPreference::Weighted)
        && strategy.weight_preference.as_ref().is_none_or(|preference| {
            !preference.static_weight_list.is_empty() && preference.dynamic_weight.is_none()
        })
}

/// Whether every cluster gets all replicas, so that room does not decide which are used.
fn duplicates(placement: &Placement) -> bool {
    placement
        .replica_scheduling
        .as_ref()
        .is_none_or(|strategy| strategy.replica_scheduling_type == Some(ReplicaSchedulingType::Duplicated))
}

/// How many groups a constraint asks for. Without a maximum there is none.
#[derive(Clone, Copy, Debug, Default)]
struct Bounds {
    min: usize,
    max: usize,
}

impl Bounds {
    fn of(constraint: Option<&SpreadConstraint>) -> Self {
        let count = |n: i64| usize::try_from(n).unwrap_or(0);
        let (min, max) = constraint.map_or((0, 0), |c| (count(c.min_groups), count(c.max_groups)));
        Self { min, max: if max == 0 { usize::MAX } else { max } }
    }
}

/// What is selected for.
struct Selection<'s> {
    placement: &'s Placement,
    replicas: i64,
    held: Held<'s>,
    clusters: Bounds,
    regions: Bounds,
    by_region: bool,
}

/// The candidates to use, in order. `candidates` stand in order of preference (see [`order`]).
///
/// # Errors
/// In words for the user: no selection satisfies the constraints, or they are by fields that cannot be spread over.
pub fn select<'a>(
    candidates: &[Candidate<'a>],
    placement: &Placement,
    replicas: i64,
    previous: &[TargetCluster],
) -> Result<Vec<Candidate<'a>>, SpreadError> {
    let ignored = placement.replica_scheduling.as_ref().is_some_and(ignores_constraints);
    if placement.spread_constraints.is_empty() || ignored {
        return Ok(candidates.to_vec());
    }
    let selection = Selection::of(placement, replicas, previous);
    let fields = Fields::of(&placement.spread_constraints)?;
    if !fields.go_further() {
        return selection.choose(candidates);
    }
    selection.over(&fields, candidates)
}

/// What each region of the candidates is worth to a placement, best first: regions are chosen by that. `candidates` stand in order of
/// preference.
pub fn region_scores(
    candidates: &[Candidate<'_>],
    placement: &Placement,
    replicas: i64,
    previous: &[TargetCluster],
) -> Vec<(String, i64)> {
    let regions = Selection::of(placement, replicas, previous).regions(candidates);
    regions.into_iter().map(|region| (region.name, region.score)).collect()
}

/// A region with its clusters in order of preference.
struct Region<'a> {
    name: String,
    score: i64,
    clusters: Vec<Candidate<'a>>,
}

impl<'s> Selection<'s> {
    fn of(placement: &'s Placement, replicas: i64, previous: &'s [TargetCluster]) -> Self {
        // Of one that is said twice the last counts.
        let by = |field: &str| placement.spread_constraints.iter().rfind(|c| c.spread_by_field == field);
        Self {
            placement,
            replicas,
            held: Held::of(previous),
            clusters: Bounds::of(by("cluster")),
            regions: Bounds::of(by("region")),
            by_region: by("region").is_some(),
        }
    }
}

impl Selection<'_> {
    fn available(&self, candidate: &Candidate<'_>) -> i64 {
        self.held.available(candidate)
    }

    /// By clusters and regions alone.
    fn choose<'a>(&self, candidates: &[Candidate<'a>]) -> Result<Vec<Candidate<'a>>, SpreadError> {
        if self.by_region { self.by_region(candidates) } else { self.by_cluster(candidates) }
    }

    /// By all fields: as clusters and regions alone choose where that will do, else mended, else among fewer groups.
    fn over<'a>(
        &self,
        fields: &Fields<'_>,
        candidates: &[Candidate<'a>],
    ) -> Result<Vec<Candidate<'a>>, SpreadError> {
        fields.enough(candidates)?;
        let plain = self.choose(candidates)?;
        if fields.hold(&plain) {
            return Ok(plain);
        }
        let mended = |selected, candidates: &[Candidate<'a>]| {
            fields.mended(selected, candidates, self.clusters.max).filter(|selected| self.fits(selected))
        };
        if let Some(selected) = mended(plain, candidates) {
            return Ok(selected);
        }
        let mut among = fields.choices(candidates).into_iter();
        let found = among.find_map(|fewer| mended(self.choose(&fewer).ok()?, &fewer));
        let words = "no selection of clusters was found that has what all spread constraints ask for";
        found.ok_or_else(|| SpreadError(words.to_owned()))
    }

    /// Whether what is divided has room.
    fn fits(&self, selected: &[Candidate<'_>]) -> bool {
        let sum = selected.iter().fold(0_i64, |sum, c| sum.saturating_add(self.available(c)));
        duplicates(self.placement) || (!selected.is_empty() && sum >= self.replicas)
    }

    fn by_cluster<'a>(&self, candidates: &[Candidate<'a>]) -> Result<Vec<Candidate<'a>>, SpreadError> {
        if self.clusters.min > candidates.len() {
            let text = "the number of feasible clusters is less than spreadConstraint.MinGroups";
            return Err(SpreadError(text.to_owned()));
        }
        let count = self.clusters.max.min(candidates.len());
        let (selected, rest) = candidates.split_at(count);
        if duplicates(self.placement) {
            return Ok(selected.to_vec());
        }
        self.with_room(selected.to_vec(), rest.to_vec())
            .ok_or_else(|| SpreadError(format!("no enough resource when selecting {count} clusters")))
    }

    /// Swaps the least preferred for roomier ones until everything fits.
    fn with_room<'a>(
        &self,
        mut selected: Vec<Candidate<'a>>,
        mut rest: Vec<Candidate<'a>>,
    ) -> Option<Vec<Candidate<'a>>> {
        for index in (0..selected.len()).rev() {
            if self.fits(&selected) {
                break;
            }
            // The first of the roomiest.
            let roomiest = (0..rest.len()).rev().max_by_key(|i| self.available(&rest[*i]));
            if let Some(other) = roomiest
                && self.available(&rest[other]) > self.available(&selected[index])
            {
                std::mem::swap(&mut selected[index], &mut rest[other]);
            }
        }
        self.fits(&selected).then_some(selected)
    }

    /// The regions of the candidates, best first. A cluster without a region is in none.
    fn regions<'a>(&self, candidates: &[Candidate<'a>]) -> Vec<Region<'a>> {
        let mut groups: BTreeMap<&str, Vec<Candidate<'a>>> = BTreeMap::new();
        for candidate in candidates.iter().filter(|c| !c.cluster.spec.region.is_empty()) {
            groups.entry(candidate.cluster.spec.region.as_str()).or_default().push(*candidate);
        }
        let region = |(name, clusters): (&str, Vec<Candidate<'a>>)| Region {
            name: name.to_owned(),
            score: self.score(&clusters),
            clusters,
        };
        let mut regions: Vec<Region<'a>> = groups.into_iter().map(region).collect();
        regions.sort_by(|a, b| b.score.cmp(&a.score).then(a.name.cmp(&b.name)));
        regions
    }

    fn by_region<'a>(&self, candidates: &[Candidate<'a>]) -> Result<Vec<Candidate<'a>>, SpreadError> {
        let regions = self.regions(candidates);
        if regions.len() < self.regions.min {
            let text = "the number of feasible region is less than spreadConstraint.MinGroups";
            return Err(SpreadError(text.to_owned()));
        }
        let groups: Vec<Group> =
            regions.iter().map(|region| Group { score: region.score, size: region.clusters.len() }).collect();
        // Each region has a cluster of its own.
        let counts = (self.regions.min, self.regions.max.min(self.clusters.max));
        if counts.0 > counts.1 {
            let words =
                "the cluster spreadConstraint.MaxGroups is less than the region spreadConstraint.MinGroups";
            return Err(SpreadError(words.to_owned()));
        }
        let chosen = region_choice::choose(&groups, counts, self.clusters.min).ok_or_else(|| {
            SpreadError(
                "the number of clusters is less than the cluster spreadConstraint.MinGroups".to_owned(),
            )
        })?;
        Ok(self.fill(chosen.into_iter().map(|index| &regions[index])))
    }

    /// The best cluster of every region, then the best of the rest up to the maximum.
    fn fill<'a, 'r>(&self, regions: impl Iterator<Item = &'r Region<'a>>) -> Vec<Candidate<'a>>
    where
        'a: 'r,
    {
        let (mut selected, mut rest) = (Vec::new(), Vec::new());
        for region in regions {
            if let Some((best, others)) = region.clusters.split_first() {
                selected.push(*best);
                rest.extend_from_slice(others);
            }
        }
        rest.sort_by(|a, b| {
            let key = |c: &Candidate<'_>| (c.tier, -c.score, -self.available(c));
            key(a).cmp(&key(b)).then(a.cluster.name().cmp(b.cluster.name()))
        });
        rest.truncate(self.clusters.max.saturating_sub(selected.len()));
        selected.extend(rest);
        selected
    }

    /// How good a region is: thousands for what it can hold, the rest for how much its clusters are preferred.
    fn score(&self, clusters: &[Candidate<'_>]) -> i64 {
        if duplicates(self.placement) {
            self.score_duplicated(clusters)
        } else {
            self.score_divided(clusters)
        }
    }

    /// By how many clusters can hold everything.
    fn score_duplicated(&self, clusters: &[Candidate<'_>]) -> i64 {
        let scores: Vec<i64> =
            clusters.iter().filter(|c| self.available(c) >= self.replicas).map(|c| c.score).collect();
        let count = i64::try_from(scores.len()).unwrap_or(i64::MAX);
        if count == 0 { 0 } else { count * 1000 + scores.iter().sum::<i64>() / count }
    }

    /// By whether the region can hold its share.
    fn score_divided(&self, clusters: &[Candidate<'_>]) -> i64 {
        let groups = i64::try_from(self.regions.min.max(1)).unwrap_or(i64::MAX);
        let share = (self.replicas + groups - 1) / groups;
        let at_least = self.clusters.min.max(self.regions.min);
        let (mut sum, mut score, mut count) = (0_i64, 0_i64, 0_i64);
        for (index, candidate) in clusters.iter().enumerate() {
            sum = sum.saturating_add(self.available(candidate));
            score += candidate.score;
            count += 1;
            if index + 1 >= at_least && sum >= share {
                break;
            }
        }
        sum.min(share) * 1000 + score / count.max(1)
    }
}
