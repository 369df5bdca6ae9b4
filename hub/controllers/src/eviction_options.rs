//! How workloads leave clusters and clusters are tainted: which of the loops run, as whoever runs the hub wants it.
//!
//! In: options, and the gates that the loops share. Out: the loops, handed to whoever runs them.

use std::time::Duration;

use jiff::SignedDuration;
use karmada_api::policy::PurgeMode;
use karmada_core::eviction::no_execute::Rules;
use karmada_core::feature_gates::{FeatureGates, Gate};

/// What whoever runs the hub says of evictions.
#[derive(Clone, Copy, Debug)]
pub struct LifecycleOptions {
    /// Whether the taint manager runs.
    pub taint_manager: bool,
    /// Whether it evicts what does not tolerate taints of effect NoExecute.
    pub no_execute_eviction: bool,
    /// How workloads leave whose policy does not say it.
    pub purge_mode: PurgeMode,
    /// How many leave each cluster in a second.
    pub evictions_per_second: f32,
    /// How long what leaves gracefully may take where nothing else is said.
    pub graceful_timeout: SignedDuration,
    /// The time between two workloads that return to an earlier group of clusters.
    pub failback_interval: Duration,
}

impl Default for LifecycleOptions {
    /// Nothing is evicted for taints; what leaves for other reasons has ten minutes.
    fn default() -> Self {
        LifecycleOptions {
            taint_manager: true,
            no_execute_eviction: false,
            purge_mode: PurgeMode::Gracefully,
            evictions_per_second: 0.5,
            graceful_timeout: SignedDuration::from_mins(10),
            failback_interval: Duration::from_secs(15),
        }
    }
}

impl LifecycleOptions {
    /// Whether bindings leave clusters for their taints.
    pub fn evicts_for_taints(&self, gates: &FeatureGates) -> bool {
        gates.enabled(Gate::Failover) && self.taint_manager && self.no_execute_eviction
    }

    /// How they leave.
    pub(crate) fn rules(&self, gates: &FeatureGates) -> Rules {
        let preserves_state = gates.enabled(Gate::StatefulFailoverInjection);
        Rules { purge_mode: self.purge_mode, preserves_state }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The gate and both flags together, and none of them alone.
    #[test]
    fn bindings_leave_for_taints_where_the_gate_and_both_flags_say_so() {
        for nth in 0..8_u8 {
            let [gate, taint_manager, no_execute_eviction] = [1, 2, 4].map(|bit| nth & bit != 0);
            let gates = FeatureGates::default();
            let gates = if gate { gates.with(Gate::Failover) } else { gates };
            let options = LifecycleOptions { taint_manager, no_execute_eviction, ..Default::default() };
            assert_eq!(options.evicts_for_taints(&gates), nth == 7, "{gates:?} {options:?}");
        }
    }

    #[test]
    fn they_leave_as_the_flag_and_the_gate_say() {
        let state = FeatureGates::default().with(Gate::StatefulFailoverInjection);
        for (purge_mode, gates, preserves_state) in
            [(PurgeMode::Gracefully, FeatureGates::default(), false), (PurgeMode::Directly, state, true)]
        {
            let options = LifecycleOptions { purge_mode, ..Default::default() };
            let rules = options.rules(&gates);
            assert_eq!((rules.purge_mode, rules.preserves_state), (purge_mode, preserves_state));
        }
    }
}
