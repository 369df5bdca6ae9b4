//! A hub that says too much, what it may not, or nothing that the agent knows: what is refused, and when the session ends.

use super::*;

#[test]
fn an_unknown_frame_is_named_and_survived() {
    let mut session = open(7, 3, &[]);
    said(&mut session);
    session.frame(HubFrame { kind: 77, body: None }, secs(1));
    assert_eq!(said(&mut session), ["unsupported 77"]);
    assert!(session.ended().is_none());
}

#[test]
fn a_tombstone_whose_reason_is_unknown_removes_nothing_and_is_refused_by_name() {
    for reason in [0, 3, 99, -1] {
        for works in [&[("a", held("u-a", 5, b"x"))][..], &[]] {
            let mut session = open(7, 3, works);
            said(&mut session);
            welcome(&mut session, 7);
            let Body::Tombstone(tombstone) = tombstone("a", "u-a", 6, TombstoneReason::Deleted) else {
                unreachable!()
            };
            hear(&mut session, Body::Tombstone(Tombstone { reason, ..tombstone }));
            let frames: Vec<_> =
                std::iter::from_fn(|| session.next_frame(&mut Outbox::default(), secs(1))).collect();
            let Some(agent_frame::Body::Nack(nack)) = &frames[0].body else { panic!("{frames:?}") };
            assert_eq!((nack.code(), nack.key.as_str(), nack.revision), (NackCode::UnknownReason, "a", 6));
            assert!(nack.message.contains(&reason.to_string()));
            assert_eq!(written(&mut session), ["cursor 6"]);
        }
    }
}

#[test]
fn unknown_words_of_a_close_are_taken_for_a_lost_link() {
    let mut session = open(7, 3, &[]);
    hear(&mut session, Body::Close(v1::Close { code: 99, retry: 99, after_ms: 5, ..v1::Close::default() }));
    assert_eq!(session.ended().unwrap().advice, Advice::Lost(Duration::ZERO));
}

#[test]
fn a_hub_that_overspends_is_left() {
    let mut session = open(7, 3, &[]);
    said(&mut session);
    welcome(&mut session, 7);
    for revision in 0..256 {
        hear(&mut session, tombstone("a", "u", revision, TombstoneReason::Released));
    }
    assert!(session.ended().is_none());
    hear(&mut session, tombstone("a", "u", 300, TombstoneReason::Released));
    assert_eq!(session.ended().unwrap().advice, Advice::After(OVERSPENT));
}

#[test]
fn a_certificate_that_nobody_asked_for_is_not_looked_at() {
    let mut session = open(7, 4, &[]);
    welcome(&mut session, 7);
    let reply = |refusal: &str| {
        Body::Renewed(v1::RenewReply { refusal: refusal.into(), ..v1::RenewReply::default() })
    };
    hear(&mut session, reply(""));
    assert_eq!(session.take_renewed(), None);
    // The second ask is refused before the first is answered.
    (0..2).for_each(|_| session.renew(Bytes::new()));
    hear(&mut session, reply("one is made already"));
    hear(&mut session, reply(""));
    hear(&mut session, reply("nobody asked"));
    assert_eq!(session.take_renewed(), Some(v1::RenewReply::default()));
    hear(&mut session, reply(""));
    assert_eq!(session.take_renewed(), None);
}

/// The hub sends what is to be answered, and takes no answer.
#[test]
fn a_hub_that_takes_no_answers_is_not_read() {
    let mut session = open(7, 4, &[]);
    welcome(&mut session, 7);
    let frames = [Body::Ping(v1::Ping::default()), tombstone("never held", "u", 9, TombstoneReason::Deleted)];
    let mut read = 0;
    for body in frames.iter().cycle().take(100_000) {
        if session.listens() {
            hear(&mut session, body.clone());
            session.take_changes();
            session.committed(secs(1));
            session.credit = CreditWindow::new(WINDOW);
            read += 1;
        }
    }
    assert!((256..5000).contains(&read), "{read} frames read");
    let mut outbox = Outbox::default();
    while session.next_frame(&mut outbox, secs(1)).is_some() {}
    assert!(session.listens(), "the answers are out");
    hear(&mut session, Body::Ping(v1::Ping::default()));
    session.discard_outgoing();
    assert!(said(&mut session).is_empty(), "nobody takes what waits");
}

#[test]
fn a_name_that_no_work_can_have_ends_the_session() {
    let long = "x".repeat(2000);
    let bodies = [
        Body::Upsert(Upsert { offer: true, ..upsert(&long, 9, "{}", 9) }),
        tombstone("a", &long, 9, TombstoneReason::Deleted),
        Body::Upsert(Upsert { offer: true, hash: Bytes::from(vec![0; 2000]), ..upsert("a", 9, "{}", 9) }),
    ];
    for body in bodies {
        let mut session = open(7, 4, &[]);
        welcome(&mut session, 7);
        hear(&mut session, body);
        assert!(session.ended().is_some());
        session.take_changes();
    }
}

/// A hub that is mended, or is another one by now, finds its agents back within the hour.
#[test]
fn no_hub_silences_an_agent_for_long() {
    let hour = Duration::from_secs(3600);
    for retry in [
        RetryClass::RetryNow,
        RetryClass::Relocate,
        RetryClass::RetryAfter,
        RetryClass::Rejoin,
        RetryClass::Fatal,
    ] {
        for after_ms in [u64::MAX, 3_600_001, 3_600_000] {
            let mut session = open(7, 4, &[]);
            hear(
                &mut session,
                Body::Close(v1::Close { retry: retry.into(), after_ms, ..v1::Close::default() }),
            );
            assert_eq!(session.ended().unwrap().advice, Advice::After(hour), "{retry:?}");
        }
    }
    let mut session = open(7, 4, &[]);
    let bounds =
        Welcome { epoch: 7, retry_hint_ms: u64::MAX, ping_min_ms: 0, ping_max_ms: 0, ..Welcome::default() };
    hear(&mut session, Body::Welcome(bounds));
    session.tick(secs(2));
    assert_eq!(session.ended(), None, "the hub may answer still");
    assert!(session.deadline() > secs(1));
    hear(&mut session, Body::Drain(v1::Drain { after_ms: u64::MAX }));
    for second in 2..3700 {
        session.heard_bytes(secs(second));
        session.tick(secs(second));
    }
    assert_eq!(session.ended().map(|ended| ended.reason.as_str()), Some("the hub goes down for a while"));
    let mut session = open(7, 4, &[]);
    let bounds = Welcome { epoch: 7, retry_hint_ms: u64::MAX, ..Welcome::default() };
    hear(&mut session, Body::Welcome(bounds));
    session.lost("cut".into());
    assert_eq!(session.ended().unwrap().advice, Advice::Lost(hour));
}

/// A hub that names buckets which are none, as many as its frames hold: what is kept of them is what there is.
#[test]
fn buckets_that_are_none_are_not_kept() {
    let mut session = open(7, 0, &[]);
    welcome(&mut session, 7);
    for from in (0..1_000_000_u32).step_by(100_000) {
        let buckets = (from..from + 100_000).collect();
        hear(&mut session, Body::Differing(v1::Differing { table: Table::Statuses as u32, buckets }));
    }
    assert_eq!(session.differing.len(), BUCKETS);
}
