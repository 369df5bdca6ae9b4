//! Ledgers that are put back from older copies, beside a member that forgets nothing: what is in the member in the end is what the hub
//! wants, whatever was deleted, made anew or changed after the copy was taken.
//!
//! A copy is of the whole ledger (a disk put back, a Pod that moved) or of what earlier agents kept in the member (rows and position, no
//! timeline, no seal).

use proptest::prelude::*;

use karmada_agent::ledger::{HubPosition, Ledger, Row};

use crate::machines::{Hub, Site, noise, session, wanted};

/// A ledger's copy.
#[derive(Clone, Debug)]
pub(crate) struct Copy {
    position: (u64, u64),
    told: HubPosition,
    rows: Vec<Row>,
}

impl Copy {
    pub(crate) fn of(ledger: &Ledger) -> Copy {
        let copy = ledger.snapshot(&[], 1).unwrap();
        Copy {
            position: (copy.epoch, copy.cursor),
            told: copy.told,
            rows: copy.rows.into_values().flatten().collect(),
        }
    }

    pub(crate) fn back(&self, whole: bool) -> Ledger {
        let ledger = Ledger::in_memory().unwrap();
        let told = if whole { self.told.clone() } else { HubPosition::default() };
        ledger.restore(self.position, &told, &self.rows).unwrap();
        ledger
    }

    /// These rows under the position that another ledger has.
    pub(crate) fn under_position_of(&self, other: &Ledger) -> Ledger {
        Copy { rows: self.rows.clone(), ..Copy::of(other) }.back(true)
    }
}

#[derive(Debug, Clone)]
enum Step {
    Put(u8, u16),
    Delete(u8),
    Compact,
    Copy,
    PutBack { whole: bool },
    LoseLedger,
    Restart,
    Session(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..4u8, 0..500u16).prop_map(|(key, len)| Step::Put(key, len)),
        3 => (0..4u8).prop_map(Step::Delete),
        1 => Just(Step::Compact),
        2 => Just(Step::Copy),
        2 => any::<bool>().prop_map(|whole| Step::PutBack { whole }),
        1 => Just(Step::LoseLedger),
        1 => Just(Step::Restart),
        2 => (0..20u8).prop_map(Step::Session),
        3 => Just(Step::Session(u8::MAX)),
    ]
}

fn run(steps: Vec<Step>) -> (Hub, Site) {
    let (mut hub, mut site) = (Hub { epoch: 7, ..Hub::default() }, Site::new());
    let mut copy = None;
    // An older ledger places in the member what it still desires. Lost again before the hub could say what of that is gone, nothing but the
    // member itself would know of it: here it is told first.
    let mut is_told = true;
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
            Step::Copy => copy = Some(Copy::of(&site.ledger)),
            Step::PutBack { whole } if is_told => {
                if let Some(copy) = &copy {
                    site.starts_over(copy.back(whole));
                    is_told = false;
                }
            }
            Step::LoseLedger if is_told => site.starts_over(Ledger::in_memory().unwrap()),
            Step::PutBack { .. } | Step::LoseLedger => {}
            Step::Restart => hub.starts.push((hub.starts.len() as u64 + 2, hub.revision)),
            Step::Session(u8::MAX) => {
                session(&mut hub, &mut site, usize::MAX);
                is_told = true;
            }
            Step::Session(cut) => {
                session(&mut hub, &mut site, cut.into());
            }
        }
    }
    session(&mut hub, &mut site, usize::MAX);
    (hub, site)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    /// What the hub finalised after the copy was taken, and forgot since, it cannot name: that is told as an orphan, by its name, when all is
    /// listed, and is never removed unasked.
    #[test]
    fn the_member_has_what_the_hub_wants_whichever_copy_the_ledger_is(steps in prop::collection::vec(step(), 1..40)) {
        let (hub, site) = run(steps);
        prop_assert!(hub.works.values().all(|work| !work.deleting), "a deletion never ends");
        let is_orphan = |key: &String| hub.orphans.contains(key) && !hub.works.contains_key(key);
        let mut bodies = site.bodies();
        bodies.retain(|key, _| !is_orphan(key));
        prop_assert_eq!(bodies, wanted(&hub), "the ledger");
        let there: Vec<_> = site.member.iter().filter(|(key, _)| !is_orphan(key)).collect();
        prop_assert_eq!(there.len(), hub.works.len(), "the member");
        for (key, (uid, body)) in there {
            prop_assert_eq!(uid.as_str(), &*hub.works[key].uid);
            prop_assert_eq!(body, &site.bodies()[key].1);
        }
    }
}
