//! EndpointSlice dispatch controller: what providers' agents tell of where a Service is reached there goes to the clusters that reach it.
//!
//! In: MultiClusterServices and their Services, the Works by which providers are asked with the answers in their status, Clusters that come, go or become well. Out: one
//! Work for each EndpointSlice and consumer; a warning where providers share addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use karmada_api::binding::ResourceBinding;
use karmada_api::multi_cluster_service::{MultiClusterService, ServiceEndpoints};
use karmada_api::names;
use karmada_api::strings::{events, labels};
use karmada_api::work::Work;
use karmada_core::feature_gates::Gate;
use karmada_core::multi_cluster_service::dispatch::{self, Dispatched, ServiceClusters, WorkHead};
use karmada_core::multi_cluster_service::shared_addresses::SharedAddresses;
use karmada_core::multi_cluster_service::{API, is_exposed, kept_out, told};

use crate::controller_context::{ControllerContext, Works};
use crate::events::{EventType, Reference};
use crate::fetch::{self, kinds};
use crate::indexes::owned_works::service_of;
use crate::multiclusterservice::{bindings, clusters, of_leaving, templates};
use crate::overlap_warnings::OverlapWarnings;
use crate::port::{Api, ApiError, Change, Key, Object};
use crate::runner::{Action, Controller, Error, Source};

/// Answers of several providers mostly come together, and one that changes all the time is written to every consumer no more often.
const DEBOUNCE: Duration = Duration::from_secs(1);

/// How long to wait for a new cluster's execution namespace.
const NAMESPACE_WAIT: Duration = Duration::from_secs(1);

/// The controller.
pub struct EndpointSliceDispatch {
    shared: Arc<ControllerContext>,
    overlaps: OverlapWarnings,
}

/// What there is of one MultiClusterService, unread: as many Works as pairs of clusters.
#[derive(Default)]
struct Found {
    /// The Works that ask, with the answers, by provider.
    asked: BTreeMap<String, Arc<Object>>,
    held: BTreeMap<Dispatched, Held>,
}

/// A Work that carries an EndpointSlice.
struct Held {
    work: Arc<Object>,
    bytes: usize,
}

/// What a provider told; `None` where it told nothing yet.
fn told(question: &Object) -> Result<Option<ServiceEndpoints>, Error> {
    Ok(told::answer(&question.parse::<Work>()?))
}

impl EndpointSliceDispatch {
    /// A controller.
    pub fn new(shared: Arc<ControllerContext>) -> Arc<Self> {
        Arc::new(EndpointSliceDispatch { shared, overlaps: OverlapWarnings::default() })
    }

    /// What wakes this controller: a MultiClusterService, and its Service; an answer of a provider; a Work of it that goes; a Cluster that may be one of its.
    pub fn wakes(shared: &ControllerContext) -> Vec<Source<Key>> {
        let works = Source::new("work.karmada.io/v1alpha1", "Work", |change| {
            let (Change::Applied(work) | Change::Deleted(work)) = change;
            let is_question = work.labels.contains_key(labels::MULTI_CLUSTER_SERVICE_ID);
            let key = if is_question { service_of(work) } else { of_leaving(change) };
            key.into_iter().collect()
        });
        let own = Source::own(API, "MultiClusterService").but_status();
        vec![own, templates(shared), bindings(), works.debounced(DEBOUNCE), clusters(shared)]
    }

    async fn found(&self, key: &Key) -> Result<Found, Error> {
        let (api, mut all): (&dyn Api, _) = (&*self.shared.api, Found::default());
        let resource = kinds::works(api)?;
        for at in self.shared.service_works.of(key) {
            let Some(found) = fetch::get_object(api, &resource, &at.namespace, &at.name).await? else {
                continue;
            };
            if found.deleting {
                continue;
            }
            if found.labels.contains_key(labels::MULTI_CLUSTER_SERVICE_ID) {
                if let Some(cluster) = names::cluster_of_execution_namespace(&at.namespace) {
                    all.asked.insert(cluster.to_owned(), found);
                }
                continue;
            }
            let json = found.json();
            let head: WorkHead =
                serde_json::from_slice(&json).map_err(|error| ApiError::Invalid(error.to_string()))?;
            if let Some(dispatched) = Dispatched::of(head) {
                all.held.insert(dispatched, Held { work: found, bytes: json.len() });
            }
        }
        Ok(all)
    }

    /// Gives what providers told to those consumers that have the Service, and takes away what is nobody's to have any more. False where a cluster
    /// cannot be given anything yet.
    async fn dispatch(&self, key: &Key, service: &MultiClusterService, found: &Found) -> Result<bool, Error> {
        let clusters = self.shared.clusters.all("");
        let crossing = ServiceClusters::of(service, &clusters);
        let (mut outlines, mut addresses) = (BTreeMap::new(), SharedAddresses::default());
        for (provider, question) in &found.asked {
            if let Some(told) = told(question)? {
                outlines.insert(provider.clone(), crossing.outline(provider, &told));
                addresses.take(provider, &told);
            }
        }
        let overlap = addresses.end();
        if self.overlaps.is_news(key, &overlap) {
            self.warn(service, events::CLUSTER_NETWORKS_OVERLAP, &overlap.words())?;
        }
        let held = found.held.iter().map(|(one, held)| (one.clone(), held.bytes)).collect();
        let plan = crossing.plan(&outlines, &held);
        if !plan.left_out.is_empty() {
            let words = dispatch::too_much(&plan.left_out);
            self.warn(service, events::DISPATCH_ENDPOINT_SLICE_FAILED, &words)?;
        }
        self.remove(found, &plan.remove).await?;
        let placed = self.placed(key).await?;
        let has_service = |cluster: &str| placed.contains(cluster);
        // Each answer is read again when its turn comes: all at once would be too much.
        let answers = plan.give.iter().filter_map(|provider| {
            let told = told(found.asked.get(provider)?).ok().flatten()?;
            Some((provider, told))
        });
        let works: Works<'_> =
            Box::new(answers.flat_map(|(provider, told)| crossing.works(provider, &told, has_service)));
        // One that waits for an earlier one to go is woken by that.
        self.shared.put_works(works, drop).await
    }

    async fn remove(&self, found: &Found, gone: &BTreeSet<Dispatched>) -> Result<(), Error> {
        for held in gone.iter().filter_map(|one| found.held.get(one)) {
            self.shared.remove_work(&held.work).await?;
        }
        Ok(())
    }

    fn warn(&self, service: &MultiClusterService, reason: &str, words: &str) -> Result<(), Error> {
        let about = Reference::of(&fetch::to_value(service)?);
        self.shared.recorder.record(&about, EventType::Warning, reason, words);
        Ok(())
    }

    /// The clusters that the Service itself is placed in: without it, they would reach through another of its name.
    async fn placed(&self, key: &Key) -> Result<BTreeSet<String>, Error> {
        let api: &dyn Api = &*self.shared.api;
        let resource = kinds::bindings(api, &key.namespace)?;
        let name = names::binding_name("Service", &key.name);
        let binding: Option<ResourceBinding> = fetch::get(api, &resource, &key.namespace, &name).await?;
        let targets = binding.into_iter().flat_map(|binding| binding.spec.clusters);
        Ok(targets.map(|target| target.name).collect())
    }
}

#[async_trait::async_trait]
impl Controller for EndpointSliceDispatch {
    type Key = Key;

    fn name(&self) -> &'static str {
        "endpointslice-dispatch-controller"
    }

    async fn reconcile(&self, key: &Key) -> Result<Action, Error> {
        let api: &dyn Api = &*self.shared.api;
        let resource = kinds::multi_cluster_services(api)?;
        let service: Option<MultiClusterService> =
            fetch::get(api, &resource, &key.namespace, &key.name).await?;
        let found = self.found(key).await?;
        let template = fetch::get_object(api, &kinds::services(api)?, &key.namespace, &key.name).await?;
        let is_there = template.is_some_and(|template| !template.deleting);
        let may_cross =
            |one: &&MultiClusterService| is_there && kept_out(one, &self.shared.options.skip).is_none();
        let done = match service.as_ref().filter(may_cross) {
            // What there is stays as it is.
            Some(service) if is_exposed(service) && !self.shared.gates.enabled(Gate::MultiClusterService) => {
                return Ok(Action::Done);
            }
            Some(service) => self.dispatch(key, service, &found).await,
            None => {
                self.overlaps.forget(key);
                self.remove(&found, &found.held.keys().cloned().collect()).await.map(|()| true)
            }
        };
        if let (Some(service), Err(error)) = (&service, &done)
            && !error.is_of_a_race()
        {
            self.warn(service, events::DISPATCH_ENDPOINT_SLICE_FAILED, &error.to_string())?;
        }
        Ok(if done? { Action::Done } else { Action::RequeueAfter(NAMESPACE_WAIT) })
    }
}

#[cfg(test)]
mod tests;
