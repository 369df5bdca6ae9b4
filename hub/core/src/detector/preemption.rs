//! Whether a policy takes a template from the policy that has it.
//!
//! In: the policy that has a template, and those of its namespace and of the cluster. Out: the one that takes it over, if any. As in Karmada:
//! a policy with `preemption: Always` takes what it means by name. A PropagationPolicy takes it from any ClusterPropagationPolicy, and from
//! a PropagationPolicy whose priority is lower; a ClusterPropagationPolicy only from a ClusterPropagationPolicy whose priority is lower.

use karmada_api::policy::{Preemption, PropagationPolicy};

use super::{Rank, Subject, best, rank};
use crate::feature_gates::{FeatureGates, Gate};

/// Whether policies take over what others have (feature gate `PropagationPolicyPreemption`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Takeover {
    /// What a policy has it keeps, whatever others say.
    #[default]
    Never,
    /// A policy that says so takes from those below it.
    AsPoliciesSay,
}

impl Takeover {
    /// As the gates have it.
    pub fn gated(gates: &FeatureGates) -> Self {
        match gates.enabled(Gate::PropagationPolicyPreemption) {
            true => Self::AsPoliciesSay,
            false => Self::Never,
        }
    }
}

/// The policy that takes what `holder` has: of several, the one that would win it were it new.
pub(super) fn taker<'a>(
    subject: &Subject<'_>,
    holder: &PropagationPolicy,
    near: impl Iterator<Item = &'a PropagationPolicy>,
    wide: impl Iterator<Item = &'a PropagationPolicy>,
) -> Option<&'a PropagationPolicy> {
    let is_wide = holder.namespace().is_empty();
    let takes = |policy: &&PropagationPolicy| {
        policy.spec.preemption == Some(Preemption::Always)
            && rank(subject, &policy.spec.resource_selectors) == Rank::Name
    };
    let is_above = |policy: &&PropagationPolicy| policy.priority() > holder.priority();
    let from_near = near.filter(takes).filter(|policy| is_wide || is_above(policy));
    best(subject, from_near).or_else(|| {
        let from_wide = wide.filter(takes).filter(|policy| is_wide && is_above(policy));
        best(subject, from_wide)
    })
}
