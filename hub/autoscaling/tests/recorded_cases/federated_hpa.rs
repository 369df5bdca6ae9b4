//! FederatedHPAs: what metrics ask for, how fast that is followed, and what no input may do.

mod properties;
mod together;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::autoscaling::v2::{HorizontalPodAutoscalerBehavior, MetricSpec};
use karmada_autoscaling::federated_hpa::behavior::{Pace, follow, longest_period, memory};
use karmada_autoscaling::federated_hpa::facts::{Facts, Measure, Phase, Pod, Reading, Ready, Sample};
use karmada_autoscaling::federated_hpa::{History, Said, propose};
use serde_json::{Value, json};

use crate::recorded::{self, BESIDE, Differences, Verdict, compare};
use crate::{time, without_nulls};

const NAMELESS: &str = "recorded: of an object's metric with an average to reach, the object is not named, and it is called external";
const TWICE: &str = "recorded: as that, and what is needed is divided twice by how many clusters have each replica; here once";

const DIFFERENCES: Differences = &[
    (12, NAMELESS),
    (16, TWICE),
    (20, TWICE),
    (24, TWICE),
    (28, TWICE),
    (32, TWICE),
    (51, TWICE),
    (52, NAMELESS),
    (61, NAMELESS),
    (63, TWICE),
    (64, NAMELESS),
    (74, NAMELESS),
    (75, NAMELESS),
    (80, NAMELESS),
    (84, NAMELESS),
    (88, TWICE),
    (94, NAMELESS),
    (104, TWICE),
    (105, NAMELESS),
    (112, NAMELESS),
    (115, TWICE),
    (117, NAMELESS),
    (122, NAMELESS),
    (130, NAMELESS),
    (133, TWICE),
    (138, NAMELESS),
    (140, NAMELESS),
    (144, TWICE),
    (155, NAMELESS),
];

/// Those of them in which other replicas are asked for.
const COUNTS: Differences = &[
    (16, TWICE),
    (20, TWICE),
    (24, TWICE),
    (28, TWICE),
    (32, TWICE),
    (51, TWICE),
    (63, TWICE),
    (88, TWICE),
    (104, TWICE),
    (115, TWICE),
    (133, TWICE),
    (144, TWICE),
];

/// Metrics are recorded as read in the moment, of the minute before.
const WINDOW: SignedDuration = SignedDuration::from_secs(60);

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// An amount in thousandths.
fn milli(text: &Value) -> Option<i64> {
    let text = text.as_str()?;
    Some(match text.strip_suffix('m') {
        Some(milli) => milli.parse().unwrap(),
        None => text.parse::<i64>().unwrap() * 1000,
    })
}

/// What a Pod asks for of a resource, in all containers or one.
fn request(pod: &Value, resource: &str, container: Option<&str>) -> Result<i64, String> {
    let containers = list(&pod["spec"]["containers"]).iter();
    let meant = containers.filter(|one| container.is_none_or(|name| one["name"] == name));
    let requests = meant.map(|one| {
        milli(&one["resources"]["requests"][resource]).ok_or_else(|| {
            let (container, name) =
                (one["name"].as_str().unwrap(), pod["metadata"]["name"].as_str().unwrap());
            format!("missing request for {resource} in container {container} of Pod {name}")
        })
    });
    requests.sum()
}

/// The values of a metric by Pod, or of all, as they are recorded.
fn values<'a>(case: &'a Value, metric: &Value) -> &'a Value {
    let resource = |source: &Value| source["name"].as_str().unwrap_or_default().to_owned();
    let named = |source: &Value| source["metric"]["name"].as_str().unwrap_or_default().to_owned();
    let (group, key) = match metric["type"].as_str().unwrap() {
        "Resource" => ("resource", resource(&metric["resource"])),
        "ContainerResource" => {
            let source = &metric["containerResource"];
            ("resource", format!("{}/{}", resource(source), source["container"].as_str().unwrap()))
        }
        "Pods" => ("pods", named(&metric["pods"])),
        "Object" => ("object", named(&metric["object"])),
        other => (other, String::new()),
    };
    &case["values"][group][key]
}

fn measure(case: &Value, pod: &Value, metric: &Value, now: Timestamp) -> Measure {
    let name = pod["metadata"]["name"].as_str().unwrap();
    let value = values(case, metric)[name].as_i64();
    let request = match metric["type"].as_str() {
        Some("Resource") => {
            let resource = metric["resource"]["name"].as_str().unwrap();
            // What Pods ask for of memory is not recorded as a share's whole.
            if resource == "cpu" { request(pod, resource, None) } else { Ok(0) }
        }
        Some("ContainerResource") => {
            let source = &metric["containerResource"];
            request(pod, source["name"].as_str().unwrap(), source["container"].as_str())
        }
        _ => Ok(0),
    };
    Measure { sample: value.map(|milli| Sample { milli, at: now, window: WINDOW }), request }
}

fn pod(case: &Value, pod: &Value, now: Timestamp) -> Pod {
    let at = |value: &Value| value.is_string().then(|| time(value));
    let phase = match pod["status"]["phase"].as_str() {
        Some("Pending") => Phase::Pending,
        Some("Failed" | "Succeeded") => Phase::Ended,
        _ => Phase::Running,
    };
    let conditions = list(&pod["status"]["conditions"]).iter();
    let mut ready = conditions.filter(|condition| condition["type"] == "Ready").map(|condition| Ready {
        serves: match condition["status"].as_str() {
            Some("True") => Some(true),
            Some("False") => Some(false),
            _ => None,
        },
        since: time(&condition["lastTransitionTime"]),
    });
    Pod {
        phase,
        deleting: pod["metadata"]["deletionTimestamp"].is_string(),
        started: at(&pod["status"]["startTime"]),
        ready: ready.next_back(),
        measures: list(&case["metrics"]).iter().map(|metric| measure(case, pod, metric, now)).collect(),
    }
}

fn facts(case: &Value, now: Timestamp) -> Facts {
    let reading = |metric: &Value| match values(case, metric) {
        Value::Null => Reading::Unknown("no metrics".to_owned()),
        Value::Number(value) => Reading::Whole(value.as_i64().unwrap()),
        _ => Reading::OfPods,
    };
    Facts {
        wanted: case["memberSpecReplicas"].as_i64().unwrap(),
        running: case["memberStatusReplicas"].as_i64().unwrap(),
        pods: list(&case["pods"]).iter().map(|one| pod(case, one, now)).collect(),
        readings: list(&case["metrics"]).iter().map(reading).collect(),
    }
}

fn condition(said: &Said) -> Value {
    let status = if said.holds { "True" } else { "False" };
    json!({"type": said.type_, "status": status, "reason": said.reason, "message": said.message})
}

fn metrics(case: &Value) -> Vec<MetricSpec> {
    serde_json::from_value(without_nulls(case["metrics"].clone())).unwrap()
}

fn proposal(case: &Value) -> Verdict {
    let now = time(&case["now"]);
    let got = propose(&metrics(case), None, whole(&case["templateReplicas"]), &facts(case, now), now);
    let error = case["error"].is_string();
    let wanted = json!([case["replicas"], case["metric"], case["currentMetrics"], case["conditions"], error]);
    let replicas = got.replicas.unwrap_or(-1);
    compare(
        &wanted,
        &json!([replicas, got.metric, got.current, [condition(&got.active)], got.failure.is_some()]),
    )
}

fn whole(value: &Value) -> i32 {
    i32::try_from(value.as_i64().unwrap()).unwrap()
}

fn steps(case: &Value) -> Verdict {
    let behavior: Option<HorizontalPodAutoscalerBehavior> =
        serde_json::from_value(without_nulls(case["behavior"].clone())).unwrap();
    let behavior = behavior.as_ref();
    let pace = Pace { least: whole(&case["minReplicas"]), most: whole(&case["maxReplicas"]), behavior };
    let (mut history, mut now) = (History::default(), Timestamp::UNIX_EPOCH);
    let (mut wanted, mut got) = (Vec::new(), Vec::new());
    for step in list(&case["steps"]) {
        now += SignedDuration::from_secs(step["afterSeconds"].as_i64().unwrap());
        let (current, recommended) = (whole(&step["current"]), whole(&step["proposal"]));
        history.begin(current, now);
        let paced = follow(pace, &history, current, recommended, now);
        history.recommended(recommended, memory(behavior), now);
        history.scaled(current, paced.replicas, longest_period(behavior), now);
        let said = |said: Said| format!("{} {}", if said.holds { "True" } else { "False" }, said.reason);
        wanted.push(json!([step["result"], step["AbleToScale"], step["ScalingLimited"]]));
        got.push(json!([paced.replicas, said(paced.able()), said(paced.held.said())]));
    }
    compare(&json!(wanted), &json!(got))
}

/// What is not named is counted all the same, but where it is divided twice.
#[test]
fn recorded_counts_of_federated_hpas() {
    recorded::run("fhpa.json", "recorded_counts_of_federated_hpas", COUNTS, |case| {
        if case["kind"] != "proposal" {
            return Verdict::Skip(BESIDE);
        }
        let now = time(&case["now"]);
        let got = propose(&metrics(case), None, whole(&case["templateReplicas"]), &facts(case, now), now);
        compare(&case["replicas"], &json!(got.replicas.unwrap_or(-1)))
    });
}

#[test]
fn recorded_federated_hpas() {
    recorded::run("fhpa.json", "recorded_federated_hpas", DIFFERENCES, |case| match case["kind"].as_str() {
        Some("proposal") => proposal(case),
        Some("steps") => steps(case),
        _ => Verdict::Differs("a case of no kind that is known".to_owned()),
    });
}
