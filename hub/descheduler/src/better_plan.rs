//! What the scheduler would decide if it placed a workload afresh now, whether that is better than how it stands, and a step towards it.
//!
//! In: a binding, what the scheduler looks at, how much of the budget is left. Out: the binding's clusters after a step, or why it stays.
//!
//! The scheduler counts what a workload has in a cluster as room for it there, beside what is free ([`Mode::Fresh`]): so how much it could hold in
//! each is the same before and after a move. Which clusters the scheduler prefers is not: those in use. So a plan is asked what would be decided once
//! it is carried out, and only one that would stand then counts. What is not better by its quality is not moved, nor what would move less than
//! a fifth of the replicas; and never more than half of them at once, so that the others run on.
//!
//! [`Mode::Fresh`]: karmada_core::scheduler::division::Mode::Fresh

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use karmada_api::binding::{ResourceBinding, TargetCluster};
use karmada_api::cluster::{Cluster, ResourceSummary};
use karmada_core::cluster_expressions::{ClusterExpressions, Fault};
use karmada_core::failback;
use karmada_core::scheduler::assumptions::Taken;
use karmada_core::scheduler::estimator_answers::Exact;
use karmada_core::scheduler::{self, Decision, Input, Outcome, filter};
use karmada_quantity::Quantity;

use crate::movability::{self, Stays};
use crate::move_note::{MoveNote, Permit};
use crate::placement_quality::{self, Measure, Quality};
use crate::spread_constraints;
use crate::steps_to_plan::{Way, carried, changes, numbers};

/// A plan is looked at that moves one replica of so many, or more: a fifth.
pub const ONE_OF: i64 = 5;

/// How often a plan is asked where it leads to.
const ROUNDS: usize = 4;

/// What is decided by.
pub struct Facts<'a, C> {
    /// The binding as it stands.
    pub binding: &'a ResourceBinding,
    /// What the scheduler would look at if the binding asked to be placed afresh: it has [`afresh`] of it.
    pub afresh: &'a Input<'a, C>,
    /// Whether agents were asked for room: a cluster of which none answered is then not reckoned with.
    pub agents_are_asked: bool,
    /// The moment.
    pub now: Timestamp,
}

/// A step towards a better plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The clusters after it.
    pub clusters: Vec<TargetCluster>,
    /// Who gives how many replicas.
    pub gives: BTreeMap<String, i64>,
    /// Who gets how many.
    pub gets: BTreeMap<String, i64>,
    /// What is to be noted of it.
    pub note: MoveNote,
    /// Whether it takes back the last step.
    pub is_back: bool,
}

impl Step {
    /// How many replicas it moves.
    pub fn moved(&self) -> i64 {
        self.gives.values().sum()
    }

    /// The clusters in which none would be left.
    pub fn leaves(&self) -> impl Iterator<Item = &str> {
        let stays = |name: &str| self.clusters.iter().any(|target| target.name == name);
        self.gives.keys().map(String::as_str).filter(move |name| !stays(name))
    }

    /// The binding after it.
    pub fn applied(&self, binding: &ResourceBinding) -> ResourceBinding {
        let mut wanted = self.note.written(binding);
        wanted.spec.clusters.clone_from(&self.clusters);
        wanted
    }
}

/// The binding as it would ask the scheduler to place it afresh. Nobody writes it so.
pub fn afresh(binding: &ResourceBinding, now: Timestamp) -> ResourceBinding {
    failback::asking(binding, now)
}

/// A step towards a better plan that moves `most` replicas at most.
///
/// # Errors
/// Why the binding stays.
pub fn decide<C: Borrow<Cluster>>(facts: &Facts<'_, C>, most: i64) -> Result<Step, Stays> {
    let permit = movability::permit(facts.binding, facts.afresh.clusters, facts.afresh.scheduler, facts.now)?;
    let clusters = facts.fit();
    let afresh = Input {
        binding: facts.afresh.binding,
        clusters: &clusters,
        scheduler: facts.afresh.scheduler,
        keeps_empty: facts.afresh.keeps_empty,
        neighbours: facts.afresh.neighbours.clone(),
        taken: facts.afresh.taken.clone(),
        exact: facts.afresh.exact.clone(),
        residency: facts.afresh.residency.clone(),
        expressions: facts.afresh.expressions,
    };
    let Facts { binding, agents_are_asked, now, .. } = *facts;
    Facts { binding, afresh: &afresh, agents_are_asked, now }.decide(&permit, most)
}

impl<C: Borrow<Cluster>> Facts<'_, C> {
    /// The clusters that may get something, and those in which it is: one that is not well, or does not tell its room, is as if it were not
    /// there, and holds up nobody elsewhere.
    fn fit(&self) -> Vec<&Cluster> {
        let placed = |name: &str| self.binding.spec.clusters.iter().any(|target| target.name == name);
        let is_well = |cluster: &Cluster| {
            let target = TargetCluster { name: cluster.name().to_owned(), ..TargetCluster::default() };
            let one = |_: &str| Some(cluster);
            movability::unwell(self.binding, std::slice::from_ref(&target), one, self.now).is_none()
        };
        let all = self.afresh.clusters.iter().map(Borrow::borrow);
        all.filter(|cluster| placed(cluster.name()) || (self.tells_room(cluster) && is_well(cluster)))
            .collect()
    }

    /// Whether a cluster's report says how much room it has, and so does its agent, where agents are asked.
    fn tells_room(&self, cluster: &Cluster) -> bool {
        let answers = self.afresh.exact.get(cluster.name()).is_some_and(|room| *room >= 0);
        cluster.status.resource_summary.is_some() && (answers || !self.agents_are_asked)
    }

    fn decide(&self, permit: &Permit, most: i64) -> Result<Step, Stays> {
        let plan = self.plan(scheduler::schedule(self.afresh))?;
        // Mostly it ends here, before all that costs more.
        self.way(&plan, permit)?;
        let fleet = Fleet::of(self);
        let capacity = fleet.capacity(&plan)?;
        let plan = fleet.lasting(plan, &capacity)?;
        let way = self.way(&plan, permit)?;
        if *permit == Permit::Anew && !fleet.is_better(&plan, &capacity) {
            return Err(Stays::NoBetter);
        }
        let whole = way.length();
        let length = whole.min(most).min(i64::from(self.binding.spec.replicas) / 2);
        if length <= 0 || (length < whole && self.is_swapped(&way)) {
            return Err(Stays::NoBudget);
        }
        let step = self.step(&way, length, permit);
        // The plan keeps to what its policy says; a part of the way to it may not, and neither may what is gone on with.
        if numbers(&step.clusters) != numbers(&plan) && self.is_spread_otherwise(&step, &fleet) {
            return Err(Stays::Spread);
        }
        match self.preserving(&step) {
            Some(name) => Err(Stays::Preserved(name)),
            None => Ok(step),
        }
    }

    /// Where the scheduler would place it, in the group of clusters in which it is.
    fn plan(&self, decision: Decision) -> Result<Vec<TargetCluster>, Stays> {
        let Outcome::Scheduled(plan) = decision.outcome else { return Err(Stays::NoPlan) };
        if decision.affinity_name != self.binding.status.scheduler_observing_affinity_name {
            return Err(Stays::OtherGroup);
        }
        let sum = |targets: &[TargetCluster]| numbers(targets).values().sum::<i64>();
        // A cluster that is there twice is nothing to reckon with.
        if sum(&plan) == sum(&self.binding.spec.clusters) { Ok(plan) } else { Err(Stays::NoPlan) }
    }

    /// The way to a plan, where it is long enough.
    fn way(&self, plan: &[TargetCluster], permit: &Permit) -> Result<Way, Stays> {
        let mut way = Way::between(&numbers(&self.binding.spec.clusters), &numbers(plan));
        let fewest = match permit {
            Permit::Anew => (i64::from(self.binding.spec.replicas) + ONE_OF - 1) / ONE_OF,
            Permit::Onward(note) => {
                way.keep_to(note);
                1
            }
        };
        if way.length() < fewest { Err(Stays::Near) } else { Ok(way) }
    }

    /// Whether, halfway, it would be in more clusters than it is and than it is to be, where its policy says over how many it is spread.
    fn is_swapped(&self, way: &Way) -> bool {
        let placement = self.binding.spec.placement.as_ref();
        let is_bound = placement.is_some_and(|placement| !placement.spread_constraints.is_empty());
        let leaves = way.gives.values().any(|giver| giver.stay == 0);
        let placed = |name: &String| self.binding.spec.clusters.iter().any(|target| target.name == *name);
        is_bound && leaves && !way.gets.keys().all(placed)
    }

    /// Whether a step breaks what its policy says of how many groups of clusters it is spread over.
    fn is_spread_otherwise(&self, step: &Step, fleet: &Fleet<'_, C>) -> bool {
        let placement = self.binding.spec.placement.as_ref();
        let constraints = placement.map(|placement| &placement.spread_constraints[..]).unwrap_or_default();
        let sides = (&self.binding.spec.clusters[..], &step.clusters[..]);
        spread_constraints::breaks(constraints, sides, |name| fleet.clusters.get(name).copied())
    }

    /// A cluster that a step leaves or enters, where what is left by a workload is preserved: it runs on there. Who enters one may have to leave it
    /// again, as what comes to nothing is taken back.
    fn preserving(&self, step: &Step) -> Option<String> {
        let spec = &self.binding.spec;
        let is_new = |name: &&str| !spec.clusters.iter().any(|target| target.name == *name);
        let enters = step.gets.keys().map(String::as_str).filter(is_new);
        let is_preserved = spec.preserve_resources_on_deletion == Some(true);
        step.leaves().chain(enters).next().filter(|_| is_preserved).map(str::to_owned)
    }

    fn step(&self, way: &Way, length: i64, permit: &Permit) -> Step {
        let (gives, gets) = way.first(length);
        let left = match permit {
            Permit::Anew => way.length() - length,
            Permit::Onward(note) => note.left - length,
        };
        let names = |of: &mut dyn Iterator<Item = &String>| of.cloned().collect();
        let clusters = carried(&self.binding.spec.clusters, &gives, &gets);
        let note = MoveNote {
            // As the API stores times.
            at: Timestamp::from_second(self.now.as_second()).unwrap_or(self.now),
            left,
            from: names(&mut way.gives.keys()),
            to: names(&mut way.gets.keys()),
            changed: changes(&self.binding.spec.clusters, &clusters),
            ..MoveNote::default()
        };
        let note = MoveNote::next(MoveNote::of(self.binding).as_ref(), permit, note);
        Step { clusters, gives, gets, note, is_back: false }
    }
}

/// The facts, with the clusters by name.
struct Fleet<'a, C> {
    facts: &'a Facts<'a, C>,
    clusters: BTreeMap<&'a str, &'a Cluster>,
}

impl<'a, C: Borrow<Cluster>> Fleet<'a, C> {
    fn of(facts: &'a Facts<'a, C>) -> Self {
        let clusters = facts.afresh.clusters.iter().map(Borrow::borrow);
        Fleet { facts, clusters: clusters.map(|cluster| (cluster.name(), cluster)).collect() }
    }

    /// Whether all of these clusters are well, and tell how much room they have.
    fn trusts(&self, targets: &[TargetCluster]) -> Result<(), Stays> {
        let find = |name: &str| self.clusters.get(name).copied();
        if let Some(name) = movability::unwell(self.facts.binding, targets, find, self.facts.now) {
            return Err(Stays::Unwell(name));
        }
        match targets
            .iter()
            .find(|target| !find(&target.name).is_some_and(|cluster| self.facts.tells_room(cluster)))
        {
            Some(target) => Err(Stays::RoomUnknown(target.name.clone())),
            None => Ok(()),
        }
    }

    /// How many replicas each cluster could hold in all.
    fn capacity(&self, plan: &[TargetCluster]) -> Result<BTreeMap<String, i64>, Stays> {
        let placed = &self.facts.binding.spec.clusters;
        self.trusts(placed)?;
        self.trusts(plan)?;
        let mut capacity = scheduler::room(self.facts.afresh);
        for target in placed {
            let Some(room) = capacity.get_mut(&target.name) else {
                return Err(Stays::Unfit(target.name.clone()));
            };
            *room = room.saturating_add(i64::from(target.replicas));
        }
        Ok(capacity)
    }

    /// The plan, or the one that it leads to: what would stand once it is carried out.
    fn lasting(
        &self,
        mut plan: Vec<TargetCluster>,
        capacity: &BTreeMap<String, i64>,
    ) -> Result<Vec<TargetCluster>, Stays> {
        for _ in 0..ROUNDS {
            let next = self.facts.plan(self.decided_once_at(&plan, capacity))?;
            if numbers(&next) == numbers(&plan) {
                return Ok(plan);
            }
            self.trusts(&next)?;
            plan = next;
        }
        Err(Stays::Restless)
    }

    /// What the scheduler would decide if the workload were placed so.
    fn decided_once_at(&self, plan: &[TargetCluster], capacity: &BTreeMap<String, i64>) -> Decision {
        let afresh = self.facts.afresh;
        let (has, mut binding) = (numbers(plan), afresh.binding.clone());
        binding.spec.clusters = plan.to_vec();
        // What is left is told in replicas.
        binding.spec.replica_requirements = None;
        let left = |(name, room): (&String, &i64)| {
            let cluster = self.clusters.get(&**name)?;
            Some(with_room(cluster, room - has.get(&**name).copied().unwrap_or(0)))
        };
        let clusters: Vec<Cluster> = capacity.iter().filter_map(left).collect();
        let as_they_are = afresh.expressions.map(|of| AsTheyAre { of, clusters: &self.clusters });
        scheduler::schedule(&Input {
            binding: &binding,
            clusters: &clusters,
            scheduler: afresh.scheduler,
            keeps_empty: afresh.keeps_empty,
            neighbours: afresh.neighbours.clone(),
            taken: Taken::new(),
            exact: Exact::new(),
            residency: afresh.residency.clone(),
            expressions: as_they_are.as_ref().map(|expressions| expressions as &dyn ClusterExpressions),
        })
    }

    fn is_better(&self, plan: &[TargetCluster], capacity: &BTreeMap<String, i64>) -> bool {
        let binding = self.facts.binding;
        let Some(placement) = &binding.spec.placement else { return false };
        let group = &binding.status.scheduler_observing_affinity_name;
        let tiers = filter::affinity_tiers(placement, group, true);
        let tier = |name: &str| {
            let tier = self.clusters.get(name).and_then(|cluster| filter::tier(cluster, &tiers).ok());
            tier.unwrap_or(tiers.len())
        };
        let by =
            Measure { capacity, tier: &tier, is_aggregated: placement_quality::is_aggregated(placement) };
        Quality::of(plan, &by).is_better_than(Quality::of(&binding.spec.clusters, &by))
    }
}

/// Expressions of clusters as they are, asked of clusters as they are reckoned with: what an expression looks at, such as what is allocated, is
/// not among what is reckoned.
struct AsTheyAre<'a> {
    of: &'a dyn ClusterExpressions,
    clusters: &'a BTreeMap<&'a str, &'a Cluster>,
}

impl ClusterExpressions for AsTheyAre<'_> {
    fn score(&self, cluster: &Cluster) -> Result<i64, Fault> {
        self.of.score(self.clusters.get(cluster.name()).copied().unwrap_or(cluster))
    }
}

/// A cluster as if so many Pods had room in it, and nothing else counted.
fn with_room(cluster: &Cluster, pods: i64) -> Cluster {
    let mut cluster = cluster.clone();
    cluster.spec.resource_models = Arc::default();
    let allocatable = [("pods".to_owned(), Quantity::from_units(pods.max(0)))].into();
    cluster.status.resource_summary = Some(ResourceSummary { allocatable, ..ResourceSummary::default() });
    cluster
}

#[cfg(test)]
pub(crate) mod tests;
