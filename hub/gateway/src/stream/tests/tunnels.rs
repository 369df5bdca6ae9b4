//! Tunnels that agents are asked for: who gets one, who does not, and what ends one.

use karmada_proto::ASK;
use karmada_proto::v1::{
    Answer, AskRefusal, AskRefusalCode, TunnelComes, TunnelFrame, TunnelHello, TunnelRequest,
    TunnelResetCode, TunnelResponse, answer, ask, tunnel_frame,
};
use karmada_tunnel::{Part, WINDOW};

use super::*;
use crate::open_tunnel::{OpenTunnel, TunnelError};

type TunnelFrames = mpsc::UnboundedSender<Result<TunnelFrame, Broken>>;

fn request(path: &str) -> TunnelRequest {
    TunnelRequest { method: "GET".into(), path: path.into(), ..TunnelRequest::default() }
}

/// A request to "m" on its way.
fn tunnel(rig: &Rig, path: &str) -> tokio::task::JoinHandle<Result<OpenTunnel, TunnelError>> {
    let (gateway, request) = (rig.gateway.clone(), request(path));
    tokio::spawn(async move { gateway.tunnel("m", request).await })
}

async fn asked(rig: &Rig) -> (Frames, SessionStream<Inbound>) {
    let (frames, mut session) =
        rig.open_with("m", |hello| hello.features = vec![ASK.to_owned()]).await.unwrap();
    turn(&mut session).await;
    (frames, session)
}

/// The question that the agent is asked, and the tunnel's id in it.
async fn question(session: &mut SessionStream<Inbound>) -> (u64, Bytes) {
    let said = turn(session).await;
    let asks: Vec<_> = said
        .into_iter()
        .filter_map(|body| match body {
            hub_frame::Body::Ask(ask) => Some(ask),
            _ => None,
        })
        .collect();
    match &asks[..] {
        [ask] => match ask.question.clone() {
            Some(ask::Question::OpenTunnel(open)) => (ask.id, open.id),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// Dials as `peer` for `id`.
async fn dial(
    rig: &Rig,
    peer: &PeerIdentity,
    id: &Bytes,
) -> Result<(TunnelFrames, tokio::sync::mpsc::Receiver<TunnelFrame>), &'static str> {
    let (frames, inbound) = mpsc::unbounded();
    let hello = TunnelHello { id: id.clone(), window: WINDOW };
    frames.unbounded_send(Ok(frame::tunnel(tunnel_frame::Body::Hello(hello)))).unwrap();
    let sent = rig.gateway.accept_tunnel(peer, inbound).await?;
    Ok((frames, sent))
}

#[tokio::test(start_paused = true)]
async fn a_request_goes_to_the_member_and_its_answer_comes_back() {
    let rig = Rig::new();
    let (frames, mut session) = asked(&rig).await;
    let opening = tunnel(&rig, "/api/v1/pods?limit=1");
    let (ask, id) = question(&mut session).await;
    let comes = Answer { id: ask, result: Some(answer::Result::TunnelComes(TunnelComes {})) };
    frames.unbounded_send(Ok(frame::agent(agent_frame::Body::Answer(comes)))).unwrap();
    turn(&mut session).await;
    let (agent, mut sent) = dial(&rig, &rig.peer, &id).await.unwrap();
    let mut open = opening.await.unwrap().unwrap();
    match sent.recv().await.unwrap().body {
        Some(tunnel_frame::Body::Request(request)) => {
            assert_eq!((request.path.as_str(), request.window), ("/api/v1/pods?limit=1", WINDOW));
        }
        other => panic!("{other:?}"),
    }
    let response = TunnelResponse { status: 200, headers: Vec::new() };
    agent.unbounded_send(Ok(frame::tunnel(tunnel_frame::Body::Response(response.clone())))).unwrap();
    assert_eq!(open.incoming.next().await, Some(Ok(Part::Head(response))));
    drop(open.guard);
    let last = async {
        while let Some(frame) = sent.recv().await {
            if let Some(tunnel_frame::Body::Reset(reset)) = frame.body {
                return reset.code();
            }
        }
        panic!("the agent is not told that nobody wants the answer");
    };
    assert_eq!(last.await, TunnelResetCode::TunnelCancelled);
}

/// Each of these knows the id, or guesses one; none of them gets the tunnel, and it stays there for the one who was asked.
#[tokio::test(start_paused = true)]
async fn a_tunnel_is_of_the_agent_that_was_asked_and_for_one_use() {
    let rig = Rig::new();
    let (_frames, mut session) = asked(&rig).await;
    let opening = tunnel(&rig, "/");
    let (_, id) = question(&mut session).await;
    let nobodys = Err("nobody asked for this tunnel");
    let refused = |dialled: Result<(TunnelFrames, _), _>| dialled.map(|_| ());
    assert_eq!(refused(dial(&rig, &peer("m"), &id).await), nobodys, "another key for the same cluster");
    *rig.fake.cluster.lock() = "n".to_owned();
    assert_eq!(refused(dial(&rig, &rig.peer, &id).await), nobodys, "a cluster that has the key by now");
    *rig.fake.cluster.lock() = "m".to_owned();
    for guess in [Bytes::new(), Bytes::from_static(&[0; 16]), id.slice(1..), [&id[..], b"x"].concat().into()]
    {
        assert_eq!(refused(dial(&rig, &rig.peer, &guess).await), nobodys);
    }
    rig.fake.revoked.store(true, Ordering::SeqCst);
    assert_eq!(refused(dial(&rig, &rig.peer, &id).await), Err("this identity has no session"));
    rig.fake.revoked.store(false, Ordering::SeqCst);
    let _agent = dial(&rig, &rig.peer, &id).await.unwrap();
    opening.await.unwrap().unwrap();
    assert_eq!(refused(dial(&rig, &rig.peer, &id).await), nobodys, "once more");
}

#[tokio::test(start_paused = true)]
async fn who_has_no_agent_to_ask_is_told_at_once() {
    let rig = Rig::new();
    let begun = rig.gateway.now();
    assert_eq!(
        rig.gateway.tunnel("m", request("/")).await.unwrap_err(),
        TunnelError::NotConnected("m".into())
    );
    let (_frames, mut session) = rig.open().await.unwrap();
    let opening = tunnel(&rig, "/");
    let said = turn(&mut session).await;
    assert!(!said.iter().any(|body| matches!(body, hub_frame::Body::Ask(_))), "one without the feature");
    assert_eq!(opening.await.unwrap().unwrap_err(), TunnelError::TooOld("m".into()));
    assert!(rig.gateway.now() - begun < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_passed_on_and_silence_ends() {
    let rig = Rig::new();
    let (frames, mut session) = asked(&rig).await;
    let opening = tunnel(&rig, "/");
    let (id, _) = question(&mut session).await;
    let refusal = AskRefusal { code: AskRefusalCode::NotAllowed.into(), message: "not\nhere".into() };
    let answer = Answer { id, result: Some(answer::Result::Refusal(refusal)) };
    for answer in [Answer { id: id + 7, ..answer.clone() }, answer] {
        frames.unbounded_send(Ok(frame::agent(agent_frame::Body::Answer(answer)))).unwrap();
    }
    turn(&mut session).await;
    let refused = TunnelError::Refused("m".into(), "not here".into());
    assert_eq!(opening.await.unwrap().unwrap_err(), refused);
    let opening = tunnel(&rig, "/");
    let (_, id) = question(&mut session).await;
    let error = opening.await.unwrap().unwrap_err();
    assert_eq!(error, TunnelError::NotOpened("m".into(), "nothing came within 10 s"));
    assert!(dial(&rig, &rig.peer, &id).await.is_err(), "who comes late finds nobody");
}

/// An identity that is shut out: what it carries ends with its session, at once.
#[tokio::test(start_paused = true)]
async fn a_tunnel_ends_with_its_session() {
    let rig = Rig::new();
    let (_frames, mut session) = asked(&rig).await;
    let (first, second) = (tunnel(&rig, "/1"), tunnel(&rig, "/2"));
    let said = turn(&mut session).await;
    let ids: Vec<Bytes> = said
        .into_iter()
        .filter_map(|body| match body {
            hub_frame::Body::Ask(ask) => match ask.question {
                Some(ask::Question::OpenTunnel(open)) => Some(open.id),
                _ => None,
            },
            _ => None,
        })
        .collect();
    let (_agent, mut sent) = dial(&rig, &rig.peer, &ids[0]).await.unwrap();
    let mut open = first.await.unwrap().unwrap();
    rig.fake.revoked.store(true, Ordering::SeqCst);
    assert!(rig.gateway.review("m").await);
    assert!(matches!(open.incoming.next().await, None | Some(Err(_))));
    while sent.recv().await.is_some() {}
    let error = second.await.unwrap().unwrap_err();
    assert_eq!(error, TunnelError::NotOpened("m".into(), "its session ended"));
}

#[tokio::test(start_paused = true)]
async fn no_more_are_open_than_may_be_and_places_come_back() {
    let rig = Rig::new();
    let (_frames, mut session) = asked(&rig).await;
    let mut open = Vec::new();
    for _ in 0..200 {
        let opening = tunnel(&rig, "/");
        let said = turn(&mut session).await;
        if said.is_empty() {
            assert_eq!(opening.await.unwrap().unwrap_err(), TunnelError::Busy);
            break;
        }
        let Some(hub_frame::Body::Ask(ask)) = said.first() else { panic!("{said:?}") };
        let Some(ask::Question::OpenTunnel(wanted)) = &ask.question else { panic!("{ask:?}") };
        let agent = dial(&rig, &rig.peer, &wanted.id).await.unwrap();
        open.push((agent, opening.await.unwrap().unwrap()));
    }
    assert_eq!(open.len(), 128);
    open.pop();
    let opening = tunnel(&rig, "/");
    let (_, id) = question(&mut session).await;
    let _agent = dial(&rig, &rig.peer, &id).await.unwrap();
    opening.await.unwrap().unwrap();
}

/// The agent has as many tunnels as it takes, for now: 429 to the client, not 403.
#[tokio::test(start_paused = true)]
async fn an_agent_that_is_busy_is_not_one_that_forbids() {
    let rig = Rig::new();
    let (frames, mut session) = asked(&rig).await;
    let opening = tunnel(&rig, "/");
    let (id, _) = question(&mut session).await;
    let refusal = AskRefusal { code: AskRefusalCode::AskBusy.into(), message: "too many".into() };
    let answer = Answer { id, result: Some(answer::Result::Refusal(refusal)) };
    frames.unbounded_send(Ok(frame::agent(agent_frame::Body::Answer(answer)))).unwrap();
    turn(&mut session).await;
    assert_eq!(opening.await.unwrap().unwrap_err(), TunnelError::Busy);
}
