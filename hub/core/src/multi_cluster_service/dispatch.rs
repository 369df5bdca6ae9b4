//! What providers tell of where a Service is reached becomes EndpointSlices in its consumers. Pure.
//!
//! In: the MultiClusterService, the clusters, what each provider's agent told, which Works there are. Out: Works to write, and Works that go. A
//! provider that told nothing yet changes nothing: what consumers have of it stays. Whatever a site tells makes objects of this one Service alone.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karmada_api::cluster::Cluster;
use karmada_api::manifest::record_managed;
use karmada_api::multi_cluster_service::{MultiClusterService, ServiceEndpoints};
use karmada_api::strings::{annotations, finalizers, labels};
use karmada_api::work::{Work, WorkSpec, WorkloadTemplate};
use karmada_api::{names, object};
use serde_json::{Value, json};

use super::{Sides, Unfit, is_exposed, takes_part, told, work_labels};

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
        clusters.iter().map(AsRef::as_ref).map(|cluster| (cluster.name(), takes_part(cluster))).collect();
    let stays = |name: &str| state.get(name).is_some_and(|fit| *fit != Err(Unfit::Leaving));
    let mut plan = Plan::default();
    let mut wanted = BTreeSet::new();
    for provider in sides.providers.iter().filter(|name| stays(name)) {
        let named = |slice: &str| told::joined(provider, slice, |name| state.contains_key(name));
        for (slice, name) in told.get(*provider).into_iter().flat_map(|told| told::good(told, named)) {
            let object = told::object(slice);
            let work_name = names::work_name("EndpointSlice", &slice.name, service.namespace());
            for consumer in sides.consumers.iter().filter(|name| *name != provider && stays(name)) {
                wanted.insert(Dispatched {
                    consumer: (*consumer).to_owned(),
                    provider: (*provider).to_owned(),
                    slice: name.clone(),
                });
                // One that is not well now keeps what it has until it is.
                if state.get(consumer) == Some(&Ok(())) {
                    plan.put.push(work(&object, (&name, &work_name), provider, service, consumer));
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
