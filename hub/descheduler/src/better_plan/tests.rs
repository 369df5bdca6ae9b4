//! Better plans, worse ones, and those that are merely other.

mod stability;
pub(crate) mod world;

use jiff::SignedDuration;
use karmada_api::binding::ResourceBinding;
use serde_json::{Value, json};

use self::world::{Site, World, aggregated, weighted};
use super::*;

/// Where it stands after one step, or why it stays.
fn after(world: &World, most: i64) -> Result<String, Stays> {
    let mut world = world.clone();
    let step = world.decide(most)?;
    world.take(&step);
    Ok(world.stands())
}

/// As it goes on with nothing of the budget used by others, every two minutes: where it stands each time that it moved.
fn goes(mut world: World, most: i64) -> Vec<String> {
    let mut all = Vec::new();
    for _ in 0..100 {
        if let Ok(step) = world.decide(most) {
            world.take(&step);
            all.push(world.stands());
        }
        world.wait(2);
    }
    all
}

#[test]
fn what_room_elsewhere_would_take_is_moved_there() {
    let world = World::new(weighted(), &[("a", 20), ("b", 20)], &[("a", 10)]);
    let step = world.decide(100).unwrap();
    assert_eq!(step.clusters.iter().map(|target| target.replicas).collect::<Vec<_>>(), [5, 5]);
    assert_eq!((step.moved(), step.note.left), (5, 0));
    assert_eq!(after(&world, 100), Ok("a5 b5".to_owned()));
    let three = World::new(aggregated(), &[("a", 4), ("b", 4), ("c", 12)], &[("a", 4), ("b", 4)]);
    assert_eq!(goes(three, 100), ["b4 c4", "c8"], "one cluster is enough, and half of it runs on");
}

/// The room that a workload takes is room for it: else the cluster in which it is would look full, and the next look would take it back.
#[test]
fn what_a_workload_has_counts_as_room_for_it() {
    let full = World::new(weighted(), &[("a", 10), ("b", 10)], &[("a", 10)]);
    assert_eq!(after(&full, 100), Ok("a5 b5".to_owned()), "and not all of it to b, where alone room is free");
    let even = World::new(weighted(), &[("a", 5), ("b", 5)], &[("a", 5), ("b", 5)]);
    assert_eq!(after(&even, 100), Err(Stays::Near));
    let mut lopsided = World::new(weighted(), &[("a", 30), ("b", 10)], &[("a", 9), ("b", 3)]);
    assert_eq!(after(&lopsided, 100), Err(Stays::Near));
    lopsided.agents = Some(vec!["a".to_owned(), "b".to_owned()]);
    assert_eq!(after(&lopsided, 100), Err(Stays::Near));
}

#[test]
fn what_is_no_better_is_not_moved() {
    let near = World::new(weighted(), &[("a", 50), ("b", 50)], &[("a", 11), ("b", 9)]);
    assert_eq!(after(&near, 100), Err(Stays::Near), "less than a fifth");
    // Which of two alike has the odd one.
    for placed in [[("a", 2), ("b", 1)], [("a", 1), ("b", 2)]] {
        let odd = World::new(weighted(), &[("a", 6), ("b", 6)], &placed);
        assert!(matches!(after(&odd, 100), Err(Stays::Near | Stays::NoBetter)));
    }
    // One cluster is as good as another that is emptier.
    let other = World::new(aggregated(), &[("a", 6), ("b", 60)], &[("a", 5)]);
    assert_eq!(after(&other, 100), Err(Stays::NoBetter));
    let alone = World::new(weighted(), &[("a", 1), ("b", 60)], &[("a", 1)]);
    assert_eq!(after(&alone, 100), Err(Stays::Alone), "it would be away meanwhile");
}

#[test]
fn a_move_that_is_larger_than_the_budget_goes_on_step_by_step() {
    let world = World::new(weighted(), &[("a", 20), ("b", 20)], &[("a", 20)]);
    assert_eq!(goes(world.clone(), 4), ["a16 b4", "a12 b8", "a10 b10"]);
    assert_eq!(after(&world, 0), Err(Stays::NoBudget));
    // The last steps are less than a fifth, and are done all the same; then it rests.
    let mut world = World::new(weighted(), &[("a", 20), ("b", 20)], &[("a", 13), ("b", 7)]);
    world.placed = [("a".to_owned(), 15), ("b".to_owned(), 5)].into();
    assert_eq!(goes(world.clone(), 3), ["a12 b8", "a10 b10"]);
    let step = world.decide(3).unwrap();
    world.take(&step);
    assert!(matches!(world.decide(3), Err(Stays::Rests(_))), "at once it may not");
    // What changed meanwhile does not turn it round.
    world.wait(2);
    world.sites.insert("a".to_owned(), Site::of(&[90]));
    assert_eq!(after(&world, 3), Err(Stays::Near));
}

/// The larger part of a workload runs on, whatever the budget.
#[test]
fn no_more_than_half_moves_at_once() {
    let world = World::new(weighted(), &[("a", 9), ("b", 90)], &[("a", 9)]);
    assert_eq!(goes(world, 100), ["a5 b4", "a1 b8"]);
}

#[test]
fn a_cluster_that_is_not_well_neither_gives_nor_gets() {
    let world = World::new(weighted(), &[("a", 20), ("b", 20), ("c", 20)], &[("a", 12)]);
    let with = |name: &str, edit: fn(&mut Site)| {
        let mut world = world.clone();
        edit(world.sites.get_mut(name).unwrap());
        after(&world, 100)
    };
    let unwell = |name: &str| Err(Stays::Unwell(name.to_owned()));
    assert_eq!(with("b", |site| site.is_cordoned = true), Ok("a6 c6".to_owned()));
    assert_eq!(
        with("a", |site| site.is_cordoned = true),
        unwell("a"),
        "what a person cordons is left to stand"
    );
    assert_eq!(with("b", |site| site.is_ready = false), Ok("a6 c6".to_owned()), "it holds up nobody else");
    assert_eq!(with("a", |site| site.is_ready = false), unwell("a"));
    let mut fresh = world.clone();
    fresh.now = "2026-01-01T00:09:00Z".parse().unwrap();
    let never = fresh.binding(|object| object["status"]["lastScheduledTime"] = json!("2026-01-01T00:00:00Z"));
    assert_eq!(
        fresh.decide_of(&never, 9),
        Err(Stays::Near),
        "ready for nine minutes alone, none is there to go to"
    );
}

#[test]
fn without_estimates_nothing_moves() {
    let world = World::new(weighted(), &[("a", 20), ("b", 20)], &[("a", 10)]);
    let unknown = |name: &str| Err(Stays::RoomUnknown(name.to_owned()));
    let silent = |answer: &[&str]| {
        let mut world = world.clone();
        world.agents = Some(answer.iter().map(|name| (*name).to_owned()).collect());
        after(&world, 100)
    };
    assert_eq!(silent(&["a", "b"]), Ok("a5 b5".to_owned()));
    assert_eq!(silent(&["a"]), Err(Stays::Near), "nothing goes to who is silent");
    assert_eq!(silent(&["b"]), unknown("a"));
    let mut blank = world.clone();
    blank.sites.get_mut("a").unwrap().tells = false;
    assert_eq!(after(&blank, 100), unknown("a"), "its free room would count as none");
    let mut blank = World::new(weighted(), &[("a", 20), ("b", 20)], &[("a", 10)]);
    blank.sites.get_mut("b").unwrap().tells = false;
    assert_eq!(after(&blank, 100), Err(Stays::Near), "nothing would go there");
}

#[test]
fn what_is_about_to_change_or_is_held_stays() {
    let world = World::new(weighted(), &[("a", 20), ("b", 20)], &[("a", 10)]);
    let why = |edit: &dyn Fn(&mut Value)| world.decide_of(&world.binding(edit), 100).unwrap_err();
    let task = json!([{"fromCluster": "c", "reason": "r", "producer": "p"}]);
    let set = |path: &'static str, value: Value| {
        move |object: &mut Value| *object.pointer_mut(path).unwrap() = value.clone()
    };
    let spec =
        |field: &'static str, value: Value| move |object: &mut Value| object["spec"][field] = value.clone();
    let not_ready = || Stays::NotReady("a".to_owned());
    let item = "/status/aggregatedStatus/0";
    let two = json!([world.object()["status"]["aggregatedStatus"][0], {"clusterName": "c", "applied": true}]);
    for (edit, wanted) in [
        (&set("/spec/resource/kind", json!("StatefulSet")) as &dyn Fn(&mut Value), Stays::NotByRoom),
        (&spec("suspension", json!({"scheduling": true})), Stays::Held),
        (&spec("suspension", json!({"dispatching": true})), Stays::Held),
        (&spec("suspension", json!({"dispatchingOnClusters": {"clusterNames": ["b"]}})), Stays::Held),
        (&spec("gracefulEvictionTasks", task), Stays::Leaving),
        (&spec("schedulerName", json!("other")), Stays::Unscheduled),
        (&spec("replicas", json!(11)), Stays::Unscheduled),
        (&spec("rescheduleTriggeredAt", json!("2026-05-01T11:59:00Z")), Stays::Unscheduled),
        (&set("/metadata/generation", json!(2)), Stays::Unscheduled),
        (&set("/status/aggregatedStatus/0/status/readyReplicas", json!(9)), not_ready()),
        (&set("/status/aggregatedStatus/0/status/replicas", json!(12)), not_ready()),
        (&set("/status/aggregatedStatus/0/health", json!("Unhealthy")), not_ready()),
        (&set("/status/aggregatedStatus/0/applied", json!(false)), not_ready()),
        (&set("/status/aggregatedStatus", json!([])), not_ready()),
        (&set(item, json!({"clusterName": "a", "applied": true, "health": "Healthy"})), not_ready()),
        (&set("/status/aggregatedStatus", two), Stays::StillThere("c".to_owned())),
        (
            &set("/status/lastScheduledTime", json!("2026-05-01T11:59:00Z")),
            Stays::Rests(SignedDuration::from_mins(1)),
        ),
    ] {
        assert_eq!(why(edit), wanted);
    }
}

/// One cluster that is away for long does not hold up the rest of a fleet.
#[test]
fn who_is_silent_or_away_elsewhere_holds_up_no_move() {
    let mut world = World::new(weighted(), &[("a", 20), ("b", 20), ("c", 20), ("d", 20)], &[("a", 12)]);
    world.sites.get_mut("d").unwrap().is_ready = false;
    world.agents = Some(["a", "b"].map(str::to_owned).to_vec());
    assert_eq!(after(&world, 100), Ok("a6 b6".to_owned()));
    world.placed.insert("d".to_owned(), 2);
    assert_eq!(after(&world, 100), Err(Stays::Unwell("d".to_owned())));
}

/// What is preserved in a cluster that is left runs on there, beside as many elsewhere.
#[test]
fn what_is_preserved_gives_no_clusters_last_replica() {
    let preserved = |object: &mut Value| object["spec"]["preserveResourcesOnDeletion"] = json!(true);
    let left = World::new(aggregated(), &[("a", 4), ("b", 12)], &[("a", 3), ("b", 3)]);
    assert_eq!(left.decide(100).map(|step| step.moved()), Ok(3));
    let came = left.decide_of(&left.binding(preserved), 100);
    assert_eq!(came, Err(Stays::Preserved("a".to_owned())));
    let new = World::new(weighted(), &[("a", 20), ("b", 20)], &[("a", 10)]);
    let came = new.decide_of(&new.binding(preserved), 100);
    assert_eq!(came, Err(Stays::Preserved("b".to_owned())), "it might have to be taken back");
    let some_stay = World::new(weighted(), &[("a", 20), ("b", 20)], &[("a", 9), ("b", 1)]);
    assert_eq!(some_stay.decide_of(&some_stay.binding(preserved), 100).map(|step| step.moved()), Ok(4));
}

/// Returning to an earlier group is the policy's to say; within the group in which it is it may be moved.
#[test]
fn it_stays_in_its_group_of_clusters() {
    let groups = |first: &str| {
        let mut placement = weighted();
        placement["clusterAffinities"] = json!([{"affinityName": "one", "clusterNames": [first]},
            {"affinityName": "two", "clusterNames": ["b", "c"]}]);
        placement
    };
    let of = |first: &str| {
        let world = World::new(groups(first), &[("a", 20), ("b", 20), ("c", 20)], &[("b", 10)]);
        let in_two = |object: &mut Value| object["status"]["schedulerObservingAffinityName"] = json!("two");
        world.decide_of(&world.binding(in_two), 100).map(|step| step.moved())
    };
    assert_eq!(of("a"), Err(Stays::OtherGroup));
    assert_eq!(of("no such cluster"), Ok(5));
}

/// Clusters that are to overflow into others are filled first, also where that uses room less evenly.
#[test]
fn what_overflowed_goes_back_to_the_clusters_that_are_to_be_filled_first() {
    let mut placement = weighted();
    placement["clusterAffinities"] = json!([{"affinityName": "near", "clusterNames": ["a"],
        "overflowAffinities": [{"affinity": {"clusterNames": ["b"]}}]}]);
    let world = World::new(placement, &[("a", 20), ("b", 20)], &[("a", 5), ("b", 5)]);
    let near = |object: &mut Value| object["status"]["schedulerObservingAffinityName"] = json!("near");
    let came = world.decide_of(&world.binding(near), 100);
    assert_eq!(came.map(|step| step.gets), Ok([("a".to_owned(), 5)].into()));
}

/// Where a policy says over how many clusters it is spread, it is at no time in more.
#[test]
fn under_spread_constraints_clusters_are_not_swapped_by_halves() {
    let mut placement = weighted();
    placement["spreadConstraints"] = json!([{"spreadByField": "cluster", "minGroups": 2, "maxGroups": 2}]);
    let world = World::new(placement, &[("a", 6), ("b", 60), ("c", 60)], &[("a", 6), ("b", 6)]);
    let binding: ResourceBinding = world.binding(|_| {});
    let step = world.decide_of(&binding, 100).unwrap();
    assert_eq!(step.gets, [("b".to_owned(), 5)].into(), "c is not taken in, though it has room");
    let names: Vec<&str> = step.clusters.iter().map(|target| &*target.name).collect();
    assert_eq!(names, ["a", "b"]);
}

/// What goes on is only a part of what was decided, and of it a part again: at no time it is spread otherwise than its policy says.
#[test]
fn a_move_that_goes_on_keeps_to_spread_constraints() {
    let goes_on = |constraints: Value, left: i64| {
        let mut placement = weighted();
        placement["clusterAffinities"] = json!([{"affinityName": "near", "clusterNames": ["b", "c"],
            "overflowAffinities": [{"affinity": {"clusterNames": ["a"]}}]}]);
        placement["spreadConstraints"] = constraints;
        let mut world = World::new(placement, &[("a", 60), ("b", 6), ("c", 60)], &[("a", 6), ("b", 6)]);
        let note = MoveNote {
            at: world.now - SignedDuration::from_mins(3),
            left,
            from: ["a".to_owned()].into(),
            to: ["c".to_owned()].into(),
            ..MoveNote::default()
        };
        world.note = Some(serde_json::to_string(&note).unwrap());
        let near = |object: &mut Value| object["status"]["schedulerObservingAffinityName"] = json!("near");
        world.decide_of(&world.binding(near), 100).map(|step| step.moved())
    };
    let two = json!([{"spreadByField": "cluster", "minGroups": 2, "maxGroups": 2}]);
    assert_eq!(goes_on(two, 3), Err(Stays::Spread), "it would be in three");
    let three = json!([{"spreadByField": "cluster", "minGroups": 2, "maxGroups": 3}]);
    assert_eq!(goes_on(three, 3), Ok(3));
}

/// Means clusters that tell of CPU, as all here do.
struct TellsCpu;

impl ClusterExpressions for TellsCpu {
    fn score(&self, cluster: &Cluster) -> Result<i64, Fault> {
        let summary = cluster.status.resource_summary.as_ref();
        let tells = summary.is_some_and(|summary| summary.allocatable.contains_key("cpu"));
        if tells { Ok(0) } else { Err(Fault::Filtered) }
    }
}

/// What is reckoned with tells of Pods alone.
#[test]
fn expressions_are_asked_of_clusters_as_they_are() {
    let world = World::new(weighted(), &[("a", 20), ("b", 20)], &[("a", 10)]);
    let filtered = |object: &mut Value| {
        let notes = &mut object["metadata"]["annotations"];
        notes["edge.karmada.io/cluster-filter"] = json!("tells of CPU");
        notes["edge.karmada.io/applied-cluster-expressions"] =
            json!(json!({"filter": "tells of CPU", "score": ""}).to_string());
    };
    let step = world.decide_by(&world.binding(filtered), 100, Some(&TellsCpu));
    assert_eq!(step.map(|step| step.moved()), Ok(5));
}

/// What a step writes is what the scheduler lets stand.
#[test]
fn a_step_leaves_nothing_for_the_scheduler_to_do() {
    use karmada_core::scheduler::trigger::{Trigger, trigger};
    let world = World::new(weighted(), &[("a", 20), ("b", 20)], &[("a", 10)]);
    let binding = world.binding(|_| {});
    let moved = world.decide_of(&binding, 3).unwrap().applied(&binding);
    let clusters = world.clusters();
    let clusters: Vec<&Cluster> = clusters.iter().collect();
    assert_eq!(trigger(&moved, &clusters, "default-scheduler"), Trigger::UpToDate);
    assert_eq!(MoveNote::of(&moved).map(|note| note.left), Some(2));
}
