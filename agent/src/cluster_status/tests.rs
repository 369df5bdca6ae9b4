//! How a member is looked at: readiness, what is told, room, and the loop over a member in memory.

use super::*;
use crate::member::memory::MemoryMember;

#[test]
fn a_status_names_what_is_known_only() {
    let mut view = View { version: "v1.34.1".into(), complete: true, ..View::default() };
    assert_eq!(view.status(Probe::Unreachable, &[]).as_object().unwrap().len(), 1);
    let status = view.status(Probe::Ok, &[]);
    assert_eq!(status["conditions"].as_array().unwrap().len(), 2, "nobody looks whether names resolve");
    view.service_names = Some(false);
    let names = &view.status(Probe::Ok, &[])["conditions"][2];
    assert_eq!(
        (&names["type"], &names["status"]),
        (&json!("ServiceDomainNameResolutionReady"), &json!("False"))
    );
    assert!(status.get("nodeSummary").is_none());
    assert_eq!(status.pointer("/conditions/1/reason"), Some(&json!("Empty")));
    let node = json!({"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4", "pods": "10"}, "conditions": [{"type": "Ready", "status": "True"}]}});
    let pod = json!({"kind": "Pod", "metadata": {"name": "p", "namespace": "d"}, "spec": {"nodeName": "n", "containers": [{"resources": {"requests": {"cpu": "500m"}}}]}, "status": {"phase": "Running"}});
    for (event, news) in [
        (MemberEvent::Listing, false),
        (MemberEvent::Object(Box::new(node)), false),
        (MemberEvent::Listed, true),
    ] {
        assert_eq!(view.nodes.take(event, NodeOffer::of), news);
    }
    for event in [MemberEvent::Listing, MemberEvent::Listed, MemberEvent::Object(Box::new(pod.clone()))] {
        view.pods.take(event, PodUse::of);
    }
    assert!(!view.pods.take(MemberEvent::Object(Box::new(pod)), PodUse::of), "the same again is no news");
    let status = view.status(Probe::Ok, &[]);
    assert_eq!(status.pointer("/nodeSummary"), Some(&json!({"totalNum": 1, "readyNum": 1})));
    assert_eq!(status.pointer("/resourceSummary/allocated/cpu"), Some(&json!("500m")));
    assert_eq!(status.pointer("/resourceSummary/allocatableModelings"), None);
    let models = json!([{"grade": 0, "ranges": [{"name": "cpu", "min": "0", "max": "2"}]},
                        {"grade": 1, "ranges": [{"name": "cpu", "min": "2", "max": "9"}]}]);
    let status = view.status(Probe::Ok, &serde_json::from_value::<Vec<_>>(models).unwrap());
    let counts = status.pointer("/resourceSummary/allocatableModelings");
    assert_eq!(counts, Some(&json!([{"grade": 0, "count": 0}, {"grade": 1, "count": 1}])));
}

#[tokio::test]
async fn room_is_told_once_nodes_and_pods_are_known() {
    let shared = AgentState::new(crate::ledger::Ledger::in_memory().unwrap(), Default::default());
    let mut questions = shared.take_node_questions();
    let cpu = |amount: &str| serde_json::from_value(json!({"resourceRequest": {"cpu": amount}})).unwrap();
    let mut view = View::default();
    let room = |of| shared.ask_for_room(RoomWanted { of, quotas: Vec::new(), assumed: Vec::new() }).unwrap();
    let mut answered = room(Wanted::Replicas(Some(cpu("3"))));
    view.tell(asked(&mut questions).await.unwrap());
    assert!(answered.try_recv().is_err(), "not known yet");
    let node = |name: &str| json!({"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": {"cpu": "4", "pods": "10"}}});
    view.nodes.take(MemberEvent::Listing, NodeOffer::of);
    for name in ["a", "b"] {
        view.nodes.take(MemberEvent::Object(Box::new(node(name))), NodeOffer::of);
    }
    view.nodes.take(MemberEvent::Listed, NodeOffer::of);
    for event in [MemberEvent::Listing, MemberEvent::Listed] {
        view.pods.take(event, PodUse::of);
    }
    let set = |cpu: &str| Wanted::Sets {
        namespace: "shop".to_owned(),
        components: serde_json::from_value(json!([
            {"name": "head", "replicas": 1, "replicaRequirements": {"resourceRequest": {"cpu": cpu}}},
            {"name": "worker", "replicas": 2, "replicaRequirements": {"resourceRequest": {"cpu": "1"}}}]))
        .unwrap(),
    };
    for (wanted, count) in [
        (Wanted::Replicas(Some(cpu("3"))), 2),
        (Wanted::Replicas(Some(cpu("2"))), 4),
        (Wanted::Replicas(None), 20),
        (set("2"), 2),
        (set("3"), 1),
        (set("5"), 0),
    ] {
        let answered = room(wanted.clone());
        view.tell(asked(&mut questions).await.unwrap());
        assert_eq!(answered.await, Ok(count), "{wanted:?}");
    }
}

#[tokio::test]
async fn the_grades_are_the_standard_ones_until_the_hub_says_otherwise() {
    let shared = AgentState::new(crate::ledger::Ledger::in_memory().unwrap(), Default::default());
    let told = shared.models.subscribe();
    assert_eq!(told.borrow().len(), 9);
    shared.count_by(b"nonsense");
    assert!(!told.has_changed().unwrap());
    shared.count_by(br#"[{"grade": 0, "ranges": []}]"#);
    assert!(told.has_changed().unwrap());
    assert_eq!(told.borrow().len(), 1);
}

/// What a monitor of the agent sees after so many seconds: whether the member is ready, and its nodes.
async fn seen_after(options: StatusOptions, seconds: u64) -> (i64, i64) {
    let shared = AgentState::new(crate::ledger::Ledger::in_memory().unwrap(), Default::default());
    let twin = MemoryMember::new("m", 2, Duration::ZERO);
    let (member, stop): (Arc<dyn Member>, _) = (Arc::new(twin.clone()), CancellationToken::new());
    let running = tokio::spawn(run(shared.clone(), member, options, stop.clone()));
    tokio::time::sleep(Duration::from_secs(1)).await;
    twin.set_probe(Probe::Unhealthy);
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    stop.cancel();
    running.await.unwrap();
    let count = |number: &std::sync::atomic::AtomicI64| number.load(Ordering::Relaxed);
    (count(&shared.counts.ready), count(&shared.counts.nodes))
}

#[tokio::test(start_paused = true)]
async fn a_member_is_looked_at_as_often_as_is_said_and_with_its_nodes_where_they_are_wanted() {
    let usual = StatusOptions::default();
    let at_once = Thresholds { failure: jiff::SignedDuration::ZERO, ..Thresholds::default() };
    let minute = Duration::from_secs(60);
    for (options, seconds, seen) in [
        (usual, 35, (1, 2)),
        (usual, 45, (0, 2)),
        (StatusOptions { thresholds: at_once, ..usual }, 15, (0, 2)),
        (StatusOptions { thresholds: at_once, frequency: minute, ..usual }, 15, (1, 2)),
        (StatusOptions { thresholds: at_once, frequency: minute, ..usual }, 65, (0, 2)),
        (StatusOptions { resource_modeling: false, ..usual }, 35, (1, 0)),
    ] {
        assert_eq!(seen_after(options, seconds).await, seen, "{options:?} after {seconds} s");
    }
}
