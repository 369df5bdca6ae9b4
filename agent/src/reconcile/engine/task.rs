//! One Work's turn on the member: applied or removed, as its entry says. Nothing of the engine's state is touched.

use karmada_interpreter::Interpreter;
use serde_json::Value;

use super::Ending;
use crate::ledger::Entry;
use crate::member::{Gvk, Member, Probe};
use crate::reconcile::apply::{self, Context, Failure, Known, Removal};
use crate::session::Phase;

/// What it is worth that the member does not serve a kind whose objects are to be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unserved {
    /// All: nothing of the Work was ever placed.
    Nowhere,
    /// Nothing: the member is not ready.
    NotReady,
    /// Something, once it stayed so.
    Ready,
}

/// One Work's turn.
pub(super) async fn one(
    member: &dyn Member,
    interpreter: &dyn Interpreter,
    cluster: &str,
    key: &str,
    entry: &Entry,
) -> Ending {
    let context = Context { member, interpreter, cluster };
    match apply::manifests(&entry.body) {
        Ok(manifests) if entry.phase == Phase::Desired => {
            let known = match entry {
                entry if entry.is_applied() => Known::Applied(&entry.written),
                entry if entry.is_nowhere() => Known::Nowhere,
                _ => Known::Older,
            };
            let results = apply::work(context, key, &manifests, known).await;
            Ending::Applied(with_plurals(member, &manifests, results).await)
        }
        Ok(manifests) => {
            let mut removal = apply::removal(context, key, &manifests, entry.preserve).await;
            // What it may not even look at, and never placed, it does not wait for.
            if removal.failure.as_ref().is_some_and(Failure::is_forbidden) && entry.is_nowhere() {
                removal = Removal { done: true, uids: removal.uids, ..Removal::default() };
            }
            let unserved = match &removal.unserved {
                Some(_) if entry.is_nowhere() => Unserved::Nowhere,
                // Asked after the kind was missed: a member that is not ready yet serves it later, maybe.
                Some(_) if member.probe().await != Probe::Ok => Unserved::NotReady,
                _ => Unserved::Ready,
            };
            Ending::Removed(Box::new(removal), unserved)
        }
        Err(failure) => Ending::Applied(vec![(String::new(), Err(failure))]),
    }
}

async fn with_plurals(
    member: &dyn Member,
    manifests: &[Value],
    results: Vec<Result<Value, Failure>>,
) -> Vec<(String, Result<Value, Failure>)> {
    let mut named = Vec::with_capacity(results.len());
    for (manifest, result) in manifests.iter().zip(results) {
        // Known already: the call before needed it.
        let plural =
            if result.is_ok() { member.resource(&Gvk::of(manifest)).await } else { Ok(String::new()) };
        named.push((plural.unwrap_or_default(), result));
    }
    named
}
