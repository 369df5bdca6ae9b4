//! From single probes of an API server to the Ready condition of its Cluster.
//!
//! In: what each probe found, and when. Out: what to report. One failed probe is no news: Ready turns false only after
//! failures for a while, and true again only after successes for a while. The first probe is reported at once.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::condition::{carried_on, new_condition};
use crate::strings::conditions;

/// What a probe of an API server found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// `/readyz` (or, where that is 404, `/healthz`) said ok.
    Healthy,
    /// It answered something else.
    NotHealthy,
    /// It did not answer.
    NotReachable,
    /// It is healthy, but its state could not be read; why.
    CollectionFailed(String),
}

impl Probe {
    /// Whether the cluster can be used.
    pub fn is_ready(&self) -> bool {
        *self == Self::Healthy
    }

    /// Status, reason and message of the condition.
    fn says(&self) -> (&'static str, &'static str, &str) {
        match self {
            Self::Healthy => (conditions::TRUE, conditions::CLUSTER_READY, conditions::CLUSTER_READY_MESSAGE),
            Self::NotHealthy => {
                (conditions::FALSE, conditions::CLUSTER_NOT_READY, conditions::CLUSTER_NOT_READY_MESSAGE)
            }
            Self::NotReachable => (
                conditions::FALSE,
                conditions::CLUSTER_NOT_REACHABLE,
                conditions::CLUSTER_NOT_REACHABLE_MESSAGE,
            ),
            Self::CollectionFailed(why) => (conditions::FALSE, conditions::STATUS_COLLECTION_FAILED, why),
        }
    }
}

/// How long a change must last before it is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Before Ready turns true.
    pub success: SignedDuration,
    /// Before Ready turns false.
    pub failure: SignedDuration,
}

impl Default for Thresholds {
    /// 30 seconds each.
    fn default() -> Self {
        Self { success: SignedDuration::from_secs(30), failure: SignedDuration::from_secs(30) }
    }
}

/// Remembers what was reported and since when probes say otherwise.
#[derive(Clone, Debug, Default)]
pub struct Readiness {
    thresholds: Thresholds,
    reported: Option<Condition>,
    otherwise_since: Option<Timestamp>,
}

impl Readiness {
    /// Nothing is known yet.
    pub fn new(thresholds: Thresholds) -> Self {
        Self { thresholds, ..Self::default() }
    }

    /// Takes in a probe and says what to report now. The transition time moves only when the status does.
    pub fn observe(&mut self, probe: &Probe, now: Timestamp) -> Condition {
        let (status, reason, message) = probe.says();
        if let Some(reported) = &self.reported
            && reported.status != status
        {
            let since = *self.otherwise_since.get_or_insert(now);
            let wait = if probe.is_ready() { self.thresholds.success } else { self.thresholds.failure };
            if now.duration_since(since) < wait {
                return reported.clone();
            }
        }
        self.otherwise_since = None;
        let wanted = new_condition(conditions::READY, status, reason, message, now);
        let condition = carried_on(self.reported.as_ref(), wanted);
        self.reported = Some(condition.clone());
        condition
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_change_is_reported_when_it_lasts() {
        let mut readiness = Readiness::default();
        let mut status = |probe: &Probe, second: i64| readiness.observe(probe, at(second)).status;
        assert_eq!(status(&Probe::Healthy, 0), "True");
        assert_eq!(status(&Probe::NotReachable, 10), "True");
        assert_eq!(status(&Probe::NotReachable, 39), "True");
        assert_eq!(status(&Probe::Healthy, 39), "True");
        assert_eq!(status(&Probe::NotReachable, 41), "True");
        assert_eq!(status(&Probe::NotHealthy, 71), "False");
        assert_eq!(status(&Probe::Healthy, 72), "False");
        assert_eq!(status(&Probe::Healthy, 101), "False");
        assert_eq!(status(&Probe::Healthy, 102), "True");
    }

    #[test]
    fn the_first_probe_counts_at_once_and_reasons_follow() {
        let mut readiness = Readiness::new(Thresholds::default());
        let first = readiness.observe(&Probe::NotReachable, at(5));
        assert_eq!((first.status.as_str(), first.reason.as_str()), ("False", "ClusterNotReachable"));
        let second = readiness.observe(&Probe::CollectionFailed("no".to_owned()), at(9));
        assert_eq!((second.reason.as_str(), second.message.as_str()), ("StatusCollectionFailed", "no"));
        assert_eq!(second.last_transition_time.0, at(5));
    }
}
