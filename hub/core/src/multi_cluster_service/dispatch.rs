//! What providers tell of where a Service is reached becomes EndpointSlices in its consumers. Pure.
//!
//! In: the MultiClusterService, the clusters, what each provider's agent told, which Works there are. Out: whose EndpointSlices are given, the Works
//! that carry them, one at a time, and Works that go. A provider that told nothing yet changes nothing: what consumers have of it stays. Whatever a
//! site tells makes objects of this one Service alone.
//!
//! There are as many Works as pairs of clusters: what is decided is decided by names and sizes, and no more than one provider's answer and one
//! Work need be in memory at once. What all Works of one MultiClusterService take together is bounded.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karmada_api::cluster::Cluster;
use karmada_api::manifest::record_managed;
use karmada_api::multi_cluster_service::{MultiClusterService, ServiceEndpoints};
use karmada_api::strings::{annotations, finalizers, labels};
use karmada_api::work::{Work, WorkSpec, WorkloadTemplate};
use karmada_api::{names, object};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Sides, Unfit, is_exposed, takes_part, told, work_labels};
use crate::object_size;

/// Bytes that the Works of one MultiClusterService may take together: a thousand consumers of 500 endpoints in each of ten providers.
pub const MOST: usize = 512 << 20;

/// Bytes of a Work beside the EndpointSlice that it carries.
const AROUND: usize = 2 << 10;

/// Providers that are named where more are meant.
const NAMED: usize = 10;

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

/// What is read of a Work to know which one it is: not what it carries.
#[derive(Debug, Deserialize)]
pub struct WorkHead {
    metadata: HeadMetadata,
    spec: HeadSpec,
}

#[derive(Debug, Deserialize)]
struct HeadMetadata {
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: String,
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Deserialize)]
struct HeadSpec {
    workload: HeadWorkload,
}

#[derive(Debug, Deserialize)]
struct HeadWorkload {
    #[serde(default)]
    manifests: Vec<HeadManifest>,
}

#[derive(Debug, Deserialize)]
struct HeadManifest {
    metadata: HeadMetadata,
}

impl Dispatched {
    /// Which one a Work is; `None` for a question.
    pub fn of(work: WorkHead) -> Option<Self> {
        Some(Dispatched {
            consumer: names::cluster_of_execution_namespace(&work.metadata.namespace)?.to_owned(),
            provider: work.metadata.annotations?.remove(annotations::PROVISION_CLUSTER)?,
            slice: work.spec.workload.manifests.into_iter().next()?.metadata.name,
        })
    }
}

/// What a provider tells, in brief.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outline {
    /// Names of its EndpointSlices in consumers.
    slices: BTreeSet<String>,
    /// Bytes of the Works that carry them to one consumer.
    bytes: usize,
}

/// What is to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Providers whose EndpointSlices are to be with their consumers.
    pub give: BTreeSet<String>,
    /// Providers whose EndpointSlices are with nobody, as all together would be too much.
    pub left_out: BTreeSet<String>,
    /// Works that are to go.
    pub remove: BTreeSet<Dispatched>,
}

/// The clusters between which a Service is to be reached, as they are now.
pub struct ServiceClusters<'a> {
    service: &'a MultiClusterService,
    sides: Sides<'a>,
    state: BTreeMap<&'a str, Result<(), Unfit>>,
}

impl<'a> ServiceClusters<'a> {
    /// Of this Service.
    pub fn of<C: AsRef<Cluster>>(service: &'a MultiClusterService, clusters: &'a [C]) -> Self {
        let state = clusters.iter().map(AsRef::as_ref).map(|cluster| (cluster.name(), takes_part(cluster)));
        ServiceClusters { service, sides: Sides::of(service, clusters), state: state.collect() }
    }

    fn stays(&self, cluster: &str) -> bool {
        self.state.get(cluster).is_some_and(|fit| *fit != Err(Unfit::Leaving))
    }

    fn named(&self, provider: &str, slice: &str) -> String {
        told::joined(provider, slice, |name| self.state.contains_key(name))
    }

    /// Those who are to have what a provider has.
    fn consumers(&self, provider: &str) -> impl Iterator<Item = &'a str> {
        self.sides.consumers.iter().copied().filter(move |name| *name != provider && self.stays(name))
    }

    /// What a provider's answer comes to.
    pub fn outline(&self, provider: &str, told: &ServiceEndpoints) -> Outline {
        let mut outline = Outline::default();
        for (slice, name) in told::good(told, |slice| self.named(provider, slice)) {
            outline.bytes += AROUND + object_size::bytes(&told::object(slice));
            outline.slices.insert(name);
        }
        outline
    }

    /// Whose EndpointSlices are given and which Works go; `told` by provider, `held` are the Works that there are, with their bytes. Where all would
    /// be too much, those of the providers that have the least are given: one site that tells much is in nobody's way.
    pub fn plan(&self, told: &BTreeMap<String, Outline>, held: &BTreeMap<Dispatched, usize>) -> Plan {
        if !is_exposed(self.service) {
            return Plan { remove: held.keys().cloned().collect(), ..Plan::default() };
        }
        let silent = held.iter().filter(|(one, _)| !told.contains_key(&one.provider) && self.is_between(one));
        let mut taken: usize = silent.map(|(_, bytes)| *bytes).sum();
        let provides = |provider: &str| self.sides.providers.contains(provider) && self.stays(provider);
        let mut costs: Vec<(usize, &String)> = told
            .iter()
            .filter(|(provider, _)| provides(provider))
            .map(|(provider, told)| (told.bytes.saturating_mul(self.consumers(provider).count()), provider))
            .collect();
        costs.sort_unstable();
        let mut plan = Plan::default();
        for (cost, provider) in costs {
            taken = taken.saturating_add(cost);
            let side = if taken <= MOST { &mut plan.give } else { &mut plan.left_out };
            side.insert(provider.clone());
        }
        let is_wanted = |one: &Dispatched| match told.get(&one.provider) {
            None => true,
            Some(told) => {
                plan.give.contains(&one.provider)
                    && told.slices.contains(&one.slice)
                    && self.stays(&one.consumer)
            }
        };
        let goes = held.keys().filter(|one| !(self.is_between(one) && is_wanted(one)));
        plan.remove = goes.cloned().collect();
        plan
    }

    /// Whether a Work is between clusters of the two sides, of which the provider stays.
    fn is_between(&self, one: &Dispatched) -> bool {
        one.provider != one.consumer
            && self.sides.providers.contains(&*one.provider)
            && self.sides.consumers.contains(&*one.consumer)
            && self.stays(&one.provider)
    }

    /// The Works that carry what a provider told to those consumers that are well and have the Service, each made when it is asked for. One that is
    /// not well now keeps what it has until it is.
    pub fn works<'b, F: Fn(&str) -> bool + Copy>(
        &'b self,
        provider: &'b str,
        told: &ServiceEndpoints,
        has_service: F,
    ) -> impl Iterator<Item = Work> + use<'a, 'b, F> {
        let rendered =
            told::good(told, |slice| self.named(provider, slice)).into_iter().map(|(slice, name)| {
                let work_name = names::work_name("EndpointSlice", &slice.name, self.service.namespace());
                (told::object(slice), name, work_name)
            });
        let rendered: Vec<(Value, String, String)> = rendered.collect();
        let is_given =
            move |consumer: &&str| self.state.get(consumer) == Some(&Ok(())) && has_service(consumer);
        rendered.into_iter().flat_map(move |(object, name, work_name)| {
            self.consumers(provider)
                .filter(is_given)
                .map(move |consumer| work(&object, (&name, &work_name), provider, self.service, consumer))
        })
    }
}

/// What is told of providers that are left out.
pub fn too_much(left_out: &BTreeSet<String>) -> String {
    let named: Vec<&str> = left_out.iter().take(NAMED).map(String::as_str).collect();
    let others = if left_out.len() > NAMED { " and others" } else { "" };
    format!(
        "EndpointSlices of {} clusters ({}{others}) are given to no consumer: with them, the Works of this MultiClusterService would take more than {} MiB; name fewer providerClusters or consumerClusters",
        left_out.len(),
        named.join(", "),
        MOST >> 20
    )
}

/// The Work of this name that carries a provider's EndpointSlice to a consumer, where it is called `name`. Of the provider's labels and
/// annotations none goes along.
fn work(
    slice: &Value,
    (name, work_name): (&str, &str),
    provider: &str,
    service: &MultiClusterService,
    consumer: &str,
) -> Work {
    let namespace = names::execution_namespace(consumer);
    let mut wanted = slice.clone();
    wanted["metadata"] = json!({"name": name, "namespace": service.namespace()});
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
            labels: Some(work_labels(service)),
            annotations: Some(from.into()),
            finalizers: Some(vec![finalizers::EXECUTION.to_owned()]),
            ..ObjectMeta::default()
        },
        spec: WorkSpec { workload: WorkloadTemplate { manifests: vec![wanted] }, ..WorkSpec::default() },
        ..Work::default()
    }
}
