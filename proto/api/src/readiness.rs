//! From single probes of an API server to what is told of it.
//!
//! In: what each probe found, and when, since some beginning. Out: what to tell. One failed probe is no news: a cluster turns unready only after failures
//! for a while, and ready again only after successes for a while. The first probe is told at once, and so is how it fails while it does.

use std::time::Duration;

use jiff::SignedDuration;

/// What a probe of an API server found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// It is well: `/readyz` (or, where there is none, `/healthz`) said so.
    Ok,
    /// It answers, but not with ok.
    Unhealthy,
    /// It does not answer.
    Unreachable,
}

/// How long a change must last before it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Before a cluster turns ready.
    pub success: SignedDuration,
    /// Before it turns unready.
    pub failure: SignedDuration,
}

impl Default for Thresholds {
    /// 30 seconds each.
    fn default() -> Self {
        Self { success: SignedDuration::from_secs(30), failure: SignedDuration::from_secs(30) }
    }
}

/// Remembers what was told and since when probes say otherwise. `now` is monotonic.
#[derive(Debug, Default)]
pub struct Readiness {
    thresholds: Thresholds,
    shown: Option<Probe>,
    other_since: Option<Duration>,
}

impl Readiness {
    /// Nothing is known yet.
    pub fn new(thresholds: Thresholds) -> Self {
        Readiness { thresholds, ..Readiness::default() }
    }

    /// Takes a probe's answer; what to show.
    pub fn observe(&mut self, probe: Probe, now: Duration) -> Probe {
        let Some(shown) = self.shown else {
            self.shown = Some(probe);
            return probe;
        };
        if (probe == Probe::Ok) == (shown == Probe::Ok) {
            self.other_since = None;
            self.shown = Some(probe);
            return probe;
        }
        let since = *self.other_since.get_or_insert(now);
        let lasts = if probe == Probe::Ok { self.thresholds.success } else { self.thresholds.failure };
        if now.saturating_sub(since) >= lasts.unsigned_abs() {
            (self.shown, self.other_since) = (Some(probe), None);
            return probe;
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readiness_flips_after_half_a_minute_and_begins_at_once() {
        let mut readiness = Readiness::default();
        let mut at = |probe, seconds| readiness.observe(probe, Duration::from_secs(seconds));
        assert_eq!(at(Probe::Unreachable, 0), Probe::Unreachable);
        assert_eq!(at(Probe::Ok, 10), Probe::Unreachable);
        assert_eq!(at(Probe::Ok, 30), Probe::Unreachable);
        assert_eq!(at(Probe::Ok, 40), Probe::Ok);
        assert_eq!(at(Probe::Unhealthy, 50), Probe::Ok);
        assert_eq!(at(Probe::Ok, 60), Probe::Ok);
        assert_eq!(at(Probe::Unhealthy, 70), Probe::Ok, "the count begins anew");
        assert_eq!(at(Probe::Unreachable, 90), Probe::Ok);
        assert_eq!(at(Probe::Unhealthy, 100), Probe::Unhealthy);
        assert_eq!(at(Probe::Unreachable, 101), Probe::Unreachable, "how it fails is told at once");
    }

    #[test]
    fn each_threshold_is_of_its_own_answer() {
        let span = SignedDuration::from_secs;
        let mut readiness = Readiness::new(Thresholds { success: span(5), failure: span(50) });
        let mut at = |probe, seconds| readiness.observe(probe, Duration::from_secs(seconds));
        assert_eq!(at(Probe::Unhealthy, 0), Probe::Unhealthy);
        assert_eq!(at(Probe::Ok, 10), Probe::Unhealthy);
        assert_eq!(at(Probe::Ok, 15), Probe::Ok);
        assert_eq!(at(Probe::Unhealthy, 20), Probe::Ok);
        assert_eq!(at(Probe::Unhealthy, 69), Probe::Ok);
        assert_eq!(at(Probe::Unhealthy, 70), Probe::Unhealthy);
    }
}
