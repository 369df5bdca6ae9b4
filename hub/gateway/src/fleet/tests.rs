//! The fleet's state by tables: what happens to a cluster, how its link stands then, and who is woken.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::ports::Batch;

fn at(seconds: i64) -> Moment {
    let elapsed = Duration::from_secs(seconds.unsigned_abs());
    Moment { wall: Timestamp::from_second(seconds).unwrap(), elapsed }
}

fn new(seq: u64) -> Newcomer<u64> {
    Newcomer {
        seq,
        boot_id: format!("b{seq}"),
        agent_version: "1.0".into(),
        certificate_ends: Timestamp::from_second(9000).unwrap(),
        transport: "memory",
        address: None,
        epoch: 1,
        clock_offset_ms: -20,
        handle: seq,
    }
}

fn fleet() -> Fleet<u64> {
    Fleet::new(at(0).wall, SignedDuration::from_secs(40))
}

#[derive(Debug, Clone, Copy)]
enum Happens {
    Enters(u64),
    Stands(u64),
    IsLate(u64),
    Leaves(u64),
    Renews(u64),
    Joins,
    Goes,
}

fn happens(fleet: &mut Fleet<u64>, what: Happens, now: i64) -> Vec<Wake> {
    match what {
        Happens::Enters(seq) => drop(fleet.enter("north", new(seq), at(now))),
        Happens::Stands(seq) => return fleet.stands("north", seq, false, at(now).wall),
        Happens::IsLate(seq) => return fleet.stands("north", seq, true, at(now).wall),
        Happens::Leaves(seq) => return fleet.leave("north", seq, at(now).wall).unwrap_or_default(),
        Happens::Renews(seq) => return fleet.renewed("north", seq, at(now + 500).wall),
        Happens::Joins => return fleet.joined("north", at(now).wall),
        Happens::Goes => fleet.forget("north"),
    }
    Vec::new()
}

/// When, what, how the link stands then, when the agent was heard, who is woken.
type Row = (i64, Happens, LinkState, Option<i64>, &'static [Wake]);

#[test]
fn how_a_link_stands_and_who_is_woken() {
    use Happens::*;
    use LinkState::*;
    use Wake::*;
    let mut fleet = fleet();
    let heard =
        |fleet: &mut Fleet<u64>, now| fleet.heard("north", at(now).wall).last.map(Timestamp::as_second);
    assert_eq!((fleet.link("north", at(5)).state, heard(&mut fleet, 5)), (Offline, None));
    assert_eq!(fleet.link("north", at(5)).lost_at, Some(at(40).wall));
    let lost = fleet.link("north", at(40));
    assert_eq!((lost.state, lost.lost_at), (Lost, None), "nobody came since the hub listens");
    let rows: &[Row] = &[
        (10, Enters(1), Offline, None, &[]),
        (10, Stands(1), Connected, Some(10), &[Contact, Agent, ResourceModels, Link]),
        (20, IsLate(1), Late, Some(20), &[Link]),
        (30, Stands(1), Connected, Some(30), &[Link]),
        (40, IsLate(1), Late, Some(40), &[Link]),
        (60, Leaves(1), Offline, Some(40), &[Contact, Link]),
        (61, Leaves(1), Offline, Some(40), &[]),
        (61, Stands(1), Offline, Some(40), &[]),
        (70, Enters(2), Offline, Some(40), &[]),
        (70, Leaves(2), Offline, Some(40), &[Link]),
        (80, Enters(3), Lost, Some(40), &[]),
        (80, Stands(3), Connected, Some(80), &[Contact, Agent, ResourceModels, Link]),
        (90, Enters(4), Connected, Some(90), &[]),
        (90, Stands(3), Connected, Some(90), &[]),
        (90, Leaves(3), Connected, Some(90), &[]),
        (91, Stands(4), Connected, Some(91), &[Agent, ResourceModels, Link]),
        (92, Renews(3), Connected, Some(92), &[]),
        (92, Renews(4), Connected, Some(92), &[Agent, Link]),
        (93, Enters(3), Connected, Some(93), &[]),
        (94, Enters(5), Connected, Some(94), &[]),
        (95, Leaves(5), Offline, Some(95), &[Contact, Link]),
        (134, Joins, Offline, None, &[Contact, Link]),
        (135, Enters(6), Offline, None, &[]),
        (135, Stands(6), Connected, Some(135), &[Contact, Agent, ResourceModels, Link]),
        (140, Goes, Connected, Some(140), &[]),
        (141, Leaves(6), Lost, None, &[Contact, Link]),
    ];
    for (now, what, state, last, wakes) in rows {
        let woken = happens(&mut fleet, *what, *now);
        let stands = (fleet.link("north", at(*now)).state, heard(&mut fleet, *now));
        assert_eq!((stands, &woken[..]), ((*state, *last), *wakes), "{now}: {what:?}");
    }
    assert!(fleet.links.is_empty(), "nothing is kept of it");
}

#[test]
fn a_link_tells_all_that_a_person_asks() {
    let mut fleet = fleet();
    fleet.enter("north", new(7), at(100));
    fleet.stands("north", 7, false, at(100).wall);
    let progress = Progress {
        heard: Duration::from_secs(130),
        dead_at: Duration::from_secs(160),
        acked: 12,
        backlog: 3,
        received: 400,
        sent: 5000,
        round_trip: Some(Duration::from_millis(80)),
    };
    assert!(fleet.progressed("north", 7, progress) && !fleet.progressed("north", 7, progress));
    assert!(!fleet.progressed("north", 6, Progress::default()), "a session that was replaced");
    let hold = HoldView { batch: Batch { epoch: 4, revision: 7, timeline: 1 }, deletes: 9 };
    assert_eq!((fleet.held("north", hold), fleet.held("north", hold)), (vec![Wake::Link], vec![]));
    let link = fleet.link("north", at(142));
    assert_eq!(
        (link.state, link.since, link.last_frame),
        (LinkState::Connected, Some(at(100).wall), Some(at(130).wall))
    );
    assert_eq!(
        (link.hold, link.certificate_ends),
        (
            Some(HoldView { batch: Batch { epoch: 4, revision: 7, timeline: 1 }, deletes: 9 }),
            Some(at(9000).wall)
        )
    );
    let session = link.session.unwrap();
    assert_eq!((session.seq, &*session.boot_id, session.clock_offset_ms), (7, "b7", -20));
    assert_eq!(
        (session.silent, session.since, session.progress),
        (Duration::from_secs(12), at(100).wall, progress)
    );
    assert!(fleet.dead(Duration::from_secs(165), Duration::from_secs(5)).is_empty());
    assert_eq!(fleet.dead(Duration::from_secs(166), Duration::from_secs(5)), [7]);
    fleet.renewed("north", 7, at(20_000).wall);
    assert!(fleet.confirmed("north", Batch { epoch: 4, revision: 6, timeline: 1 }).is_empty());
    assert!(fleet.link("north", at(150)).hold.is_some(), "a word for an earlier batch");
    assert_eq!(fleet.confirmed("north", Batch { epoch: 4, revision: 7, timeline: 1 }), [Wake::Link]);
    fleet.leave("north", 7, at(160).wall);
    let away = fleet.link("north", at(170));
    assert_eq!((away.last_frame, away.hold, away.session), (Some(at(160).wall), None, None));
    assert_eq!(away.certificate_ends, Some(at(20_000).wall), "also while it is away");
    fleet.enter("north", new(8), at(180));
    assert_eq!(
        fleet.link("north", at(180)).certificate_ends,
        Some(at(9000).wall),
        "it came with the older one"
    );
}

#[test]
fn a_late_session_leaves_the_newer_one_in_peace() {
    let mut fleet = fleet();
    assert_eq!(fleet.enter("a", new(1), at(1)), Entry::Entered(None));
    assert_eq!(fleet.enter("a", new(2), at(1)), Entry::Entered(Some(1)));
    assert_eq!(fleet.leave("a", 1, at(2).wall), None, "the old session's clean-up comes late");
    assert_eq!((fleet.handle("a"), fleet.sessions()), (Some(2), 1));
    for older in [2, 1] {
        assert_eq!(fleet.enter("a", new(older), at(3)), Entry::Late, "an older number never enters");
    }
    assert!(fleet.leave("a", 2, at(4).wall).is_some());
    assert_eq!((fleet.handles(), fleet.sessions()), (Vec::new(), 0));
}

#[test]
fn what_an_agent_reported_is_known_as_long_as_its_session_is_there() {
    let mut fleet = fleet();
    let (told, right) = (json!({"kubernetesVersion": "v1"}), json!({"status": {"kubernetesVersion": "v1"}}));
    fleet.exists("north");
    fleet.wrote("north", &told, &right);
    assert_eq!(
        fleet.verdict("north", &json!({}), at(9).wall),
        StatusVerdict::Right,
        "a write that came late"
    );
    fleet.enter("north", new(1), at(10));
    fleet.wrote("north", &told, &right);
    assert_eq!(fleet.verdict("north", &right, at(10).wall), StatusVerdict::Right);
    assert!(matches!(fleet.verdict("north", &json!({}), at(10).wall), StatusVerdict::Wait(_)));
    assert_eq!(fleet.verdict("north", &json!({}), at(11).wall), StatusVerdict::Ask);
    fleet.leave("north", 1, at(12).wall);
    assert_eq!(
        fleet.verdict("north", &json!({}), at(99).wall),
        StatusVerdict::Right,
        "nobody is there to be asked"
    );
}

fn anything() -> impl Strategy<Value = Happens> {
    let seq = 1..6_u64;
    prop_oneof![
        3 => seq.clone().prop_map(Happens::Enters),
        3 => seq.clone().prop_map(Happens::Stands),
        2 => seq.clone().prop_map(Happens::IsLate),
        3 => seq.clone().prop_map(Happens::Leaves),
        1 => seq.prop_map(Happens::Renews),
        1 => Just(Happens::Joins),
        1 => Just(Happens::Goes),
    ]
}

proptest! {
    /// Whatever happens in whatever order: contact is there only with a session, ends are told to whoever judges, and a cluster that is
    /// gone and has no session is forgotten.
    #[test]
    fn contact_and_sessions_agree(all in prop::collection::vec(anything(), 0..60)) {
        let mut fleet = fleet();
        let (mut had_contact, mut gone) = (false, true);
        for (now, what) in (1..).zip(all) {
            let woken = happens(&mut fleet, what, now);
            let has_contact = fleet.has_contact("north");
            prop_assert!(!has_contact || fleet.handle("north").is_some(), "{:?}", what);
            let changed = has_contact != had_contact;
            let is_told = woken.contains(&Wake::Contact) || matches!(what, Happens::Goes);
            prop_assert!(!changed || is_told, "{:?}: {} to {}", what, had_contact, has_contact);
            had_contact = has_contact;
            match what {
                Happens::Goes => gone = true,
                Happens::Enters(_) | Happens::Joins => gone = false,
                _ => {}
            }
            prop_assert!(!gone || fleet.links.is_empty() || fleet.handle("north").is_some());
        }
    }
}

#[test]
fn a_clock_that_was_ahead_keeps_nobody_from_being_silent_nor_heard() {
    let mut fleet = Fleet::new(at(9_000).wall, SignedDuration::from_secs(40));
    fleet.joined("north", at(9_000).wall);
    fleet.enter("south", new(1), at(9_000));
    fleet.stands("south", 1, false, at(9_000).wall);
    fleet.leave("south", 1, at(9_000).wall);
    // The clock is right again.
    let north = fleet.heard("north", at(101).wall);
    assert_eq!((north.last, north.listening_since), (None, at(101).wall));
    for now in [102, 500] {
        assert_eq!(fleet.heard("south", at(now).wall).last, Some(at(102).wall), "from the first look on");
    }
}
