//! A review as people and programs see it: `PlacementReview.status`.
//!
//! In: a review. Out: JSON, with each cluster's verdict in words.

use serde_json::{Value, json};

use super::Review;
use crate::scheduler::{ClusterVerdict, Outcome};

/// Whether what clusters get is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manifests {
    /// With the overrides applied.
    Shown,
    /// Only which clusters get something.
    LeftOut,
}

/// The status of a review.
pub fn status(review: &Review, manifests: Manifests) -> Value {
    let mut status = json!({"outcome": outcome(review), "message": review.message});
    if let Some((namespace, name)) = &review.policy {
        let kind = if namespace.is_empty() { "ClusterPropagationPolicy" } else { "PropagationPolicy" };
        status["policy"] = json!({"kind": kind, "namespace": namespace, "name": name});
    }
    if let Some(decision) = &review.decision {
        status["affinityName"] = json!(decision.affinity_name);
        let clusters = decision.report.iter().map(|(name, verdict)| {
            let mut told = cluster(name, verdict);
            let could_be = matches!(verdict, ClusterVerdict::Chosen(_) | ClusterVerdict::Passed);
            if let Some(score) = review.scores.get(name).filter(|_| could_be) {
                told["score"] = json!(score);
            }
            told
        });
        status["clusters"] = clusters.collect();
        let tried = decision.tried.iter().filter(|attempt| !attempt.affinity_name.is_empty());
        status["affinitiesTried"] = tried
            .map(|attempt| {
                let message = attempt.result.as_ref().err().map(ToString::to_string).unwrap_or_default();
                json!({"name": attempt.affinity_name, "message": message})
            })
            .collect();
    }
    let works = review.works.iter().map(|work| {
        let overrides: Vec<&str> =
            work.applied.cluster.names().into_iter().chain(work.applied.namespaced.names()).collect();
        let mut told = json!({"cluster": work.cluster, "overrides": overrides});
        match &work.work {
            Ok(work) if manifests == Manifests::Shown => {
                told["manifest"] = work.spec.workload.manifests.first().cloned().unwrap_or_default();
            }
            Ok(_) => {}
            Err(error) => told["message"] = json!(error.to_string()),
        }
        told
    });
    status["works"] = works.collect();
    if review.left_out > 0 {
        status["worksLeftOut"] = json!(review.left_out);
    }
    status
}

fn outcome(review: &Review) -> &'static str {
    match review.decision.as_ref().map(|decision| &decision.outcome) {
        None => "NotPropagated",
        Some(Outcome::NotOurs) => "NotScheduled",
        Some(Outcome::UpToDate | Outcome::Scheduled(_)) => "Scheduled",
        Some(Outcome::Failed(failure)) => failure.reason(),
    }
}

fn cluster(name: &str, verdict: &ClusterVerdict) -> Value {
    match verdict {
        ClusterVerdict::Chosen(replicas) => json!({"name": name, "verdict": "Chosen", "replicas": replicas}),
        ClusterVerdict::Passed => {
            json!({"name": name, "verdict": "Passed", "reason": "it could take it, and was not selected or got no replica"})
        }
        ClusterVerdict::Unfit(why) => json!({"name": name, "verdict": "Unfit", "reason": why.to_string()}),
        ClusterVerdict::Deleting => {
            json!({"name": name, "verdict": "Unfit", "reason": "it is on its way out"})
        }
    }
}
