//! Two ends of a tunnel over channels, and one end against whoever does not keep to the protocol.

use std::time::Duration;

use proptest::prelude::*;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::WINDOW;

type Frames = std::pin::Pin<Box<dyn Stream<Item = TunnelFrame> + Send>>;

fn channel() -> (mpsc::Sender<TunnelFrame>, Frames) {
    let (send, receive) = mpsc::channel(4);
    let frames = futures::stream::unfold(receive, |mut frames| async move {
        let frame: TunnelFrame = frames.recv().await?;
        Some((frame, frames))
    });
    (send, Box::pin(frames))
}

struct End {
    out: Outgoing,
    heard: Incoming,
    guard: Guard,
    ends: tokio::task::JoinHandle<()>,
}

fn end(flow: Flow, frames: Frames, out: mpsc::Sender<TunnelFrame>) -> End {
    let (outgoing, heard, guard, pump) = open(flow, frames, out, &CancellationToken::new());
    End { out: outgoing, heard, guard, ends: tokio::spawn(pump) }
}

fn pair(window: u64) -> (End, End) {
    let ((left_out, right_frames), (right_out, left_frames)) = (channel(), channel());
    let flow = Flow::new(window, window);
    (end(flow.clone(), left_frames, left_out), end(flow, right_frames, right_out))
}

/// One end, and the frames of the other by hand.
fn alone(window: u64) -> (End, mpsc::Sender<TunnelFrame>, Frames) {
    let ((out, sent), (send, frames)) = (channel(), channel());
    (end(Flow::new(window, window), frames, out), send, sent)
}

fn data(offset: u64, bytes: &'static [u8]) -> TunnelFrame {
    let bytes = Bytes::from_static(bytes);
    frame::tunnel(tunnel_frame::Body::Data(TunnelData { offset, bytes }))
}

fn head(status: u32) -> TunnelResponse {
    TunnelResponse { status, headers: Vec::new() }
}

async fn all(mut heard: Incoming) -> (Vec<u32>, Vec<u8>, Option<Reset>) {
    let (mut heads, mut bytes) = (Vec::new(), Vec::new());
    while let Some(part) = heard.next().await {
        match part {
            Ok(Part::Head(head)) => heads.push(head.status),
            Ok(Part::Data(data)) => bytes.extend_from_slice(&data),
            Err(reset) => return (heads, bytes, Some(reset)),
        }
    }
    (heads, bytes, None)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Both directions arrive whole, at any window, however they are cut.
    #[test]
    fn what_is_said_arrives(
        window in 1_u64..3000,
        ours in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..4000), 0..12),
        theirs in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..4000), 0..12),
    ) {
        runtime().block_on(async {
            let (left, right) = pair(window);
            let say = |out: Outgoing, parts: Vec<Vec<u8>>, status: Option<u32>| async move {
                if let Some(status) = status {
                    assert!(out.say(Part::Head(head(status))).await);
                }
                for part in parts {
                    assert!(out.say(Part::Data(part.into())).await);
                }
            };
            let (_left, _right) = (left.guard, right.guard);
            let (_, _, there, here) = tokio::join!(
                say(left.out, ours.clone(), None),
                say(right.out, theirs.clone(), Some(200)),
                all(right.heard),
                all(left.heard),
            );
            assert_eq!(there, (vec![], ours.concat(), None));
            assert_eq!(here, (vec![200], theirs.concat(), None));
            left.ends.await.unwrap();
            right.ends.await.unwrap();
        });
    }
}

#[tokio::test(start_paused = true)]
async fn who_reads_nothing_holds_a_window_and_no_more() {
    let (left, right) = pair(WINDOW);
    let mut taken = 0_usize;
    loop {
        let said = left.out.say(Part::Data(vec![0; 10_000].into()));
        if tokio::time::timeout(Duration::from_secs(1), said).await.is_err() {
            break;
        }
        taken += 10_000;
        assert!(taken < 10 * WINDOW as usize, "everything is taken in");
    }
    assert!(taken as u64 >= WINDOW);
    // The other direction goes on meanwhile.
    assert!(right.out.say(Part::Data(Bytes::from_static(b"still"))).await);
    let mut heard = left.heard;
    assert_eq!(heard.next().await, Some(Ok(Part::Data(Bytes::from_static(b"still")))));
}

#[tokio::test(start_paused = true)]
async fn what_nobody_hears_does_not_hold_up_the_answer() {
    let (left, right) = pair(100);
    drop(right.heard);
    for _ in 0..50 {
        assert!(left.out.say(Part::Data(vec![0; 100].into())).await);
    }
    assert!(right.out.say(Part::Head(head(413))).await);
    drop((left.out, right.out));
    assert_eq!(all(left.heard).await, (vec![413], vec![], None));
}

#[tokio::test(start_paused = true)]
async fn who_goes_away_ends_both_ends() {
    let (left, right) = pair(100);
    drop(left.guard);
    let (_, _, reset) = all(right.heard).await;
    assert_eq!(reset.map(|reset| reset.code), Some(TunnelResetCode::TunnelCancelled));
    left.ends.await.unwrap();
    right.ends.await.unwrap();
    assert!(!right.out.say(Part::Data(Bytes::from_static(b"x"))).await);
}

#[tokio::test(start_paused = true)]
async fn a_tunnel_that_breaks_says_so_after_what_came() {
    let (end, frames, _sent) = alone(100);
    frames.send(data(0, b"so far")).await.unwrap();
    drop(frames);
    let (_, bytes, reset) = all(end.heard).await;
    assert_eq!(bytes, b"so far");
    assert_eq!(reset, Some(Reset::new(TunnelResetCode::TunnelResetUnspecified, "the tunnel broke")));
    end.ends.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn whoever_does_not_keep_to_the_protocol_is_told_and_left() {
    use tunnel_frame::Body as B;
    let response = || frame::tunnel(B::Response(head(200)));
    let faults = [
        vec![data(1, b"gap")],
        vec![data(0, &[0; 101])],
        vec![data(0, b"ab"), data(1, b"b")],
        vec![response(), response()],
        vec![frame::tunnel(B::End(TunnelEnd { offset: 1 }))],
        vec![frame::tunnel(B::End(TunnelEnd { offset: 0 })), data(0, b"x")],
        vec![frame::tunnel(B::Window(TunnelWindow { until: 3 }))],
        vec![frame::tunnel(B::Hello(Default::default()))],
        vec![frame::tunnel(B::Request(Default::default()))],
        vec![TunnelFrame { kind: 77, body: None }],
    ];
    for fault in faults {
        let (end, frames, mut sent) = alone(100);
        for frame in fault.clone() {
            frames.send(frame).await.unwrap();
        }
        let (_, _, reset) = all(end.heard).await;
        assert_eq!(reset.unwrap().code, TunnelResetCode::TunnelProtocol, "{fault:?}");
        end.ends.await.unwrap();
        let mut last = None;
        while let Some(frame) = sent.next().await {
            last = Some(frame);
        }
        assert!(matches!(last.unwrap().body, Some(B::Reset(_))), "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_flood_without_a_listener_is_bounded() {
    let (end, frames, _sent) = alone(1000);
    let mut offset = 0;
    // Empty frames cost no bytes: they are not kept.
    for _ in 0..10_000 {
        frames.send(data(offset, b"")).await.unwrap();
    }
    for _ in 0..10_000 {
        frames.send(data(offset, &[0; 100])).await.unwrap();
        offset += 100;
    }
    let (_, bytes, reset) = all(end.heard).await;
    // A window, and the parts that were on their way to the listener.
    assert!(bytes.len() <= 3000 && reset.unwrap().code == TunnelResetCode::TunnelProtocol);
}

/// What waits for a slow reader is bounded by more than its bytes: each part that waits costs what a part costs, however small.
#[tokio::test(start_paused = true)]
async fn single_bytes_do_not_wait_as_parts_of_their_own() {
    let (end, frames, _sent) = alone(WINDOW);
    for offset in 0..WINDOW {
        frames.send(data(offset, b"x")).await.unwrap();
    }
    let ended = frame::tunnel(tunnel_frame::Body::End(TunnelEnd { offset: WINDOW }));
    frames.send(ended).await.unwrap();
    drop(end.out);
    let (mut heard, mut parts, mut bytes) = (end.heard, 0, 0);
    while let Some(Ok(Part::Data(data))) = heard.next().await {
        (parts, bytes) = (parts + 1, bytes + data.len());
    }
    assert_eq!(bytes as u64, WINDOW);
    assert!(parts < 1000, "{parts} parts of {} bytes waited", size_of::<Part>());
}

/// A tunnel that is ended from outside in the middle of an answer: who hears it can tell that from an answer that is whole.
#[tokio::test(start_paused = true)]
async fn what_is_cut_off_does_not_end_as_what_is_whole() {
    let ((out, _sent), (send, frames)) = (channel(), channel());
    let session = CancellationToken::new();
    let (_outgoing, mut heard, _guard, pump) = open(Flow::new(100, 100), frames, out, &session);
    tokio::spawn(pump);
    send.send(frame::tunnel(tunnel_frame::Body::Response(head(200)))).await.unwrap();
    send.send(data(0, b"half of")).await.unwrap();
    assert_eq!(heard.next().await, Some(Ok(Part::Head(head(200)))));
    assert_eq!(heard.next().await, Some(Ok(Part::Data(Bytes::from_static(b"half of")))));
    session.cancel();
    assert!(matches!(heard.next().await, Some(Err(_))), "it ends as if it were whole");
}
