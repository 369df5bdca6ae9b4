//! Trying a placement's groups of clusters in order, until one takes the binding.
//!
//! In: the binding, all clusters by name, whether everything is divided anew. Out: a [`Decision`], with every attempt in it. A cluster that
//! some group means is judged once for all attempts; what an attempt asks anew is whether its own group means the cluster. So that nobody keeps
//! the scheduler busy with thousands of groups over a large fleet, one schedule asks that so often and no more, and says which groups it left
//! out. Why each cluster was chosen or not is said where somebody reads it ([`Explains`]): a schedule alone has no use for it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use karmada_api::binding::{ResourceBinding, TargetCluster};
use karmada_api::cluster::{ApiEnablement, Cluster};
use karmada_api::policy::Placement;

use super::assumptions::Assumed;
use super::division::{self, Candidate, Division, DivisionError, Mode};
use super::expression_scores::Scores;
use super::filter::{self, Unfit};
use super::{
    ClusterVerdict, Decision, Failure, Input, Outcome, cluster_changes, components, estimate, spread,
};
use crate::cluster_expressions::HIGHEST;

/// How often one schedule asks whether a group means a cluster: 10,000 clusters and 50 groups, 100 clusters and 5,000.
const MOST_LOOKS: usize = 500_000;
/// How many groups are tried in any case.
const FEWEST_GROUPS: usize = 8;

/// How many groups are tried over so many clusters.
fn most_groups(clusters: usize) -> usize {
    (MOST_LOOKS / clusters.max(1)).max(FEWEST_GROUPS)
}

/// One group that was tried, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The name of the group; empty where the placement has no groups.
    pub affinity_name: String,
    /// Which of the placement's groups it is; none where the placement has no groups.
    pub index: Option<usize>,
    /// Where the binding would go, or why nowhere.
    pub result: Result<Vec<TargetCluster>, Failure>,
}

/// Whether a decision says of each cluster why it was chosen or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Explains {
    EachCluster,
    Nothing,
}

/// What holds in every attempt.
struct Plan<'a> {
    binding: &'a ResourceBinding,
    placement: &'a Placement,
    mode: Mode,
    explains: Explains,
    /// Whether clusters that get no replicas are placed in all the same.
    keeps_empty: bool,
    /// By name.
    clusters: Vec<Seen<'a>>,
}

/// A cluster, and what does not depend on the group that is tried. Of one that no group means, or that does not serve the kind, no more is asked.
struct Seen<'a> {
    cluster: &'a Cluster,
    serves: Result<(), Unfit>,
    others: Result<(), Unfit>,
    free: i64,
    /// How much it is preferred: for being in use, and by what the policy's expression says.
    score: i64,
}

/// What is asked of each cluster of a fleet, and answered once for all that are alike.
struct Facts<'a> {
    /// The clusters in which the binding is placed now. Asked once for each cluster of the fleet, and never walked: its order is no matter.
    placed: HashSet<&'a str>,
    binding: &'a ResourceBinding,
    /// Whether the kind is served, by the list of what is: most clusters share theirs with many.
    serves: BTreeMap<*const Vec<ApiEnablement>, bool>,
    scores: Scores<'a>,
    /// The group that holds, and how many are tried from there or from the first: no other is asked whether it means a cluster.
    tried: (usize, usize),
}

impl<'a> Facts<'a> {
    fn of<C>(input: &Input<'a, C>) -> Self {
        let binding = input.binding;
        let placed = binding.spec.clusters.iter().map(|target| &*target.name).collect();
        let groups = binding
            .spec
            .placement
            .as_ref()
            .map(|placement| &*placement.cluster_affinities)
            .unwrap_or_default();
        let observed = &binding.status.scheduler_observing_affinity_name;
        let holds = groups.iter().position(|group| group.affinity_name == *observed).unwrap_or_default();
        let tried = (holds, most_groups(input.clusters.len()));
        Facts {
            placed,
            binding,
            serves: BTreeMap::new(),
            scores: Scores::of(binding, input.expressions),
            tried,
        }
    }

    /// Whether a group that may be tried means a cluster.
    fn means(&self, placement: &Placement, cluster: &Cluster) -> bool {
        let groups = &placement.cluster_affinities;
        if placement.cluster_affinity.is_some() || groups.is_empty() {
            return cluster_changes::may_use(placement, cluster);
        }
        let (holds, most) = self.tried;
        // None twice, where those from the first reach those from the one that holds.
        let (next, end) = (holds.max(most), holds.saturating_add(most));
        let tried = groups.iter().take(most).chain(groups.iter().take(end).skip(next));
        tried.into_iter().any(|term| cluster_changes::term_means(term, cluster))
    }

    fn serves(&mut self, cluster: &Cluster) -> bool {
        let list = Arc::as_ptr(&cluster.status.api_enablements);
        let of = &self.binding.spec.resource;
        *self.serves.entry(list).or_insert_with(|| cluster.serves(&of.api_version, &of.kind))
    }
}

impl<'a> Seen<'a> {
    fn of<C>(
        cluster: &'a Cluster,
        input: &Input<'_, C>,
        placement: &Placement,
        facts: &mut Facts<'_>,
    ) -> Self {
        let (binding, neighbours) = (input.binding, &input.neighbours);
        let spec = &binding.spec;
        let already = facts.placed.contains(cluster.name());
        let serves = filter::api(already, || facts.serves(cluster));
        if cluster.deleting() || serves.is_err() || !facts.means(placement, cluster) {
            return Seen { cluster, serves, others: Ok(()), free: 0, score: 0 };
        }
        let mut others = filter::residency(cluster, &input.residency)
            .and_then(|()| filter::eviction(cluster.name(), spec))
            .and_then(|()| filter::spread_property(cluster, placement))
            .and_then(|()| filter::taints(&cluster.spec.taints, &placement.cluster_tolerations, already))
            .and_then(|()| neighbours.together(cluster.name(), already))
            .and_then(|()| neighbours.apart(cluster.name(), already));
        // Where expressions give scores, what is placed keeps the highest: no score alone moves anything.
        let mut score = spread::locality_score(already);
        let mut fits = others.is_ok();
        // Expressions cost the most, and are asked last.
        if fits && facts.scores.are_asked() {
            match facts.scores.ask(cluster) {
                Ok(said) => score += if already { HIGHEST } else { said },
                Err(unfit) => (others, fits) = (Err(unfit), false),
            }
        }
        let taken = input.taken.get(cluster.name()).map(Vec::as_slice).unwrap_or_default();
        let reckoned = if fits { free(binding, cluster, placement, taken) } else { 0 };
        let free = input.exact.get(cluster.name()).map_or(reckoned, |exact| reckoned.min(*exact));
        Seen { cluster, serves, others, free, score }
    }
}

impl Seen<'_> {
    /// Whether nothing but a group may leave the cluster out.
    fn fits(&self) -> bool {
        !self.cluster.deleting() && self.serves.is_ok() && self.others.is_ok()
    }
}

/// The room for more replicas, or sets of parts, in a cluster, of which so much is taken.
fn free(binding: &ResourceBinding, cluster: &Cluster, placement: &Placement, taken: &[Arc<Assumed>]) -> i64 {
    if !binding.spec.is_workload() {
        return i64::from(i32::MAX);
    }
    if components::goes_by_sets(&binding.spec, placement) {
        return components::max_sets(cluster, &binding.spec.components, taken);
    }
    let room = estimate::max_beside(cluster, binding.spec.replica_requirements.as_ref(), taken);
    room.min(i64::from(i32::MAX))
}

/// The clusters that one of the placement's groups may put the binding into, with the room that their summaries promise.
pub(super) fn eligible<'a, C>(
    input: &Input<'a, C>,
    clusters: &[&'a Cluster],
    placement: &Placement,
) -> Vec<(&'a str, i64)> {
    let groups: Vec<&str> = match &placement.cluster_affinities[..] {
        [] => vec![""],
        groups => {
            groups.iter().take(most_groups(clusters.len())).map(|group| &*group.affinity_name).collect()
        }
    };
    let workload = input.binding.spec.is_workload();
    let tiers: Vec<_> =
        groups.iter().map(|group| filter::affinity_tiers(placement, group, workload)).collect();
    let means = |cluster: &Cluster| tiers.iter().any(|tiers| filter::tier(cluster, tiers).is_ok());
    let mut facts = Facts::of(input);
    let meant = clusters.iter().filter(|cluster| means(cluster));
    let seen = meant.map(|cluster| Seen::of(cluster, input, placement, &mut facts));
    seen.filter(Seen::fits).map(|seen| (seen.cluster.name(), seen.free)).collect()
}

/// The scores, other than 0, of the clusters that may be chosen in some group.
pub(super) fn scores<C>(
    input: &Input<'_, C>,
    clusters: &[&Cluster],
    placement: &Placement,
) -> BTreeMap<String, i64> {
    let mut facts = Facts::of(input);
    let seen = clusters.iter().map(|cluster| Seen::of(cluster, input, placement, &mut facts));
    let preferred = seen.filter(|seen| seen.fits() && seen.score != 0);
    preferred.map(|seen| (seen.cluster.name().to_owned(), seen.score)).collect()
}

/// Places a binding, whatever triggered it. `clusters` are sorted by name.
pub(super) fn place<C>(
    input: &Input<'_, C>,
    clusters: &[&Cluster],
    placement: &Placement,
    (mode, explains): (Mode, Explains),
) -> Decision {
    let mut facts = Facts::of(input);
    let seen = clusters.iter().map(|cluster| Seen::of(cluster, input, placement, &mut facts)).collect();
    if let Some(why) = facts.scores.stopped {
        let outcome = Outcome::Failed(Failure::Error(why));
        return super::undecided(input.binding, clusters, outcome, explains);
    }
    let (binding, keeps_empty) = (input.binding, input.keeps_empty);
    let plan = Plan { binding, placement, mode, explains, keeps_empty, clusters: seen };
    let decision = match placement.cluster_affinities.is_empty() {
        true => plan.attempt("", None).into_decision(Vec::new()),
        false => plan.in_order(),
    };
    Decision { going: super::going(binding, clusters), ..decision }
}

/// The first group all of whose clusters these may be: the group by which they were chosen, as far as can be told.
pub(super) fn group_of<'a>(
    placement: &'a Placement,
    is_workload: bool,
    placed: &[&Cluster],
) -> Option<&'a str> {
    let admits = |name: &str| {
        let tiers = filter::affinity_tiers(placement, name, is_workload);
        placed.iter().all(|cluster| filter::tier(cluster, &tiers).is_ok())
    };
    let names = placement.cluster_affinities.iter().map(|group| group.affinity_name.as_str());
    names.into_iter().find(|name| admits(name))
}

/// An attempt with what is told of each cluster.
struct Tried {
    attempt: Attempt,
    report: BTreeMap<String, ClusterVerdict>,
}

impl Tried {
    /// What it comes to after the attempts `before`.
    fn into_decision(self, mut before: Vec<Attempt>) -> Decision {
        let outcome = match &self.attempt.result {
            Ok(targets) => Outcome::Scheduled(targets.clone()),
            Err(failure) => Outcome::Failed(failure.clone()),
        };
        let affinity_name = self.attempt.affinity_name.clone();
        before.push(self.attempt);
        Decision { affinity_name, tried: before, report: self.report, ..Decision::plain(outcome) }
    }
}

impl Plan<'_> {
    /// From the group that holds now to the first that fits. Where everything is divided anew, and where nothing is placed that could stay,
    /// no group holds: the first is tried first. Where none fits, the first that was tried says why.
    fn in_order(&self) -> Decision {
        let groups = &self.placement.cluster_affinities;
        let observed = &self.binding.status.scheduler_observing_affinity_name;
        let position = groups.iter().position(|group| group.affinity_name == *observed);
        let holds = self.mode == Mode::Steady && !self.binding.spec.clusters.is_empty();
        let start = position.filter(|_| holds).unwrap_or(0);
        let most = most_groups(self.clusters.len());
        let (mut tried, mut first) = (Vec::new(), None);
        for (index, group) in groups.iter().enumerate().skip(start).take(most) {
            let now = self.attempt(&group.affinity_name, Some(index));
            if now.attempt.result.is_ok() {
                return now.into_decision(tried);
            }
            first.get_or_insert_with(|| (now.attempt.result.clone(), now.report));
            tried.push(now.attempt);
        }
        let (result, report) = first.unwrap_or((Ok(Vec::new()), BTreeMap::new()));
        let outcome = match result {
            Ok(_) => Outcome::UpToDate,
            Err(failure) => Outcome::Failed(failure.and(left_out(groups.len() - start, most))),
        };
        let affinity_name = tried.last().map(|last| last.affinity_name.clone()).unwrap_or_default();
        Decision { affinity_name, tried, report, ..Decision::plain(outcome) }
    }

    /// One attempt with one group.
    fn attempt(&self, group: &str, index: Option<usize>) -> Tried {
        let tiers = filter::affinity_tiers(self.placement, group, self.binding.spec.is_workload());
        let (mut verdicts, mut unfit, mut candidates) = (Vec::new(), Vec::new(), Vec::new());
        let explains = self.explains == Explains::EachCluster;
        for seen in &self.clusters {
            let name = seen.cluster.name();
            if seen.cluster.deleting() {
                verdicts.extend(explains.then_some((name, ClusterVerdict::Deleting)));
                continue;
            }
            let fits = seen.serves.clone().and_then(|()| filter::tier(seen.cluster, &tiers));
            match fits.and_then(|tier| seen.others.clone().map(|()| tier)) {
                Ok(tier) => {
                    verdicts.extend(explains.then_some((name, ClusterVerdict::Passed)));
                    let Seen { cluster, free, score, .. } = *seen;
                    candidates.push(Candidate { cluster, free, tier, score });
                }
                Err(reason) => {
                    verdicts.extend(explains.then(|| (name, ClusterVerdict::Unfit(reason.clone()))));
                    unfit.push(reason);
                }
            }
        }
        let result = if candidates.is_empty() {
            let explained = filter::explain(self.clusters.len(), &unfit);
            // An expression that fails says nothing of where the binding is to be: what is placed stays until it is mended.
            let fails = unfit.iter().any(|reason| matches!(reason, Unfit::Expression(_)));
            Err(if fails { Failure::Error(explained) } else { Failure::NoClusterFit(explained) })
        } else {
            self.select_and_divide(candidates, tiers.len() > 1)
        };
        let report = reported(verdicts, result.as_deref().unwrap_or_default());
        Tried { attempt: Attempt { affinity_name: group.to_owned(), index, result }, report }
    }

    fn select_and_divide(
        &self,
        mut candidates: Vec<Candidate<'_>>,
        tiers: bool,
    ) -> Result<Vec<TargetCluster>, Failure> {
        let spec = &self.binding.spec;
        let replicas = i64::from(spec.replicas);
        let wanted = if components::goes_by_sets(spec, self.placement) { 1 } else { replicas };
        spread::order(&mut candidates, &spec.clusters);
        let selected = spread::select(&candidates, self.placement, wanted, &spec.clusters)
            .map_err(|error| Failure::Error(format!("failed to select clusters: {error}")))?;
        if components::has_several(spec) {
            let names = selected.iter().map(|candidate| candidate.cluster.name().to_owned()).collect();
            return Ok(components::placed(spec, self.placement, names));
        }
        let division = Division {
            candidates: &selected,
            replicas,
            strategy: self.placement.replica_scheduling.as_ref(),
            previous: &spec.clusters,
            uid: &spec.resource.uid,
            mode: self.mode,
            tiers,
            workload: spec.is_workload(),
            keeps_empty: self.keeps_empty,
        };
        division::divide(&division).map_err(|error| match error {
            DivisionError::Unschedulable(text) => {
                Failure::Unschedulable(format!("failed to assign replicas: {text}"))
            }
            DivisionError::Impossible(text) => Failure::Error(format!("failed to assign replicas: {text}")),
        })
    }
}

/// What is told of each cluster, of which these are chosen.
fn reported(
    verdicts: Vec<(&str, ClusterVerdict)>,
    chosen: &[TargetCluster],
) -> BTreeMap<String, ClusterVerdict> {
    let chosen: HashMap<&str, i32> = chosen.iter().map(|target| (&*target.name, target.replicas)).collect();
    let told = |(name, verdict): (&str, ClusterVerdict)| {
        (name.to_owned(), chosen.get(name).map_or(verdict, |replicas| ClusterVerdict::Chosen(*replicas)))
    };
    verdicts.into_iter().map(told).collect()
}

/// What is said of groups that were not tried.
fn left_out(groups: usize, most: usize) -> Option<String> {
    (groups > most).then(|| {
        let left = groups - most;
        format!(
            "{left} further groups of clusterAffinities were not tried: with so many clusters, {most} are"
        )
    })
}
