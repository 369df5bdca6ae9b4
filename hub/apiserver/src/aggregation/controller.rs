//! Keeps APIServices: those of the groups served here exist, and each says whether it is available.
//!
//! In: the registry, the aggregator. Out: objects made and taken away, conditions, what other servers describe. Level-triggered:
//! a round looks at everything and writes what differs; it comes when an APIService, a Service or an endpoint changes, when other
//! groups are served, and every half minute while anything is handed over (sooner while one does not answer).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join_all;
use futures::stream::{self, StreamExt as _};
use karmada_definitions::resource::ResourceDefinition;
use karmada_definitions::status::Status;
use karmada_kinds::api_service::{Availability, GROUP};
use karmada_registry::reconciler::{Next, Reconciler};
use karmada_registry::{DeleteOptions, Registry, User, WriteOptions};
use karmada_schema::object::{ObjectKey, Stored, meta};
use serde_json::Value;

use super::automatic::{self, AUTOMANAGED};
use super::{Aggregator, Handed};

/// How often servers are looked at that answer.
const RESYNC: Duration = Duration::from_secs(30);

/// How soon one is looked at again that does not; it doubles.
const SOON: Duration = Duration::from_secs(1);

/// How many servers are asked at a time.
const AT_ONCE: usize = 32;

/// Puts the APIServices of what is served here in place; called before the first request.
///
/// # Errors
/// The store refuses writes.
pub async fn ensure_api_services(registry: &Registry) -> Result<(), Status> {
    let catalogue = registry.catalogue();
    let Some(definition) = catalogue.resource(GROUP, "v1", "apiservices") else { return Ok(()) };
    let wanted = automatic::wanted(&catalogue);
    let made = wanted.iter().map(|object| ensure(registry, definition, object));
    join_all(made).await.into_iter().collect::<Result<(), Status>>()?;
    let all = registry.cache().of_resource(&definition.storage).snapshot("").items;
    let gone = all.iter().filter(|object| {
        let is_ours = object.label(AUTOMANAGED).is_some();
        is_ours && !wanted.iter().any(|one| *meta::name(one) == *object.key.name) && is_local(&object.value())
    });
    let taken = gone.map(|object| remove(registry, definition, object));
    join_all(taken).await.into_iter().collect::<Result<(), Status>>()?;
    let all = registry.cache().of_resource(&definition.storage).snapshot("").items;
    let local = all.iter().filter(|object| is_local(&object.value()));
    let told = local.map(|object| tell(registry, definition, object, Availability::local()));
    join_all(told).await.into_iter().collect()
}

/// Keeps everything.
pub struct ApiServices {
    registry: Arc<Registry>,
    aggregator: Arc<Aggregator>,
    pause: Duration,
}

impl ApiServices {
    /// Of this registry, by what `aggregator` sees of the servers.
    pub fn new(registry: Arc<Registry>, aggregator: Arc<Aggregator>) -> ApiServices {
        ApiServices { registry, aggregator, pause: SOON }
    }
}

#[async_trait]
impl Reconciler for ApiServices {
    fn keeps(&self) -> &'static str {
        "APIServices"
    }

    fn reads(&self) -> &'static [&'static str] {
        &[
            "apiregistration.k8s.io/apiservices",
            "core/services",
            "core/endpoints",
            "discovery.k8s.io/endpointslices",
        ]
    }

    fn reads_served(&self) -> bool {
        true
    }

    async fn look(&mut self) -> Result<Next, Status> {
        let settled = ensure_api_services(&self.registry).await;
        let next = match self.aggregator.look(&self.registry).await {
            // Services and endpoints are nobody's business here while nothing is handed over.
            None => Next::OnChangeOfFirst,
            Some(true) => {
                self.pause = SOON;
                Next::After(RESYNC)
            }
            Some(false) => {
                self.pause = (self.pause * 2).min(RESYNC);
                Next::After(self.pause)
            }
        };
        settled.map(|()| next)
    }
}

impl Aggregator {
    /// Looks at every server; answers whether all answer, `None` where nothing is handed over.
    async fn look(&self, registry: &Registry) -> Option<bool> {
        let catalogue = registry.catalogue();
        let definition = catalogue.resource(GROUP, "v1", "apiservices")?;
        let all = registry.cache().of_resource(&definition.storage).snapshot("").items;
        let handed: Vec<_> =
            all.iter().filter_map(|object| Some((object, Handed::read(&object.value())?))).collect();
        let places: Vec<_> = handed.iter().map(|(_, handed)| handed.place()).collect();
        self.described.write().retain(|place, _| places.contains(place));
        if handed.is_empty() {
            return None;
        }
        let looks = handed.iter().map(|(object, handed)| async move {
            let (condition, described) = self.check(handed).await;
            let available = condition.available;
            // What it said last is kept while it does not answer: clients see it as stale.
            if let Some(described) = described {
                self.describe(handed.place(), described);
            }
            if let Err(status) = tell(registry, definition, object, condition).await {
                tracing::warn!(why = status.message, "an APIService's condition could not be written");
            }
            available
        });
        // A server that lets all wait holds up few others.
        let looks = stream::iter(looks.collect::<Vec<_>>()).buffer_unordered(AT_ONCE);
        Some(looks.fold(true, |all, available| async move { all && available }).await)
    }
}

fn is_local(object: &Value) -> bool {
    !object["spec"]["service"].is_object()
}

fn options(subresource: &str) -> WriteOptions {
    let user = User::apiserver();
    let (field_manager, subresource) = ("kube-apiserver".to_owned(), subresource.to_owned());
    WriteOptions { user, field_manager, subresource, ..WriteOptions::default() }
}

async fn ensure(registry: &Registry, definition: &ResourceDefinition, wanted: &Value) -> Result<(), Status> {
    if registry.get(definition, "", meta::name(wanted)).is_ok() {
        return Ok(());
    }
    match registry.create(definition, "", wanted.clone(), &options("")).await {
        Err(status) if status.reason == "AlreadyExists" => Ok(()),
        other => other.map(drop),
    }
}

async fn remove(registry: &Registry, definition: &ResourceDefinition, object: &Stored) -> Result<(), Status> {
    let delete = DeleteOptions::default();
    match registry.delete(definition, &object.key, &delete, &options("").user).await {
        Err(status) if status.code != 404 => Err(status),
        _ => Ok(()),
    }
}

/// Writes the condition, where it differs.
async fn tell(
    registry: &Registry,
    definition: &ResourceDefinition,
    object: &Stored,
    condition: Availability,
) -> Result<(), Status> {
    let Some(status) = condition.put_into(&object.value()["status"], &registry.now_text()) else {
        return Ok(());
    };
    let mut change = |live: Option<&Value>| {
        let mut live = live.cloned().unwrap_or_default();
        live["status"] = status.clone();
        Ok(live)
    };
    let key = ObjectKey::new("", &object.key.name);
    match registry.update(definition, &key, &options("status"), &mut change).await {
        Err(status) if matches!(&*status.reason, "Conflict" | "NotFound") => Ok(()),
        other => other.map(drop),
    }
}
