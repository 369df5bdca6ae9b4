//! The way from how a workload stands to its plan: who gives replicas and who gets them, and its first part.
//!
//! In: who has how many replicas, now and by the plan; how many may be moved. Out: who gives and gets how many, and the clusters after that.

use std::collections::BTreeMap;

use karmada_api::binding::TargetCluster;

use crate::move_note::{Change, MoveNote};

/// Who has how many replicas.
pub(crate) fn numbers(targets: &[TargetCluster]) -> BTreeMap<&str, i64> {
    targets.iter().map(|target| (&*target.name, i64::from(target.replicas))).collect()
}

/// Who gives replicas, and who gets them, on the way from how a workload stands to its plan.
pub(crate) struct Way {
    pub(crate) gives: BTreeMap<String, Giver>,
    pub(crate) gets: BTreeMap<String, i64>,
    most: i64,
}

/// Who gives replicas.
pub(crate) struct Giver {
    gives: i64,
    /// How many stay there by the plan.
    pub(crate) stay: i64,
}

impl Way {
    pub(crate) fn between(placed: &BTreeMap<&str, i64>, plan: &BTreeMap<&str, i64>) -> Way {
        let count = |of: &BTreeMap<&str, i64>, name: &str| of.get(name).copied().unwrap_or(0);
        let giver = |(name, has): (&&str, &i64)| {
            let stay = count(plan, name);
            (stay < *has).then(|| ((*name).to_owned(), Giver { gives: has - stay, stay }))
        };
        let getter = |(name, wanted): (&&str, &i64)| {
            let more = wanted - count(placed, name);
            (more > 0).then(|| ((*name).to_owned(), more))
        };
        let gives = placed.iter().filter_map(giver).collect();
        Way { gives, gets: plan.iter().filter_map(getter).collect(), most: i64::MAX }
    }

    /// Goes on with a move: from and to its clusters alone, and no further than it was to go.
    pub(crate) fn keep_to(&mut self, note: &MoveNote) {
        self.gives.retain(|name, _| note.from.contains(name));
        self.gets.retain(|name, _| note.to.contains(name));
        self.most = note.left;
    }

    /// How many replicas are moved on it.
    pub(crate) fn length(&self) -> i64 {
        let gives = self.gives.values().map(|giver| giver.gives).sum::<i64>();
        gives.min(self.gets.values().sum()).min(self.most)
    }

    /// Its first so many replicas: first those of clusters that are left, the smaller ones first; to where most go.
    pub(crate) fn first(&self, length: i64) -> (BTreeMap<String, i64>, BTreeMap<String, i64>) {
        let mut givers: Vec<(&String, &Giver)> = self.gives.iter().collect();
        givers.sort_by_key(|(name, giver)| (giver.stay, giver.gives, *name));
        let mut getters: Vec<(&String, i64)> = self.gets.iter().map(|(name, more)| (name, *more)).collect();
        getters.sort_by_key(|(name, more)| (-more, *name));
        (
            taken(length, givers.into_iter().map(|(name, giver)| (name, giver.gives))),
            taken(length, getters.into_iter()),
        )
    }
}

/// So many in all, of each what it has.
fn taken<'a>(mut length: i64, of: impl Iterator<Item = (&'a String, i64)>) -> BTreeMap<String, i64> {
    let take = |(name, has): (&String, i64)| {
        let now = has.min(length);
        length -= now;
        (now > 0).then(|| (name.clone(), now))
    };
    of.filter_map(take).collect()
}

/// The clusters once these gave and those got replicas, sorted by name, without those that have none any more.
pub(crate) fn carried(
    placed: &[TargetCluster],
    gives: &BTreeMap<String, i64>,
    gets: &BTreeMap<String, i64>,
) -> Vec<TargetCluster> {
    let mut after: BTreeMap<String, TargetCluster> =
        placed.iter().map(|target| (target.name.clone(), target.clone())).collect();
    let changes = gives.iter().map(|(name, fewer)| (name, -fewer)).chain(gets.iter().map(|(n, m)| (n, *m)));
    for (name, change) in changes {
        let fresh = || TargetCluster { name: name.clone(), ..TargetCluster::default() };
        let target = after.entry(name.clone()).or_insert_with(fresh);
        target.replicas = i32::try_from(i64::from(target.replicas) + change).unwrap_or(target.replicas);
    }
    after.into_values().filter(|target| target.replicas > 0).collect()
}

/// How many the clusters had before, and have after, where that is another number.
pub(crate) fn changes(before: &[TargetCluster], after: &[TargetCluster]) -> BTreeMap<String, Change> {
    let (before, after) = (numbers(before), numbers(after));
    let count = |of: &BTreeMap<&str, i64>, name: &str| of.get(name).copied().unwrap_or(0);
    let change = |name: &&str| {
        let change = Change { before: count(&before, name), after: count(&after, name) };
        (change.before != change.after).then(|| ((*name).to_owned(), change))
    };
    before.keys().chain(after.keys()).filter_map(change).collect()
}
