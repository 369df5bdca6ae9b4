//! What was moved and does not become ready where it went is moved back.
//!
//! In: a binding with the note of its last step and what its clusters report, all clusters, the moment. Out: whether that step is over, goes
//! on, or is to be taken back, and how.
//!
//! Room is not all that a replica needs: a node that its selector names, a quota, an image that can be pulled. Nobody knows of that before it
//! was tried, so what is tried has an end. Only where the rest of the workload is whole, and the clusters that gave are well, is it known that
//! there it would run.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use karmada_api::binding::{ResourceBinding, TargetCluster};
use karmada_api::cluster::Cluster;

use crate::better_plan::Step;
use crate::movability;
use crate::move_note::{Change, LONGEST_REST, MoveNote};
use crate::steps_to_plan::{carried, numbers};

/// What is not ready so long after a step is taken back.
pub const PATIENCE: SignedDuration = SignedDuration::from_mins(10);

/// How it goes with the last step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Course {
    /// None is known that could be taken back.
    Nothing,
    /// It is not ready yet, or nobody can tell.
    Underway,
    /// All are ready where they went, or others placed the workload since: it is not to be taken back any more.
    Over,
    /// It comes to nothing; this takes it back.
    Fails(Step),
}

/// How it goes with the last step of a binding, where the scheduler goes by this name.
pub fn course<C: Borrow<Cluster>>(
    binding: &ResourceBinding,
    clusters: &[C],
    scheduler: &str,
    now: Timestamp,
) -> Course {
    let Some(note) = MoveNote::of(binding).filter(|note| !note.changed.is_empty()) else {
        return Course::Nothing;
    };
    let (gave, got): (Vec<_>, Vec<_>) =
        note.changed.iter().partition(|(_, change)| change.before > change.after);
    if !stands(binding, &note) || is_whole(binding, &got) {
        return Course::Over;
    }
    let is_settled = !movability::is_held(binding)
        && binding.spec.graceful_eviction_tasks.is_empty()
        && movability::is_scheduled(binding, clusters, scheduler);
    let is_late = note.at <= now && now.duration_since(note.at) >= PATIENCE;
    if !is_late || !is_settled || !is_whole(binding, &gave) || !is_well(binding, &gave, clusters, now) {
        return Course::Underway;
    }
    let step = back(binding, (&gave, &got), now);
    let runs_on = binding.spec.preserve_resources_on_deletion == Some(true) && step.leaves().next().is_some();
    if runs_on { Course::Underway } else { Course::Fails(step) }
}

/// Clusters, each with its change.
type Side<'a> = [(&'a String, &'a Change)];

/// Whether the clusters still have what the step gave them.
fn stands(binding: &ResourceBinding, note: &MoveNote) -> bool {
    let placed = numbers(&binding.spec.clusters);
    let has = |name: &str| placed.get(name).copied().unwrap_or(0);
    note.changed.iter().all(|(name, change)| has(name) == change.after)
}

/// Whether what these have is ready.
fn is_whole(binding: &ResourceBinding, side: &Side<'_>) -> bool {
    let is_of = |target: &&TargetCluster| side.iter().any(|(name, _)| **name == target.name);
    binding.spec.clusters.iter().filter(is_of).all(|target| movability::is_ready(binding, target))
}

/// Whether these clusters are well, those that have nothing any more too.
fn is_well<C: Borrow<Cluster>>(
    binding: &ResourceBinding,
    side: &Side<'_>,
    clusters: &[C],
    now: Timestamp,
) -> bool {
    let target =
        |(name, _): &(&String, &Change)| TargetCluster { name: (*name).clone(), ..TargetCluster::default() };
    let targets: Vec<TargetCluster> = side.iter().map(target).collect();
    let known: BTreeMap<&str, &Cluster> =
        clusters.iter().map(Borrow::borrow).map(|cluster| (cluster.name(), cluster)).collect();
    movability::unwell(binding, &targets, |name| known.get(name).copied(), now).is_none()
}

/// The step back.
fn back(binding: &ResourceBinding, (gave, got): (&Side<'_>, &Side<'_>), now: Timestamp) -> Step {
    let differences = |side: &Side<'_>| -> BTreeMap<String, i64> {
        side.iter().map(|(name, change)| ((*name).clone(), (change.after - change.before).abs())).collect()
    };
    let (gives, gets) = (differences(got), differences(gave));
    let note = MoveNote {
        // As the API stores times.
        at: Timestamp::from_second(now.as_second()).unwrap_or(now),
        rest_seconds: LONGEST_REST.as_secs(),
        ..MoveNote::default()
    };
    let clusters = carried(&binding.spec.clusters, &gives, &gets);
    Step { clusters, gives, gets, note, is_back: true }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::better_plan::tests::world::{Site, World, weighted};

    /// Ten minutes after five of ten replicas were moved from `a` to `b`.
    fn moved() -> World {
        let mut world = World::new(weighted(), &[("a", 20), ("b", 20)], &[("a", 10)]);
        let step = world.decide(100).unwrap();
        world.take(&step);
        world.wait(10);
        world
    }

    fn course_of(world: &World, edit: impl FnOnce(&mut Value)) -> Course {
        course(&world.binding(edit), &world.clusters(), "default-scheduler", world.now)
    }

    /// The second cluster reports what does not become ready.
    fn fails(object: &mut Value) {
        object["status"]["aggregatedStatus"][1]["status"]["readyReplicas"] = json!(0);
    }

    #[test]
    fn what_does_not_become_ready_goes_back_and_rests_for_long() {
        let mut world = moved();
        let Course::Fails(step) = course_of(&world, fails) else { panic!("it does not go back") };
        assert_eq!((step.moved(), step.is_back), (5, true));
        assert_eq!(step.leaves().collect::<Vec<_>>(), ["b"]);
        let binding = step.applied(&world.binding(fails));
        assert_eq!(numbers(&binding.spec.clusters), [("a", 10)].into());
        world.take(&step);
        assert_eq!(course_of(&world, |_| {}), Course::Nothing);
        assert_eq!(world.rests_until(), Some(world.now + LONGEST_REST));
    }

    #[test]
    fn what_is_ready_or_was_placed_otherwise_since_does_not_go_back() {
        let world = moved();
        assert_eq!(course_of(&world, |_| {}), Course::Over);
        let mut other = world.clone();
        other.placed = [("a".to_owned(), 4), ("b".to_owned(), 6)].into();
        assert_eq!(course_of(&other, fails), Course::Over);
        let mut never = world;
        never.note = None;
        assert_eq!(course_of(&never, fails), Course::Nothing);
    }

    #[test]
    fn it_waits_for_ten_minutes_and_for_the_clusters_that_gave() {
        let world = moved();
        let waits = |edit: &dyn Fn(&mut World), also: fn(&mut Value)| {
            let mut world = world.clone();
            edit(&mut world);
            let both = |object: &mut Value| {
                fails(object);
                also(object);
            };
            assert_eq!(course_of(&world, both), Course::Underway);
        };
        let site = |edit: fn(&mut Site)| move |world: &mut World| edit(world.sites.get_mut("a").unwrap());
        waits(&|world| world.wait(-1), |_| {});
        waits(&|world| world.wait(-20), |_| {});
        waits(&site(|site| site.is_ready = false), |_| {});
        waits(&site(|site| site.is_cordoned = true), |_| {});
        waits(&|_| {}, |object| {
            object["status"]["aggregatedStatus"][0]["status"]["readyReplicas"] = json!(4);
        });
        waits(&|_| {}, |object| object["spec"]["suspension"] = json!({"dispatching": true}));
        waits(&|_| {}, |object| object["spec"]["replicas"] = json!(12));
        waits(&|_| {}, |object| object["metadata"]["generation"] = json!(2));
        waits(&|_| {}, |object| object["spec"]["preserveResourcesOnDeletion"] = json!(true));
    }
}
