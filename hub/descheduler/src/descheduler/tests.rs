//! The descheduler, over the port in memory and agents that answer as they are told.

use karmada_api::binding::ObjectReference;
use karmada_controllers::agent_ports::estimator::{Answers, RoomQuestion};
use karmada_controllers::port::ApiError;
use karmada_controllers::port::fake::FakeApi;
use karmada_controllers::testing::{Rig, key};
use karmada_core::feature_gates::FeatureGates;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::*;

const OPTIONS: Descheduling =
    Descheduling { interval: SignedDuration::from_mins(2), threshold: Duration::from_secs(300) };

struct Agents {
    answers: Answers,
    asked: Mutex<Vec<String>>,
}

#[async_trait::async_trait]
impl Estimator for Agents {
    async fn room(&self, _: &[&str], _: RoomQuestion<'_>) -> Answers {
        panic!("the descheduler does not ask this")
    }

    async fn unschedulable(
        &self,
        clusters: &[&str],
        workload: &ObjectReference,
        longer_than: Duration,
    ) -> Answers {
        self.asked.lock().push(format!("{} in {} for {longer_than:?}", workload.name, clusters.join(",")));
        self.answers.clone()
    }
}

fn binding(kind: &str, observed: i64) -> Value {
    json!({"apiVersion": BINDING.0, "kind": BINDING.1, "metadata": {"name": "web-deployment", "namespace": "shop", "generation": 1,
            "labels": {"propagationpolicy.karmada.io/permanent-id": "p"}},
        "spec": {"resource": {"apiVersion": "apps/v1", "kind": kind, "namespace": "shop", "name": "web"}, "replicas": 8,
            "clusters": [{"name": "a", "replicas": 5}, {"name": "b", "replicas": 3}],
            "placement": {"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}}},
        "status": {"schedulerObservedGeneration": observed, "aggregatedStatus": [
            {"clusterName": "a", "status": {"readyReplicas": 2}}, {"clusterName": "b", "status": {"readyReplicas": 3}}]}})
}

/// The same with another value in it.
fn with(at: &str, value: Value) -> Value {
    let mut binding = binding("Deployment", 1);
    let (parent, field) = at.rsplit_once('/').unwrap();
    binding.pointer_mut(parent).unwrap()[field] = value;
    binding
}

fn agents(answer: Result<i64, String>) -> Arc<Agents> {
    Arc::new(Agents { answers: [("a".to_owned(), answer)].into(), asked: Mutex::default() })
}

fn clusters(api: &FakeApi) -> Value {
    api.value(BINDING.0, BINDING.1, "shop", "web-deployment").unwrap()["spec"]["clusters"].clone()
}

/// A rig at this minute after noon over a state.
async fn at(api: &Arc<FakeApi>, minute: u32) -> Rig {
    Rig::started(api.clone(), &format!("2026-05-01T12:{minute:02}:00Z"), FeatureGates::default()).await
}

/// A descheduler that saw the binding at noon, and looks again at this minute.
async fn looks(api: &Arc<FakeApi>, agents: &Arc<Agents>, minute: u32) -> Result<Action, Error> {
    let (noon, then) = (at(api, 0).await, at(api, minute).await);
    let web = key("shop", "web-deployment");
    let first = Descheduler::new(noon.shared.clone(), agents.clone(), OPTIONS);
    assert_eq!(first.reconcile(&web).await.unwrap(), again(OPTIONS.interval), "nothing at first sight");
    tokio::time::advance(Duration::from_secs(60 * u64::from(minute))).await;
    let turns = first.turns.clone();
    let second =
        Descheduler { shared: then.shared.clone(), estimator: agents.clone(), options: OPTIONS, turns };
    let came = second.reconcile(&web).await;
    then.quiet().await;
    came
}

#[tokio::test(start_paused = true)]
async fn replicas_that_wait_for_a_node_are_given_up_once_in_an_interval() {
    let api = Rig::new([binding("Deployment", 1)]).await.api;
    let agents = agents(Ok(2));
    assert_eq!(looks(&api, &agents, 1).await.unwrap(), again(SignedDuration::from_mins(1)));
    assert_eq!(agents.asked.lock().len(), 0, "not before its time");
    assert_eq!(looks(&api, &agents, 2).await.unwrap(), again(OPTIONS.interval));
    assert_eq!(*agents.asked.lock(), ["web in a for 300s"], "whose replicas are all ready is not asked");
    assert_eq!(clusters(&api), json!([{"name": "a", "replicas": 3}, {"name": "b", "replicas": 3}]));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_given_up_where_that_is_not_known_or_not_wanted() {
    let unknown = || Err("its agent is not connected".to_owned());
    for (object, answer) in [
        (binding("Deployment", 1), unknown()),
        (binding("Deployment", 1), Ok(0)),
        (binding("Deployment", 1), Ok(-3)),
        (binding("Deployment", 1), Ok(6)),
        // The scheduler has not seen it as it is.
        (binding("Deployment", 0), Ok(2)),
        // It places what is given up nowhere else: of no policy, held back, or another scheduler's.
        (with("/metadata/labels", json!({})), Ok(2)),
        (with("/spec/suspension", json!({"scheduling": true})), Ok(2)),
        (with("/spec/schedulerName", json!("mine")), Ok(2)),
    ] {
        let api = Rig::new([object.clone()]).await.api;
        let agents = agents(answer.clone());
        assert_eq!(looks(&api, &agents, 2).await.unwrap(), again(OPTIONS.interval), "{answer:?}");
        assert_eq!(api.writes(), 0, "{answer:?}");
    }
    let api = Rig::new([binding("StatefulSet", 1)]).await.api;
    let rig = at(&api, 0).await;
    let descheduler = Descheduler::new(rig.shared.clone(), agents(Ok(2)), OPTIONS);
    assert_eq!(descheduler.reconcile(&key("shop", "web-deployment")).await.unwrap(), Action::Done);
}

/// A write that meets another's is tried again at once, not after an interval.
#[tokio::test(start_paused = true)]
async fn a_conflict_is_tried_again() {
    let api = Rig::new([binding("Deployment", 1)]).await.api;
    let agents = agents(Ok(2));
    api.fail(1, false, ApiError::Conflict("somebody was faster".into()));
    assert!(looks(&api, &agents, 2).await.is_err());
    looks(&api, &agents, 2).await.unwrap();
    assert_eq!(clusters(&api)[0]["replicas"], 3);
}
