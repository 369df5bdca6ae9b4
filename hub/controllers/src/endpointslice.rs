//! EndpointSlice controller: what agents tell of where an exported Service is reached becomes EndpointSlices of the hub, by which whoever imports it
//! reaches it.
//!
//! In: the Works by which agents are asked, with the answers in their status; EndpointSlices of the hub that came from clusters; Clusters that come
//! or go. Out: these EndpointSlices.

use std::sync::Arc;
use std::time::Duration;

use karmada_api::strings::events;
use karmada_api::work::Work;
use karmada_api::{names, object};
use karmada_core::service_export::{self as core, Plan, There};
use serde_json::Value;

use crate::controller_context::ControllerContext;
use crate::events::{EventType, Reference};
use crate::fetch::{self, kinds};
use crate::indexes::owned_works::{OwnedWorksIndex, export_of};
use crate::port::{Api, ApiError, Change, DeletionPropagation, Key, Object};
use crate::runner::{Action, Controller, Error, Source};

/// Answers of several clusters mostly come together, and one that changes all the time is written no more often.
const DEBOUNCE: Duration = Duration::from_secs(1);

/// How long to wait for a name that is another Service's yet.
const WAIT: Duration = Duration::from_secs(1);
/// How long until a name that somebody else's object has is looked at again: when that goes, nothing wakes anybody.
const TAKEN_WAIT: Duration = Duration::from_secs(30);

/// The controller.
pub struct EndpointSlices {
    shared: Arc<ControllerContext>,
}

/// The exported Service of an EndpointSlice of the hub.
fn of_slice(slice: &Object) -> Option<Key> {
    let name = core::service_of(&slice.labels)?;
    Some(Key { namespace: slice.key.namespace.clone(), name: name.into() })
}

/// The exported Services whose EndpointSlices may be called otherwise where a cluster of this name is: the name of one that gives them begins it.
fn renamed_by(works: &OwnedWorksIndex, cluster: &str) -> Vec<Key> {
    works.owners_of(|work| {
        let giving = names::cluster_of_execution_namespace(&work.namespace);
        let rest = giving.and_then(|giving| cluster.strip_prefix(giving));
        rest.is_some_and(|rest| rest.starts_with('-'))
    })
}

/// Wakes those whose EndpointSlices are called otherwise as a cluster came or went.
fn clusters(shared: &ControllerContext) -> Source<Key> {
    let works = shared.export_works.clone();
    shared.clusters.wakes(move |transition| match transition.before.is_some() == transition.now.is_some() {
        true => Vec::new(),
        false => renamed_by(&works, &transition.key.name),
    })
}

impl EndpointSlices {
    /// A controller.
    pub fn new(shared: Arc<ControllerContext>) -> Arc<Self> {
        Arc::new(EndpointSlices { shared })
    }

    /// What wakes this controller: an answer, or a Work that asks and goes; an EndpointSlice of the hub that came from a cluster; a Cluster that
    /// changes how those are called.
    pub fn wakes(shared: &ControllerContext) -> Vec<Source<Key>> {
        let works = Source::new("work.karmada.io/v1alpha1", "Work", |change| {
            let (Change::Applied(work) | Change::Deleted(work)) = change;
            export_of(work).into_iter().collect()
        });
        let slices = Source::new("discovery.k8s.io/v1", "EndpointSlice", |change| {
            let (Change::Applied(slice) | Change::Deleted(slice)) = change;
            of_slice(slice).into_iter().collect()
        });
        vec![works.debounced(DEBOUNCE), slices.debounced(DEBOUNCE), clusters(shared)]
    }

    fn api(&self) -> &dyn Api {
        &*self.shared.api
    }

    /// The Works that ask.
    async fn questions(&self, key: &Key) -> Result<Vec<Work>, Error> {
        let resource = kinds::works(self.api())?;
        let mut all = Vec::new();
        for at in self.shared.export_works.of(key) {
            all.extend(fetch::get::<Work>(self.api(), &resource, &at.namespace, &at.name).await?);
        }
        Ok(all)
    }

    async fn plan(&self, key: &Key) -> Result<Plan, Error> {
        let questions = self.questions(key).await?;
        let listed = self.api().list(&kinds::endpoint_slices(self.api())?, &key.namespace).await?;
        let (mut own, mut there) = (Vec::<Value>::new(), There::default());
        for slice in &listed {
            match of_slice(slice) {
                Some(of) if of == *key => own.push(slice.value()?),
                Some(_) => drop(there.of_others.insert(&*slice.key.name)),
                None => drop(there.foreign.insert(&*slice.key.name)),
            }
        }
        there.own = own.iter().collect();
        self.shared.can_tell_clusters()?;
        let is_cluster = |name: &str| self.shared.clusters.get("", name).is_some();
        Ok(core::plan((&key.namespace, &key.name), &questions, is_cluster, &there))
    }

    /// Writes what is planned, what goes last: one that gets another name is there all the while. One that is refused keeps no other from those who
    /// wait for it.
    async fn carry_out(&self, key: &Key, plan: Plan) -> Result<(), Error> {
        let resource = kinds::endpoint_slices(self.api())?;
        let mut refused = None;
        let there = plan.update.into_iter().map(|slice| (true, slice));
        for (is_there, slice) in there.chain(plan.create.into_iter().map(|slice| (false, slice))) {
            let written = match is_there {
                true => self.api().update(&resource, slice).await,
                false => self.api().create(&resource, slice).await,
            };
            match written {
                Ok(_) => {}
                Err(error @ (ApiError::Invalid(_) | ApiError::Forbidden { .. })) => {
                    refused = refused.or(Some(error));
                }
                Err(error) => return Err(error.into()),
            }
        }
        for name in plan.remove {
            let at = Key { namespace: key.namespace.clone(), name: name.into() };
            match self.api().delete(&resource, &at, "", DeletionPropagation::Background).await {
                Ok(()) | Err(ApiError::NotFound(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        refused.map_or(Ok(()), |error| Err(error.into()))
    }

    async fn tell(&self, key: &Key, words: &str) -> Result<(), Error> {
        let resource = kinds::service_exports(self.api())?;
        let export: Option<Value> = fetch::get(self.api(), &resource, &key.namespace, &key.name).await?;
        if let Some(export) = export.filter(|export| !object::deleting(export)) {
            let (about, reason) = (Reference::of(&export), events::DISPATCH_ENDPOINT_SLICE_FAILED);
            self.shared.recorder.record(&about, EventType::Warning, reason, words);
        }
        Ok(())
    }
}

#[async_trait::async_trait]
impl Controller for EndpointSlices {
    type Key = Key;

    fn name(&self) -> &'static str {
        "endpointslice-controller"
    }

    async fn reconcile(&self, key: &Key) -> Result<Action, Error> {
        let plan = self.plan(key).await?;
        let (waits, is_taken) = (plan.waits, !plan.taken.is_empty());
        if is_taken {
            self.tell(key, &core::name_is_taken(&plan.taken)).await?;
        }
        if let Err(error) = self.carry_out(key, plan).await {
            if !error.is_of_a_race() {
                self.tell(key, &error.to_string()).await?;
            }
            return Err(error);
        }
        Ok(match (waits, is_taken) {
            (true, _) => Action::RequeueAfter(WAIT),
            (_, true) => Action::RequeueAfter(TAKEN_WAIT),
            _ => Action::Done,
        })
    }
}

#[cfg(test)]
mod tests;
