//! Cluster controller: what a Cluster needs on the hub, whether it is Ready, its taints, its end.
//!
//! In: Clusters, their Works, and what the gateway knows of the links. Out: the execution namespace, the finalizer, the Ready
//! condition where a cluster fell silent, taints; at the end, namespace, Works and roles removed, and what bindings require there. A cluster that is gone for
//! good does not hang: once it was silent for long enough, its Works are let go without its agent.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karmada_api::binding::ResourceBinding;
use karmada_api::cluster::Cluster;
use karmada_api::strings::{events, finalizers};
use karmada_api::{names, object};
use karmada_core::cluster::{self as decide, Contact, Grace};
use karmada_core::dependencies::attached;
use karmada_core::feature_gates::Gate;
use karmada_core::registration::new_execution_namespace;
use karmada_core::set_condition;
use serde_json::Value;

use crate::cluster_taints;
use crate::controller_context::ControllerContext;
use crate::events::{EventType, Reference};
use crate::fetch::{self, kinds};
use crate::port::{Api, ApiError, DeletionPropagation, Key, Object, Resource};
use crate::runner::{Action, Controller, Error, Source};
use crate::typed::Transition;

/// Where knowledge of the agents' links comes from: the gateway's memory, for liveness is not stored.
pub trait ContactSource: Send + Sync + 'static {
    /// The contact with a cluster's agent.
    fn contact(&self, cluster: &str, now: Timestamp) -> Contact;

    /// Whether a session is live now.
    fn connected(&self, cluster: &str) -> bool;

    /// It joined, perhaps again: its grace begins now, whenever it was heard before.
    fn joined(&self, cluster: &str) {
        let _ = cluster;
    }
}

/// How often an ending cluster is looked at while its agent removes its objects, and one that came back while the namespace
/// of the one before it still ends.
const END_LOOK: Duration = Duration::from_secs(1);

/// Roles that earlier hubs made for a cluster's agent, whose stream suffices now: kind, name, namespace.
type Role = (&'static str, String, String);

/// Whether a cluster came, is leaving, or went.
pub(crate) fn comes_or_goes(transition: &Transition<Cluster>) -> bool {
    let state = |cluster: &Option<Arc<Cluster>>| {
        cluster.as_ref().map(|cluster| (cluster.metadata.uid.clone(), cluster.deleting()))
    };
    state(&transition.before) != state(&transition.now)
}

/// The controller.
pub struct ClusterController {
    shared: Arc<ControllerContext>,
    contacts: Arc<dyn ContactSource>,
    grace: Grace,
}

impl ClusterController {
    /// A controller.
    pub fn new(shared: Arc<ControllerContext>, contacts: Arc<dyn ContactSource>, grace: Grace) -> Arc<Self> {
        Arc::new(ClusterController { shared, contacts, grace })
    }

    /// What wakes this controller: a Cluster. Who knows of its link wakes it too, through the queue.
    pub fn wakes() -> Vec<Source<Key>> {
        vec![Source::own("cluster.karmada.io/v1alpha1", "Cluster")]
    }

    fn api(&self) -> &dyn Api {
        &*self.shared.api
    }

    async fn live(&self, resource: &Resource, cluster: Cluster) -> Result<Action, Error> {
        if !self.prepare(resource, &cluster).await? {
            return Ok(Action::RequeueAfter(END_LOOK));
        }
        let now = (self.shared.clock)();
        let created = cluster.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let contact = self.contacts.contact(cluster.name(), now).of_one_made(created, now);
        if let Some(silent) = decide::silent(&cluster, &contact, &self.grace, now) {
            let mut changed = cluster.clone();
            set_condition(&mut changed.status.conditions, silent);
            self.api().update_status(resource, fetch::to_value(&changed)?).await?;
            // The change wakes this again, for the taints.
            return Ok(Action::Done);
        }
        if let Some(taints) = decide::taints(&cluster, now) {
            let because = "As it is Ready, or is not,";
            cluster_taints::write(&self.shared, (resource, &cluster), &taints, because).await?;
        }
        let wait = decide::deadline(&contact, &self.grace).duration_since(now);
        let wait = Duration::try_from(wait).unwrap_or_default();
        // A connected cluster is heard all the time; a silent one that was judged has nothing to wait for.
        if self.contacts.connected(cluster.name()) || wait.is_zero() {
            return Ok(Action::Done);
        }
        Ok(Action::RequeueAfter(wait + Duration::from_millis(100)))
    }

    /// The finalizer and the execution namespace; false while an earlier namespace of that name still ends.
    async fn prepare(&self, resource: &Resource, cluster: &Cluster) -> Result<bool, Error> {
        let held = cluster.metadata.finalizers.iter().flatten().any(|held| held == finalizers::CLUSTER);
        if !held {
            let mut value = fetch::to_value(cluster)?;
            object::add_finalizer(&mut value, finalizers::CLUSTER);
            match self.api().update(resource, value).await {
                // Somebody else changed it: the change wakes this again.
                Ok(_) | Err(ApiError::Conflict(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let namespaces = kinds::namespaces(self.api())?;
        let name = names::execution_namespace(cluster.name());
        if let Ok(found) = self.api().get(&namespaces, "", &name).await {
            return Ok(!found.deleting);
        }
        match self.api().create(&namespaces, new_execution_namespace(cluster.name())).await {
            Ok(_) => {
                let message = format!("Created execution space({name}) for the cluster");
                self.tell(cluster, EventType::Normal, events::CREATE_EXECUTION_SPACE_SUCCEED, &message);
                Ok(true)
            }
            Err(ApiError::AlreadyExists(_)) => Ok(true),
            Err(error) => {
                let reason = events::CREATE_EXECUTION_SPACE_FAILED;
                self.tell(cluster, EventType::Warning, reason, &error.to_string());
                Err(error.into())
            }
        }
    }

    /// The namespace closes first, so that nothing new comes in; then the Works go, then the bindings lose the cluster, then the
    /// roles and the Cluster go. The namespace ends by itself once it is empty.
    async fn end(&self, resource: &Resource, cluster: &Cluster) -> Result<Action, Error> {
        let name = cluster.name();
        let (works, namespaces) = (kinds::works(self.api())?, kinds::namespaces(self.api())?);
        let namespace = names::execution_namespace(name);
        match self.api().get(&namespaces, "", &namespace).await {
            Ok(open) if !open.deleting => self.remove(&namespaces, "", &namespace).await?,
            Ok(_) | Err(ApiError::NotFound(_)) => {}
            Err(error) => return Err(error.into()),
        }
        let left = self.api().list(&works, &namespace).await?;
        let lost = self.is_lost(cluster);
        for work in &left {
            self.end_work(&works, work, lost).await?;
        }
        // A binding that still named it would place its Works again should a cluster of this name come back.
        if !left.is_empty() || self.still_placed_in(name).await? {
            return Ok(Action::RequeueAfter(END_LOOK));
        }
        for (kind, role, namespace) in roles(name) {
            if let Some(kind) = self.api().resource_of("rbac.authorization.k8s.io/v1", kind) {
                self.remove(&kind, &namespace, &role).await?;
            }
        }
        let mut value = fetch::to_value(cluster)?;
        if object::remove_finalizer(&mut value, finalizers::CLUSTER) {
            self.api().update(resource, value).await?;
        }
        Ok(Action::Done)
    }

    /// Whether nobody is there to remove what was placed.
    fn is_lost(&self, cluster: &Cluster) -> bool {
        let now = (self.shared.clock)();
        let created = cluster.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let contact = self.contacts.contact(cluster.name(), now);
        !self.contacts.connected(cluster.name()) && decide::is_lost(&contact, created, &self.grace, now)
    }

    /// Whether a binding names the cluster as a target, its own or a referrer's. The scheduler takes it out of what was chosen, whoever placed it; out
    /// of what is required it is taken here, once no referrer is placed there any more.
    async fn still_placed_in(&self, cluster: &str) -> Result<bool, Error> {
        let mut required = Vec::new();
        for key in self.shared.bindings.naming(cluster) {
            let Some(binding) = self.binding(&key.namespace, &key.name).await? else { continue };
            if binding.metadata.deletion_timestamp.is_some() {
                continue;
            }
            if binding.spec.clusters.iter().any(|target| target.name == cluster) {
                return Ok(true);
            }
            if !binding.spec.required_by.is_empty() {
                required.push(key);
            }
        }
        let mut changed = false;
        for key in required {
            changed |= self.require_no_more(&key, cluster).await?;
        }
        Ok(changed)
    }

    async fn binding(&self, namespace: &str, name: &str) -> Result<Option<ResourceBinding>, Error> {
        fetch::get(self.api(), &kinds::bindings(self.api(), namespace)?, namespace, name).await
    }

    /// Takes the cluster out of what referrers require of a binding; whether it was in it. A referrer that is still leaving it says so on, where it is
    /// listened to, until it has left: with the cluster that ends as well.
    async fn require_no_more(&self, key: &Key, cluster: &str) -> Result<bool, Error> {
        let Some(binding) = self.binding(&key.namespace, &key.name).await? else { return Ok(false) };
        let mut saying = BTreeSet::new();
        if self.shared.gates.enabled(Gate::PropagateDeps) {
            for entry in &binding.spec.required_by {
                let referrer = self.binding(&entry.namespace, &entry.name).await?;
                let targets = referrer.iter().flat_map(|referrer| attached::clusters(&referrer.spec));
                if targets.into_iter().any(|target| target.name == cluster) {
                    saying.insert((entry.namespace.as_str(), entry.name.as_str()));
                }
            }
        }
        let still_say = |namespace: &str, name: &str| saying.contains(&(namespace, name));
        let Some(wanted) = attached::without_cluster(&binding, cluster, &still_say) else { return Ok(false) };
        let bindings = kinds::bindings(self.api(), &key.namespace)?;
        match self.api().update(&bindings, fetch::to_value(&wanted)?).await {
            // Somebody else changed it: it is looked at again.
            Ok(_) | Err(ApiError::Conflict(_) | ApiError::NotFound(_)) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    async fn end_work(&self, works: &Resource, work: &Object, lost: bool) -> Result<(), Error> {
        if !work.deleting {
            self.remove(works, &work.key.namespace, &work.key.name).await?;
        }
        // Nobody is there to remove the objects: the member keeps them, the hub lets go.
        if lost {
            let found: Option<Value> =
                fetch::get(self.api(), works, &work.key.namespace, &work.key.name).await?;
            if let Some(mut value) = found
                && object::remove_finalizer(&mut value, finalizers::EXECUTION)
            {
                self.api().update(works, value).await?;
            }
        }
        Ok(())
    }

    async fn remove(&self, resource: &Resource, namespace: &str, name: &str) -> Result<(), Error> {
        let key = Key { namespace: namespace.into(), name: name.into() };
        match self.api().delete(resource, &key, "", DeletionPropagation::Background).await {
            Ok(()) | Err(ApiError::NotFound(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn tell(&self, cluster: &Cluster, kind: EventType, reason: &str, message: &str) {
        let about =
            Reference::of_cluster(cluster.name(), cluster.metadata.uid.as_deref().unwrap_or_default());
        self.shared.recorder.record(&about, kind, reason, message);
    }
}

fn roles(cluster: &str) -> [Role; 4] {
    let agent = format!("system:karmada:{cluster}:agent");
    let work = format!("system:karmada:{cluster}:agent-work");
    let namespace = names::execution_namespace(cluster);
    [
        ("ClusterRoleBinding", agent.clone(), String::new()),
        ("ClusterRole", agent, String::new()),
        ("RoleBinding", work.clone(), namespace.clone()),
        ("Role", work, namespace),
    ]
}

#[async_trait::async_trait]
impl Controller for ClusterController {
    type Key = Key;

    fn name(&self) -> &'static str {
        "cluster-controller"
    }

    async fn reconcile(&self, key: &Key) -> Result<Action, Error> {
        let resource = kinds::clusters(self.api())?;
        match fetch::get::<Cluster>(self.api(), &resource, "", &key.name).await? {
            None => Ok(Action::Done),
            Some(cluster) if cluster.deleting() => self.end(&resource, &cluster).await,
            Some(cluster) => self.live(&resource, cluster).await,
        }
    }
}

#[cfg(test)]
mod tests;
