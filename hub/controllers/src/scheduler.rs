//! Scheduler: every binding finds its clusters. `karmada-core` decides; this reads, writes and tells.
//!
//! Woken by bindings, and for all of them by a cluster that came, went, or changed in a way that placement can see.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use karmada_api::binding::{ResourceBinding, TargetCluster};
use karmada_api::cluster::Cluster;
use karmada_api::strings::{DEFAULT_SCHEDULER, events};
use karmada_core::scheduler::{self, Decision, Failure, Input, Outcome};
use parking_lot::Mutex;
use std::collections::BTreeMap;

use crate::events::{EventType, Reference};
use crate::fetch::{self, kinds};
use crate::policies::Shared;
use crate::port::{Api, ApiError, Change, Key, Resource};
use crate::queue::Queue;
use crate::runner::{Action, Controller, Error};

/// How often room is looked for again.
const UNSCHEDULABLE_RETRY: Duration = Duration::from_secs(30);

/// How often the status is tried against a newer binding.
const STATUS_TRIES: usize = 16;

/// The controller of both kinds of bindings: the namespace tells which (empty: ClusterResourceBinding).
pub struct Scheduler {
    shared: Arc<Shared>,
}

impl Scheduler {
    /// A scheduler.
    pub fn new(shared: Arc<Shared>) -> Arc<Self> {
        Arc::new(Scheduler { shared })
    }

    async fn carry_out(
        &self,
        resource: &Resource,
        binding: ResourceBinding,
        decision: &Decision,
    ) -> Result<(), Error> {
        let api: &dyn Api = &*self.shared.api;
        let before = binding.spec.clusters.clone();
        let mut binding = binding;
        if let Some(wanted) = scheduler::apply(&binding, decision) {
            binding = api.update(resource, fetch::to_value(&wanted)?).await?.parse()?;
        }
        self.write_status(resource, binding, &before, decision).await
    }

    /// Writes what was decided into the binding's status. The controller of statuses writes there too: what it wrote meanwhile is
    /// read again and kept, for once the spec is written nothing would decide this a second time.
    async fn write_status(
        &self,
        resource: &Resource,
        mut binding: ResourceBinding,
        before: &[TargetCluster],
        decision: &Decision,
    ) -> Result<(), Error> {
        let api: &dyn Api = &*self.shared.api;
        let (namespace, name) = (binding.namespace().to_owned(), binding.name().to_owned());
        for _ in 0..STATUS_TRIES {
            let now = (self.shared.clock)();
            let Some(status) = scheduler::status(&binding, before, decision, now) else { return Ok(()) };
            let told = status.conditions != binding.status.conditions || before != binding.spec.clusters;
            let mut wanted = binding.clone();
            wanted.status = status;
            match api.update_status(resource, fetch::to_value(&wanted)?).await {
                Ok(_) => {
                    if told {
                        self.tell(&wanted, decision);
                    }
                    return Ok(());
                }
                Err(ApiError::Conflict(_)) => {}
                Err(error) => return Err(error.into()),
            }
            let Some(fresh) = fetch::get(api, resource, &namespace, &name).await? else { return Ok(()) };
            binding = fresh;
        }
        Err(ApiError::Conflict(format!("the status of {namespace}/{name} keeps changing")).into())
    }

    fn tell(&self, binding: &ResourceBinding, decision: &Decision) {
        let (kind, reason, message) = match &decision.outcome {
            Outcome::Scheduled(targets) => {
                (EventType::Normal, events::SCHEDULE_BINDING_SUCCEED, scheduler::event_message(targets))
            }
            Outcome::Failed(failure) => {
                (EventType::Warning, events::SCHEDULE_BINDING_FAILED, failure.to_string())
            }
            _ => return,
        };
        let resource = &binding.spec.resource;
        let template = Reference {
            api_version: resource.api_version.clone(),
            kind: resource.kind.clone(),
            namespace: resource.namespace.clone(),
            name: resource.name.clone(),
            uid: resource.uid.clone(),
        };
        let own = Reference {
            api_version: binding.api_version.clone(),
            kind: binding.kind.clone(),
            namespace: binding.namespace().to_owned(),
            name: binding.name().to_owned(),
            uid: binding.metadata.uid.clone().unwrap_or_default(),
        };
        for about in [own, template] {
            self.shared.recorder.record(&about, kind, reason, &message);
        }
    }
}

/// A digest of what placement can see of a cluster. A change of anything else wakes no binding.
fn visible(cluster: &Cluster) -> Option<u64> {
    let mut seen = cluster.clone();
    seen.metadata = Default::default();
    seen.metadata.labels.clone_from(&cluster.metadata.labels);
    seen.metadata.deletion_timestamp.clone_from(&cluster.metadata.deletion_timestamp);
    seen.status = Default::default();
    seen.status.api_enablements.clone_from(&cluster.status.api_enablements);
    let mut digest = DefaultHasher::new();
    serde_json::to_vec(&seen).ok()?.hash(&mut digest);
    Some(digest.finish())
}

/// Wakes every binding when what placement can see of a cluster changed.
pub struct ClusterWatch {
    seen: Mutex<BTreeMap<Key, Option<u64>>>,
}

impl Default for ClusterWatch {
    fn default() -> Self {
        ClusterWatch { seen: Mutex::new(BTreeMap::new()) }
    }
}

impl ClusterWatch {
    /// Takes note of a change; whether bindings must be looked at again.
    pub fn observe(&self, change: &Change) -> bool {
        match change {
            Change::Applied(object) => {
                let Ok(cluster) = object.parse::<Cluster>() else { return false };
                let now = visible(&cluster);
                let mut seen = self.seen.lock();
                // What could not be digested is news each time.
                now.is_none() | (seen.insert(object.key.clone(), now) != Some(now))
            }
            Change::Deleted(object) => self.seen.lock().remove(&object.key).is_some(),
        }
    }
}

/// Puts every binding into a queue.
pub async fn wake_all(api: &dyn Api, queue: &Queue<Key>) -> Result<(), Error> {
    for namespace in ["any", ""] {
        for binding in api.list(&kinds::bindings(api, namespace)?, "").await? {
            queue.add(binding.key.clone());
        }
    }
    Ok(())
}

#[async_trait::async_trait]
impl Controller for Scheduler {
    type Key = Key;

    fn name(&self) -> &'static str {
        "scheduler"
    }

    async fn reconcile(&self, key: &Key) -> Result<Action, Error> {
        let api: &dyn Api = &*self.shared.api;
        let resource = kinds::bindings(api, &key.namespace)?;
        let found: Option<ResourceBinding> = fetch::get(api, &resource, &key.namespace, &key.name).await?;
        let Some(binding) = found.filter(|b| b.metadata.deletion_timestamp.is_none()) else {
            return Ok(Action::Done);
        };
        let clusters = self.shared.clusters().await?;
        let decision = scheduler::schedule(&Input {
            binding: &binding,
            clusters: &clusters,
            scheduler: DEFAULT_SCHEDULER,
        });
        tracing::debug!(namespace = &*key.namespace, binding = &*key.name, outcome = ?decision.outcome, "scheduling decided");
        self.carry_out(&resource, binding, &decision).await?;
        match &decision.outcome {
            Outcome::Failed(Failure::Unschedulable(_)) => Ok(Action::RequeueAfter(UNSCHEDULABLE_RETRY)),
            Outcome::Failed(Failure::Error(text)) => Err(Error::Other(text.clone())),
            _ => Ok(Action::Done),
        }
    }
}
