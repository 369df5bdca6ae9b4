//! What a site reports: what is taken, what is dropped, what is answered.

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

#[tokio::test(start_paused = true)]
async fn what_is_unpacked_at_once_is_bounded_in_a_session_and_in_all() {
    let rig = Rig::new();
    rig.fake.gated.store(true, Ordering::SeqCst);
    let size = STATUS_LIMIT - 2;
    let mut sessions = Vec::new();
    let (frames, mut session) = rig.open().await.unwrap();
    for at in 0..200 {
        frames.unbounded_send(status(&format!("w{at}"), 1, size)).unwrap();
    }
    turn(&mut session).await;
    assert_eq!(rig.fake.most_at_once.load(Ordering::SeqCst), 1, "one of the largest at a time");
    sessions.push((frames, session));
    rig.fake.gated.store(false, Ordering::SeqCst);
    while rig.fake.written.lock().len() < 200 {
        rig.fake.gate.notify_waiters();
        turn(&mut sessions[0].1).await;
    }
    assert_eq!(rig.gateway.unpacked.available_permits(), 8 * 1024, "all is given back");
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
        agent_frame::Body::Orphans(karmada_proto::v1::Orphans { keys })
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
    for key in ["x2", "x3"] {
        let removed = karmada_proto::v1::Removed { key: key.into(), held: true, ..Default::default() };
        say(agent_frame::Body::Removed(removed));
    }
    assert_eq!(tombstones(turn(&mut session).await).len(), 2, "both may be forgotten");
    assert_eq!(*rig.fake.written.lock(), ["finalized x2"], "of what was not decided on, nothing is told");
}
