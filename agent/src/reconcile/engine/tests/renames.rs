//! The agent's cluster has another name since: what it made under the one before is its own still.

use super::departures::delete;
use super::*;

/// Makes Work `a` as cluster `m`; goes on over the same ledger and member as cluster `n`.
async fn renamed(body_before: &[Value]) -> Rig {
    let rig = Rig::fresh();
    rig.commit(&[put("a", 1, body_before, false)]);
    rig.until("applied", |rig| rig.applied("a")).await;
    let (member, shared) = rig.end().await;
    Rig::called("n", member, shared)
}

#[tokio::test(start_paused = true)]
async fn what_was_made_under_the_name_before_is_marked_anew_and_removed_with_its_work() {
    let rig = renamed(&[config("one", "1")]).await;
    rig.until("adopted", |rig| {
        rig.member.read(&id("one")).is_some_and(|one| member_body::is_ours(&one, "n", "a"))
    })
    .await;
    rig.commit(&[delete("a", 2)]);
    rig.until("gone", |rig| rig.value("one").is_none()).await;
}

/// The Work is gone before its object was marked anew.
#[tokio::test(start_paused = true)]
async fn a_removal_finds_what_bears_the_name_before() {
    let rig = Rig::fresh();
    rig.commit(&[put("a", 1, &[config("one", "1"), config("two", "1")], false)]);
    rig.until("applied", |rig| rig.applied("a")).await;
    rig.commit(&[put("a", 2, &[config("one", "1")], true)]);
    let (member, shared) = rig.end().await;
    shared.ledger.commit(&[delete("a", 3)]).unwrap();
    let rig = Rig::called("n", member, shared);
    rig.until("gone", |rig| rig.value("one").is_none() && rig.value("two").is_none()).await;
}

/// Of what was made under the name before, the hub lists nothing under the new one: it is enforced on, and told.
#[tokio::test(start_paused = true)]
async fn what_no_work_names_under_the_new_name_is_told_as_an_orphan() {
    let rig = Rig::fresh();
    rig.commit(&[put("a", 1, &[config("one", "1")], false), Change::Cursor(9)]);
    rig.until("applied", |rig| rig.applied("a")).await;
    let (member, shared) = rig.end().await;
    // The ledger was lost with the name, but for the name itself.
    shared.ledger.commit(&[Change::Forget { key: "a".into() }]).unwrap();
    let rig = Rig::called("n", member, shared);
    rig.commit(&[Change::Cursor(3)]);
    rig.until("told", |rig| rig.shared.ledger.entry("a").unwrap().is_some_and(|entry| entry.is_stray()))
        .await;
    assert_eq!(rig.value("one").as_deref(), Some("1"));
    rig.commit(&[delete("a", 4)]);
    rig.until("gone by a person's word", |rig| rig.value("one").is_none()).await;
}

/// A Work of the same name that the hub sends under the new one takes over what the one before made, and lets go of the rest.
#[tokio::test(start_paused = true)]
async fn a_work_of_the_same_name_adopts_what_the_one_before_made() {
    let rig = renamed(&[config("one", "1"), config("two", "1")]).await;
    let made = rig.member.read(&id("one")).unwrap()["metadata"]["uid"].clone();
    rig.commit(&[put("a", 2, &[config("one", "2")], false)]);
    rig.until("taken away", |rig| rig.value("two").is_none()).await;
    let one = rig.member.read(&id("one")).unwrap();
    assert!(
        member_body::is_ours(&one, "n", "a") && one["metadata"]["uid"] == made && one["data"]["k"] == "2"
    );
}
