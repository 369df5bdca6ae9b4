//! An agent that rested beside another one over the same ledger, and then takes over.

use super::*;
use crate::cause::Cause as Why;

fn rests() -> LinkView {
    LinkView::Away { cause: Why::Clone, reason: String::new() }
}

/// What the other took meanwhile is in the ledger alone: nobody told this process of it.
#[tokio::test(start_paused = true)]
async fn who_takes_over_goes_on_from_the_ledger_as_it_is_by_then() {
    let dir = tempfile::tempdir().unwrap();
    let member = MemoryMember::new("m", 1, Duration::ZERO);
    let first = Rig::new(member.clone(), Ledger::open(dir.path()).unwrap());
    first.commit(&[
        put("stays", 1, &[config("stays", "1")], false),
        put("goes", 2, &[config("goes", "1")], false),
        put("gone", 3, &[config("gone", "1")], false),
    ]);
    first.until("applied", |rig| ["stays", "goes", "gone"].iter().all(|key| rig.applied(key))).await;
    let second = Rig::linked(member, Ledger::open(dir.path()).unwrap(), rests());
    tokio::time::sleep(Duration::from_secs(5)).await;
    first.commit(&[put("more", 4, &[config("more", "1")], false), Change::Forget { key: "gone".into() }]);
    first.until("applied", |rig| rig.applied("more")).await;
    first.engine.abort();
    // On the disk, and not carried out.
    let goes = delete("goes", 5);
    first.shared.ledger.commit(&[put("new", 6, &[config("new", "1")], false), goes]).unwrap();
    second.member.remove(&id("more"));
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(second.value("new").is_none() && second.value("goes").is_some(), "it rests");
    second.shared.link.send_replace(LinkView::Connected { epoch: 1 });
    second.until("the new one is applied", |rig| rig.applied("new")).await;
    second.until("the other is removed", |rig| rig.value("goes").is_none()).await;
    second.until("what went is brought back", |rig| rig.value("more").is_some()).await;
    for name in ["stays", "more"] {
        second.member.remove(&id(name));
        second.until("looked after", |rig| rig.value(name).is_some()).await;
    }
    second.member.remove(&id("gone"));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(second.value("gone"), None, "nobody asks for it any more");
    assert!(second.shared.outbox.lock().report("gone").is_none());
}

/// The other was cut off while it worked on something alone: that is known, and tried before the rest.
#[tokio::test(start_paused = true)]
async fn what_the_other_was_cut_off_over_counts_as_at_a_start() {
    let dir = tempfile::tempdir().unwrap();
    let member = MemoryMember::new("m", 1, Duration::ZERO);
    let second = Rig::linked(member, Ledger::open(dir.path()).unwrap(), rests());
    tokio::time::sleep(Duration::from_secs(1)).await;
    let first = crashed(dir.path(), &["poison"], 0);
    first.commit(&[put("poison", 1, &[config("p", "1")], false)]).unwrap();
    drop(first);
    let first = crashed(dir.path(), &["poison"], CRASHES - 1);
    first.begins(&["poison".to_owned()]).unwrap();
    second.shared.link.send_replace(LinkView::Connected { epoch: 1 });
    second.until("left alone", |rig| said(rig, "poison").contains("left alone")).await;
    assert_eq!(second.value("p"), None);
}
