//! Whatever carries a session: bytes that come slowly, answers that nobody takes, a stream that breaks.

use super::*;

/// A frame takes as long as a slow link needs for it; as long as its bytes come, its sender is alive.
#[tokio::test(start_paused = true)]
async fn bytes_of_an_unfinished_frame_are_life() {
    let rig = Rig::new();
    for trickles in [true, false] {
        let (frames, session) = rig.open().await.unwrap();
        let last_read = LastRead::default();
        let mut session = session.with_last_read(last_read.clone());
        let ping = Ping { seq: 1, next_ms: 1000, ..Ping::default() };
        frames.unbounded_send(Ok(frame::agent(agent_frame::Body::Ping(ping)))).unwrap();
        let mut said = turn(&mut session).await;
        for _ in 0..60 {
            if trickles {
                last_read.note(rig.gateway.now());
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
            said.extend(turn(&mut session).await);
        }
        let closed = said.iter().any(|body| matches!(body, hub_frame::Body::Close(_)));
        assert_eq!(closed, !trickles);
        let asked = said.iter().any(|body| matches!(body, hub_frame::Body::Ping(_)));
        assert!(!trickles || !asked, "who is heard is not asked whether it is there");
    }
}

/// An agent that asks and asks, and takes no answers: what waits for it does not grow with what it sends.
#[tokio::test(start_paused = true)]
async fn who_takes_no_answers_is_not_listened_to() {
    let rig = Rig::new();
    let (frames, mut session) = rig.open().await.unwrap();
    turn(&mut session).await;
    let ping = |seq| Ping { seq, next_ms: 1000, ..Ping::default() };
    for seq in 0..10_000 {
        frames.unbounded_send(Ok(frame::agent(agent_frame::Body::Ping(ping(seq))))).unwrap();
    }
    for _ in 0..100 {
        assert!(session.next().await.is_some());
    }
    assert!(frames.len() > 9_700, "{} of 10,000 are still to be read", frames.len());
    let answered = turn(&mut session).await;
    assert_eq!(answered.len(), 9_900, "and each is answered once it is taken");
}

/// A session from its hello to its end over channels in memory: what carries frames is of no concern to it.
#[tokio::test(start_paused = true)]
async fn a_session_runs_over_any_stream_and_sink() {
    let rig = Rig::new();
    *rig.fake.cluster.lock() = "m".to_owned();
    let (frames, inbound) = mpsc::unbounded::<Result<AgentFrame, Broken>>();
    let (outbound, mut said) = mpsc::channel(1);
    let caller =
        Caller { peer: rig.peer.clone(), from: None, last_read: LastRead::default(), transport: "memory" };
    let gateway = rig.gateway.clone();
    let carried = tokio::spawn(async move { connection::carry(&gateway, caller, inbound, outbound).await });
    let say = |body| frames.unbounded_send(Ok(frame::agent(body))).unwrap();
    say(agent_frame::Body::Hello(hello("m")));
    let body = |frame: Option<HubFrame>| frame.and_then(|frame| frame.body);
    assert!(matches!(body(said.next().await), Some(hub_frame::Body::Welcome(_))));
    assert!(matches!(body(said.next().await), Some(hub_frame::Body::SnapshotStart(_))));
    assert_eq!(rig.gateway.fleet().link("m").session.map(|session| session.transport), Some("memory"));
    say(agent_frame::Body::Ping(Ping { seq: 3, next_ms: 1000, ..Ping::default() }));
    assert!(matches!(body(said.next().await), Some(hub_frame::Body::Pong(pong)) if pong.seq == 3));
    frames.unbounded_send(status("w", 1, 0)).unwrap();
    while rig.fake.written.lock().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    rig.fake.revoked.store(true, Ordering::SeqCst);
    assert!(rig.gateway.review("m").await);
    loop {
        match body(said.next().await).unwrap() {
            hub_frame::Body::Close(close) => break assert_eq!(close.code(), CloseCode::Revoked),
            hub_frame::Body::Credit(_) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(said.next().await.is_none(), "the sink is closed");
    carried.await.unwrap().unwrap();
    assert_eq!((rig.link("m"), rig.gateway.fleet().sessions()), (LinkState::Offline, 0));
}

/// A sink that breaks ends the session, and so does a stream that does.
#[tokio::test(start_paused = true)]
async fn a_transport_that_breaks_ends_the_session() {
    let rig = Rig::new();
    *rig.fake.cluster.lock() = "m".to_owned();
    for sink_breaks in [true, false] {
        let (frames, inbound) = mpsc::unbounded::<Result<AgentFrame, Broken>>();
        let (outbound, mut said) = mpsc::channel(1);
        let caller = Caller {
            peer: rig.peer.clone(),
            from: None,
            last_read: LastRead::default(),
            transport: "memory",
        };
        let gateway = rig.gateway.clone();
        let carried =
            tokio::spawn(async move { connection::carry(&gateway, caller, inbound, outbound).await });
        frames.unbounded_send(Ok(frame::agent(agent_frame::Body::Hello(hello("m"))))).unwrap();
        assert!(said.next().await.is_some());
        if sink_breaks {
            drop(said);
        } else {
            frames.unbounded_send(Err(Broken)).unwrap();
            while said.next().await.is_some() {}
        }
        assert_eq!(carried.await.unwrap().is_err(), sink_breaks);
        assert_eq!(rig.gateway.fleet().sessions(), 0);
    }
}
