//! ServiceImport controller: from a ServiceImport a Service is derived, under a name of its own.
//!
//! In: ServiceImports, and the Services that are derived from them. Out: these Services. Where the ServiceImport goes, both they and the EndpointSlices
//! behind them go as what it depends on.

use std::sync::Arc;

use karmada_api::strings::events;
use karmada_api::{names, object};
use karmada_core::service_import::{self as core, API, Derived, KIND};
use serde_json::Value;

use crate::controller_context::ControllerContext;
use crate::events::{EventType, Reference};
use crate::fetch::{self, kinds};
use crate::port::{Api, ApiError, Change, DeletionPropagation, Key};
use crate::runner::{Action, Controller, Error, Source};

/// The controller.
pub struct ServiceImports {
    shared: Arc<ControllerContext>,
}

/// The ServiceImport of a Service that may be derived from one.
fn of_service(change: &Change) -> Option<Key> {
    let (Change::Applied(service) | Change::Deleted(service)) = change;
    let name = core::service_of(&service.key.name)?;
    Some(Key { namespace: service.key.namespace.clone(), name: name.into() })
}

impl ServiceImports {
    /// A controller.
    pub fn new(shared: Arc<ControllerContext>) -> Arc<Self> {
        Arc::new(ServiceImports { shared })
    }

    /// What wakes this controller: a ServiceImport, and a Service with the name of one that is derived.
    pub fn wakes() -> Vec<Source<Key>> {
        let services = Source::new("v1", "Service", |change| of_service(change).into_iter().collect());
        vec![Source::own(API, KIND).but_status(), services.but_status()]
    }

    fn api(&self) -> &dyn Api {
        &*self.shared.api
    }

    fn tell(&self, import: Option<&Value>, kind: EventType, reason: &str, words: &str) {
        if let Some(import) = import {
            self.shared.recorder.record(&Reference::of(import), kind, reason, words);
        }
    }

    /// Writes what was decided. Out: the Service as it is then, where anything was written that stays.
    async fn carry_out(&self, derived: Derived, service: Option<&Value>) -> Result<Option<Value>, Error> {
        let resource = kinds::services(self.api())?;
        let written = match derived {
            Derived::Stays | Derived::Refused(_) => return Ok(None),
            Derived::Create(wanted) => self.api().create(&resource, wanted).await?,
            Derived::Update(wanted) => self.api().update(&resource, wanted).await?,
            Derived::Delete => {
                let Some(service) = service else { return Ok(None) };
                let at =
                    Key { namespace: object::namespace(service).into(), name: object::name(service).into() };
                let uid = object::uid(service);
                return match self.api().delete(&resource, &at, uid, DeletionPropagation::Background).await {
                    Ok(()) | Err(ApiError::NotFound(_)) => Ok(None),
                    Err(error) => Err(error.into()),
                };
            }
        };
        Ok(Some(written.value()?))
    }

    /// Has the derived Service be as the ServiceImport says. Whether anything was written.
    async fn sync(&self, key: &Key, import: Option<&Value>) -> Result<bool, Error> {
        let resource = kinds::services(self.api())?;
        let name = names::derived_service_name(&key.name);
        let service: Option<Value> = fetch::get(self.api(), &resource, &key.namespace, &name).await?;
        let derived = core::derive((&key.namespace, &key.name), import, service.as_ref());
        if let Derived::Refused(words) = &derived {
            self.tell(import, EventType::Warning, events::SYNC_DERIVED_SERVICE_FAILED, words);
            return Ok(false);
        }
        let written = self.carry_out(derived, service.as_ref()).await?;
        let wrote = written.is_some();
        let (Some(import), Some(service)) = (import, written.or(service)) else { return Ok(wrote) };
        let Some(wanted) = core::with_status(import, &service) else { return Ok(wrote) };
        self.api().update_status(&resource, wanted).await?;
        Ok(true)
    }
}

#[async_trait::async_trait]
impl Controller for ServiceImports {
    type Key = Key;

    fn name(&self) -> &'static str {
        "service-import-controller"
    }

    async fn reconcile(&self, key: &Key) -> Result<Action, Error> {
        let resource = kinds::service_imports(self.api())?;
        let found: Option<Value> = fetch::get(self.api(), &resource, &key.namespace, &key.name).await?;
        let import = found.filter(|import| !object::deleting(import));
        match self.sync(key, import.as_ref()).await {
            Ok(wrote) => {
                if wrote {
                    let words = "the derived Service is as the ServiceImport says";
                    let reason = events::SYNC_DERIVED_SERVICE_SUCCEED;
                    self.tell(import.as_ref(), EventType::Normal, reason, words);
                }
                Ok(Action::Done)
            }
            Err(error) if error.is_of_a_race() => Err(error),
            Err(error) => {
                let (reason, words) = (events::SYNC_DERIVED_SERVICE_FAILED, error.to_string());
                self.tell(import.as_ref(), EventType::Warning, reason, &words);
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests;
