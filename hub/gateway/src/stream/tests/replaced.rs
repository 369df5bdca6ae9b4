//! Sessions that are replaced, ended, refused or sent away: who may still write, and who is told.

use super::*;

#[tokio::test(start_paused = true)]
async fn what_a_replaced_session_has_under_way_is_not_written_after_the_newer_ones() {
    let rig = Rig::new();
    let (old_frames, mut old) = rig.open().await.unwrap();
    rig.fake.gated.store(true, Ordering::SeqCst);
    old_frames.unbounded_send(status("w", 1, 0)).unwrap();
    turn(&mut old).await;
    let (new_frames, mut new) = rig.open().await.unwrap();
    rig.fake.gated.store(false, Ordering::SeqCst);
    new_frames.unbounded_send(status("w", 2, 0)).unwrap();
    turn(&mut new).await;
    rig.fake.gate.notify_waiters();
    let said = turn(&mut old).await;
    assert!(
        said.iter().any(|body| matches!(body, hub_frame::Body::Close(c) if c.code() == CloseCode::Replaced))
    );
    assert_eq!(*rig.fake.written.lock(), ["w@2"], "the older word never comes last");
}

#[tokio::test(start_paused = true)]
async fn what_a_session_that_was_ended_has_under_way_is_dropped() {
    let rig = Rig::new();
    let (frames, mut session) = rig.open().await.unwrap();
    rig.fake.gated.store(true, Ordering::SeqCst);
    frames.unbounded_send(status("w", 1, 0)).unwrap();
    turn(&mut session).await;
    rig.fake.revoked.store(true, Ordering::SeqCst);
    assert!(rig.gateway.review("m").await);
    rig.fake.gated.store(false, Ordering::SeqCst);
    rig.fake.gate.notify_waiters();
    frames.unbounded_send(status("w2", 2, 0)).unwrap();
    let said = turn(&mut session).await;
    assert!(
        said.iter().any(|body| matches!(body, hub_frame::Body::Close(c) if c.code() == CloseCode::Revoked)),
        "{said:?}"
    );
    assert!(rig.fake.written.lock().is_empty(), "{:?}", rig.fake.written.lock());
    assert_eq!(rig.link("m"), LinkState::Offline);
    assert!(rig.gateway.fleet().sessions() == 0);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_was_given_up_is_closed_when_it_comes_to_life() {
    let rig = Rig::new();
    let (frames, mut session) = rig.open().await.unwrap();
    frames
        .unbounded_send(Ok(frame::agent(agent_frame::Body::Ping(Ping {
            seq: 1,
            next_ms: 1000,
            ..Ping::default()
        }))))
        .unwrap();
    turn(&mut session).await;
    // Its transport takes nothing, so that nobody polls it; the hub gives it up.
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(rig.link("m"), LinkState::Offline);
    frames
        .unbounded_send(Ok(frame::agent(agent_frame::Body::Ping(Ping {
            seq: 2,
            next_ms: 1000,
            ..Ping::default()
        }))))
        .unwrap();
    frames.unbounded_send(status("w", 1, 0)).unwrap();
    let said = turn(&mut session).await;
    assert!(matches!(said.last(), Some(hub_frame::Body::Close(_))), "{said:?}");
    assert!(session.next().await.is_none(), "and it ends");
    assert_eq!(rig.link("m"), LinkState::Offline, "both sides say the same");
    assert!(rig.fake.written.lock().is_empty(), "nothing is written in its name");
}

#[tokio::test(start_paused = true)]
async fn who_is_shut_out_while_a_session_opens_gets_none() {
    let rig = Rig::new();
    rig.fake.revoke_while_watching.store(true, Ordering::SeqCst);
    assert_eq!(rig.open().await.err(), Some(CloseCode::Revoked));
    assert!(rig.gateway.fleet().sessions() == 0);
}

#[tokio::test(start_paused = true)]
async fn who_is_told_to_trust_others_and_who_is_sent_away() {
    let rig = Rig::new();
    let (_frames, mut session) = rig.open().await.unwrap();
    turn(&mut session).await;
    rig.gateway.tell_trust(9).await;
    let said = turn(&mut session).await;
    let told = said.iter().find_map(|body| match body {
        hub_frame::Body::Resync(again) => Some(again.trust_bundle_revision),
        _ => None,
    });
    assert_eq!(told, Some(9));
    assert_eq!(rig.gateway.send_away(|_| false), 0);
    let issuer = rig.peer.issuer.clone();
    assert_eq!(rig.gateway.send_away(|peer| peer.issuer == issuer), 1);
    let said = turn(&mut session).await;
    let Some(hub_frame::Body::Close(close)) = said.last() else { panic!("{said:?}") };
    assert_eq!((close.code(), close.retry()), (CloseCode::Recycle, karmada_proto::v1::RetryClass::RetryNow));
    assert!(rig.gateway.fleet().sessions() == 0);
}

#[tokio::test(start_paused = true)]
async fn a_drain_draws_when_each_is_to_leave() {
    let rig = Rig::new();
    let mut open = Vec::new();
    for at in 0..8 {
        open.push(rig.open_with(&format!("m{at}"), |_| {}).await.unwrap());
    }
    for (_, session) in &mut open {
        turn(session).await;
    }
    let gateway = rig.gateway.clone();
    tokio::spawn(async move { gateway.drain(Duration::from_secs(1000)).await });
    let mut after = Vec::new();
    for (_, session) in &mut open {
        let said = turn(session).await;
        after.extend(said.iter().find_map(|body| match body {
            hub_frame::Body::Drain(drain) => Some(drain.after_ms),
            _ => None,
        }));
    }
    assert_eq!(after.len(), 8);
    assert!(after.iter().all(|after| *after <= 500_000));
    let by_position: Vec<u64> = (0..8).map(|at| 500_000 * at / 8).collect();
    assert_ne!(after, by_position, "not by place");
}

/// Refused once it had replaced the session before it: neither of the two is there then, and the link must not be said to stand.
#[tokio::test(start_paused = true)]
async fn a_link_stands_by_a_session_alone() {
    let rig = Rig::new();
    let (_frames, mut old) = rig.open().await.unwrap();
    turn(&mut old).await;
    assert_eq!(rig.link("m"), LinkState::Connected);
    rig.fake.accepted.store(2, Ordering::SeqCst);
    assert_eq!(rig.open().await.err(), Some(CloseCode::Revoked));
    turn(&mut old).await;
    drop(old);
    assert!(rig.gateway.fleet().sessions() == 0);
    assert_eq!(rig.link("m"), LinkState::Offline);
}

/// Each session is a write that is synced and a line of the log: an agent's key must not make them as fast as it can dial.
#[tokio::test(start_paused = true)]
async fn sessions_of_one_cluster_follow_one_another_so_often_and_no_more() {
    let rig = Rig::new();
    let many = async |cluster: &str, count: usize| {
        let mut opened = 0;
        for _ in 0..count {
            match rig.open_with(cluster, |_| {}).await {
                Ok(_) => opened += 1,
                Err(code) => assert_eq!(code, CloseCode::Busy),
            }
        }
        opened
    };
    assert_eq!(many("m", 500).await, 20);
    assert_eq!(rig.fake.sessions.load(Ordering::SeqCst), 20, "who is refused causes no write");
    assert_eq!(many("n", 5).await, 5, "others are not concerned");
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(many("m", 500).await, 20);
    tokio::time::advance(Duration::from_secs(4)).await;
    assert_eq!(many("m", 500).await, 2);
}
