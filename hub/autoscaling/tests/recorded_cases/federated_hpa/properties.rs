//! What holds for any input: bounds, rest, and that nothing panics.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscalerBehavior;
use karmada_api::federated_hpa::FederatedHPA;
use karmada_autoscaling::federated_hpa::facts::{Facts, Measure, Phase, Pod, Reading, Ready, Sample};
use karmada_autoscaling::federated_hpa::{
    Gathered, History, Placed, ScaleInputs, decide, remember, remember_scaled, status, without_measuring,
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn moment() -> impl Strategy<Value = Timestamp> {
    let near = (0_i64..4000).prop_map(|seconds| Timestamp::from_second(1_000_000 + seconds).unwrap());
    prop_oneof![8 => near, 1 => Just(Timestamp::MIN), 1 => Just(Timestamp::MAX)]
}

fn amount() -> impl Strategy<Value = i64> {
    prop_oneof![8 => 0_i64..5000, 1 => any::<i64>(), 1 => Just(i64::MAX)]
}

fn replicas() -> impl Strategy<Value = i32> {
    prop_oneof![8 => 0_i32..40, 1 => any::<i32>(), 1 => Just(i32::MAX)]
}

fn measure() -> impl Strategy<Value = Measure> {
    let window = any::<i64>().prop_map(SignedDuration::from_secs);
    let sample = (amount(), moment(), window).prop_map(|(milli, at, window)| Sample { milli, at, window });
    let request = prop_oneof![5 => amount().prop_map(Ok), 1 => Just(Err("missing".to_owned()))];
    (proptest::option::of(sample), request).prop_map(|(sample, request)| Measure { sample, request })
}

fn pod() -> impl Strategy<Value = Pod> {
    let phase = prop_oneof![1 => Just(Phase::Pending), 6 => Just(Phase::Running), 1 => Just(Phase::Ended)];
    let ready = (any::<Option<bool>>(), moment()).prop_map(|(serves, since)| Ready { serves, since });
    let times = (proptest::option::of(moment()), proptest::option::of(ready));
    (phase, any::<bool>(), times, proptest::collection::vec(measure(), 0..5)).prop_map(
        |(phase, deleting, (started, ready), measures)| Pod { phase, deleting, started, ready, measures },
    )
}

fn facts() -> impl Strategy<Value = Facts> {
    let reading = prop_oneof![
        4 => Just(Reading::OfPods),
        2 => amount().prop_map(Reading::Whole),
        1 => Just(Reading::Unknown("no metrics".to_owned())),
    ];
    let pods = proptest::collection::vec(pod(), 0..8);
    (amount(), amount(), pods, proptest::collection::vec(reading, 0..5))
        .prop_map(|(wanted, running, pods, readings)| Facts { wanted, running, pods, readings })
}

fn gathered() -> impl Strategy<Value = Gathered> {
    let placed = prop_oneof![4 => Just(Placed::Wholly), 1 => Just(Placed::Partly), 1 => Just(Placed::Behind)];
    let silent = proptest::collection::btree_map("[a-c]", "late", 0..2);
    let away = proptest::collection::btree_set("[d-e]", 0..2);
    (facts(), silent, away, placed).prop_map(|(facts, silent, away, placed)| Gathered {
        facts,
        silent,
        away,
        placed,
    })
}

fn rules() -> impl Strategy<Value = Value> {
    let policy = (any::<bool>(), replicas(), replicas()).prop_map(|(percent, value, period)| {
        json!({"type": if percent { "Percent" } else { "Pods" }, "value": value, "periodSeconds": period})
    });
    let policies = proptest::option::of(proptest::collection::vec(policy, 0..3));
    let select = prop_oneof![Just("Max"), Just("Min"), Just("Disabled")];
    (policies, proptest::option::of(replicas()), select).prop_map(|(policies, window, select)| {
        json!({"policies": policies, "stabilizationWindowSeconds": window, "selectPolicy": select})
    })
}

fn behavior() -> impl Strategy<Value = Option<HorizontalPodAutoscalerBehavior>> {
    let both = (proptest::option::of(rules()), proptest::option::of(rules()));
    let whole = both.prop_map(|(up, down)| {
        let value = crate::without_nulls(json!({"scaleUp": up, "scaleDown": down}));
        serde_json::from_value(value).unwrap()
    });
    proptest::option::of(whole)
}

fn autoscaler() -> impl Strategy<Value = FederatedHPA> {
    let target = prop_oneof![
        Just(
            json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}})
        ),
        Just(
            json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 0}}})
        ),
        Just(
            json!({"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1"}}})
        ),
        Just(json!({"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "c",
            "target": {"type": "AverageValue", "averageValue": "nothing"}}})),
        Just(
            json!({"type": "Pods", "pods": {"metric": {"name": "rps"}, "target": {"type": "AverageValue", "averageValue": "10"}}})
        ),
        Just(
            json!({"type": "Object", "object": {"describedObject": {"kind": "Service", "name": "s"}, "metric": {"name": "hits"},
            "target": {"type": "AverageValue", "averageValue": "10m"}}})
        ),
        Just(
            json!({"type": "Object", "object": {"describedObject": {"kind": "Service", "name": "s"}, "metric": {"name": "hits"},
            "target": {"type": "Value", "value": "10"}}})
        ),
        Just(json!({"type": "Object"})),
        Just(json!({"type": "External"})),
    ];
    let bounds = (proptest::option::of(replicas()), replicas());
    (bounds, proptest::collection::vec(target, 0..4), behavior()).prop_map(
        |((min, max), metrics, behavior)| {
            let mut hpa: FederatedHPA =
                serde_json::from_value(json!({"spec": {"maxReplicas": max, "metrics": metrics}})).unwrap();
            hpa.spec.min_replicas = min;
            hpa.spec.behavior = behavior;
            hpa
        },
    )
}

/// Recommendations and scalings at any time, of which some are to come.
fn history() -> impl Strategy<Value = History> {
    let events = proptest::collection::vec((replicas(), replicas(), 0_i64..4000, moment()), 0..6);
    events.prop_map(|events| {
        let mut history = History::default();
        for (from, to, kept, at) in events {
            history.begin(from, at);
            history.recommended(to, SignedDuration::from_secs(kept), at);
            history.scaled(from, to, SignedDuration::from_secs(kept), at);
        }
        history
    })
}

proptest! {
    #[test]
    fn replicas_stay_within_the_bounds_and_a_look_again_says_the_same(
        hpa in autoscaler(),
        gathered in gathered(),
        history in history(),
        current in replicas(),
        now in moment(),
    ) {
        let look = ScaleInputs { hpa: &hpa, current, history: &history, now };
        let decision = decide(look, &gathered);
        let (least, most) = (hpa.spec.at_least().min(hpa.spec.at_most()), hpa.spec.at_most());
        let paused = current <= 0 && hpa.spec.at_least() > 0;
        if paused {
            prop_assert_eq!(decision.replicas, current, "who paused it has it stay so");
        } else {
            prop_assert!((least..=most).contains(&decision.replicas), "{} of {least}..={most}", decision.replicas);
        }
        prop_assert_eq!(decision.why.is_empty(), decision.replicas == current);
        let mut remembered = history.clone();
        remember(&mut remembered, look, &decision);
        let again = decide(ScaleInputs { history: &remembered, ..look }, &gathered);
        prop_assert_eq!(again.replicas, decision.replicas);
        remember_scaled(&mut remembered, look, decision.replicas);
        let look = ScaleInputs { history: &remembered, ..look };
        let carried_out = status(look, &decision, &Ok(()));
        let mut told = hpa.clone();
        told.status = carried_out;
        let once_more = status(ScaleInputs { hpa: &told, ..look }, &decision, &Ok(()));
        prop_assert_eq!(once_more, told.status, "what is said again changes nothing");
    }

    #[test]
    fn who_is_at_rest_is_within_the_bounds(hpa in autoscaler(), current in replicas()) {
        if let Some(decision) = without_measuring(&hpa.spec, current) {
            let rests = decision.replicas == current || without_measuring(&hpa.spec, decision.replicas).is_none();
            prop_assert!(rests || decision.replicas == 0, "one step leads there");
        }
    }
}
