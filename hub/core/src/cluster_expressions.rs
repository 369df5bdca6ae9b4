//! What a policy says of clusters beyond its placement's fields, as expressions in CEL: a filter, and a score.
//!
//! In: the annotations of a policy, which its bindings carry; an evaluator, made outside for one decision ([`ClusterExpressions`]). Out: for each
//! cluster its score, or why it is none. Nothing here reads an expression: it is a text that is carried, compared, and handed on.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karmada_api::cluster::Cluster;
use karmada_api::strings::annotations::{CLUSTER_FILTER, CLUSTER_SCORE};
use serde_json::Value;

/// The highest score. A cluster that has the template already counts as if it had it, so that nothing moves for a score alone.
pub const HIGHEST: i64 = 100;

/// The expressions of a policy or a binding, as it says them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// Which clusters: yields a bool. Empty: all.
    pub filter: String,
    /// Which of them first: yields a whole number up to [`HIGHEST`]. Empty: all alike.
    pub score: String,
}

impl Said {
    /// What metadata says.
    pub fn of(metadata: &ObjectMeta) -> Said {
        let note =
            |key| metadata.annotations.as_ref().and_then(|notes| notes.get(key)).cloned().unwrap_or_default();
        Said { filter: note(CLUSTER_FILTER), score: note(CLUSTER_SCORE) }
    }

    /// Whether there is none.
    pub fn is_none(&self) -> bool {
        self.filter.is_empty() && self.score.is_empty()
    }

    /// As it is noted on a binding that was scheduled by it.
    pub(crate) fn as_applied(&self) -> Option<String> {
        (!self.is_none()).then(|| serde_json::json!({"filter": self.filter, "score": self.score}).to_string())
    }
}

/// Has an object say what another one says, and nothing else.
pub(crate) fn carry(to: &mut ObjectMeta, from: &ObjectMeta) {
    let said = Said::of(from);
    if said == Said::of(to) {
        return;
    }
    let notes = to.annotations.get_or_insert_default();
    for (key, text) in [(CLUSTER_FILTER, said.filter), (CLUSTER_SCORE, said.score)] {
        notes.remove(key);
        if !text.is_empty() {
            notes.insert(key.to_owned(), text);
        }
    }
}

/// Why a cluster has no score.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The filter does not mean it.
    Filtered,
    /// An expression fails on it: which one, and how.
    Failed(String),
    /// Nothing can be said of any cluster now: the decision is to be made another time.
    Stopped(String),
}

/// The expressions of one binding, to be asked of each cluster. The same cluster has the same answer.
pub trait ClusterExpressions: Send + Sync {
    /// The score of a cluster that the filter means.
    ///
    /// # Errors
    /// [`Fault`].
    fn score(&self, cluster: &Cluster) -> Result<i64, Fault>;
}

/// Who makes evaluators of expressions.
pub trait ExpressionCompiler: Send + Sync {
    /// Whether the template is looked at.
    fn look_at_object(&self, said: &Said) -> bool;

    /// An evaluator for one decision.
    fn evaluator(&self, said: &Said, template: Option<&Value>) -> Box<dyn ClusterExpressions>;
}
