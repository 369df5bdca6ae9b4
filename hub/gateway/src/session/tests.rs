//! The session against hand-made frames.

use karmada_proto::v1::{
    Ack, AgentFrame, Hello, HubFrame, NackCode, Ping, Upsert, Want, WorkStatus, agent_frame,
};
use karmada_proto::{CHUNK, body};

use super::*;
use crate::ports::{Work, WorkReport};
use crate::testing::noise;
use crate::work_body;

mod changes;
mod credit;
mod removals;
mod restored_hub;

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn open(objects: u32, resumed: Option<u64>, credit: v1::Credit) -> Session {
    let hello = Hello { objects, credit: Some(credit), boot_id: "b".into(), ..Hello::default() };
    Session::open(hello, &opening(resumed), &Options::default(), Duration::ZERO)
}

fn opening(resumed: Option<u64>) -> Opening {
    Opening {
        protocol: 1,
        session_seq: 1,
        epoch: 7,
        epoch_seal: Bytes::new(),
        timeline: 1,
        resumed,
        of_our_history: resumed.is_some(),
        restore_hold: None,
        retry_hint: Duration::ZERO,
        hub_clock_ms: 0,
        trust_revision: 7,
    }
}

/// What the session says last of how it stands; `Some(true)`: late.
fn stands(session: &mut Session) -> Option<bool> {
    let effects = std::iter::from_fn(|| session.next_effect());
    effects
        .filter_map(|effect| if let Effect::Stands(is_late) = effect { Some(is_late) } else { None })
        .last()
}

fn plenty() -> v1::Credit {
    v1::Credit { messages: 1000, bytes: 10_000_000 }
}

fn work(key: &str, revision: u64, image: &str) -> Work {
    let json = format!(
        r#"{{"metadata":{{"name":"{key}","uid":"u-{key}"}},"spec":{{"workload":{{"manifests":[{{"image":"{image}"}}]}}}},"status":{{"r":{revision}}}}}"#
    );
    Work::from_json(revision, Bytes::from(json).into()).unwrap()
}

fn upsert(key: &str, revision: u64, image: &str) -> WorkEvent {
    WorkEvent::Upsert(work(key, revision, image))
}

fn deleting(key: &str, revision: u64) -> WorkEvent {
    WorkEvent::Upsert(Work { deleting: true, ..work(key, revision, "x") })
}

fn holding(passed: u64) -> Option<SessionHold> {
    let held = Batch { epoch: 7, revision: 4, timeline: 1 };
    Some(SessionHold { held, start: 2, passed })
}

/// What is granted in one go: a third of what the bodies here take.
fn some_credit(session: &mut Session) {
    let credit = v1::Credit { messages: 10, bytes: 100_000 };
    say(session, agent_frame::Body::Credit(credit), secs(1));
}

/// An event is kept until it is written, with what it names.
#[test]
fn a_report_with_a_name_or_uid_of_any_length_is_refused() {
    let long = || "u".repeat(3_500_000);
    let event = v1::EventReport { key: "a".into(), uid: long(), ..v1::EventReport::default() };
    let status = WorkStatus { key: "a".into(), uid: long(), ..WorkStatus::default() };
    let removed = v1::Removed { key: "a".into(), uid: long(), ..v1::Removed::default() };
    let orphans = v1::Orphans { keys: vec![long()] };
    for body in [
        agent_frame::Body::Event(event),
        agent_frame::Body::WorkStatus(status),
        agent_frame::Body::Removed(removed),
        agent_frame::Body::Orphans(orphans),
    ] {
        let mut session = open(0, None, plenty());
        say(&mut session, body, secs(1));
        assert_eq!(session.next_report(secs(1)), None);
    }
}

#[test]
fn a_session_ends_with_its_certificate_and_not_before() {
    let mut session = open(0, None, plenty()).until(secs(5));
    assert_eq!(session.deadline(), secs(5), "the clock is looked at then");
    session.tick(secs(4));
    assert!(!frames(&mut session).iter().any(|f| matches!(f.body, Some(hub_frame::Body::Close(_)))));
    session.tick(secs(5));
    let said = frames(&mut session);
    let Some(hub_frame::Body::Close(close)) = &said[said.len() - 1].body else { panic!("{said:?}") };
    assert_eq!((close.code(), close.retry()), (CloseCode::Recycle, RetryClass::RetryAfter));
    assert!(session.finished());
}

/// Everything the session sends now, one word per frame.
fn sent(session: &mut Session) -> Vec<String> {
    frames(session).iter().map(word).collect()
}

fn frames(session: &mut Session) -> Vec<HubFrame> {
    std::iter::from_fn(|| session.next_frame()).collect()
}

fn word(frame: &HubFrame) -> String {
    use hub_frame::Body as B;
    match frame.body.as_ref().unwrap() {
        B::Welcome(_) => "welcome".into(),
        B::SnapshotStart(_) => "start".into(),
        B::SnapshotEnd(end) => format!("end@{}", end.cursor),
        B::Upsert(Upsert { offer: true, key, cursor, .. }) => format!("offer {key}@{cursor}"),
        B::Upsert(u) => {
            format!("upsert {}@{}{}", u.key, u.cursor, if u.suspended { " suspended" } else { "" })
        }
        B::Tombstone(t) => format!("{} {}@{}", t.reason().as_str_name().to_lowercase(), t.key, t.cursor),
        B::Pong(pong) => format!("pong@{}", pong.cursor),
        B::Ping(_) => "ping".into(),
        B::Close(close) => format!("close {}", close.code().as_str_name()),
        B::Unsupported(u) => format!("unsupported {}", u.kind),
        B::Credit(_) => "credit".into(),
        other => format!("{other:?}"),
    }
}

fn say(session: &mut Session, body: agent_frame::Body, now: Duration) {
    session.frame(frame::agent(body), now);
}

#[test]
fn a_listing_is_sent_and_its_end_carries_the_cursor() {
    let mut session = open(0, None, plenty());
    assert_eq!(sent(&mut session), ["welcome", "start"]);
    session.work(upsert("b", 5, "1"));
    session.work(upsert("a", 3, "1"));
    assert_eq!(sent(&mut session), ["upsert a@0", "upsert b@0"]);
    session.work(upsert("c", 12, "1"));
    session.work(WorkEvent::Synced { revision: 10 });
    // The live event after the listing waits for its end; the cursor covers what has been sent.
    assert_eq!(sent(&mut session), ["end@11", "upsert c@12"]);
    session.work(WorkEvent::Synced { revision: 30 });
    say(&mut session, agent_frame::Body::Ping(Ping { seq: 1, next_ms: 20_000, ..Ping::default() }), secs(1));
    assert_eq!(sent(&mut session), ["pong@30"]);
}

#[test]
fn an_agent_that_holds_objects_is_offered_hashes_and_gets_what_it_wants() {
    let mut session = open(2, None, plenty());
    session.work(upsert("a", 3, "1"));
    session.work(upsert("b", 5, "1"));
    session.work(WorkEvent::Synced { revision: 10 });
    assert_eq!(sent(&mut session), ["welcome", "start", "offer a@0", "offer b@0", "end@10"]);
    say(&mut session, agent_frame::Body::Want(Want { key: "b".into(), hash: Bytes::new() }), secs(1));
    assert_eq!(sent(&mut session), ["upsert b@10"]);
    say(&mut session, agent_frame::Body::Ack(Ack { epoch: 7, cursor: 10 }), secs(1));
    // Acknowledged bodies are not kept: a want for one means that the agent lost it.
    say(&mut session, agent_frame::Body::Want(Want { key: "b".into(), hash: Bytes::new() }), secs(1));
    let effects: Vec<_> = std::iter::from_fn(|| session.next_effect()).collect();
    assert_eq!(effects, [Effect::Stands(false), Effect::Persisted(10), Effect::Relist]);
}

/// What it holds of a body from a session that was cut is not sent once more, also where the body is offered first.
#[test]
fn what_an_agent_wants_goes_on_where_it_was_cut() {
    let text = noise(200_000, 1);
    let hash = work_body::body_hash(&work("a", 3, &text).body.json()).unwrap();
    for (held, goes_on) in [(hash.clone(), true), (body::hash(b"another"), false)] {
        let partial = Some(v1::Partial { key: "a".into(), hash: held, received: 1000 });
        let hello =
            Hello { objects: 1, credit: Some(plenty()), boot_id: "b".into(), partial, ..Hello::default() };
        let mut session = Session::open(hello, &opening(None), &Options::default(), Duration::ZERO);
        session.work(upsert("a", 3, &text));
        session.work(WorkEvent::Synced { revision: 10 });
        assert_eq!(sent(&mut session), ["welcome", "start", "offer a@0", "end@10"]);
        say(&mut session, agent_frame::Body::Want(Want { key: "a".into(), hash: hash.clone() }), secs(1));
        let Some(hub_frame::Body::Upsert(first)) = &frames(&mut session)[0].body else { panic!() };
        assert_eq!(first.offset, if goes_on { 1000 } else { 0 });
    }
}

/// An agent that asks again and again for what is not at hand makes the hub read all of its Works no more than now and then.
#[test]
fn listings_that_an_agent_asks_for_are_few_and_one_at_a_time() {
    let mut session = open(2, Some(5), plenty());
    let relists = |session: &mut Session| {
        std::iter::from_fn(|| session.next_effect()).filter(|effect| *effect == Effect::Relist).count()
    };
    let wants = |session: &mut Session, now| {
        for at in 0..100 {
            say(session, agent_frame::Body::Want(Want { key: format!("x{at}"), hash: Bytes::new() }), now);
            say(session, agent_frame::Body::Ping(Ping { seq: at, next_ms: 60_000, ..Ping::default() }), now);
            session.tick(now);
            sent(session);
        }
    };
    wants(&mut session, secs(1));
    assert_eq!(relists(&mut session), 1);
    session.listing_starts();
    wants(&mut session, secs(20));
    session.work(WorkEvent::Synced { revision: 10 });
    wants(&mut session, secs(20));
    assert_eq!(relists(&mut session), 0, "one was begun a moment ago");
    assert_eq!(session.deadline(), secs(31), "the rest is answered by one later");
    session.tick(secs(31));
    assert_eq!(relists(&mut session), 1);
    session.tick(secs(300));
    assert_eq!(relists(&mut session), 0, "and that is all");
}

/// An agent writes such a cursor as its session ends, and is told no more of what lies before it.
#[test]
fn a_pong_tells_no_cursor_while_a_body_is_on_its_way() {
    let mut session = open(0, Some(1), v1::Credit { messages: 10, bytes: 100_000 });
    session.work(upsert("a", 2, &noise(200_000, 1)));
    sent(&mut session);
    let ping = || agent_frame::Body::Ping(Ping { seq: 1, next_ms: 20_000, ..Ping::default() });
    say(&mut session, ping(), secs(1));
    assert_eq!(sent(&mut session), ["pong@0"]);
    some_credit(&mut session);
    assert_eq!(sent(&mut session).pop().as_deref(), Some("upsert a@2"), "the end of it");
    say(&mut session, ping(), secs(2));
    assert_eq!(sent(&mut session), ["pong@2"]);
}

#[test]
fn a_status_write_does_not_come_back_as_a_new_desired_state() {
    let mut session = open(1, Some(10), plenty());
    assert_eq!(sent(&mut session), ["welcome"]);
    session.work(upsert("a", 11, "1"));
    assert_eq!(sent(&mut session), ["upsert a@11"]);
    session.work(upsert("a", 12, "1"));
    assert_eq!(sent(&mut session), [""; 0], "only the status differs");
    // In a new session the agent's own report says what it holds.
    let mut session = open(1, Some(12), plenty());
    let hash = body::hash(&work_body::manifests(&work("a", 0, "1").body.json()).unwrap());
    let status =
        WorkStatus { key: "a".into(), uid: "u-a".into(), revision: 11, hash, ..WorkStatus::default() };
    say(&mut session, agent_frame::Body::WorkStatus(status), secs(1));
    session.work(upsert("a", 13, "1"));
    assert_eq!(sent(&mut session), ["welcome", "offer a@13"]);
    session.work(upsert("a", 14, "2"));
    assert_eq!(sent(&mut session), ["upsert a@14"]);
}

#[test]
fn a_new_generation_or_a_word_to_try_again_is_told_without_the_body() {
    let mut session = open(1, Some(10), plenty());
    session.work(upsert("a", 11, "1"));
    assert_eq!(sent(&mut session), ["welcome", "upsert a@11"]);
    let told = |session: &mut Session| {
        let offers = frames(session).into_iter().filter_map(|frame| match frame.body {
            Some(hub_frame::Body::Upsert(u)) => Some((u.offer, u.generation, u.retry)),
            _ => None,
        });
        offers.collect::<Vec<_>>()
    };
    session.work(WorkEvent::Upsert(Work { generation: 2, ..work("a", 12, "1") }));
    assert_eq!(told(&mut session), [(true, 2, String::new())]);
    session.work(WorkEvent::Upsert(Work { generation: 2, retry: "now".into(), ..work("a", 13, "1") }));
    assert_eq!(told(&mut session), [(true, 2, "now".to_owned())]);
    session.work(WorkEvent::Upsert(Work { generation: 2, retry: "now".into(), ..work("a", 14, "1") }));
    assert_eq!(told(&mut session), []);
}

#[test]
fn a_word_to_try_again_or_to_keep_the_objects_is_told_of_a_deletion_that_is_told_already() {
    let mut session = open(1, Some(10), plenty());
    session.work(upsert("a", 11, "1"));
    session.work(deleting("a", 12));
    assert_eq!(sent(&mut session), ["welcome", "deleted a@12"]);
    let told = |session: &mut Session| {
        let tombstones = frames(session).into_iter().filter_map(|frame| match frame.body {
            Some(hub_frame::Body::Tombstone(t)) => Some((t.retry, t.preserve)),
            _ => None,
        });
        tombstones.collect::<Vec<_>>()
    };
    let removing = |revision| Work { deleting: true, ..work("a", revision, "x") };
    session.work(WorkEvent::Upsert(Work { generation: 2, ..removing(13) }));
    assert_eq!(told(&mut session), []);
    session.work(WorkEvent::Upsert(Work { retry: "now".into(), ..removing(14) }));
    assert_eq!(told(&mut session), [("now".to_owned(), false)]);
    session.work(WorkEvent::Upsert(Work { retry: "now".into(), ..removing(15) }));
    assert_eq!(told(&mut session), []);
    session.work(WorkEvent::Upsert(Work { retry: "now".into(), preserve: true, ..removing(16) }));
    assert_eq!(told(&mut session), [("now".to_owned(), true)]);
}

#[test]
fn newest_wins_and_a_deletion_is_told_once_until_the_agent_answers() {
    let mut session = open(1, Some(10), plenty());
    for revision in 11..20 {
        session.work(upsert("a", revision, &revision.to_string()));
    }
    session.work(upsert("b", 20, "1"));
    assert_eq!(sent(&mut session), ["welcome", "upsert a@19", "upsert b@20"]);
    session.work(upsert("a", 21, "x"));
    session.work(deleting("a", 22));
    session.work(deleting("a", 23));
    assert_eq!(sent(&mut session), ["deleted a@23"]);
    session.work(deleting("a", 24));
    assert_eq!(sent(&mut session), [""; 0]);
    let removed = v1::Removed {
        key: "a".into(),
        uid: "u-a".into(),
        revision: 23,
        held: true,
        ..v1::Removed::default()
    };
    say(&mut session, agent_frame::Body::Removed(removed), secs(1));
    assert_eq!(
        session.next_report(secs(1)),
        Some(Report::Finalize { key: "a".into(), uid: "u-a".into(), objects: Vec::new() })
    );
    session.work(WorkEvent::Deleted { key: "a".into(), uid: "u-a".into(), revision: 25, preserve: false });
    assert_eq!(sent(&mut session), ["released a@25"]);
}

#[test]
fn silence_makes_late_then_probed_then_dead() {
    let mut session = open(0, Some(1), plenty());
    sent(&mut session);
    say(
        &mut session,
        agent_frame::Body::Ping(Ping { seq: 1, next_ms: 20_000, ..Ping::default() }),
        secs(100),
    );
    sent(&mut session);
    assert_eq!(session.deadline(), secs(130));
    session.tick(secs(129));
    assert_eq!(stands(&mut session), Some(false));
    session.tick(secs(130));
    assert_eq!((stands(&mut session), sent(&mut session)), (Some(true), vec!["ping".into()]));
    say(&mut session, agent_frame::Body::Pong(v1::Pong::default()), secs(131));
    assert_eq!(stands(&mut session), Some(false));
    session.tick(secs(162));
    session.tick(secs(181));
    assert_eq!(sent(&mut session), ["close DEAD"]);
    assert!(session.finished());
}

#[test]
fn an_unknown_frame_is_named_and_survived() {
    let mut session = open(0, Some(1), plenty());
    session.frame(AgentFrame { kind: 99, body: None }, secs(1));
    assert_eq!(sent(&mut session), ["welcome", "unsupported 99"]);
    assert!(!session.finished());
}

#[test]
fn orders_are_obeyed() {
    let mut session = open(0, Some(1), plenty());
    sent(&mut session);
    session.obey(SessionOrder::Drain(secs(2)), secs(10));
    assert_eq!(sent(&mut session), ["Drain(Drain { after_ms: 2000 })"]);
    assert_eq!(session.deadline(), secs(15));
    session.tick(secs(15));
    assert_eq!(sent(&mut session), ["close DRAINING"]);
    let mut session = open(0, Some(1), plenty());
    sent(&mut session);
    session.obey(SessionOrder::CountBy("[]".into()), secs(1));
    assert_eq!(
        sent(&mut session),
        [
            "Resync(Resync { statuses: false, cluster: false, resource_models: b\"[]\", trust_bundle_revision: 0 })"
        ]
    );
    let mut session = open(0, Some(1), plenty());
    session.obey(SessionOrder::Close(crate::cloned_identity::close_for_clone()), secs(1));
    assert_eq!(sent(&mut session), ["close CLONE"]);
    assert!(session.finished());
}

#[test]
fn a_failed_report_is_offered_again_after_a_pause() {
    let mut session = open(0, Some(1), plenty());
    let status = v1::ClusterStatus { encoding: 0, decoded_size: 2, body: Bytes::from_static(b"{}") };
    say(&mut session, agent_frame::Body::ClusterStatus(status), secs(1));
    let report = session.next_report(secs(1)).unwrap();
    session.report_done(report.clone(), true, secs(1));
    assert_eq!(session.next_report(secs(1)), None);
    assert_eq!(session.deadline(), secs(2));
    assert_eq!(session.next_report(secs(2)), Some(report));
}

#[test]
fn a_refusal_is_of_what_was_sent_and_an_unknown_tombstone_is_no_failed_application() {
    let mut session = open(1, Some(10), plenty());
    session.work(WorkEvent::Upsert(Work { generation: 2, ..work("a", 11, "1") }));
    sent(&mut session);
    let nack = |revision, code: NackCode| {
        agent_frame::Body::Nack(v1::Nack {
            key: "a".into(),
            revision,
            code: code.into(),
            ..v1::Nack::default()
        })
    };
    say(&mut session, nack(9, NackCode::Malformed), secs(1));
    assert_eq!(session.next_report(secs(1)), None, "of an older body");
    say(&mut session, nack(11, NackCode::Malformed), secs(1));
    let report = session.next_report(secs(1)).unwrap();
    assert!(matches!(&report, Report::Work(WorkReport { generation: 2, .. }, None)), "{report:?}");
    session.report_done(report, false, secs(1));
    session.work(deleting("a", 12));
    sent(&mut session);
    say(&mut session, nack(12, NackCode::UnknownReason), secs(1));
    assert!(matches!(session.next_report(secs(1)), Some(Report::Notice(_))));
}

/// An agent of before the dictionary cannot read what was packed with it.
#[test]
fn a_body_is_packed_as_the_agent_can_unpack_it() {
    let encoding = |features: Vec<String>| {
        let hello = Hello { features, credit: Some(plenty()), boot_id: "b".into(), ..Hello::default() };
        let mut session = Session::open(hello, &opening(Some(10)), &Options::default(), Duration::ZERO);
        session.work(upsert("a", 11, &"nginx".repeat(100)));
        std::iter::from_fn(|| session.next_frame()).find_map(|frame| match frame.body {
            Some(hub_frame::Body::Upsert(upsert)) => Some(upsert.encoding()),
            _ => None,
        })
    };
    assert_eq!(encoding(vec![]), Some(v1::Encoding::Zstd));
    assert_eq!(encoding(vec!["of-its-own".to_owned()]), Some(v1::Encoding::Zstd));
    assert_eq!(encoding(vec![karmada_proto::DICTIONARY.to_owned()]), Some(v1::Encoding::ZstdDictionary));
}
