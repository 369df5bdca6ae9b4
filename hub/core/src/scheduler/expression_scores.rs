//! What the expressions of a binding's policy make of clusters, for one decision; and by which expressions it was decided last.
//!
//! In: a binding, who evaluates its expressions. Out: a score for each cluster or why it is unfit; whether the expressions are others than those that
//! were applied.

use karmada_api::binding::ResourceBinding;
use karmada_api::cluster::Cluster;
use karmada_api::strings::annotations::APPLIED_EXPRESSIONS;

use super::filter::Unfit;
use crate::cluster_expressions::{ClusterExpressions, Fault, HIGHEST, Said};

/// Characters of an error that are told.
const LONGEST: usize = 200;

/// Whether a binding was scheduled last by other expressions than it has.
pub(super) fn changed(binding: &ResourceBinding) -> bool {
    Said::of(&binding.metadata).as_applied().as_deref() != binding.annotation(APPLIED_EXPRESSIONS)
}

/// Notes by which expressions a binding was scheduled.
pub(super) fn note_applied(binding: &mut ResourceBinding) {
    if !changed(binding) {
        return;
    }
    let applied = Said::of(&binding.metadata).as_applied();
    let notes = binding.metadata.annotations.get_or_insert_default();
    match applied {
        Some(text) => drop(notes.insert(APPLIED_EXPRESSIONS.to_owned(), text)),
        None => drop(notes.remove(APPLIED_EXPRESSIONS)),
    }
}

/// What the expressions of a binding make of clusters, for one decision.
pub(super) struct Scores<'a> {
    evaluator: Option<&'a dyn ClusterExpressions>,
    is_said: bool,
    /// Why nothing can be said.
    pub stopped: Option<String>,
}

impl<'a> Scores<'a> {
    /// For a binding; `evaluator` is of its expressions.
    pub fn of(binding: &ResourceBinding, evaluator: Option<&'a dyn ClusterExpressions>) -> Self {
        Scores { evaluator, is_said: !Said::of(&binding.metadata).is_none(), stopped: None }
    }

    /// Whether there is anything to ask.
    pub fn are_asked(&self) -> bool {
        self.is_said && self.stopped.is_none()
    }

    /// The score of a cluster.
    ///
    /// # Errors
    /// The filter does not mean it, an expression fails on it, or nothing can be said: then `stopped` says why.
    pub fn ask(&mut self, cluster: &Cluster) -> Result<i64, Unfit> {
        let Some(evaluator) = self.evaluator else {
            self.stopped = Some("the policy's expressions are evaluated on a hub alone".to_owned());
            return Ok(0);
        };
        match evaluator.score(cluster) {
            Ok(score) => Ok(score.clamp(0, HIGHEST)),
            Err(Fault::Filtered) => Err(Unfit::Filter),
            Err(Fault::Failed(why)) => Err(Unfit::Expression(why.chars().take(LONGEST).collect())),
            Err(Fault::Stopped(why)) => {
                self.stopped = Some(why);
                Ok(0)
            }
        }
    }
}
