//! EndpointSlice dispatch controller: what providers' agents tell of where a Service is reached there goes to the clusters that reach it.
//!
//! In: MultiClusterServices and their Services, the Works by which providers are asked with the answers in their status, Clusters that come, go or become well. Out: one
//! Work for each EndpointSlice and consumer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use karmada_api::binding::ResourceBinding;
use karmada_api::multi_cluster_service::{MultiClusterService, ServiceEndpoints};
use karmada_api::names;
use karmada_api::strings::{events, labels};
use karmada_api::work::Work;
use karmada_core::feature_gates::Gate;
use karmada_core::multi_cluster_service::dispatch::{self, Dispatched, Plan};
use karmada_core::multi_cluster_service::{API, is_exposed, kept_out, told};
use karmada_core::skipped_resources::SkipRules;

use crate::controller_context::ControllerContext;
use crate::events::{EventType, Reference};
use crate::fetch::{self, kinds};
use crate::indexes::owned_works::service_of;
use crate::multiclusterservice::{bindings, clusters, of_leaving, templates};
use crate::port::{Api, Change, Key, Object};
use crate::runner::{Action, Controller, Error, Source};

/// Answers of several providers mostly come together, and one that changes all the time is written to every consumer no more often.
const DEBOUNCE: Duration = Duration::from_secs(1);

/// How long to wait for a new cluster's execution namespace.
const NAMESPACE_WAIT: Duration = Duration::from_secs(1);

/// The controller.
pub struct EndpointSliceDispatch {
    shared: Arc<ControllerContext>,
}

/// What there is of one MultiClusterService.
#[derive(Default)]
struct Found {
    told: BTreeMap<String, ServiceEndpoints>,
    held: BTreeMap<Dispatched, Arc<Object>>,
}

impl EndpointSliceDispatch {
    /// A controller.
    pub fn new(shared: Arc<ControllerContext>) -> Arc<Self> {
        Arc::new(EndpointSliceDispatch { shared })
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
            let work: Work = found.parse()?;
            if let Some(dispatched) = Dispatched::of(&work) {
                all.held.insert(dispatched, found);
            } else if let Some(cluster) = names::cluster_of_execution_namespace(&at.namespace)
                && let Some(told) = told::answer(&work)
            {
                all.told.insert(cluster.to_owned(), told);
            }
        }
        Ok(all)
    }

    /// Writes what is planned. False where a cluster cannot be given anything yet.
    async fn carry_out(&self, plan: &Plan, held: &BTreeMap<Dispatched, Arc<Object>>) -> Result<bool, Error> {
        for work in plan.remove.iter().filter_map(|one| held.get(one)) {
            self.shared.remove_work(work).await?;
        }
        // One that waits for an earlier one to go is woken by that.
        self.shared.put_works(&plan.put, drop).await
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
        let Found { told, held } = self.found(key).await?;
        let there = held.keys().cloned().collect();
        let template = fetch::get_object(api, &kinds::services(api)?, &key.namespace, &key.name).await?;
        let is_there = template.is_some_and(|template| !template.deleting);
        let may_cross =
            |one: &&MultiClusterService| is_there && kept_out(one, &SkipRules::default()).is_none();
        let plan = match service.as_ref().filter(may_cross) {
            Some(service) => {
                if is_exposed(service) && !self.shared.gates.enabled(Gate::MultiClusterService) {
                    // What there is stays as it is.
                    return Ok(Action::Done);
                }
                let mut plan = dispatch::plan(service, &self.shared.clusters.all(""), &told, &there);
                let placed = self.placed(key).await?;
                let is_in = |work: &Work| {
                    let cluster =
                        work.metadata.namespace.as_deref().and_then(names::cluster_of_execution_namespace);
                    cluster.is_some_and(|cluster| placed.contains(cluster))
                };
                plan.put.retain(is_in);
                plan
            }
            None => Plan { put: Vec::new(), remove: there },
        };
        let done = self.carry_out(&plan, &held).await;
        if let (Some(service), Err(error)) = (&service, &done)
            && !error.is_of_a_race()
        {
            let about = Reference::of(&fetch::to_value(service)?);
            let (reason, words) = (events::DISPATCH_ENDPOINT_SLICE_FAILED, error.to_string());
            self.shared.recorder.record(&about, EventType::Warning, reason, &words);
        }
        Ok(if done? { Action::Done } else { Action::RequeueAfter(NAMESPACE_WAIT) })
    }
}

#[cfg(test)]
mod tests;
