//! Which clusters may have a template at all, and why the others may not. In: a cluster, and one thing that may keep it out. Out: nothing,
//! or the reason; and in the end the reasons, counted, as one sentence. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Taint, Toleration};
use karmada_api::binding::BindingSpec;
use karmada_api::cluster::Cluster;
use karmada_api::policy::{ClusterAffinity, ClusterAffinityTerm, Placement};
use karmada_api::selector::{affinity_matches, tolerates};
use karmada_api::strings::taints;

use crate::residency::Residency;

/// Reasons that are told one by one.
const MOST_REASONS: usize = 32;

/// Why a cluster may not have it. The texts reach the user, counted, in the condition Scheduled.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Unfit {
    /// It does not serve the kind.
    #[error("cluster(s) did not have the API resource")]
    Api,
    /// A ResidencyRule does not allow it there; this product's own.
    #[error("cluster(s) did not match residency rule {0}")]
    Residency(String),
    /// A taint keeps it away.
    #[error("cluster(s) had untolerated taint {{{0}}}")]
    Taint(String),
    /// The policy's filter, an expression, does not mean it; this product's own.
    #[error("cluster(s) did not match the policy's cluster-filter")]
    Filter,
    /// An expression of the policy fails on it; this product's own.
    #[error("cluster(s) failed the policy's {0}")]
    Expression(String),
    /// The placement does not mean it.
    #[error("cluster(s) did not match the placement cluster affinity constraint")]
    Affinity,
    /// Groups are formed by a property that it does not have.
    #[error("cluster(s) did not have {0} property")]
    SpreadProperty(&'static str),
    /// It is being left.
    #[error("cluster(s) is in the process of eviction")]
    Evicting,
    /// The workloads that it wants to be with are not there.
    #[error("ResourceBinding with the same affinity group does not target this cluster")]
    NotWithItsGroup,
    /// A workload that it keeps apart from is there.
    #[error("cluster already has workload with the same anti-affinity group")]
    WithItsAntiGroup,
}

/// Whether a cluster serves the kind. One that has the template already is believed to.
///
/// # Errors
/// [`Unfit::Api`] where it does not.
pub fn api(already_target: bool, serves: impl FnOnce() -> bool) -> Result<(), Unfit> {
    if already_target || serves() { Ok(()) } else { Err(Unfit::Api) }
}

/// Whether no ResidencyRule keeps it away. What stands there already is kept away as well: the rule came later, or the cluster changed.
///
/// # Errors
/// [`Unfit::Residency`] with the first rule that does.
pub fn residency(cluster: &Cluster, residency: &Residency) -> Result<(), Unfit> {
    residency.admits(cluster).map_err(|rule| Unfit::Residency(rule.to_owned()))
}

/// Whether no taint keeps it away. What stands there already stays: evicting is another matter.
///
/// # Errors
/// [`Unfit::Taint`] with the first taint that does.
pub fn taints(taints: &[Taint], tolerations: &[Toleration], already_target: bool) -> Result<(), Unfit> {
    if already_target {
        return Ok(());
    }
    let keeps_away =
        |taint: &&Taint| matches!(taint.effect.as_str(), taints::NO_SCHEDULE | taints::NO_EXECUTE);
    let bad = taints.iter().filter(keeps_away).find(|taint| !tolerations.iter().any(|t| tolerates(t, taint)));
    match bad {
        None => Ok(()),
        Some(taint) => {
            let value = taint.value.as_deref().filter(|v| !v.is_empty()).map(|v| format!("={v}"));
            Err(Unfit::Taint(format!("{}{}:{}", taint.key, value.unwrap_or_default(), taint.effect)))
        }
    }
}

/// The sets of clusters that hold now: one affinity, or the observed term and, for workloads, its overflow. Each with
/// the tier of its clusters. Empty means every cluster.
pub fn affinity_tiers<'a>(
    placement: &'a Placement,
    observed: &str,
    workload: bool,
) -> Vec<&'a ClusterAffinity> {
    if let Some(affinity) = &placement.cluster_affinity {
        return vec![affinity];
    }
    let term = placement.cluster_affinities.iter().find(|term| term.affinity_name == observed);
    let overflow = |term: &'a ClusterAffinityTerm| {
        term.overflow_affinities.iter().filter(move |_| workload).map(|overflow| &overflow.affinity)
    };
    term.into_iter().flat_map(|term| std::iter::once(&term.affinity).chain(overflow(term))).collect()
}

/// The tier in which a cluster stands: the first set that means it.
///
/// # Errors
/// [`Unfit::Affinity`] where no set means it.
pub fn tier(cluster: &Cluster, tiers: &[&ClusterAffinity]) -> Result<usize, Unfit> {
    if tiers.is_empty() {
        return Ok(0);
    }
    tiers.iter().position(|affinity| affinity_matches(affinity, cluster)).ok_or(Unfit::Affinity)
}

/// Whether a cluster has the properties by which groups are formed.
///
/// # Errors
/// [`Unfit::SpreadProperty`] with the first property that it lacks.
pub fn spread_property(cluster: &Cluster, placement: &Placement) -> Result<(), Unfit> {
    for constraint in &placement.spread_constraints {
        let missing = match constraint.spread_by_field.as_str() {
            "provider" if cluster.spec.provider.is_empty() => "provider",
            "region" if cluster.spec.region.is_empty() => "region",
            "zone" if cluster.spec.zones.is_empty() => "zones",
            _ => continue,
        };
        return Err(Unfit::SpreadProperty(missing));
    }
    Ok(())
}

/// Whether a cluster is not being left.
///
/// # Errors
/// [`Unfit::Evicting`] where it is.
pub fn eviction(cluster: &str, spec: &BindingSpec) -> Result<(), Unfit> {
    let leaving = spec.graceful_eviction_tasks.iter().any(|task| task.from_cluster == cluster);
    if leaving { Err(Unfit::Evicting) } else { Ok(()) }
}

/// The text for the condition: how many clusters there are, and how many are unfit for each reason.
pub fn explain(total: usize, unfit: &[Unfit]) -> String {
    if unfit.is_empty() {
        return format!("0/{total} clusters are available: no cluster exists.");
    }
    let mut counts: BTreeMap<&Unfit, usize> = BTreeMap::new();
    for reason in unfit {
        *counts.entry(reason).or_default() += 1;
    }
    let mut parts: Vec<String> = counts.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    parts.sort();
    // What expressions say of clusters may be another thing for each.
    if let Some(more) = parts.len().checked_sub(MOST_REASONS).filter(|more| *more > 0) {
        parts.truncate(MOST_REASONS);
        parts.push(format!("and {more} further reasons"));
    }
    format!("0/{total} clusters are available: {}.", parts.join(", "))
}
