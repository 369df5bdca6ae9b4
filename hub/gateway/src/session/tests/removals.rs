//! What a site is told to remove, and what counts as its removal.

use super::*;

#[test]
fn an_agent_without_a_ledger_learns_what_to_remove() {
    let mut session = open(0, None, plenty());
    session.work(deleting("a", 5));
    session.work(WorkEvent::Synced { revision: 9 });
    assert_eq!(sent(&mut session), ["welcome", "start", "upsert a@0 suspended", "deleted a@0", "end@9"]);
}

fn never_held(revision: u64) -> agent_frame::Body {
    agent_frame::Body::Removed(v1::Removed {
        key: "a".into(),
        uid: "u-a".into(),
        revision,
        never_held: true,
        ..v1::Removed::default()
    })
}

#[test]
fn an_agent_that_never_held_it_is_sent_what_to_remove_once_and_only_evidence_finalises() {
    let mut session = open(1, Some(10), plenty());
    session.work(deleting("a", 11));
    assert_eq!(sent(&mut session), ["welcome", "deleted a@11"]);
    say(&mut session, never_held(11), secs(1));
    assert_eq!(session.next_report(secs(1)), None, "that nothing was looked for is no evidence");
    assert_eq!(sent(&mut session), ["upsert a@10 suspended", "deleted a@11"]);
    say(&mut session, never_held(11), secs(1));
    let Some(Report::Notice(notice)) = session.next_report(secs(1)) else {
        panic!("it is shown to a person")
    };
    assert!(notice.warning && notice.key == "a");
    assert_eq!(sent(&mut session), [""; 0], "not for ever");
    let evidence = v1::Removed {
        key: "a".into(),
        uid: "u-a".into(),
        revision: 11,
        object_uids: vec!["o1".into()],
        ..v1::Removed::default()
    };
    say(&mut session, agent_frame::Body::Removed(evidence), secs(1));
    session.report_done(Report::Notice(notice), false, secs(1));
    let gone = Report::Finalize { key: "a".into(), uid: "u-a".into(), objects: vec!["o1".into()] };
    assert_eq!(session.next_report(secs(1)), Some(gone));
    say(&mut session, never_held(11), secs(1));
    assert_eq!((sent(&mut session).len(), session.refused()), (0, 1), "nobody asked");
}

#[test]
fn a_removal_without_evidence_is_no_removal() {
    let mut session = open(1, Some(10), plenty());
    session.work(deleting("a", 11));
    assert_eq!(sent(&mut session), ["welcome", "deleted a@11"]);
    let bare = || v1::Removed { key: "a".into(), uid: "u-a".into(), revision: 11, ..v1::Removed::default() };
    say(&mut session, agent_frame::Body::Removed(bare()), secs(1));
    assert_eq!(session.next_report(secs(1)), None, "it does not say that the body was held");
    assert_eq!(sent(&mut session), ["upsert a@10 suspended", "deleted a@11"]);
    let absent = v1::Removed { held: true, ..bare() };
    say(&mut session, agent_frame::Body::Removed(absent), secs(1));
    let gone = Report::Finalize { key: "a".into(), uid: "u-a".into(), objects: Vec::new() };
    assert_eq!(session.next_report(secs(1)), Some(gone), "what it names was not there any more");
}

/// A Work in the store whose manifests cannot be read is told to be removed all the same.
#[test]
fn a_work_that_cannot_be_read_holds_up_nothing() {
    let mut session = open(0, None, plenty());
    let json = Bytes::from_static(br#"{"metadata":{"name":"a","uid":"u-a"},"spec":{"workload":"none"}}"#);
    let broken = Work::from_json(5, json.into()).unwrap();
    session.work(WorkEvent::Upsert(Work { deleting: true, ..broken }));
    session.work(WorkEvent::Synced { revision: 9 });
    assert_eq!(sent(&mut session), ["welcome", "start", "deleted a@0", "end@9"]);
}
