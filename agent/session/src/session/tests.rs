//! The session against hand-made frames.

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
fn a_new_epoch_begins_anew_and_an_older_one_is_refused() {
    let mut session = open(7, 900, &[("a", held("u-a", 900, b"old"))]);
    said(&mut session);
    welcome(&mut session, 8);
    hear(&mut session, Body::Upsert(Upsert { epoch: 8, ..upsert("a", 4, "restored", 4) }));
    assert_eq!(
        written(&mut session),
        ["epoch 8", "seal of 0 bytes", "put a@4", "cursor 4"],
        "revisions of old epochs do not count"
    );
    let mut session = open(7, 900, &[]);
    welcome(&mut session, 6);
    assert!(session.ended().is_some());
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
fn absence_never_deletes_and_what_was_removed_is_forgotten() {
    let removed = HeldWork { phase: Phase::Removed, ..held("u-gone", 1, b"x") };
    let mut session = open(7, 1, &[("orphan", held("u-o", 1, b"x")), ("gone", removed)]);
    said(&mut session);
    welcome(&mut session, 7);
    hear(&mut session, Body::SnapshotStart(SnapshotStart { epoch: 7, ..SnapshotStart::default() }));
    hear(&mut session, Body::Upsert(upsert("a", 4, "one", 0)));
    hear(&mut session, Body::SnapshotEnd(SnapshotEnd { epoch: 7, cursor: 10, withheld: false }));
    assert_eq!(written(&mut session), ["listing", "put a@4", "forget gone", "cursor 10"]);
    assert_eq!(said(&mut session), ["ack 10", "orphans [\"orphan\"]"]);
}

/// The agent found marked objects of a Work that nobody holds after the session began, and a person decided.
#[test]
fn a_word_on_what_was_found_since_is_carried_out() {
    let mut session = open(7, 3, &[("a", held("u-a", 5, b"x"))]);
    said(&mut session);
    welcome(&mut session, 7);
    let mut outbox = Outbox::default();
    assert!(outbox.orphan("found") && outbox.orphan("a") && !outbox.orphan("a"));
    let told = session.next_frame(&mut outbox, Duration::ZERO).and_then(|frame| frame.body);
    assert!(matches!(told, Some(agent_frame::Body::Orphans(all)) if all.keys == ["a", "found"]));
    hear(&mut session, tombstone("found", "", i64::MAX as u64, TombstoneReason::Released));
    assert_eq!(written(&mut session), [format!("delete found@{}", i64::MAX), format!("cursor {}", i64::MAX)]);
}

#[test]
fn a_tombstone_removes_its_own_uid_or_what_is_older_and_nothing_newer() {
    use TombstoneReason::{Deleted, Released};
    for (what, uid, revision, reason, expect) in [
        ("its own", "u-a", 6, Deleted, vec!["delete a@6", "cursor 6"]),
        ("an older life of the name", "u-old", 4, Deleted, vec!["cursor 4"]),
        ("a newer life of the name", "u-new", 6, Deleted, vec!["delete a@6", "cursor 6"]),
        ("released, and still held here", "u-a", 6, Released, vec!["delete a@6", "cursor 6"]),
        ("an older life released", "u-old", 4, Released, vec!["cursor 4"]),
    ] {
        let mut session = open(7, 3, &[("a", held("u-a", 5, b"x"))]);
        said(&mut session);
        welcome(&mut session, 7);
        hear(&mut session, tombstone("a", uid, revision, reason));
        assert_eq!(written(&mut session), expect, "{what}");
    }
    let removed = HeldWork { phase: Phase::Removed, ..held("u-a", 5, b"x") };
    let mut session = open(7, 3, &[("a", removed)]);
    said(&mut session);
    welcome(&mut session, 7);
    hear(&mut session, tombstone("a", "u-a", 6, Released));
    assert_eq!(written(&mut session), ["forget a", "cursor 6"], "removed, and the hub knows it");
    let mut session = open(7, 3, &[]);
    said(&mut session);
    welcome(&mut session, 7);
    hear(&mut session, tombstone("never", "u-never", 6, Deleted));
    assert_eq!(said(&mut session), ["removed never"]);
    assert_eq!(written(&mut session), [""; 0], "the cursor waits: what is to be removed is still to come");
    let body = Upsert { suspended: true, ..upsert("never", 6, "one", 0) };
    hear(&mut session, Body::Upsert(body));
    assert_eq!(written(&mut session), ["put never@6"], "and for the tombstone, which a cut may take");
    hear(&mut session, tombstone("never", "u-never", 6, Deleted));
    assert_eq!(written(&mut session), ["delete never@6", "cursor 6"]);
    let mut session = open(7, 3, &[]);
    said(&mut session);
    welcome(&mut session, 7);
    hear(&mut session, tombstone("never", "u-before", 6, Deleted));
    hear(&mut session, Body::Upsert(upsert("never", 8, "one", 8)));
    assert_eq!(
        written(&mut session),
        ["put never@8", "cursor 8"],
        "the next of its name is waited for by nothing"
    );
    let mut session = open(7, 3, &[]);
    said(&mut session);
    welcome(&mut session, 7);
    hear(&mut session, tombstone("never", "u", 6, Deleted));
    hear(&mut session, Body::Upsert(Upsert { encoding: 9, ..upsert("never", 6, "one", 0) }));
    hear(&mut session, tombstone("never", "u", 6, Deleted));
    assert_eq!(written(&mut session), ["cursor 6"], "but not for ever");
}

#[test]
fn frames_of_another_epoch_change_nothing() {
    let mut session = open(7, 3, &[("a", held("u-a", 5, b"x"))]);
    said(&mut session);
    welcome(&mut session, 7);
    hear(&mut session, Body::Upsert(Upsert { epoch: 6, ..upsert("a", 99, "x", 99) }));
    let Body::Tombstone(mut old) = tombstone("a", "u-a", 99, TombstoneReason::Deleted) else {
        unreachable!()
    };
    old.epoch = 6;
    hear(&mut session, Body::Tombstone(old));
    assert!(!session.has_changes());
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

#[test]
fn an_unknown_frame_is_named_and_survived() {
    let mut session = open(7, 3, &[]);
    said(&mut session);
    session.frame(HubFrame { kind: 77, body: None }, secs(1));
    assert_eq!(said(&mut session), ["unsupported 77"]);
    assert!(session.ended().is_none());
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
fn a_tombstone_whose_reason_is_unknown_removes_nothing_and_is_refused_by_name() {
    for reason in [0, 3, 99, -1] {
        for works in [&[("a", held("u-a", 5, b"x"))][..], &[]] {
            let mut session = open(7, 3, works);
            said(&mut session);
            welcome(&mut session, 7);
            let Body::Tombstone(tombstone) = tombstone("a", "u-a", 6, TombstoneReason::Deleted) else {
                unreachable!()
            };
            hear(&mut session, Body::Tombstone(Tombstone { reason, ..tombstone }));
            let frames: Vec<_> =
                std::iter::from_fn(|| session.next_frame(&mut Outbox::default(), secs(1))).collect();
            let Some(agent_frame::Body::Nack(nack)) = &frames[0].body else { panic!("{frames:?}") };
            assert_eq!((nack.code(), nack.key.as_str(), nack.revision), (NackCode::UnknownReason, "a", 6));
            assert!(nack.message.contains(&reason.to_string()));
            assert_eq!(written(&mut session), ["cursor 6"]);
        }
    }
}

#[test]
fn unknown_words_of_a_close_are_taken_for_a_lost_link() {
    let mut session = open(7, 3, &[]);
    hear(&mut session, Body::Close(v1::Close { code: 99, retry: 99, after_ms: 5, ..v1::Close::default() }));
    assert_eq!(session.ended().unwrap().advice, Advice::Lost(Duration::ZERO));
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

#[test]
fn a_hub_that_overspends_is_left() {
    let mut session = open(7, 3, &[]);
    said(&mut session);
    welcome(&mut session, 7);
    for revision in 0..256 {
        hear(&mut session, tombstone("a", "u", revision, TombstoneReason::Released));
    }
    assert!(session.ended().is_none());
    hear(&mut session, tombstone("a", "u", 300, TombstoneReason::Released));
    assert_eq!(session.ended().unwrap().advice, Advice::After(OVERSPENT));
}

#[test]
fn an_epoch_that_nobody_handed_out_gives_way_and_one_that_was_does_not() {
    let (ca, _) = karmada_certs::Authority::create(jiff::Timestamp::now()).unwrap();
    let seal = |epoch| Bytes::from(ca.seal_epoch(epoch).unwrap());
    let meet = |ours: Bytes, theirs: Bytes| {
        let opening =
            Opening { epoch: 50, epoch_seal: ours, seal_keys: ca.seal_keys(), ..Opening::default() };
        let held = BTreeMap::from([("a".to_owned(), held("u-a", 900, b"x"))]);
        let mut session =
            Session::open(opening, held, Unfinished::default(), Cadence::default(), Duration::ZERO);
        let hello = session.next_frame(&mut Outbox::default(), secs(1)).unwrap().body;
        assert!(matches!(hello, Some(agent_frame::Body::Hello(_))));
        hear(&mut session, Body::Welcome(Welcome { epoch: 7, epoch_seal: theirs, ..Welcome::default() }));
        session
    };
    for (ours, theirs, taken) in [
        (Bytes::new(), seal(7), true),
        (seal(49), seal(7), true),
        (seal(50), seal(7), false),
        (Bytes::new(), Bytes::new(), false),
        (Bytes::new(), seal(8), false),
    ] {
        let mut session = meet(ours, theirs);
        assert_eq!((session.ended().is_none(), session.epoch() == 7), (taken, taken));
        if taken {
            assert_eq!(written(&mut session)[0], "epoch 7");
            let older = Upsert { epoch: 7, ..upsert("a", 4, "one", 4) };
            hear(&mut session, Body::Upsert(older));
            assert!(written(&mut session).contains(&"put a@4".to_owned()), "a lower revision is newer there");
        }
    }
}

#[test]
fn the_cursor_is_kept_with_the_start_that_told_it() {
    let mut session = open(7, 3, &[]);
    said(&mut session);
    hear(&mut session, Body::Welcome(Welcome { epoch: 7, timeline: 42, ..Welcome::default() }));
    assert!(!session.has_changes(), "the cursor that is held is still the older start's");
    hear(&mut session, Body::Upsert(upsert("a", 5, "one", 5)));
    assert_eq!(written(&mut session), ["put a@5", "timeline 42", "cursor 5"]);
    hear(&mut session, Body::Upsert(upsert("a", 6, "two", 6)));
    assert_eq!(written(&mut session), ["put a@6", "cursor 6"], "written once");
}

/// A hub that is put back knows by it that the site saw more than the copy has.
#[test]
fn what_came_beyond_the_cursor_is_kept_with_the_start_that_told_it() {
    let told = |timeline| Body::Welcome(Welcome { epoch: 7, timeline, ..Welcome::default() });
    let mut session = open(7, 3, &[]);
    said(&mut session);
    hear(&mut session, told(42));
    hear(&mut session, Body::Upsert(upsert("a", 5, "one", 4)));
    let seen = |revision| format!("seen {:?}", [v1::Seen { timeline: 42, revision }]);
    assert_eq!(written(&mut session), ["put a@5", "timeline 42", "cursor 4", &seen(5)]);
    hear(&mut session, Body::Upsert(upsert("b", 6, "one", 6)));
    assert_eq!(written(&mut session), ["put b@6", "cursor 6", "seen []"]);
}

/// Where deletes are withheld, the site goes on telling of the life that it came from.
#[test]
fn a_listing_from_which_deletes_are_withheld_is_acknowledged_and_moves_no_cursor_that_is_kept() {
    let mut session = open(7, 3, &[("a", held("u-a", 5, b"x"))]);
    said(&mut session);
    hear(&mut session, Body::Welcome(Welcome { epoch: 7, timeline: 42, ..Welcome::default() }));
    for (withheld, expect) in [(true, vec!["listing"]), (false, vec!["listing", "timeline 42", "cursor 10"])]
    {
        hear(&mut session, Body::SnapshotStart(SnapshotStart { epoch: 7, ..SnapshotStart::default() }));
        hear(&mut session, Body::SnapshotEnd(SnapshotEnd { epoch: 7, cursor: 10, withheld }));
        assert_eq!(written(&mut session), expect);
        assert!(said(&mut session).contains(&"ack 10".to_owned()), "{withheld}");
    }
}

/// The start that was told may be one that was taken back since.
#[test]
fn orphans_are_told_in_each_session() {
    let works = [("a", held("u-a", 5, b"x")), ("lost", held("u-lost", 0, b"x"))];
    for (cursor, told) in [(3, 1), (0, 0)] {
        let mut session = open(7, cursor, &works);
        said(&mut session);
        hear(
            &mut session,
            Body::Welcome(Welcome {
                epoch: 7,
                timeline: 42,
                credit: Some(Credit { messages: 10, bytes: 1 << 20 }),
                ..Welcome::default()
            }),
        );
        let orphans = said(&mut session).into_iter().filter(|word| word == "orphans [\"lost\"]").count();
        assert_eq!(orphans, told, "no listing was ever complete: {cursor}");
    }
}

/// While the hub's CA is changed, a proof by the one that is on its way out gives way to one by the one that stays, once.
#[test]
fn the_proof_of_an_epoch_is_kept_by_the_ca_that_stays() {
    let now = jiff::Timestamp::now();
    let (older, signing) =
        (karmada_certs::Authority::create(now).unwrap().0, karmada_certs::Authority::create(now).unwrap().0);
    let bundle = format!("{}{}", signing.certificate_pem(), older.certificate_pem());
    let seal = |ca: &karmada_certs::Authority| Bytes::from(ca.seal_epoch(7).unwrap());
    for (ours, theirs, kept) in [
        (seal(&older), seal(&signing), true),
        (seal(&signing), seal(&signing), false),
        (seal(&older), seal(&older), false),
        (seal(&signing), seal(&older), false),
        (Bytes::new(), seal(&older), true),
    ] {
        let seal_keys = SealKeys::of_bundle(&bundle);
        let opening = Opening { epoch: 7, epoch_seal: ours, seal_keys, ..Opening::default() };
        let mut session = Session::open(
            opening,
            BTreeMap::new(),
            Unfinished::default(),
            Cadence::default(),
            Duration::ZERO,
        );
        hear(
            &mut session,
            Body::Welcome(Welcome { epoch: 7, epoch_seal: theirs.clone(), ..Welcome::default() }),
        );
        let changes = session.take_changes();
        assert_eq!(changes.contains(&Change::Seal(theirs)), kept, "{changes:?}");
    }
}

#[test]
fn whom_to_trust_is_told_in_the_welcome_and_while_the_session_runs() {
    let mut session = open(7, 0, &[]);
    welcome(&mut session, 7);
    assert_eq!(session.take_trust(), None, "an older hub says nothing of it");
    let told = |revision| v1::Resync { trust_bundle_revision: revision, ..v1::Resync::default() };
    hear(&mut session, Body::Resync(told(0)));
    assert_eq!(session.take_trust(), None);
    hear(&mut session, Body::Resync(told(5)));
    assert_eq!((session.take_trust(), session.take_trust()), (Some(5), None));
    let mut session = open(7, 0, &[]);
    hear(&mut session, Body::Welcome(Welcome { epoch: 7, trust_bundle_revision: 6, ..Welcome::default() }));
    assert_eq!(session.take_trust(), Some(6));
    session.return_renewed();
    assert_eq!(
        session.ended().map(|ended| ended.advice),
        Some(Advice::Now),
        "the new certificate is tried at once"
    );
}

#[test]
fn a_certificate_that_nobody_asked_for_is_not_looked_at() {
    let mut session = open(7, 4, &[]);
    welcome(&mut session, 7);
    let reply = |refusal: &str| {
        Body::Renewed(v1::RenewReply { refusal: refusal.into(), ..v1::RenewReply::default() })
    };
    hear(&mut session, reply(""));
    assert_eq!(session.take_renewed(), None);
    // The second ask is refused before the first is answered.
    (0..2).for_each(|_| session.renew(Bytes::new()));
    hear(&mut session, reply("one is made already"));
    hear(&mut session, reply(""));
    hear(&mut session, reply("nobody asked"));
    assert_eq!(session.take_renewed(), Some(v1::RenewReply::default()));
    hear(&mut session, reply(""));
    assert_eq!(session.take_renewed(), None);
}

/// The hub sends what is to be answered, and takes no answer.
#[test]
fn a_hub_that_takes_no_answers_is_not_read() {
    let mut session = open(7, 4, &[]);
    welcome(&mut session, 7);
    let frames = [Body::Ping(v1::Ping::default()), tombstone("never held", "u", 9, TombstoneReason::Deleted)];
    let mut read = 0;
    for body in frames.iter().cycle().take(100_000) {
        if session.listens() {
            hear(&mut session, body.clone());
            session.take_changes();
            session.committed(secs(1));
            session.credit = CreditWindow::new(WINDOW);
            read += 1;
        }
    }
    assert!((256..5000).contains(&read), "{read} frames read");
    let mut outbox = Outbox::default();
    while session.next_frame(&mut outbox, secs(1)).is_some() {}
    assert!(session.listens(), "the answers are out");
    hear(&mut session, Body::Ping(v1::Ping::default()));
    session.discard_outgoing();
    assert!(said(&mut session).is_empty(), "nobody takes what waits");
}

#[test]
fn a_name_that_no_work_can_have_ends_the_session() {
    let long = "x".repeat(2000);
    let bodies = [
        Body::Upsert(Upsert { offer: true, ..upsert(&long, 9, "{}", 9) }),
        tombstone("a", &long, 9, TombstoneReason::Deleted),
        Body::Upsert(Upsert { offer: true, hash: Bytes::from(vec![0; 2000]), ..upsert("a", 9, "{}", 9) }),
    ];
    for body in bodies {
        let mut session = open(7, 4, &[]);
        welcome(&mut session, 7);
        hear(&mut session, body);
        assert!(session.ended().is_some());
        session.take_changes();
    }
}

/// A hub that is mended, or is another one by now, finds its agents back within the hour.
#[test]
fn no_hub_silences_an_agent_for_long() {
    let hour = Duration::from_secs(3600);
    for retry in [
        RetryClass::RetryNow,
        RetryClass::Relocate,
        RetryClass::RetryAfter,
        RetryClass::Rejoin,
        RetryClass::Fatal,
    ] {
        for after_ms in [u64::MAX, 3_600_001, 3_600_000] {
            let mut session = open(7, 4, &[]);
            hear(
                &mut session,
                Body::Close(v1::Close { retry: retry.into(), after_ms, ..v1::Close::default() }),
            );
            assert_eq!(session.ended().unwrap().advice, Advice::After(hour), "{retry:?}");
        }
    }
    let mut session = open(7, 4, &[]);
    let bounds =
        Welcome { epoch: 7, retry_hint_ms: u64::MAX, ping_min_ms: 0, ping_max_ms: 0, ..Welcome::default() };
    hear(&mut session, Body::Welcome(bounds));
    session.tick(secs(2));
    assert_eq!(session.ended(), None, "the hub may answer still");
    assert!(session.deadline() > secs(1));
    hear(&mut session, Body::Drain(v1::Drain { after_ms: u64::MAX }));
    for second in 2..3700 {
        session.heard_bytes(secs(second));
        session.tick(secs(second));
    }
    assert_eq!(session.ended().map(|ended| ended.reason.as_str()), Some("the hub goes down for a while"));
    let mut session = open(7, 4, &[]);
    let bounds = Welcome { epoch: 7, retry_hint_ms: u64::MAX, ..Welcome::default() };
    hear(&mut session, Body::Welcome(bounds));
    session.lost("cut".into());
    assert_eq!(session.ended().unwrap().advice, Advice::Lost(hour));
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

/// A hub that names buckets which are none, as many as its frames hold: what is kept of them is what there is.
#[test]
fn buckets_that_are_none_are_not_kept() {
    let mut session = open(7, 0, &[]);
    welcome(&mut session, 7);
    for from in (0..1_000_000_u32).step_by(100_000) {
        let buckets = (from..from + 100_000).collect();
        hear(&mut session, Body::Differing(v1::Differing { table: Table::Statuses as u32, buckets }));
    }
    assert_eq!(session.differing.len(), BUCKETS);
}
