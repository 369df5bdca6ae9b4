//! ServiceExport controller: the agents of the clusters that hold a ServiceExport are asked where its Service is reached there.
//!
//! In: ServiceExports, and the bindings by which they are in clusters, with what these tell of it. Out: one Work that asks for each cluster. The
//! answers, in the status of these Works, are read by [`EndpointSlices`](crate::endpointslice::EndpointSlices).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use karmada_api::binding::ResourceBinding;
use karmada_api::strings::events;
use karmada_api::{names, object};
use karmada_core::service_export::{self as core, KIND};
use karmada_core::service_import::{API, refused};
use serde_json::Value;

use crate::controller_context::{ControllerContext, Works};
use crate::events::{EventType, Reference};
use crate::fetch::{self, kinds};
use crate::indexes::owned_works::export_of;
use crate::port::{Api, Change, Key, Object};
use crate::runner::{Action, Controller, Error, Source};

/// How long to wait for a new cluster's execution namespace.
const NAMESPACE_WAIT: Duration = Duration::from_secs(1);

/// The controller.
pub struct ServiceExports {
    shared: Arc<ControllerContext>,
}

/// The ServiceExport of a binding that may be of one.
fn of_binding(binding: &Object) -> Option<Key> {
    let name = binding.key.name.strip_suffix("-serviceexport")?;
    Some(Key { namespace: binding.key.namespace.clone(), name: name.into() })
}

/// The ServiceExport of a Work that asks and goes, or went.
fn of_leaving(change: &Change) -> Option<Key> {
    match change {
        Change::Deleted(work) => export_of(work),
        Change::Applied(work) => export_of(work).filter(|_| work.deleting),
    }
}

impl ServiceExports {
    /// A controller.
    pub fn new(shared: Arc<ControllerContext>) -> Arc<Self> {
        Arc::new(ServiceExports { shared })
    }

    /// What wakes this controller: a ServiceExport; its binding, whose status tells which clusters hold it; a Work that asks and goes.
    pub fn wakes() -> Vec<Source<Key>> {
        let bindings = Source::new("work.karmada.io/v1alpha2", "ResourceBinding", |change| {
            let (Change::Applied(binding) | Change::Deleted(binding)) = change;
            of_binding(binding).into_iter().collect()
        });
        let works = Source::new("work.karmada.io/v1alpha1", "Work", |change| {
            of_leaving(change).into_iter().collect()
        });
        vec![Source::own(API, KIND).but_status(), bindings, works.but_status()]
    }

    fn api(&self) -> &dyn Api {
        &*self.shared.api
    }

    /// The Works that ask, by cluster.
    async fn held(&self, key: &Key) -> Result<BTreeMap<String, Arc<Object>>, Error> {
        let resource = kinds::works(self.api())?;
        let mut held = BTreeMap::new();
        for at in self.shared.export_works.of(key) {
            let Some(cluster) = names::cluster_of_execution_namespace(&at.namespace) else { continue };
            if let Some(found) = fetch::get_object(self.api(), &resource, &at.namespace, &at.name).await? {
                held.insert(cluster.to_owned(), found);
            }
        }
        Ok(held)
    }

    /// Asks those that are to be asked, and nobody else. False where one cannot be asked yet.
    async fn ask(&self, key: &Key, export: Option<&Value>) -> Result<bool, Error> {
        let resource = kinds::bindings(self.api(), &key.namespace)?;
        let name = names::binding_name(KIND, &key.name);
        let binding: Option<ResourceBinding> =
            fetch::get(self.api(), &resource, &key.namespace, &name).await?;
        self.shared.can_tell_clusters()?;
        let held = self.held(key).await?;
        let stays =
            |name: &str| self.shared.clusters.get("", name).is_some_and(|cluster| !cluster.deleting());
        let plan = core::questions(export, binding.as_ref(), stays, held.keys().map(String::as_str));
        for work in plan.remove.iter().filter_map(|cluster| held.get(cluster)) {
            self.shared.remove_work(work).await?;
        }
        // One that waits for an earlier one to go is woken by that.
        let ask = plan.ask.iter();
        let asking: Works<'_> = Box::new(ask.filter_map(|cluster| Some(core::question(export?, cluster))));
        self.shared.put_works(asking, drop).await
    }
}

#[async_trait::async_trait]
impl Controller for ServiceExports {
    type Key = Key;

    fn name(&self) -> &'static str {
        "service-export-controller"
    }

    async fn reconcile(&self, key: &Key) -> Result<Action, Error> {
        let resource = kinds::service_exports(self.api())?;
        let found: Option<Value> = fetch::get(self.api(), &resource, &key.namespace, &key.name).await?;
        let export = found.filter(|export| !object::deleting(export));
        let kept_out = refused(&key.name);
        if let (Some(export), Some(words)) = (&export, &kept_out) {
            let (about, reason) = (Reference::of(export), events::DISPATCH_ENDPOINT_SLICE_FAILED);
            self.shared.recorder.record(&about, EventType::Warning, reason, words);
        }
        let asked = self.ask(key, export.as_ref().filter(|_| kept_out.is_none())).await?;
        Ok(if asked { Action::Done } else { Action::RequeueAfter(NAMESPACE_WAIT) })
    }
}

#[cfg(test)]
pub(crate) mod tests;
