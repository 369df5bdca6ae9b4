//! How the controllers' work fares, by the names of Karmada's metrics, so that its dashboards and alerts hold here too.
//!
//! In: what was done, how it went, how long it took. Out: lines for `/metrics`. There are as many as there are rows here and ways that they can end.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::future::Future;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::histogram::Histogram;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Measure {
    /// It is looked which policy a template follows.
    MatchPolicy,
    /// A template is claimed by its policy.
    ApplyPolicy,
    /// A policy takes a template from another.
    Preemption,
    /// A binding is scheduled because something else than its replicas changed.
    ReconcileSchedule,
    /// A binding is scheduled because its replicas changed.
    ScaleSchedule,
    /// It is decided where a binding goes, nothing else included.
    Decide,
    /// A binding is to be scheduled because it is new.
    BindingAdded,
    /// Because it was changed.
    BindingUpdated,
    /// Because a cluster came, went or changed.
    ClusterChanged,
    /// Again, because that failed.
    ScheduleFailed,
    /// Replicas are moved to where they would be placed now.
    Rebalance,
    /// Works are made of a binding.
    SyncWork,
    /// The rules of a CronFederatedHPA are looked at.
    CronFederatedHpa,
    /// A rule of a CronFederatedHPA whose time has come is carried out.
    CronFederatedHpaRule,
    /// A FederatedHPA is looked at, its members' answers included.
    FederatedHpa,
    /// The agents of a workload's clusters are asked for a metric of CPU or memory of Pods.
    PullResource,
    /// The same of one container.
    PullContainerResource,
    /// For a metric of Pods' own.
    PullPods,
    /// For a metric of another object.
    PullObject,
    /// An agent is asked how many replicas have room.
    EstimateReplicas,
    /// How many whole sets have.
    EstimateSets,
    /// Which replicas find no node.
    EstimateUnschedulable,
}

/// A family of lines: its name, what it tells, its label beside `result` as it is written, and the measures behind it.
struct Family {
    name: &'static str,
    help: &'static str,
    measures: &'static [(Measure, &'static str)],
    results: Results,
}

/// How a family tells how something went.
#[derive(Clone, Copy)]
enum Results {
    /// As most do: `success` or `error`.
    Success,
    /// As the scheduler's do: `scheduled` or `error`.
    Scheduled,
    /// Not at all: what is counted goes one way alone.
    Untold,
}

impl Results {
    /// The labels of a line, `label` among them.
    fn labels(self, went: Went, label: &str) -> String {
        let word = match (self, went) {
            (Results::Untold, _) => return label.trim_start_matches(',').to_owned(),
            (_, Went::Error) => "error",
            (Results::Scheduled, Went::Success) => "scheduled",
            (Results::Success, Went::Success) => "success",
        };
        format!("result=\"{word}\"{label}")
    }
}

const SCHEDULES: &[(Measure, &str)] = &[
    (Measure::ReconcileSchedule, ",schedule_type=\"ReconcileSchedule\""),
    (Measure::ScaleSchedule, ",schedule_type=\"ScaleSchedule\""),
];

const COUNTERS: &[Family] = &[
    Family {
        name: "karmada_scheduler_schedule_attempts_total",
        help: "Bindings that were scheduled, and how that went.",
        measures: SCHEDULES,
        results: Results::Scheduled,
    },
    Family {
        name: "karmada_scheduler_queue_incoming_bindings_total",
        help: "Bindings that were to be scheduled, by what brought them.",
        measures: &[
            (Measure::BindingAdded, "event=\"BindingAdd\""),
            (Measure::BindingUpdated, "event=\"BindingUpdate\""),
            (Measure::ClusterChanged, "event=\"ClusterChanged\""),
            (Measure::ScheduleFailed, "event=\"ScheduleAttemptFailure\""),
        ],
        results: Results::Untold,
    },
    Family {
        name: "karmada_descheduler_rebalance_attempts_total",
        help: "Steps by which replicas were moved to where they would be placed now, and how that went.",
        measures: &[(Measure::Rebalance, "")],
        results: Results::Success,
    },
    Family {
        name: "policy_apply_attempts_total",
        help: "Templates that were claimed by their policies, and how that went.",
        measures: &[(Measure::ApplyPolicy, "")],
        results: Results::Success,
    },
    Family {
        name: "policy_preemption_total",
        help: "Templates that a policy took from another, and how that went.",
        measures: &[(Measure::Preemption, "")],
        results: Results::Success,
    },
    Family {
        name: "karmada_scheduler_estimator_estimating_request_total",
        help: "Questions for room to agents, and how that went.",
        measures: &[
            (Measure::EstimateReplicas, ",type=\"MaxAvailableReplicas\""),
            (Measure::EstimateSets, ",type=\"MaxAvailableComponentSets\""),
            (Measure::EstimateUnschedulable, ",type=\"GetUnschedulableReplicas\""),
        ],
        results: Results::Success,
    },
];

const HISTOGRAMS: &[Family] = &[
    Family {
        name: "karmada_scheduler_scheduling_algorithm_duration_seconds",
        help: "How long it took to decide where bindings go: all steps are one here.",
        measures: &[(Measure::Decide, "schedule_step=\"Schedule\"")],
        results: Results::Untold,
    },
    Family {
        name: "karmada_scheduler_e2e_scheduling_duration_seconds",
        help: "How long bindings took to be scheduled, writes included.",
        measures: SCHEDULES,
        results: Results::Scheduled,
    },
    Family {
        name: "resource_match_policy_duration_seconds",
        help: "How long it took to find the policies of templates.",
        measures: &[(Measure::MatchPolicy, "")],
        results: Results::Success,
    },
    Family {
        name: "resource_apply_policy_duration_seconds",
        help: "How long templates took to be claimed by their policies.",
        measures: &[(Measure::ApplyPolicy, "")],
        results: Results::Success,
    },
    Family {
        name: "binding_sync_work_duration_seconds",
        help: "How long the Works of bindings took to be made.",
        measures: &[(Measure::SyncWork, "")],
        results: Results::Success,
    },
    Family {
        name: "cronfederatedhpa_process_duration_seconds",
        help: "How long CronFederatedHPAs took to be looked at.",
        measures: &[(Measure::CronFederatedHpa, "")],
        results: Results::Success,
    },
    Family {
        name: "cronfederatedhpa_rule_process_duration_seconds",
        help: "How long rules of CronFederatedHPAs took to be carried out.",
        measures: &[(Measure::CronFederatedHpaRule, "")],
        results: Results::Success,
    },
    Family {
        name: "federatedhpa_process_duration_seconds",
        help: "How long FederatedHPAs took to be looked at.",
        measures: &[(Measure::FederatedHpa, "")],
        results: Results::Success,
    },
    Family {
        name: "federatedhpa_pull_metrics_duration_seconds",
        help: "How long the agents took to tell a metric.",
        measures: &[
            (Measure::PullResource, ",metricType=\"Resource\""),
            (Measure::PullContainerResource, ",metricType=\"ContainerResource\""),
            (Measure::PullPods, ",metricType=\"Pods\""),
            (Measure::PullObject, ",metricType=\"Object\""),
        ],
        results: Results::Success,
    },
];

/// Upper ends of the buckets: 1 ms, and twice as much eleven times.
const BUCKETS: [f64; 12] =
    [0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048];

type Durations = Histogram<{ BUCKETS.len() }>;

/// How something went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Went {
    Error,
    Success,
}

/// All of it.
#[derive(Debug, Default)]
pub struct Metrics(Mutex<BTreeMap<(Measure, Went), Durations>>);

impl Metrics {
    /// Notes how something went and how long it took.
    pub fn note(&self, measure: Measure, succeeded: bool, took: Duration) {
        let went = if succeeded { Went::Success } else { Went::Error };
        self.0.lock().entry((measure, went)).or_default().note(&BUCKETS, took);
    }

    /// Counts what has no duration.
    pub fn count(&self, measure: Measure) {
        self.note(measure, true, Duration::ZERO);
    }

    /// Does something, and notes it.
    ///
    /// # Errors
    /// That of `work`.
    pub async fn timed<T, E>(
        &self,
        measure: Measure,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let begun = Instant::now();
        let came = work.await;
        self.note(measure, came.is_ok(), begun.elapsed());
        came
    }

    /// The lines.
    pub fn page(&self) -> String {
        let noted = self.0.lock().clone();
        let mut out = String::new();
        let lines = |family: &Family| -> Vec<(String, Durations)> {
            let of = |(measure, label): &(Measure, &str)| {
                let of_measure = noted.iter().filter(|((noted, _), _)| noted == measure);
                let line = |((_, went), durations): (&(Measure, Went), &Durations)| {
                    (family.results.labels(*went, label), *durations)
                };
                of_measure.map(line).collect::<Vec<_>>()
            };
            family.measures.iter().flat_map(of).collect()
        };
        for family in COUNTERS {
            let Family { name, help, .. } = family;
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} counter");
            for (labels, durations) in lines(family) {
                let _ = writeln!(out, "{name}{{{labels}}} {}", durations.count());
            }
        }
        for family in HISTOGRAMS {
            let Family { name, help, .. } = family;
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} histogram");
            for (labels, durations) in lines(family) {
                durations.write(&mut out, &BUCKETS, name, &labels);
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_is_counted_by_how_it_went_and_how_long_it_took() {
        let metrics = Metrics::default();
        for (succeeded, millis) in [(true, 1), (true, 3), (false, 10_000)] {
            metrics.note(Measure::ScaleSchedule, succeeded, Duration::from_millis(millis));
        }
        metrics.note(Measure::Decide, true, Duration::from_millis(2));
        (0..3).for_each(|_| metrics.count(Measure::ClusterChanged));
        let page = metrics.page();
        for line in [
            "karmada_scheduler_scheduling_algorithm_duration_seconds_count{schedule_step=\"Schedule\"} 1",
            "karmada_scheduler_queue_incoming_bindings_total{event=\"ClusterChanged\"} 3",
            "karmada_scheduler_schedule_attempts_total{result=\"scheduled\",schedule_type=\"ScaleSchedule\"} 2",
            "karmada_scheduler_schedule_attempts_total{result=\"error\",schedule_type=\"ScaleSchedule\"} 1",
            "karmada_scheduler_e2e_scheduling_duration_seconds_bucket{result=\"scheduled\",schedule_type=\"ScaleSchedule\",le=\"0.001\"} 1",
            "karmada_scheduler_e2e_scheduling_duration_seconds_bucket{result=\"scheduled\",schedule_type=\"ScaleSchedule\",le=\"0.004\"} 2",
            "karmada_scheduler_e2e_scheduling_duration_seconds_bucket{result=\"error\",schedule_type=\"ScaleSchedule\",le=\"2.048\"} 0",
            "karmada_scheduler_e2e_scheduling_duration_seconds_bucket{result=\"error\",schedule_type=\"ScaleSchedule\",le=\"+Inf\"} 1",
            "karmada_scheduler_e2e_scheduling_duration_seconds_sum{result=\"error\",schedule_type=\"ScaleSchedule\"} 10",
            "# TYPE binding_sync_work_duration_seconds histogram",
        ] {
            assert!(page.lines().any(|there| there == line), "{line}\n{page}");
        }
        assert!(!page.contains("ReconcileSchedule"), "what never was has no lines");
    }

    #[tokio::test(start_paused = true)]
    async fn what_fails_is_an_error_and_comes_back() {
        let metrics = Metrics::default();
        let fails = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Err::<(), _>("no")
        };
        assert_eq!(metrics.timed(Measure::SyncWork, fails).await, Err("no"));
        assert!(metrics.page().contains("binding_sync_work_duration_seconds_sum{result=\"error\"} 1\n"));
    }
}
