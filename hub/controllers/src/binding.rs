//! Binding controller: a binding that has clusters gets one Work in each; Works that nobody wants go.

use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use karmada_api::binding::ResourceBinding;
use karmada_api::object;
use karmada_api::strings::{events, finalizers};
use karmada_core::belonging;
use karmada_core::binding::{self, ClusterWork, Input, WorkError};
use karmada_core::targets::Places;
use serde_json::Value;

use crate::events::{EventType, Reference};
use crate::fetch::{self, kinds};
use crate::port::{Api, ApiError, Change, Key, Object, Propagation, Resource};
use crate::runner::{Action, Controller, Error, Source};
use crate::shared::{Put, Shared};

const BINDING_API: &str = "work.karmada.io/v1alpha2";
const KINDS: [&str; 2] = ["ResourceBinding", "ClusterResourceBinding"];
const WORK_API: &str = "work.karmada.io/v1alpha1";

/// How long to wait for Works that must go before new ones come.
const PURGE_WAIT: Duration = Duration::from_secs(5);

/// Works of one binding that are written at once.
const WRITES_AT_ONCE: usize = 16;

/// The controller of both kinds of bindings: the namespace tells which (empty: ClusterResourceBinding).
pub struct Binding {
    shared: Arc<Shared>,
}

impl Binding {
    /// A controller.
    pub fn new(shared: Arc<Shared>) -> Arc<Self> {
        Arc::new(Binding { shared })
    }

    /// What wakes this controller: a binding whose spec or marks changed; a Work of one, its status aside; an override policy, for those that it
    /// may mean or meant; a cluster that comes, for those that name it.
    pub fn wakes(shared: &Shared) -> Vec<Source<Key>> {
        let mut sources: Vec<Source<Key>> =
            KINDS.iter().map(|kind| Source::own(BINDING_API, kind).but_status()).collect();
        let bindings = shared.bindings.clone();
        let works = Source::new(WORK_API, "Work", move |change| {
            let (Change::Applied(work) | Change::Deleted(work)) = change;
            bindings.of_work(work).into_iter().collect()
        });
        sources.push(works.but_status());
        let bindings = shared.bindings.clone();
        sources.push(shared.overrides.wakes(move |turn| {
            let same = turn.before.as_ref().map(|policy| &policy.spec)
                == turn.now.as_ref().map(|policy| &policy.spec);
            if same { Vec::new() } else { bindings.to_render(turn) }
        }));
        let bindings = shared.bindings.clone();
        sources.push(shared.clusters.wakes(move |turn| {
            let comes = turn.before.is_none() && turn.now.is_some();
            if comes { bindings.naming(&turn.key.name) } else { Vec::new() }
        }));
        sources
    }

    /// Marks Works for deletion. Each stays until its cluster has let go of what it placed, or is gone for good.
    async fn remove_works(&self, works: impl Iterator<Item = &Arc<Object>>) -> Result<(), Error> {
        let api = &*self.shared.api;
        let resource = kinds::works(api)?;
        for work in works.filter(|work| !work.deleting) {
            match api.delete(&resource, &work.key, &work.uid, Propagation::Background).await {
                Ok(()) | Err(ApiError::NotFound(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// The binding goes once its Works are marked for deletion: what is still to be removed is known from them, each in its
    /// cluster's namespace, so a cluster that is away holds neither the binding nor a new template of the same name.
    async fn end(&self, resource: &Resource, binding: &ResourceBinding) -> Result<Action, Error> {
        let works = self.shared.works_of(binding).await?;
        self.remove_works(works.iter()).await?;
        let mut value = fetch::to_value(binding)?;
        let mut changed = object::remove_finalizer(&mut value, finalizers::BINDING);
        changed |= object::remove_finalizer(&mut value, finalizers::CLUSTER_BINDING);
        if changed {
            self.shared.api.update(resource, value).await?;
        }
        Ok(Action::Done)
    }

    /// A binding that nobody owns any more and whose template is gone: nothing else ends it.
    async fn give_up(
        &self,
        resource: &Resource,
        key: &Key,
        binding: &ResourceBinding,
    ) -> Result<Action, Error> {
        let uid = binding.metadata.uid.as_deref().unwrap_or("");
        match self.shared.api.delete(resource, key, uid, Propagation::Background).await {
            Ok(()) | Err(ApiError::NotFound(_)) => Ok(Action::Done),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes the Work for one cluster; false where none can be there now.
    async fn write(&self, template: &Value, wanted: &ClusterWork) -> Result<bool, Error> {
        let work = match &wanted.work {
            Ok(work) => work,
            Err(WorkError::NoCluster(_) | WorkError::Leaving(_)) => return Ok(false),
            Err(error) => {
                let reason = match error {
                    WorkError::Override(_) => events::APPLY_OVERRIDE_POLICY_FAILED,
                    _ => events::SYNC_WORK_FAILED,
                };
                let message = format!("{}: {error}", wanted.cluster);
                self.shared.recorder.record(&Reference::of(template), EventType::Warning, reason, &message);
                return Err(Error::Other(message));
            }
        };
        let put = self.shared.put_work(work).await;
        let words = match &put {
            Ok(Put::Done) => return Ok(true),
            // An earlier template's Work waits there for its cluster; its removal wakes this again.
            Ok(Put::Wait) => "waiting for the cluster to remove what was there before".to_owned(),
            Ok(Put::Beside { name, holder }) => {
                format!("the usual name of its Work is that of {holder}: its own is called {name}")
            }
            Err(Error::Other(words)) => words.clone(),
            Err(Error::Api(_)) => String::new(),
        };
        if !words.is_empty() {
            let (message, reason) = (format!("{}: {words}", wanted.cluster), events::SYNC_WORK_FAILED);
            let about = Reference::of(template);
            self.shared.recorder.record(&about, EventType::Warning, reason, &message);
        }
        Ok(put? != Put::Wait)
    }

    async fn write_and_tell(&self, template: &Value, wanted: ClusterWork) -> Result<(), Error> {
        if self.write(template, &wanted).await? {
            self.tell(template, &wanted);
        }
        Ok(())
    }

    fn tell(&self, template: &Value, wanted: &ClusterWork) {
        let names: Vec<&str> =
            wanted.applied.cluster.names().into_iter().chain(wanted.applied.namespaced.names()).collect();
        if !names.is_empty() {
            let message =
                format!("Apply overridePolicy({}) for cluster {} succeed.", names.join(","), wanted.cluster);
            let reason = events::APPLY_OVERRIDE_POLICY_SUCCEED;
            self.shared.recorder.record(&Reference::of(template), EventType::Normal, reason, &message);
        }
    }
}

#[async_trait::async_trait]
impl Controller for Binding {
    type Key = Key;

    fn name(&self) -> &'static str {
        "binding-controller"
    }

    async fn reconcile(&self, key: &Key) -> Result<Action, Error> {
        let api: &dyn Api = &*self.shared.api;
        let resource = kinds::bindings(api, &key.namespace)?;
        let found: Option<ResourceBinding> = fetch::get(api, &resource, &key.namespace, &key.name).await?;
        let Some(binding) = found else { return Ok(Action::Done) };
        if binding.metadata.deletion_timestamp.is_some() {
            return self.end(&resource, &binding).await;
        }
        let works = self.shared.works_of(&binding).await?;
        let places = Places::of(&binding);
        self.remove_works(works.iter().filter(|work| places.is_orphan(&work.key.namespace))).await?;
        if works.iter().any(|work| places.goes_first(&work.key.namespace)) {
            return Ok(Action::RequeueAfter(PURGE_WAIT));
        }
        if let Some(why) = belonging::out_of_reach(&binding) {
            return self.withhold(&binding, &works, &why).await;
        }
        drop(works);
        let reference = &binding.spec.resource;
        let Some(kind) = api.resource_of(&reference.api_version, &reference.kind) else {
            return Ok(Action::Done);
        };
        let template: Option<Value> = fetch::get(api, &kind, &reference.namespace, &reference.name).await?;
        if belonging::is_left_over(&binding, template.as_ref()) {
            return self.give_up(&resource, key, &binding).await;
        }
        // A template that is gone, or is another by now, ends its binding through the garbage collector.
        let Some(template) = template.filter(|template| !belonging::is_of_another(&binding, template)) else {
            return Ok(Action::Done);
        };
        if belonging::is_the_hubs_own(&template) {
            return Ok(Action::Done);
        }
        self.make_works(&binding, &template).await
    }
}

impl Binding {
    /// Nothing of what the binding names is placed, and nothing stays that was.
    async fn withhold(
        &self,
        binding: &ResourceBinding,
        works: &[Arc<Object>],
        why: &str,
    ) -> Result<Action, Error> {
        let about = Reference::of(&fetch::to_value(binding)?);
        self.shared.recorder.record(&about, EventType::Warning, events::SYNC_WORK_FAILED, why);
        self.remove_works(works.iter()).await?;
        Ok(Action::Done)
    }

    /// Makes the Works side by side: they share the store's commits. Each is rendered when its turn to be written comes. One cluster's
    /// trouble is not the others': all are tried, the first failure is reported.
    async fn make_works(&self, binding: &ResourceBinding, template: &Value) -> Result<Action, Error> {
        let (clusters, wide, near) = (
            self.shared.clusters.all(""),
            self.shared.overrides.all(""),
            match object::namespace(template) {
                "" => Arc::default(),
                namespace => self.shared.overrides.all(namespace),
            },
        );
        let input = Input {
            binding,
            template,
            clusters: &clusters,
            cluster_overrides: &wide,
            overrides: &near,
            interpreter: &*self.shared.interpreter,
        };
        let names = || binding.spec.clusters.iter().map(|target| target.name.as_str()).collect::<Vec<_>>();
        tracing::debug!(namespace = binding.namespace(), binding = binding.name(), clusters = ?names(), "Works of a binding");
        let writes = binding::works(&input).map(|wanted| self.write_and_tell(template, wanted).boxed());
        let mut outcomes = futures::stream::iter(writes).buffer_unordered(WRITES_AT_ONCE);
        let mut failed = None;
        while let Some(outcome) = outcomes.next().await {
            failed = failed.or(outcome.err());
        }
        failed.map_or(Ok(Action::Done), Err)
    }
}

#[cfg(test)]
mod tests;
