//! A member that asks for a pause by `Retry-After`: as a whole, or because a webhook of its speaks so of one object.

use super::departures::delete;
use super::*;

const PAUSE: Duration = Duration::from_secs(60);

fn asks() -> [MemberError; 2] {
    [MemberError::Throttled(PAUSE), MemberError::Overloaded("timed out".into(), PAUSE)]
}

#[tokio::test(start_paused = true)]
async fn a_pause_that_is_asked_for_one_object_is_kept_and_holds_up_no_other() {
    for error in asks() {
        let rig = Rig::fresh();
        rig.commit(&[put("gone", 1, &[config("gone", "1")], false)]);
        rig.until("applied", |rig| rig.applied("gone")).await;
        rig.member.fail("busy", Some(error));
        rig.commit(&[put("busy", 2, &[config("busy", "1")], false)]);
        let is_told = |rig: &Rig| said(rig, "busy").contains("Failed to apply");
        rig.until("told", is_told).await;
        let begun = Instant::now();
        rig.commit(&[put("other", 3, &[config("other", "1")], false), delete("gone", 4)]);
        rig.until("the others are worked on", |rig| rig.applied("other") && rig.value("gone").is_none())
            .await;
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
        rig.member.fail("busy", None);
        tokio::time::sleep(PAUSE - begun.elapsed() - Duration::from_secs(2)).await;
        assert_eq!(rig.value("busy"), None, "the pause is kept");
        rig.until("tried after it", |rig| rig.applied("busy")).await;
        assert!(begun.elapsed() < PAUSE + Duration::from_secs(5), "{:?}", begun.elapsed());
    }
}

/// Where all are asked to wait, the member is asked little until it takes something again; then nobody waits who was not asked to.
#[tokio::test(start_paused = true)]
async fn a_member_that_asks_everybody_for_a_pause_is_asked_once_a_second() {
    let rig = Rig::fresh();
    let names: Vec<String> = (0..200).map(|at| format!("w{at:03}")).collect();
    names.iter().for_each(|name| rig.member.fail(name, Some(MemberError::Throttled(PAUSE))));
    let works =
        names.iter().zip(1..).map(|(name, revision)| put(name, revision, &[config(name, "1")], false));
    rig.commit(&works.collect::<Vec<_>>());
    tokio::time::sleep(Duration::from_secs(30)).await;
    let tried = names.iter().filter(|name| !said(&rig, name).is_empty()).count();
    assert!((20..=45).contains(&tried), "{tried}");
    names.iter().for_each(|name| rig.member.fail(name, None));
    let untried: Vec<&String> = names.iter().filter(|name| said(&rig, name).is_empty()).collect();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(untried.iter().all(|name| rig.applied(name)), "the member takes them again");
    rig.until("all are there", |rig| names.iter().all(|name| rig.applied(name))).await;
}
