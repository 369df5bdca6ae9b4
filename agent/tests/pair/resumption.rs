//! Sessions that go on where the one before was cut, over restarts, restored hubs and forks of history.

use karmada_agent::session::{self as agent, Phase};
use proptest::prelude::*;

use super::machines::*;

#[test]
fn a_session_resumes_where_it_was_and_sends_nothing_twice() {
    let (mut hub, mut site) = (Hub { epoch: 7, ..Hub::default() }, Site::new());
    for at in 0..50 {
        hub.put(&format!("w{at}"), &noise(300));
    }
    assert_eq!(session(&mut hub, &mut site, usize::MAX).bodies, 50);
    assert_eq!(site.bodies(), wanted(&hub));
    assert_eq!(session(&mut hub, &mut site, usize::MAX).bodies, 0);
    hub.put("w3", "new");
    let passed = session(&mut hub, &mut site, usize::MAX);
    assert_eq!((passed.bodies, passed.offers), (1, 0));
    assert_eq!(site.bodies(), wanted(&hub));
}

#[test]
fn what_no_history_tells_is_found_by_digests() {
    let (mut hub, mut site) = (Hub { epoch: 7, ..Hub::default() }, Site::new());
    for at in 0..50 {
        hub.put(&format!("w{at}"), &noise(5000));
    }
    let first = session(&mut hub, &mut site, usize::MAX);
    hub.put("w7", "changed while away");
    hub.compact();
    hub.put("w8", "changed after");
    hub.compact();
    let again = session(&mut hub, &mut site, usize::MAX);
    assert_eq!((again.offers, again.bodies), (0, 2), "what differs and nothing else");
    assert!(again.bytes * 20 < first.bytes, "{} and {}", again.bytes, first.bytes);
    assert_eq!(site.bodies(), wanted(&hub));
}

#[test]
fn a_restored_hub_removes_nothing_and_its_agents_come_along() {
    let (mut hub, mut site) = (Hub { epoch: 7, ..Hub::default() }, Site::new());
    hub.put("old", "1");
    hub.put("edited", "1");
    let backup = (hub.revision, hub.works.clone());
    hub.put("new", "1");
    hub.put("edited", "2");
    session(&mut hub, &mut site, usize::MAX);
    hub.restore(backup, 2);
    session(&mut hub, &mut site, usize::MAX);
    assert_eq!(hub.epoch, 7, "the start is another, and the epoch the same");
    let bodies = site.bodies();
    assert_eq!(bodies["edited"], wanted(&hub)["edited"]);
    assert_eq!(bodies["new"].0, Phase::Desired, "absence never deletes");
}

/// What a site enforces and the hub knows nothing of is enforced until somebody decides, whatever revision it has, and then gone.
#[test]
fn an_orphan_is_let_go_of_by_a_persons_word() {
    let (mut hub, mut site) = (Hub { epoch: 7, ..Hub::default() }, Site::new());
    hub.put("stays", "1");
    let backup = (hub.revision, hub.works.clone());
    for at in 0..9 {
        hub.put("lost", &at.to_string());
    }
    hub.put("asked", "1");
    session(&mut hub, &mut site, usize::MAX);
    hub.restore(backup, 2);
    session(&mut hub, &mut site, usize::MAX);
    assert_eq!(hub.orphans, ["asked", "lost"].map(str::to_owned).into());
    hub.decided = vec![("lost".into(), false)];
    // A listing, in which they are named again.
    hub.put("stays", "2");
    hub.compact();
    session(&mut hub, &mut site, usize::MAX);
    let bodies = site.bodies();
    assert_eq!(bodies.keys().collect::<Vec<_>>(), ["asked", "stays"], "it is forgotten when it is gone");
    assert_eq!(bodies["asked"].0, Phase::Desired, "of this one nobody said anything");
    assert!(!site.member.contains_key("lost") && site.member.contains_key("asked"));
    hub.put("lost", "anew");
    session(&mut hub, &mut site, usize::MAX);
    assert_eq!(site.bodies()["lost"], wanted(&hub)["lost"], "and its name is free");
}

/// The hub's file is copied at revision N; the hub goes on to N+3, and the site with it. The copy is put back, and goes on past
/// N+3 with other content before the site comes back.
#[test]
fn nobody_resumes_across_a_fork_of_history() {
    let (mut hub, mut site) = (Hub { epoch: 7, ..Hub::default() }, Site::new());
    hub.put("a", "1");
    let backup = (hub.revision, hub.works.clone());
    for text in ["2", "3", "of the life that was taken back"] {
        hub.put("a", text);
    }
    session(&mut hub, &mut site, usize::MAX);
    hub.restore(backup, 2);
    hub.put("a", "of the life that counts");
    for at in 0..10 {
        hub.put(&format!("b{at}"), "1");
    }
    session(&mut hub, &mut site, usize::MAX);
    assert_eq!(site.bodies(), wanted(&hub));
    assert_eq!(site.ledger.position().unwrap(), (7, hub.revision));
    // The same with the site's revisions far ahead of the hub's.
    let backup = (hub.revision, hub.works.clone());
    for at in 0..50 {
        hub.put("a", &at.to_string());
    }
    session(&mut hub, &mut site, usize::MAX);
    hub.restore(backup, 3);
    hub.put("a", "newest");
    hub.delete("b0");
    session(&mut hub, &mut site, usize::MAX);
    assert_eq!(site.bodies(), wanted(&hub), "what is newer here has a lower revision there");
    assert_eq!(session(&mut hub, &mut site, usize::MAX).offers, 0, "and then it resumes");
}

#[test]
fn a_proved_epoch_that_the_hub_does_not_know_is_a_restore_and_a_number_alone_is_none() {
    let (mut hub, mut site) = (Hub { epoch: 9, ..Hub::default() }, Site::new());
    hub.put("a", "1");
    session(&mut hub, &mut site, usize::MAX);
    hub.epoch = 7;
    session(&mut hub, &mut site, usize::MAX);
    assert_eq!((hub.epoch, site.ledger.position().unwrap().0), (10, 10));
    for number in [50, u64::MAX >> 1] {
        site.ledger.commit(&[agent::Change::Epoch(number)]).unwrap();
        hub.put("a", &number.to_string());
        session(&mut hub, &mut site, usize::MAX);
        assert_eq!((hub.epoch, site.ledger.position().unwrap().0), (10, 10), "the site comes along instead");
        assert_eq!(site.bodies(), wanted(&hub));
    }
}

#[test]
fn a_large_body_goes_on_where_the_link_was_cut() {
    let (mut hub, mut site) = (Hub { epoch: 7, ..Hub::default() }, Site::new());
    session(&mut hub, &mut site, usize::MAX);
    hub.put("big", &noise(2_000_000));
    let whole = session(
        &mut Hub { epoch: 7, revision: hub.revision, works: hub.works.clone(), ..Hub::default() },
        &mut Site::new(),
        usize::MAX,
    );
    let before = session(&mut hub, &mut site, 10);
    assert!(site.bodies().is_empty());
    let after = session(&mut hub, &mut site, usize::MAX);
    assert_eq!(site.bodies(), wanted(&hub));
    assert!(
        before.bytes + after.bytes < whole.bytes + 100_000,
        "{} + {}, {}",
        before.bytes,
        after.bytes,
        whole.bytes
    );
}

#[test]
fn a_deletion_is_carried_out_confirmed_and_forgotten() {
    let (mut hub, mut site) = (Hub { epoch: 7, ..Hub::default() }, Site::new());
    hub.put("a", "1");
    session(&mut hub, &mut site, usize::MAX);
    hub.delete("a");
    session(&mut hub, &mut site, usize::MAX);
    assert!(hub.works.is_empty() && site.bodies().is_empty());
    hub.put("a", "2");
    session(&mut hub, &mut site, usize::MAX);
    assert_eq!(site.bodies(), wanted(&hub));
}

#[derive(Debug, Clone)]
enum Step {
    Put(u8, u16),
    Delete(u8),
    Compact,
    LoseLedger,
    Restart,
    Session(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..6u8, 0..2000u16).prop_map(|(key, len)| Step::Put(key, len)),
        2 => (0..6u8).prop_map(Step::Delete),
        1 => Just(Step::Compact),
        1 => Just(Step::LoseLedger),
        1 => Just(Step::Restart),
        4 => any::<u8>().prop_map(Step::Session),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    /// Whatever happens and wherever the link is cut: after one session to quiet, the site holds what the hub
    /// wants, and nothing that is being deleted is left on the hub.
    #[test]
    fn both_ends_agree_in_the_end(steps in prop::collection::vec(step(), 1..30)) {
        let (mut hub, mut site) = (Hub { epoch: 7, ..Hub::default() }, Site::new());
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
                Step::LoseLedger => site = Site::new(),
                Step::Restart => hub.starts.push((hub.starts.len() as u64 + 2, hub.revision)),
                Step::Session(cut) => {
                    session(&mut hub, &mut site, usize::from(cut) % 20);
                }
            }
        }
        session(&mut hub, &mut site, usize::MAX);
        prop_assert!(hub.works.values().all(|work| !work.deleting));
        prop_assert_eq!(site.bodies(), wanted(&hub));
    }
}
