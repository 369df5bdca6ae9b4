//! What agents answer of their room, and what comes to their clusters while they are asked.

use super::*;

/// Answers for some clusters, and notes who was asked.
struct Agents {
    answers: Answers,
    asked: Mutex<Vec<String>>,
}

#[async_trait::async_trait]
impl Estimator for Agents {
    async fn room(&self, clusters: &[&str], _: RoomQuestion<'_>) -> Answers {
        self.asked.lock().push(clusters.join(","));
        self.answers.clone()
    }

    async fn unschedulable(&self, _: &[&str], _: &ObjectReference, _: Duration) -> Answers {
        panic!("nobody asks this here")
    }
}

#[tokio::test(start_paused = true)]
async fn agents_are_asked_of_what_may_be_moved_and_silence_moves_nothing() {
    let silent = || Err("its agent is not connected".to_owned());
    for (b, wanted) in [(silent(), numbers([("a", 10)])), (Ok(20), numbers([("a", 5), ("b", 5)]))] {
        let api = state(lopsided());
        let answers = [("a".to_owned(), Ok(10)), ("b".to_owned(), b)].into();
        let agents = Arc::new(Agents { answers, asked: Mutex::default() });
        let hub = Hub::start(&api, Instant::now(), 100, Some(agents.clone())).await;
        hub.look(&["web"]).await;
        hub.round(&["web"]).await;
        assert_eq!(stands(&api, "web"), wanted);
        hub.round(&["web"]).await;
        let asked = agents.asked.lock().len();
        assert_eq!(asked, if wanted.len() == 2 { 1 } else { 2 }, "not while it rests");
    }
}

/// An agent tells of now: what was moved there a moment ago is not there yet. By its report alone the cluster had room for all.
#[tokio::test(start_paused = true)]
async fn two_workloads_are_not_moved_into_one_gap_that_an_agent_told() {
    let mut objects = [cluster("a", 20, 20), cluster("b", 100, 0)].concat();
    objects
        .extend(["w1", "w2"].iter().flat_map(|name| workload(name, &json!([{"name": "a", "replicas": 10}]))));
    let api = state(objects);
    let answers = [("a".to_owned(), Ok(0)), ("b".to_owned(), Ok(10))].into();
    let agents = Arc::new(Agents { answers, asked: Mutex::default() });
    let hub = Hub::start(&api, Instant::now(), 100, Some(agents)).await;
    hub.look(&["w1", "w2"]).await;
    hub.round(&["w1", "w2"]).await;
    assert_eq!(stands(&api, "w1"), numbers([("a", 5), ("b", 5)]));
    assert_eq!(stands(&api, "w2"), numbers([("a", 7), ("b", 3)]));
}

/// Places `w2` in `b` as it is asked.
struct Meanwhile(Arc<FakeApi>);

#[async_trait::async_trait]
impl Estimator for Meanwhile {
    async fn room(&self, _: &[&str], _: RoomQuestion<'_>) -> Answers {
        let mut other = self.0.value(BINDING.0, BINDING.1, "shop", "w2").unwrap();
        other["spec"]["clusters"] = json!([{"name": "b", "replicas": 10}]);
        self.0.update(&self.0.resource_of(BINDING.0, BINDING.1).unwrap(), other).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
        [("a".to_owned(), Ok(20)), ("b".to_owned(), Ok(20))].into()
    }

    async fn unschedulable(&self, _: &[&str], _: &ObjectReference, _: Duration) -> Answers {
        panic!("nobody asks this here")
    }
}

/// Two workloads in `a`, which are to be apart wherever they come to be.
fn apart() -> Vec<Value> {
    let mut objects = [cluster("a", 40, 20), cluster("b", 40, 0)].concat();
    for name in ["w1", "w2"] {
        let mut both = workload(name, &json!([{"name": "a", "replicas": 10}]));
        both[1]["spec"]["workloadAffinityGroups"] = json!({"antiAffinityGroup": "app=db"});
        objects.extend(both);
    }
    objects
}

#[tokio::test(start_paused = true)]
async fn what_comes_to_a_cluster_while_agents_are_asked_counts() {
    let api = state(apart());
    let gates = FeatureGates::default().with(Gate::WorkloadAffinity);
    let agents = Arc::new(Meanwhile(api.clone()));
    let hub = Hub::gated(&api, (Instant::now(), 100), Some(agents), gates).await;
    hub.look(&["w1"]).await;
    tokio::time::advance(Duration::from_secs(120)).await;
    hub.look(&["w1"]).await;
    assert_eq!(stands(&api, "w2"), numbers([("b", 10)]));
    assert_eq!(stands(&api, "w1"), numbers([("a", 10)]));
}

/// The second sees where the first went, though no watch told yet.
#[tokio::test(start_paused = true)]
async fn workloads_that_are_to_be_apart_do_not_go_the_same_way() {
    let api = state(apart());
    let gates = FeatureGates::default().with(Gate::WorkloadAffinity);
    let hub = Hub::gated(&api, (Instant::now(), 100), None, gates).await;
    hub.look(&["w1", "w2"]).await;
    tokio::time::advance(Duration::from_secs(120)).await;
    for name in ["w1", "w2"] {
        assert!(hub.controller.reconcile(&key("shop", name)).await.is_ok());
    }
    assert_eq!(stands(&api, "w1"), numbers([("a", 5), ("b", 5)]));
    assert_eq!(stands(&api, "w2"), numbers([("a", 10)]));
}

/// Of more clusters than are asked, those in which it is are asked first: of a silent one nothing moves.
#[tokio::test(start_paused = true)]
async fn in_a_large_fleet_those_are_asked_in_which_it_is() {
    let mut objects =
        [cluster("a", 20, 20), workload("web", &json!([{"name": "a", "replicas": 10}]))].concat();
    objects.extend((0..1_000).flat_map(|at| cluster(&format!("b{at:04}"), 20, 0)));
    let api = state(objects);
    let agents = Arc::new(Agents { answers: Answers::new(), asked: Mutex::default() });
    let hub = Hub::start(&api, Instant::now(), 100, Some(agents.clone())).await;
    hub.look(&["web"]).await;
    hub.round(&["web"]).await;
    let asked = agents.asked.lock().clone();
    let names: Vec<&str> = asked[0].split(',').collect();
    assert_eq!((names.len(), names[0], names[999]), (1_000, "a", "b0998"));
}

#[tokio::test(start_paused = true)]
async fn agents_are_not_asked_of_what_stands_well_by_reports() {
    let clusters = json!([{"name": "a", "replicas": 5}, {"name": "b", "replicas": 5}]);
    let api = state([cluster("a", 20, 5), cluster("b", 20, 5), workload("web", &clusters)].concat());
    let answers = [("a".to_owned(), Ok(0)), ("b".to_owned(), Ok(15))].into();
    let agents = Arc::new(Agents { answers, asked: Mutex::default() });
    let hub = Hub::start(&api, Instant::now(), 100, Some(agents.clone())).await;
    hub.look(&["web"]).await;
    hub.round(&["web"]).await;
    assert_eq!(agents.asked.lock().len(), 0);
    assert_eq!(stands(&api, "web"), numbers([("a", 5), ("b", 5)]));
}
