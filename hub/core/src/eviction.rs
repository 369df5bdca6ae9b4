//! How a workload leaves a cluster: the tasks of a binding, made, kept and ended.
//!
//! In: a binding, and the moment. Out: which tasks stay, which are over, when to look again. Every time that counts stands in the task itself,
//! so that a hub that is started anew goes on where it was.

pub mod no_execute;
pub mod rate_limit;

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use karmada_api::binding::{BindingSpec, GracefulEvictionTask, Health, ResourceBinding};
use karmada_api::strings::eviction::FAILBACK_CONTROLLER;

use crate::seconds;

/// Looks again after this long where a wait ends in this very second.
const NEXT_SECOND: SignedDuration = SignedDuration::from_secs(1);

/// A failback's task is looked at no sooner: until Works follow the binding, the health that is known is of what ran before.
const SETTLED: SignedDuration = SignedDuration::from_secs(10);

/// Whether a task is of a cluster that a workload leaves as it returns to an earlier group of its clusters.
pub fn is_failback(task: &GracefulEvictionTask) -> bool {
    task.producer == FAILBACK_CONTROLLER
}

/// Takes a binding away from a cluster: it is no target any more, and `task` says how it leaves. Where it is leaving already, the task that
/// there is holds. Whether the binding changed: it does not where the cluster is none of its targets.
pub fn evict(spec: &mut BindingSpec, task: GracefulEvictionTask) -> bool {
    let Some(at) = spec.clusters.iter().position(|target| target.name == task.from_cluster) else {
        return false;
    };
    let target = spec.clusters.remove(at);
    if !spec.graceful_eviction_tasks.iter().any(|known| known.from_cluster == task.from_cluster) {
        let replicas = (target.replicas > 0).then_some(target.replicas);
        spec.graceful_eviction_tasks.push(GracefulEvictionTask { replicas, ..task });
    }
    true
}

/// What becomes of a binding's tasks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Assessment {
    /// Those that stay, each with the time when it was first seen.
    pub tasks: Vec<GracefulEvictionTask>,
    /// The clusters that the others were of.
    pub ended: Vec<String>,
    /// After how long a task can end by time alone.
    pub look_again: Option<SignedDuration>,
}

/// What is known beside a binding.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    /// Whether what the clusters report is of what the binding says by now; where it is of what ran before, nothing is replaced yet.
    pub is_current: bool,
    /// Whether a cluster has left the fleet.
    pub is_gone: &'a dyn Fn(&str) -> bool,
}

/// Assesses every task of a binding: one that was just made gets its time; one ends when what replaces it is healthy, when a person says so,
/// when it took too long, or when its cluster has left the fleet. `timeout` holds for tasks without a grace period of their own.
pub fn assess(
    binding: &ResourceBinding,
    facts: Facts<'_>,
    timeout: SignedDuration,
    now: Timestamp,
) -> Assessment {
    let is_healthy = is_replaced(binding);
    let replaced = is_healthy && facts.is_current;
    let mut out = Assessment::default();
    for task in &binding.spec.graceful_eviction_tasks {
        if (facts.is_gone)(&task.from_cluster) {
            out.ended.push(task.from_cluster.clone());
            continue;
        }
        // One that was made by a clock that was ahead is as new as one without its time.
        let Some(begun) = task.creation_timestamp.as_ref().filter(|begun| begun.0 <= now) else {
            let stamped =
                GracefulEvictionTask { creation_timestamp: Some(Time(seconds(now))), ..task.clone() };
            out.wait(&stamped, period(task, timeout));
            out.tasks.push(stamped);
            continue;
        };
        let age = now.duration_since(begun.0);
        let left = period(task, timeout) - age;
        let over = match task.suppress_deletion {
            Some(suppressed) => !suppressed,
            // What leaves so is well where it is: it goes for a replacement alone.
            None if is_failback(task) => replaced && left.is_negative() && !binding.spec.clusters.is_empty(),
            None => replaced || left.is_negative(),
        };
        if over {
            out.ended.push(task.from_cluster.clone());
        } else {
            out.wait(task, left);
            out.tasks.push(task.clone());
        }
    }
    if is_healthy && !facts.is_current && out.tasks.iter().any(|task| task.suppress_deletion.is_none()) {
        out.look_again = Some(NEXT_SECOND);
    }
    out
}

impl Assessment {
    /// A task that a person holds, or is to end, waits for no time; one of a failback for none once it has settled.
    fn wait(&mut self, task: &GracefulEvictionTask, left: SignedDuration) {
        if task.suppress_deletion.is_none() && !(is_failback(task) && left.is_negative()) {
            let left = left.max(NEXT_SECOND);
            self.look_again = Some(self.look_again.map_or(left, |earlier| earlier.min(left)));
        }
    }
}

fn period(task: &GracefulEvictionTask, timeout: SignedDuration) -> SignedDuration {
    if is_failback(task) {
        return SETTLED;
    }
    task.grace_period_seconds.map_or(timeout, |seconds| SignedDuration::from_secs(i64::from(seconds)))
}

/// Whether the scheduler has seen the binding as it is now, and all that it chose is said to be healthy: perhaps of what ran there before.
pub fn is_replaced(binding: &ResourceBinding) -> bool {
    let (seen, status) = (binding.status.scheduler_observed_generation, &binding.status.aggregated_status);
    let healthy = status.iter().filter(|item| item.health == Some(Health::Healthy));
    let healthy: BTreeSet<&str> = healthy.map(|item| &*item.cluster_name).collect();
    seen == binding.metadata.generation.unwrap_or(0)
        && binding.spec.clusters.iter().all(|target| healthy.contains(&*target.name))
}
