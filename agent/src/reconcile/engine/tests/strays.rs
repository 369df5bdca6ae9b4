//! A member that was restored from an older backup holds what was removed since: told, and left alone until a person decides.

use super::*;
use crate::outbox::Outbox;

/// As a Work `key` of this cluster brought it.
fn marked(name: &str, key: &str) -> Value {
    member_body::stamped(&config(name, "old"), "m", key)
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

/// The Works that are told to be removed, until nothing more is told.
fn removals(rig: &Rig) -> Vec<String> {
    let mut outbox = rig.shared.outbox.lock();
    outbox.all_again();
    let told = std::iter::from_fn(|| outbox.next_prompt()).filter_map(|body| match body {
        agent_frame::Body::Removed(removed) => Some(removed.key),
        _ => None,
    });
    told.collect()
}

fn is_removed(rig: &Rig, key: &str) -> bool {
    rig.shared.ledger.held().unwrap().get(key).is_some_and(|held| held.phase == Phase::Removed)
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
        assert!(left.is_none_or(|object| !member_body::is_ours(&object, "m", "gone")));
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
    // ReportedService again after a start: the hub may not have heard.
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
    rig.member.seed(member_body::stamped(&config("theirs", "1"), "other", "w"));
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
    assert_eq!(orphans(&rig), ["w/former"], "told on");
}

/// The hub was restored, and its body of the Work is older than the one that the site has.
#[tokio::test(start_paused = true)]
async fn what_a_restored_hubs_body_does_not_name_is_told_and_left_until_a_person_decides() {
    for decided in [None, Some(true), Some(false)] {
        let rig = Rig::fresh();
        rig.commit(&[put("w", 1, &[config("a", "1"), config("b", "1")], false), caught_up()]);
        rig.until("applied", |rig| rig.applied("w")).await;
        let keep = Change::KeepFormer { key: "w".into() };
        rig.commit(&[put("w", 2, &[config("a", "old"), config("c", "old")], false), keep.clone()]);
        rig.until("applied", |rig| rig.applied("w") && rig.value("c").is_some()).await;
        assert_eq!(orphans(&rig), ["w/former"], "at once");
        // The same body again takes nothing away either.
        rig.commit(&[put("w", 3, &[config("a", "old"), config("c", "old")], false), keep]);
        tokio::time::sleep(Duration::from_secs(7200)).await;
        assert_eq!((rig.value("a").as_deref(), rig.value("b").as_deref()), (Some("old"), Some("1")));
        match decided {
            Some(preserve) => {
                rig.commit(&[word("w/former", preserve)]);
                rig.until("let go of", |rig| is_removed(rig, "w/former")).await;
                assert_eq!(rig.value("b").is_some(), preserve);
            }
            // Named again, it is the Work's.
            None => {
                rig.commit(&[put("w", 4, &[config("a", "new"), config("b", "new")], false)]);
                rig.until("applied", |rig| rig.applied("w") && rig.value("c").is_none()).await;
                rig.until("none is left", |rig| is_removed(rig, "w/former")).await;
                assert_eq!(rig.value("b").as_deref(), Some("new"));
            }
        }
        assert!(rig.applied("w"));
    }
}

/// Of a Work that is held: an older copy of the agent's state knows of no body that named the object, or the member brought it back.
#[tokio::test(start_paused = true)]
async fn what_a_held_work_does_not_name_any_more_is_told_and_left_until_a_person_decides() {
    for preserve in [false, true] {
        let rig = Rig::fresh();
        rig.commit(&[put("w", 1, &[config("a", "1"), config("back", "1")], false), caught_up()]);
        rig.until("applied", |rig| rig.applied("w")).await;
        rig.commit(&[put("w", 2, &[config("a", "1")], false)]);
        rig.until("dropped", |rig| rig.applied("w") && rig.value("back").is_none()).await;
        rig.member.seed(marked("back", "w"));
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(orphans(&rig), ["w/former"]);
        tokio::time::sleep(Duration::from_secs(7200)).await;
        assert_eq!((rig.value("back").as_deref(), orphans(&rig).len()), (Some("old"), 0), "told once");
        rig.commit(&[word("w/former", preserve)]);
        rig.until("let go of", |rig| is_removed(rig, "w/former")).await;
        let left = rig.member.read(&id("back"));
        assert_eq!(left.is_some(), preserve);
        assert!(left.is_none_or(|object| !member_body::is_ours(&object, "m", "w")));
        assert_eq!((rig.value("a").as_deref(), rig.applied("w")), (Some("1"), true));
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_gone_or_named_again_is_told_no_more() {
    for named_again in [false, true] {
        let rig = Rig::fresh();
        rig.commit(&[put("w", 1, &[config("a", "1")], false), caught_up()]);
        rig.member.seed(marked("back", "w"));
        rig.member.seed(marked("more", "w"));
        rig.member.seed(marked("other", "nobody"));
        tokio::time::sleep(Duration::from_secs(90)).await;
        assert_eq!(orphans(&rig), ["nobody", "w/former"]);
        rig.member.remove(&id("other"));
        rig.member.edit(&id("more"), |object| {
            karmada_api::object::remove_label(object, labels::MANAGED);
        });
        rig.until("the other", |rig| is_removed(rig, "nobody")).await;
        assert!(!is_removed(&rig, "w/former"), "one is there");
        if named_again {
            rig.commit(&[put("w", 2, &[config("a", "1"), config("back", "2")], false)]);
        } else {
            rig.member.remove(&id("back"));
        }
        rig.until("none is left", |rig| is_removed(rig, "w/former")).await;
        rig.until("applied", |rig| rig.applied("w")).await;
        assert_eq!(rig.value("back").as_deref(), named_again.then_some("2"));
        let told = |rig: &Rig| removals(rig);
        assert_eq!(told(&rig), ["nobody", "w/former"], "the hub takes them out of the report");
        let forget = |key: &str| Change::Forget { key: key.into() };
        rig.commit(&[forget("nobody"), forget("w/former")]);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(rig.value("back").as_deref(), named_again.then_some("2"));
    }
}

/// No Work has the kind any more, so that nobody watches it: found by the look at all kinds, and watched while it is told.
#[tokio::test(start_paused = true)]
async fn of_a_kind_that_no_work_has_any_more_it_is_found_as_well() {
    let member = MemoryMember::new("m", 1, Duration::ZERO);
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}});
    member.seed(member_body::stamped(&secret, "m", "w"));
    let ledger = Ledger::in_memory().unwrap();
    ledger.commit(&[put("w", 1, &[config("a", "1")], false), caught_up()]).unwrap();
    let rig = Rig::new(member, ledger);
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(orphans(&rig), ["w/former"]);
    rig.member.remove(&ObjectId::of(&secret));
    rig.until("none is left", |rig| is_removed(rig, "w/former")).await;
}

/// A ledger that says both: that a Work names the object, and that it is no Work's.
#[tokio::test(start_paused = true)]
async fn what_a_work_names_at_the_start_is_told_no_more() {
    let ledger = Ledger::in_memory().unwrap();
    ledger.commit(&[put("w", 1, &[config("a", "1")], false), caught_up()]).unwrap();
    ledger.found("w/former", &[id("a"), id("b")]).unwrap();
    ledger.found("x", &[id("a")]).unwrap();
    let member = MemoryMember::new("m", 1, Duration::ZERO);
    member.seed(marked("b", "w"));
    let rig = Rig::new(member, ledger);
    rig.until("applied", |rig| rig.applied("w") && is_removed(rig, "x")).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(rig.shared.ledger.entry("w/former").unwrap().unwrap().former, [id("b")]);
    assert_eq!(orphans(&rig), ["w/former"]);
}
