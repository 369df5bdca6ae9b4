//! What binding and template are told of a decision, as events.
//!
//! In: the binding and the decision. Out: a few texts, each with whether it tells of success. However many groups of clusters were tried,
//! there are few: the first ones say why they do not do. The condition `Scheduled` says it of the first alone, word for word as Karmada's, which
//! who compares both may rely on; so each other group's reason is here.

use karmada_api::binding::ResourceBinding;
use karmada_api::strings::conditions;

use super::{Decision, Failure, Outcome};

/// Groups that an event of their own tells of.
const MOST_GROUPS: usize = 8;

/// The events, in order: whether one tells of success, and its text.
pub fn events(binding: &ResourceBinding, decision: &Decision) -> Vec<(bool, String)> {
    let mut told = groups(binding, decision);
    match &decision.outcome {
        Outcome::Scheduled(targets) => {
            let list: Vec<String> = targets.iter().map(|t| format!("{}:{}", t.name, t.replicas)).collect();
            let said = conditions::SCHEDULED_SUCCESS_MESSAGE;
            told.push((true, format!("{said} Result: {{{}}}", list.join(", "))));
        }
        Outcome::Failed(failure) => {
            if told.is_empty() || matches!(failure, Failure::Refused { .. }) {
                told.push((false, failure.to_string()));
            }
        }
        Outcome::NotOurs | Outcome::UpToDate => {}
    }
    told
}

/// Why groups that were tried do not do.
fn groups(binding: &ResourceBinding, decision: &Decision) -> Vec<(bool, String)> {
    let failed = decision.tried.iter().filter_map(|attempt| {
        let failure = attempt.result.as_ref().err()?;
        let (kind, index) = (&binding.kind, attempt.index?);
        let whose = format!("{kind}({}/{})", binding.namespace(), binding.name());
        let text = format!("failed to schedule {whose} with clusterAffiliates index({index}): {failure}");
        Some((false, text))
    });
    failed.take(MOST_GROUPS).collect()
}
