//! What of a workload's status goes along when it moves: taken where it leaves, put on where it comes to.
//!
//! In: the rules of its policy and the status that its cluster reported; then the tasks by which it left. Out: labels.

use std::collections::BTreeMap;

use karmada_api::binding::ResourceBinding;
use karmada_api::object;
use karmada_api::policy::{PurgeMode, StatePreservation};
use karmada_field::names::is_label_value;
use serde_json::Value;

use super::json_path::{Looks, PathError, Template};
use crate::targets::target_clusters;

/// Why status cannot go along, and so nothing leaves.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PreservationError {
    /// Nothing is known of the workload there.
    #[error("its status in cluster {0} is not known yet, and part of it is to go along")]
    NoStatus(String),
    /// The part that is to go along is not there, or is named in a way that cannot be read.
    #[error("what is to go along by {path:?} cannot be taken from its status: {why}")]
    Path {
        /// The rule's path.
        path: String,
        /// What is wrong.
        why: PathError,
    },
    /// The part that is to go along cannot be a label's value: where the workload comes to, it would be refused.
    #[error("what is to go along as label {label:?} is {text:?}, which no label can have as its value")]
    NoLabel {
        /// The label that its rule names.
        label: String,
        /// Its value, at most so much of it as is shown.
        text: String,
    },
}

/// Letters of a text that are shown where it cannot be a label's.
const SHOWN: usize = 100;

/// The labels that the workload takes along from a cluster. Of two rules for one label the later holds.
///
/// # Errors
/// The status is not known, or has not what the rules name.
pub fn labels(
    wanted: &StatePreservation,
    binding: &ResourceBinding,
    cluster: &str,
) -> Result<BTreeMap<String, String>, PreservationError> {
    if wanted.rules.is_empty() {
        return Ok(BTreeMap::new());
    }
    let mut items = binding.status.aggregated_status.iter();
    let item = items.find(|item| item.cluster_name == cluster);
    let status = item.and_then(|item| item.status.as_ref());
    let labels = taken(wanted, status.ok_or_else(|| PreservationError::NoStatus(cluster.to_owned()))?)?;
    match labels.iter().find(|(_, text)| !is_label_value(text)) {
        // Karmada has it leave with that label, and what comes instead is refused wherever it comes to.
        Some((label, text)) => {
            let (label, text) = (label.clone(), text.chars().take(SHOWN).collect());
            Err(PreservationError::NoLabel { label, text })
        }
        None => Ok(labels),
    }
}

/// The labels that rules make of a status.
///
/// # Errors
/// The status has not what the rules name.
pub fn taken(
    wanted: &StatePreservation,
    status: &Value,
) -> Result<BTreeMap<String, String>, PreservationError> {
    let mut looks = Looks::default();
    let mut text = |path: &str| Template::parse(path)?.text(status, &mut looks);
    let rules = wanted.rules.iter().map(|rule| match text(&rule.json_path) {
        Ok(text) => Ok((rule.alias_label_name.clone(), text)),
        Err(why) => Err(PreservationError::Path { path: rule.json_path.clone(), why }),
    });
    rules.collect()
}

/// The labels that a workload gets in a cluster that it comes to: what it took along when it last left one at once. Only where it is to be in
/// one cluster alone, and was not in this one before.
pub fn brought<'a>(binding: &'a ResourceBinding, cluster: &str) -> Option<&'a BTreeMap<String, String>> {
    let last = binding.spec.graceful_eviction_tasks.last()?;
    let was_there = last.clusters_before_failover.iter().any(|before| before == cluster);
    let alone = target_clusters(binding).len() == 1;
    let brings = alone && last.purge_mode == Some(PurgeMode::Directly) && !was_there;
    Some(&last.preserved_label_state).filter(|labels| brings && !labels.is_empty())
}

/// Puts them on.
pub fn put_on(manifest: &mut Value, labels: &BTreeMap<String, String>) {
    labels.iter().for_each(|(key, value)| object::set_label(manifest, key, value));
}
