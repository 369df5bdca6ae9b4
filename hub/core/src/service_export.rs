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
use serde::Deserialize;
use serde_json::{Value, json};

use crate::multi_cluster_service::shared_addresses::{Overlap, SharedAddresses};
use crate::multi_cluster_service::{Question, Questions, asking, told};
use crate::service_import::{self, API};
use crate::targets::target_clusters;
use crate::template_ownership;

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

/// The question to a cluster.
pub fn question(export: &Value, cluster: &str) -> Work {
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
                && !template_ownership::is_of_another(binding, export)
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
    let ask = asked.filter(|_| export.is_some()).map(|cluster| (*cluster).to_owned());
    let remove = held.iter().filter(|name| !targets.contains(*name)).map(|name| (*name).to_owned());
    Questions { ask: ask.collect(), remove: remove.collect() }
}

/// What is to be written of what one cluster told.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Writes {
    /// EndpointSlices that are to be made.
    pub create: Vec<Value>,
    /// Those that are there, as they are to be.
    pub update: Vec<Value>,
}

/// What is to be done once what every cluster told is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rest {
    /// Names of EndpointSlices that are to go.
    pub remove: BTreeSet<String>,
    /// Names that another object has: what is behind them is left out.
    pub taken: BTreeSet<String>,
    /// Whether one is to be made whose name another Service's has yet.
    pub waits: bool,
    /// What clusters share of the addresses that they told.
    pub overlap: Overlap,
}

/// What is read of an EndpointSlice of the hub to know what is to become of it: not what it tells.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SliceHead {
    metadata: HeadMetadata,
    #[serde(default)]
    address_type: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct HeadMetadata {
    annotations: Option<BTreeMap<String, String>>,
    deletion_timestamp: Option<String>,
}

impl SliceHead {
    /// The cluster from which it came.
    fn origin(&self) -> Option<&str> {
        let at = self.metadata.annotations.as_ref()?.get(annotations::WORK_NAMESPACE)?;
        names::cluster_of_execution_namespace(at)
    }
}

/// The EndpointSlices of a namespace of the hub.
#[derive(Clone, Debug, Default)]
pub struct There<'a> {
    /// Those that are of the Service in question, and came from clusters, by name.
    pub own: BTreeMap<&'a str, SliceHead>,
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

/// Decides where EndpointSlices of an exported Service are to be on the hub, by one answer after the other: no more than one need be in memory at once.
/// Of a cluster that told nothing yet everything stays; of one that is asked no more it goes.
pub struct Importing<'a> {
    namespace: &'a str,
    /// Whether there may be a Service for whoever imports it.
    can_be: bool,
    derived: String,
    there: &'a There<'a>,
    wanted: BTreeSet<String>,
    silent: BTreeSet<String>,
    addresses: SharedAddresses,
    rest: Rest,
}

impl<'a> Importing<'a> {
    /// Of the Service `namespace`/`name`.
    pub fn of((namespace, name): (&'a str, &str), there: &'a There<'a>) -> Self {
        Importing {
            namespace,
            can_be: service_import::refused(name).is_none(),
            derived: names::derived_service_name(name),
            there,
            wanted: BTreeSet::new(),
            silent: BTreeSet::new(),
            addresses: SharedAddresses::default(),
            rest: Rest::default(),
        }
    }

    /// What is to be written of what is told by this Work, which asks; `existing` reads an EndpointSlice that is the Service's own.
    pub fn take(
        &mut self,
        question: &Work,
        is_cluster: impl Fn(&str) -> bool,
        existing: impl Fn(&str) -> Option<Value>,
    ) -> Writes {
        let mut writes = Writes::default();
        let at = question.metadata.namespace.as_deref();
        let is_asked = self.can_be && question.metadata.deletion_timestamp.is_none();
        let asked = at.and_then(names::cluster_of_execution_namespace).filter(|_| is_asked);
        let Some(cluster) = asked else { return writes };
        let Some(told) = told::answer(question) else {
            self.silent.insert(cluster.to_owned());
            return writes;
        };
        self.addresses.take(cluster, &told);
        let named = |slice: &str| format!("imported-{}", told::joined(cluster, slice, &is_cluster));
        for (slice, name) in told::good(&told, named) {
            if self.wanted.insert(name.clone()) {
                let wanted = imported(slice, (self.namespace, &name), &self.derived, question);
                self.place(name, wanted, &existing, &mut writes);
            }
        }
        writes
    }

    fn place(
        &mut self,
        name: String,
        wanted: Value,
        existing: impl Fn(&str) -> Option<Value>,
        writes: &mut Writes,
    ) {
        match self.there.own.get(&*name) {
            // It is made anew once it is gone.
            Some(own) if own.metadata.deletion_timestamp.is_some() => {}
            // What kind of addresses it has never changes in an EndpointSlice.
            Some(own) if wanted["addressType"] != *own.address_type => {
                self.rest.remove.insert(name);
            }
            Some(_) => writes.update.extend(existing(&name).and_then(|slice| changed(&slice, &wanted))),
            None if self.there.foreign.contains(&*name) => {
                self.rest.taken.insert(name);
            }
            None if self.there.of_others.contains(&*name) => self.rest.waits = true,
            None => writes.create.push(wanted),
        }
    }

    /// What is to be done at the end.
    pub fn end(mut self) -> Rest {
        let is_silent = |own: &SliceHead| own.origin().is_some_and(|cluster| self.silent.contains(cluster));
        let goes = self.there.own.iter().filter(|(name, own)| {
            let is_told = self.wanted.contains(**name);
            !is_told && own.metadata.deletion_timestamp.is_none() && !is_silent(own)
        });
        self.rest.remove.extend(goes.map(|(name, _)| (*name).to_owned()));
        self.rest.overlap = self.addresses.end();
        self.rest
    }
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
