//! What of the member's objects stays where an interpreter webhook decides it: the hub is asked, and what stands stays until it answered.

use karmada_lua::customization::RETAINED_BY_WEBHOOK;
use karmada_proto::v1::{AskRefusal, AskRefusalCode, Retained, RetentionOf, ask_hub, hub_answer};

use super::*;
use crate::hub_questions::HubQuestion;

/// Of ConfigMaps this webhook decides.
fn decided_by(webhook: &str) -> Change {
    let told = json!([{"metadata": {"name": format!("{RETAINED_BY_WEBHOOK}{webhook}")}, "spec": {
        "target": {"apiVersion": "v1", "kind": "ConfigMap"}, "customizations": {}}}]);
    let body = Bytes::from(told.to_string());
    Change::Document { table: 2, hash: karmada_proto::body::hash(&body), body }
}

/// The next question, and the object that it is about.
async fn asked(rig: &Rig) -> (RetentionOf, Value, HubQuestion) {
    let waiting = &rig.shared.hub_questions;
    let came = tokio::time::timeout(Duration::from_secs(60), waiting.come()).await;
    came.expect("nothing is asked");
    let taken = waiting.take().expect("nobody waits any more");
    let ask_hub::Question::RetentionOf(wanted) = taken.question.clone();
    let json = karmada_proto::body::decode(wanted.encoding, &wanted.observed, wanted.decoded_size).unwrap();
    (wanted, serde_json::from_slice(&json).unwrap(), taken)
}

fn retained(object: &Value) -> hub_answer::Result {
    let encoded = karmada_proto::body::encode(&Bytes::from(object.to_string()));
    hub_answer::Result::Retained(Retained {
        encoding: encoded.encoding.into(),
        decoded_size: encoded.decoded_size,
        object: encoded.bytes,
    })
}

fn refused(code: AskRefusalCode, message: &str) -> hub_answer::Result {
    hub_answer::Result::Refusal(AskRefusal { code: code.into(), message: message.into() })
}

/// An object that somebody at the site changed after it was applied; the hub is asked from now on.
async fn changed_at_the_site() -> Rig {
    let rig = Rig::fresh();
    rig.commit(&[put("a", 1, &[config("a", "hub")], false)]);
    rig.until("applied", |rig| rig.applied("a")).await;
    rig.shared.ledger.commit(&[decided_by("first")]).unwrap();
    let (_, observed, question) = asked(&rig).await;
    assert_eq!(observed["data"], json!({"k": "hub"}));
    question.answer.send(retained(&config("a", "hub"))).unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    rig.member.edit(&id("a"), |o| *o.pointer_mut("/data/k").unwrap() = json!("site"));
    rig
}

#[tokio::test(start_paused = true)]
async fn what_a_webhook_keeps_stays_and_is_asked_about_once() {
    let rig = changed_at_the_site().await;
    let (wanted, observed, question) = asked(&rig).await;
    let entry = rig.shared.ledger.entry("a").unwrap().unwrap();
    assert_eq!((wanted.key.as_str(), &wanted.hash, wanted.ordinal), ("a", &entry.hash, 0));
    assert_eq!(observed["data"], json!({"k": "site"}));
    assert!(observed["metadata"].get("managedFields").is_none() && observed.get("status").is_none());
    question.answer.send(retained(&config("a", "site"))).unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(rig.value("a").as_deref(), Some("site"));
    assert!(rig.applied("a"));
    // At rest nothing is asked, nothing is written, whatever the object's status does.
    rig.member.edit(&id("a"), |o| o["status"] = json!({"counts": 1}));
    let writes = rig.member.writes();
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(rig.member.writes(), writes);
    assert!(rig.shared.hub_questions.take().is_none());
    // Another webhook, or the same with another content, is asked anew, and does not keep it.
    rig.shared.ledger.commit(&[decided_by("second")]).unwrap();
    asked(&rig).await.2.answer.send(retained(&config("a", "hub"))).unwrap();
    rig.until("brought back", |rig| rig.value("a").as_deref() == Some("hub")).await;
}

#[tokio::test(start_paused = true)]
async fn what_stands_stays_until_the_hub_answers_and_nobody_is_held_up() {
    let rig = changed_at_the_site().await;
    let told = said(&rig, "a");
    // Its session ended; then it was busy; then it had another Work by now.
    drop(asked(&rig).await.2);
    for code in [AskRefusalCode::AskBusy, AskRefusalCode::NotAllowed] {
        asked(&rig).await.2.answer.send(refused(code, "not now")).unwrap();
    }
    let (.., waits) = asked(&rig).await;
    rig.commit(&[put(
        "deployment",
        2,
        &[json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "default"}, "spec": {}})],
        false,
    )]);
    rig.until("another is applied", |rig| rig.applied("deployment")).await;
    assert_eq!((rig.value("a").as_deref(), said(&rig, "a")), (Some("site"), told));
    assert!(rig.applied("a"), "what is known of it holds");
    waits.answer.send(retained(&config("a", "hub"))).unwrap();
    rig.until("brought back", |rig| rig.value("a").as_deref() == Some("hub")).await;
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_fails_is_told_in_the_works_condition_and_asked_again() {
    let rig = changed_at_the_site().await;
    let why = "failed calling webhook \"hooks/h\", Retain: connection refused";
    asked(&rig).await.2.answer.send(refused(AskRefusalCode::NotKnown, why)).unwrap();
    rig.until("told", |rig| said(rig, "a").contains(why)).await;
    assert_eq!(rig.value("a").as_deref(), Some("site"));
    let other = retained(
        &json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "namespace": "default"}}),
    );
    asked(&rig).await.2.answer.send(other).unwrap();
    rig.until("told", |rig| said(rig, "a").contains("another object")).await;
    assert_eq!(rig.value("a").as_deref(), Some("site"));
}

/// Who changes an object all the time is not waited for without end: that is told, and the waits grow.
#[tokio::test(start_paused = true)]
async fn an_object_that_is_another_one_each_time_is_told_and_waited_over() {
    let rig = changed_at_the_site().await;
    let begun = Instant::now();
    let mut asked_for = 0;
    while begun.elapsed() < Duration::from_secs(120) && asked_for < 60 {
        let waiting = tokio::time::timeout(Duration::from_secs(30), rig.shared.hub_questions.come()).await;
        let Some(question) = waiting.ok().and_then(|()| rig.shared.hub_questions.take()) else { continue };
        asked_for += 1;
        rig.member
            .edit(&id("a"), |o| *o.pointer_mut("/data/k").unwrap() = json!(format!("site {asked_for}")));
        question.answer.send(retained(&config("a", "hub"))).unwrap();
    }
    assert!(said(&rig, "a").contains("has not answered yet"), "{}", said(&rig, "a"));
    assert!((6..60).contains(&asked_for), "{asked_for}");
}

/// While the hub is away nothing is asked or looked at again and again; once it is there all are, at the pace of drift.
#[tokio::test(start_paused = true)]
async fn who_needs_the_hub_waits_until_it_is_there() {
    let rig = changed_at_the_site().await;
    asked(&rig).await.2.answer.send(retained(&config("a", "site"))).unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    rig.shared.link.send_replace(LinkView::away(crate::cause::Cause::Tcp, "gone"));
    rig.member.edit(&id("a"), |o| *o.pointer_mut("/data/k").unwrap() = json!("another"));
    tokio::time::sleep(Duration::from_secs(5)).await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(rig.shared.hub_questions.take().is_none());
    rig.shared.link.send_replace(LinkView::Connected { epoch: 1 });
    let (_, observed, question) = asked(&rig).await;
    assert_eq!(observed["data"], json!({"k": "another"}));
    question.answer.send(retained(&config("a", "hub"))).unwrap();
    rig.until("brought back", |rig| rig.value("a").as_deref() == Some("hub")).await;
}

/// A Work that is deleted while the hub is asked is removed, and an answer that comes later makes nothing.
#[tokio::test(start_paused = true)]
async fn a_work_that_goes_meanwhile_is_removed_for_good() {
    let rig = changed_at_the_site().await;
    let (.., question) = asked(&rig).await;
    rig.commit(&[delete("a", 5)]);
    rig.until("removed", |rig| rig.value("a").is_none()).await;
    let _ = question.answer.send(retained(&config("a", "hub")));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(rig.value("a"), None);
}
