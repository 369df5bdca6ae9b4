//! No flapping: over random fleets, by a generator whose seed is told where it fails.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::world::{Site, World, aggregated, weighted};
use crate::better_plan::Step;
use crate::movability::Stays;

const DAY: i64 = 24 * 60;

/// Numbers that follow from a seed.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    fn below(&mut self, end: i64) -> i64 {
        i64::try_from(self.next() % u64::try_from(end.max(1)).unwrap()).unwrap()
    }

    fn once_in(&mut self, times: i64) -> bool {
        self.below(times) == 0
    }
}

fn placement(numbers: &mut Numbers, sites: i64) -> Value {
    let mut placement = if numbers.once_in(3) { aggregated() } else { weighted() };
    if numbers.once_in(3) {
        let most = 1 + numbers.below(sites);
        placement["spreadConstraints"] =
            json!([{"spreadByField": "cluster", "minGroups": 1, "maxGroups": most}]);
    }
    placement
}

/// A fleet with a workload that somebody placed anyhow where it has room.
fn world(numbers: &mut Numbers, graded: bool) -> World {
    let count = 2 + numbers.below(5);
    let mut world = World::new(placement(numbers, count), &[], &[]);
    for at in 0..count {
        let nodes: Vec<i64> = (0..=numbers.below(4)).map(|_| numbers.below(14)).collect();
        let mut site = Site::of(&nodes);
        site.is_graded = graded && numbers.once_in(2);
        world.sites.insert(format!("m{at}"), site);
    }
    for (name, site) in &world.sites {
        let replicas = numbers.below(site.room() + 1);
        if replicas > 0 && numbers.once_in(2) {
            world.placed.insert(name.clone(), replicas);
        }
    }
    if numbers.once_in(2) {
        world.agents = Some(world.sites.keys().cloned().collect());
    }
    world
}

/// What holds of every step.
fn holds(world: &World, step: &Step, most: i64) {
    let replicas = world.replicas();
    let (gives, gets) = (step.gives.values().sum::<i64>(), step.gets.values().sum::<i64>());
    assert!(0 < gives && gives == gets && gives <= most.min(replicas / 2), "{step:?}");
    let sum: i64 = step.clusters.iter().map(|target| i64::from(target.replicas)).sum();
    assert_eq!(sum, replicas, "sums are kept: {step:?}");
    assert!(step.gives.keys().all(|name| !step.gets.contains_key(name)), "{step:?}");
    for (name, more) in &step.gets {
        let site = &world.sites[name];
        let has = world.placed.get(name).copied().unwrap_or(0);
        assert!(has + more <= site.room(), "there is room for it: {step:?}");
        assert!(site.is_ready && !site.is_cordoned && site.tells, "it is well: {step:?}");
    }
    for (name, fewer) in &step.gives {
        assert!(world.placed[name] >= *fewer && world.sites[name].is_ready, "{step:?}");
    }
}

/// Looks at it every so many minutes, later where it rests, for a year, or until it stays whatever time passes. The steps.
fn settle(world: &mut World, most: i64, every: i64) -> Vec<Step> {
    let (mut steps, end) = (Vec::<Step>::new(), world.now + SignedDuration::from_hours(365 * 24));
    while world.now < end {
        match world.decide(most) {
            Ok(step) => {
                holds(world, &step, most);
                world.take(&step);
                steps.push(step);
                world.wait(every);
            }
            Err(Stays::Rests(rests)) => world.now += rests,
            // Nothing but the end of its rest changes that.
            Err(_) => match world.rests_until().filter(|until| *until > world.now) {
                Some(until) => world.now = until,
                None => break,
            },
        }
    }
    steps
}

/// With the facts as they are no replica comes back, and a plan that was begun is reached or nearly: whoever gave never gets.
#[test]
fn what_was_moved_is_not_moved_again() {
    let mut moved = 0;
    for seed in 0..2000 {
        let mut numbers = Numbers(seed);
        let mut world = world(&mut numbers, false);
        let most = 1 + numbers.below(12);
        let every = if numbers.once_in(2) { 2 } else { 3 * DAY };
        let begun = world.clone();
        let whole = begun.decide(i64::MAX).map(|step| step.moved() + step.note.left);
        let steps = settle(&mut world, most, every);
        let (mut gave, mut got): (BTreeSet<&String>, BTreeSet<&String>) = Default::default();
        for step in &steps {
            gave.extend(step.gives.keys());
            got.extend(step.gets.keys());
        }
        assert!(gave.is_disjoint(&got), "seed {seed}: to and fro: {begun:?} {steps:?}");
        let sum: i64 = steps.iter().map(Step::moved).sum();
        assert!(sum <= whole.clone().unwrap_or(0), "seed {seed}: {sum} of {whole:?}: {begun:?} {steps:?}");
        if every == 2 && !steps.is_empty() {
            assert_eq!(Ok(sum), whole, "seed {seed}: it is gone through with: {begun:?} {steps:?}");
        }
        moved += usize::from(!steps.is_empty());
    }
    assert!(moved > 300, "of some workloads nothing is moved: {moved}");
}

/// By grades a cluster's room is told roughly, and otherwise after each move. Nearly all come to rest all the same; who does not rests longer each time.
#[test]
fn estimates_that_change_with_each_move_do_not_keep_it_moving() {
    const SEEDS: u64 = 1000;
    let mut restless = 0;
    for seed in 0..SEEDS {
        let mut numbers = Numbers(seed);
        let mut world = world(&mut numbers, true);
        let steps = settle(&mut world, i64::MAX, 10);
        // Twice as long each time, then once a week.
        assert!(steps.len() <= 10 + 53, "seed {seed}: {}", steps.len());
        restless += usize::from(steps.len() > 6);
    }
    assert!(restless <= 3, "of {SEEDS} workloads {restless} do not come to rest");
}

#[test]
fn what_is_not_ready_is_never_moved() {
    for seed in 0..2000 {
        let mut numbers = Numbers(seed);
        let mut world = world(&mut numbers, false);
        for site in world.sites.values_mut() {
            (site.is_ready, site.is_cordoned) = (!numbers.once_in(6), numbers.once_in(6));
            site.tells = !numbers.once_in(8);
        }
        if let Ok(step) = world.decide(i64::MAX) {
            holds(&world, &step, i64::MAX);
            let is_well = |name: &String| {
                let Site { is_ready, is_cordoned, tells, .. } = world.sites[name];
                is_ready && !is_cordoned && tells
            };
            assert!(world.placed.keys().all(is_well), "seed {seed}: {world:?}");
        }
        let Some(which) = world.placed.keys().next().cloned() else { continue };
        let short = world.binding(|object| {
            object["status"]["aggregatedStatus"][0]["status"]["readyReplicas"] =
                json!(world.placed[&which] - 1);
        });
        assert!(world.decide_of(&short, i64::MAX).is_err(), "seed {seed}: {world:?}");
    }
}

/// Two workloads or more that look at the same room, one after the other, each by true reports: they come to rest, and stay.
#[test]
fn workloads_do_not_chase_each_other() {
    for seed in 0..300 {
        let mut numbers = Numbers(seed);
        let fleet = world(&mut numbers, false);
        let count = 2 + usize::try_from(numbers.below(4)).unwrap();
        let mut taken: BTreeMap<String, i64> = BTreeMap::new();
        let mut workloads: Vec<World> = Vec::new();
        for _ in 0..count {
            let mut own = World { placed: BTreeMap::new(), ..fleet.clone() };
            own.placement = if numbers.once_in(3) { aggregated() } else { weighted() };
            for (name, site) in &fleet.sites {
                let room = site.room() - taken.get(name).copied().unwrap_or(0);
                let replicas = numbers.below(room + 1);
                if replicas > 0 && numbers.once_in(2) {
                    own.placed.insert(name.clone(), replicas);
                    *taken.entry(name.clone()).or_default() += replicas;
                }
            }
            workloads.push(own);
        }
        let (mut steps, mut quiet) = (0, 0);
        while quiet < 10 {
            quiet += 1;
            for at in 0..count {
                let mut of_others: BTreeMap<String, i64> = BTreeMap::new();
                for (_, other) in workloads.iter().enumerate().filter(|(other, _)| *other != at) {
                    for (name, replicas) in &other.placed {
                        *of_others.entry(name.clone()).or_default() += replicas;
                    }
                }
                for (name, site) in &mut workloads[at].sites {
                    site.nodes = vec![fleet.sites[name].room() - of_others.get(name).copied().unwrap_or(0)];
                }
                let own = &mut workloads[at];
                if let Ok(step) = own.decide(5) {
                    holds(own, &step, 5);
                    own.take(&step);
                    steps += 1;
                    quiet = 0;
                }
                own.wait(DAY);
            }
            assert!(steps <= 5 * count, "seed {seed}: they do not come to rest");
        }
    }
}

/// Why nothing is done is always one of what is expected of such fleets.
#[test]
fn what_stays_says_why() {
    for seed in 0..500 {
        let mut numbers = Numbers(seed);
        let world = world(&mut numbers, false);
        let expected = |stays: &Stays| {
            use Stays::{Alone, Near, NoBetter, NoBudget, NoPlan, Unscheduled};
            matches!(stays, Near | NoBetter | NoBudget | Alone | NoPlan | Unscheduled)
        };
        assert!(world.decide(5).err().is_none_or(|stays| expected(&stays)), "seed {seed}: {world:?}");
    }
}
