//! The engine against a member in memory, on paused time.

mod becomes_active;
mod departures;
mod names;
mod pauses;
mod renames;
mod retention;
mod services;
mod sharing;
mod starts;
mod strays;

use bytes::Bytes;
use jiff::Timestamp;
use karmada_api::strings::labels;
use karmada_interpreter::{Interpreter, Native};
use karmada_proto::v1::agent_frame;
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use self::departures::delete;
use super::quarantine::CRASHES;
use super::*;
use crate::agent_state::LinkView;
use crate::identity::IdentityStore;
use crate::ledger::Ledger;
use crate::member::MemberError;
use crate::member::memory::MemoryMember;
use crate::reconcile::{catch_panics, member_body, retention_layer};
use crate::session::{Change, Phase};

struct Rig {
    member: MemoryMember,
    shared: Arc<AgentState>,
    stop: CancellationToken,
    engine: JoinHandle<Result<(), LedgerError>>,
}

fn config(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": {"k": value}})
}

fn id(name: &str) -> ObjectId {
    ObjectId::of(&config(name, ""))
}

fn put(key: &str, revision: u64, manifests: &[Value], suspended: bool) -> Change {
    let body = Bytes::from(json!({"manifests": manifests}).to_string());
    let hash = karmada_proto::body::hash(&body);
    Change::Put {
        key: key.into(),
        uid: format!("u-{key}"),
        revision,
        hash,
        body,
        suspended,
        preserve: false,
        generation: revision,
        retry: String::new(),
    }
}

/// Where the agent of these tests has its identity.
fn identity_store(member: &MemoryMember) -> IdentityStore {
    let (namespace, name) = ("agents".into(), "karmada-agent-identity".into());
    IdentityStore::Secret { member: Arc::new(member.clone()), namespace, name }
}

impl Rig {
    fn new(member: MemoryMember, ledger: Ledger) -> Self {
        Self::linked(member, ledger, LinkView::Connected { epoch: 1 })
    }

    fn linked(member: MemoryMember, ledger: Ledger, view: LinkView) -> Self {
        let (link, _) = watch::channel(view);
        Self::over(member, AgentState::new(ledger, link))
    }

    /// An engine that begins over what another one left.
    fn over(member: MemoryMember, shared: Arc<AgentState>) -> Self {
        Self::reading(member, shared, Arc::new(Native))
    }

    fn reading(member: MemoryMember, shared: Arc<AgentState>, interpreter: Arc<dyn Interpreter>) -> Self {
        Self::begun("m", member, shared, interpreter)
    }

    /// The engine of a cluster of this name.
    fn called(cluster: &str, member: MemoryMember, shared: Arc<AgentState>) -> Self {
        Self::begun(cluster, member, shared, Arc::new(Native))
    }

    fn begun(
        cluster: &str,
        member: MemoryMember,
        shared: Arc<AgentState>,
        interpreter: Arc<dyn Interpreter>,
    ) -> Self {
        let stop = CancellationToken::new();
        let before = shared.ledger.is_of(cluster).unwrap();
        let (customized, retention) = retention_layer::in_front_of(interpreter, Arc::new(Timestamp::now));
        let parts = Parts {
            namespaces: Arc::from([]),
            shared: shared.clone(),
            member: Arc::new(member.clone()),
            customized,
            retention,
            cluster: ClusterNames { now: cluster.into(), before },
            own: Arc::new(Own::of(&identity_store(&member), &[])),
            drift_rate: 5.0,
        };
        let engine = tokio::spawn(run(parts, stop.clone()));
        Self { member, shared, stop, engine }
    }

    fn fresh() -> Self {
        Self::new(MemoryMember::new("m", 1, Duration::from_secs(1)), Ledger::in_memory().unwrap())
    }

    fn commit(&self, changes: &[Change]) {
        self.shared.ledger.commit(changes).unwrap();
        let key = |change: &Change| match change {
            Change::Put { key, .. }
            | Change::Delete { key, .. }
            | Change::Touch { key, .. }
            | Change::Forget { key } => key.clone(),
            Change::KeepFormer { key } => format!("{key}/former"),
            _ => String::new(),
        };
        self.shared.changed(changes.iter().map(key));
    }

    fn value(&self, name: &str) -> Option<String> {
        Some(self.member.read(&id(name))?.pointer("/data/k")?.as_str()?.to_owned())
    }

    /// Waits, on paused time, until `reached`; fails after five minutes of it.
    async fn until(&self, what: &str, reached: impl Fn(&Self) -> bool) {
        for _ in 0..6000 {
            if reached(self) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("not reached: {what}");
    }

    fn applied(&self, key: &str) -> bool {
        self.shared.ledger.entry(key).unwrap().is_some_and(|entry| entry.is_applied())
    }

    async fn end(self) -> (MemoryMember, Arc<AgentState>) {
        self.stop.cancel();
        self.engine.await.unwrap().unwrap();
        (self.member, self.shared)
    }
}

#[tokio::test(start_paused = true)]
async fn a_work_is_applied_reported_and_quiet() {
    let rig = Rig::fresh();
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"}, "spec": {"replicas": 3}});
    rig.commit(&[put("web", 5, &[deployment], false)]);
    let ready = |rig: &Rig| {
        let outbox = rig.shared.outbox.lock();
        let statuses = outbox.report("web").and_then(|report| report.manifest_statuses.clone());
        statuses.is_some_and(|s| String::from_utf8_lossy(&s).contains(r#""readyReplicas":3"#))
    };
    rig.until("the status is reported", ready).await;
    let report = rig.shared.outbox.lock().report("web").cloned().unwrap();
    assert_eq!((report.revision, report.applied.as_ref().map(|a| a.ok)), (5, Some(true)));
    assert!(
        String::from_utf8_lossy(&report.manifest_statuses.unwrap()).contains(r#""resource":"deployments""#)
    );
    let writes = rig.member.writes();
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(rig.member.writes(), writes, "no write where nothing changed");
    let counts = &rig.shared.counts;
    assert_eq!((counts.synced.count(), counts.sync_failed.count()), (1, 0));
}

/// They are asked as soon as they are told, also of what was there before; an agent that starts anew asks them without its hub.
#[tokio::test(start_paused = true)]
async fn customizations_are_asked_of_what_is_there_and_of_what_comes() {
    let told = |script: &str| {
        let all = json!([{"metadata": {"name": "c"}, "spec": {"target": {"apiVersion": "v1", "kind": "ConfigMap"},
            "customizations": {
                "statusReflection": {"luaScript": "function ReflectStatus(o) return {said = o.data.k} end"},
                "healthInterpretation": {"luaScript": script}}}}]);
        let body = Bytes::from(all.to_string());
        Change::Document { table: 2, hash: karmada_proto::body::hash(&body), body }
    };
    let health = |rig: &Rig, key: &str| {
        let statuses = rig.shared.outbox.lock().report(key)?.manifest_statuses.clone()?;
        let statuses: Value = serde_json::from_slice(&statuses).ok()?;
        let word = |at: &str| statuses.pointer(at).and_then(Value::as_str).map(str::to_owned);
        Some((word("/0/health")?, word("/0/status/said")))
    };
    let is = |wanted: &'static str| (wanted.to_owned(), Some("1".to_owned()));
    let rig = Rig::fresh();
    rig.commit(&[put("old", 5, &[config("old", "1")], false)]);
    rig.until("it is known without a script", |rig| {
        health(rig, "old").is_some_and(|(_, said)| said.is_none())
    })
    .await;
    let commit = |rig: &Rig, script: &str| rig.shared.ledger.commit(&[told(script)]).unwrap();
    commit(&rig, "function InterpretHealth(o) return true end");
    rig.until("what was there is read again", |rig| health(rig, "old") == Some(is("Healthy"))).await;
    rig.commit(&[put("new", 6, &[config("new", "1")], false)]);
    rig.until("what comes is", |rig| health(rig, "new") == Some(is("Healthy"))).await;
    let broken = Change::Document { table: 2, hash: vec![7; 16].into(), body: Bytes::from_static(b"{") };
    rig.shared.ledger.commit(&[broken]).unwrap();
    commit(&rig, "function InterpretHealth(o) return o.data.k == 'no' end");
    rig.until("and again", |rig| health(rig, "old") == Some(is("Unhealthy"))).await;
    let (member, shared) = rig.end().await;
    let again = Rig::over(member, shared);
    again.commit(&[put("later", 7, &[config("later", "1")], false)]);
    again.until("it is kept", |rig| health(rig, "later") == Some(is("Unhealthy"))).await;
    again.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_does_not_put_back_a_status_that_the_watch_has_told() {
    let rig = Rig::fresh();
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"}, "spec": {"replicas": 3}});
    // The first, so that its kind is watched already: the second's status is told before its answer comes.
    rig.commit(&[put("first", 1, std::slice::from_ref(&deployment), false)]);
    rig.until("applied", |rig| rig.applied("first")).await;
    rig.member.answer_late(Duration::from_secs(5));
    let mut second = deployment;
    second["metadata"]["name"] = json!("second");
    rig.commit(&[put("second", 2, &[second], false)]);
    rig.until("applied", |rig| rig.applied("second")).await;
    let writes = rig.member.writes();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let report = rig.shared.outbox.lock().report("second").cloned().unwrap();
    let statuses = String::from_utf8_lossy(&report.manifest_statuses.unwrap()).into_owned();
    assert!(statuses.contains(r#""readyReplicas":3"#), "{statuses}");
    assert_eq!(rig.member.writes(), writes, "and nothing was written for it");
}

#[tokio::test(start_paused = true)]
async fn drift_is_corrected_and_foreign_things_are_left() {
    let rig = Rig::fresh();
    rig.member.seed(config("foreign", "theirs"));
    rig.commit(&[put("a", 1, &[config("a", "1")], false), put("b", 2, &[config("b", "1")], false)]);
    rig.until("applied", |rig| rig.applied("a") && rig.applied("b")).await;
    rig.member.edit(&id("a"), |o| *o.pointer_mut("/data/k").unwrap() = json!("edited"));
    rig.member.remove(&id("b"));
    rig.member.edit(&id("foreign"), |o| *o.pointer_mut("/data/k").unwrap() = json!("theirs, edited"));
    rig.until("restored", |rig| rig.value("a").as_deref() == Some("1") && rig.value("b").is_some()).await;
    rig.member.edit(&id("a"), |o| karmada_api::object::set_label(o, "site", "note"));
    tokio::time::sleep(Duration::from_secs(60)).await;
    let a = rig.member.read(&id("a")).unwrap();
    assert_eq!(karmada_api::object::label(&a, "site"), Some("note"), "what others add stays");
    rig.member.edit(&id("a"), |o| {
        karmada_api::object::remove_label(o, labels::MANAGED);
    });
    rig.until("the mark is back", |rig| {
        rig.member.read(&id("a")).is_some_and(|a| member_body::is_ours(&a, "m", "a"))
    })
    .await;
    assert_eq!(rig.value("foreign").as_deref(), Some("theirs, edited"));
}

#[tokio::test(start_paused = true)]
async fn it_goes_on_after_a_restart_and_removes_nothing_on_absence() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::new(MemoryMember::new("m", 1, Duration::ZERO), Ledger::open(dir.path()).unwrap());
    rig.commit(&[put("a", 1, &[config("a", "1"), config("a2", "1")], false)]);
    rig.until("applied", |rig| rig.applied("a")).await;
    let (member, shared) = rig.end().await;
    drop(shared);
    member.remove(&id("a"));
    let rig = Rig::new(member, Ledger::open(dir.path()).unwrap());
    rig.until("restored without a hub", |rig| rig.value("a").is_some()).await;
    rig.commit(&[Change::Forget { key: "a".into() }]);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(rig.value("a").is_some(), "forgotten is not removed");
}

/// The session writes the ledger, and tells the engine afterwards: what has its turn in between waits for that.
#[tokio::test(start_paused = true)]
async fn what_is_to_go_before_the_engine_heard_so_goes_over_to_nobody() {
    let rig = Rig::fresh();
    rig.member.answer_late(Duration::from_secs(5));
    rig.commit(&[put("a", 1, &[config("a", "1")], false)]);
    rig.until("the member has it", |rig| rig.value("a").is_some()).await;
    // The next turn waits for the end of this one, and comes after the word that it is to go.
    rig.commit(&[put("a", 2, &[config("a", "2")], false)]);
    tokio::time::sleep(Duration::from_millis(100)).await;
    rig.shared.ledger.commit(&[delete("a", 3)]).unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    rig.shared.changed(["a".to_owned()]);
    rig.until("removed", |rig| rig.shared.ledger.held().unwrap()["a"].phase == Phase::Removed).await;
    assert_eq!(rig.value("a"), None);
}

#[tokio::test(start_paused = true)]
async fn a_tombstone_removes_reports_and_only_then() {
    let rig = Rig::fresh();
    rig.commit(&[put("a", 1, &[config("a", "1")], false)]);
    rig.until("applied", |rig| rig.applied("a")).await;
    rig.member.fail("a", Some(MemberError::Unreachable("off".into())));
    rig.commit(&[delete("a", 2)]);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let uid = karmada_api::object::uid(&rig.member.read(&id("a")).unwrap()).to_owned();
    let told = |rig: &Rig| {
        let mut outbox = rig.shared.outbox.lock();
        outbox.all_again();
        std::iter::from_fn(|| outbox.next_prompt()).any(
            |body| matches!(body, agent_frame::Body::Removed(removed) if removed.object_uids == [uid.clone()]),
        )
    };
    assert!(!told(&rig) && rig.value("a").is_some());
    rig.member.fail("a", None);
    rig.until("removed", |rig| rig.value("a").is_none()).await;
    rig.until("told", told).await;
    assert_eq!(rig.shared.ledger.held().unwrap()["a"].phase, Phase::Removed);
}

#[tokio::test(start_paused = true)]
async fn a_suspended_work_is_not_touched_until_it_is_released() {
    let rig = Rig::fresh();
    rig.commit(&[put("a", 1, &[config("a", "1")], false)]);
    rig.until("applied", |rig| rig.applied("a")).await;
    rig.commit(&[put("a", 2, &[config("a", "2")], true)]);
    rig.member.edit(&id("a"), |o| *o.pointer_mut("/data/k").unwrap() = json!("edited"));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(rig.value("a").as_deref(), Some("edited"));
    let touch = Change::Touch {
        key: "a".into(),
        uid: "u-a".into(),
        revision: 3,
        suspended: false,
        preserve: false,
        generation: 3,
        retry: String::new(),
    };
    rig.commit(&[touch]);
    rig.until("applied", |rig| rig.value("a").as_deref() == Some("2")).await;
}

#[tokio::test(start_paused = true)]
async fn failures_are_reported_retried_and_ordered() {
    let rig = Rig::fresh();
    let mut far = config("far", "1");
    karmada_api::object::metadata(&mut far).insert("namespace".into(), "later".into());
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "later"}});
    rig.commit(&[put("far", 1, &[far.clone()], false)]);
    let failed = |rig: &Rig| {
        let outbox = rig.shared.outbox.lock();
        let applied = outbox.report("far").and_then(|report| report.applied.clone());
        applied.is_some_and(|applied| {
            !applied.ok && applied.message.starts_with("Failed to apply all manifests (0/1)")
        })
    };
    rig.until("reported", failed).await;
    let synced = |rig: &Rig| rig.shared.counts.synced.count();
    assert!(synced(&rig) == 0 && rig.shared.counts.sync_failed.count() > 0);
    rig.commit(&[put("ns", 2, &[namespace], false)]);
    rig.until("retried", |rig| rig.applied("far")).await;
    assert!(synced(&rig) >= 2, "the namespace and what waited for it");
    assert!(rig.member.read(&ObjectId::of(&far)).is_some());
}

/// A ledger as a process left it that ended without a word while it worked on `keys`, `times` times.
fn crashed(dir: &std::path::Path, keys: &[&str], times: u32) -> Ledger {
    let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
    for _ in 0..times {
        Ledger::open(dir).unwrap().begins(&keys).unwrap();
    }
    Ledger::open(dir).unwrap()
}

fn said(rig: &Rig, key: &str) -> String {
    let applied = rig.shared.outbox.lock().report(key).and_then(|report| report.applied.clone());
    applied.map(|applied| applied.message).unwrap_or_default()
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

/// `config`, with one more key.
fn extra(name: &str) -> Value {
    let mut config = config(name, "1");
    config["data"]["extra"] = json!("password");
    config
}

fn has_extra(member: &MemoryMember, name: &str) -> bool {
    member.read(&id(name)).is_some_and(|object| object.pointer("/data/extra").is_some())
}

/// What the member is still being told is not undone by the outcome of a body before it.
#[tokio::test(start_paused = true)]
async fn a_change_that_is_taken_back_while_the_member_is_slow_over_it_is_taken_back_there_too() {
    let rig = Rig::fresh();
    rig.commit(&[put("a", 1, &[config("a", "1")], false)]);
    rig.until("applied", |rig| rig.applied("a")).await;
    rig.member.answer_late(Duration::from_secs(5));
    rig.commit(&[put("a", 2, &[config("a", "2")], false)]);
    rig.until("the member has the second", |rig| rig.value("a").as_deref() == Some("2")).await;
    rig.commit(&[put("a", 3, &[config("a", "1")], false)]);
    assert!(!rig.applied("a"), "it was the body before the one that is under way");
    rig.until("taken back", |rig| rig.value("a").as_deref() == Some("1") && rig.applied("a")).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let writes = rig.member.writes();
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!((rig.value("a").as_deref(), rig.member.writes()), (Some("1"), writes));
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

/// A starting API server serves custom kinds later than itself: their objects are not gone before their definition is.
#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_served_for_a_moment_is_no_evidence_of_a_removal() {
    let rig = Rig::fresh();
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"kind": "Thing", "plural": "things"}, "versions": [{"name": "v1"}]}});
    let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t", "namespace": "default"}});
    let (id, gvk) = (ObjectId::of(&thing), Gvk::of(&thing));
    let phase = |rig: &Rig, key: &str| rig.shared.ledger.held().unwrap()[key].phase;
    rig.member.seed(definition.clone());
    for gone in [false, true] {
        let key = if gone { "second" } else { "first" };
        rig.commit(&[put(key, 1, std::slice::from_ref(&thing), false)]);
        rig.until("applied", |rig| rig.applied(key)).await;
        rig.member.set_served(&gvk, false);
        rig.commit(&[delete(key, 2)]);
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(phase(&rig, key), Phase::Deleting, "it may be served again");
        if gone {
            rig.member.remove(&ObjectId::of(&definition));
            rig.until("it went with its definition", |rig| phase(rig, key) == Phase::Removed).await;
        } else {
            rig.member.set_served(&gvk, true);
            rig.until("removed", |rig| phase(rig, key) == Phase::Removed).await;
            assert!(rig.member.read(&id).is_none(), "which it was");
        }
    }
    // What is defined nowhere is waited for by nobody.
    let other = json!({"apiVersion": "example.com/v1", "kind": "Other", "metadata": {"name": "o", "namespace": "default"}});
    rig.commit(&[put("never", 1, &[other], false)]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    rig.commit(&[delete("never", 2)]);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(phase(&rig, "never"), Phase::Removed);
}

/// A script that takes all its time is put right by its author: what he wrote must not wait behind what it is to put right. Real time: scripts
/// are timed by it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_that_hangs_can_be_taken_back() {
    let told = |script: &str| {
        let all = json!([{"metadata": {"name": "c"}, "spec": {"target": {"apiVersion": "v1", "kind": "ConfigMap"},
            "customizations": {"statusReflection": {"luaScript": script}}}}]);
        let body = Bytes::from(all.to_string());
        Change::Document { table: 2, hash: karmada_proto::body::hash(&body), body }
    };
    let rig = Rig::fresh();
    let objects: Vec<String> = (0..20).map(|at| format!("o{at}")).collect();
    for (at, name) in objects.iter().enumerate() {
        rig.commit(&[put(name, at as u64 + 1, &[config(name, "1")], false)]);
    }
    rig.until("applied", |rig| objects.iter().all(|name| rig.applied(name))).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    rig.shared.ledger.commit(&[told("function ReflectStatus(o) while true do end end")]).unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    // Each object changes a little, as objects do.
    for name in &objects {
        rig.member.edit(&id(name), |o| karmada_api::object::set_label(o, "site", "note"));
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let begun = std::time::Instant::now();
    rig.shared.ledger.commit(&[told("function ReflectStatus(o) return {said = 'new'} end")]).unwrap();
    let healthy = |rig: &Rig| {
        objects.iter().any(|name| {
            let outbox = rig.shared.outbox.lock();
            let statuses = outbox.report(name).and_then(|report| report.manifest_statuses.clone());
            statuses.is_some_and(|s| String::from_utf8_lossy(&s).contains(r#""said":"new""#))
        })
    };
    rig.until("the new script is asked", healthy).await;
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(15), "the new script was asked after {took:?}, for 20 objects");
}

/// The link, its tunnels and `/readyz` run on the agent's two threads: whatever scripts do, each gets its turn. Real time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_leave_the_link_its_turn() {
    let all = json!([{"metadata": {"name": "c"}, "spec": {"target": {"apiVersion": "v1", "kind": "ConfigMap"}, "customizations": {
        "retention": {"luaScript": "function Retain(d, o) while true do end end"},
        "statusReflection": {"luaScript": "function ReflectStatus(o) while true do end end"}}}}]);
    let body = Bytes::from(all.to_string());
    let told = Change::Document { table: 2, hash: karmada_proto::body::hash(&body), body };
    let rig = Rig::fresh();
    let objects: Vec<String> = (0..40).map(|at| format!("o{at}")).collect();
    for (at, name) in objects.iter().enumerate() {
        rig.commit(&[put(name, at as u64 + 1, &[config(name, "1")], false)]);
    }
    rig.until("applied", |rig| objects.iter().all(|name| rig.applied(name))).await;
    rig.shared.ledger.commit(&[told]).unwrap();
    // New bodies for all, as one release brings them.
    for (at, name) in objects.iter().enumerate() {
        rig.commit(&[put(name, at as u64 + 101, &[config(name, "2")], false)]);
    }
    let link = tokio::spawn(async {
        let (begun, mut last, mut longest) =
            (std::time::Instant::now(), std::time::Instant::now(), Duration::ZERO);
        while begun.elapsed() < Duration::from_secs(8) {
            tokio::time::sleep(Duration::from_millis(100)).await;
            longest = longest.max(last.elapsed());
            last = std::time::Instant::now();
        }
        longest
    });
    let longest = link.await.unwrap();
    assert!(longest < Duration::from_secs(5), "the link waited {longest:?} for its turn");
}
