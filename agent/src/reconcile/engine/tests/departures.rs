//! What goes from the member: late, without its marks, or because a newer body does not name it.

use super::*;

pub(super) fn delete(key: &str, revision: u64) -> Change {
    Change::Delete {
        key: key.into(),
        uid: format!("u-{key}"),
        revision,
        preserve: false,
        retry: String::new(),
    }
}

fn phase(rig: &Rig, key: &str) -> Phase {
    rig.shared.ledger.held().unwrap()[key].phase
}

/// A webhook holds the create for longer than the agent waits for it: the agent gave up, the Work went, and only then the object came.
#[tokio::test(start_paused = true)]
async fn a_create_that_the_member_carries_out_late_does_not_outlive_its_work() {
    for restarts in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let mut rig = Rig::new(MemoryMember::new("m", 1, Duration::ZERO), Ledger::open(dir.path()).unwrap());
        rig.member.carry_out_late(Some(Duration::from_secs(60)));
        rig.commit(&[put("a", 1, &[config("a", "1")], false)]);
        tokio::time::sleep(Duration::from_secs(if restarts { 10 } else { 31 })).await;
        rig.member.carry_out_late(None);
        rig.commit(&[delete("a", 2)]);
        if restarts {
            // Without a word: what is under way is cut off, and the member goes on with it.
            rig.engine.abort();
            let Rig { member, shared, .. } = rig;
            drop(shared);
            rig = Rig::new(member, Ledger::open(dir.path()).unwrap());
        }
        rig.until("done with it", |rig| phase(rig, "a") == Phase::Removed).await;
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(rig.value("a"), None, "restarts: {restarts}");
    }
}

/// An apply makes what is not there: one that comes late must not.
#[tokio::test(start_paused = true)]
async fn a_change_that_the_member_carries_out_late_brings_nothing_back() {
    let rig = Rig::fresh();
    rig.commit(&[put("a", 1, &[config("a", "1")], false)]);
    rig.until("applied", |rig| rig.applied("a")).await;
    rig.commit(&[put("a", 2, &[config("a", "2")], false)]);
    rig.until("applied", |rig| rig.applied("a")).await;
    rig.member.carry_out_late(Some(Duration::from_secs(1000)));
    rig.commit(&[put("a", 3, &[config("a", "3")], false)]);
    tokio::time::sleep(Duration::from_secs(31)).await;
    rig.member.carry_out_late(None);
    rig.commit(&[delete("a", 4)]);
    rig.until("done with it", |rig| phase(rig, "a") == Phase::Removed).await;
    tokio::time::sleep(Duration::from_secs(2000)).await;
    assert_eq!(rig.value("a"), None);
}

#[tokio::test(start_paused = true)]
async fn a_removal_is_done_at_once_where_every_write_was_answered() {
    let rig = Rig::fresh();
    rig.member.fail("b", Some(MemberError::Invalid("no".into())));
    rig.commit(&[put("a", 1, &[config("a", "1")], false), put("b", 2, &[config("b", "1")], false)]);
    rig.until("applied", |rig| rig.applied("a")).await;
    rig.commit(&[delete("a", 3), delete("b", 4)]);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!((phase(&rig, "a"), phase(&rig, "b")), (Phase::Removed, Phase::Removed));
}

/// An override that renames, edited; a person's Work that names one object less.
#[tokio::test(start_paused = true)]
async fn what_a_newer_body_does_not_name_any_more_goes_once_what_takes_its_place_stands() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::new(MemoryMember::new("m", 1, Duration::ZERO), Ledger::open(dir.path()).unwrap());
    rig.member.seed(config("theirs", "theirs"));
    rig.commit(&[put("a", 1, &[config("one", "1"), config("theirs", "1"), config("shared", "1")], false)]);
    rig.until("there", |rig| rig.value("one").is_some() && rig.value("shared").is_some()).await;
    rig.member.fail("two", Some(MemberError::Invalid("a webhook says no".into())));
    rig.commit(&[put("a", 2, &[config("two", "1"), config("shared", "1")], false)]);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(rig.value("one").is_some(), "nothing stands in its place");
    // A newer body before that, a restart, and one more.
    rig.commit(&[put("a", 3, &[config("three", "1"), config("shared", "1")], true)]);
    let (member, shared) = rig.end().await;
    drop(shared);
    let rig = Rig::new(member, Ledger::open(dir.path()).unwrap());
    rig.member.fail("two", None);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(rig.value("one").is_some(), "it is suspended");
    rig.commit(&[put("a", 4, &[config("four", "1"), config("shared", "1")], false)]);
    rig.until("taken away", |rig| rig.value("one").is_none() && rig.value("four").is_some()).await;
    assert_eq!(rig.value("theirs").as_deref(), Some("theirs"), "what was never ours is left");
    assert!(rig.value("shared").is_some());
    rig.commit(&[put("a", 5, &[config("five", "1")], false), delete("a", 6)]);
    rig.until("removed", |rig| phase(rig, "a") == Phase::Removed).await;
    for name in ["four", "five", "shared"] {
        assert_eq!(rig.value(name), None, "{name}");
    }
    let writes = rig.member.writes();
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(rig.member.writes(), writes);
}

/// A policy engine there takes labels and annotations off whatever is written.
#[tokio::test(start_paused = true)]
async fn what_lost_its_marks_is_removed_all_the_same_and_what_another_work_took_over_is_not() {
    for (mark, other) in [("label", false), ("annotation", false), ("annotation", true)] {
        let rig = Rig::fresh();
        rig.commit(&[put("a", 1, &[config("a", "1")], false)]);
        rig.until("applied", |rig| rig.applied("a")).await;
        // The agent is not there while it happens.
        let (member, shared) = rig.end().await;
        member.edit(&id("a"), |object| {
            let metadata = karmada_api::object::metadata(object);
            match mark {
                "label" => drop(metadata.remove("labels")),
                _ => drop(metadata.remove("annotations")),
            }
            if other {
                karmada_api::object::set_annotation(object, "work.karmada.io/name", "b");
            }
        });
        let change = delete("a", 2);
        shared.ledger.commit(&[change]).unwrap();
        let rig = Rig::over(member, shared);
        rig.until("done", |rig| phase(rig, "a") == Phase::Removed).await;
        assert_eq!(rig.value("a").is_some(), other, "{mark}, another's: {other}");
    }
}

/// Somebody there put the object anew, as `kubectl replace` does: without our marks.
#[tokio::test(start_paused = true)]
async fn what_lost_its_marks_is_managed_on() {
    let rig = Rig::fresh();
    rig.commit(&[put("a", 1, &[config("a", "1")], false)]);
    rig.until("applied", |rig| rig.applied("a")).await;
    rig.member.edit(&id("a"), |object| {
        let metadata = karmada_api::object::metadata(object);
        metadata.remove("labels");
        metadata.remove("annotations");
    });
    rig.until("marked again", |rig| {
        rig.member.read(&id("a")).is_some_and(|object| member_body::is_ours(&object, "m", "a"))
    })
    .await;
    rig.commit(&[put("a", 2, &[config("a", "2")], false)]);
    rig.until("updated", |rig| rig.value("a").as_deref() == Some("2")).await;
}

/// Whatever else failed of the Work before, and for however long, a removal has waits of its own.
#[tokio::test(start_paused = true)]
async fn a_removal_that_failed_is_tried_again_soon_after_the_member_recovers() {
    let rig = Rig::fresh();
    rig.commit(&[put("a", 1, &[config("a", "1")], false)]);
    rig.until("applied", |rig| rig.applied("a")).await;
    rig.member.fail("a", Some(MemberError::Invalid("a webhook says no".into())));
    rig.commit(&[put("a", 2, &[config("a", "2")], false)]);
    tokio::time::sleep(Duration::from_secs(1200)).await;
    rig.member.fail("a", Some(MemberError::Internal("etcdserver: request timed out".into())));
    rig.commit(&[delete("a", 3)]);
    tokio::time::sleep(Duration::from_millis(200)).await;
    rig.member.fail("a", None);
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(phase(&rig, "a"), Phase::Removed, "the first wait is about a second");
}

#[tokio::test(start_paused = true)]
async fn what_the_member_takes_of_another_work_is_evidence_that_it_recovered() {
    let rig = Rig::fresh();
    rig.commit(&[put("a", 1, &[config("a", "1")], false), put("b", 2, &[config("b", "1")], false)]);
    rig.until("applied", |rig| rig.applied("a") && rig.applied("b")).await;
    for name in ["a", "b"] {
        rig.member.fail(name, Some(MemberError::Internal("etcdserver: request timed out".into())));
    }
    rig.commit(&[delete("a", 3)]);
    tokio::time::sleep(Duration::from_secs(1200)).await;
    ["a", "b"].iter().for_each(|name| rig.member.fail(name, None));
    rig.commit(&[put("b", 4, &[config("b", "2")], false)]);
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(phase(&rig, "a"), Phase::Removed);
    // And where it never recovers, it is asked every half a minute at least.
    rig.member.fail("b", Some(MemberError::Internal("etcdserver: request timed out".into())));
    rig.commit(&[delete("b", 5)]);
    tokio::time::sleep(Duration::from_secs(7200)).await;
    rig.member.fail("b", None);
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert_eq!(phase(&rig, "b"), Phase::Removed);
}

/// An agent that is over a ledger as it was left when the process ended `times` times while it removed Work `a`.
async fn interrupted(dir: &std::path::Path, times: u32) -> Rig {
    let rig = Rig::new(MemoryMember::new("m", 1, Duration::ZERO), Ledger::open(dir).unwrap());
    rig.commit(&[put("a", 1, &[config("a", "1")], false)]);
    rig.until("applied", |rig| rig.applied("a")).await;
    let (member, shared) = rig.end().await;
    shared.ledger.commit(&[delete("a", 2)]).unwrap();
    drop(shared);
    Rig::new(member, crashed(dir, &["a"], times))
}

/// A removal reads no odd object: that the agent ended during it twice is the machine's doing, or a person's.
#[tokio::test(start_paused = true)]
async fn a_removal_during_which_the_agent_ended_is_only_put_off() {
    for (times, at_least, at_most) in
        [(CRASHES - 1, 0, 2), (CRASHES, 4, 6), (CRASHES + 3, 39, 41), (99, 599, 601)]
    {
        let dir = tempfile::tempdir().unwrap();
        let rig = interrupted(dir.path(), times).await;
        let began = Instant::now();
        tokio::time::sleep(Duration::from_secs(at_least)).await;
        assert!(at_least == 0 || rig.value("a").is_some(), "{times}: not at once");
        rig.until("removed", |rig| phase(rig, "a") == Phase::Removed && rig.value("a").is_none()).await;
        assert!(began.elapsed() <= Duration::from_secs(at_most), "{times}: {:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_persons_word_brings_a_removal_forward() {
    let dir = tempfile::tempdir().unwrap();
    let rig = interrupted(dir.path(), 99).await;
    let word = |revision, word: &str| Change::Delete {
        key: "a".into(),
        uid: "u-a".into(),
        revision,
        preserve: false,
        retry: word.into(),
    };
    tokio::time::sleep(Duration::from_secs(2)).await;
    rig.commit(&[word(3, "")]);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(rig.value("a").is_some(), "nobody said anything");
    rig.commit(&[word(4, "2026-01-01T00:00:00Z")]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((rig.value("a"), phase(&rig, "a")), (None, Phase::Removed));
}

/// Its last body cannot be read: what the one before it named goes all the same.
#[tokio::test(start_paused = true)]
async fn a_work_that_goes_with_a_body_that_cannot_be_read_takes_along_what_was_placed_before() {
    let rig = Rig::fresh();
    rig.commit(&[put("w", 1, &[config("a", "1"), config("b", "1")], false)]);
    rig.until("applied", |rig| rig.applied("w")).await;
    rig.commit(&[put("w", 2, &vec![json!({}); 5001], false)]);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(rig.value("a").as_deref(), Some("1"), "nothing is taken away by what cannot be read");
    rig.commit(&[delete("w", 3)]);
    rig.until("removed", |rig| rig.shared.ledger.held().unwrap()["w"].phase == Phase::Removed).await;
    assert_eq!((rig.value("a"), rig.value("b")), (None, None));
}
