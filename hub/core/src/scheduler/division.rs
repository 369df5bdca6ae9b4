//! How many replicas each chosen cluster gets.
//!
//! In: candidates in order of preference with their free room, how many replicas, who has how many now. Out: replicas
//! by cluster, without those that get none unless they are wanted; or why they do not fit.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, HashSet};

use karmada_api::binding::TargetCluster;
use karmada_api::cluster::Cluster;
use karmada_api::policy::{
    ClusterPreferences, DynamicWeight, ReplicaDivisionPreference, ReplicaSchedulingStrategy,
    ReplicaSchedulingType,
};
use karmada_api::selector::affinity_matches;

use super::webster;

/// A cluster that may get replicas.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// The cluster.
    pub cluster: &'a Cluster,
    /// How many more replicas it could hold, beside those it has.
    pub free: i64,
    /// Which tier it belongs to: 0 is asked first, higher ones take what does not fit.
    pub tier: usize,
    /// How much it is preferred, from 0 to 100, and to 200 where an expression says; matters for spreading only.
    pub score: i64,
}

/// Whether the present division counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// As little moves as possible.
    Steady,
    /// Everything is divided anew.
    Fresh,
}

/// What is divided.
#[derive(Clone, Debug)]
pub struct Division<'a> {
    /// Who may get replicas, in order of preference.
    pub candidates: &'a [Candidate<'a>],
    /// How many replicas there are.
    pub replicas: i64,
    /// How; absent means that everybody gets all.
    pub strategy: Option<&'a ReplicaSchedulingStrategy>,
    /// Who has how many now.
    pub previous: &'a [TargetCluster],
    /// Uid of the template: it breaks ties.
    pub uid: &'a str,
    /// Whether the present division counts.
    pub mode: Mode,
    /// Whether candidates stand in tiers.
    pub tiers: bool,
    /// Whether there are replicas to divide at all; a ConfigMap has none.
    pub workload: bool,
    /// Whether candidates that get no replicas are placed in all the same.
    pub keeps_empty: bool,
}

/// Why replicas cannot be divided. The text reaches the user in the condition Scheduled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DivisionError {
    /// There is not enough room: wait for some.
    #[error("{0}")]
    Unschedulable(String),
    /// Nothing can be divided like this.
    #[error("{0}")]
    Impossible(String),
}

type Shares = Vec<(String, i64)>;

/// Divides.
///
/// # Errors
/// There is not enough room ([`DivisionError::Unschedulable`]), or nothing can be divided like this ([`DivisionError::Impossible`]).
pub fn divide(division: &Division<'_>) -> Result<Vec<TargetCluster>, DivisionError> {
    if division.candidates.is_empty() {
        return Err(DivisionError::Impossible("no clusters available to schedule".to_owned()));
    }
    if !division.workload {
        return Ok(targets(division.candidates.iter().map(|c| (c.cluster.name().to_owned(), 0)), false));
    }
    let strategy = strategy(division.strategy)?;
    let mut shares =
        if division.tiers { by_tiers(division, &strategy)? } else { at_once(division, &strategy)? };
    if division.keeps_empty {
        shares.extend(without_share(division.candidates, &shares));
    }
    Ok(targets(shares, !division.keeps_empty))
}

/// Those who get nothing, with nothing.
fn without_share(candidates: &[Candidate<'_>], shares: &[(String, i64)]) -> Shares {
    let shared: HashSet<&str> = shares.iter().map(|(name, _)| &**name).collect();
    let names = candidates.iter().map(|candidate| candidate.cluster.name());
    names.filter(|name| !shared.contains(name)).map(|name| (name.to_owned(), 0)).collect()
}

/// All candidates alike.
fn at_once(division: &Division<'_>, strategy: &Strategy<'_>) -> Result<Shares, DivisionError> {
    match strategy {
        Strategy::Dynamic(kind) => by_room(division, *kind),
        fixed => Ok(by_rule(division, division.candidates, division.replicas, fixed)),
    }
}

/// As a rule says that does not look at room.
fn by_rule(
    division: &Division<'_>,
    candidates: &[Candidate<'_>],
    replicas: i64,
    strategy: &Strategy<'_>,
) -> Shares {
    if let Strategy::Static(preference) = strategy {
        return by_static_weight(candidates, replicas, *preference, division.uid);
    }
    candidates.iter().map(|c| (c.cluster.name().to_owned(), replicas)).collect()
}

fn targets(shares: impl IntoIterator<Item = (String, i64)>, drop_empty: bool) -> Vec<TargetCluster> {
    let mut targets: Vec<TargetCluster> = shares
        .into_iter()
        .filter(|(_, replicas)| !drop_empty || *replicas > 0)
        .map(|(name, replicas)| TargetCluster {
            name,
            replicas: i32::try_from(replicas).unwrap_or(i32::MAX),
            ..TargetCluster::default()
        })
        .collect();
    targets.sort_by(|a, b| a.name.cmp(&b.name));
    targets
}

/// How capacity is used.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dynamic {
    /// In proportion to free room.
    Weighted,
    /// In as few clusters as possible.
    Aggregated,
}

enum Strategy<'a> {
    Duplicated,
    Static(Option<&'a ClusterPreferences>),
    Dynamic(Dynamic),
}

fn strategy(strategy: Option<&ReplicaSchedulingStrategy>) -> Result<Strategy<'_>, DivisionError> {
    let Some(strategy) = strategy else { return Ok(Strategy::Duplicated) };
    if strategy.replica_scheduling_type == Some(ReplicaSchedulingType::Duplicated) {
        return Ok(Strategy::Duplicated);
    }
    match (strategy.replica_division_preference, &strategy.weight_preference) {
        (Some(ReplicaDivisionPreference::Aggregated), _) => Ok(Strategy::Dynamic(Dynamic::Aggregated)),
        (Some(ReplicaDivisionPreference::Weighted), Some(preference))
            if preference.dynamic_weight == Some(DynamicWeight::AvailableReplicas) =>
        {
            Ok(Strategy::Dynamic(Dynamic::Weighted))
        }
        (Some(ReplicaDivisionPreference::Weighted), preference) => Ok(Strategy::Static(preference.as_ref())),
        (None, _) => Err(DivisionError::Impossible(
            "unsupported replica scheduling strategy, replicaSchedulingType: Divided, \
             replicaDivisionPreference: , please try another scheduling strategy"
                .to_owned(),
        )),
    }
}

/// Fixed weights: a cluster's is the highest of the entries that mean it. Clusters that none means get nothing, but
/// where no entry means any cluster, all weigh the same. What was before does not count.
fn by_static_weight(
    candidates: &[Candidate<'_>],
    replicas: i64,
    preference: Option<&ClusterPreferences>,
    uid: &str,
) -> Shares {
    let entries = preference.map(|p| p.static_weight_list.as_slice()).unwrap_or_default();
    let weight = |cluster: &Cluster| {
        let matching = entries.iter().filter(|entry| affinity_matches(&entry.target_cluster, cluster));
        matching.map(|entry| entry.weight).max().unwrap_or(0)
    };
    let mut votes: Shares =
        candidates.iter().map(|c| (c.cluster.name().to_owned(), weight(c.cluster))).collect();
    if votes.iter().all(|(_, weight)| *weight <= 0) {
        votes.iter_mut().for_each(|(_, weight)| *weight = 1);
    }
    webster::divide(replicas, &votes, &[], uid)
}

/// The present shares of those who are still candidates, in the order in which they stand.
fn held(division: &Division<'_>, candidates: &[Candidate<'_>]) -> Shares {
    let names: HashSet<&str> = candidates.iter().map(|c| c.cluster.name()).collect();
    let still = |target: &&TargetCluster| names.contains(&*target.name);
    division.previous.iter().filter(still).map(|t| (t.name.clone(), i64::from(t.replicas))).collect()
}

fn sum(shares: &[(String, i64)]) -> i64 {
    shares.iter().map(|(_, replicas)| *replicas).sum()
}

/// Most room first; equal ones as they stand.
fn by_size(mut shares: Shares) -> Shares {
    shares.sort_by_key(|(_, room)| std::cmp::Reverse(*room));
    shares
}

fn free(candidates: &[Candidate<'_>]) -> Shares {
    candidates.iter().map(|c| (c.cluster.name().to_owned(), c.free)).collect()
}

/// Free room and what is held, together.
fn capacity(candidates: &[Candidate<'_>], held: &[(String, i64)]) -> Shares {
    let held: HashMap<&str, i64> = held.iter().map(|(name, n)| (name.as_str(), *n)).collect();
    let of = |c: &Candidate<'_>| c.free.saturating_add(held.get(c.cluster.name()).copied().unwrap_or(0));
    candidates.iter().map(|c| (c.cluster.name().to_owned(), of(c))).collect()
}

/// By room, all candidates alike.
fn by_room(division: &Division<'_>, kind: Dynamic) -> Result<Shares, DivisionError> {
    let shares = divide_by_room(division, division.candidates, division.replicas, kind);
    shares.map_err(|Short { step, available }| {
        DivisionError::Unschedulable(format!(
            "{step}Clusters available replicas {available} are not enough to schedule."
        ))
    })
}

/// There is not enough room.
struct Short {
    step: &'static str,
    available: i64,
}

fn divide_by_room(
    division: &Division<'_>,
    candidates: &[Candidate<'_>],
    replicas: i64,
    kind: Dynamic,
) -> Result<Shares, Short> {
    let held = held(division, candidates);
    let assigned = sum(&held);
    if division.mode == Mode::Fresh {
        let room = by_size(capacity(candidates, &held));
        return share(replicas, room, &[], kind, division.uid).map_err(short("failed to do fresh scale: "));
    }
    match assigned.cmp(&replicas) {
        Ordering::Equal => Ok(held),
        // What everybody has is all the room there is: shrinking moves nothing.
        Ordering::Greater => {
            share(replicas, by_size(held), &[], kind, division.uid).map_err(short("failed to scale down: "))
        }
        Ordering::Less => {
            let room = by_size(free(candidates));
            let shares = share(replicas - assigned, room, &held, kind, division.uid);
            shares.map_err(short("failed to scale up: "))
        }
    }
}

fn short(step: &'static str) -> impl Fn(i64) -> Short {
    move |available| Short { step, available }
}

/// Divides `replicas` over `room` on top of what is held; the error is how much room there is.
fn share(
    replicas: i64,
    mut room: Shares,
    held: &[(String, i64)],
    kind: Dynamic,
    uid: &str,
) -> Result<Shares, i64> {
    let available = room.iter().fold(0_i64, |sum, (_, n)| sum.saturating_add(*n));
    if available < replicas {
        return Err(available);
    }
    if kind == Dynamic::Aggregated {
        // Clusters in use come first; the shortest prefix that holds everything is enough.
        let holders: HashSet<&str> =
            held.iter().filter(|(_, n)| *n > 0).map(|(holder, _)| &**holder).collect();
        room.sort_by_key(|(name, _)| !holders.contains(&**name));
        let mut sum = 0_i64;
        let enough = room.iter().position(|(_, n)| {
            sum = sum.saturating_add(*n);
            sum >= replicas
        });
        room.truncate(enough.map_or(room.len(), |last| last + 1));
    }
    // What is held does not weigh against more: the room says who can take it.
    // Of one that is there twice the last counts.
    let held: BTreeMap<String, i64> = held.iter().cloned().collect();
    let more = webster::divide(replicas, &room, &[], uid);
    Ok(webster::summed_by_name(held.into_iter().chain(more).collect()))
}

/// Tier by tier: each takes as much as it can hold before the next is asked.
fn by_tiers(division: &Division<'_>, strategy: &Strategy<'_>) -> Result<Shares, DivisionError> {
    let mut tiers: BTreeMap<usize, Vec<Candidate<'_>>> = BTreeMap::new();
    for candidate in division.candidates {
        tiers.entry(candidate.tier).or_default().push(*candidate);
    }
    let mut left = division.replicas;
    let mut shares = Shares::new();
    let short = |_: Short| {
        DivisionError::Unschedulable("Clusters available replicas are not enough to schedule.".to_owned())
    };
    for candidates in tiers.values() {
        let held = held(division, candidates);
        let room = sum(&capacity(candidates, &held));
        let take = left.min(room);
        if take <= 0 {
            continue;
        }
        shares.extend(match strategy {
            Strategy::Dynamic(kind) => divide_by_room(division, candidates, take, *kind).map_err(short)?,
            fixed => by_rule(division, candidates, take, fixed),
        });
        left -= take;
    }
    if left > 0 { Err(short(Short { step: "", available: 0 })) } else { Ok(shares) }
}
