//! A member, a ledger or a hub that was put back to an earlier state.

use super::*;

/// A hub that was put back to a time when the Work was being deleted would take the word for this removal.
#[tokio::test(start_paused = true)]
async fn a_removal_is_told_no_more_once_its_work_is_there_again() {
    let rig = Rig::fresh();
    rig.commit(&[put("a", 1, &[config("a", "1")], false)]);
    rig.until("applied", |rig| rig.applied("a")).await;
    let told = |rig: &Rig| rig.shared.outbox.lock().removals().any(|key| key == "a");
    rig.commit(&[delete("a", 2)]);
    rig.until("removed", told).await;
    // The hub is put back, and has it as it was; then it is deleted again while the member takes nothing.
    rig.commit(&[put("a", 3, &[config("a", "1")], false)]);
    rig.until("there again", |rig| rig.value("a").is_some()).await;
    assert!(!told(&rig));
    rig.member.set_away(true);
    rig.commit(&[delete("a", 4)]);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!told(&rig) && rig.value("a").is_some());
    rig.member.set_away(false);
    rig.until("removed again", |rig| told(rig) && rig.value("a").is_none()).await;
}

/// The row was all that was known of it: the hub that has no such Work any more tells nothing of it.
#[tokio::test(start_paused = true)]
async fn objects_of_rows_that_a_damaged_ledger_lost_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::new(MemoryMember::new("m", 1, Duration::ZERO), Ledger::open(dir.path()).unwrap());
    rig.commit(&[put("a", 1, &[config("a", "1")], false), put("b", 1, &[config("b", "1")], false)]);
    rig.until("applied", |rig| rig.applied("a") && rig.applied("b")).await;
    let other = rusqlite::Connection::open(dir.path().join("ledger.sqlite")).unwrap();
    other.execute("UPDATE works SET body = x'6f6e66' WHERE key = 'a'", []).unwrap();
    assert!(rig.shared.ledger.entry("a").unwrap().is_none());
    // The hub lists all that it has.
    rig.commit(&[put("b", 2, &[config("b", "1")], false), Change::Cursor(2)]);
    let noted = |rig: &Rig| rig.shared.ledger.entry("a").unwrap().is_some_and(|entry| entry.is_stray());
    rig.until("noted as nobody's", noted).await;
    assert!(rig.value("a").is_some(), "and left as it is");
}

/// A member that is put back to a backup holds what a later body took out.
#[tokio::test(start_paused = true)]
async fn what_was_taken_out_of_a_body_goes_from_a_restored_member_too() {
    for made_before in [false, true] {
        let rig = Rig::fresh();
        if made_before {
            rig.commit(&[put("a", 1, &[config("a", "1")], false)]);
            rig.until("applied", |rig| rig.applied("a")).await;
        }
        rig.commit(&[put("a", 2, &[extra("a")], false)]);
        rig.until("there", |rig| rig.applied("a") && has_extra(&rig.member, "a")).await;
        let backup = rig.member.read(&id("a")).unwrap();
        rig.commit(&[put("a", 3, &[config("a", "1")], false)]);
        rig.until("taken out", |rig| rig.applied("a") && !has_extra(&rig.member, "a")).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        rig.member.edit(&id("a"), |object| *object = backup);
        assert!(has_extra(&rig.member, "a"));
        rig.until("taken out again", |rig| !has_extra(&rig.member, "a")).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        let writes = rig.member.writes();
        // Others' additions are theirs, and nothing is written over them.
        rig.member.edit(&id("a"), |object| object["data"]["site"] = json!("note"));
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(rig.member.writes(), writes + 1);
    }
}

/// An older copy of the ledger, by whatever way it came back, says "applied" of a body that another one followed.
#[tokio::test(start_paused = true)]
async fn what_a_later_body_added_goes_when_an_older_ledger_is_put_back() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let mut rig = Rig::new(MemoryMember::new("m", 1, Duration::ZERO), Ledger::open(dirs[0].path()).unwrap());
    rig.commit(&[put("a", 1, &[config("a", "1")], false)]);
    rig.until("applied", |rig| rig.applied("a")).await;
    let (member, shared) = rig.end().await;
    drop(shared);
    std::fs::copy(dirs[0].path().join("ledger.sqlite"), dirs[1].path().join("ledger.sqlite")).unwrap();
    rig = Rig::new(member, Ledger::open(dirs[0].path()).unwrap());
    rig.commit(&[put("a", 2, &[extra("a")], false)]);
    rig.until("there", |rig| rig.applied("a") && has_extra(&rig.member, "a")).await;
    let (member, shared) = rig.end().await;
    drop(shared);
    let rig = Rig::new(member, Ledger::open(dirs[1].path()).unwrap());
    assert!(rig.applied("a"));
    rig.until("as the ledger says", |rig| !has_extra(&rig.member, "a")).await;
    let (member, shared) = rig.end().await;
    drop(shared);
    let writes = member.writes();
    let rig = Rig::new(member, Ledger::open(dirs[1].path()).unwrap());
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(rig.member.writes(), writes, "a start of its own writes nothing");
}
