//! EndpointSlice controller: what agents tell of where an exported Service is reached becomes EndpointSlices of the hub, by which whoever imports it
//! reaches it.
//!
//! In: the Works by which agents are asked, with the answers in their status; EndpointSlices of the hub that came from clusters; Clusters that come
//! or go. Out: these EndpointSlices; a warning where clusters share addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use karmada_api::strings::events;
use karmada_api::work::Work;
use karmada_api::{names, object};
use karmada_core::service_export::{self as core, Importing, Rest, There, Writes};
use serde_json::Value;

use crate::controller_context::ControllerContext;
use crate::events::{EventType, Reference};
use crate::fetch::{self, kinds};
use crate::indexes::owned_works::{OwnedWorksIndex, export_of};
use crate::overlap_warnings::OverlapWarnings;
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
    overlaps: OverlapWarnings,
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
        Arc::new(EndpointSlices { shared, overlaps: OverlapWarnings::default() })
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

    /// Writes what clusters told, one after the other, and then removes what is told no more: one that gets another name is there all the while. One
    /// that is refused keeps no other from those who wait for it. Returns what could not be placed.
    async fn import(&self, key: &Key) -> Result<Rest, Error> {
        let listed = self.api().list(&kinds::endpoint_slices(self.api())?, &key.namespace).await?;
        let (mut own, mut there) = (BTreeMap::<&str, &Object>::new(), There::default());
        for slice in &listed {
            let name = &*slice.key.name;
            match of_slice(slice) {
                Some(of) if of == *key => {
                    own.insert(name, slice);
                    there.own.insert(name, slice.parse()?);
                }
                Some(_) => drop(there.of_others.insert(name)),
                None => drop(there.foreign.insert(name)),
            }
        }
        self.shared.can_tell_clusters()?;
        let is_cluster = |name: &str| self.shared.clusters.get("", name).is_some();
        let existing = |name: &str| own.get(name)?.value().ok();
        let (works, mut refused) = (kinds::works(self.api())?, None);
        let mut importing = Importing::of((&key.namespace, &key.name), &there);
        for at in self.shared.export_works.of(key) {
            let question = fetch::get::<Work>(self.api(), &works, &at.namespace, &at.name).await?;
            let Some(question) = question else { continue };
            let writes = importing.take(&question, is_cluster, existing);
            self.write(writes, &mut refused).await?;
        }
        let rest = importing.end();
        self.remove(key, &rest.remove).await?;
        if !rest.taken.is_empty() {
            let words = core::name_is_taken(&rest.taken);
            self.tell(key, events::DISPATCH_ENDPOINT_SLICE_FAILED, &words).await?;
        }
        if there.own.is_empty() && rest.overlap.clusters.is_empty() {
            self.overlaps.forget(key);
        } else if self.overlaps.is_news(key, &rest.overlap) {
            self.tell(key, events::CLUSTER_NETWORKS_OVERLAP, &rest.overlap.words()).await?;
        }
        refused.map_or(Ok(rest), |error: ApiError| Err(error.into()))
    }

    async fn write(&self, writes: Writes, refused: &mut Option<ApiError>) -> Result<(), Error> {
        let resource = kinds::endpoint_slices(self.api())?;
        let there = writes.update.into_iter().map(|slice| (true, slice));
        for (is_there, slice) in there.chain(writes.create.into_iter().map(|slice| (false, slice))) {
            let written = match is_there {
                true => self.api().update(&resource, slice).await,
                false => self.api().create(&resource, slice).await,
            };
            match written {
                Ok(_) => {}
                Err(error @ (ApiError::Invalid(_) | ApiError::Forbidden { .. })) => {
                    refused.get_or_insert(error);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    async fn remove(&self, key: &Key, names: &BTreeSet<String>) -> Result<(), Error> {
        let resource = kinds::endpoint_slices(self.api())?;
        for name in names {
            let at = Key { namespace: key.namespace.clone(), name: name.as_str().into() };
            match self.api().delete(&resource, &at, "", DeletionPropagation::Background).await {
                Ok(()) | Err(ApiError::NotFound(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    async fn tell(&self, key: &Key, reason: &str, words: &str) -> Result<(), Error> {
        let resource = kinds::service_exports(self.api())?;
        let export: Option<Value> = fetch::get(self.api(), &resource, &key.namespace, &key.name).await?;
        if let Some(export) = export.filter(|export| !object::deleting(export)) {
            self.shared.recorder.record(&Reference::of(&export), EventType::Warning, reason, words);
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
        let rest = match self.import(key).await {
            Ok(rest) => rest,
            Err(error) => {
                if !error.is_of_a_race() {
                    self.tell(key, events::DISPATCH_ENDPOINT_SLICE_FAILED, &error.to_string()).await?;
                }
                return Err(error);
            }
        };
        Ok(match (rest.waits, !rest.taken.is_empty()) {
            (true, _) => Action::RequeueAfter(WAIT),
            (_, true) => Action::RequeueAfter(TAKEN_WAIT),
            _ => Action::Done,
        })
    }
}

#[cfg(test)]
mod tests;
