//! What providers tell of where a Service is reached becomes EndpointSlices in its consumers. Pure.
//!
//! In: the MultiClusterService, the clusters, what each provider's agent told, which Works there are. Out: Works to write, and Works that go. A
//! provider that told nothing yet changes nothing: what consumers have of it stays. Whatever a site tells is bounded, and makes objects of this one
//! Service alone.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karmada_api::cluster::Cluster;
use karmada_api::manifest::record_managed;
use karmada_api::multi_cluster_service::{MemberSlice, MultiClusterService, ServiceEndpoints};
use karmada_api::strings::{annotations, finalizers, labels};
use karmada_api::work::{Work, WorkSpec, WorkloadTemplate};
use karmada_api::{names, object};
use serde_json::{Value, json};

use super::{SLICES, Sides, Unfit, fits, is_exposed, marks};

/// EndpointSlices of one Service that are taken from one provider.
const MOST: usize = 100;
/// Endpoints that an API server takes in one EndpointSlice.
const ENDPOINTS: usize = 1000;
/// Ports that an API server takes in one EndpointSlice.
const PORTS: usize = 100;
/// The longest name of an EndpointSlice in a consumer: with what the name of its Work has beside it, one that an API server takes.
const NAME: usize = 240;
/// Bytes of what one site tells of one Service.
const TOLD: usize = 128 * 1024;

/// A Work that carries an EndpointSlice to a consumer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dispatched {
    /// The consumer.
    pub consumer: String,
    /// The provider.
    pub provider: String,
    /// Name of the EndpointSlice in the consumer.
    pub slice: String,
}

impl Dispatched {
    /// Which one a Work is; `None` for a question.
    pub fn of(work: &Work) -> Option<Self> {
        let provider = work.metadata.annotations.as_ref()?.get(annotations::PROVISION_CLUSTER)?;
        let namespace = work.metadata.namespace.as_deref()?;
        Some(Dispatched {
            consumer: names::cluster_of_execution_namespace(namespace)?.to_owned(),
            provider: provider.clone(),
            slice: object::name(work.spec.workload.manifests.first()?).to_owned(),
        })
    }
}

/// What is to be done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Works as they shall be.
    pub put: Vec<Work>,
    /// Those that are to go.
    pub remove: BTreeSet<Dispatched>,
}

/// What a provider's agent told, as it stands in the status of the Work by which it was asked; `None` where it told nothing yet.
pub fn told(question: &Work) -> Option<ServiceEndpoints> {
    let status = question.status.manifest_statuses.first()?.status.as_ref()?;
    // It is multiplied by the consumers: an agent keeps to less than this.
    if status.to_string().len() > TOLD {
        return None;
    }
    serde_json::from_value(status.clone()).ok()
}

/// Where EndpointSlices are to be; `told` by provider, `held` are those that there are.
pub fn plan<C: AsRef<Cluster>>(
    service: &MultiClusterService,
    clusters: &[C],
    told: &BTreeMap<String, ServiceEndpoints>,
    held: &BTreeSet<Dispatched>,
) -> Plan {
    if !is_exposed(service) {
        return Plan { put: Vec::new(), remove: held.clone() };
    }
    let sides = Sides::of(service, clusters);
    let state: BTreeMap<&str, Result<(), Unfit>> =
        clusters.iter().map(AsRef::as_ref).map(|cluster| (cluster.name(), fits(cluster))).collect();
    let stays = |name: &str| state.get(name).is_some_and(|fit| *fit != Err(Unfit::Leaving));
    let mut plan = Plan::default();
    let mut wanted = BTreeSet::new();
    for provider in sides.providers.iter().filter(|name| stays(name)) {
        for slice in told.get(*provider).into_iter().flat_map(|told| good(&told.endpoint_slices, provider)) {
            for consumer in sides.consumers.iter().filter(|name| *name != provider && stays(name)) {
                let manifest = manifest(slice, service);
                let name = names::work_name("EndpointSlice", &slice.name, service.namespace());
                wanted.insert(Dispatched {
                    consumer: (*consumer).to_owned(),
                    provider: (*provider).to_owned(),
                    slice: name_in_consumer(provider, &slice.name),
                });
                // One that is not well now keeps what it has until it is.
                if state.get(consumer) == Some(&Ok(())) {
                    plan.put.push(work(&manifest, &name, provider, service, consumer));
                }
            }
        }
    }
    let is_known = |one: &Dispatched| told.contains_key(&one.provider);
    let may_stay = |one: &Dispatched| {
        let between = one.provider != one.consumer
            && sides.providers.contains(&*one.provider)
            && sides.consumers.contains(&*one.consumer);
        between && stays(&one.provider) && (!is_known(one) || wanted.contains(one))
    };
    plan.remove = held.iter().filter(|one| !may_stay(one)).cloned().collect();
    plan
}

/// Slices that an API server would take, of a site that may tell anything; each name once.
fn good<'a>(slices: &'a [MemberSlice], provider: &str) -> Vec<&'a MemberSlice> {
    let mut seen = BTreeSet::new();
    let is_good = |slice: &&MemberSlice| {
        let named = name_in_consumer(provider, &slice.name);
        named.len() <= NAME
            && is_subdomain(&slice.name)
            && is_subdomain(&named)
            && ["IPv4", "IPv6", "FQDN"].contains(&&*slice.address_type)
            && slice.endpoints.len() <= ENDPOINTS
            && slice.ports.len() <= PORTS
    };
    slices.iter().filter(is_good).filter(|slice| seen.insert(&slice.name)).take(MOST).collect()
}

/// Whether an API server takes this as a name: RFC 1123, a subdomain.
fn is_subdomain(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_label = |label: &[u8]| {
        let ends = label.first().into_iter().chain(label.last());
        !label.is_empty()
            && ends.copied().all(is_plain)
            && label.iter().all(|byte| is_plain(*byte) || *byte == b'-')
    };
    name.as_bytes().split(|byte| *byte == b'.').all(is_label)
}

/// An endpoint of what a site told, of known fields alone; none where nobody in another cluster could reach it.
fn endpoint(told: &Value, address_type: &str) -> Option<Value> {
    let is_reachable = |text: &str| match address_type {
        "FQDN" => is_subdomain(text),
        "IPv4" => text.parse::<Ipv4Addr>().is_ok_and(|at| {
            !(at.is_loopback() || at.is_link_local() || at.is_unspecified() || at.is_multicast())
        }),
        _ => text.parse::<Ipv6Addr>().is_ok_and(|at| {
            !(at.is_loopback() || at.is_unicast_link_local() || at.is_unspecified() || at.is_multicast())
        }),
    };
    let addresses: Vec<&str> =
        told["addresses"].as_array()?.iter().map(Value::as_str).collect::<Option<_>>()?;
    if addresses.is_empty() || !addresses.iter().all(|text| is_reachable(text)) {
        return None;
    }
    let mut endpoint = json!({"addresses": addresses});
    for condition in ["ready", "serving", "terminating"] {
        if let Some(is_so) = told["conditions"][condition].as_bool() {
            endpoint["conditions"][condition] = json!(is_so);
        }
    }
    if let Some(hostname) = told["hostname"].as_str().filter(|name| is_subdomain(name)) {
        endpoint["hostname"] = json!(hostname);
    }
    Some(endpoint)
}

/// A port of what a site told, of known fields alone.
fn port(told: &Value) -> Value {
    let fields = ["name", "protocol", "port", "appProtocol"];
    let kept = fields.into_iter().filter_map(|field| Some((field.to_owned(), told.get(field)?.clone())));
    kept.collect::<serde_json::Map<_, _>>().into()
}

fn name_in_consumer(provider: &str, slice: &str) -> String {
    format!("{provider}-{slice}")
}

/// A provider's slice as an object again.
fn manifest(slice: &MemberSlice, service: &MultiClusterService) -> Value {
    let endpoints: Vec<Value> =
        slice.endpoints.iter().filter_map(|told| endpoint(told, &slice.address_type)).collect();
    let ports: Vec<Value> = slice.ports.iter().map(port).collect();
    json!({"apiVersion": SLICES, "kind": "EndpointSlice",
        "metadata": {"name": slice.name, "namespace": service.namespace(), "labels": {labels::SLICE_SERVICE: service.name()}},
        "addressType": slice.address_type, "endpoints": endpoints, "ports": ports})
}

/// The Work that carries the EndpointSlice `slice` of a provider to a consumer. Of the provider's labels and annotations none goes along.
pub fn work(
    slice: &Value,
    work_name: &str,
    provider: &str,
    service: &MultiClusterService,
    consumer: &str,
) -> Work {
    let namespace = names::execution_namespace(consumer);
    let mut wanted = json!({"apiVersion": SLICES, "kind": "EndpointSlice",
        "metadata": {"name": name_in_consumer(provider, object::name(slice)), "namespace": service.namespace()}});
    for field in ["addressType", "endpoints", "ports"] {
        wanted[field] = slice[field].clone();
    }
    object::set_label(&mut wanted, labels::SLICE_SERVICE, service.name());
    object::set_label(&mut wanted, labels::SLICE_MANAGED_BY, labels::SLICE_DISPATCHED);
    object::set_label(&mut wanted, labels::MANAGED, labels::MANAGED_VALUE);
    object::set_annotation(&mut wanted, annotations::PROVISION_CLUSTER, provider);
    object::set_annotation(&mut wanted, annotations::WORK_NAMESPACE, &namespace);
    object::set_annotation(&mut wanted, annotations::WORK_NAME, work_name);
    object::set_annotation(&mut wanted, annotations::TEMPLATE_UID, "");
    record_managed(&mut wanted);
    let from = [(annotations::PROVISION_CLUSTER.to_owned(), provider.to_owned())];
    Work {
        api_version: "work.karmada.io/v1alpha1".to_owned(),
        kind: "Work".to_owned(),
        metadata: ObjectMeta {
            name: Some(work_name.to_owned()),
            namespace: Some(namespace),
            labels: Some(marks(service)),
            annotations: Some(from.into()),
            finalizers: Some(vec![finalizers::EXECUTION.to_owned()]),
            ..ObjectMeta::default()
        },
        spec: WorkSpec { workload: WorkloadTemplate { manifests: vec![wanted] }, ..WorkSpec::default() },
        ..Work::default()
    }
}
