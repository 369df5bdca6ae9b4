//! What the Pods of a workload use, for autoscalers of the hub.
//!
//! In: a question for the Pods of a label selector and for metrics. Out: the answer, or why there is none. The member is asked anew each time, for its
//! Pods page by page and for what its metrics servers say of them: nothing is kept, and nothing is held in memory but a page and a few numbers
//! for each Pod. A metrics server that does not answer is told of, and the other metrics are told all the same.

mod reading;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Empty, Limited};
use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v2::{MetricIdentifier, MetricSpec};
use karmada_member::percent::percent_encoded;
use karmada_member::{Gvk, Member};
use karmada_proto::one_line;
use karmada_proto::v1::{AskRefusal, AskRefusalCode, MetricReading, PodUsage, PodUsageOf, answer};
use prost::Message as _;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;

use self::reading::{MetricValueList, PodMetricsList, PodPage, Samples};
use crate::Clock;

/// Questions that are answered at once: each holds a page.
const MOST: usize = 4;
/// Pods in a page.
const PAGE: usize = 50;
/// Bytes of one answer of the member.
const LARGEST: usize = 4 << 20;
/// Bytes of an answer to the hub, which is one frame.
const ANSWER: usize = 60 << 10;
/// Metrics in a question.
const METRICS: usize = 32;
/// Bytes of what is told of one metric in words.
const WORDS: usize = 500;

/// Who answers.
pub struct PodUsages {
    member: Arc<dyn Member>,
    clock: Clock,
    places: Semaphore,
}

/// Why there is no answer.
type Refused = (AskRefusalCode, String);

/// What one metric's server said.
enum Said {
    /// Of single Pods.
    OfPods(Samples),
    /// Of something else.
    Whole(i64),
    /// Nothing; why.
    Nothing(String),
}

/// Why the member told nothing.
enum Untold {
    /// It does not have that.
    Absent,
    /// Anything else, in words.
    Other(String),
}

impl Untold {
    fn words(self, of: &str) -> String {
        match self {
            Untold::Absent => format!("the member does not serve {of}"),
            Untold::Other(words) => words,
        }
    }
}

impl PodUsages {
    /// Of this member.
    pub fn new(member: Arc<dyn Member>, clock: Clock) -> Self {
        Self { member, clock, places: Semaphore::new(MOST) }
    }

    /// Answers within this time, or says why not.
    pub async fn answer(&self, question: PodUsageOf, within: Duration) -> answer::Result {
        let late = || (AskRefusalCode::NotKnown, "it takes longer than there is time for".to_owned());
        let told = tokio::time::timeout(within, self.tell(question)).await;
        match told.unwrap_or_else(|_| Err(late())) {
            Ok(usage) => answer::Result::PodUsage(usage),
            Err((code, message)) => answer::Result::Refusal(AskRefusal { code: code.into(), message }),
        }
    }

    async fn tell(&self, question: PodUsageOf) -> Result<PodUsage, Refused> {
        let bad = |why: String| (AskRefusalCode::BadQuestion, why);
        let metrics: Vec<MetricSpec> = serde_json::from_slice(&question.metrics)
            .map_err(|error| bad(format!("the metrics: {error}")))?;
        if metrics.len() > METRICS || question.namespace.is_empty() || question.selector.is_empty() {
            let words = format!("a namespace, a selector and at most {METRICS} metrics are to be named");
            return Err(bad(words));
        }
        let busy = || (AskRefusalCode::AskBusy, "too many ask for what Pods use at once".to_owned());
        let _place = self.places.try_acquire().map_err(|_| busy())?;
        let mut said = Vec::with_capacity(metrics.len());
        let now = (self.clock)();
        let resources = self.resources(&metrics, &question).await;
        for metric in &metrics {
            said.push(self.said(metric, &question, resources.as_ref(), now).await);
        }
        self.pods(&question, &metrics, said, now).await
    }

    /// What `metrics.k8s.io` says, where any metric is of a resource.
    async fn resources(
        &self,
        metrics: &[MetricSpec],
        question: &PodUsageOf,
    ) -> Option<Result<PodMetricsList, String>> {
        metrics.iter().find(|metric| metric.resource.is_some() || metric.container_resource.is_some())?;
        let (namespace, selector) =
            (percent_encoded(&question.namespace), percent_encoded(&question.selector));
        let path =
            format!("/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods?labelSelector={selector}");
        Some(self.get(&path).await.map_err(|untold| untold.words("metrics.k8s.io")))
    }

    async fn said(
        &self,
        metric: &MetricSpec,
        question: &PodUsageOf,
        resources: Option<&Result<PodMetricsList, String>>,
        now: Timestamp,
    ) -> Said {
        let of = |resource: &str, container: Option<&str>| match resources {
            Some(Ok(list)) => Said::OfPods(list.of(resource, container, now)),
            Some(Err(why)) => Said::Nothing(why.clone()),
            None => Said::Nothing("nobody was asked".to_owned()),
        };
        if let Some(source) = &metric.resource {
            return of(&source.name, None);
        }
        if let Some(source) = &metric.container_resource {
            return of(&source.name, Some(&source.container));
        }
        if let Some(source) = &metric.pods {
            let selector = format!("labelSelector={}", percent_encoded(&question.selector));
            let path = format!("namespaces/{}/pods/*", percent_encoded(&question.namespace));
            let list = self.custom(&path, &source.metric, &selector).await;
            return list.map_or_else(Said::Nothing, |list| Said::OfPods(list.by_pod(now)));
        }
        match &metric.object {
            Some(source) => {
                let object = &source.described_object;
                let gvk = Gvk::new(object.api_version.as_deref().unwrap_or("v1"), &object.kind);
                self.whole(&gvk, &object.name, &source.metric, &question.namespace)
                    .await
                    .map_or_else(Said::Nothing, Said::Whole)
            }
            None => Said::Nothing("it is not known here".to_owned()),
        }
    }

    /// A metric of one object.
    async fn whole(
        &self,
        gvk: &Gvk,
        name: &str,
        metric: &MetricIdentifier,
        namespace: &str,
    ) -> Result<i64, String> {
        let plural = self.member.resource(gvk).await.map_err(|error| one_line(&error.to_string()))?;
        let resource = if gvk.group.is_empty() { plural } else { format!("{plural}.{}", gvk.group) };
        let path = format!(
            "namespaces/{}/{}/{}",
            percent_encoded(namespace),
            percent_encoded(&resource),
            percent_encoded(name)
        );
        let list = self.custom(&path, metric, "").await?;
        list.whole().ok_or_else(|| format!("the member has no value of {} of {name}", metric.name))
    }

    /// What `custom.metrics.k8s.io` says, in the newer version or the older one.
    async fn custom(
        &self,
        path: &str,
        metric: &MetricIdentifier,
        query: &str,
    ) -> Result<MetricValueList, String> {
        let mut query = query.to_owned();
        if let Some(selector) = &metric.selector {
            query
                .push_str(&format!("&metricLabelSelector={}", percent_encoded(&reading::selector(selector))));
        }
        for version in ["v1beta2", "v1beta1"] {
            let path = format!(
                "/apis/custom.metrics.k8s.io/{version}/{path}/{}?{query}",
                percent_encoded(&metric.name)
            );
            match self.get(&path).await {
                Err(Untold::Absent) => {}
                Err(Untold::Other(why)) => return Err(why),
                Ok(list) => return Ok(list),
            }
        }
        Err(Untold::Absent.words(&format!("the metric {} in custom.metrics.k8s.io", metric.name)))
    }

    /// The Pods, page by page, with what was said of them.
    async fn pods(
        &self,
        question: &PodUsageOf,
        metrics: &[MetricSpec],
        said: Vec<Said>,
        now: Timestamp,
    ) -> Result<PodUsage, Refused> {
        let not_known = |why| (AskRefusalCode::NotKnown, why);
        let (mut readings, samples): (Vec<MetricReading>, Vec<Samples>) =
            said.into_iter().map(Said::apart).unzip();
        let mut pods = Vec::new();
        let (mut bytes, mut next) = (0, String::new());
        let (namespace, selector) =
            (percent_encoded(&question.namespace), percent_encoded(&question.selector));
        loop {
            let path = format!(
                "/api/v1/namespaces/{namespace}/pods?labelSelector={selector}&limit={PAGE}&continue={}",
                percent_encoded(&next)
            );
            let page: PodPage =
                self.get(&path).await.map_err(|untold| not_known(untold.words("its Pods")))?;
            for part in page.items.iter().flatten() {
                let (pod, unrequested) = part.told(metrics, &samples, now);
                for (reading, words) in readings.iter_mut().zip(unrequested) {
                    if let (true, Some(words)) = (reading.unrequested.is_empty(), words) {
                        reading.unrequested = short(&words);
                    }
                }
                // And what says that it is one, and how long it is.
                bytes += pod.encoded_len() + 4;
                pods.push(pod);
            }
            if bytes > ANSWER {
                let words = format!("it has more Pods than an answer holds: {} and more", pods.len());
                return Err(not_known(words));
            }
            next = page.metadata.next.unwrap_or_default();
            if next.is_empty() {
                return Ok(PodUsage { pods, readings });
            }
        }
    }

    /// One answer of the member, of which no more is taken than there may be.
    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Untold> {
        let other = |error: &dyn std::fmt::Display| Untold::Other(one_line(&error.to_string()));
        let body = Empty::<Bytes>::new().map_err(|never| match never {}).boxed_unsync();
        let request = Request::get(path).header("accept", "application/json").body(body);
        let request = request.map_err(|error| other(&error))?;
        let response = self.member.pass(request).await.map_err(|error| other(&error))?;
        let status = response.status();
        if status == StatusCode::NOT_FOUND {
            return Err(Untold::Absent);
        }
        let body = Limited::new(response.into_body(), LARGEST).collect().await;
        let body = body.map_err(|error| other(&error))?.to_bytes();
        if !status.is_success() {
            let said = serde_json::from_slice::<serde_json::Value>(&body).ok();
            let said = said.as_ref().and_then(|said| said.get("message")?.as_str()).unwrap_or_default();
            return Err(Untold::Other(short(&format!("the member answered {status}: {}", one_line(said)))));
        }
        serde_json::from_slice(&body).map_err(|error| other(&error))
    }
}

impl Said {
    /// What is told of the metric, and what of each Pod.
    fn apart(self) -> (MetricReading, Samples) {
        match self {
            Said::OfPods(samples) => (MetricReading::default(), samples),
            Said::Whole(milli) => {
                (MetricReading { milli: Some(milli), ..MetricReading::default() }, Samples::new())
            }
            Said::Nothing(why) => {
                (MetricReading { unknown: short(&why), ..MetricReading::default() }, Samples::new())
            }
        }
    }
}

fn short(words: &str) -> String {
    let mut end = words.len().min(WORDS);
    while !words.is_char_boundary(end) {
        end -= 1;
    }
    words[..end].to_owned()
}

#[cfg(test)]
mod tests;
