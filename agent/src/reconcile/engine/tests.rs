//! The engine against a member in memory, on paused time.

mod becomes_active;
mod crashes;
mod departures;
mod names;
mod pauses;
mod renames;
mod restored;
mod retention;
mod scripts;
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

use self::crashes::crashed;
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

fn said(rig: &Rig, key: &str) -> String {
    let applied = rig.shared.outbox.lock().report(key).and_then(|report| report.applied.clone());
    applied.map(|applied| applied.message).unwrap_or_default()
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
