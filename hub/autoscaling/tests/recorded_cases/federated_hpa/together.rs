//! What several clusters tell becomes one decision: shares, silence, replicas without a place.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use karmada_api::binding::ResourceBinding;
use karmada_api::federated_hpa::FederatedHPA;
use karmada_autoscaling::federated_hpa::facts::{Measure, Phase, Pod, Reading, Ready, Sample};
use karmada_autoscaling::federated_hpa::{
    Answers, ClusterMetrics, Decision, Gathered, History, Placed, ScaleInputs, decide, gather, remember,
    remember_scaled, status,
};
use serde_json::{Value, json};

const NOW: &str = "2026-05-01T12:00:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

/// One that scales to Pods which use half of what they ask for.
fn hpa(spec: &Value) -> FederatedHPA {
    let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}});
    let mut whole = json!({"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "minReplicas": 1, "maxReplicas": 20, "metrics": [cpu]});
    for (field, value) in spec.as_object().unwrap() {
        whole[field] = value.clone();
    }
    serde_json::from_value(
        json!({"metadata": {"name": "h", "namespace": "shop", "generation": 3}, "spec": whole}),
    )
    .unwrap()
}

/// A Pod which asks for a CPU and uses so much.
fn pod(milli: i64) -> Pod {
    let sample = Sample { milli, at: now(), window: SignedDuration::from_secs(30) };
    let since = "2026-05-01T11:00:00Z".parse().unwrap();
    Pod {
        phase: Phase::Running,
        deleting: false,
        started: Some(since),
        ready: Some(Ready { serves: Some(true), since }),
        measures: vec![Measure { sample: Some(sample), request: Ok(1000) }],
    }
}

fn told(uses: &[i64]) -> Result<ClusterMetrics, String> {
    let pods = uses.iter().map(|milli| pod(*milli)).collect();
    Ok(ClusterMetrics { pods, readings: vec![Reading::OfPods] })
}

fn binding(replicas: i32, clusters: &[(&str, i32)]) -> ResourceBinding {
    let targets: Vec<Value> =
        clusters.iter().map(|(name, replicas)| json!({"name": name, "replicas": replicas})).collect();
    serde_json::from_value(json!({"metadata": {"name": "web-deployment", "namespace": "shop"},
        "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "shop"},
            "replicas": replicas, "clusters": targets}}))
    .unwrap()
}

fn answers(all: impl IntoIterator<Item = (&'static str, Result<ClusterMetrics, String>)>) -> Answers {
    all.into_iter().map(|(cluster, answer)| (cluster.to_owned(), answer)).collect()
}

fn decided(hpa: &FederatedHPA, current: i32, gathered: &Gathered) -> Decision {
    decide(ScaleInputs { hpa, current, history: &History::default(), now: now() }, gathered)
}

fn reason<'a>(decision: &'a Decision, type_: &str) -> &'a str {
    decision.said.iter().rfind(|said| said.type_ == type_).map_or("", |said| said.reason)
}

#[test]
fn statement_75_pods_of_all_clusters_count_and_replicas_are_shared_where_each_cluster_has_all() {
    let of = |uses: i64| answers([("a", told(&[uses, uses])), ("b", told(&[uses, uses]))]);
    let divided = gather(&binding(4, &[("a", 2), ("b", 2)]), 4, of(1000), 1);
    assert_eq!(
        decided(&hpa(&json!({})), 4, &divided).replicas,
        8,
        "the Pods of a name in two clusters are two"
    );
    let everywhere = gather(&binding(2, &[("a", 2), ("b", 2)]), 2, of(1000), 1);
    let decision = decided(&hpa(&json!({})), 2, &everywhere);
    assert_eq!(decision.replicas, 4, "eight Pods in two clusters");
    assert_eq!(decision.why, "cpu resource utilization (percentage of request) above target");
}

#[test]
fn statement_75_nothing_is_scaled_down_while_a_cluster_is_silent() {
    let binding = binding(4, &[("a", 2), ("b", 2)]);
    let late = || Err("it did not answer in time".to_owned());
    let with = |uses: i64, other| gather(&binding, 4, answers([("a", told(&[uses, uses])), ("b", other)]), 1);
    let down = decided(&hpa(&json!({})), 4, &with(10, late()));
    assert_eq!((down.replicas, reason(&down, "AbleToScale")), (4, "ClustersSilent"));
    let silent = down.said.iter().find(|said| said.type_ == "ClustersMeasured").unwrap();
    assert_eq!((silent.holds, silent.message.as_str()), (false, "b: it did not answer in time"));
    let up = decided(&hpa(&json!({})), 4, &with(1000, late()));
    assert_eq!(up.replicas, 8, "as much is taken to be used where nobody tells");
    let all = decided(&hpa(&json!({})), 4, &with(10, told(&[10, 10])));
    assert_eq!((all.replicas, reason(&all, "ClustersMeasured")), (1, "AllClustersAnswered"));
    let unmeasured = ClusterMetrics {
        readings: vec![Reading::Unknown("no metrics server".to_owned())],
        ..ClusterMetrics::default()
    };
    let part = decided(&hpa(&json!({})), 4, &with(10, Ok(unmeasured)));
    assert_eq!(part.replicas, 4, "and where it is not known what is used");
}

#[test]
fn who_hears_from_nobody_changes_nothing_and_says_whom_he_asked() {
    let many: Vec<String> = (10..30).map(|at| format!("site-{at}")).collect();
    let silent: Answers =
        many.iter().map(|cluster| (cluster.clone(), Err("x".repeat(5000)))).collect::<BTreeMap<_, _>>();
    let decision = decided(&hpa(&json!({})), 4, &gather(&binding(4, &[]), 4, silent, 1));
    assert_eq!((decision.replicas, decision.recommended), (4, None));
    assert!(decision.failure.unwrap().contains("no cluster told it"));
    let words = &decision.said[0].message;
    assert!(words.ends_with("; and 12 more") && words.len() < 2000, "{words}");
}

/// A binding that lags, or whose replicas find no room, would else multiply what is asked for with every look.
#[test]
fn replicas_without_a_place_are_not_followed_by_more() {
    let both = || answers([("a", told(&[1000, 1000])), ("b", told(&[1000, 1000]))]);
    let clusters = [("a", 2), ("b", 2)];
    let behind = gather(&binding(4, &clusters), 8, both(), 1);
    assert_eq!(behind.placed, Placed::Behind);
    let decision = decided(&hpa(&json!({})), 8, &behind);
    assert_eq!((decision.replicas, reason(&decision, "AbleToScale")), (8, "PlacementPending"));
    let partly = gather(&binding(8, &clusters), 8, both(), 1);
    assert_eq!((partly.placed, decided(&hpa(&json!({})), 8, &partly).replicas), (Placed::Partly, 8));
    let idle = answers([("a", told(&[250, 250])), ("b", told(&[250, 250]))]);
    let down = decided(&hpa(&json!({})), 8, &gather(&binding(8, &clusters), 8, idle, 1));
    assert_eq!(down.replicas, 4, "fewer are asked for all the same");
}

#[test]
fn clusters_that_are_to_have_no_replicas_tell_nothing_of_the_target() {
    let value = json!({"type": "Object", "object": {"describedObject": {"kind": "Service", "name": "s"},
        "metric": {"name": "hits"}, "target": {"type": "Value", "value": "10"}}});
    let hpa = hpa(&json!({"minReplicas": 0, "metrics": [value]}));
    let whole = |milli| Ok(ClusterMetrics { pods: Vec::new(), readings: vec![Reading::Whole(milli)] });
    let gathered = gather(&binding(3, &[("a", 0), ("b", 3)]), 3, answers([("a", whole(50_000))]), 1);
    let decision = decided(&hpa, 3, &gathered);
    assert_eq!((decision.replicas, decision.recommended), (3, None));
    let asleep =
        gather(&binding(0, &[("a", 0)]), 0, answers([("a", whole(15_000)), ("b", whole(10_000))]), 1);
    assert_eq!(
        decided(&hpa, 0, &asleep).replicas,
        3,
        "what is asked of an object wakes it, in all clusters together"
    );
}

/// Pods that all fail at once are not made fewer by what is asked of their Service meanwhile.
#[test]
fn pods_of_which_none_serves_are_left_as_many_as_they_are() {
    let value = json!({"type": "Object", "object": {"describedObject": {"kind": "Service", "name": "s"},
        "metric": {"name": "hits"}, "target": {"type": "Value", "value": "10"}}});
    let hpa = hpa(&json!({"metrics": [value]}));
    let with = |serves| {
        let mut pods = [pod(0), pod(0)];
        for pod in &mut pods {
            pod.ready = pod.ready.map(|ready| Ready { serves, ..ready });
        }
        let told = ClusterMetrics { pods: pods.into(), readings: vec![Reading::Whole(20_000)] };
        decided(&hpa, 2, &gather(&binding(2, &[("a", 2)]), 2, answers([("a", Ok(told))]), 1))
    };
    let failing = with(Some(false));
    assert_eq!((failing.replicas, reason(&failing, "ScalingActive")), (2, "FailedGetObjectMetric"));
    assert_eq!(with(Some(true)).replicas, 4);
}

#[test]
fn who_paused_it_has_it_stay_so_and_bounds_hold_without_measuring() {
    let nothing = Gathered::default();
    let paused = decided(&hpa(&json!({})), 0, &nothing);
    assert_eq!((paused.replicas, reason(&paused, "ScalingActive")), (0, "ScalingDisabled"));
    let above = decided(&hpa(&json!({})), 30, &nothing);
    assert_eq!((above.replicas, reason(&above, "ScalingLimited")), (20, "TooManyReplicas"));
    let below = decided(&hpa(&json!({"minReplicas": 3})), 2, &nothing);
    assert_eq!((below.replicas, reason(&below, "ScalingLimited")), (3, "TooFewReplicas"));
    let contradicting = hpa(&json!({"minReplicas": 9, "maxReplicas": 4}));
    assert_eq!(decided(&contradicting, 9, &nothing).replicas, 4, "the upper bound holds");
}

#[test]
fn a_tolerance_of_ones_own_holds_in_its_direction() {
    let behavior = json!({"scaleUp": {"tolerance": "500m"}, "scaleDown": {"tolerance": "0", "stabilizationWindowSeconds": 0,
        "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}});
    let hpa = hpa(&json!({"behavior": behavior}));
    let with = |uses: i64| {
        let uses = vec![uses; 10];
        let binding = binding(10, &[("a", 10)]);
        decided(&hpa, 10, &gather(&binding, 10, answers([("a", told(&uses))]), 1)).replicas
    };
    assert_eq!((with(740), with(500), with(490), with(440)), (10, 10, 10, 9));
}

/// A hub that starts anew knows of no recommendation but the present replicas.
#[test]
fn a_window_begins_with_the_replicas_that_there_are() {
    let (hpa, binding) = (hpa(&json!({})), binding(8, &[("a", 8)]));
    let gathered = gather(&binding, 8, answers([("a", told(&[10; 8]))]), 1);
    let mut history = History::default();
    let look = |seconds: i64, history: &mut History| {
        let now = now() + SignedDuration::from_secs(seconds);
        history.begin(8, now);
        let kept = history.clone();
        let look = ScaleInputs { hpa: &hpa, current: 8, history: &kept, now };
        let decision = decide(look, &gathered);
        remember(history, look, &decision);
        remember_scaled(history, look, decision.replicas);
        decision
    };
    let held = look(0, &mut history);
    assert_eq!((held.replicas, reason(&held, "AbleToScale")), (8, "ScaleDownStabilized"));
    assert_eq!(look(300, &mut history).replicas, 8);
    assert_eq!(look(301, &mut history).replicas, 1);
    let mut set_back = History::default();
    look(100_000, &mut set_back);
    assert_eq!(look(0, &mut set_back).replicas, 8, "the clock was set back");
    assert_eq!(look(301, &mut set_back).replicas, 1, "which holds nothing up for longer than a window");
}

#[test]
fn a_status_says_what_came_of_it_and_keeps_since_when_it_is_so() {
    let mut hpa = hpa(&json!({}));
    let gathered = gather(&binding(2, &[("a", 2)]), 2, answers([("a", told(&[1000, 1000]))]), 1);
    let decision = decided(&hpa, 2, &gathered);
    let mut history = History::default();
    let first = ScaleInputs { hpa: &hpa, current: 2, history: &History::default(), now: now() };
    remember_scaled(&mut history, first, decision.replicas);
    let look = |hpa: &FederatedHPA, minutes: i64, came: &Result<(), String>| {
        let now = now() + SignedDuration::from_mins(minutes);
        json!(status(ScaleInputs { hpa, current: 2, history: &history, now }, &decision, came))
    };
    let scaled = look(&hpa, 0, &Ok(()));
    assert_eq!(scaled["currentReplicas"], 2);
    assert_eq!((&scaled["desiredReplicas"], &scaled["lastScaleTime"]), (&json!(4), &json!(NOW)));
    assert_eq!(scaled["observedGeneration"], 3);
    let metrics = json!([{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 100, "averageValue": "1"}}}]);
    assert_eq!(scaled["currentMetrics"], metrics);
    let able = |status: &Value| {
        let conditions = status["conditions"].as_array().unwrap().clone();
        conditions.into_iter().find(|condition| condition["type"] == "AbleToScale").unwrap()
    };
    assert_eq!(able(&scaled)["reason"], "SucceededRescale");
    hpa.status = serde_json::from_value(scaled).unwrap();
    let refused = look(&hpa, 1, &Err("a webhook says no".to_owned()));
    assert_eq!((&refused["lastScaleTime"], &able(&refused)["status"]), (&json!(NOW), &json!("False")));
    assert_eq!(able(&refused)["lastTransitionTime"], "2026-05-01T12:01:00Z");
    hpa.status = serde_json::from_value(refused).unwrap();
    let again = look(&hpa, 2, &Err("a webhook says no".to_owned()));
    assert_eq!(able(&again)["lastTransitionTime"], "2026-05-01T12:01:00Z");
}
