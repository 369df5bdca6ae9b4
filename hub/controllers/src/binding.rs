//! Binding controller: a binding that has clusters gets one Work in each; Works that nobody wants go (behaviour 28–42).

use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use karmada_api::binding::ResourceBinding;
use karmada_api::object;
use karmada_api::strings::{events, finalizers};
use karmada_api::work::Work;
use karmada_core::binding::{self, Input, Wanted, WorkError};
use serde_json::Value;

use crate::events::{EventType, Reference};
use crate::fetch::{self, kinds};
use crate::policies::{Put, Shared};
use crate::port::{Api, ApiError, Key, Propagation, Resource};
use crate::runner::{Action, Controller, Error};

/// How long to wait for Works that must go before new ones come (behaviour 31).
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

    /// Marks Works for deletion. Each stays until its cluster has let go of what it placed, or is gone for good.
    async fn remove_works(&self, works: impl Iterator<Item = &Work>) -> Result<(), Error> {
        let api = &*self.shared.api;
        let resource = kinds::works(api)?;
        for work in works.filter(|work| work.metadata.deletion_timestamp.is_none()) {
            let text = |value: &Option<String>| Arc::from(value.as_deref().unwrap_or(""));
            let key = Key { namespace: text(&work.metadata.namespace), name: text(&work.metadata.name) };
            let uid = work.metadata.uid.as_deref().unwrap_or("");
            match api.delete(&resource, &key, uid, Propagation::Background).await {
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

    /// Writes the Work for one cluster; false where none can be there now.
    async fn write(&self, template: &Value, wanted: &Wanted) -> Result<bool, Error> {
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

    async fn write_and_tell(&self, template: &Value, wanted: &Wanted) -> Result<(), Error> {
        if self.write(template, wanted).await? {
            self.tell(template, wanted);
        }
        Ok(())
    }

    fn tell(&self, template: &Value, wanted: &Wanted) {
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
        self.remove_works(binding::orphans(&binding, &works).into_iter()).await?;
        if binding::must_wait(&binding, &works) {
            return Ok(Action::RequeueAfter(PURGE_WAIT));
        }
        let reference = &binding.spec.resource;
        let Some(kind) = api.resource_of(&reference.api_version, &reference.kind) else {
            return Ok(Action::Done);
        };
        // A template that is gone ends its binding through the garbage collector.
        let Some(template) = fetch::get::<Value>(api, &kind, &reference.namespace, &reference.name).await?
        else {
            return Ok(Action::Done);
        };
        let (clusters, cluster_overrides, overrides) = (
            self.shared.clusters().await?,
            self.shared.cluster_overrides().await?,
            self.shared.overrides().await?,
        );
        let input = Input {
            binding: &binding,
            template: &template,
            clusters: &clusters,
            cluster_overrides: &cluster_overrides,
            overrides: &overrides,
            interpreter: &*self.shared.interpreter,
        };
        // Written side by side: they share the store's commits. One cluster's trouble is not the others': all are tried, the
        // first failure is reported.
        let wanted = binding::works(&input);
        let names = || wanted.iter().map(|wanted| wanted.cluster.as_str()).collect::<Vec<_>>();
        tracing::debug!(namespace = &*key.namespace, binding = &*key.name, clusters = ?names(), "Works of a binding");
        let writes: Vec<_> =
            wanted.iter().map(|wanted| self.write_and_tell(&template, wanted).boxed()).collect();
        let outcomes: Vec<_> = futures::stream::iter(writes).buffer_unordered(WRITES_AT_ONCE).collect().await;
        outcomes
            .into_iter()
            .find(Result::is_err)
            .map_or(Ok(Action::Done), |failed| failed.map(|()| Action::Done))
    }
}

#[cfg(test)]
mod tests;
