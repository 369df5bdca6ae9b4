//! An agent that ended while it worked on something: whom that makes suspect, and whom not.

use super::*;

/// A ledger as a process left it that ended without a word while it worked on `keys`, `times` times.
pub(super) fn crashed(dir: &std::path::Path, keys: &[&str], times: u32) -> Ledger {
    let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
    for _ in 0..times {
        Ledger::open(dir).unwrap().begins(&keys).unwrap();
    }
    Ledger::open(dir).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_work_that_crashed_the_agent_twice_is_left_alone_until_it_changes_or_is_released() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(dir.path()).unwrap();
    ledger
        .commit(&[put("poison", 1, &[config("p", "1")], false), put("a", 2, &[config("a", "1")], false)])
        .unwrap();
    drop(ledger);
    let rig = Rig::new(MemoryMember::new("m", 1, Duration::ZERO), crashed(dir.path(), &["poison"], CRASHES));
    rig.until("the rest proceeds", |rig| rig.applied("a")).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(rig.value("p").is_none());
    let words = said(&rig, "poison");
    assert!(words.contains("left alone") && words.contains("karmadactl retry poison --cluster m"), "{words}");
    let Change::Put { uid, .. } = put("poison", 1, &[], false) else { unreachable!() };
    let touch = |revision, retry: &str| Change::Touch {
        key: "poison".into(),
        uid: uid.clone(),
        revision,
        suspended: false,
        preserve: false,
        generation: 1,
        retry: retry.into(),
    };
    rig.commit(&[touch(3, "")]);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(rig.value("p").is_none(), "nobody said anything");
    rig.commit(&[touch(4, "2026-01-01T00:00:00Z")]);
    rig.until("tried again", |rig| rig.applied("poison")).await;
    let (member, shared) = rig.end().await;
    drop(shared);
    member.remove(&id("p"));
    let rig = Rig::new(member, crashed(dir.path(), &["poison"], CRASHES));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(rig.value("p").is_none(), "although it was applied once");
    rig.commit(&[put("poison", 5, &[config("p", "2")], false)]);
    rig.until("a newer body", |rig| rig.value("p").as_deref() == Some("2")).await;
}

/// Two rollouts of the agent while its member hangs: nothing is anybody's fault.
#[tokio::test(start_paused = true)]
async fn orderly_restarts_while_the_member_is_slow_count_for_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let member = MemoryMember::new("m", 1, Duration::ZERO);
    member.answer_late(Duration::from_secs(3600));
    for round in 0..3 {
        let rig = Rig::new(member.clone(), Ledger::open(dir.path()).unwrap());
        if round == 0 {
            rig.commit(&[put("slow", 1, &[config("a", "1")], false)]);
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
        let (_, shared) = rig.end().await;
        drop(shared);
    }
    member.answer_late(Duration::ZERO);
    let rig = Rig::new(member, Ledger::open(dir.path()).unwrap());
    rig.until("applied", |rig| rig.applied("slow")).await;
}

#[tokio::test(start_paused = true)]
async fn several_suspects_of_a_crash_are_tried_and_none_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let keys = ["a", "b", "c"];
    let ledger = Ledger::open(dir.path()).unwrap();
    for (at, key) in keys.iter().enumerate() {
        ledger.commit(&[put(key, at as u64 + 1, &[config(key, "1")], false)]).unwrap();
    }
    drop(ledger);
    let rig = Rig::new(MemoryMember::new("m", 1, Duration::ZERO), crashed(dir.path(), &keys, 10));
    rig.until("all are applied", |rig| keys.iter().all(|key| rig.applied(key))).await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_makes_the_interpreter_panic_is_reported_and_the_agent_goes_on() {
    let (link, _) = watch::channel(LinkView::default());
    let shared = AgentState::new(Ledger::in_memory().unwrap(), link);
    let member = MemoryMember::new("m", 1, Duration::ZERO);
    let rig = Rig::reading(member, shared, Arc::new(catch_panics::tests::Odd));
    let mut odd = config("odd", "1");
    karmada_api::object::set_label(&mut odd, "odd", "yes");
    rig.commit(&[put("odd", 1, &[odd.clone()], false), put("a", 2, &[config("a", "1")], false)]);
    rig.until("both are there", |rig| rig.applied("a") && rig.value("odd").is_some()).await;
    // Drift of it, which must be compared; and a newer body, which must be merged.
    rig.member.edit(&id("odd"), |o| *o.pointer_mut("/data/k").unwrap() = json!("edited"));
    *odd.pointer_mut("/data/k").unwrap() = json!("2");
    rig.commit(&[put("odd", 3, &[odd], false)]);
    rig.until("reported", |rig| said(rig, "odd").contains("panic")).await;
    rig.member.remove(&id("a"));
    rig.until("the others are looked after", |rig| rig.value("a").is_some()).await;
    rig.end().await;
}
