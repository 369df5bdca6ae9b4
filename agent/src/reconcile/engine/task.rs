//! One Work's turn on the member: applied or removed, as its entry says. Nothing of the engine's state is touched.
//!
//! In: the member, the entry, who names its objects. Out: an [`Ending`] for the engine to take in.

use karmada_api::object;
use karmada_interpreter::Interpreter;
use serde_json::Value;

use super::Ending;
use crate::ledger::Entry;
use crate::member::{Gvk, Member, ObjectId};
use crate::reconcile::agent_objects::Own;
use crate::reconcile::apply::{self, Context, Known};
use crate::reconcile::failure::Failure;
use crate::reconcile::member_body::ClusterNames;
use crate::reconcile::orphan_rows::work_of_row;
use crate::reconcile::removal::{self, Leaving, Removal};
use crate::session::Phase;

/// One Work's turn, of the manifests in its body; `named` as in [`Context::named`].
pub(super) async fn one(
    (member, interpreter): (&dyn Member, &dyn Interpreter),
    (cluster, own): (&ClusterNames, &Own),
    (key, manifests): (&str, Result<Vec<Value>, Failure>),
    entry: &Entry,
    named: &[(ObjectId, String)],
) -> Ending {
    let context = Context { member, interpreter, cluster, written: &entry.written, named, own };
    match (entry.phase, manifests) {
        (Phase::Desired, Ok(manifests)) => {
            let known = match entry {
                entry if entry.is_applied() => Known::Applied(&entry.written),
                entry if entry.is_nowhere() => Known::Nowhere,
                _ => Known::Older,
            };
            let results = apply::apply_work(context, key, &manifests, known).await;
            // What takes its place stands before it goes.
            let former = if results.iter().all(Result::is_ok) && !entry.former.is_empty() {
                let uids = results.iter().flatten().map(|object| object::uid(object).to_owned());
                let uids: Vec<String> = uids.collect();
                Some(removal::removal(context, key, &former(entry), entry.preserve, &uids).await)
            } else {
                None
            };
            Ending::Applied { results: with_plurals(member, &manifests, results).await, former }
        }
        (Phase::Desired, Err(failure)) => {
            Ending::Applied { results: vec![(String::new(), Err(failure))], former: None }
        }
        (Phase::Deleting | Phase::Removed, manifests) => {
            // Of a body that cannot be read nothing was placed: what bodies before it named is all that there is.
            let mut objects = former(entry);
            objects.extend(removal::leaving(&manifests.unwrap_or_default(), &entry.written));
            let mut removal =
                removal::removal(context, work_of_row(key), &objects, entry.preserve, &[]).await;
            // What it may not even look at, and never placed, it does not wait for.
            if removal.failure.as_ref().is_some_and(Failure::is_forbidden) && entry.is_nowhere() {
                removal = Removal { done: true, uids: removal.uids, failure: None };
            }
            Ending::Removed(removal)
        }
    }
}

/// What earlier bodies named.
fn former(entry: &Entry) -> Leaving {
    entry.former.iter().map(|id| (id.clone(), None)).collect()
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
