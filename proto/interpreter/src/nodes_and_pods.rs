//! What is kept of a member's nodes and pods: small enough to keep one of each for all that a member has.
//!
//! In: nodes and pods as JSON (metadata, spec and status are enough). Out: what the summary and the room on nodes are
//! counted from. Labels are kept of nodes, and of the few pods that no node was found for.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Taint;
use karmada_api::binding::ResourceList;
use karmada_api::object;
use karmada_api::strings::taints::{NO_EXECUTE, NO_SCHEDULE};
use karmada_quantity::Quantity;
use serde_json::Value;

use crate::pod_request::{pod_request, resource_list};

/// The taint that stands for a cordon.
const CORDONED: &str = "node.kubernetes.io/unschedulable";

/// What of a pod matters to the summary and to the room on nodes: small enough to keep one per pod of the member.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodUse {
    /// The node it is on; empty while it waits for one.
    pub node: String,
    /// Whether it succeeded or failed.
    pub finished: bool,
    /// What it asks for, itself as one pod included.
    pub request: ResourceList,
    /// How it waits; none where the scheduler does not call it unschedulable.
    pub waiting: Option<Box<Waiting>>,
}

/// What of a node matters to the summary and to the room on it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeOffer {
    /// Its name.
    pub name: String,
    /// Whether it is ready.
    pub ready: bool,
    /// What it offers.
    pub allocatable: ResourceList,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// The taints that keep new pods away, that of a cordoned node among them.
    pub taints: Vec<Taint>,
}

/// A pod that the scheduler found no node for.
#[derive(Clone, Debug, PartialEq)]
pub struct Waiting {
    /// UID of what controls it; empty for a pod of its own.
    pub controller: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Since when.
    pub since: Timestamp,
}

impl PodUse {
    /// Reads a pod; one whose amounts cannot be read counts as asking for nothing but its place.
    pub fn of(pod: &Value) -> Self {
        let spec = pod.get("spec").unwrap_or(&Value::Null);
        let phase = object::get(pod, &["status", "phase"]).and_then(Value::as_str).unwrap_or("");
        let mut request = pod_request(spec).unwrap_or_default();
        request.insert("pods".to_owned(), Quantity::from_units(1));
        Self {
            node: spec.get("nodeName").and_then(Value::as_str).unwrap_or("").to_owned(),
            finished: matches!(phase, "Succeeded" | "Failed"),
            request,
            waiting: Waiting::of(pod).map(Box::new),
        }
    }
}

impl NodeOffer {
    /// Reads a node.
    pub fn of(node: &Value) -> Self {
        let conditions = node.pointer("/status/conditions").and_then(Value::as_array);
        let is = |c: &Value, key: &str, wanted: &str| c.get(key).and_then(Value::as_str) == Some(wanted);
        let ready =
            |list: &Vec<Value>| list.iter().any(|c| is(c, "type", "Ready") && is(c, "status", "True"));
        Self {
            name: object::name(node).to_owned(),
            ready: conditions.is_some_and(ready),
            allocatable: resource_list(node.pointer("/status/allocatable")).unwrap_or_default(),
            labels: object::labels(node),
            taints: taints_of(node),
        }
    }
}

impl Waiting {
    /// Reads a pod; none where it is not called unschedulable, or since an unknown time.
    fn of(pod: &Value) -> Option<Self> {
        let conditions = pod.pointer("/status/conditions").and_then(Value::as_array)?;
        let is = |c: &Value, key: &str, wanted: &str| c.get(key).and_then(Value::as_str) == Some(wanted);
        let condition = conditions.iter().find(|c| is(c, "type", "PodScheduled"))?;
        if !is(condition, "status", "False") || !is(condition, "reason", "Unschedulable") {
            return None;
        }
        Some(Self {
            controller: controller(pod).to_owned(),
            labels: object::labels(pod),
            since: condition.get("lastTransitionTime").and_then(Value::as_str)?.parse().ok()?,
        })
    }
}

/// The taints of a node that keep new pods away. A cordon counts as one, whether or not the member has written it yet;
/// since when they are there is left out, as it decides nothing.
fn taints_of(node: &Value) -> Vec<Taint> {
    let listed = node.pointer("/spec/taints").and_then(Value::as_array).into_iter().flatten();
    let text = |taint: &Value, key: &str| taint.get(key).and_then(Value::as_str).unwrap_or("").to_owned();
    let read = |taint: &Value| Taint {
        key: text(taint, "key"),
        value: Some(text(taint, "value")).filter(|value| !value.is_empty()),
        effect: text(taint, "effect"),
        time_added: None,
    };
    let keeps_away = |taint: &Taint| [NO_SCHEDULE, NO_EXECUTE].contains(&taint.effect.as_str());
    let mut taints: Vec<Taint> = listed.map(read).filter(keeps_away).collect();
    let cordon =
        Taint { key: CORDONED.to_owned(), effect: NO_SCHEDULE.to_owned(), value: None, time_added: None };
    let cordoned = node.pointer("/spec/unschedulable").and_then(Value::as_bool).unwrap_or(false);
    if cordoned && !taints.contains(&cordon) {
        taints.push(cordon);
    }
    taints
}

/// UID of what controls an object; empty where nothing does.
pub(crate) fn controller(object: &Value) -> &str {
    let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let owner =
        owners.and_then(|owners| owners.iter().find(|owner| owner.get("controller") == Some(&true.into())));
    owner.and_then(|owner| owner.get("uid")).and_then(Value::as_str).unwrap_or("")
}
