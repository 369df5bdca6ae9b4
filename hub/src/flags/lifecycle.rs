//! The flags of capabilities and of evictions, named as those of karmada-controller-manager and karmada-webhook.
//!
//! In: what clap read. Out: the settings of the control loops; unknown gates, rates below zero and intervals of nothing are refused.

use std::num::NonZeroU32;
use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use jiff::SignedDuration;
use karmada_api::policy::PurgeMode;
use karmada_api::validation::taint_policy::NoExecute;
use karmada_controllers::eviction_options::LifecycleOptions;
use karmada_controllers::propagation::LoopOptions;
use karmada_core::controllers_list::ControllersList;
use karmada_core::feature_gates::FeatureGates;
use karmada_descheduler::descheduler::Descheduling;
use karmada_descheduler::rebalancing::RebalancingOptions;

use super::propagation::{Propagation, duration};
use crate::settings::LifecycleSettings;

/// Between two workloads that return lies at least this: turns that take no time are none.
const SHORTEST_TURN: Duration = Duration::from_millis(1);

#[derive(Clone, Copy, ValueEnum)]
enum PurgeModeArgument {
    #[value(name = "Gracefully")]
    Gracefully,
    #[value(name = "Directly")]
    Directly,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Capabilities, and how workloads leave clusters")]
pub(super) struct Lifecycle {
    /// Capabilities that are switched on or off, as NAME=true,NAME=false, by Karmada's names.
    #[arg(long, value_delimiter = ',')]
    feature_gates: Vec<String>,
    /// Whether taints of effect NoExecute are looked at; with the flag below and the gate Failover.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, default_missing_value = "true", num_args = 0..=1)]
    enable_taint_manager: bool,
    /// Whether workloads that do not tolerate a cluster's taints of effect NoExecute leave it; with the gate Failover.
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set, default_missing_value = "true", num_args = 0..=1)]
    enable_no_execute_taint_eviction: bool,
    /// How workloads leave for such taints whose policy does not say it: once the replacement is healthy, or at once.
    #[arg(long, value_enum, default_value_t = PurgeModeArgument::Gracefully)]
    no_execute_taint_eviction_purge_mode: PurgeModeArgument,
    /// How many workloads a second leave each tainted cluster; 0 for one in half an hour.
    #[arg(long, default_value_t = 0.5)]
    resource_eviction_rate: f32,
    /// How long a workload that leaves gracefully stays where it was when its replacement does not become healthy, such as 10m.
    #[arg(long, default_value = "10m", value_parser = duration)]
    graceful_eviction_timeout: SignedDuration,
    /// How many workloads return to an earlier group of their clusters in how long, of all policies together that have them return, such as 4/1m.
    #[arg(long, value_name = "WORKLOADS/TIME", default_value = "4/1m", value_parser = pace)]
    failback_pace: Duration,
    /// Whether ClusterTaintPolicies may have taints of effect NoExecute.
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set, default_missing_value = "true", num_args = 0..=1)]
    allow_no_execute_taint_policy: bool,
    /// Whether the scheduler asks the members' agents for the room on their nodes before it divides replicas by room.
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set, default_missing_value = "true", num_args = 0..=1)]
    enable_scheduler_estimator: bool,
    /// How long they may take to answer, such as 3s; of one that does not, the cluster's summary is believed.
    #[arg(long, default_value = "3s", value_parser = duration)]
    scheduler_estimator_timeout: SignedDuration,
    /// Whether replicas of Deployments that are divided by room are given up in clusters where they find no node, and placed elsewhere. The
    /// members' agents are asked for them. What karmada-descheduler does.
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set, default_missing_value = "true", num_args = 0..=1)]
    enable_descheduler: bool,
    /// How many replicas of Deployments that are divided by room are moved in each --descheduling-interval, of all of them together, to where they
    /// would be placed if they were placed afresh; 0 for none. Moved are those of which all replicas are ready, where that is better by much. The
    /// scheduler then counts as taken what was placed and no cluster reports yet.
    #[arg(long, value_name = "REPLICAS", default_value_t = 0)]
    rebalancing_budget: u32,
    /// How often each workload is looked at for the two above, such as 2m.
    #[arg(long, default_value = "2m", value_parser = duration)]
    descheduling_interval: SignedDuration,
    /// How long a replica waits for a node before it is given up, such as 5m.
    #[arg(long, default_value = "5m", value_parser = duration)]
    unschedulable_threshold: SignedDuration,
    #[command(flatten)]
    propagation: Propagation,
}

impl Lifecycle {
    /// # Errors
    /// A gate is not known, a rate is none, an interval is nothing, or what is propagated is not said so that it can be.
    pub(super) fn settings(self, controllers: ControllersList) -> Result<LifecycleSettings> {
        let gates: FeatureGates = self.feature_gates.join(",").parse()?;
        anyhow::ensure!(
            self.resource_eviction_rate.is_finite() && self.resource_eviction_rate >= 0.0,
            "--resource-eviction-rate is a number of workloads a second, 0 or more"
        );
        anyhow::ensure!(
            self.descheduling_interval >= SignedDuration::from_secs(1),
            "--descheduling-interval is one second or longer"
        );
        Ok(LifecycleSettings {
            gates,
            shared: self.propagation.shared()?,
            loops: LoopOptions {
                lifecycle: self.evictions(),
                controllers,
                asks_for_room: self.enable_scheduler_estimator,
                grace: self.propagation.grace()?,
                quota_sync: self.propagation.quota_sync(),
            },
            descheduling: self.enable_descheduler.then(|| Descheduling {
                interval: self.descheduling_interval,
                threshold: self.unschedulable_threshold.unsigned_abs(),
            }),
            rebalancing: NonZeroU32::new(self.rebalancing_budget)
                .map(|budget| RebalancingOptions { interval: self.descheduling_interval, budget }),
            estimates: self.scheduler_estimator_timeout.unsigned_abs(),
            taint_policies: match self.allow_no_execute_taint_policy {
                true => NoExecute::Allowed,
                false => NoExecute::Refused,
            },
        })
    }

    fn evictions(&self) -> LifecycleOptions {
        LifecycleOptions {
            taint_manager: self.enable_taint_manager,
            no_execute_eviction: self.enable_no_execute_taint_eviction,
            purge_mode: match self.no_execute_taint_eviction_purge_mode {
                PurgeModeArgument::Gracefully => PurgeMode::Gracefully,
                PurgeModeArgument::Directly => PurgeMode::Directly,
            },
            evictions_per_second: self.resource_eviction_rate,
            graceful_timeout: self.graceful_eviction_timeout,
            failback_interval: self.failback_pace,
        }
    }
}

/// The time between two of so many in so long.
fn pace(text: &str) -> Result<Duration, String> {
    let wrong = || "it is a number of workloads and a time, such as 4/1m".to_owned();
    let (count, time) = text.split_once('/').ok_or_else(wrong)?;
    let count: NonZeroU32 = count.parse().map_err(|_| wrong())?;
    let interval = duration(time)?.unsigned_abs() / count.get();
    if interval < SHORTEST_TURN { Err("it is a thousand a second at most".to_owned()) } else { Ok(interval) }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use karmada_core::feature_gates::Gate;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        lifecycle: Lifecycle,
    }

    fn read(words: &[&str]) -> Result<LifecycleSettings> {
        Line::try_parse_from(std::iter::once(&"hub").chain(words))?
            .lifecycle
            .settings(ControllersList::default())
    }

    #[test]
    fn what_is_said_of_propagation_reaches_the_loops() {
        let words = [
            "--scheduler-name=edge",
            "--cluster-monitor-grace-period=50s",
            "--cluster-startup-grace-period=70s",
        ];
        let read = read(&[&words[..], &["--federated-resource-quota-sync-period=1m"]].concat()).unwrap();
        assert_eq!(read.shared.scheduler_name, "edge");
        assert_eq!((read.loops.grace.silence.as_secs(), read.loops.grace.startup.as_secs()), (50, 70));
        assert_eq!(read.loops.quota_sync.as_secs(), 60);
    }

    #[test]
    fn spans_that_no_moment_comes_after_are_refused() {
        assert!(read(&["--graceful-eviction-timeout", "2562047h"]).is_ok());
        for wrong in ["2562048h", "9223372036854775807s", "-1s", "soon"] {
            assert!(read(&[&format!("--graceful-eviction-timeout={wrong}")]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_pace_is_so_many_in_so_long() {
        let between = |words: &[&str]| read(words).map(|read| read.loops.lifecycle.failback_interval);
        assert_eq!(between(&[]).unwrap(), Duration::from_secs(15));
        for (said, millis) in [("1/2m", 120_000), ("600/1m", 100), ("1000/1s", 1)] {
            assert_eq!(between(&["--failback-pace", said]).unwrap(), Duration::from_millis(millis), "{said}");
        }
        for wrong in ["4", "0/1m", "-1/1m", "4/0s", "4/-1m", "4/", "/1m", "1001/1s", "many/1m"] {
            let why = between(&[&format!("--failback-pace={wrong}")]).unwrap_err().to_string();
            assert!(why.contains("--failback-pace"), "{wrong}: {why}");
        }
    }

    #[test]
    fn without_flags_nothing_is_evicted_for_taints() {
        let LifecycleSettings { gates, loops, descheduling, rebalancing, taint_policies, estimates, .. } =
            read(&[]).unwrap();
        let options = loops.lifecycle;
        assert_eq!(gates, FeatureGates::default());
        assert!(options.taint_manager && !options.no_execute_eviction);
        assert_eq!((options.purge_mode, options.evictions_per_second), (PurgeMode::Gracefully, 0.5));
        assert_eq!(options.graceful_timeout, SignedDuration::from_mins(10));
        assert_eq!(taint_policies, NoExecute::Refused);
        assert!(!loops.asks_for_room && descheduling.is_none());
        assert_eq!(rebalancing, None, "nobody's replicas are moved");
        assert_eq!(estimates, Duration::from_secs(3));
    }

    #[test]
    fn flags_are_read_as_karmadas() {
        let words = [
            "--feature-gates=Failover=true,GracefulEviction=false",
            "--feature-gates=StatefulFailoverInjection=true",
            "--enable-no-execute-taint-eviction",
            "--enable-taint-manager=false",
            "--no-execute-taint-eviction-purge-mode=Directly",
            "--resource-eviction-rate=2",
            "--graceful-eviction-timeout=1m30s",
            "--allow-no-execute-taint-policy=true",
            "--enable-scheduler-estimator",
            "--scheduler-estimator-timeout=500ms",
            "--enable-descheduler",
            "--descheduling-interval=30s",
            "--rebalancing-budget=7",
            "--unschedulable-threshold=0s",
        ];
        let LifecycleSettings { gates, loops, descheduling, rebalancing, taint_policies, estimates, .. } =
            read(&words).unwrap();
        let options = loops.lifecycle;
        assert!(gates.enabled(Gate::Failover) && !gates.enabled(Gate::GracefulEviction));
        assert!(gates.enabled(Gate::StatefulFailoverInjection));
        assert!(!options.taint_manager && options.no_execute_eviction);
        assert_eq!((options.purge_mode, options.evictions_per_second), (PurgeMode::Directly, 2.0));
        assert_eq!(options.graceful_timeout.as_secs(), 90);
        assert_eq!(taint_policies, NoExecute::Allowed);
        assert!(loops.asks_for_room);
        assert_eq!(estimates, Duration::from_millis(500));
        let (interval, threshold) = (SignedDuration::from_secs(30), Duration::ZERO);
        assert_eq!(descheduling, Some(Descheduling { interval, threshold }));
        let budget = NonZeroU32::new(7).unwrap();
        assert_eq!(rebalancing, Some(RebalancingOptions { interval, budget }));
    }

    #[test]
    fn what_cannot_be_is_refused_in_words() {
        let why = |words: &[&str]| read(words).map(drop).unwrap_err().to_string();
        assert!(why(&["--feature-gates=Failovr=true"]).starts_with("unrecognized feature gate: Failovr"));
        assert!(why(&["--resource-eviction-rate=-1"]).contains("0 or more"));
        assert!(why(&["--rebalancing-budget=-1"]).contains("--rebalancing-budget"));
        assert!(why(&["--graceful-eviction-timeout=soon"]).contains("90s, 5m or 1h"));
        assert!(why(&["--no-execute-taint-eviction-purge-mode=Never"]).contains("Gracefully"));
    }
}
