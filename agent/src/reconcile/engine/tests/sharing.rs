//! Two Works name one object: a Namespace that is carried along and that a policy selects as well.

use proptest::prelude::*;

use super::departures::delete;
use super::names::of_stores;
use super::*;

fn phase(rig: &Rig, key: &str) -> Phase {
    rig.shared.ledger.held().unwrap()[key].phase
}

/// The Work that the object's marks name.
fn marked(rig: &Rig, name: &str) -> Option<String> {
    let object = rig.member.read(&id(name))?;
    karmada_api::object::annotation(&object, karmada_api::strings::annotations::WORK_NAME).map(str::to_owned)
}

/// Both apply it, `second` last.
async fn shared_by(first: &str, second: &str) -> Rig {
    let rig = Rig::fresh();
    rig.commit(&[put(first, 1, &[config("shared", first)], false)]);
    rig.until("applied", |rig| rig.applied(first)).await;
    rig.commit(&[put(second, 2, &[config("shared", second), config(second, "1")], false)]);
    rig.until("applied", |rig| rig.applied(second)).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(rig.value("shared").as_deref(), Some(second), "what was applied last has it");
    rig
}

fn uid(rig: &Rig) -> String {
    karmada_api::object::uid(&rig.member.read(&id("shared")).unwrap()).to_owned()
}

#[tokio::test(start_paused = true)]
async fn what_another_work_names_goes_over_to_it_and_goes_with_the_last() {
    for (first, second) in [("a", "b"), ("b", "a")] {
        let rig = shared_by(first, second).await;
        let made = uid(&rig);
        rig.commit(&[delete(second, 3)]);
        rig.until("removed", |rig| phase(rig, second) == Phase::Removed).await;
        rig.until("put back", |rig| rig.value("shared").as_deref() == Some(first)).await;
        assert_eq!((uid(&rig), marked(&rig, "shared").as_deref()), (made, Some(first)), "it was never away");
        assert_eq!(rig.value(second), None, "what it alone named is gone");
        rig.commit(&[delete(first, 4)]);
        rig.until("removed", |rig| phase(rig, first) == Phase::Removed).await;
        assert_eq!(rig.value("shared"), None);
    }
}

/// The displaced Work goes first: the other has the object, and nothing changes.
#[tokio::test(start_paused = true)]
async fn the_work_that_does_not_have_an_object_takes_nothing_along() {
    let rig = shared_by("a", "b").await;
    let writes = rig.member.writes();
    rig.commit(&[delete("a", 3)]);
    rig.until("removed", |rig| phase(rig, "a") == Phase::Removed).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!((rig.value("shared").as_deref(), rig.member.writes()), (Some("b"), writes));
}

#[tokio::test(start_paused = true)]
async fn works_that_go_together_leave_nothing_they_shared() {
    for apart in [0, 1, 20, 1000] {
        let rig = shared_by("a", "b").await;
        rig.commit(&[delete("b", 3)]);
        tokio::time::sleep(Duration::from_millis(apart)).await;
        rig.commit(&[delete("a", 4)]);
        rig.until("removed", |rig| phase(rig, "a") == Phase::Removed && phase(rig, "b") == Phase::Removed)
            .await;
        assert_eq!(rig.value("shared"), None, "{apart} ms");
    }
}

/// While one is handed over, who is to have it goes, or names it no more: it goes with that one.
#[tokio::test(start_paused = true)]
async fn who_gets_an_object_and_goes_meanwhile_takes_it_along() {
    let newer = put("a", 5, &[config("a", "1")], false);
    for change in [delete("a", 5), newer] {
        for apart in (0..6000).step_by(200) {
            let rig = shared_by("a", "b").await;
            rig.commit(&[put("a", 3, &[config("shared", "a")], true)]);
            rig.member.far_away(Duration::from_secs(1));
            rig.commit(&[delete("b", 4)]);
            tokio::time::sleep(Duration::from_millis(apart)).await;
            rig.commit(std::slice::from_ref(&change));
            rig.until("removed", |rig| phase(rig, "b") == Phase::Removed).await;
            tokio::time::sleep(Duration::from_secs(60)).await;
            assert_eq!(rig.value("shared"), None, "{change:?} {apart} ms after");
        }
    }
}

/// While one is taken away another Work comes that names it: what that one has applied stays.
#[tokio::test(start_paused = true)]
async fn what_was_applied_while_another_work_went_is_not_taken_away_with_that() {
    for apart in (0..6000).step_by(200) {
        let rig = Rig::fresh();
        rig.commit(&[put("a", 1, &[config("shared", "a"), config("a", "1")], false)]);
        rig.until("applied", |rig| rig.applied("a")).await;
        rig.member.far_away(Duration::from_secs(1));
        rig.commit(&[delete("a", 2)]);
        tokio::time::sleep(Duration::from_millis(apart)).await;
        rig.commit(&[put("c", 3, &[config("shared", "c")], false)]);
        rig.until("applied", |rig| rig.value("shared").as_deref() == Some("c")).await;
        let made = uid(&rig);
        tokio::time::sleep(Duration::from_secs(60)).await;
        let there = (rig.value("shared"), rig.member.read(&id("shared")).map(|_| uid(&rig)));
        assert_eq!(there, (Some("c".to_owned()), Some(made)), "{apart} ms after");
    }
}

#[tokio::test(start_paused = true)]
async fn a_work_whose_newer_body_or_release_leaves_an_object_hands_it_over_too() {
    let newer = put("b", 3, &[config("b", "1")], false);
    for change in [newer, Change::Forget { key: "b".into() }] {
        let rig = shared_by("a", "b").await;
        let made = uid(&rig);
        rig.commit(&[change]);
        rig.until("put back", |rig| rig.value("shared").as_deref() == Some("a")).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!((uid(&rig), marked(&rig, "shared").as_deref()), (made, Some("a")));
    }
}

/// One that is suspended names its object still, and does not write it.
#[tokio::test(start_paused = true)]
async fn what_a_suspended_work_names_is_not_removed_with_another() {
    let rig = shared_by("a", "b").await;
    rig.commit(&[put("a", 3, &[config("shared", "a")], true), delete("b", 4)]);
    rig.until("removed", |rig| phase(rig, "b") == Phase::Removed).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!((rig.value("shared").as_deref(), marked(&rig, "shared").as_deref()), (Some("b"), Some("a")));
}

/// Who has it is read from the object: a restart of the agent moves nothing.
#[tokio::test(start_paused = true)]
async fn a_restart_moves_no_object_from_one_work_to_another() {
    for (first, second) in [("a", "b"), ("b", "a")] {
        let rig = shared_by(first, second).await;
        let (member, shared) = rig.end().await;
        let writes = member.writes();
        let rig = Rig::over(member, shared);
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!((rig.value("shared").as_deref(), rig.member.writes()), (Some(second), writes));
        rig.member.edit(&id("shared"), |object| object["data"]["k"] = json!("edited"));
        rig.until("brought back", |rig| rig.value("shared").as_deref() == Some(second)).await;
        rig.member.remove(&id("shared"));
        rig.until("made again", |rig| rig.value("shared").as_deref() == Some(second)).await;
    }
}

#[derive(Debug, Clone)]
enum Step {
    /// The Work names these of the objects.
    Put(usize, Vec<usize>),
    Delete(usize),
    Restart,
    Wait(u64),
    Settle,
}

const WORKS: [&str; 3] = ["a", "b", "c"];
const OBJECTS: [&str; 3] = ["x", "y", "z"];

fn step() -> impl Strategy<Value = Step> {
    let objects = prop::sample::subsequence(vec![0, 1, 2], 0..=3);
    prop_oneof![
        4 => (0..3usize, objects).prop_map(|(work, objects)| Step::Put(work, objects)),
        3 => (0..3usize).prop_map(Step::Delete),
        1 => Just(Step::Restart),
        3 => prop_oneof![Just(0), Just(1), Just(300), Just(20_000)].prop_map(Step::Wait),
        2 => Just(Step::Settle),
    ]
}

/// An object, now in the one version of its kind and now in the other.
fn store(name: &str, value: &str, revision: u64) -> Value {
    let version = if revision.is_multiple_of(2) { "v1" } else { "v1beta1" };
    json!({"apiVersion": format!("example.com/{version}"), "kind": "Store",
        "metadata": {"name": name, "namespace": "default"}, "spec": {"value": value}})
}

/// Works and what they name, and the uids that objects have for as long as any names them.
#[derive(Default)]
struct Wanted {
    works: BTreeMap<&'static str, Vec<usize>>,
    uids: BTreeMap<usize, String>,
}

impl Wanted {
    fn by(&self, object: usize) -> Vec<&'static str> {
        self.works.iter().filter(|(_, objects)| objects.contains(&object)).map(|(work, _)| *work).collect()
    }

    fn changed(&mut self) {
        let mut uids = std::mem::take(&mut self.uids);
        uids.retain(|object, _| !self.by(*object).is_empty());
        self.uids = uids;
    }

    /// Everything has settled: what is named is there, as one of those that name it says, and is what it was; the rest is gone.
    fn holds(&mut self, rig: &Rig) {
        for (at, name) in OBJECTS.iter().enumerate() {
            let (works, object) = (self.by(at), rig.member.read(&ObjectId::of(&store(name, "", 0))));
            assert_eq!(object.is_some(), !works.is_empty(), "{name} of {works:?}");
            let Some(object) = object else { continue };
            let mark = karmada_api::object::annotation(&object, karmada_api::strings::annotations::WORK_NAME);
            let value = object["spec"]["value"].as_str().unwrap();
            let is_right = |work: &&str| value.starts_with(work) && mark == Some(*work);
            assert!(works.iter().any(is_right), "{name}: {value} of {works:?}");
            let uid = karmada_api::object::uid(&object).to_owned();
            assert_eq!(*self.uids.entry(at).or_insert_with(|| uid.clone()), uid, "{name} was made anew");
        }
    }
}

async fn run(steps: Vec<Step>) {
    let mut rig = Rig::new(of_stores().await, Ledger::in_memory().unwrap());
    let mut wanted = Wanted::default();
    for (revision, step) in (1..).zip(steps) {
        match step {
            Step::Put(work, objects) => {
                let value = format!("{}{revision}", WORKS[work]);
                let named = objects.iter().map(|object| store(OBJECTS[*object], &value, revision));
                rig.commit(&[put(WORKS[work], revision, &named.collect::<Vec<_>>(), false)]);
                wanted.works.insert(WORKS[work], objects);
            }
            Step::Delete(work) => {
                rig.commit(&[delete(WORKS[work], revision)]);
                wanted.works.remove(WORKS[work]);
            }
            Step::Restart => {
                let (member, shared) = rig.end().await;
                rig = Rig::over(member, shared);
            }
            Step::Wait(millis) => tokio::time::sleep(Duration::from_millis(millis)).await,
            Step::Settle => {
                tokio::time::sleep(Duration::from_secs(300)).await;
                wanted.holds(&rig);
            }
        }
        wanted.changed();
    }
    tokio::time::sleep(Duration::from_secs(300)).await;
    wanted.holds(&rig);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    /// Whatever Works come, change and go, and whenever, and whichever version of a kind they say.
    #[test]
    fn the_member_has_what_any_work_names_and_nothing_else(steps in prop::collection::vec(step(), 1..25)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(run(steps));
    }
}
