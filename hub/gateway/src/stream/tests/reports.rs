//! What a site reports: what is taken, what is dropped, what is answered.

use karmada_proto::STATUS_LIMIT;

use super::*;

#[tokio::test(start_paused = true)]
async fn reports_of_no_work_of_the_cluster_are_dropped_unread() {
    let rig = Rig::new();
    let (frames, mut session) = rig.open().await.unwrap();
    frames.unbounded_send(status("stranger", 1, 0)).unwrap();
    let removed =
        karmada_proto::v1::Removed { key: "stranger".into(), never_held: true, ..Default::default() };
    frames.unbounded_send(Ok(frame::agent(agent_frame::Body::Removed(removed)))).unwrap();
    frames.unbounded_send(status("w", 1, 0)).unwrap();
    turn(&mut session).await;
    assert_eq!(*rig.fake.written.lock(), ["w@1"]);
    assert_eq!(session.session.refused(), 2);
}

/// The agent believes it told.
#[tokio::test(start_paused = true)]
async fn a_report_that_could_not_be_written_is_written_once_it_can() {
    let rig = Rig::new();
    let (frames, mut session) = rig.open().await.unwrap();
    rig.fake.fails.store(3, Ordering::SeqCst);
    frames.unbounded_send(status("w", 1, 0)).unwrap();
    for _ in 0..3 {
        turn(&mut session).await;
        assert!(rig.fake.written.lock().is_empty());
        tokio::time::sleep(rig.gateway.options.report_retry).await;
    }
    turn(&mut session).await;
    assert_eq!(*rig.fake.written.lock(), ["w@1"]);
}

/// Polls all sessions, each write let through, until so many reports are written.
async fn write_out(rig: &Rig, sessions: &mut [(Frames, SessionStream<Inbound>)], reports: usize) {
    while rig.fake.written.lock().len() < reports {
        rig.fake.gate.notify_waiters();
        for (_, session) in &mut *sessions {
            turn(session).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_unpacked_at_once_is_bounded_in_a_session_and_in_all() {
    let rig = Rig::new();
    rig.fake.gated.store(true, Ordering::SeqCst);
    let size = STATUS_LIMIT - 2;
    let mut sessions = vec![rig.open().await.unwrap()];
    for at in 0..200 {
        sessions[0].0.unbounded_send(status(&format!("w{at}"), 1, size)).unwrap();
    }
    turn(&mut sessions[0].1).await;
    assert_eq!(rig.fake.most_at_once.load(Ordering::SeqCst), 1, "one of the largest at a time");
    // Eleven more want the same; eight have it at once, and whoever waits has nothing unpacked.
    for at in 1..12 {
        let (frames, mut session) = rig.open_with(&format!("m{at}"), |_| {}).await.unwrap();
        for of in 0..5 {
            frames.unbounded_send(status(&format!("w{at}-{of}"), 1, size)).unwrap();
        }
        turn(&mut session).await;
        sessions.push((frames, session));
        let most = rig.fake.most_at_once.load(Ordering::SeqCst);
        assert_eq!(most, (at + 1).min(8), "with {} sessions", at + 1);
    }
    assert_eq!(rig.gateway.unpacked.available_permits(), 0);
    rig.fake.gated.store(false, Ordering::SeqCst);
    write_out(&rig, &mut sessions, 200 + 11 * 5).await;
    assert_eq!(rig.fake.most_at_once.load(Ordering::SeqCst), 8, "nor while one hands on to another");
    assert_eq!(rig.gateway.unpacked.available_permits(), 8 * 1024, "all is given back");
}

/// Five hundred reports, three hundred bytes of the wire at most each, that unpack to half a gigabyte: never more than 8 MiB of it is
/// there at once.
#[tokio::test(start_paused = true)]
async fn what_five_hundred_small_reports_unpack_to_is_never_there_at_once() {
    let rig = Rig::new();
    rig.fake.gated.store(true, Ordering::SeqCst);
    let (mut sessions, mut on_the_wire) = (Vec::new(), 0);
    for at in 0..10 {
        let (frames, session) = rig.open_with(&format!("m{at}"), |_| {}).await.unwrap();
        for of in 0..50 {
            let report = status(&format!("w{at}-{of}"), 1, STATUS_LIMIT - 2).unwrap();
            let Some(agent_frame::Body::WorkStatus(packed)) = &report.body else { panic!("{report:?}") };
            let length = packed.manifest_statuses.len();
            assert!(length <= 300, "{length} bytes");
            on_the_wire += length;
            frames.unbounded_send(Ok(report)).unwrap();
        }
        sessions.push((frames, session));
    }
    for (_, session) in &mut sessions {
        turn(session).await;
    }
    rig.fake.gated.store(false, Ordering::SeqCst);
    write_out(&rig, &mut sessions, 500).await;
    let most = rig.fake.most_bytes.load(Ordering::SeqCst);
    println!(
        "{on_the_wire} bytes of the wire, {} MiB unpacked, {most} bytes at once",
        (500 * STATUS_LIMIT) >> 20
    );
    assert!(most > 0 && most <= 8 << 20, "{most} bytes at once");
}

/// The agent removed what the hub finalised long ago: it is told that it may forget it.
#[tokio::test(start_paused = true)]
async fn what_a_site_removes_that_is_gone_from_the_hub_it_may_forget() {
    let rig = Rig::new();
    let (frames, mut session) = rig.open().await.unwrap();
    turn(&mut session).await;
    let removed = |key: String| {
        let removed = karmada_proto::v1::Removed { key, uid: "u".into(), revision: 3, ..Default::default() };
        Ok(frame::agent(agent_frame::Body::Removed(removed)))
    };
    frames.unbounded_send(removed("stranger".into())).unwrap();
    let said = turn(&mut session).await;
    let [hub_frame::Body::Tombstone(released)] = &said[..] else { panic!("{said:?}") };
    assert_eq!((released.key.as_str(), released.uid.as_str(), released.revision), ("stranger", "u", 3));
    frames.unbounded_send(removed("k".repeat(300))).unwrap();
    assert!(turn(&mut session).await.is_empty());
    assert_eq!(session.session.refused(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_a_person_decided_of_orphans_reaches_the_site_and_its_end_is_told() {
    let rig = Rig::new();
    let (frames, mut session) = rig.open().await.unwrap();
    turn(&mut session).await;
    let say = |body| frames.unbounded_send(Ok(frame::agent(body))).unwrap();
    let named = || {
        let keys = ["x1", "x2", "w"].map(str::to_owned).to_vec();
        agent_frame::Body::Orphans(Orphans { keys })
    };
    let tombstones = |said: Vec<hub_frame::Body>| {
        let told = said.into_iter().filter_map(|body| match body {
            hub_frame::Body::Tombstone(told) => Some((told.key.clone(), told.reason(), told.preserve)),
            _ => None,
        });
        told.collect::<Vec<_>>()
    };
    use karmada_proto::v1::TombstoneReason::Released;
    say(named());
    assert_eq!(tombstones(turn(&mut session).await), [], "nobody decided anything");
    rig.gateway.let_go("m", vec![("x1".into(), true), ("w".into(), false)]);
    assert_eq!(
        tombstones(turn(&mut session).await),
        [("x1".to_owned(), Released, true)],
        "not what the hub holds"
    );
    rig.gateway.let_go("m", vec![("x1".into(), true)]);
    assert_eq!(tombstones(turn(&mut session).await), [], "it is told once");
    // Decided while the site was away.
    *rig.fake.decided.lock() = vec![("x2".into(), false), ("w".into(), false)];
    say(named());
    assert_eq!(tombstones(turn(&mut session).await), [("x2".to_owned(), Released, false)]);
    // The last two were not decided on: what was found there is gone from the site by itself, or they are Works of another hub.
    for (key, uid) in [("x2", "u"), ("x3", ""), ("x4", "u")] {
        let uid = uid.into();
        let removed = karmada_proto::v1::Removed { key: key.into(), uid, held: true, ..Default::default() };
        say(agent_frame::Body::Removed(removed));
    }
    assert_eq!(tombstones(turn(&mut session).await).len(), 3, "all may be forgotten");
    let told = ["finalized x2", "finalized x3"];
    assert_eq!(*rig.fake.written.lock(), told, "of a Work that was not decided on, nothing is told");
}

/// The word was given while the link was down, or does not reach whoever it is for in the session in which it is given.
#[tokio::test(start_paused = true)]
async fn a_word_on_orphans_is_told_when_a_session_begins_and_again_when_they_are_named() {
    let rig = Rig::new();
    let tombstones = |said: Vec<hub_frame::Body>| {
        said.into_iter()
            .filter_map(|body| match body {
                hub_frame::Body::Tombstone(tombstone) => Some(tombstone.key),
                _ => None,
            })
            .collect::<Vec<_>>()
    };
    *rig.fake.decided.lock() = vec![("x".into(), false), ("w".into(), false)];
    let (frames, mut session) = rig.open().await.unwrap();
    assert_eq!(tombstones(turn(&mut session).await), ["x"], "and none for what is a Work");
    let orphans = || frame::agent(agent_frame::Body::Orphans(Orphans { keys: vec!["x".into()] }));
    frames.unbounded_send(Ok(orphans())).unwrap();
    assert_eq!(tombstones(turn(&mut session).await), ["x"], "it was not known there before");
    rig.gateway.let_go("m", vec![("x".into(), false)]);
    assert_eq!(tombstones(turn(&mut session).await), [""; 0], "each change of the Cluster repeats it");
}

/// Each is a write of the Cluster, a certificate and a line of the audit log.
#[tokio::test(start_paused = true)]
async fn certificates_are_renewed_a_few_at_once_and_then_seldom() {
    let rig = Rig::new();
    let key = karmada_certs::ClientKey::generate().unwrap();
    let csr = Bytes::from(key.request(&karmada_certs::agent_subject("m")).unwrap());
    let renew = || frame::agent(agent_frame::Body::Renew(RenewRequest { csr: csr.clone() }));
    let mut answers = 0;
    for _ in 0..4 {
        let (frames, mut session) = rig.open().await.unwrap();
        for _ in 0..50 {
            frames.unbounded_send(Ok(renew())).unwrap();
            let said = turn(&mut session).await;
            answers += said.iter().filter(|body| matches!(body, hub_frame::Body::Renewed(_))).count();
        }
    }
    assert_eq!(answers, 200, "each is answered");
    let renewals = rig.fake.renewals.load(Ordering::SeqCst);
    assert!((2..10).contains(&renewals), "{renewals} in a moment, over all sessions of the cluster");
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let (frames, mut session) = rig.open().await.unwrap();
    frames.unbounded_send(Ok(renew())).unwrap();
    turn(&mut session).await;
    assert_eq!(rig.fake.renewals.load(Ordering::SeqCst), renewals + 1, "an hour later");
}
