//! What whoever runs the hub says to several loops alike. In: flags. Out: plain values, which the loops find in what they share.

use karmada_api::strings::DEFAULT_SCHEDULER;
use karmada_core::skipped_resources::SkipRules;

/// What several loops are told.
#[derive(Clone, Debug)]
pub struct SharedOptions {
    /// What no policy places.
    pub skip: SkipRules,
    /// The name that the scheduler goes by: it places bindings whose `schedulerName` is this.
    pub scheduler_name: String,
    /// Whether it places in clusters that are selected and get no replicas.
    pub empty_workloads: bool,
}

impl Default for SharedOptions {
    fn default() -> Self {
        SharedOptions {
            skip: SkipRules::default(),
            scheduler_name: DEFAULT_SCHEDULER.to_owned(),
            empty_workloads: false,
        }
    }
}
