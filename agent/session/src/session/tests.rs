//! The session against hand-made frames.

mod epochs;
mod hostile_hub;
mod tombstones;

use karmada_proto::digest::BUCKETS;
use karmada_proto::v1::hub_frame::Body;
use karmada_proto::v1::{
    HubFrame, NackCode, Pong, RetryClass, SnapshotEnd, SnapshotStart, Table, Tombstone, TombstoneReason,
    Upsert, Welcome,
};
use karmada_proto::{body, frame};

use super::incoming::OVERSPENT;
use super::*;
use crate::outbox::{Outbox, WorkReport};

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn held(uid: &str, revision: u64, hash: &[u8]) -> HeldWork {
    let hash = Bytes::copy_from_slice(hash);
    HeldWork { uid: uid.into(), revision, hash, phase: Phase::Desired, content: [0; 16] }
}

fn open(epoch: u64, cursor: u64, works: &[(&str, HeldWork)]) -> Session {
    let opening =
        Opening { cluster_name: "m".into(), boot_id: "b".into(), epoch, cursor, ..Opening::default() };
    let works = works.iter().map(|(key, held)| ((*key).to_owned(), held.clone())).collect();
    Session::open(opening, works, Unfinished::default(), Cadence::default(), Duration::ZERO)
}

fn welcome(session: &mut Session, epoch: u64) {
    let credit = Some(Credit { messages: 10, bytes: 1 << 20 });
    let welcome = Welcome { epoch, credit, ping_min_ms: 20_000, ping_max_ms: 60_000, ..Welcome::default() };
    hear(session, Body::Welcome(welcome));
}

fn hear(session: &mut Session, body: Body) {
    session.frame(frame::hub(body), secs(1));
}

fn upsert(key: &str, revision: u64, text: &'static str, cursor: u64) -> Upsert {
    let text = Bytes::from_static(text.as_bytes());
    Upsert {
        key: key.into(),
        uid: format!("u-{key}"),
        epoch: 7,
        revision,
        hash: body::hash(&text),
        encoded_size: text.len() as u64,
        decoded_size: text.len() as u64,
        chunk: text,
        cursor,
        ..Upsert::default()
    }
}

fn tombstone(key: &str, uid: &str, revision: u64, reason: TombstoneReason) -> Body {
    Body::Tombstone(Tombstone {
        key: key.into(),
        uid: uid.into(),
        epoch: 7,
        revision,
        reason: reason.into(),
        cursor: revision,
        ..Tombstone::default()
    })
}

/// What the session sends now, one word per frame.
fn said(session: &mut Session) -> Vec<String> {
    let mut outbox = Outbox::default();
    std::iter::from_fn(|| session.next_frame(&mut outbox, secs(1)))
        .map(|frame| match frame.body.unwrap() {
            agent_frame::Body::Hello(hello) => format!("hello {}/{}", hello.epoch, hello.cursor),
            agent_frame::Body::Ack(ack) => format!("ack {}", ack.cursor),
            agent_frame::Body::Want(want) => format!("want {}", want.key),
            agent_frame::Body::Removed(removed) => format!("removed {}", removed.key),
            agent_frame::Body::Orphans(orphans) => format!("orphans {:?}", orphans.keys),
            agent_frame::Body::Nack(nack) => format!("nack {}", nack.key),
            agent_frame::Body::Unsupported(frame) => format!("unsupported {}", frame.kind),
            agent_frame::Body::Ping(_) => "ping".into(),
            other => format!("{other:?}"),
        })
        .collect()
}

/// What the session wants written, one word per change; written at once.
fn written(session: &mut Session) -> Vec<String> {
    let words = session
        .take_changes()
        .into_iter()
        .map(|change| match change {
            Change::Put { key, revision, .. } => format!("put {key}@{revision}"),
            Change::Touch { key, revision, .. } => format!("touch {key}@{revision}"),
            Change::Delete { key, revision, .. } => format!("delete {key}@{revision}"),
            Change::Forget { key } => format!("forget {key}"),
            Change::KeepFormer { key } => format!("keep former {key}"),
            Change::Epoch(epoch) => format!("epoch {epoch}"),
            Change::Listed { key, revision } => format!("listed {key}@{revision}"),
            Change::Unlisted { key } => format!("unlisted {key}"),
            Change::Listing => "listing".to_owned(),
            Change::Cursor(cursor) => format!("cursor {cursor}"),
            Change::Timeline(timeline) => format!("timeline {timeline}"),
            Change::Seen(seen) => format!("seen {seen:?}"),
            Change::Seal(seal) => format!("seal of {} bytes", seal.len()),
            Change::Document { table, .. } => format!("document {table}"),
        })
        .collect();
    session.committed(secs(1));
    words
}

/// Who waits by the clock for what cannot be sent would look at it without end.
#[test]
fn reports_are_due_only_where_the_hub_takes_them() {
    let mut session = open(7, 0, &[]);
    assert!(!session.takes_reports(), "nobody was welcomed");
    let credit = Some(Credit { messages: 1, bytes: 100 });
    hear(&mut session, Body::Welcome(Welcome { epoch: 7, credit, ..Welcome::default() }));
    assert!(session.takes_reports());
    let mut outbox = Outbox::default();
    for key in ["a", "b"] {
        outbox.work(key, WorkReport { uid: "u".into(), ..WorkReport::default() });
    }
    while session.next_frame(&mut outbox, Duration::ZERO).is_some() {}
    assert!(outbox.due_at().is_some() && !session.takes_reports(), "one went, and the other has to wait");
    hear(&mut session, Body::Credit(Credit { messages: 1, bytes: 100 }));
    assert!(session.takes_reports());
    session.lost("the line was cut".into());
    assert!(!session.takes_reports());
}

#[test]
fn a_body_of_a_restored_hub_is_put_with_what_it_takes_away_kept() {
    let mut session = open(7, 3, &[]);
    welcome(&mut session, 7);
    said(&mut session);
    hear(&mut session, Body::Upsert(Upsert { keep_former: true, ..upsert("a", 5, "one", 5) }));
    hear(&mut session, Body::Upsert(upsert("b", 6, "two", 6)));
    assert_eq!(written(&mut session), ["put a@5", "keep former a", "put b@6", "cursor 6"]);
}

#[test]
fn nothing_is_acknowledged_before_it_is_on_disk() {
    let mut session = open(7, 3, &[]);
    assert_eq!(said(&mut session), ["hello 7/3"]);
    welcome(&mut session, 7);
    hear(&mut session, Body::Upsert(upsert("a", 5, "one", 5)));
    assert_eq!(said(&mut session), [""; 0]);
    let changes = session.take_changes();
    assert_eq!(changes.len(), 2);
    assert_eq!(said(&mut session), [""; 0], "taken to be written is not yet written");
    session.committed(secs(1));
    assert_eq!(said(&mut session), ["ack 5"]);
}

#[test]
fn offers_are_taken_where_the_hash_is_held_and_the_cursor_waits_for_what_is_wanted() {
    let hash = body::hash(b"one");
    let mut session = open(7, 1, &[("a", held("u-a", 1, &hash)), ("b", held("u-b", 1, b"other"))]);
    said(&mut session);
    welcome(&mut session, 7);
    hear(&mut session, Body::SnapshotStart(SnapshotStart { epoch: 7, ..SnapshotStart::default() }));
    for key in ["a", "b"] {
        let offer = Upsert { offer: true, chunk: Bytes::new(), ..upsert(key, 9, "one", 0) };
        hear(&mut session, Body::Upsert(offer));
    }
    hear(&mut session, Body::SnapshotEnd(SnapshotEnd { epoch: 7, cursor: 10, withheld: false }));
    assert_eq!(said(&mut session), ["want b"]);
    assert_eq!(written(&mut session), ["listing", "touch a@9"], "b is missing: the cursor stays");
    hear(&mut session, Body::Upsert(upsert("b", 9, "one", 10)));
    assert_eq!(written(&mut session), ["put b@9", "cursor 10"]);
    assert_eq!(said(&mut session), ["ack 10"]);
}

#[test]
fn a_body_that_does_not_hash_is_asked_for_again_and_one_too_large_is_refused() {
    let mut session = open(7, 3, &[]);
    said(&mut session);
    welcome(&mut session, 7);
    let wrong = Upsert { hash: body::hash(b"two"), ..upsert("a", 5, "one", 5) };
    hear(&mut session, Body::Upsert(wrong));
    assert_eq!(said(&mut session), ["want a"]);
    assert!(!session.has_changes());
    hear(&mut session, Body::Upsert(upsert("a", 5, "one", 5)));
    assert_eq!(written(&mut session), ["put a@5", "cursor 5"]);
    let large = Upsert { decoded_size: u64::MAX, ..upsert("b", 6, "one", 6) };
    hear(&mut session, Body::Upsert(large));
    assert_eq!(said(&mut session), ["ack 5", "nack b"]);
    assert_eq!(written(&mut session), ["cursor 6"], "nobody waits for what can never come");
}

#[test]
fn an_idle_link_is_pinged_and_a_silent_hub_is_left() {
    let mut session = open(7, 3, &[]);
    said(&mut session);
    welcome(&mut session, 7);
    assert_eq!(session.deadline(), secs(21));
    session.tick(secs(21));
    assert_eq!(said(&mut session), ["ping"]);
    session.frame(frame::hub(Body::Pong(Pong { seq: 1, cursor: 40 })), secs(22));
    session.tick(secs(30));
    assert!(!session.has_changes(), "a cursor alone is not written at once");
    session.tick(secs(400));
    let ended = session.ended().unwrap();
    assert_eq!(ended.advice, Advice::Lost(Duration::ZERO));
    let mut idle = open(7, 3, &[]);
    said(&mut idle);
    welcome(&mut idle, 7);
    for second in 1..301 {
        idle.tick(secs(second));
        for word in said(&mut idle) {
            assert_eq!(word, "ping");
            let seq = idle.line.pings;
            idle.frame(frame::hub(Body::Pong(Pong { seq, cursor: 40 + second })), secs(second));
        }
    }
    idle.tick(secs(302));
    assert!(written(&mut idle)[0].starts_with("cursor "), "but every five minutes");
    assert_eq!(idle.line.cadence.interval, secs(60), "the path bears it");
}

#[test]
fn closes_say_when_to_come_back() {
    let close = |retry: RetryClass, after_ms| {
        let mut session = open(7, 3, &[]);
        let close =
            v1::Close { retry: retry.into(), after_ms, code: CloseCode::Busy.into(), ..v1::Close::default() };
        hear(&mut session, Body::Close(close));
        session.ended().unwrap().advice
    };
    assert_eq!(close(RetryClass::RetryNow, 0), Advice::Now);
    assert_eq!(close(RetryClass::RetryNow, 5000), Advice::After(secs(5)), "each agent has a time of its own");
    assert_eq!(close(RetryClass::RetryAfter, 5000), Advice::After(secs(5)));
    assert_eq!(
        close(RetryClass::Fatal, 0),
        Advice::After(secs(60)),
        "a hub that is mended finds its agents back"
    );
}

#[test]
fn what_the_hub_asks_to_hear_again_is_told_again_and_once() {
    let mut session = open(7, 3, &[]);
    let mut outbox = Outbox::default();
    outbox.cluster(Bytes::from_static(b"{}"));
    outbox.work("a", WorkReport { uid: "u-a".into(), ..Default::default() });
    let mut told = |session: &mut Session, at| {
        let frames = std::iter::from_fn(|| session.next_frame(&mut outbox, secs(at)));
        frames.map(|frame| frame.kind).collect::<Vec<_>>()
    };
    session.next_frame(&mut Outbox::default(), secs(1));
    welcome(&mut session, 7);
    let all = told(&mut session, 1);
    assert_eq!(all.len(), 2, "the cluster's status and the Work's");
    assert_eq!(told(&mut session, 10), [0; 0]);
    hear(&mut session, Body::Resync(v1::Resync { cluster: true, ..v1::Resync::default() }));
    assert_eq!(told(&mut session, 20), all[..1]);
    assert_eq!(told(&mut session, 30), [0; 0]);
    hear(&mut session, Body::Resync(v1::Resync { statuses: true, ..v1::Resync::default() }));
    assert_eq!(told(&mut session, 40), all);
    assert_eq!(session.take_resource_models(), None);
    hear(&mut session, Body::Resync(v1::Resync { resource_models: "[]".into(), ..v1::Resync::default() }));
    assert_eq!(session.take_resource_models(), Some(Bytes::from_static(b"[]")));
    assert_eq!((session.take_resource_models(), told(&mut session, 50)), (None, Vec::new()));
}

/// A frame of 64 KiB takes a minute at 10 kbit/s, which is longer than the silence that means death.
#[test]
fn bytes_of_a_frame_that_takes_long_are_no_silence() {
    let mut session = open(7, 3, &[]);
    said(&mut session);
    welcome(&mut session, 7);
    for second in 2..300 {
        session.heard_bytes(secs(second - 1));
        session.tick(secs(second));
        said(&mut session);
    }
    assert_eq!(session.ended(), None);
    session.tick(secs(300 + 51));
    assert!(session.ended().is_some(), "and then nothing");
}

#[test]
fn what_is_held_in_memory_is_acknowledged_once_it_is_on_disk() {
    let mut session = open(7, 3, &[]);
    said(&mut session);
    welcome(&mut session, 7);
    hear(&mut session, Body::Upsert(upsert("a", 5, "one", 5)));
    assert!(!session.take_changes().is_empty());
    session.held_for_now();
    assert!(session.owes_ack() && said(&mut session).iter().all(|word| !word.starts_with("ack")));
    session.committed(secs(2));
    assert!(!session.owes_ack() && said(&mut session).contains(&"ack 5".to_owned()));
}

#[test]
fn a_body_that_never_comes_through_is_refused_and_not_asked_for_for_ever() {
    let mut session = open(7, 3, &[]);
    said(&mut session);
    welcome(&mut session, 7);
    let unknown = Upsert { encoding: 9, ..upsert("a", 5, "one", 5) };
    hear(&mut session, Body::Upsert(unknown));
    assert_eq!(said(&mut session), ["nack a"], "asking again would bring the same");
    let wrong = Upsert { hash: body::hash(b"two"), ..upsert("b", 6, "one", 6) };
    let mut answers = Vec::new();
    for _ in 0..4 {
        hear(&mut session, Body::Upsert(wrong.clone()));
        answers.extend(said(&mut session));
    }
    assert_eq!(answers, ["want b", "want b", "want b", "nack b"]);
    assert_eq!(written(&mut session), ["cursor 6"]);
}

/// A hub of before the dictionary cannot read what was packed with it.
#[test]
fn a_status_is_packed_as_the_hub_can_unpack_it() {
    for (features, encoding) in [
        (vec![], v1::Encoding::Zstd),
        (vec!["of-its-own".to_owned()], v1::Encoding::Zstd),
        (vec![karmada_proto::DICTIONARY.to_owned()], v1::Encoding::ZstdDictionary),
    ] {
        let mut session = open(7, 1, &[]);
        said(&mut session);
        let credit = Some(Credit { messages: 10, bytes: 1 << 20 });
        hear(&mut session, Body::Welcome(Welcome { epoch: 7, credit, features, ..Welcome::default() }));
        let mut outbox = Outbox::default();
        outbox.cluster(Bytes::from(format!(r#"{{"kubernetesVersion":"{}"}}"#, "v1.36.3".repeat(50))));
        let told = std::iter::from_fn(|| session.next_frame(&mut outbox, secs(1))).find_map(|frame| {
            match frame.body {
                Some(agent_frame::Body::ClusterStatus(status)) => Some(status.encoding()),
                _ => None,
            }
        });
        assert_eq!(told, Some(encoding));
    }
}
