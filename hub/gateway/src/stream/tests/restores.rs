//! A hub whose file was copied back: epochs, cursors, and the deletes that wait for a person.

use karmada_proto::v1::Seen;

use super::*;

fn closes(said: &[hub_frame::Body]) -> Vec<(CloseCode, u64)> {
    let close = |body: &hub_frame::Body| match body {
        hub_frame::Body::Close(close) => Some((close.code(), close.after_ms)),
        _ => None,
    };
    said.iter().filter_map(close).collect()
}

#[tokio::test(start_paused = true)]
async fn a_number_without_proof_moves_nobody_but_its_site_and_a_proved_one_moves_all_once() {
    let rig = Rig::new();
    let mut others = Vec::new();
    for name in ["one", "two", "three"] {
        others.push(rig.open_with(name, |_| {}).await.unwrap());
    }
    for (epoch, seal) in [(7, ""), (7, "sealed 8"), (u64::MAX, ""), (u64::MAX, "x")] {
        let seal = Bytes::from_static(seal.as_bytes());
        let lone =
            rig.open_with("liar", |hello| (hello.epoch, hello.epoch_seal, hello.cursor) = (epoch, seal, 5));
        let (_frames, mut session) = lone.await.unwrap();
        let said = turn(&mut session).await;
        let Some(hub_frame::Body::Welcome(welcome)) = said.first() else { panic!("{said:?}") };
        assert_eq!((welcome.epoch, &welcome.epoch_seal[..]), (1, &b"sealed 1"[..]));
        assert!(matches!(said[1], hub_frame::Body::SnapshotStart(_)), "it is listed everything");
    }
    for (_, session) in &mut others {
        assert_eq!(closes(&turn(session).await), [], "nobody else hears of it");
    }
    let restored = |hello: &mut Hello| (hello.epoch, hello.epoch_seal) = (7, Bytes::from_static(b"sealed 7"));
    let (_frames, mut session) = rig.open_with("first", restored).await.unwrap();
    let said = turn(&mut session).await;
    assert!(matches!(&said[0], hub_frame::Body::Welcome(welcome) if welcome.epoch == 8));
    let mut waits = Vec::new();
    for (_, session) in &mut others {
        let closes = closes(&turn(session).await);
        assert_eq!(closes[0].0, CloseCode::Recycle);
        waits.push(closes[0].1);
    }
    assert!(waits.windows(2).any(|two| two[0] != two[1]), "not all at one moment: {waits:?}");
    let (_frames, mut again) = rig.open_with("second", restored).await.unwrap();
    turn(&mut again).await;
    assert_eq!(rig.fake.minted.load(Ordering::SeqCst), 1, "one restore is one epoch");
    assert_eq!(closes(&turn(&mut session).await), [], "who is in it stays");
}

#[tokio::test(start_paused = true)]
async fn a_cursor_of_another_history_resumes_nothing() {
    let rig = Rig::new();
    for (timeline, listed) in [(1, false), (2, true), (0, true)] {
        let hello = |hello: &mut Hello| (hello.epoch, hello.cursor, hello.timeline) = (1, 1, timeline);
        let (_frames, session) = rig.open_with("m", hello).await.unwrap();
        let asked = rig.fake.resumed.lock().pop().unwrap();
        assert_eq!(asked, (!listed).then_some(1), "{timeline}");
        drop(session);
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_restore_listed_deletes_wait_for_a_person_over_all_sessions() {
    let rig = Rig::new();
    rig.fake.deleting.store(true, Ordering::SeqCst);
    let tombstones = |said: &[hub_frame::Body]| {
        said.iter().filter(|body| matches!(body, hub_frame::Body::Tombstone(_))).count()
    };
    let (_frames, mut session) = rig.open().await.unwrap();
    assert_eq!(tombstones(&turn(&mut session).await), 1, "nobody was restored");
    rig.fake.epoch.store(4, Ordering::SeqCst);
    let batch = |epoch, revision| Batch { epoch, revision, timeline: 1 };
    let restored = |hello: &mut Hello| (hello.epoch, hello.objects) = (3, 7);
    let (_frames, mut session) = rig.open_with("m", restored).await.unwrap();
    let said = turn(&mut session).await;
    assert!(said.iter().any(|body| matches!(body, hub_frame::Body::SnapshotEnd(_))), "{said:?}");
    assert_eq!((tombstones(&said), *rig.fake.held.lock()), (0, Some((batch(5, 1), 1))));
    let (_frames, mut session) = rig.open_with("m", |hello| hello.epoch = 5).await.unwrap();
    assert_eq!(tombstones(&turn(&mut session).await), 0, "nor in the sessions after it");
    for (word, why) in [(batch(4, 9), "a word of another epoch"), (batch(5, 0), "one of an earlier listing")]
    {
        rig.gateway.confirm_deletes("m", word);
        assert_eq!(tombstones(&turn(&mut session).await), 0, "{why}");
    }
    rig.gateway.confirm_deletes("m", batch(5, 1));
    assert_eq!(tombstones(&turn(&mut session).await), 1);
    *rig.fake.confirmed.lock() = Some(batch(5, 1));
    let (_frames, mut session) = rig.open_with("m", |hello| hello.epoch = 5).await.unwrap();
    assert_eq!(tombstones(&turn(&mut session).await), 1, "it is remembered");
    // Restored once more, in the same epoch: what is listed now, nobody has seen.
    rig.fake.revision.store(8, Ordering::SeqCst);
    rig.fake.deleted_at.store(7, Ordering::SeqCst);
    let (_frames, mut session) = rig.open_with("m", restored).await.unwrap();
    assert_eq!(tombstones(&turn(&mut session).await), 0, "the word was for another batch");
    assert_eq!(*rig.fake.held.lock(), Some((batch(5, 8), 1)));
    rig.gateway.confirm_deletes("m", batch(5, 1));
    assert_eq!(tombstones(&turn(&mut session).await), 0, "nor does it count when it is said again");
    // Named by a life of the hub that was taken back, in which that revision was of something else.
    let taken_back = Batch { timeline: 2, ..batch(5, 8) };
    rig.gateway.confirm_deletes("m", taken_back);
    assert_eq!(tombstones(&turn(&mut session).await), 0, "a word for another life's batch");
    *rig.fake.confirmed.lock() = Some(taken_back);
    let (_frames, mut session) = rig.open_with("m", |hello| hello.epoch = 5).await.unwrap();
    assert_eq!(tombstones(&turn(&mut session).await), 0, "nor in the next session");
    rig.gateway.confirm_deletes("m", batch(5, 8));
    assert_eq!(tombstones(&turn(&mut session).await), 1);
}

/// The word and the hold are of an earlier version, which named no start.
#[tokio::test(start_paused = true)]
async fn a_word_of_an_earlier_version_counts_for_what_that_version_held() {
    for (timeline, told) in [(0, true), (1, false)] {
        let rig = Rig::new();
        rig.fake.deleting.store(true, Ordering::SeqCst);
        *rig.fake.holding.lock() =
            Some(RestoreHold { batch: Batch { epoch: 1, revision: 1, timeline }, lives: Vec::new() });
        *rig.fake.confirmed.lock() = Some(Batch { epoch: 1, revision: 1, timeline: 0 });
        let (_frames, mut session) = rig.open_with("m", |hello| hello.epoch = 1).await.unwrap();
        let said = turn(&mut session).await;
        assert_eq!(said.iter().any(|body| matches!(body, hub_frame::Body::Tombstone(_))), told, "{timeline}");
    }
}

/// The hub's file was copied back and nobody raised the epoch: the cursor that the agent was told says so.
#[tokio::test(start_paused = true)]
async fn deletes_are_held_from_who_was_told_a_cursor_by_another_life_of_the_hub() {
    // A cursor of zero: the site's last listing was cut.
    for (timeline, cursor, objects, held) in
        [(9, 5, 3, 1), (1, 5, 3, 0), (0, 0, 3, 0), (9, 5, 0, 0), (9, 0, 3, 1), (1, 0, 3, 0), (9, 0, 0, 0)]
    {
        let rig = Rig::new();
        rig.fake.deleting.store(true, Ordering::SeqCst);
        let opened = rig.open_with("m", |hello| {
            (hello.epoch, hello.timeline, hello.cursor, hello.objects) = (1, timeline, cursor, objects);
        });
        let (_frames, mut session) = opened.await.unwrap();
        let said = turn(&mut session).await;
        assert_eq!(rig.fake.held.lock().map_or(0, |(_, count)| count), held, "{timeline} {cursor} {objects}");
        let told = said.iter().any(|body| matches!(body, hub_frame::Body::Tombstone(_)));
        assert_eq!(told, held == 0, "{timeline} {cursor} {objects}");
    }
}

/// The copy was taken while the start ran that told the site more, and the site's next listing was cut.
#[tokio::test(start_paused = true)]
async fn deletes_are_held_by_where_the_cursor_was_before_a_listing_that_was_cut() {
    for (former, held) in [(5, 0), (5000, 1)] {
        let rig = Rig::new();
        rig.fake.deleting.store(true, Ordering::SeqCst);
        let opened = rig.open_with("m", |hello| {
            (hello.epoch, hello.timeline, hello.former_cursor, hello.objects) = (1, 1, former, 3);
        });
        let (_frames, mut session) = opened.await.unwrap();
        turn(&mut session).await;
        assert_eq!(rig.fake.held.lock().map_or(0, |(_, count)| count), held, "{former}");
    }
}

/// The cursor is of the history that the hub has, and of what the site holds beyond it something is not.
#[tokio::test(start_paused = true)]
async fn what_is_held_beyond_the_cursor_tells_of_another_life_as_the_cursor_does() {
    for (timeline, resumes, held) in [(1, Some(5), 0), (9, None, 1)] {
        let rig = Rig::new();
        rig.fake.deleting.store(true, Ordering::SeqCst);
        let opened = rig.open_with("m", |hello| {
            (hello.epoch, hello.timeline, hello.cursor, hello.objects) = (1, 1, 5, 3);
            hello.seen = vec![Seen { timeline, revision: 7 }];
        });
        let (_frames, mut session) = opened.await.unwrap();
        turn(&mut session).await;
        assert_eq!(rig.fake.resumed.lock().pop().unwrap(), resumes, "{timeline}");
        assert_eq!(rig.fake.held.lock().map_or(0, |(_, count)| count), held, "{timeline}");
    }
}

/// What deletes were held for is told no more, and the site does not have them yet: a cursor that passes them brings none of them.
#[tokio::test(start_paused = true)]
async fn no_cursor_is_resumed_from_while_deletes_are_held() {
    let rig = Rig::new();
    rig.fake.deleting.store(true, Ordering::SeqCst);
    let lives = vec![Seen { timeline: 9, revision: 7 }];
    *rig.fake.holding.lock() =
        Some(RestoreHold { batch: Batch { epoch: 1, revision: 1, timeline: 1 }, lives });
    let back = |hello: &mut Hello| (hello.epoch, hello.timeline, hello.cursor, hello.objects) = (1, 1, 5, 3);
    let (_frames, _session) = rig.open_with("m", back).await.unwrap();
    assert_eq!(rig.fake.resumed.lock().pop().unwrap(), None);
}

/// A state directory that was one cluster's becomes another's, or the Cluster's name is joined anew: what its cursor says of one Cluster's
/// Works says nothing of the other's.
#[tokio::test(start_paused = true)]
async fn a_cursor_that_another_cluster_was_told_resumes_nothing_and_is_no_sign_of_a_restore() {
    let rig = Rig::new();
    rig.fake.deleting.store(true, Ordering::SeqCst);
    let (_frames, mut session) = rig.open_with("spare", |_| {}).await.unwrap();
    let said = turn(&mut session).await;
    let Some(hub_frame::Body::Welcome(welcome)) = said.first() else { panic!("{said:?}") };
    let told = welcome.timeline;
    for (cluster, uid, resumes) in
        [("spare", "", Some(5)), ("m", "", None), ("spare", "another", None), ("spare", "", Some(5))]
    {
        *rig.fake.uid.lock() = uid.to_owned();
        let hello =
            |hello: &mut Hello| (hello.epoch, hello.cursor, hello.timeline, hello.objects) = (1, 5, told, 3);
        let (_frames, mut session) = rig.open_with(cluster, hello).await.unwrap();
        turn(&mut session).await;
        assert_eq!(rig.fake.resumed.lock().pop().unwrap(), resumes, "{cluster} {uid}");
        assert_eq!(*rig.fake.held.lock(), None, "no life of the hub was taken back");
    }
}

/// The listing's cursor lies beyond what was withheld in it, and the person's word comes while the agent is away.
#[tokio::test(start_paused = true)]
async fn what_was_withheld_goes_out_in_the_session_after_the_word_until_the_site_has_it() {
    let rig = Rig::new();
    rig.fake.deleting.store(true, Ordering::SeqCst);
    let tombstones = |said: &[hub_frame::Body]| {
        said.iter().filter(|body| matches!(body, hub_frame::Body::Tombstone(_))).count()
    };
    let ack = || frame::agent(agent_frame::Body::Ack(Ack { epoch: 1, cursor: 1 }));
    let restored =
        |hello: &mut Hello| (hello.epoch, hello.timeline, hello.cursor, hello.objects) = (1, 9, 5, 3);
    let back = |hello: &mut Hello| (hello.epoch, hello.timeline, hello.cursor, hello.objects) = (1, 1, 1, 3);
    let (frames, mut session) = rig.open_with("m", restored).await.unwrap();
    assert_eq!(tombstones(&turn(&mut session).await), 0);
    frames.unbounded_send(Ok(ack())).unwrap();
    turn(&mut session).await;
    drop(session);
    *rig.fake.confirmed.lock() = rig.fake.held.lock().map(|(batch, _)| batch);
    for attempt in 0..2 {
        let (_frames, mut session) = rig.open_with("m", back).await.unwrap();
        assert_eq!(rig.fake.resumed.lock().pop().unwrap(), None, "{attempt}: it is listed everything");
        assert_eq!(tombstones(&turn(&mut session).await), 1, "{attempt}: the session before was cut");
    }
    let (frames, mut session) = rig.open_with("m", back).await.unwrap();
    turn(&mut session).await;
    frames.unbounded_send(Ok(ack())).unwrap();
    turn(&mut session).await;
    drop(session);
    let (_frames, _session) = rig.open_with("m", back).await.unwrap();
    assert_eq!(rig.fake.resumed.lock().pop().unwrap(), Some(1), "the site has it");
    assert_eq!(*rig.fake.holding.lock(), None);
}
