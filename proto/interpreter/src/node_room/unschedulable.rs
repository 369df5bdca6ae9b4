//! How many pods of a workload have found no node for too long.
//!
//! In: a Deployment, ReplicaSets, the member's pods, trimmed, how long is too long, and the time. Out: a number.
//! Only pods of the ReplicaSet with the Deployment's present template count: older ones are on their way out.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use karmada_api::object;
use karmada_api::selector::labels_match;
use serde_json::Value;

use crate::nodes_and_pods::{PodUse, controller};

/// The label by which ReplicaSets of one Deployment differ.
const TEMPLATE_HASH: &str = "pod-template-hash";

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnschedulableError {
    /// Pods are counted for Deployments only.
    #[error("kind({kind}) of workload({namespace}/{name}) is not supported")]
    Kind {
        /// Kind of the workload.
        kind: String,
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// The ReplicaSet's selector cannot be read.
    #[error("selector of ReplicaSet {name} cannot be read: {error}")]
    Selector {
        /// Name of the ReplicaSet.
        name: String,
        /// What is wrong with it.
        error: String,
    },
}

/// How many pods of `workload` have been called unschedulable for longer than `threshold`. `replica_sets` may be more
/// than its own; `pods` are those of the whole member.
///
/// # Errors
/// The workload is no Deployment, or its ReplicaSet cannot be read.
pub fn unschedulable(
    workload: &Value,
    replica_sets: &[Value],
    pods: &[PodUse],
    threshold: SignedDuration,
    now: Timestamp,
) -> Result<i32, UnschedulableError> {
    let (kind, name) = (object::kind(workload), object::name(workload));
    if (object::api_version(workload), kind) != ("apps/v1", "Deployment") {
        let namespace = object::namespace(workload).to_owned();
        return Err(UnschedulableError::Kind { kind: kind.to_owned(), namespace, name: name.to_owned() });
    }
    let Some(current) = current(workload, replica_sets) else { return Ok(0) };
    let selector = selector(current)?;
    let long = |since: Timestamp| now.duration_since(since) > threshold.max(SignedDuration::ZERO);
    let mut count = 0_usize;
    for waiting in pods.iter().filter(|pod| !pod.finished).filter_map(|pod| pod.waiting.as_deref()) {
        if waiting.controller == object::uid(current) && long(waiting.since) {
            let matches = labels_match(&selector, &waiting.labels);
            count += usize::from(matches.map_err(|error| unreadable(current, &error))?);
        }
    }
    Ok(i32::try_from(count).unwrap_or(i32::MAX))
}

/// The ReplicaSet with the Deployment's present template; the oldest where several have it.
fn current<'a>(deployment: &Value, replica_sets: &'a [Value]) -> Option<&'a Value> {
    let uid = Some(object::uid(deployment)).filter(|uid| !uid.is_empty())?;
    let wanted = template(deployment);
    let own = replica_sets.iter().filter(|set| controller(set) == uid && template(set) == wanted);
    let age = |set: &&Value| {
        let created = set.pointer("/metadata/creationTimestamp").and_then(Value::as_str);
        (created.unwrap_or("").to_owned(), object::name(set).to_owned())
    };
    own.min_by_key(age)
}

/// The pod template without what tells ReplicaSets of one Deployment apart. What is null is absent.
fn template(workload: &Value) -> Value {
    let mut template = object::get(workload, &["spec", "template"]).cloned().unwrap_or_default();
    if let Some(Value::Object(labels)) = object::get_mut(&mut template, &["metadata", "labels"]) {
        labels.remove(TEMPLATE_HASH);
    }
    without_nulls(&mut template);
    template
}

fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(without_nulls);
        }
        Value::Array(list) => list.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

fn selector(replica_set: &Value) -> Result<LabelSelector, UnschedulableError> {
    let selector = object::get(replica_set, &["spec", "selector"]).cloned().unwrap_or_default();
    serde_json::from_value(selector).map_err(|error| unreadable(replica_set, &error))
}

fn unreadable(replica_set: &Value, error: &dyn std::fmt::Display) -> UnschedulableError {
    UnschedulableError::Selector { name: object::name(replica_set).to_owned(), error: error.to_string() }
}
