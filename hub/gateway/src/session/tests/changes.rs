//! Changes of bodies: when they are told by what differs from what the agent holds, and what sessions share of packing them.

use karmada_proto::{DELTAS, DICTIONARY};

use super::*;
use crate::ports::Former;

fn session(features: &[&str]) -> Session {
    let features = features.iter().map(|&feature| feature.to_owned()).collect();
    let hello = Hello { features, credit: Some(plenty()), boot_id: "b".into(), ..Hello::default() };
    let mut session = Session::open(hello, &opening(Some(10)), &Options::default(), Duration::ZERO);
    while session.next_frame().is_some() {}
    session
}

/// A change of Work `a`, whose text the hub had as `before` at an earlier revision.
fn changed(before: (u64, &str), (revision, text): (u64, &str)) -> WorkEvent {
    let body = work("a", before.0, before.1).body;
    let former = Some(Former { revision: before.0, body });
    WorkEvent::Upsert(Work { former, ..work("a", revision, text) })
}

/// The body that is sent now: whether it is a difference, and its bytes.
fn told(session: &mut Session) -> Vec<(bool, usize)> {
    let upserts = frames(session).into_iter().filter_map(|frame| match frame.body {
        Some(hub_frame::Body::Upsert(upsert)) => Some((!upsert.base.is_empty(), upsert.chunk.len())),
        _ => None,
    });
    upserts.collect()
}

fn ack(session: &mut Session, cursor: u64) {
    say(session, agent_frame::Body::Ack(Ack { epoch: 7, cursor }), secs(1));
}

#[test]
fn what_is_acknowledged_is_a_base_and_nothing_else() {
    let (one, two, three, four) =
        (noise(900, 1), noise(900, 1) + "2", noise(900, 1) + "3", noise(900, 1) + "4");
    let mut agent = session(&[DELTAS]);
    agent.work(changed((9, &one), (11, &two)));
    assert!(told(&mut agent)[0].0, "what the agent held when the session began");
    agent.work(changed((11, &two), (12, &three)));
    assert!(!told(&mut agent)[0].0, "the one before is on its way");
    ack(&mut agent, 12);
    agent.work(changed((12, &three), (13, &four)));
    assert!(told(&mut agent)[0].0);
    // Told in another life of the hub, or beyond what the agent says that it holds.
    let mut agent = session(&[DELTAS]);
    agent.work(changed((11, &one), (12, &two)));
    assert!(!told(&mut agent)[0].0);
}

#[test]
fn a_report_of_its_hash_is_the_agents_word_for_a_base() {
    let (one, two) = (noise(900, 1), noise(900, 1) + "2");
    for (hash, is_base) in [(work_body::body_hash(&work("a", 9, &one).body.json()), true), (None, false)] {
        let mut agent = session(&[DELTAS]);
        let hash = hash.unwrap_or_else(|| body::hash(b"another"));
        let status = WorkStatus { key: "a".into(), uid: "u-a".into(), hash, ..WorkStatus::default() };
        say(&mut agent, agent_frame::Body::WorkStatus(status), secs(1));
        agent.work(changed((9, &one), (11, &two)));
        assert_eq!(told(&mut agent)[0].0, is_base);
    }
}

/// Several changes that waited are one: what was before the first is what the agent holds.
#[test]
fn changes_that_waited_are_told_from_what_was_before_the_first() {
    let (one, two, three) = (noise(900, 1), noise(900, 1) + "2", noise(900, 1) + "3");
    let mut agent = session(&[DELTAS]);
    agent.work(changed((9, &one), (11, &two)));
    agent.work(changed((11, &two), (12, &three)));
    assert!(matches!(told(&mut agent)[..], [(true, bytes)] if bytes < 60));
}

#[test]
fn an_agent_that_wanted_the_body_is_told_no_difference_of_it_again() {
    let text = |at: u64| noise(900, 1) + &at.to_string();
    let mut agent = session(&[DELTAS]);
    agent.work(changed((9, &text(9)), (11, &text(11))));
    assert!(told(&mut agent)[0].0);
    let hash = Bytes::new();
    say(&mut agent, agent_frame::Body::Want(Want { key: "a".into(), hash }), secs(1));
    assert!(!told(&mut agent)[0].0);
    for at in 12..15 {
        ack(&mut agent, at - 1);
        agent.work(changed((at - 1, &text(at - 1)), (at, &text(at))));
        assert!(!told(&mut agent)[0].0);
    }
    // What it asks for and was never sent takes no room.
    for key in 0..1000 {
        let want = Want { key: key.to_string(), hash: Bytes::new() };
        say(&mut agent, agent_frame::Body::Want(want), secs(1));
    }
    assert!(format!("{agent:?}").len() < 20_000);
}

/// An agent of before differences is sent what it always was, byte by byte.
#[test]
fn an_agent_that_does_not_say_so_is_sent_whole_bodies() {
    let (one, two) = (noise(900, 1), noise(900, 1) + "2");
    for features in [vec![], vec![DICTIONARY]] {
        let (mut with, mut without) = (session(&features), session(&features));
        with.work(changed((9, &one), (11, &two)));
        without.work(upsert("a", 11, &two));
        assert_eq!(frames(&mut with), frames(&mut without));
    }
}

#[test]
fn what_is_not_much_smaller_is_told_whole() {
    let mut agent = session(&[DELTAS]);
    agent.work(changed((9, &noise(900, 1)), (11, &noise(900, 2))));
    assert!(!told(&mut agent)[0].0, "nothing of it is alike");
}

/// Each session is of another site, whose name the body carries.
#[test]
fn a_body_and_its_change_for_many_sessions_are_packed_once_each() {
    let encodings = Arc::new(Encodings::default());
    let json = |site: u64, text: &str, revision: u64| {
        let json = format!(
            r#"{{"metadata":{{"name":"a","uid":"u-{site}"}},"spec":{{"workload":{{"manifests":[{{"metadata":{{"annotations":{{"work.karmada.io/namespace":"karmada-es-s{site}"}},"labels":{{"work.karmada.io/permanent-id":"{site:032x}"}}}},"text":"{text}"}}]}}}}}}"#
        );
        Work::from_json(revision, Bytes::from(json).into()).unwrap()
    };
    let (before, after) = (noise(20_000, 1), noise(20_000, 1).replacen('a', "b", 1));
    let mut bodies = 0;
    for site in 0..300 {
        let mut agent = session(&[DELTAS, DICTIONARY]).packs_with(encodings.clone());
        agent.work(WorkEvent::Upsert(json(site, &before, 11)));
        let pieces = told(&mut agent);
        bodies += usize::from(!pieces.is_empty() && pieces.iter().all(|(is_difference, _)| !is_difference));
        ack(&mut agent, 11);
        let former = Some(Former { revision: 11, body: json(site, &before, 11).body });
        agent.work(WorkEvent::Upsert(Work { former, ..json(site, &after, 12) }));
        assert!(matches!(told(&mut agent)[..], [(true, bytes)] if bytes < 100));
    }
    assert_eq!((bodies, encodings.counts()), (300, (2, 598)));
}

/// A piece of `a`'s body: where it begins, its bytes, the cursor that it carries.
fn pieces(session: &mut Session) -> Vec<(u64, u64, u64)> {
    let pieces = frames(session).into_iter().filter_map(|frame| match frame.body {
        Some(hub_frame::Body::Upsert(piece)) => Some((piece.offset, piece.chunk.len() as u64, piece.cursor)),
        _ => None,
    });
    pieces.collect()
}

/// The site must not come to hold, and enforce, what was suspended before it had all of it.
#[test]
fn a_body_on_its_way_is_dropped_where_the_work_is_suspended() {
    let (mut agent, text) = (session(&[]), noise(400_000, 1));
    agent.work(upsert("a", 11, &text));
    assert!(agent.next_frame().is_some());
    agent.work(WorkEvent::Upsert(Work { suspended: true, ..work("a", 12, &text) }));
    let rest: Vec<_> = frames(&mut agent)
        .into_iter()
        .filter_map(|frame| match frame.body {
            Some(hub_frame::Body::Upsert(piece)) => Some((piece.suspended, piece.revision)),
            _ => None,
        })
        .collect();
    assert!(!rest.is_empty() && rest.iter().all(|piece| *piece == (true, 12)), "{rest:?}");
}

/// The site's reports are written to the Work while its body is on its way: it goes on, however many they are.
#[test]
fn a_body_on_its_way_goes_on_where_the_status_was_written() {
    let (mut agent, text) = (session(&[]), noise(400_000, 1));
    agent.work(upsert("a", 11, &text));
    let mut sent = Vec::new();
    for at in 12..30 {
        let piece = agent.next_frame().and_then(|frame| frame.body);
        if let Some(hub_frame::Body::Upsert(piece)) = piece {
            sent.push((piece.offset, piece.chunk.len() as u64, piece.cursor));
        }
        agent.work(upsert("a", at, &text));
    }
    sent.extend(pieces(&mut agent));
    assert!(sent.len() > 3 && sent[1..].iter().all(|piece| piece.0 > 0), "{sent:?}");
    assert!(sent.iter().zip(&sent[1..]).all(|(piece, next)| piece.0 + piece.1 == next.0), "{sent:?}");
    assert!(sent[sent.len() - 1].2 >= 11);
    // Back to what the body on its way was, which the agent never came to hold.
    let (one, other) = (noise(400_000, 2), noise(400_000, 3));
    agent.work(upsert("a", 40, &one));
    assert!(agent.next_frame().is_some());
    agent.work(upsert("a", 41, &other));
    agent.work(upsert("a", 42, &one));
    let sent = pieces(&mut agent);
    assert_eq!((sent[0].0, sent[sent.len() - 1].2), (0, 42), "{sent:?}");
}

/// What came of a difference before a line was cut is lost, what came of a body is kept: one that may not come in one go is no difference.
#[test]
fn a_change_of_much_is_told_whole() {
    let (half, other) = (noise(300_000, 1), noise(300_000, 2));
    for (changed_bytes, is_difference) in [(30_000, true), (200_000, false)] {
        let (one, two) =
            (half.clone() + &half, half.clone() + &other[..changed_bytes] + &half[changed_bytes..]);
        let mut agent = session(&[DELTAS]);
        agent.work(changed((9, &one), (11, &two)));
        assert_eq!(told(&mut agent)[0].0, is_difference, "{changed_bytes}");
    }
}
