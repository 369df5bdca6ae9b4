//! How many Pods of one Deployment have found no node for too long, where the hub asks for it.
//!
//! In: the Deployment's name, the Pods that wait for a node, the moment. Out: a number, or in words why it is not known. The Deployment and its
//! ReplicaSets are read from the member only where one of its Pods may be waiting: the question is asked often, and mostly none is.

use jiff::{SignedDuration, Timestamp};
use karmada_interpreter::node_room;
use karmada_interpreter::nodes_and_pods::PodUse;
use karmada_member::list::list;
use karmada_member::{Gvk, Member, MemberError, ObjectId, Watch};
use karmada_proto::v1::UnschedulableOf;
use serde_json::Value;

/// ReplicaSets of one Deployment that are looked at: the API keeps ten old ones unless told otherwise.
const MOST_REPLICA_SETS: usize = 1_000;

/// Counts them. No such Deployment has none.
///
/// # Errors
/// In words: the member does not answer, or what it says of the Deployment cannot be read.
pub async fn count(
    member: &dyn Member,
    question: &UnschedulableOf,
    waiting: &[PodUse],
    now: Timestamp,
) -> Result<u32, String> {
    if waiting.is_empty() {
        return Ok(0);
    }
    let id = ObjectId {
        gvk: Gvk::new("apps/v1", "Deployment"),
        namespace: question.namespace.clone(),
        name: question.name.clone(),
    };
    let told = |error: MemberError| error.to_string();
    let Some(deployment) = member.get(&id).await.map_err(told)? else { return Ok(0) };
    let sets = replica_sets(member, &deployment).await.map_err(told)?;
    let threshold =
        SignedDuration::from_secs(i64::try_from(question.longer_than_seconds).unwrap_or(i64::MAX));
    let count = node_room::unschedulable(&deployment, &sets, waiting, threshold, now);
    count.map(|count| u32::try_from(count).unwrap_or(0)).map_err(|error| error.to_string())
}

/// The ReplicaSets with the labels that the Deployment selects.
async fn replica_sets(member: &dyn Member, deployment: &Value) -> Result<Vec<Value>, MemberError> {
    let labels = deployment.pointer("/spec/selector/matchLabels").and_then(Value::as_object);
    let labels =
        labels.into_iter().flatten().filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)));
    let watch = Watch {
        gvk: Gvk::new("apps/v1", "ReplicaSet"),
        namespace: karmada_api::object::namespace(deployment).to_owned(),
        labels: labels.collect::<Vec<_>>().join(","),
        fields: String::new(),
    };
    let sets = list(member, watch, MOST_REPLICA_SETS, |set| set).await?;
    Ok(sets.unwrap_or_default())
}
