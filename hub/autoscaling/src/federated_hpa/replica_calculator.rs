//! How many replicas the metrics ask for, and what is told of them.
//!
//! In: metrics with their targets, and what was measured. Out: the most that any of them asks for, each metric's present value, the condition
//! ScalingActive. Where a metric cannot be measured, the others may ask for more replicas and not for fewer: the one that is missing could need them.

use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v2::{
    ContainerResourceMetricStatus, HPAScalingRules, HorizontalPodAutoscalerBehavior, MetricSpec,
    MetricStatus, MetricTarget, MetricValueStatus, ObjectMetricStatus, PodsMetricStatus,
    ResourceMetricStatus,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use karmada_quantity::Quantity;

use super::conditions::Said;
use super::facts::{Facts, Reading};
use super::pod_usage::{self, Counting, Scale, Target, Tolerance, Used};

/// What the metrics ask for.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    /// Replicas of the template; none where nothing can be told.
    pub replicas: Option<i32>,
    /// The metric that asks for so many, in words.
    pub metric: String,
    /// The present values in the order of the metrics; absent where nothing can be told.
    pub current: Option<Vec<MetricStatus>>,
    /// The condition ScalingActive.
    pub active: Said,
    /// What could not be measured, in words.
    pub failure: Option<String>,
}

/// What one metric asks for.
struct Measured {
    replicas: i32,
    name: String,
    status: MetricStatus,
}

/// Why a metric says nothing.
struct Unmeasured {
    reason: &'static str,
    why: String,
    /// What was being done when it failed, where `why` does not say so.
    of: String,
}

/// What is measured for.
struct Measuring<'a> {
    facts: &'a Facts,
    scale: Scale,
    tolerance: Tolerance,
    now: Timestamp,
}

/// What these metrics ask for where the template has so many replicas.
pub fn propose(
    metrics: &[MetricSpec],
    behavior: Option<&HorizontalPodAutoscalerBehavior>,
    template: i32,
    facts: &Facts,
    now: Timestamp,
) -> Proposal {
    let scale = Scale { template, wanted: facts.wanted, running: facts.running };
    let measuring = Measuring { facts, scale, tolerance: tolerance(behavior), now };
    let all = metrics.iter().enumerate().map(|(at, metric)| measuring.measure(at, metric));
    combine(all.collect(), template)
}

fn tolerance(behavior: Option<&HorizontalPodAutoscalerBehavior>) -> Tolerance {
    let of = |rules: Option<&HPAScalingRules>| {
        let said = rules.and_then(|rules| rules.tolerance.as_ref()?.0.parse::<Quantity>().ok());
        said.map_or(Tolerance::USUAL, |said| said.as_f64().max(0.0))
    };
    let both = behavior.map(|behavior| (behavior.scale_up.as_ref(), behavior.scale_down.as_ref()));
    let (up, down) = both.unwrap_or_default();
    Tolerance { up: of(up), down: of(down) }
}

/// The highest one counts; of equal ones the first.
fn combine(all: Vec<Result<Measured, Unmeasured>>, template: i32) -> Proposal {
    let count = all.len();
    let (mut current, mut invalid) = (Vec::new(), 0);
    let (mut highest, mut first): (Option<(i32, String)>, Option<Unmeasured>) = (None, None);
    for one in all {
        match one {
            Ok(measured) => {
                if highest.as_ref().is_none_or(|(replicas, _)| measured.replicas > *replicas) {
                    highest = Some((measured.replicas, measured.name));
                }
                current.push(measured.status);
            }
            Err(unmeasured) => {
                invalid += 1;
                first.get_or_insert(unmeasured);
                // Its place stays, so that values stand in the order of the metrics.
                current.push(MetricStatus::default());
            }
        }
    }
    let failure = first.as_ref().map(|first| {
        let (of, why) = (&first.of, &first.why);
        format!("invalid metrics ({invalid} invalid out of {count}), first error is: {of}{why}")
    });
    match (highest, first) {
        (Some((replicas, metric)), first) if first.is_none() || replicas >= template => {
            found(replicas, metric, current, failure)
        }
        (_, first) => unfound(first, failure),
    }
}

fn found(replicas: i32, metric: String, current: Vec<MetricStatus>, failure: Option<String>) -> Proposal {
    let words = format!("the HPA was able to successfully calculate a replica count from {metric}");
    let active = Said::active(true, "ValidMetricFound", words);
    Proposal { replicas: Some(replicas), metric, current: Some(current), active, failure }
}

fn unfound(first: Option<Unmeasured>, failure: Option<String>) -> Proposal {
    let none = || Unmeasured::because("InvalidMetrics", "no metric is given".to_owned());
    let Unmeasured { reason, why, .. } = first.unwrap_or_else(none);
    let words = format!("the HPA was unable to compute the replica count: {why}");
    let active = Said::active(false, reason, words);
    Proposal { replicas: None, metric: String::new(), current: None, active, failure }
}

impl Unmeasured {
    fn because(reason: &'static str, why: String) -> Self {
        Unmeasured { reason, why, of: String::new() }
    }
}

impl Measuring<'_> {
    fn measure(&self, at: usize, metric: &MetricSpec) -> Result<Measured, Unmeasured> {
        match metric.type_.as_str() {
            "Resource" => self.resource(at, metric),
            "ContainerResource" => self.container(at, metric),
            "Pods" => self.pods(at, metric),
            "Object" => self.object(at, metric),
            // What is outside of the clusters is refused at the gate.
            other => {
                let words = format!("unknown metric source type {other:?}");
                Err(Unmeasured::because("InvalidMetricSourceType", words))
            }
        }
    }

    fn resource(&self, at: usize, metric: &MetricSpec) -> Result<Measured, Unmeasured> {
        let source =
            metric.resource.as_ref().ok_or_else(|| incomplete("FailedGetResourceMetric", "resource"))?;
        let name = &source.name;
        let failed = |why| Unmeasured {
            reason: "FailedGetResourceMetric",
            why,
            of: format!("failed to get {name} resource metric value: "),
        };
        let (used, words) = self.used(at, (name, "resource"), &source.target).map_err(failed)?;
        let status = ResourceMetricStatus { name: name.clone(), current: value_of(used) };
        let status = MetricStatus { resource: Some(status), ..of_type(metric) };
        Ok(Measured { replicas: used.replicas, name: words, status })
    }

    fn container(&self, at: usize, metric: &MetricSpec) -> Result<Measured, Unmeasured> {
        let reason = "FailedGetContainerResourceMetric";
        let source =
            metric.container_resource.as_ref().ok_or_else(|| incomplete(reason, "containerResource"))?;
        let name = &source.name;
        let of = format!("failed to get {name} container resource metric value: ");
        let failed = |why| Unmeasured { reason, why, of };
        let (used, words) = self.used(at, (name, "container resource"), &source.target).map_err(failed)?;
        let status = ContainerResourceMetricStatus {
            name: name.clone(),
            container: source.container.clone(),
            current: value_of(used),
        };
        let status = MetricStatus { container_resource: Some(status), ..of_type(metric) };
        Ok(Measured { replicas: used.replicas, name: words, status })
    }

    /// How much is used of a resource, and its metric in words.
    fn used(
        &self,
        at: usize,
        (name, sort): (&str, &str),
        target: &MetricTarget,
    ) -> Result<(Used, String), String> {
        let average = target.average_value.as_ref().map(milli);
        let (target, words) = match (average, target.average_utilization) {
            (Some(average), _) => (Target::Average(average), format!("{name} {sort}")),
            (None, Some(percent)) => {
                (Target::Utilization(percent), format!("{name} {sort} utilization (percentage of request)"))
            }
            (None, None) => {
                return Err(format!(
                    "invalid {sort} metric source: neither an average utilization target nor an average value target was set"
                ));
            }
        };
        let counting =
            Counting { metric: at, cpu: name == "cpu", requests: matches!(target, Target::Utilization(_)) };
        let used = self.by_pods(counting, &format!("resource {name}"), target);
        Ok((used.map_err(|why| format!("failed to get {name} utilization: {why}"))?, words))
    }

    fn by_pods(&self, counting: Counting, what: &str, target: Target) -> Result<Used, String> {
        if let Some(Reading::Unknown(why)) = self.facts.readings.get(counting.metric) {
            return Err(format!("unable to get metrics for {what}: {why}"));
        }
        let tally = pod_usage::tally(&self.facts.pods, counting, self.now)?;
        pod_usage::by_pods(&tally, target, self.scale()?, self.tolerance)
    }

    fn pods(&self, at: usize, metric: &MetricSpec) -> Result<Measured, Unmeasured> {
        let reason = "FailedGetPodsMetric";
        let source = metric.pods.as_ref().ok_or_else(|| incomplete(reason, "pods"))?;
        let failed = |why| Unmeasured { reason, why, of: "failed to get pods metric value: ".to_owned() };
        let target = source.target.average_value.as_ref().map_or(0, milli);
        let counting = Counting { metric: at, cpu: false, requests: false };
        let what = format!("metric {}", source.metric.name);
        let used = self.by_pods(counting, &what, Target::Average(target)).map_err(failed)?;
        let status = PodsMetricStatus { metric: source.metric.clone(), current: value_of(used) };
        let status = MetricStatus { pods: Some(status), ..of_type(metric) };
        Ok(Measured { replicas: used.replicas, name: format!("pods metric {}", source.metric.name), status })
    }

    fn object(&self, at: usize, metric: &MetricSpec) -> Result<Measured, Unmeasured> {
        let reason = "FailedGetObjectMetric";
        let source = metric.object.as_ref().ok_or_else(|| incomplete(reason, "object"))?;
        let failed = |why| Unmeasured { reason, why, of: "failed to get object metric value: ".to_owned() };
        let name = format!("{} metric {}", source.described_object.kind, source.metric.name);
        let (replicas, current) = self.whole(at, &source.target).map_err(failed)?;
        let status = ObjectMetricStatus {
            metric: source.metric.clone(),
            described_object: source.described_object.clone(),
            current,
        };
        let status = MetricStatus { object: Some(status), ..of_type(metric) };
        Ok(Measured { replicas, name, status })
    }

    /// By what all clusters have together.
    fn whole(&self, at: usize, target: &MetricTarget) -> Result<(i32, MetricValueStatus), String> {
        let milli_of_all = match self.facts.readings.get(at) {
            Some(Reading::Whole(milli)) => *milli,
            Some(Reading::Unknown(why)) => return Err(why.clone()),
            Some(Reading::OfPods) | None => return Err("nobody told it".to_owned()),
        };
        let (pods, scale) = (&self.facts.pods, self.scale()?);
        match (&target.value, &target.average_value) {
            (Some(value), _) if target.type_ == "Value" => {
                let replicas = pod_usage::by_value(milli_of_all, milli(value), pods, scale, self.tolerance)?;
                let current = MetricValueStatus { value: Some(text(milli_of_all)), ..Default::default() };
                Ok((replicas, current))
            }
            (_, Some(average)) if target.type_ == "AverageValue" => {
                let (replicas, part) =
                    pod_usage::by_average(milli_of_all, milli(average), scale, self.tolerance)?;
                let current = MetricValueStatus { average_value: Some(text(part)), ..Default::default() };
                Ok((replicas, current))
            }
            _ => Err(
                "invalid object metric source: neither a value target nor an average value target was set"
                    .to_owned(),
            ),
        }
    }

    /// The replicas that there are. Where the clusters have none of the template's, nothing that is measured there is of them.
    fn scale(&self) -> Result<Scale, String> {
        if self.scale.template > 0 && self.scale.wanted <= 0 {
            return Err("none of the clusters that answer is to have replicas".to_owned());
        }
        Ok(self.scale)
    }
}

fn incomplete(reason: &'static str, field: &str) -> Unmeasured {
    Unmeasured::because(reason, format!("the metric has no field {field}"))
}

fn of_type(metric: &MetricSpec) -> MetricStatus {
    MetricStatus { type_: metric.type_.clone(), ..MetricStatus::default() }
}

fn value_of(used: Used) -> MetricValueStatus {
    MetricValueStatus {
        average_value: Some(text(used.average)),
        average_utilization: used.utilization,
        value: None,
    }
}

fn text(milli: i64) -> Text {
    Text(Quantity::from_milli(milli).to_string())
}

/// What cannot be read is nothing, which is no target.
fn milli(text: &Text) -> i64 {
    text.0.parse::<Quantity>().map_or(0, Quantity::milli)
}
