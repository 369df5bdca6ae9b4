//! MultiClusterService controller: a Service that crosses clusters is placed in those that provide and those that reach it, and the agents of those that
//! provide it are asked where it is reached there.
//!
//! In: MultiClusterServices, their Services and bindings, Clusters that come, go or become well. Out: marks on the Service, its binding, one Work
//! that asks for each provider, a condition.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use karmada_api::binding::ResourceBinding;
use karmada_api::cluster::Cluster;
use karmada_api::multi_cluster_service::MultiClusterService;
use karmada_api::strings::{events, finalizers, labels};
use karmada_api::{names, object};
use karmada_core::feature_gates::Gate;
use karmada_core::multi_cluster_service::{self as core, API, Sides, Unfit};
use karmada_core::template_ownership;
use serde_json::Value;

use crate::controller_context::{ControllerContext, Works};
use crate::events::{EventType, Reference};
use crate::fetch::{self, kinds};
use crate::indexes::owned_works::service_of;
use crate::port::{Api, Change, Key, Object};
use crate::runner::{Action, Controller, Error, Source};
use crate::typed::{Transition, Typed};

/// How long to wait for what goes or comes without telling.
const WAIT: Duration = Duration::from_secs(1);

/// What stands in a MultiClusterService where the gate is closed.
const DISABLED: &str =
    "nothing crosses clusters: the hub runs without --feature-gates MultiClusterService=true";

/// The controller.
pub struct MultiClusterServices {
    shared: Arc<ControllerContext>,
}

/// A cluster's way of taking part: whether it is there, and fit.
fn standing(cluster: &Option<Arc<Cluster>>) -> Option<Result<(), Unfit>> {
    cluster.as_ref().map(|cluster| core::takes_part(cluster))
}

/// Whether there is anything to do for a cluster that took part in one way and does in another now. One that is not well any more keeps what it
/// has, and is given what came meanwhile once it is well.
fn matters(before: Option<Result<(), Unfit>>, now: Option<Result<(), Unfit>>) -> bool {
    before != now && !(before == Some(Ok(())) && now == Some(Err(Unfit::NotReady)))
}

/// Whether a cluster may be among those of a MultiClusterService.
fn may_mean(service: &MultiClusterService, cluster: &str) -> bool {
    let spec = &service.spec;
    [&spec.provider_clusters, &spec.consumer_clusters]
        .into_iter()
        .any(|side| side.is_empty() || side.iter().any(|one| one.name == cluster))
}

/// Whether what a MultiClusterService dispatches may be called otherwise where a cluster of this name is: one of its providers' names begins it.
fn may_rename(service: &MultiClusterService, cluster: &str) -> bool {
    let begins = |provider: &str| cluster.strip_prefix(provider).is_some_and(|rest| rest.starts_with('-'));
    service.spec.provider_clusters.iter().any(|provider| begins(&provider.name))
}

/// The MultiClusterServices that are to look at a cluster which came, went, or takes part otherwise now.
fn woken_by(services: &Typed<MultiClusterService>, transition: &Transition<Cluster>) -> Vec<Key> {
    if !matters(standing(&transition.before), standing(&transition.now)) {
        return Vec::new();
    }
    let comes_or_goes = transition.before.is_some() != transition.now.is_some();
    let concerns = |service: &MultiClusterService| {
        may_mean(service, &transition.key.name)
            || (comes_or_goes && may_rename(service, &transition.key.name))
    };
    let all = services.everywhere().into_iter();
    all.filter(|(_, service)| concerns(service)).map(|(key, _)| key).collect()
}

/// Wakes the MultiClusterServices that a cluster concerns.
pub(crate) fn clusters(shared: &ControllerContext) -> Source<Key> {
    let services = shared.multi_cluster_services.clone();
    shared.clusters.wakes(move |transition| woken_by(&services, transition))
}

/// Wakes the MultiClusterService of a Service that came, changed or went.
pub(crate) fn templates(shared: &ControllerContext) -> Source<Key> {
    let services = shared.multi_cluster_services.clone();
    let of = move |change: &Change| {
        let (Change::Applied(template) | Change::Deleted(template)) = change;
        let at = &template.key;
        services.get(&at.namespace, &at.name).map(|_| at.clone()).into_iter().collect()
    };
    Source::new("v1", "Service", of).but_status()
}

/// The MultiClusterService of a Work that goes, or went.
pub(crate) fn of_leaving(change: &Change) -> Option<Key> {
    match change {
        Change::Deleted(work) => service_of(work),
        Change::Applied(work) => service_of(work).filter(|_| work.deleting),
    }
}

/// The MultiClusterService of a binding that one made.
fn of_binding(binding: &Object) -> Option<Key> {
    let by = binding.labels.get(labels::BINDING_MANAGED_BY).map(String::as_str);
    let name =
        binding.key.name.strip_suffix("-service").filter(|_| by == Some(labels::BY_MULTI_CLUSTER_SERVICE))?;
    Some(Key { namespace: binding.key.namespace.clone(), name: name.into() })
}

/// Wakes the MultiClusterService of a binding that came, changed or went.
pub(crate) fn bindings() -> Source<Key> {
    let of = |change: &Change| {
        let (Change::Applied(binding) | Change::Deleted(binding)) = change;
        of_binding(binding).into_iter().collect()
    };
    Source::new("work.karmada.io/v1alpha2", "ResourceBinding", of).but_status()
}

fn about(service: &MultiClusterService) -> Reference {
    Reference {
        api_version: API.to_owned(),
        kind: "MultiClusterService".to_owned(),
        namespace: service.namespace().to_owned(),
        name: service.name().to_owned(),
        uid: service.metadata.uid.clone().unwrap_or_default(),
    }
}

impl MultiClusterServices {
    /// A controller.
    pub fn new(shared: Arc<ControllerContext>) -> Arc<Self> {
        Arc::new(MultiClusterServices { shared })
    }

    /// What wakes this controller: a MultiClusterService; the Service and the binding of one; a Work of it that goes; a Cluster that may be one of its.
    pub fn wakes(shared: &ControllerContext) -> Vec<Source<Key>> {
        let works = Source::new("work.karmada.io/v1alpha1", "Work", |change| {
            of_leaving(change).into_iter().collect()
        });
        let own = Source::own(API, "MultiClusterService").but_status();
        vec![own, templates(shared), bindings(), works.but_status(), clusters(shared)]
    }

    fn api(&self) -> &dyn Api {
        &*self.shared.api
    }

    /// The Works that ask providers, by cluster.
    async fn questions(&self, key: &Key) -> Result<BTreeMap<String, Arc<Object>>, Error> {
        let resource = kinds::works(self.api())?;
        let name = core::question_name(&key.namespace, &key.name);
        let mut held = BTreeMap::new();
        for at in self.shared.service_works.of(key).iter().filter(|at| at.name.starts_with(&*name)) {
            let Some(found) = fetch::get_object(self.api(), &resource, &at.namespace, &at.name).await? else {
                continue;
            };
            let is_question = found.labels.contains_key(labels::MULTI_CLUSTER_SERVICE_ID);
            if let Some(cluster) =
                names::cluster_of_execution_namespace(&at.namespace).filter(|_| is_question)
            {
                held.insert(cluster.to_owned(), found);
            }
        }
        Ok(held)
    }

    /// Asks the providers, and nobody else. False where one cannot be asked yet.
    async fn ask(&self, key: &Key, service: &MultiClusterService) -> Result<bool, Error> {
        self.shared.can_tell_clusters()?;
        let held = self.questions(key).await?;
        let clusters = self.shared.clusters.all("");
        let plan = core::questions(service, &clusters, held.keys().map(String::as_str));
        for cluster in &plan.remove {
            if let Some(work) = held.get(cluster) {
                self.shared.remove_work(work).await?;
            }
        }
        // One that waits for an earlier one to go is woken by that.
        let asking: Works<'_> = Box::new(plan.ask.iter().map(|cluster| core::question(service, cluster)));
        self.shared.put_works(asking, drop).await
    }

    /// The Service of a MultiClusterService, where it is there.
    async fn template(&self, key: &Key) -> Result<Option<Value>, Error> {
        let resource = kinds::services(self.api())?;
        let found: Option<Value> = fetch::get(self.api(), &resource, &key.namespace, &key.name).await?;
        Ok(found.filter(|found| !object::deleting(found)))
    }

    /// Places the Service in the clusters of both sides. False where a binding of an earlier Service is to go first; words where its name is
    /// another object's.
    async fn place(
        &self,
        service: &MultiClusterService,
        template: Value,
    ) -> Result<Result<bool, String>, Error> {
        let template = match core::claimed(&template, service) {
            Some(wanted) => self.api().update(&kinds::services(self.api())?, wanted).await?.value()?,
            None => template,
        };
        let resource = kinds::bindings(self.api(), service.namespace())?;
        let name = core::binding_name(service);
        let existing: Option<ResourceBinding> =
            fetch::get(self.api(), &resource, service.namespace(), &name).await?;
        let is_of_a_service = |existing: &ResourceBinding| {
            let placed = &existing.spec.resource;
            (&*placed.api_version, &*placed.kind) == ("v1", "Service")
        };
        if existing.as_ref().is_some_and(|existing| !is_of_a_service(existing)) {
            return Ok(Err(core::name_is_taken(&name)));
        }
        let goes_first = |existing: &ResourceBinding| {
            existing.metadata.deletion_timestamp.is_some()
                || template_ownership::is_of_another(existing, &template)
        };
        if existing.as_ref().is_some_and(goes_first) {
            return Ok(Ok(false));
        }
        let clusters = self.shared.clusters.all("");
        let both = Sides::of(service, &clusters).both();
        if let Some(wanted) = core::binding(service, &template, &both, existing.as_ref()) {
            let wanted = fetch::to_value(&wanted)?;
            match existing {
                Some(_) => self.api().update(&resource, wanted).await?,
                None => self.api().create(&resource, wanted).await?,
            };
        }
        Ok(Ok(true))
    }

    async fn expose(
        &self,
        key: &Key,
        service: &MultiClusterService,
    ) -> Result<(bool, Result<(), String>), Error> {
        let clusters = self.shared.clusters.all("");
        for (reason, words) in core::complaints(service, &clusters) {
            self.shared.recorder.record(&about(service), EventType::Warning, reason, &words);
        }
        let asked = self.ask(key, service).await?;
        match self.template(key).await? {
            Some(template) => Ok(match self.place(service, template).await? {
                Ok(placed) => (placed && asked, Ok(())),
                Err(words) => (asked, Err(words)),
            }),
            None => Ok((asked, Err(core::not_found(service.name())))),
        }
    }

    /// Takes back what the MultiClusterService said. The Service and its binding stay as they are, and policies may have them.
    async fn retract(&self, key: &Key, service: &MultiClusterService) -> Result<(), Error> {
        for work in self.questions(key).await?.values() {
            self.shared.remove_work(work).await?;
        }
        let binding = Key { namespace: key.namespace.clone(), name: core::binding_name(service).into() };
        for (resource, at) in
            [(kinds::bindings(self.api(), &key.namespace)?, &binding), (kinds::services(self.api())?, key)]
        {
            let found: Option<Value> = fetch::get(self.api(), &resource, &at.namespace, &at.name).await?;
            if let Some(wanted) = found.as_ref().and_then(|found| core::released(found, service)) {
                self.api().update(&resource, wanted).await?;
            }
        }
        Ok(())
    }

    /// Whether a Work of it is there that is not on its way out.
    async fn has_works(&self, key: &Key) -> Result<bool, Error> {
        let resource = kinds::works(self.api())?;
        for at in self.shared.service_works.of(key) {
            let found = fetch::get_object(self.api(), &resource, &at.namespace, &at.name).await?;
            if found.is_some_and(|work| !work.deleting) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The finalizer is there, or is not.
    async fn hold(&self, service: Value, held: bool) -> Result<Value, Error> {
        let mut wanted = service;
        let changed = if held {
            object::add_finalizer(&mut wanted, finalizers::MULTI_CLUSTER_SERVICE)
        } else {
            object::remove_finalizer(&mut wanted, finalizers::MULTI_CLUSTER_SERVICE)
        };
        if !changed {
            return Ok(wanted);
        }
        let resource = kinds::multi_cluster_services(self.api())?;
        Ok(self.api().update(&resource, wanted).await?.value()?)
    }

    async fn tell(&self, found: Value, came: Result<(), &str>) -> Result<(), Error> {
        let mut service = read(&found)?;
        let Some(conditions) = core::conditions(&service, came, (self.shared.clock)()) else { return Ok(()) };
        let (kind, reason, words) = match came {
            Ok(()) => (EventType::Normal, events::SYNC_SERVICE_SUCCEED, "the Service is placed"),
            Err(why) => (EventType::Warning, events::SYNC_SERVICE_FAILED, why),
        };
        self.shared.recorder.record(&about(&service), kind, reason, words);
        service.status.conditions = conditions;
        let mut wanted = found;
        object::root(&mut wanted).insert("status".to_owned(), fetch::to_value(&service.status)?);
        self.api().update_status(&kinds::multi_cluster_services(self.api())?, wanted).await?;
        Ok(())
    }

    async fn sync(&self, key: &Key, found: Value) -> Result<Action, Error> {
        let service = read(&found)?;
        let kept_out = core::kept_out(&service, &self.shared.options.skip);
        if !core::is_exposed(&service) || kept_out.is_some() {
            self.retract(key, &service).await?;
            // Without it nothing would wake the loop that takes back what was dispatched.
            if self.has_works(key).await? {
                return Ok(Action::RequeueAfter(WAIT));
            }
            let found = self.hold(found, false).await?;
            if let Some(words) = kept_out.filter(|_| !service.deleting()) {
                return self.tell(found, Err(&words)).await.map(|()| Action::Done);
            }
            if !service.deleting() {
                self.tell(found, Ok(())).await?;
            }
            return Ok(Action::Done);
        }
        if !self.shared.gates.enabled(Gate::MultiClusterService) {
            return self.tell(found, Err(DISABLED)).await.map(|()| Action::Done);
        }
        let found = self.hold(found, true).await?;
        let exposed = self.expose(key, &read(&found)?).await;
        let (done, came) = match exposed {
            Ok(exposed) => exposed,
            Err(error) if error.is_of_a_race() => return Err(error),
            Err(error) => {
                self.tell(found, Err(&error.to_string())).await?;
                return Err(error);
            }
        };
        self.tell(found, came.as_ref().copied().map_err(String::as_str)).await?;
        Ok(if done { Action::Done } else { Action::RequeueAfter(WAIT) })
    }
}

fn read(found: &Value) -> Result<MultiClusterService, Error> {
    serde_json::from_value(found.clone()).map_err(|error| Error::Other(error.to_string()))
}

#[async_trait::async_trait]
impl Controller for MultiClusterServices {
    type Key = Key;

    fn name(&self) -> &'static str {
        "multiclusterservice-controller"
    }

    async fn reconcile(&self, key: &Key) -> Result<Action, Error> {
        let resource = kinds::multi_cluster_services(self.api())?;
        let found: Option<Value> = fetch::get(self.api(), &resource, &key.namespace, &key.name).await?;
        match found {
            Some(found) => self.sync(key, found).await,
            None => {
                for work in self.questions(key).await?.values() {
                    self.shared.remove_work(work).await?;
                }
                Ok(Action::Done)
            }
        }
    }
}

#[cfg(test)]
mod tests;
