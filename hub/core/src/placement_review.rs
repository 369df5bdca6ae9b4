//! What would become of a template: which policy takes it, which clusters it goes to and why not to the others, and what it looks like there.
//! Pure, and nothing is written: people ask it before they apply, and to understand what they see.
//!
//! In: a template, all that detector, scheduler and overrides look at, and what is to be different from how it is. Out: what each of them says.

pub mod files;
pub mod shown;

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Taint;
use karmada_api::binding::{GracefulEvictionTask, ResourceBinding};
use karmada_api::cluster::Cluster;
use karmada_api::override_policy::OverridePolicy;
use karmada_api::policy::{PropagationPolicy, PurgeMode};
use karmada_api::strings::eviction;
use karmada_interpreter::InterpretError;
use serde::Deserialize;
use serde_json::Value;

use crate::binding::{self, ClusterWork, WorkError};
use crate::cluster_expressions::ClusterExpressions;
use crate::detector::{self, BindingChange, Reading, Takeover};
use crate::eviction::no_execute;
use crate::object_size;
use crate::residency::Residency;
use crate::scheduler::assumptions::Taken;
use crate::scheduler::estimator_answers::Exact;
use crate::scheduler::workload_affinity::AllowedClusters;
use crate::scheduler::{self, ClusterVerdict, Decision, Outcome};
use crate::skipped_resources::SkipRules;
use crate::targets::target_clusters;

/// What is looked at.
pub struct Input<'a, P, C, O> {
    /// The template, as it is stored or would be.
    pub template: &'a Value,
    /// Its binding, if it has one.
    pub binding: Option<&'a ResourceBinding>,
    /// PropagationPolicies of its namespace.
    pub policies: &'a [P],
    /// Every ClusterPropagationPolicy.
    pub cluster_policies: &'a [P],
    /// Every cluster, sorted by name.
    pub clusters: &'a [C],
    /// OverridePolicies of its namespace.
    pub overrides: &'a [O],
    /// Every ClusterOverridePolicy.
    pub cluster_overrides: &'a [O],
    /// Who reads the template.
    pub reading: Reading<'a>,
    /// What is never propagated.
    pub skip: &'a SkipRules,
    /// The name that the hub's scheduler goes by.
    pub scheduler: &'a str,
    /// Whether it places in clusters that are selected and get no replicas.
    pub keeps_empty: bool,
    /// Whether policies take templates from one another.
    pub takeover: Takeover,
    /// Whether workloads leave clusters for taints of effect NoExecute.
    pub evicts_for_taints: bool,
    /// Whether status that a workload took along becomes labels where it comes to.
    pub injects_state: bool,
    /// The ResidencyRules that cover the template.
    pub residency: Residency,
}

/// What is to be different from how it is, as `PlacementReview.spec.whatIf` says it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WhatIf {
    /// Clusters that are not there.
    pub removed_clusters: BTreeSet<String>,
    /// Taints that clusters have beside their own.
    pub taints: Vec<ClusterTaint>,
    /// Clusters without room for more.
    pub full_clusters: BTreeSet<String>,
}

/// A taint more of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct ClusterTaint {
    /// The cluster.
    pub cluster: String,
    /// The taint.
    #[serde(flatten)]
    pub taint: Taint,
}

/// What would become of a template.
#[derive(Clone, Debug, PartialEq)]
pub struct Review {
    /// The policy that takes it; `None` where none does.
    pub policy: Option<(String, String)>,
    /// What the scheduler says; `None` where it is not asked.
    pub decision: Option<Decision>,
    /// How much clusters are preferred, where that is anything.
    pub scores: BTreeMap<String, i64>,
    /// Why it goes no further, in words; empty where it is placed.
    pub message: String,
    /// What its clusters get, by cluster: of a large template not of all of them.
    pub works: Vec<ClusterWork>,
    /// How many clusters more get something that was not made here.
    pub left_out: usize,
}

/// How much is made for one review: text of manifests. Who asks about a large template in a large fleet gets an answer of the same size, and keeps
/// nobody busy for long.
const MOST_TEXT: usize = 16 << 20;

impl Review {
    fn stops(policy: Option<(String, String)>, message: String) -> Self {
        Self { policy, decision: None, scores: BTreeMap::new(), message, works: Vec::new(), left_out: 0 }
    }
}

impl WhatIf {
    /// The clusters as they would be.
    pub fn apply<C: Borrow<Cluster>>(&self, clusters: &[C]) -> Vec<Cluster> {
        let mut taints: BTreeMap<&str, Vec<Taint>> = BTreeMap::new();
        for taint in &self.taints {
            taints.entry(&taint.cluster).or_default().push(taint.taint.clone());
        }
        let stays = |cluster: &&Cluster| !self.removed_clusters.contains(cluster.name());
        let changed = |cluster: &Cluster| {
            let mut cluster = cluster.clone();
            let more = taints.get(cluster.name()).into_iter().flatten().cloned().collect::<Vec<_>>();
            cluster.spec.taints.extend(more);
            cluster
        };
        clusters.iter().map(Borrow::borrow).filter(stays).map(changed).collect()
    }

    /// Names in it that no cluster has.
    pub fn unknown<C: Borrow<Cluster>>(&self, clusters: &[C]) -> Vec<&str> {
        let there: BTreeSet<&str> = clusters.iter().map(|cluster| cluster.borrow().name()).collect();
        let tainted = self.taints.iter().map(|taint| &taint.cluster);
        let named = self.removed_clusters.iter().chain(&self.full_clusters).chain(tainted);
        named.map(String::as_str).filter(|name| !there.contains(name)).collect()
    }
}

/// What the scheduler looks at beside the binding and the clusters.
#[derive(Default)]
pub struct Beside {
    /// Where the workloads are that it wants to be with, or apart from.
    pub neighbours: AllowedClusters,
    /// What of the clusters' room is taken, though their reports do not say so yet.
    pub taken: Taken,
    /// What agents say of the room for it.
    pub exact: Exact,
    /// Who evaluates the expressions of its policy.
    pub expressions: Option<Box<dyn ClusterExpressions>>,
}

/// A template that a policy takes: what the scheduler is to be asked.
pub struct Prepared<'a> {
    scheduler: &'a str,
    keeps_empty: bool,
    residency: Residency,
    policy: Option<(String, String)>,
    /// The binding as the detector would leave it, and as evictions would.
    pub binding: ResourceBinding,
    /// The clusters as they would be.
    pub clusters: Vec<Cluster>,
    full: Exact,
}

impl Prepared<'_> {
    /// What the scheduler looks at.
    pub fn scheduler_input<'a>(&'a self, beside: &'a Beside) -> scheduler::Input<'a, Cluster> {
        let mut exact = beside.exact.clone();
        exact.extend(self.full.clone());
        scheduler::Input {
            binding: &self.binding,
            clusters: &self.clusters,
            scheduler: self.scheduler,
            keeps_empty: self.keeps_empty,
            neighbours: beside.neighbours.clone(),
            taken: beside.taken.clone(),
            exact,
            residency: self.residency.clone(),
            expressions: beside.expressions.as_deref(),
        }
    }
}

/// Reviews a template. `rest` completes what the scheduler looks at.
pub fn review<P, C, O>(
    input: &Input<'_, P, C, O>,
    what_if: &WhatIf,
    rest: impl FnOnce(&ResourceBinding) -> Beside,
) -> Review
where
    P: Borrow<PropagationPolicy>,
    C: Borrow<Cluster>,
    O: Borrow<OverridePolicy>,
{
    match prepare(input, what_if) {
        Ok(prepared) => {
            let beside = rest(&prepared.binding);
            complete(input, prepared, &beside)
        }
        Err(review) => *review,
    }
}

/// Which policy takes a template, and what the scheduler is to be asked then.
///
/// # Errors
/// It goes no further: the review that says why.
pub fn prepare<'a, P, C, O>(input: &Input<'a, P, C, O>, what_if: &WhatIf) -> Result<Prepared<'a>, Box<Review>>
where
    P: Borrow<PropagationPolicy>,
    C: Borrow<Cluster>,
{
    use detector::Decision as Claim;
    let claim =
        detector::decide(input.template, input.policies, input.cluster_policies, input.skip, input.takeover);
    let stops = |policy, message: &str| Box::new(Review::stops(policy, message.to_owned()));
    let policy = match claim {
        Claim::Claimed(policy) | Claim::TakenOver(policy, _) => policy,
        Claim::Waits => return Err(stops(None, "no policy selects it: it waits for one")),
        Claim::Leave => {
            return Err(stops(None, "it is never propagated, or by something else than policies"));
        }
    };
    let by = Some((policy.namespace().to_owned(), policy.name().to_owned()));
    let mut binding = match binding_of(input, policy) {
        Ok(binding) => binding,
        Err(message) => return Err(stops(by, &message)),
    };
    if input.evicts_for_taints {
        evict(&mut binding, what_if);
    }
    let full = what_if.full_clusters.iter().map(|name| (name.clone(), 0)).collect();
    Ok(Prepared {
        scheduler: input.scheduler,
        keeps_empty: input.keeps_empty,
        residency: input.residency.clone(),
        policy: by,
        binding,
        clusters: what_if.apply(input.clusters),
        full,
    })
}

/// What the scheduler says, and what clusters get.
pub fn complete<P, C, O>(input: &Input<'_, P, C, O>, prepared: Prepared<'_>, beside: &Beside) -> Review
where
    O: Borrow<OverridePolicy>,
{
    let asked = prepared.scheduler_input(beside);
    let decision = as_it_stands(scheduler::preview(&asked), &asked);
    let scores = scheduler::scores(&asked);
    let message = why_not_placed(&decision.outcome);
    let placed = placed(prepared.binding, &decision);
    let rendered = binding::Input {
        binding: &placed,
        template: input.template,
        clusters: &prepared.clusters,
        cluster_overrides: input.cluster_overrides,
        overrides: input.overrides,
        interpreter: input.reading.interpreter,
        injects_state: input.injects_state,
        residency: &input.residency,
    };
    let works = bounded(binding::render_works(&rendered));
    let left_out = target_clusters(&placed).len().saturating_sub(works.len());
    Review { policy: prepared.policy, message, works, left_out, scores, decision: Some(decision) }
}

/// Takes a binding out of the clusters that it would leave in the end for the taints that they would have.
fn evict(binding: &mut ResourceBinding, what_if: &WhatIf) {
    let tolerations =
        binding.spec.placement.as_ref().map(|placement| &*placement.cluster_tolerations).unwrap_or_default();
    let leaves = |name: &str| {
        let taints = what_if.taints.iter().filter(|taint| taint.cluster == name).map(|taint| &taint.taint);
        taints.into_iter().any(|taint| !no_execute::is_borne_for_good(taint, tolerations))
    };
    let left: Vec<String> =
        binding.spec.clusters.iter().map(|target| target.name.clone()).filter(|name| leaves(name)).collect();
    binding.spec.clusters.retain(|target| !left.contains(&target.name));
    binding.spec.graceful_eviction_tasks.extend(left.into_iter().map(|from_cluster| GracefulEvictionTask {
        from_cluster,
        purge_mode: Some(PurgeMode::Directly),
        reason: eviction::TAINT_UNTOLERATED.to_owned(),
        producer: eviction::TAINT_MANAGER.to_owned(),
        ..GracefulEvictionTask::default()
    }));
}

/// Where nothing asks for another division, what is placed stands: by fixed weights, or in groups that overflow, it may be another than a division would
/// give now.
fn as_it_stands<C: Borrow<Cluster>>(mut decision: Decision, asked: &scheduler::Input<'_, C>) -> Decision {
    let stands = &asked.binding.spec.clusters;
    if stands.is_empty() || scheduler::schedule(asked).outcome != Outcome::UpToDate {
        return decision;
    }
    let is_chosen = |verdict: &&mut ClusterVerdict| matches!(verdict, ClusterVerdict::Chosen(_));
    decision.report.values_mut().filter(is_chosen).for_each(|verdict| *verdict = ClusterVerdict::Passed);
    for target in stands {
        decision.report.insert(target.name.clone(), ClusterVerdict::Chosen(target.replicas));
    }
    decision.affinity_name.clone_from(&asked.binding.status.scheduler_observing_affinity_name);
    decision.outcome = Outcome::Scheduled(stands.clone());
    decision
}

/// As many Works, from the first, as have [`MOST_TEXT`] together as they are made: an override may make much of a small template.
fn bounded(works: impl Iterator<Item = ClusterWork>) -> Vec<ClusterWork> {
    let mut text = 0_usize;
    let mut taken = Vec::new();
    for work in works {
        if let Ok(made) = &work.work {
            text = text.saturating_add(object_size::bytes(made));
        }
        // A question holds the whole template as well.
        if let Err(WorkError::Interpret(InterpretError::Unanswered(question))) = &work.work {
            text = text.saturating_add(question.body.len());
        }
        taken.push(work);
        if text >= MOST_TEXT {
            break;
        }
    }
    taken
}

/// The binding as the detector would leave it.
fn binding_of<P, C, O>(
    input: &Input<'_, P, C, O>,
    policy: &PropagationPolicy,
) -> Result<ResourceBinding, String> {
    let made = |existing| detector::plan_binding(input.template, policy, existing, input.reading, None);
    let change = match made(input.binding) {
        // The one that is there goes first.
        Ok(BindingChange::Replace) => made(None),
        other => other,
    };
    match change.map_err(|error| error.to_string())? {
        BindingChange::Create(binding) | BindingChange::Update(binding) => Ok(*binding),
        BindingChange::Nothing | BindingChange::Replace => match input.binding {
            Some(binding) => Ok(binding.clone()),
            None => Err("its policy is lazy: it acts with the next change of the template".to_owned()),
        },
    }
}

/// Empty where it is placed.
fn why_not_placed(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Failed(failure) => failure.to_string(),
        Outcome::NotOurs => "it is left to another scheduler, or scheduling is suspended".to_owned(),
        Outcome::UpToDate | Outcome::Scheduled(_) => String::new(),
    }
}

fn placed(mut binding: ResourceBinding, decision: &Decision) -> ResourceBinding {
    match &decision.outcome {
        Outcome::Scheduled(targets) => binding.spec.clusters.clone_from(targets),
        // Nothing new comes, and what is placed stays.
        Outcome::Failed(_) | Outcome::NotOurs | Outcome::UpToDate => {}
    }
    binding
}

#[cfg(test)]
mod tests;
