//! What Pods use in members, as their agents say it over their streams; no member is dialled.
//!
//! In: questions of autoscalers. Out: the agents' answers, asked of now and by a deadline, as Pods and readings. What a site says of times is how long
//! ago they were, and is put onto the hub's own clock.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use jiff::{SignedDuration, Timestamp};
use karmada_autoscaling::federated_hpa::ClusterMetrics;
use karmada_autoscaling::federated_hpa::facts::{Measure, Phase, Pod, Reading, Ready, Sample};
use karmada_controllers::agent_ports::pod_metrics::{Answers, PodMetrics, Question};
use karmada_controllers::runner::Clock;
use karmada_gateway::Gateway;
use karmada_proto::one_line;
use karmada_proto::v1::{
    MeasuredPod, MetricReading, PodMeasure, PodReadiness, PodStage, PodUsage, PodUsageOf, answer, ask,
};

use super::slow_agents::SlowAgents;

/// No autoscaler waits for longer.
const WITHIN: Duration = Duration::from_secs(5);
/// Who takes longer is left alone for a while: a worker waited for him in vain, or almost.
const SOON: Duration = Duration::from_millis(4500);
/// Pods that an answer of one frame has room for, and then some: a site that tells more is no agent of ours.
const MOST: usize = 16_384;
/// No time that a site tells of is longer ago.
const LONGEST: u64 = 10 * 365 * 24 * 3600;

/// Asks agents what Pods use.
pub struct PodUsages {
    gateway: OnceLock<Arc<Gateway>>,
    clock: Clock,
    late: SlowAgents,
}

impl PodUsages {
    /// By this clock.
    pub fn new(clock: Clock) -> Arc<Self> {
        Arc::new(Self { gateway: OnceLock::new(), clock, late: SlowAgents::default() })
    }

    /// From now on the agents of this gateway are asked; before, nobody is.
    pub fn ask_by(&self, gateway: Arc<Gateway>) {
        let _ = self.gateway.set(gateway);
    }

    async fn of(
        &self,
        gateway: &Gateway,
        cluster: &str,
        question: PodUsageOf,
    ) -> Result<ClusterMetrics, String> {
        let metrics = question.metrics.clone();
        let whose = question.namespace.clone();
        let asking = gateway.ask(cluster, ask::Question::PodUsageOf(question), WITHIN);
        let asked = self.late.unless_late((cluster, &whose), SOON, asking).await?;
        match asked {
            Ok(answer::Result::PodUsage(usage)) if usage.pods.len() > MOST => {
                Err(format!("its agent told of {} Pods, which no answer has room for", usage.pods.len()))
            }
            Ok(answer::Result::PodUsage(usage)) => {
                // As many as were asked for: it was read from a list just now.
                let metrics: Vec<serde_json::Value> = serde_json::from_slice(&metrics).unwrap_or_default();
                Ok(cluster_metrics(usage, &metrics, (self.clock)()))
            }
            Ok(_) => Err("its agent answered something else".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

#[async_trait::async_trait]
impl PodMetrics for PodUsages {
    async fn ask(&self, clusters: &[&str], question: &Question) -> Answers {
        let nobody = |why: &str| -> Answers {
            clusters.iter().map(|cluster| ((*cluster).to_owned(), Err(why.to_owned()))).collect()
        };
        let Some(gateway) = self.gateway.get() else { return nobody("the hub only just starts") };
        let metrics = match serde_json::to_vec(&question.metrics) {
            Ok(metrics) => Bytes::from(metrics),
            Err(error) => return nobody(&error.to_string()),
        };
        let (namespace, selector) = (&question.namespace, &question.selector);
        let asked = clusters.iter().map(|cluster| {
            let (namespace, selector) = (namespace.clone(), selector.clone());
            let question = PodUsageOf { namespace, selector, metrics: metrics.clone() };
            async move { ((*cluster).to_owned(), self.of(gateway, cluster, question).await) }
        });
        asked.collect::<FuturesUnordered<_>>().collect().await
    }
}

/// What a site said, with as many readings as were asked for.
fn cluster_metrics(usage: PodUsage, metrics: &[serde_json::Value], now: Timestamp) -> ClusterMetrics {
    let PodUsage { pods, readings } = usage;
    let all = metrics.iter().enumerate().map(|(at, metric)| reading(readings.get(at), metric));
    ClusterMetrics {
        readings: all.collect(),
        pods: pods.iter().map(|one| pod(one, (&readings, metrics), now)).collect(),
    }
}

/// What it said of one metric: whatever else it says of it, what is of single Pods is told with them.
fn reading(said: Option<&MetricReading>, metric: &serde_json::Value) -> Reading {
    match said {
        None => Reading::Unknown("the site did not tell it".to_owned()),
        Some(MetricReading { unknown, .. }) if !unknown.is_empty() => Reading::Unknown(one_line(unknown)),
        Some(_) if metric["type"] != "Object" => Reading::OfPods,
        Some(MetricReading { milli: Some(milli), .. }) => Reading::Whole(*milli),
        Some(_) => Reading::Unknown("the site told no amount".to_owned()),
    }
}

fn pod(
    pod: &MeasuredPod,
    (readings, metrics): (&[MetricReading], &[serde_json::Value]),
    now: Timestamp,
) -> Pod {
    let serves = match pod.readiness() {
        PodReadiness::Unspecified => None,
        PodReadiness::Ready => Some(Some(true)),
        PodReadiness::NotReady => Some(Some(false)),
        PodReadiness::Unknown => Some(None),
    };
    let words = |at: usize| readings.get(at).map_or("", |reading| reading.unrequested.as_str());
    let of_resource = |at: usize| {
        metrics
            .get(at)
            .is_some_and(|metric| metric["type"] == "Resource" || metric["type"] == "ContainerResource")
    };
    let possible = |(at, measure): (usize, &PodMeasure)| {
        let is_possible = |milli: &i64| *milli >= 0 || !of_resource(at);
        PodMeasure { milli: measure.milli.filter(is_possible), ..*measure }
    };
    let measures = pod.measures.iter().enumerate().map(possible).enumerate();
    Pod {
        phase: match pod.stage() {
            PodStage::Pending => Phase::Pending,
            PodStage::Ended => Phase::Ended,
            PodStage::Running | PodStage::Unspecified => Phase::Running,
        },
        deleting: pod.deleting,
        started: pod.started_for.map(|seconds| ago(seconds, now)),
        ready: serves.map(|serves| Ready { serves, since: ago(pod.ready_for, now) }),
        measures: measures.map(|(at, measure)| measured(&measure, words(at), now)).collect(),
    }
}

fn measured(measure: &PodMeasure, unrequested: &str, now: Timestamp) -> Measure {
    let window = i64::try_from(measure.window.min(LONGEST)).unwrap_or(0);
    let sample =
        |milli| Sample { milli, at: ago(measure.age, now), window: SignedDuration::from_secs(window) };
    let missing = || match unrequested {
        "" => "a Pod does not say what it asks for".to_owned(),
        words => one_line(words),
    };
    // Nobody asks for less than nothing: one site's nonsense is not to outweigh what others say.
    let request = measure.request.filter(|asked| *asked > 0);
    Measure { sample: measure.milli.map(sample), request: request.ok_or_else(missing) }
}

fn ago(seconds: u64, now: Timestamp) -> Timestamp {
    let seconds = i64::try_from(seconds.min(LONGEST)).unwrap_or(0);
    now.checked_sub(SignedDuration::from_secs(seconds)).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// One site must not outweigh all others by what cannot be.
    #[test]
    fn less_than_nothing_is_no_measure() {
        let now: Timestamp = "2026-05-01T12:00:00Z".parse().unwrap();
        let metrics = [json!({"type": "Resource"}), json!({"type": "Pods"})];
        let negative = PodMeasure { milli: Some(i64::MIN), request: Some(-5), ..PodMeasure::default() };
        let pod = MeasuredPod { measures: vec![negative, negative], ..MeasuredPod::default() };
        let said = cluster_metrics(PodUsage { pods: vec![pod], readings: Vec::new() }, &metrics, now);
        let [of_resource, of_pods] = &said.pods[0].measures[..] else { panic!("{said:?}") };
        assert!(of_resource.sample.is_none() && of_resource.request.is_err());
        assert_eq!(of_pods.sample.unwrap().milli, i64::MIN, "a metric of one's own may be negative");
    }

    #[test]
    fn what_a_site_says_stands_on_the_hubs_clock_whatever_it_says() {
        let now: Timestamp = "2026-05-01T12:00:00Z".parse().unwrap();
        let metrics = [json!({"type": "Resource"}), json!({"type": "Object"}), json!({"type": "Pods"})];
        let measure = |request| PodMeasure { milli: Some(250), age: 10, window: 30, request };
        let pod = MeasuredPod {
            stage: PodStage::Running.into(),
            started_for: Some(60),
            readiness: PodReadiness::Ready.into(),
            ready_for: 50,
            measures: vec![measure(Some(500)), measure(None)],
            ..MeasuredPod::default()
        };
        let odd = MeasuredPod {
            stage: 99,
            started_for: Some(u64::MAX),
            readiness: PodReadiness::Unknown.into(),
            ready_for: u64::MAX,
            measures: vec![PodMeasure {
                age: u64::MAX,
                window: u64::MAX,
                milli: Some(i64::MIN),
                ..measure(None)
            }],
            ..MeasuredPod::default()
        };
        let unrequested =
            MetricReading { unrequested: "missing\nrequest".to_owned(), ..MetricReading::default() };
        let whole = MetricReading { milli: Some(7), ..MetricReading::default() };
        let usage = PodUsage { pods: vec![pod, odd], readings: vec![unrequested, whole] };
        let told = cluster_metrics(usage, &metrics, now);
        let untold = Reading::Unknown("the site did not tell it".to_owned());
        assert_eq!(told.readings, [Reading::OfPods, Reading::Whole(7), untold]);
        let first = &told.pods[0];
        assert_eq!(first.started, Some("2026-05-01T11:59:00Z".parse().unwrap()));
        assert_eq!(first.ready.unwrap().since, "2026-05-01T11:59:10Z".parse().unwrap());
        let sample = first.measures[0].sample.unwrap();
        assert_eq!(
            (sample.milli, sample.at, sample.window.as_secs()),
            (250, "2026-05-01T11:59:50Z".parse().unwrap(), 30)
        );
        assert_eq!(first.measures[0].request, Ok(500));
        assert_eq!(first.measures[1].request, Err("a Pod does not say what it asks for".to_owned()));
        let second = &told.pods[1];
        assert_eq!((second.phase, second.ready.unwrap().serves), (Phase::Running, None));
        assert!(
            !second.measures[0].request.as_ref().unwrap_err().contains('\n'),
            "what a site says is one line"
        );
    }
}
