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

/// Frames of any sort, most of which nobody would send there: with numbers near those that are kept to, and far from them.
fn any_frame() -> impl Strategy<Value = TunnelFrame> {
    use tunnel_frame::Body as B;
    let number = || prop_oneof![4 => 0_u64..600, 1 => Just(u64::MAX), 1 => any::<u64>()];
    let bytes = prop::collection::vec(any::<u8>(), 0..200).prop_map(Bytes::from);
    let body = prop_oneof![
        8 => (number(), bytes).prop_map(|(offset, bytes)| B::Data(TunnelData { offset, bytes })),
        4 => number().prop_map(|until| B::Window(TunnelWindow { until })),
        1 => number().prop_map(|offset| B::End(TunnelEnd { offset })),
        1 => any::<u32>().prop_map(|status| B::Response(head(status))),
        1 => (any::<i32>(), ".{0,300}").prop_map(|(code, message)| B::Reset(TunnelReset { code, message })),
        1 => Just(B::Hello(Default::default())),
    ];
    prop_oneof![9 => body.prop_map(frame::tunnel), 1 => Just(TunnelFrame { kind: 77, body: None })]
}

proptest! {
    /// Whatever the other end says: this one ends, says no more than it was allowed, and hears no more than it allowed.
    #[test]
    fn any_end_at_all_is_survived(said in prop::collection::vec(any_frame(), 0..60), reads in any::<bool>()) {
        runtime().block_on(async {
            let (end, frames, sent) = alone(500);
            let most = said.iter().filter_map(|frame| match &frame.body {
                Some(tunnel_frame::Body::Window(window)) => Some(window.until),
                _ => None,
            });
            let most = most.max().unwrap_or_default().max(500);
            let says = async {
                end.out.say(Part::Data(vec![7; 1000].into())).await;
                drop(end.out);
            };
            let hears = async move {
                for frame in said {
                    if frames.send(frame).await.is_err() {
                        break;
                    }
                }
                drop(frames);
            };
            let counts = async move {
                let mut sent = sent;
                let mut bytes = 0;
                while let Some(frame) = sent.next().await {
                    if let Some(tunnel_frame::Body::Data(data)) = frame.body {
                        bytes += data.bytes.len() as u64;
                    }
                }
                bytes
            };
            let heard = end.heard;
            let takes = async move { if reads { all(heard).await.1.len() } else { 0 } };
            let (_, _, bytes, _) = tokio::join!(says, hears, counts, takes);
            assert!(bytes <= most, "{bytes} where {most} were allowed");
            end.ends.await.unwrap();
        });
    }
}

/// A message may be longer than the bytes in it: what waits keeps its bytes, and not what stood around them.
#[tokio::test(start_paused = true)]
async fn what_waits_does_not_keep_the_message_that_it_came_in() {
    struct Message(std::sync::Arc<Vec<u8>>);
    impl AsRef<[u8]> for Message {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    let kept = std::sync::Arc::new(vec![7; crate::MESSAGE]);
    let (_end, frames, _sent) = alone(WINDOW);
    let size = CHUNK / 4;
    for at in 0..WINDOW as usize / size {
        let message = Bytes::from_owner(Message(kept.clone()));
        let data = TunnelData { offset: (at * size) as u64, bytes: message.slice(..size) };
        frames.send(frame::tunnel(tunnel_frame::Body::Data(data))).await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let messages = std::sync::Arc::strong_count(&kept) - 1;
    assert!(messages < 10, "{messages} messages are kept for {WINDOW} bytes that wait");
}

/// An end that reads nothing and sends as if it had: what it is told is one word, however much there was to tell.
#[tokio::test(start_paused = true)]
async fn what_an_end_is_allowed_does_not_pile_up() {
    let (end, frames, sent) = alone(1000);
    let mut heard = end.heard;
    for at in 0..1000_u64 {
        frames.send(data(at * 500, &[0; 500])).await.unwrap();
        let mut bytes = 0;
        while bytes < 500 {
            let Some(Ok(Part::Data(part))) = heard.next().await else { panic!("it ended") };
            bytes += part.len();
        }
    }
    drop(end.out);
    let (mut sent, mut windows) = (sent, 0);
    while let Some(TunnelFrame { body: Some(body), .. }) = sent.next().await {
        match body {
            tunnel_frame::Body::End(_) => break,
            tunnel_frame::Body::Window(_) => windows += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(windows < 10, "{windows} of them waited");
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
