//! What may be on its way at once, in both directions, and who is closed for more than that.

use super::*;

#[test]
fn credit_bounds_what_is_on_the_way_and_a_newer_state_replaces_a_half_sent_one() {
    let mut session = open(0, Some(1), v1::Credit { messages: 10, bytes: 100_000 });
    session.work(upsert("a", 2, &noise(300_000, 1)));
    let first = frames(&mut session);
    let bytes = |frames: &[HubFrame]| -> usize {
        let chunk = |f: &HubFrame| match &f.body {
            Some(hub_frame::Body::Upsert(u)) => u.chunk.len(),
            _ => 0,
        };
        assert!(frames.iter().all(|f| chunk(f) <= CHUNK));
        frames.iter().map(chunk).sum()
    };
    assert_eq!(bytes(&first), 100_000);
    session.work(upsert("a", 3, "small"));
    assert_eq!(session.next_frame(), None);
    say(&mut session, agent_frame::Body::Credit(v1::Credit { messages: 10, bytes: 100_000 }), secs(1));
    assert_eq!(sent(&mut session), ["upsert a@3"]);
}

/// Each change comes before the line has taken the body of the one before.
#[test]
fn a_work_that_changes_faster_than_the_line_takes_it_comes_through_all_the_same() {
    let mut session = open(0, Some(1), v1::Credit { messages: 10, bytes: 0 });
    let mut whole = 0;
    for revision in 2..40 {
        session.work(upsert("a", revision, &noise(200_000, revision)));
        some_credit(&mut session);
        let ends = frames(&mut session).into_iter().filter(|frame| match &frame.body {
            Some(hub_frame::Body::Upsert(u)) => u.offset + u.chunk.len() as u64 == u.encoded_size,
            _ => false,
        });
        whole += ends.count();
    }
    assert!(whole >= 8, "{whole} bodies came through");
    // The newest does once the changes end, and who suspends the Work does not wait for what is on its way.
    session.work(upsert("a", 40, &noise(200_000, 40)));
    let suspended = Work { suspended: true, ..work("a", 41, "last") };
    session.work(WorkEvent::Upsert(suspended));
    some_credit(&mut session);
    assert_eq!(sent(&mut session), ["upsert a@41 suspended"]);
}

/// What was given up half sent is not the site's, though a cursor passes its revision.
#[test]
fn an_ack_is_none_of_a_body_that_was_given_up() {
    let credit = Some(v1::Credit { messages: 10, bytes: 100_000 });
    let hello = Hello { objects: 2, credit, boot_id: "b".into(), ..Hello::default() };
    let opening = Opening { restore_hold: holding(0), ..opening(None) };
    let mut session = Session::open(hello, &opening, &Options::default(), Duration::ZERO);
    session.work(upsert("a", 3, &noise(200_000, 1)));
    session.work(WorkEvent::Synced { revision: 9 });
    sent(&mut session);
    let want = || agent_frame::Body::Want(Want { key: "a".into(), hash: Bytes::new() });
    say(&mut session, want(), secs(1));
    let most = sent(&mut session);
    assert!(!most.is_empty() && most.iter().all(|piece| piece == "upsert a@0"), "most of it: {most:?}");
    session.work(upsert("a", 10, "of a person"));
    say(&mut session, agent_frame::Body::Ack(Ack { epoch: 7, cursor: 9 }), secs(1));
    // The agent asks for what it was offered, whose place the newer one has taken.
    say(&mut session, want(), secs(1));
    some_credit(&mut session);
    let told = frames(&mut session);
    let Some(hub_frame::Body::Upsert(told)) = &told[0].body else { panic!("{told:?}") };
    assert!(told.keep_former && told.cursor == 10, "whoever wrote it saw the backup's: {told:?}");
    let effects: Vec<_> = std::iter::from_fn(|| session.next_effect()).collect();
    assert!(!effects.contains(&Effect::Relist), "{effects:?}");
}

fn status(key: &str, decoded_size: u64) -> agent_frame::Body {
    agent_frame::Body::WorkStatus(WorkStatus {
        key: key.into(),
        uid: "u-a".into(),
        generation: 4,
        decoded_size,
        manifest_statuses: Bytes::from_static(b"[]"),
        ..WorkStatus::default()
    })
}

#[test]
fn who_overspends_is_closed_and_heard_no_more() {
    let mut session = open(1, Some(10), plenty());
    sent(&mut session);
    for _ in 0..256 {
        say(&mut session, status("a", 2), secs(1));
    }
    assert!(!session.finished() && session.reports() == 1, "as much as was granted");
    say(&mut session, status("b", 2), secs(1));
    assert_eq!(session.reports(), 1);
    assert_eq!(sent(&mut session), ["close PROTOCOL"]);
    say(&mut session, status("b", 2), secs(1));
    assert_eq!(session.reports(), 1, "what comes after the end is not looked at");
}

#[test]
fn removals_orphans_and_events_are_paid_for_by_everybody() {
    let reports = || {
        let removed = v1::Removed { key: "a".into(), ..v1::Removed::default() };
        let orphans = v1::Orphans { keys: vec!["k".into()] };
        [
            agent_frame::Body::Removed(removed),
            agent_frame::Body::Orphans(orphans),
            agent_frame::Body::Event(v1::EventReport::default()),
        ]
    };
    for features in [vec![], vec!["of-its-own".to_owned()]] {
        let hello = Hello { features, boot_id: "b".into(), ..Hello::default() };
        let opening = opening(Some(10));
        let mut session = Session::open(hello, &opening, &Options::default(), Duration::ZERO);
        for _ in 0..100 {
            reports().into_iter().for_each(|body| say(&mut session, body, secs(1)));
        }
        assert!(sent(&mut session).contains(&"close PROTOCOL".to_owned()));
    }
}

#[test]
fn what_would_unpack_to_too_much_is_refused_before_it_is() {
    let mut session = open(1, Some(10), plenty());
    say(&mut session, status("a", karmada_proto::STATUS_LIMIT as u64 + 1), secs(1));
    let cluster = v1::ClusterStatus { encoding: 1, decoded_size: u64::MAX, body: Bytes::from_static(b"x") };
    say(&mut session, agent_frame::Body::ClusterStatus(cluster), secs(1));
    assert_eq!((session.reports(), session.refused()), (0, 2));
    say(&mut session, status("a", 2), secs(1));
    let Some(Report::Work(report, Some(packed))) = session.next_report(secs(1)) else { panic!() };
    assert_eq!((report.generation, report.manifest_statuses, packed.open().unwrap().len()), (4, None, 2));
}

/// A link that stands for a minute at 10 KiB a second brings 600 KiB: what is to be removed at the site comes through it in each session, also
/// where a document of three megabytes is told, which never would.
#[test]
fn a_large_document_does_not_keep_works_back_for_ever() {
    let mut state = 1_u64;
    let noise: Vec<u8> = (0..2 << 20)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .collect();
    let document = Arc::new(Document::new(Table::Customizations, &noise.into()));
    for link in 0..3 {
        let hello = Hello {
            credit: Some(plenty()),
            boot_id: "b".into(),
            features: vec![karmada_proto::DOCUMENTS.to_owned()],
            ..Hello::default()
        };
        let mut session = Session::open(hello, &opening(None), &Options::default(), Duration::ZERO);
        session.obey(SessionOrder::Tell(document.clone()), secs(0));
        session.work(upsert("a", 3, "1"));
        session.work(WorkEvent::Synced { revision: 10 });
        let (mut bytes, mut offsets, mut works) = (0, Vec::new(), Vec::new());
        while bytes < 600 * 1024
            && let Some(frame) = session.next_frame()
        {
            bytes += frame::size(&frame);
            match frame.body {
                Some(hub_frame::Body::Document(document)) => offsets.push(document.offset),
                Some(hub_frame::Body::Upsert(upsert)) => works.push(upsert.key),
                _ => {}
            }
        }
        assert_eq!(works, ["a"], "link {link}: document from {:?} to {:?}", offsets.first(), offsets.last());
    }
}
