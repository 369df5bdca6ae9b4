//! Unified auth controller: whom the hub's RBAC lets use a cluster's proxy may be impersonated in that cluster.
//!
//! In: Clusters that come or go, ClusterRoles that say something of proxies, and their bindings. Out: a ClusterRole and a ClusterRoleBinding as Works for
//! each cluster that somebody may reach so, and none for others.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use karmada_api::cluster::Cluster;
use karmada_api::names;
use karmada_api::strings::events;
use karmada_api::work::Work;
use karmada_core::unified_auth::{self, Reach};

use crate::cluster::comes_or_goes;
use crate::controller_context::{ControllerContext, Put};
use crate::events::{EventType, Reference};
use crate::fetch::{self, kinds};
use crate::port::{Api, Change, Key};
use crate::runner::{Action, Controller, Error, Source, key_of};
use crate::typed::Typed;

/// How long to wait for a new cluster's execution namespace.
const NAMESPACE_WAIT: Duration = Duration::from_secs(1);

/// The controller.
pub struct UnifiedAuth {
    shared: Arc<ControllerContext>,
}

fn reach(role: Option<&Arc<ClusterRole>>) -> Reach {
    role.map(|role| unified_auth::reach(role.rules.as_deref().unwrap_or_default())).unwrap_or_default()
}

fn key(cluster: &str) -> Key {
    Key { namespace: "".into(), name: cluster.into() }
}

/// The clusters, of those that there are, that are meant.
fn meant(reach: &Reach, clusters: &Typed<Cluster>) -> Vec<Key> {
    match reach {
        Reach::Nothing => Vec::new(),
        Reach::Clusters(names) => names.iter().map(|name| key(name)).collect(),
        Reach::Everything => clusters.all("").iter().map(|cluster| key(cluster.name())).collect(),
    }
}

/// The cluster whose Work a change is of, where it has the name of one of these.
fn work_of(change: &Change) -> Vec<Key> {
    let at = key_of(change);
    let cluster = names::cluster_of_execution_namespace(&at.namespace);
    let is_its = |cluster: &&str| {
        at.name.starts_with(unified_auth::IMPERSONATOR)
            && unified_auth::work_names(cluster).iter().any(|name| *name == *at.name)
    };
    cluster.filter(is_its).map(key).into_iter().collect()
}

impl UnifiedAuth {
    /// A controller.
    pub fn new(shared: Arc<ControllerContext>) -> Arc<Self> {
        Arc::new(UnifiedAuth { shared })
    }

    /// What wakes this controller: a Cluster that comes or goes; a role or a binding, for the clusters that it lets be reached, or did; one of
    /// the Works itself.
    pub fn wakes(shared: &ControllerContext) -> Vec<Source<Key>> {
        let clusters = shared.clusters.wakes(|transition| match comes_or_goes(transition) {
            true => vec![transition.key.clone()],
            false => Vec::new(),
        });
        let known = shared.clusters.clone();
        let roles = shared.cluster_roles.wakes(move |transition| {
            let (before, now) = (reach(transition.before.as_ref()), reach(transition.now.as_ref()));
            if before == now {
                return Vec::new();
            }
            [before, now].iter().flat_map(|reach| meant(reach, &known)).collect()
        });
        let (known, all_roles) = (shared.clusters.clone(), shared.cluster_roles.clone());
        let bindings = shared.cluster_role_bindings.wakes(move |transition| {
            if transition.before == transition.now {
                return Vec::new();
            }
            let of = |binding: &ClusterRoleBinding| {
                meant(&reach(all_roles.get("", &binding.role_ref.name).as_ref()), &known)
            };
            transition.states().flat_map(of).collect()
        });
        let works = Source::new("work.karmada.io/v1alpha1", "Work", work_of).but_status();
        vec![clusters, roles, bindings, works]
    }

    async fn sync(&self, cluster: &Cluster) -> Result<bool, Error> {
        let roles = self.shared.cluster_roles.all("");
        let bindings = self.shared.cluster_role_bindings.all("");
        let (roles, bindings) = (roles.iter().map(|role| &**role), bindings.iter().map(|one| &**one));
        let subjects = unified_auth::subjects(cluster.name(), roles, bindings);
        let works = unified_auth::impersonation_works(cluster, &subjects);
        if works.is_empty() {
            self.remove(cluster.name()).await?;
            return Ok(true);
        }
        let mut waits = false;
        let all = self.shared.put_works(&works, |put| waits |= put == Put::Wait).await?;
        Ok(all && !waits)
    }

    /// Nobody may be impersonated there any more.
    async fn remove(&self, cluster: &str) -> Result<(), Error> {
        let api: &dyn Api = &*self.shared.api;
        let (resource, namespace) = (kinds::works(api)?, names::execution_namespace(cluster));
        for name in unified_auth::work_names(cluster) {
            let Some(found) = fetch::get_object(api, &resource, &namespace, &name).await? else { continue };
            if unified_auth::is_ours(&found.parse::<Work>()?) {
                self.shared.remove_work(&found).await?;
            }
        }
        Ok(())
    }
}

#[async_trait::async_trait]
impl Controller for UnifiedAuth {
    type Key = Key;

    fn name(&self) -> &'static str {
        "unified-auth-controller"
    }

    async fn reconcile(&self, key: &Key) -> Result<Action, Error> {
        let Some(cluster) = self.shared.clusters.get("", &key.name).filter(|found| !found.deleting()) else {
            return Ok(Action::Done);
        };
        let synced = self.sync(&cluster).await;
        if let Err(error) = &synced
            && !error.is_of_a_race()
        {
            let about = Reference::of(&fetch::to_value(&*cluster)?);
            let (reason, words) = (events::SYNC_IMPERSONATION_CONFIG_FAILED, error.to_string());
            self.shared.recorder.record(&about, EventType::Warning, reason, &words);
        }
        Ok(if synced? { Action::Done } else { Action::RequeueAfter(NAMESPACE_WAIT) })
    }
}

#[cfg(test)]
mod tests;
