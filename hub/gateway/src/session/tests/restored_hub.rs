//! A hub that was restored, and the epoch before: what is held back from a site, until when, and what nobody believes of it.

use super::*;

/// The hub was restored: its body of a Work may be older than the one that the site has. Once the site has it, what comes is newer.
#[test]
fn a_body_that_is_listed_while_deletes_are_held_takes_nothing_away() {
    for (passed, keeps) in [(0, true), (SessionHold::ALL, false)] {
        let credit = Some(plenty());
        let hello = Hello { objects: 2, credit, boot_id: "b".into(), ..Hello::default() };
        let opening = Opening { restore_hold: holding(passed), ..opening(None) };
        let mut session = Session::open(hello, &opening, &Options::default(), Duration::ZERO);
        let told = |session: &mut Session| {
            let bodies = frames(session).into_iter().filter_map(|frame| match frame.body {
                Some(hub_frame::Body::Upsert(u)) if !u.offer => Some((u.key, u.keep_former)),
                _ => None,
            });
            bodies.collect::<Vec<_>>()
        };
        for key in ["a", "b"] {
            session.work(upsert(key, 3, "of the backup"));
        }
        session.work(WorkEvent::Synced { revision: 9 });
        assert_eq!(told(&mut session), [], "offered");
        for key in ["a", "b"] {
            say(&mut session, agent_frame::Body::Want(Want { key: key.into(), hash: Bytes::new() }), secs(1));
        }
        assert_eq!(told(&mut session), [("a".into(), keeps), ("b".into(), keeps)]);
        session.work(upsert("a", 10, "of a person"));
        assert_eq!(told(&mut session), [("a".into(), keeps)], "whoever wrote it saw the backup's");
        say(&mut session, agent_frame::Body::Ack(Ack { epoch: 7, cursor: 10 }), secs(1));
        session.work(upsert("a", 11, "of the same person"));
        session.work(upsert("b", 12, "likewise"));
        assert_eq!(told(&mut session), [("a".into(), false), ("b".into(), false)]);
    }
}

#[test]
fn a_delete_that_is_held_is_not_let_go_by_what_changes_it() {
    let hello = Hello { objects: 2, credit: Some(plenty()), boot_id: "b".into(), ..Hello::default() };
    let opening = Opening { restore_hold: holding(0), ..opening(None) };
    let mut session = Session::open(hello, &opening, &Options::default(), Duration::ZERO);
    session.work(deleting("a", 3));
    session.work(WorkEvent::Synced { revision: 9 });
    assert_eq!(sent(&mut session), ["welcome", "start", "end@9"]);
    session.work(deleting("a", 10));
    session.work(deleting("b", 11));
    assert_eq!(sent(&mut session), ["deleted b@11"], "b was deleted since");
    say(&mut session, agent_frame::Body::Ack(Ack { epoch: 7, cursor: 11 }), secs(1));
    let batch = Batch { epoch: 7, revision: 9, timeline: 2 };
    let effects: Vec<_> = std::iter::from_fn(|| session.next_effect()).collect();
    assert!(effects.contains(&Effect::DeletesHeld(batch, 1)), "{effects:?}");
    assert_eq!(session.next_report(secs(1)), None, "the hold goes on");
    session.work(WorkEvent::Deleted { key: "a".into(), uid: "u-a".into(), revision: 12, preserve: false });
    assert_eq!(sent(&mut session), [""; 0], "what the site has of it is an orphan");
}

/// The site had the deletion before the hub was restored: it removes the Work, held or not, and is then told to forget it.
#[test]
fn what_the_site_removed_itself_is_not_held_from_it() {
    let hello = Hello { objects: 2, credit: Some(plenty()), boot_id: "b".into(), ..Hello::default() };
    let opening = Opening { restore_hold: holding(0), ..opening(None) };
    let mut session = Session::open(hello, &opening, &Options::default(), Duration::ZERO);
    session.work(deleting("a", 3));
    session.work(WorkEvent::Synced { revision: 9 });
    assert_eq!(sent(&mut session), ["welcome", "start", "end@9"]);
    let (key, uid) = ("a".to_owned(), "u-a".to_owned());
    let removed = v1::Removed { key, uid, revision: 3, held: true, ..v1::Removed::default() };
    say(&mut session, agent_frame::Body::Removed(removed), secs(1));
    assert!(matches!(session.next_report(secs(1)), Some(Report::Finalize { .. })));
    session.work(WorkEvent::Deleted { key: "a".into(), uid: "u-a".into(), revision: 12, preserve: false });
    assert_eq!(sent(&mut session), ["released a@12"]);
    // Nothing waits any more. The listing said that something does, so that the site has written no cursor: it is listed once more.
    say(&mut session, agent_frame::Body::Ack(Ack { epoch: 7, cursor: 12 }), secs(1));
    assert!(matches!(session.next_report(secs(1)), Some(Report::HoldEnds(_))));
    session.tick(session.deadline());
    let effects: Vec<_> = std::iter::from_fn(|| session.next_effect()).collect();
    assert_eq!(effects.iter().filter(|effect| **effect == Effect::Relist).count(), 1, "{effects:?}");
    session.listing_starts();
    session.work(WorkEvent::Synced { revision: 12 });
    let told = frames(&mut session);
    let ends =
        |frame: &HubFrame| matches!(&frame.body, Some(hub_frame::Body::SnapshotEnd(end)) if !end.withheld);
    assert!(told.iter().any(ends), "{told:?}");
}

#[test]
fn a_hold_of_nothing_ends_when_the_site_has_the_listing() {
    let hello = Hello { objects: 2, credit: Some(plenty()), boot_id: "b".into(), ..Hello::default() };
    let opening = Opening { restore_hold: holding(0), ..opening(None) };
    let mut session = Session::open(hello, &opening, &Options::default(), Duration::ZERO);
    session.work(upsert("a", 3, "1"));
    session.work(WorkEvent::Synced { revision: 9 });
    sent(&mut session);
    say(&mut session, agent_frame::Body::Ack(Ack { epoch: 7, cursor: 8 }), secs(1));
    assert_eq!(session.next_report(secs(1)), None);
    say(&mut session, agent_frame::Body::Ack(Ack { epoch: 7, cursor: 9 }), secs(1));
    let ends = Report::HoldEnds(Batch { epoch: 7, revision: 4, timeline: 1 });
    assert_eq!(session.next_report(secs(1)), Some(ends));
}

/// A frame of the epoch before that was on its way, or an agent that lies.
#[test]
fn an_ack_of_another_epoch_acknowledges_nothing() {
    let hello = Hello { objects: 2, credit: Some(plenty()), boot_id: "b".into(), ..Hello::default() };
    let opening = Opening { restore_hold: holding(0), ..opening(None) };
    let mut session = Session::open(hello, &opening, &Options::default(), Duration::ZERO);
    session.work(upsert("a", 3, "1"));
    session.work(WorkEvent::Synced { revision: 9 });
    sent(&mut session);
    for epoch in [6, 8] {
        say(&mut session, agent_frame::Body::Ack(Ack { epoch, cursor: 9 }), secs(1));
    }
    assert_eq!(session.next_report(secs(1)), None, "what is held goes on");
    let effects: Vec<_> = std::iter::from_fn(|| session.next_effect()).collect();
    assert!(!effects.contains(&Effect::Persisted(9)), "{effects:?}");
}

/// The revisions that the agent knows are of another history: it is to count anew. Where they are not, they go on.
#[test]
fn differences_from_another_history_are_told_anew() {
    for of_our_history in [false, true] {
        let features = vec![karmada_proto::DIGESTS.to_owned()];
        let digest_seed = Bytes::from_static(&[5; 16]);
        let hello = Hello { objects: 2, features, digest_seed, credit: Some(plenty()), ..Hello::default() };
        let opening = Opening { of_our_history, ..opening(None) };
        let mut session = Session::open(hello, &opening, &Options::default(), Duration::ZERO);
        session.work(upsert("a", 3, "1"));
        session.work(WorkEvent::Synced { revision: 9 });
        let starts = frames(&mut session).into_iter().find_map(|frame| match frame.body {
            Some(hub_frame::Body::SnapshotStart(start)) => Some((start.differences, start.anew)),
            _ => None,
        });
        assert_eq!(starts, Some((true, !of_our_history)));
    }
}
