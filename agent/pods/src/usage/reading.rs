//! What is read of a member's Pods and of what its metrics servers say, and how it is told.
//!
//! In: lists as the member answers them, and metrics as a FederatedHPA has them. Out: for each Pod a few numbers, in the order of the metrics. Times
//! become ages by the site's own clock.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::autoscaling::v2::MetricSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use karmada_proto::v1::{MeasuredPod, PodMeasure, PodReadiness, PodStage};
use karmada_quantity::Quantity;
use serde::Deserialize;

/// A page of Pods.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PodPage {
    pub metadata: PageMeta,
    pub items: Option<Vec<PodPart>>,
}

/// Where the next page begins.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PageMeta {
    #[serde(rename = "continue")]
    pub next: Option<String>,
}

/// What of a Pod is looked at.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PodPart {
    metadata: Meta,
    spec: Spec,
    status: Status,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Meta {
    name: String,
    deletion_timestamp: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    containers: Option<Vec<Container>>,
    init_containers: Option<Vec<Container>>,
    resources: Resources,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Container {
    name: String,
    restart_policy: Option<String>,
    resources: Resources,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Resources {
    requests: Option<BTreeMap<String, Quantity>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    phase: String,
    start_time: Option<Timestamp>,
    conditions: Option<Vec<Condition>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Condition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    last_transition_time: Option<Timestamp>,
}

/// What `metrics.k8s.io` says.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PodMetricsList {
    items: Option<Vec<PodMetrics>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PodMetrics {
    metadata: Meta,
    timestamp: Option<Timestamp>,
    window: String,
    containers: Option<Vec<ContainerMetrics>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ContainerMetrics {
    name: String,
    usage: BTreeMap<String, Quantity>,
}

/// What `custom.metrics.k8s.io` says.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct MetricValueList {
    items: Option<Vec<MetricValue>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct MetricValue {
    described_object: Described,
    timestamp: Option<Timestamp>,
    window_seconds: Option<u64>,
    value: Option<Quantity>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Described {
    name: String,
}

/// A measured amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    milli: i64,
    at: Timestamp,
    window: u64,
}

/// Amounts by Pod.
pub(super) type Samples = BTreeMap<String, Sample>;

/// Seconds between two moments, none where the first one is to come.
fn seconds(since: Timestamp, now: Timestamp) -> u64 {
    u64::try_from(now.duration_since(since).as_secs()).unwrap_or(0)
}

impl PodMetricsList {
    /// How much of a resource each Pod uses, in one container or all; one of which a container does not tell is left out.
    pub(super) fn of(&self, resource: &str, container: Option<&str>, now: Timestamp) -> Samples {
        let pods = self.items.iter().flatten();
        let sample = |pod: &PodMetrics| {
            let containers = pod.containers.iter().flatten();
            let mut meant = containers.filter(|one| container.is_none_or(|name| name == one.name)).peekable();
            meant.peek()?;
            let amounts = meant.map(|one| one.usage.get(resource).copied());
            let sum = amounts.into_iter().try_fold(Quantity::ZERO, |sum, amount| Some(sum.plus(amount?)))?;
            let window = pod.window.parse::<SignedDuration>().map_or(0, |window| window.as_secs());
            let at = pod.timestamp.unwrap_or(now);
            Some(Sample { milli: sum.milli(), at, window: u64::try_from(window).unwrap_or(0) })
        };
        pods.filter_map(|pod| Some((pod.metadata.name.clone(), sample(pod)?))).collect()
    }
}

impl MetricValueList {
    /// The amount of each Pod.
    pub(super) fn by_pod(&self, now: Timestamp) -> Samples {
        let values = self.items.iter().flatten();
        let sample = |value: &MetricValue| {
            Some(Sample {
                milli: value.value?.milli(),
                at: value.timestamp.unwrap_or(now),
                window: value.window_seconds.unwrap_or(60),
            })
        };
        values.filter_map(|value| Some((value.described_object.name.clone(), sample(value)?))).collect()
    }

    /// The one amount that was asked for.
    pub(super) fn whole(&self) -> Option<i64> {
        self.items.iter().flatten().find_map(|value| Some(value.value?.milli()))
    }
}

/// What a metric needs of Pods: of which resource they ask for how much, in one container or all; nothing where no share is meant.
pub(super) fn requested(metric: &MetricSpec) -> Option<(&str, Option<&str>)> {
    if let Some(source) = &metric.resource {
        return source.target.average_utilization.map(|_| (source.name.as_str(), None));
    }
    let source = metric.container_resource.as_ref()?;
    source.target.average_utilization.map(|_| (source.name.as_str(), Some(source.container.as_str())))
}

/// A selector of labels as text.
pub(super) fn selector(selector: &LabelSelector) -> String {
    let labels = selector.match_labels.iter().flatten().map(|(key, value)| format!("{key}={value}"));
    let rules = selector.match_expressions.iter().flatten().map(|rule| {
        let (key, values) = (&rule.key, rule.values.as_deref().unwrap_or_default().join(","));
        match rule.operator.as_str() {
            "Exists" => key.clone(),
            "DoesNotExist" => format!("!{key}"),
            "NotIn" => format!("{key} notin ({values})"),
            _ => format!("{key} in ({values})"),
        }
    });
    labels.chain(rules).collect::<Vec<_>>().join(",")
}

impl PodPart {
    /// How much it asks for of a resource: as the whole Pod says, or all that runs beside each other in it; or in words what does not say.
    fn request(&self, resource: &str, container: Option<&str>) -> Result<i64, String> {
        let of = |resources: &Resources| resources.requests.as_ref()?.get(resource).copied();
        if let (None, Some(whole)) = (container, of(&self.spec.resources)) {
            return Ok(whole.milli());
        }
        let beside = self.spec.init_containers.iter().flatten();
        let beside = beside.filter(|one| one.restart_policy.as_deref() == Some("Always"));
        let all = self.spec.containers.iter().flatten().chain(beside);
        let mut meant = all.filter(|one| container.is_none_or(|name| name == one.name)).peekable();
        if meant.peek().is_none() {
            let (container, pod) = (container.unwrap_or_default(), &self.metadata.name);
            return Err(format!("there is no container {container} in Pod {pod}"));
        }
        let sum = meant.try_fold(Quantity::ZERO, |sum, one| {
            let missing = || {
                format!(
                    "missing request for {resource} in container {} of Pod {}",
                    one.name, self.metadata.name
                )
            };
            Ok::<_, String>(sum.plus(of(&one.resources).ok_or_else(missing)?))
        })?;
        Ok(sum.milli())
    }

    /// As it is told, with what was measured of it by metric; beside it, by metric, in words what it does not ask for.
    pub(super) fn told(
        &self,
        metrics: &[MetricSpec],
        samples: &[Samples],
        now: Timestamp,
    ) -> (MeasuredPod, Vec<Option<String>>) {
        let mut unrequested = Vec::with_capacity(metrics.len());
        let measures = metrics.iter().zip(samples).map(|(metric, samples)| {
            let sample = samples.get(&self.metadata.name);
            let request = requested(metric).map(|(resource, container)| self.request(resource, container));
            let request = request.transpose();
            unrequested.push(request.as_ref().err().cloned());
            PodMeasure {
                milli: sample.map(|sample| sample.milli),
                age: sample.map_or(0, |sample| seconds(sample.at, now)),
                window: sample.map_or(0, |sample| sample.window),
                request: request.ok().flatten(),
            }
        });
        let measures = measures.collect();
        let (readiness, ready_for) = self.readiness(now);
        let stage = match self.status.phase.as_str() {
            "Pending" => PodStage::Pending,
            "Succeeded" | "Failed" => PodStage::Ended,
            _ => PodStage::Running,
        };
        let pod = MeasuredPod {
            stage: stage.into(),
            deleting: self.metadata.deletion_timestamp.is_some(),
            started_for: self.status.start_time.map(|since| seconds(since, now)),
            readiness: readiness.into(),
            ready_for,
            measures,
        };
        (pod, unrequested)
    }

    fn readiness(&self, now: Timestamp) -> (PodReadiness, u64) {
        let conditions = self.status.conditions.iter().flatten();
        let Some(ready) = conditions.into_iter().find(|one| one.type_ == "Ready") else {
            return (PodReadiness::Unspecified, 0);
        };
        let readiness = match ready.status.as_str() {
            "True" => PodReadiness::Ready,
            "False" => PodReadiness::NotReady,
            _ => PodReadiness::Unknown,
        };
        (readiness, ready.last_transition_time.map_or(0, |since| seconds(since, now)))
    }
}
