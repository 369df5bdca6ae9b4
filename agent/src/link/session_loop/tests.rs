//! What the link reads of a stream is handled, however much is there at once.

use std::collections::{BTreeMap, VecDeque};
use std::task::Poll;

use bytes::Bytes;
use futures::stream;
use karmada_proto::keepalive::Cadence;
use karmada_proto::v1::{Upsert, Welcome, hub_frame};
use karmada_proto::{body, frame};
use proptest::prelude::*;

use super::*;
use crate::session::{Opening, Unfinished};

fn upsert(at: usize) -> HubFrame {
    let chunk = Bytes::from(format!("{{\"manifests\":[{at}]}}"));
    frame::hub(hub_frame::Body::Upsert(Upsert {
        key: format!("w{at}"),
        uid: "u".into(),
        epoch: 1,
        revision: at as u64 + 1,
        hash: body::hash(&chunk),
        encoded_size: chunk.len() as u64,
        decoded_size: chunk.len() as u64,
        chunk,
        ..Upsert::default()
    }))
}

/// A session that was welcomed and has `window` of credit to take.
fn welcomed() -> Session {
    let held = BTreeMap::new();
    let opening = Opening { epoch: 1, ..Opening::default() };
    let mut session = Session::open(opening, held, Unfinished::default(), Cadence::default(), Duration::ZERO);
    let credit = Some(karmada_proto::v1::Credit { messages: 10, bytes: 1 << 20 });
    let welcome = Welcome { epoch: 1, credit, ..Welcome::default() };
    session.frame(frame::hub(hub_frame::Body::Welcome(welcome)), Duration::ZERO);
    session
}

/// Reads bursts of these sizes, each wholly there before the first of it is read; between two the stream is quiet. What
/// is committed is what the session made of them.
async fn handled(bursts: &[usize]) -> Vec<String> {
    let mut all = 0..;
    let mut coming: VecDeque<Option<usize>> = VecDeque::new();
    for burst in bursts {
        coming.extend(all.by_ref().take(*burst).map(Some));
        coming.push_back(None);
    }
    let mut inbound = stream::poll_fn(move |cx| match coming.pop_front() {
        Some(Some(at)) => Poll::Ready(Some(Ok(upsert(at)))),
        Some(None) => {
            cx.waker().wake_by_ref();
            Poll::Pending
        }
        None => Poll::Ready(None),
    });
    let (mut session, started, mut committed) = (welcomed(), Instant::now(), Vec::new());
    let (mut outbox, ledger) = (crate::outbox::Outbox::default(), Ledger::in_memory().unwrap());
    while session.ended().is_none() {
        let message = inbound.next().await;
        receive(&mut session, message, (&mut inbound, &ledger), started);
        committed.extend(session.take_changes().iter().filter_map(key_of));
        session.committed(started.elapsed());
        while session.next_frame(&mut outbox, started.elapsed()).is_some() {}
    }
    committed
}

fn keys(count: usize) -> Vec<String> {
    (0..count).map(|at| format!("w{at}")).collect()
}

#[tokio::test]
async fn what_is_read_is_handled_at_every_edge_of_a_batch() {
    for burst in (0..3 * BATCH).chain([1000, 5800, 10_000]) {
        assert_eq!(handled(&[burst]).await, keys(burst), "{burst} at once");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    /// However the frames are bunched, up to ten thousand at once.
    #[test]
    fn what_is_read_is_handled(bursts in prop::collection::vec(prop_oneof![0..200_usize, 0..10_000_usize], 0..4)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        prop_assert_eq!(runtime.block_on(handled(&bursts)), keys(bursts.iter().sum()));
    }
}

/// What takes a few hundred bytes on its way may be three million: what is held before it is written is bounded by what it becomes.
#[tokio::test]
async fn bodies_that_grow_are_written_before_more_are_read() {
    let text = Bytes::from(vec![b' '; karmada_proto::BODY_LIMIT]);
    let packed = body::encode(&text);
    let grows = |at: usize| {
        let HubFrame { body: Some(hub_frame::Body::Upsert(small)), .. } = upsert(at) else { unreachable!() };
        let large = Upsert {
            hash: body::hash(&text),
            encoding: packed.encoding.into(),
            encoded_size: packed.bytes.len() as u64,
            decoded_size: text.len() as u64,
            chunk: packed.bytes.clone(),
            ..small
        };
        Ok::<_, String>(frame::hub(hub_frame::Body::Upsert(large)))
    };
    assert!(packed.bytes.len() < 4096, "{}", packed.bytes.len());
    let (mut session, started) = (welcomed(), Instant::now());
    let mut inbound = stream::iter((0..12).map(grows)).chain(stream::pending());
    let (mut written, mut most, ledger) = (0, 0, Ledger::in_memory().unwrap());
    while written < 12 {
        let message = inbound.next().await;
        receive(&mut session, message, (&mut inbound, &ledger), started);
        let changes = session.take_changes();
        let bodies = changes.iter().filter_map(|change| match change {
            Change::Put { body, .. } => Some(body.len()),
            _ => None,
        });
        let bodies: Vec<usize> = bodies.collect();
        (written, most) = (written + bodies.len(), most.max(bodies.iter().sum()));
        session.committed(started.elapsed());
        while session.next_frame(&mut crate::outbox::Outbox::default(), started.elapsed()).is_some() {}
    }
    assert!(most <= 8 << 20, "{most} bytes wait at once");
}

/// A removal that was told and that the disk never saw is forgotten by the next start, which makes the object anew.
#[tokio::test(start_paused = true)]
async fn a_removal_is_told_once_it_is_on_disk() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("not there yet");
    let (link, _) = tokio::sync::watch::channel(LinkView::default());
    let shared = AgentState::new(Ledger::open(&directory).unwrap(), link);
    shared.outbox.lock().removed("a", "u", 2, Vec::new());
    let mut session = welcomed();
    let credit = karmada_proto::v1::Credit { messages: 10, bytes: 1 << 20 };
    session.frame(frame::hub(hub_frame::Body::Credit(credit)), Duration::ZERO);
    let (frames, mut outbound) = mpsc::channel(OUTBOUND);
    let mut told = || {
        send(&shared, &mut session, &frames, Duration::ZERO);
        std::iter::from_fn(|| outbound.try_recv().ok())
            .any(|frame| matches!(frame.body, Some(karmada_proto::v1::agent_frame::Body::Removed(_))))
    };
    assert!(!shared.ledger.is_durable() && !told());
    std::fs::create_dir(&directory).unwrap();
    let stop = CancellationToken::new();
    let kept = crate::ledger::keep_on_disk(&shared.ledger, stop.clone());
    tokio::time::timeout(Duration::from_secs(60), kept).await.unwrap_err();
    assert!(shared.ledger.is_durable() && told());
}
