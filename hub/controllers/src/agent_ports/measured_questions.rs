//! Questions to agents, counted and timed: for the scheduler, the descheduler and FederatedHPAs as they are asked.
//!
//! In: who asks agents, and the metrics. Out: the same answers. Of a cluster's answer that is a reason in place of a number, an error is counted.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::autoscaling::v2::MetricSpec;
use karmada_api::binding::ObjectReference;
use karmada_core::scheduler::estimator_answers::Wanted;
use tokio::time::Instant;

use crate::agent_ports::estimator::{self, Estimator, RoomQuestion};
use crate::agent_ports::pod_metrics::{self, PodMetrics, Question};
use crate::karmada_metrics::{Measure, Metrics};

/// Asks, and notes how that went.
pub struct Measured<T: ?Sized> {
    asks: Arc<T>,
    metrics: Arc<Metrics>,
}

impl<T: ?Sized> Measured<T> {
    /// Over somebody who asks.
    pub fn new(asks: Arc<T>, metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Measured { asks, metrics })
    }

    fn note<A>(&self, measure: Measure, answers: &[&Result<A, String>], took: Duration) {
        answers.iter().for_each(|answer| self.metrics.note(measure, answer.is_ok(), took));
    }
}

#[async_trait::async_trait]
impl Estimator for Measured<dyn Estimator> {
    async fn room(&self, clusters: &[&str], question: RoomQuestion<'_>) -> estimator::Answers {
        let measure = match question.wanted {
            Wanted::Replicas(_) => Measure::EstimateReplicas,
            Wanted::Sets(_) => Measure::EstimateSets,
        };
        let begun = Instant::now();
        let answers = self.asks.room(clusters, question).await;
        self.note(measure, &answers.values().collect::<Vec<_>>(), begun.elapsed());
        answers
    }

    async fn unschedulable(
        &self,
        clusters: &[&str],
        workload: &ObjectReference,
        longer_than: Duration,
    ) -> estimator::Answers {
        let begun = Instant::now();
        let answers = self.asks.unschedulable(clusters, workload, longer_than).await;
        self.note(Measure::EstimateUnschedulable, &answers.values().collect::<Vec<_>>(), begun.elapsed());
        answers
    }
}

/// By the kind of a metric, as `metricType` of Karmada's own.
fn pulls(metric: &MetricSpec) -> Measure {
    match &*metric.type_ {
        "Resource" => Measure::PullResource,
        "ContainerResource" => Measure::PullContainerResource,
        "Pods" => Measure::PullPods,
        _ => Measure::PullObject,
    }
}

#[async_trait::async_trait]
impl PodMetrics for Measured<dyn PodMetrics> {
    async fn ask(&self, clusters: &[&str], question: &Question) -> pod_metrics::Answers {
        let begun = Instant::now();
        let answers = self.asks.ask(clusters, question).await;
        let (took, answered) = (begun.elapsed(), answers.values().all(Result::is_ok));
        for metric in &question.metrics {
            self.metrics.note(pulls(metric), answered, took);
        }
        answers
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use karmada_core::scheduler::assumptions::Taken;

    use super::*;

    /// One cluster has room, the other is away.
    struct Asks;

    #[async_trait::async_trait]
    impl Estimator for Asks {
        async fn room(&self, _: &[&str], _: RoomQuestion<'_>) -> estimator::Answers {
            tokio::time::sleep(Duration::from_millis(500)).await;
            BTreeMap::from([("a".to_owned(), Ok(4)), ("b".to_owned(), Err("it is away".to_owned()))])
        }

        async fn unschedulable(&self, _: &[&str], _: &ObjectReference, _: Duration) -> estimator::Answers {
            BTreeMap::from([("a".to_owned(), Ok(1))])
        }
    }

    #[async_trait::async_trait]
    impl PodMetrics for Asks {
        async fn ask(&self, _: &[&str], _: &Question) -> pod_metrics::Answers {
            BTreeMap::from([("a".to_owned(), Err("no metrics server".to_owned()))])
        }
    }

    #[tokio::test(start_paused = true)]
    async fn answers_pass_and_are_counted_by_cluster() {
        let metrics: Arc<Metrics> = Arc::default();
        let estimator = Measured::new(Arc::new(Asks) as Arc<dyn Estimator>, metrics.clone());
        let (wanted, taken) = (Wanted::Replicas(None), Taken::new());
        let question = RoomQuestion { wanted, namespace: "shop", quotas_count: false, taken: &taken };
        let answers = estimator.room(&["a", "b"], question).await;
        assert_eq!(answers["a"], Ok(4));
        estimator.unschedulable(&["a"], &ObjectReference::default(), Duration::ZERO).await;
        let pods = Measured::new(Arc::new(Asks) as Arc<dyn PodMetrics>, metrics.clone());
        let metric = MetricSpec { type_: "Pods".to_owned(), ..MetricSpec::default() };
        let (namespace, selector) = ("shop".to_owned(), "app=a".to_owned());
        pods.ask(&["a"], &Question { namespace, selector, metrics: vec![metric] }).await;
        let page = metrics.page();
        let requests = "karmada_scheduler_estimator_estimating_request_total";
        for line in [
            format!("{requests}{{result=\"success\",type=\"MaxAvailableReplicas\"}} 1"),
            format!("{requests}{{result=\"error\",type=\"MaxAvailableReplicas\"}} 1"),
            format!("{requests}{{result=\"success\",type=\"GetUnschedulableReplicas\"}} 1"),
            "federatedhpa_pull_metrics_duration_seconds_count{result=\"error\",metricType=\"Pods\"} 1"
                .to_owned(),
        ] {
            assert!(page.lines().any(|there| there == line), "{line}\n{page}");
        }
    }
}
