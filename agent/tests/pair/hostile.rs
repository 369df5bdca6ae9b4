//! Frames that nobody would send, at both ends: every kind there ever was, with bytes changed, in any order. Nothing panics,
//! what waits stays bounded, and nothing is removed that no tombstone names with a reason that is known.

use std::collections::BTreeMap;
use std::time::Duration;

use karmada_agent::outbox::Outbox;
use karmada_agent::session::{Change, HeldWork, Opening, Phase, Session, Unfinished};
use karmada_gateway::Options;
use karmada_gateway::inbox::Report;
use karmada_gateway::session as gateway;
use karmada_proto::keepalive::Cadence;
use karmada_proto::v1::{AgentFrame, Credit, Hello, HubFrame, TombstoneReason, Welcome, hub_frame};
use karmada_proto::{STATUS_LIMIT, frame};
use proptest::prelude::*;
use prost::Message;

const NOW: Duration = Duration::from_secs(1);

/// The frames that are kept for the protocol's sake, of one end.
fn golden(end: &str) -> Vec<Vec<u8>> {
    let lines = include_str!("../../../proto/src/golden.txt").lines();
    let of_end = lines.filter_map(|line| line.strip_prefix(end)?.strip_prefix(' '));
    let byte = |hex: &str, at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    of_end.map(|hex| (0..hex.len()).step_by(2).map(|at| byte(hex, at)).collect()).collect()
}

/// One of them, with some bytes replaced.
fn hostile(end: &'static str) -> impl Strategy<Value = Vec<u8>> {
    let frames = golden(end);
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    (prop::sample::select(frames), changes).prop_map(|(mut frame, changes)| {
        for (at, byte) in changes {
            let at = at.index(frame.len());
            frame[at] = byte;
        }
        frame
    })
}

fn held() -> BTreeMap<String, HeldWork> {
    let hash = || b"h5"[..].to_vec().into();
    let held = |phase| HeldWork { uid: "u2".into(), revision: 2, hash: hash(), phase, content: [0; 16] };
    BTreeMap::from([("k1".to_owned(), held(Phase::Desired)), ("other".to_owned(), held(Phase::Removed))])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_agent_survives_any_hub(frames in prop::collection::vec(hostile("hub"), 0..40)) {
        let opening = Opening { epoch: 3, cursor: 1, ..Opening::default() };
        let mut session = Session::open(opening, held(), Unfinished::default(), Cadence::default(), NOW);
        let mut outbox = Outbox::default();
        session.next_frame(&mut outbox, NOW);
        session.frame(frame::hub(hub_frame::Body::Welcome(Welcome { epoch: 3, ..Welcome::default() })), NOW);
        for bytes in frames {
            let Ok(frame) = HubFrame::decode(&bytes[..]) else { continue };
            let removes = match &frame.body {
                Some(hub_frame::Body::Tombstone(tombstone)) => {
                    matches!(
                        TombstoneReason::try_from(tombstone.reason),
                        Ok(TombstoneReason::Deleted | TombstoneReason::Released)
                    )
                }
                _ => false,
            };
            session.frame(frame, NOW);
            session.tick(NOW);
            let deletes = session.take_changes().iter().any(|change| matches!(change, Change::Delete { .. }));
            prop_assert!(removes || !deletes);
            session.committed(NOW);
            for _ in 0..1000 {
                if session.next_frame(&mut outbox, NOW).is_none() {
                    break;
                }
            }
            prop_assert!(session.next_frame(&mut outbox, NOW).is_none(), "it comes to rest");
        }
    }

    /// It sends on and on and takes nothing.
    #[test]
    fn a_hub_that_never_reads_takes_no_memory(frames in prop::collection::vec(hostile("hub"), 1..40)) {
        let opening = Opening { epoch: 3, cursor: 1, ..Opening::default() };
        let mut session = Session::open(opening, held(), Unfinished::default(), Cadence::default(), NOW);
        let mut outbox = Outbox::default();
        session.frame(frame::hub(hub_frame::Body::Welcome(Welcome { epoch: 3, ..Welcome::default() })), NOW);
        for bytes in frames.iter().cycle().take(5000) {
            let Ok(frame) = HubFrame::decode(&bytes[..]) else { continue };
            if !session.listens() || session.ended().is_some() {
                break;
            }
            session.frame(frame, NOW);
            session.tick(NOW);
            session.take_changes();
            session.committed(NOW);
        }
        let waiting = std::iter::from_fn(|| session.next_frame(&mut outbox, NOW)).take(5000).count();
        prop_assert!(waiting < 1100, "{waiting} answers wait");
        prop_assert!(session.listens());
    }

    #[test]
    fn the_hub_survives_any_agent(frames in prop::collection::vec(hostile("agent"), 0..40), resumed in any::<bool>()) {
        let credit = Some(Credit { messages: 100, bytes: 1 << 20 });
        let features = vec!["digests".to_owned()];
        let digest_seed = vec![1; 16].into();
        let hello =
            Hello { boot_id: "b".into(), objects: 3, credit, features, digest_seed, ..Hello::default() };
        let opening = gateway::Opening {
            trust_revision: 0,
            protocol: 1,
            session_seq: 1,
            epoch: 1,
            epoch_seal: bytes::Bytes::new(),
            timeline: 1,
            resumed: resumed.then_some(1),
            of_our_history: resumed,
            restore_hold: None,
            retry_hint: Duration::ZERO,
            hub_clock_ms: 0,
        };
        let mut session = gateway::Session::open(hello, &opening, &Options::default(), NOW);
        for bytes in frames {
            let Ok(frame) = AgentFrame::decode(&bytes[..]) else { continue };
            session.frame(frame, NOW);
            session.tick(NOW);
            for _ in 0..1000 {
                if session.next_frame().is_none() {
                    break;
                }
            }
            prop_assert!(session.next_frame().is_none(), "it comes to rest");
            while session.next_effect().is_some() {}
        }
        prop_assert!(session.reports() <= 40);
        while let Some(report) = session.next_report(NOW) {
            if let Report::Work(_, Some(packed)) | Report::Cluster(packed) = &report {
                prop_assert!(packed.decoded_size <= STATUS_LIMIT as u64);
                let _ = packed.open();
            }
            session.report_done(report, false, NOW);
        }
    }
}
