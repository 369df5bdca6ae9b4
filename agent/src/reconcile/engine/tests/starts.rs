//! A start: over a ledger that may be an older copy, before the hub was heard, and before the member's objects were listed.

use std::sync::atomic::Ordering;

use super::*;
use crate::cause::Cause as Why;
use crate::ledger::Outcome;
use crate::reconcile::outcome;

fn away() -> LinkView {
    LinkView::Away { cause: Why::Tcp, reason: "no connection".into() }
}

fn drifted(rig: &Rig) -> u64 {
    rig.shared.counts.drifted.load(Ordering::Relaxed)
}

/// A member and a ledger that says "applied" of what the member does not have.
fn left_behind() -> (MemoryMember, Ledger) {
    let ledger = Ledger::in_memory().unwrap();
    let put = put("a", 1, &[config("a", "1")], false);
    let Change::Put { hash, .. } = &put else { unreachable!() };
    let outcome = Outcome {
        key: "a".into(),
        hash: hash.clone(),
        applied: outcome(true, ""),
        placed: true,
        written: Vec::new(),
        unanswered: false,
    };
    ledger.commit(&[put]).unwrap();
    ledger.ended(&[outcome]).unwrap();
    (MemoryMember::new("m", 1, Duration::ZERO), ledger)
}

/// The first dial fails, the second reaches the hub, which tells what was deleted since the ledger was copied.
#[tokio::test(start_paused = true)]
async fn what_the_hub_says_was_deleted_is_not_brought_back_by_an_older_ledger_first() {
    let (member, ledger) = left_behind();
    let writes = member.writes();
    let rig = Rig::linked(member, ledger, LinkView::Starting);
    let pause = async |ms| tokio::time::sleep(Duration::from_millis(ms)).await;
    pause(50).await;
    rig.shared.link.send_replace(away());
    pause(3000).await;
    rig.shared.link.send_replace(LinkView::Connected { epoch: 1 });
    pause(300).await;
    rig.commit(&[delete("a", 2)]);
    let is_done = |rig: &Rig| rig.shared.ledger.held().unwrap()["a"].phase == Phase::Removed;
    rig.until("done with it", is_done).await;
    assert_eq!((rig.member.writes(), drifted(&rig)), (writes, 0), "the member was never asked for it");
}

#[tokio::test(start_paused = true)]
async fn a_site_without_its_hub_is_healed_after_a_moment() {
    for view in [LinkView::Starting, away()] {
        let (member, ledger) = left_behind();
        let rig = Rig::linked(member, ledger, LinkView::Starting);
        rig.shared.link.send_replace(view);
        tokio::time::sleep(Duration::from_secs(12)).await;
        assert_eq!((rig.value("a").as_deref(), drifted(&rig)), (Some("1"), 1));
        // From then on at once, whatever becomes of the link.
        rig.shared.link.send_replace(LinkView::Connected { epoch: 1 });
        tokio::time::sleep(Duration::from_millis(10)).await;
        rig.member.remove(&id("a"));
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!((rig.value("a").as_deref(), drifted(&rig)), (Some("1"), 2));
    }
}

/// Neither of a Work that waits its turn nor of one that was made after the list was, has anybody removed anything.
#[tokio::test(start_paused = true)]
async fn what_a_list_does_not_name_yet_is_not_told_as_removed() {
    let rig = Rig::linked(
        MemoryMember::new("m", 1, Duration::ZERO),
        Ledger::in_memory().unwrap(),
        LinkView::Starting,
    );
    rig.commit(&[put("waits", 1, &[config("waits", "1")], false)]);
    tokio::time::sleep(Duration::from_secs(5)).await;
    rig.shared.link.send_replace(LinkView::Connected { epoch: 1 });
    rig.until("applied", |rig| rig.applied("waits")).await;
    assert_eq!(drifted(&rig), 0, "it waited for its turn");

    let rig = Rig::fresh();
    rig.member.list_late(Duration::from_secs(5));
    rig.commit(&[put("late", 1, &[config("late", "1")], false)]);
    rig.until("applied", |rig| rig.applied("late")).await;
    let writes = rig.member.writes();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!((drifted(&rig), rig.member.writes()), (0, writes), "it was made after the list");
    rig.member.remove(&id("late"));
    rig.until("brought back", |rig| rig.value("late").is_some()).await;
    assert_eq!(drifted(&rig), 1);
}
