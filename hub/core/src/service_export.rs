//! ServiceExport: a Service that clusters give to others. Pure.
//!
//! In: the ServiceExport and the binding by which it is in clusters, what their agents told of where the Service is reached there, and the
//! EndpointSlices that there are. Out: the Works by which these agents are asked; the hub's own EndpointSlices, one for each of a cluster's. Whoever
//! imports the Service takes those along ([`service_import`](crate::service_import)).

use std::collections::{BTreeMap, BTreeSet};

use karmada_api::binding::ResourceBinding;
use karmada_api::multi_cluster_service::{CROSS_CLUSTER, MemberSlice};
use karmada_api::strings::{annotations, labels};
use karmada_api::work::Work;
use karmada_api::{names, object};
use serde_json::{Value, json};

use crate::belonging;
use crate::multi_cluster_service::{Question, Questions, asking, told};
use crate::service_import::{self, API};
use crate::targets::target_clusters;

/// Kind of ServiceExports.
pub const KIND: &str = "ServiceExport";

/// Name of the Work by which an agent is asked. A MultiClusterService of the same Service asks by another one.
pub fn question_name(namespace: &str, name: &str) -> String {
    names::work_name("ServiceEndpoints", name, namespace)
}

/// Labels by which the Works of an exported Service are found.
fn work_labels(namespace: &str, name: &str) -> BTreeMap<String, String> {
    let pairs = [
        (labels::SLICE_OF_NAMESPACE, namespace),
        (labels::SLICE_OF_NAME, name),
        (labels::SLICE_ASKED_BY, labels::BY_SERVICE_EXPORT),
    ];
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

fn question(export: &Value, cluster: &str) -> Work {
    let (namespace, name) = (object::namespace(export), object::name(export));
    let question = Question {
        namespace,
        name,
        spec: json!({"types": [CROSS_CLUSTER]}),
        uid: object::uid(export),
        work_name: question_name(namespace, name),
        labels: work_labels(namespace, name),
    };
    asking(question, cluster)
}

/// The clusters that are to hold a ServiceExport by its binding.
fn targets<'a>(export: Option<&Value>, binding: Option<&'a ResourceBinding>) -> BTreeSet<&'a str> {
    let is_its = |binding: &&ResourceBinding| {
        export.is_some_and(|export| {
            let placed = &binding.spec.resource;
            binding.metadata.deletion_timestamp.is_none()
                && !object::deleting(export)
                && (&*placed.api_version, &*placed.kind) == (API, KIND)
                && !belonging::is_of_another(binding, export)
        })
    };
    binding.filter(is_its).map(target_clusters).unwrap_or_default()
}

/// Whose agents are asked where the Service is reached: those of the clusters that hold its ServiceExport. One that was asked once is asked on for
/// as long as it is to hold it, whatever is told of it in between; `held` are those, `is_there` tells which clusters are and stay.
pub fn questions<'a>(
    export: Option<&Value>,
    binding: Option<&ResourceBinding>,
    is_there: impl Fn(&str) -> bool,
    held: impl IntoIterator<Item = &'a str>,
) -> Questions {
    let held: BTreeSet<&str> = held.into_iter().collect();
    let targets = targets(export, binding);
    let holds = |cluster: &str| {
        let mut items = binding.iter().flat_map(|binding| &binding.status.aggregated_status);
        items.any(|item| item.applied && item.cluster_name == cluster)
    };
    let asked = targets.iter().filter(|name| is_there(name) && (held.contains(*name) || holds(name)));
    let put = export.iter().flat_map(|export| asked.clone().map(|cluster| question(export, cluster)));
    let remove = held.iter().filter(|name| !targets.contains(*name)).map(|name| (*name).to_owned());
    Questions { put: put.collect(), remove: remove.collect() }
}

/// What is to be done with the hub's EndpointSlices of one exported Service.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Those that are to be made.
    pub create: Vec<Value>,
    /// Those that are there, as they are to be.
    pub update: Vec<Value>,
    /// Names of those that are to go.
    pub remove: BTreeSet<String>,
    /// Names that another object has: what is behind them is left out.
    pub taken: BTreeSet<String>,
    /// Whether one is to be made whose name another Service's has yet.
    pub waits: bool,
}

/// The EndpointSlices of a namespace of the hub.
#[derive(Clone, Debug, Default)]
pub struct There<'a> {
    /// Those that are of the Service in question, and came from clusters.
    pub own: Vec<&'a Value>,
    /// Names of those that came from clusters and are of other Services: they go, or are somebody's whose Service is another by now.
    pub of_others: BTreeSet<&'a str>,
    /// Names of all others.
    pub foreign: BTreeSet<&'a str>,
}

/// The exported Service that an EndpointSlice of the hub is of, by its labels; `None` for one that came from no cluster.
pub fn service_of(labels_of: &BTreeMap<String, String>) -> Option<&str> {
    let is_imported = labels_of.get(labels::SLICE_MANAGED_BY).is_some_and(|by| by == labels::SLICE_IMPORTED);
    let derived = labels_of.get(labels::SLICE_SERVICE).filter(|_| is_imported)?;
    service_import::service_of(derived)
}

/// The cluster from which an EndpointSlice of the hub came.
fn origin(slice: &Value) -> Option<&str> {
    names::cluster_of_execution_namespace(object::annotation(slice, annotations::WORK_NAMESPACE)?)
}

/// Where EndpointSlices of the Service `namespace`/`name` are to be on the hub, by what the agents told that are asked by `questions`. Of one that
/// told nothing yet everything stays; of one that is asked no more it goes.
pub fn plan(
    (namespace, name): (&str, &str),
    questions: &[Work],
    is_cluster: impl Fn(&str) -> bool,
    there: &There<'_>,
) -> Plan {
    let derived = names::derived_service_name(name);
    let mut wanted: BTreeMap<String, Value> = BTreeMap::new();
    let mut silent: BTreeSet<&str> = BTreeSet::new();
    let can_be = service_import::refused(name).is_none();
    let is_asked = |question: &&Work| can_be && question.metadata.deletion_timestamp.is_none();
    for question in questions.iter().filter(is_asked) {
        let at = question.metadata.namespace.as_deref();
        let Some(cluster) = at.and_then(names::cluster_of_execution_namespace) else { continue };
        let Some(told) = told::answer(question) else {
            silent.insert(cluster);
            continue;
        };
        let named = |slice: &str| format!("imported-{}", told::joined(cluster, slice, &is_cluster));
        for (slice, name) in told::good(&told, named) {
            let object = imported(slice, (namespace, &name), &derived, question);
            wanted.insert(name, object);
        }
    }
    decide(wanted, &silent, there)
}

/// What a cluster's EndpointSlice is on the hub: one of the Service that is derived for whoever imports it.
fn imported(slice: &MemberSlice, (namespace, name): (&str, &str), derived: &str, question: &Work) -> Value {
    let mut wanted = told::object(slice);
    wanted["metadata"] = json!({"name": name, "namespace": namespace});
    let asking = &question.metadata;
    let id = asking.labels.as_ref().and_then(|all| all.get(labels::WORK_ID));
    object::set_label(&mut wanted, labels::SLICE_SERVICE, derived);
    object::set_label(&mut wanted, labels::SLICE_MANAGED_BY, labels::SLICE_IMPORTED);
    if let Some(id) = id {
        object::set_label(&mut wanted, labels::WORK_ID, id);
    }
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    object::set_annotation(&mut wanted, annotations::WORK_NAMESPACE, &text(&asking.namespace));
    object::set_annotation(&mut wanted, annotations::WORK_NAME, &text(&asking.name));
    wanted
}

fn decide(mut wanted: BTreeMap<String, Value>, silent: &BTreeSet<&str>, there: &There<'_>) -> Plan {
    let mut plan = Plan::default();
    for slice in &there.own {
        let name = object::name(slice);
        match wanted.remove(name) {
            // It is made anew once it is gone.
            _ if object::deleting(slice) => {}
            // What kind of addresses it has never changes in an EndpointSlice.
            Some(wanted) if wanted["addressType"] != slice["addressType"] => {
                plan.remove.insert(name.to_owned());
            }
            Some(wanted) => plan.update.extend(changed(slice, &wanted)),
            None if origin(slice).is_some_and(|cluster| silent.contains(cluster)) => {}
            None => drop(plan.remove.insert(name.to_owned())),
        }
    }
    for (name, slice) in wanted {
        if there.foreign.contains(&*name) {
            plan.taken.insert(name);
        } else if there.of_others.contains(&*name) {
            plan.waits = true;
        } else {
            plan.create.push(slice);
        }
    }
    plan
}

/// An EndpointSlice that is there with what it is to say; `None` where it says so. What others noted on it stays.
fn changed(slice: &Value, wanted: &Value) -> Option<Value> {
    let mut now = slice.clone();
    for (key, value) in object::labels(wanted) {
        object::set_label(&mut now, &key, &value);
    }
    for (key, value) in object::annotations(wanted) {
        object::set_annotation(&mut now, &key, &value);
    }
    for field in ["endpoints", "ports"] {
        let is_none = |value: &Value| value.as_array().is_none_or(Vec::is_empty);
        if now[field] != wanted[field] && !(is_none(&now[field]) && is_none(&wanted[field])) {
            now[field] = wanted[field].clone();
        }
    }
    (now != *slice).then_some(now)
}

/// Why an EndpointSlice of a cluster is left out whose name another object has.
pub fn name_is_taken(names: &BTreeSet<String>) -> String {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    format!(
        "EndpointSlices {} are somebody else's: what clusters have under these names is not imported",
        names.join(", ")
    )
}
