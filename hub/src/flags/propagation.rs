//! The flags of what is propagated, of who places it, and of how long clusters may be silent, named as those of karmada-controller-manager and
//! karmada-scheduler.
//!
//! In: what clap read. Out: what the control loops are told; what is no regular expression or no API, and spans of nothing, are refused.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::SignedDuration;
use karmada_api::strings::DEFAULT_SCHEDULER;
use karmada_controllers::shared_options::SharedOptions;
use karmada_core::cluster::Grace;
use karmada_core::skipped_resources::{DEFAULT_NAMESPACES, SkipRules, SkippedApis};
use karmada_schema::duration::flag_duration;

/// A span as flags say it.
pub(super) fn duration(text: &str) -> Result<SignedDuration, String> {
    flag_duration(text).ok_or_else(|| format!("{text:?} is not a duration like 90s, 5m or 1h"))
}

#[derive(clap::Args)]
#[command(next_help_heading = "What is propagated, and by whom")]
pub(super) struct Propagation {
    /// Regular expressions of namespaces of which nothing is propagated, each for a whole name; beside those that are Karmada's own.
    #[arg(long, value_delimiter = ',', default_value = DEFAULT_NAMESPACES)]
    skipped_propagating_namespaces: Vec<String>,
    /// APIs of which policies place nothing, beside those that are the hub's own: GROUP, GROUP/VERSION, GROUP/VERSION/KIND,KIND or v1/KIND,KIND, with
    /// semicolons between.
    #[arg(long, default_value = "")]
    skipped_propagating_apis: SkippedApis,
    /// The name that the hub's scheduler goes by: it places what policies give to this `schedulerName`, and leaves the rest to others.
    #[arg(long, default_value = DEFAULT_SCHEDULER)]
    scheduler_name: String,
    /// Whether a workload is also placed in clusters that are selected and get no replicas, with 0; in all of them, where it has none.
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set, default_missing_value = "true", num_args = 0..=1)]
    enable_empty_workload_propagation: bool,
    /// How long a cluster's agent may be silent before its Cluster is Ready=Unknown, such as 40s.
    #[arg(long, default_value = "40s", value_parser = duration)]
    cluster_monitor_grace_period: SignedDuration,
    /// The same for an agent that was not heard yet, from the hub's start or its Cluster's making on.
    #[arg(long, default_value = "60s", value_parser = duration)]
    cluster_startup_grace_period: SignedDuration,
    /// How often what a namespace uses of its FederatedResourceQuotas is counted again where nothing changed; with the gate
    /// FederatedQuotaEnforcement. 0s for never.
    #[arg(long, default_value = "5m", value_parser = duration)]
    federated_resource_quota_sync_period: SignedDuration,
}

impl Propagation {
    /// # Errors
    /// A namespace is no regular expression.
    pub(super) fn shared(&self) -> Result<SharedOptions> {
        let namespaces = self.skipped_propagating_namespaces.iter().map(|text| text.trim());
        let skip = SkipRules::new(namespaces.filter(|text| !text.is_empty()))
            .context("--skipped-propagating-namespaces has regular expressions, with commas between")?;
        ensure!(!self.scheduler_name.is_empty(), "--scheduler-name is a name");
        Ok(SharedOptions {
            skip: skip.with_apis(self.skipped_propagating_apis.clone()),
            scheduler_name: self.scheduler_name.clone(),
            empty_workloads: self.enable_empty_workload_propagation,
        })
    }

    /// # Errors
    /// A span is nothing.
    pub(super) fn grace(&self) -> Result<Grace> {
        let grace =
            Grace { silence: self.cluster_monitor_grace_period, startup: self.cluster_startup_grace_period };
        ensure!(grace.silence.is_positive(), "--cluster-monitor-grace-period is longer than nothing");
        ensure!(grace.startup.is_positive(), "--cluster-startup-grace-period is longer than nothing");
        Ok(grace)
    }

    pub(super) fn quota_sync(&self) -> Duration {
        self.federated_resource_quota_sync_period.unsigned_abs()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        propagation: Propagation,
    }

    fn read(words: &[&str]) -> Result<(SharedOptions, Grace, Duration)> {
        let flags = Line::try_parse_from(std::iter::once(&"hub").chain(words))?.propagation;
        Ok((flags.shared()?, flags.grace()?, flags.quota_sync()))
    }

    #[test]
    fn without_flags_it_is_as_karmada_has_it() {
        let (shared, grace, quota_sync) = read(&[]).unwrap();
        assert!(shared.skip.skips_namespace("kube-system") && !shared.skip.skips_namespace("shop"));
        assert!(!shared.skip.skips_kind("apps/v1", "Deployment"));
        assert_eq!((&*shared.scheduler_name, shared.empty_workloads), ("default-scheduler", false));
        assert_eq!((grace.silence.as_secs(), grace.startup.as_secs()), (40, 60));
        assert_eq!(quota_sync, Duration::from_secs(300));
    }

    #[test]
    fn flags_are_read_as_karmadas() {
        let (shared, grace, quota_sync) = read(&[
            "--skipped-propagating-namespaces=shop, team-[0-9]+",
            "--skipped-propagating-apis=batch;apps/v1/StatefulSet,DaemonSet",
            "--scheduler-name=edge-scheduler",
            "--enable-empty-workload-propagation",
            "--cluster-monitor-grace-period=1m30s",
            "--cluster-startup-grace-period=2m",
            "--federated-resource-quota-sync-period=0s",
        ])
        .unwrap();
        let skips = |namespace: &str| shared.skip.skips_namespace(namespace);
        assert!(skips("shop") && skips("team-17") && skips("karmada-system"));
        assert!(!skips("kube-system") && !skips("shop-2") && !skips("my-team-1"));
        assert!(shared.skip.skips_kind("batch/v1", "Job") && shared.skip.skips_kind("apps/v1", "DaemonSet"));
        assert!(!shared.skip.skips_kind("apps/v1", "Deployment"));
        assert_eq!((&*shared.scheduler_name, shared.empty_workloads), ("edge-scheduler", true));
        assert_eq!((grace.silence.as_secs(), grace.startup.as_secs()), (90, 120));
        assert!(quota_sync.is_zero());
        let (none, ..) = read(&["--skipped-propagating-namespaces="]).unwrap();
        assert!(!none.skip.skips_namespace("kube-system"), "none but Karmada's own");
    }

    #[test]
    fn what_cannot_be_is_refused_in_words() {
        let why = |word: &str| format!("{:#}", read(&[word]).map(drop).unwrap_err());
        assert!(why("--skipped-propagating-namespaces=(").contains("--skipped-propagating-namespaces"));
        assert!(why("--skipped-propagating-apis=a/b/c/d").contains("GROUP/VERSION/KIND"));
        assert!(why("--scheduler-name=").contains("--scheduler-name"));
        assert!(why("--cluster-monitor-grace-period=0s").contains("--cluster-monitor-grace-period"));
        assert!(why("--cluster-startup-grace-period=0s").contains("--cluster-startup-grace-period"));
    }
}
