//! A FederatedHPA scales by what the Pods of its target use, in all clusters together.
//!
//! In: the object, the replicas of its target's template, what the clusters told, what was recommended and done before, the moment. Out: how many
//! replicas the template is to have, the conditions, the values that were measured; and once that was carried out or not, the status.
//!
//! ```text
//! a cluster's answer ─ fleet ─────────────────────────▶ Pods and readings of all clusters
//! Pods, metrics      ─ pod_usage, replica_calculator ─▶ replicas that the metrics ask for
//! those, the history ─ behavior ──────────────────────▶ replicas now: windows, policies, bounds
//! ```
//!
//! It is as Kubernetes documents it of a HorizontalPodAutoscaler, with one step more: Pods are counted in the clusters, and replicas are the
//! template's. Where each of three clusters has all of the template's replicas, a third of what the Pods ask for is the template's.
//!
//! What is not known scales nothing down: a cluster that does not answer may be the one that is busy. Replicas that found no room are not
//! followed by more of them.

pub mod behavior;
mod conditions;
pub mod facts;
mod fleet;
mod history;
mod pod_usage;
mod replica_calculator;
mod selector;

use std::cmp::Ordering;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::autoscaling::v2::{HorizontalPodAutoscalerStatus, MetricStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use karmada_api::federated_hpa::{FederatedHPA, FederatedHPASpec};

use self::behavior::{LimitedBy, Pace, Paced};
pub use self::conditions::Said;
pub use self::fleet::{Answers, ClusterMetrics, Gathered, Placed, gather};
pub use self::history::History;
pub use self::replica_calculator::{Proposal, propose};
pub use self::selector::selector;
use karmada_core::seconds;

/// How often a target is looked at.
pub const INTERVAL: SignedDuration = SignedDuration::from_secs(15);

/// Clusters that are named where some are silent.
const NAMED: usize = 8;
/// Characters of what each of them said.
const LONGEST_REASON: usize = 200;

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Replicas that the target is to have: where nothing changes, those that it has.
    pub replicas: i32,
    /// Why they change, in words.
    pub why: String,
    /// What is said of it.
    pub said: Vec<Said>,
    /// The values that were measured; absent where those of before stay.
    pub metrics: Option<Vec<MetricStatus>>,
    /// What could not be measured, in words.
    pub failure: Option<String>,
    /// What the metrics ask for, to be remembered.
    pub recommended: Option<i32>,
}

/// One look at a target.
#[derive(Clone, Copy, Debug)]
pub struct ScaleInputs<'a> {
    /// The object.
    pub hpa: &'a FederatedHPA,
    /// Replicas of the target.
    pub current: i32,
    /// What was recommended and done before.
    pub history: &'a History,
    /// The moment.
    pub now: Timestamp,
}

/// The bounds, of which the upper one holds where they contradict each other.
fn bounds(spec: &FederatedHPASpec) -> (i32, i32) {
    (spec.at_least().min(spec.at_most()), spec.at_most())
}

impl Decision {
    /// Nothing changes, and this is why.
    pub fn stays(current: i32, said: Vec<Said>) -> Self {
        Decision {
            replicas: current,
            why: String::new(),
            said,
            metrics: None,
            failure: None,
            recommended: None,
        }
    }
}

/// What is decided without measuring anything: nothing for a target that has no replicas, as somebody paused it; the bounds, where it is outside of
/// them.
pub fn without_measuring(spec: &FederatedHPASpec, current: i32) -> Option<Decision> {
    let (least, most) = bounds(spec);
    if current <= 0 && spec.at_least() > 0 {
        let words = "scaling is disabled since the replica count of the target is zero";
        return Some(Decision::stays(current, vec![Said::active(false, "ScalingDisabled", words)]));
    }
    let (replicas, held, why) = match current {
        above if above > most => (most, LimitedBy::Most, "Current number of replicas above Spec.MaxReplicas"),
        below if below < least => {
            (least, LimitedBy::Least, "Current number of replicas below Spec.MinReplicas")
        }
        _ => return None,
    };
    Some(Decision { why: why.to_owned(), ..Decision::stays(replicas, vec![held.said()]) })
}

/// Decides by what was measured.
pub fn decide(look: ScaleInputs<'_>, gathered: &Gathered) -> Decision {
    let ScaleInputs { hpa, current, history, now } = look;
    let spec = &hpa.spec;
    if let Some(decided) = without_measuring(spec, current) {
        return decided;
    }
    let behavior = spec.behavior.as_ref();
    let proposal = propose(&spec.metrics, behavior, current, &gathered.facts, now);
    let mut said = vec![measured(gathered), proposal.active];
    let Some(recommended) = proposal.replicas else {
        return Decision { failure: proposal.failure, ..Decision::stays(current, said) };
    };
    let (least, most) = bounds(spec);
    let paced = behavior::follow(Pace { least, most, behavior }, history, current, recommended, now);
    let (replicas, able) = held_back(gathered, current, paced);
    said.extend([able, paced.held.said()]);
    let why = match replicas > current {
        true => format!("{} above target", proposal.metric),
        false => "All metrics below target".to_owned(),
    };
    Decision {
        replicas,
        why: if replicas == current { String::new() } else { why },
        said,
        metrics: proposal.current,
        failure: proposal.failure,
        recommended: Some(recommended),
    }
}

/// What is followed of it where not all is known or placed.
fn held_back(gathered: &Gathered, current: i32, paced: Paced) -> (i32, Said) {
    let pending = |words: &str| Said::able(false, "PlacementPending", words);
    match (gathered.placed, paced.replicas.cmp(&current)) {
        (Placed::Behind, _) => (current, pending("the binding does not know of the target's replicas yet")),
        (Placed::Partly, Ordering::Greater) => {
            (current, pending("replicas are still to be placed: before they are, no more are asked for"))
        }
        (_, Ordering::Less) if !gathered.silent.is_empty() => {
            let words = "not all clusters told what is used there: nothing is scaled down meanwhile";
            (current, Said::able(false, "ClustersSilent", words))
        }
        _ => (paced.replicas, paced.able()),
    }
}

/// Who said nothing.
fn measured(gathered: &Gathered) -> Said {
    let silent = gathered.silent.iter().map(|(cluster, why)| (cluster, why.as_str()));
    let away = gathered.away.iter().map(|cluster| (cluster, "it is not ready, and the others stand for it"));
    let named = silent.chain(away).take(NAMED).map(|(cluster, why)| {
        let why: String = why.chars().take(LONGEST_REASON).collect();
        format!("{cluster}: {why}")
    });
    let mut words = named.collect::<Vec<_>>().join("; ");
    match (gathered.silent.len() + gathered.away.len()).checked_sub(NAMED) {
        Some(more) if more > 0 => words.push_str(&format!("; and {more} more")),
        _ => {}
    }
    match (gathered.silent.is_empty(), gathered.away.is_empty()) {
        (true, true) => Said::measured(true, "AllClustersAnswered", "every cluster told what is used there"),
        (true, false) => Said::measured(false, "ClustersAway", words),
        (false, _) => Said::measured(false, "ClustersSilent", words),
    }
}

/// What is remembered of a look.
pub fn remember(history: &mut History, look: ScaleInputs<'_>, decision: &Decision) {
    if let Some(recommended) = decision.recommended {
        let window = behavior::memory(look.hpa.spec.behavior.as_ref());
        history.recommended(recommended, window, look.now);
    }
}

/// What is remembered where the target was scaled.
pub fn remember_scaled(history: &mut History, look: ScaleInputs<'_>, to: i32) {
    let period = behavior::longest_period(look.hpa.spec.behavior.as_ref());
    history.scaled(look.current, to, period, look.now);
}

/// The status once it was tried to carry a decision out, and remembered; an error says why the target could not be scaled.
pub fn status(
    look: ScaleInputs<'_>,
    decision: &Decision,
    came: &Result<(), String>,
) -> HorizontalPodAutoscalerStatus {
    let ScaleInputs { hpa, current, history, now } = look;
    let changes = decision.replicas != current;
    let mut said = decision.said.clone();
    if let Some(able) = carried_out(decision, changes, came) {
        said.retain(|one| one.type_ != able.type_);
        said.push(able);
    }
    let mut status = saying(hpa, &said, now);
    status.current_replicas = Some(current);
    status.desired_replicas = decision.replicas;
    if let Some(metrics) = &decision.metrics {
        status.current_metrics = Some(metrics.clone());
    }
    // Of a status that could not be written then, too.
    let scaled = hpa.status.last_scale_time.as_ref().map(|time| time.0).max(history.scaled.map(seconds));
    status.last_scale_time = scaled.map(Time);
    status
}

/// What is said where it was tried to scale the target.
fn carried_out(decision: &Decision, changes: bool, came: &Result<(), String>) -> Option<Said> {
    match came {
        Err(why) => {
            Some(Said::able(false, "FailedUpdateScale", format!("the target cannot be scaled: {why}")))
        }
        Ok(()) if changes => {
            let words = format!("the target was scaled to {}", decision.replicas);
            Some(Said::able(true, "SucceededRescale", words))
        }
        Ok(()) => None,
    }
}

/// The status in which this is said, and else is what was.
pub fn saying(hpa: &FederatedHPA, said: &[Said], now: Timestamp) -> HorizontalPodAutoscalerStatus {
    let mut status = hpa.status.clone();
    let before = status.conditions.take().unwrap_or_default();
    status.conditions = Some(conditions::say(&before, said, now));
    status.observed_generation = hpa.metadata.generation;
    status
}
