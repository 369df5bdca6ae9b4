//! A member that was restored from an older backup holds what was removed since: told, and left alone until a person decides.

use super::*;
use crate::outbox::Outbox;

/// As a Work `key` of this cluster brought it.
fn marked(name: &str, key: &str) -> Value {
    body::stamped(&config(name, "old"), "m", key)
}

/// The Works that are told as orphans, until nothing more is told.
fn orphans(rig: &Rig) -> Vec<String> {
    let mut outbox: parking_lot::MutexGuard<'_, Outbox> = rig.shared.outbox.lock();
    let mut told = Vec::new();
    while let Some(body) = outbox.next_prompt() {
        if let agent_frame::Body::Orphans(orphans) = body {
            told.extend(orphans.keys);
        }
    }
    told
}

/// The hub has told all that there is.
fn caught_up() -> Change {
    Change::Cursor(9)
}

/// A person's word, as the hub passes it on.
fn word(key: &str, preserve: bool) -> Change {
    Change::Delete {
        key: key.into(),
        uid: String::new(),
        revision: i64::MAX as u64,
        preserve,
        retry: String::new(),
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_restored_member_brings_back_is_told_and_left_until_a_person_decides() {
    for preserve in [false, true] {
        let rig = Rig::fresh();
        rig.commit(&[put("a", 1, &[config("a", "1")], false), caught_up()]);
        rig.until("applied", |rig| rig.applied("a")).await;
        rig.member.seed(marked("back", "gone"));
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(orphans(&rig), ["gone"]);
        tokio::time::sleep(Duration::from_secs(7200)).await;
        assert_eq!((rig.value("back").as_deref(), orphans(&rig).len()), (Some("old"), 0), "told once");
        rig.commit(&[word("gone", preserve)]);
        let is_done = |rig: &Rig| rig.shared.ledger.held().unwrap()["gone"].phase == Phase::Removed;
        rig.until("let go of", is_done).await;
        let left = rig.member.read(&id("back"));
        assert_eq!(left.is_some(), preserve);
        assert!(left.is_none_or(|object| !body::is_ours(&object, "m", "gone")));
        assert_eq!(rig.value("a").as_deref(), Some("1"));
    }
}

/// Nothing of the kind is held any more, so that nobody watches it; found at the start, and after connections broke.
#[tokio::test(start_paused = true)]
async fn objects_of_a_kind_that_nobody_holds_are_found_at_the_start_and_after_an_outage() {
    let member = MemoryMember::new("m", 1, Duration::ZERO);
    member.seed(marked("first", "one"));
    let ledger = Ledger::in_memory().unwrap();
    ledger.commit(&[caught_up()]).unwrap();
    let rig = Rig::new(member, ledger);
    tokio::time::sleep(Duration::from_secs(90)).await;
    assert_eq!(orphans(&rig), ["one"]);
    rig.member.seed(marked("second", "two"));
    rig.member.set_away(true);
    let _ = rig.member.get(&id("second")).await;
    rig.member.set_away(false);
    tokio::time::sleep(Duration::from_secs(3700)).await;
    assert_eq!(orphans(&rig), ["two"]);
    // Told again after a start: the hub may not have heard.
    let (member, shared) = rig.end().await;
    let ledger = Arc::try_unwrap(shared).unwrap_or_else(|_| panic!("in use")).ledger;
    let rig = Rig::new(member, ledger);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(orphans(&rig), ["one", "two"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_on_its_way_is_no_orphan() {
    let rig = Rig::fresh();
    rig.commit(&[put("a", 1, &[config("a", "1")], false)]);
    rig.until("applied", |rig| rig.applied("a")).await;
    // Of a Work that the hub has not told yet, of one that is suspended, of another cluster's, and one that is on its way out.
    rig.member.seed(marked("late", "late"));
    rig.member.seed(marked("suspended", "s"));
    rig.member.seed(body::stamped(&config("theirs", "1"), "other", "w"));
    rig.member.seed(marked("ending", "ending"));
    tokio::time::sleep(Duration::from_secs(10)).await;
    rig.member.remove(&id("ending"));
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(orphans(&rig), [""; 0], "nobody knows yet which Works there are");
    let late =
        [put("late", 2, &[config("late", "2")], false), put("s", 3, &[config("suspended", "2")], true)];
    rig.commit(&late);
    rig.commit(&[caught_up()]);
    rig.until("applied", |rig| rig.applied("late")).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(orphans(&rig), [""; 0]);
    assert_eq!(rig.value("late").as_deref(), Some("2"), "taken over by the Work that names it");
}

/// The hub has a Work of that name after all, which names other objects: what was found is not taken for what an older body named.
#[tokio::test(start_paused = true)]
async fn a_work_that_comes_later_removes_nothing_that_was_found() {
    let rig = Rig::fresh();
    rig.commit(&[put("a", 1, &[config("a", "1")], false), caught_up()]);
    rig.member.seed(marked("back", "w"));
    tokio::time::sleep(Duration::from_secs(90)).await;
    assert_eq!(orphans(&rig), ["w"]);
    rig.commit(&[put("w", 2, &[config("other", "1")], false)]);
    rig.until("applied", |rig| rig.applied("w")).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(rig.value("back").as_deref(), Some("old"));
}
