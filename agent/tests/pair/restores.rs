//! A hub whose file is copied back while sites are listed what the copy held: until a listing is complete, a site tells of the life
//! whose Works it holds, so that the deletes of the next one wait for a person as well.

use std::collections::{BTreeMap, BTreeSet};

use karmada_agent::session::Phase;
use karmada_gateway::ports::Work;
use proptest::prelude::*;

use crate::machines::{Hold, Hub, Site, noise, session, wanted};

/// A site that holds what the hub said until it was copied back, to a copy that was taken while the same start ran.
fn restored() -> (Hub, Site, (u64, BTreeMap<String, Work>)) {
    let (mut hub, mut site) = (Hub { epoch: 7, ..Hub::default() }, Site::new());
    hub.put("a", "one");
    session(&mut hub, &mut site, usize::MAX);
    let copy = hub.backup();
    for key in ["a", "b", "c"] {
        hub.put(key, &noise(300));
    }
    assert!(!session(&mut hub, &mut site, usize::MAX).another_life, "nothing was copied back");
    (hub, site, copy)
}

#[test]
fn a_site_tells_of_the_life_that_it_saw_until_a_listing_is_complete() {
    let mut begun_anew = 0;
    for budget in 0..12 {
        let (mut hub, mut site, copy) = restored();
        hub.restore(copy.clone(), 7);
        for key in ["d", "e"] {
            hub.put(key, &noise(300));
        }
        assert!(session(&mut hub, &mut site, budget).another_life, "{budget}");
        let is_complete = site.ledger.timeline().unwrap() == 7;
        begun_anew += usize::from(site.ledger.position().unwrap().1 == 0);
        assert_eq!(session(&mut hub, &mut site, 0).another_life, !is_complete, "{budget}: the link broke");
        hub.restore(copy, 8);
        assert!(session(&mut hub, &mut site, usize::MAX).another_life, "{budget}: copied back once more");
        assert!(!session(&mut hub, &mut site, usize::MAX).another_life, "{budget}: it is listed everything");
    }
    assert!(begun_anew > 0, "some listings are cut half-way");
}

#[derive(Debug, Clone)]
enum Step {
    Put(u8, u16),
    Delete(u8),
    Compact,
    Copy,
    PutBack,
    Restart,
    Confirm,
    Session(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..4u8, 0..300u16).prop_map(|(key, len)| Step::Put(key, len)),
        3 => (0..4u8).prop_map(Step::Delete),
        1 => Just(Step::Compact),
        1 => Just(Step::Copy),
        2 => Just(Step::PutBack),
        1 => Just(Step::Restart),
        2 => Just(Step::Confirm),
        2 => (0..12u8).prop_map(Step::Session),
        3 => Just(Step::Session(u8::MAX)),
    ]
}

/// The hub's file at one moment.
struct Copy {
    works: (u64, BTreeMap<String, Work>),
    starts: Vec<(u64, u64)>,
    hold: Hold,
    orphans: BTreeSet<String>,
}

impl Copy {
    fn of(hub: &Hub) -> Self {
        let (works, starts, hold) = (hub.backup(), hub.starts.clone(), hub.hold.clone());
        Copy { works, starts, hold, orphans: hub.orphans.clone() }
    }

    fn back(&self, hub: &mut Hub, start: u64) {
        (hub.starts, hub.hold, hub.orphans) = (self.starts.clone(), self.hold.clone(), self.orphans.clone());
        hub.restore(self.works.clone(), start);
    }
}

/// One session, in which nothing goes from the member that a person has not let go.
fn session_that_holds(hub: &mut Hub, site: &mut Site, budget: usize) {
    let before: BTreeSet<String> = site.member.keys().cloned().collect();
    session(hub, site, budget);
    if hub.hold.since.is_some() && !hub.hold.is_confirmed {
        let gone: Vec<_> = before.iter().filter(|key| !site.member.contains_key(*key)).collect();
        assert!(gone.is_empty(), "{gone:?} without a person's word");
    }
}

fn run(steps: Vec<Step>) -> (Hub, Site) {
    let (mut hub, mut site) = (Hub { epoch: 7, revision: 1, holds: true, ..Hub::default() }, Site::new());
    let (mut copy, mut starts) = (Copy::of(&hub), 1);
    for step in steps {
        match step {
            Step::Put(key, len) => {
                let key = format!("k{key}");
                if !hub.works.get(&key).is_some_and(|work| work.deleting) {
                    hub.put(&key, &noise(len.into()));
                }
            }
            Step::Delete(key) => hub.delete(&format!("k{key}")),
            Step::Compact => hub.compact(),
            Step::Copy => copy = Copy::of(&hub),
            Step::PutBack => {
                starts += 1;
                copy.back(&mut hub, starts);
            }
            Step::Restart => {
                starts += 1;
                hub.starts.push((starts, hub.revision));
            }
            Step::Confirm => hub.hold.confirm(),
            Step::Session(u8::MAX) => session_that_holds(&mut hub, &mut site, usize::MAX),
            Step::Session(cut) => session_that_holds(&mut hub, &mut site, cut.into()),
        }
    }
    // A person confirms what he is told of, whenever that is.
    for _ in 0..3 {
        session_that_holds(&mut hub, &mut site, usize::MAX);
        hub.hold.confirm();
    }
    session(&mut hub, &mut site, usize::MAX);
    (hub, site)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    /// Whenever the hub is copied back, the link is cut and the word comes: what was withheld goes out in the end, and nothing before.
    #[test]
    fn what_was_withheld_goes_out_once_a_person_lets_it(steps in prop::collection::vec(step(), 1..40)) {
        let (hub, site) = run(steps);
        prop_assert!(hub.works.values().all(|work| !work.deleting), "a deletion never ends");
        prop_assert!(hub.hold.since.is_none(), "a hold never ends: {:?}", hub.hold);
        // Absence never deletes: what only a life that was taken back had is an orphan, and is told as one.
        let is_orphan = |key: &String| !hub.works.contains_key(key) && hub.orphans.contains(key);
        let mut bodies = site.bodies();
        bodies.retain(|key, (phase, _)| !(is_orphan(key) && *phase == Phase::Desired));
        prop_assert_eq!(bodies, wanted(&hub));
    }
}
