//! Namespace controller: the hub's namespaces go along to every cluster, so that what is placed there has a place. In: a namespace, and one
//! cluster or all. Out: its Work in each that may have it. Nothing is removed here: the Works are owned by the namespace.

use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use karmada_api::binding::ObjectReference;
use karmada_api::cluster::Cluster;
use karmada_api::names;
use karmada_api::override_policy::OverridePolicy;
use karmada_api::work::Work;
use karmada_core::residency::may_mean;
use karmada_core::skipped_resources::SkipRules;
use karmada_core::{namespace as decide, overrides};
use serde::Deserialize;
use serde_json::Value;

use crate::controller_context::{ControllerContext, Put};
use crate::fetch::{self, kinds};
use crate::indexes::works::binding_id;
use crate::port::{Api, ApiError, Change};
use crate::runner::{Action, Controller, Error, Source, key_of};
use crate::typed::{Transition, Typed};

/// How long to wait for a new cluster's execution namespace.
const NAMESPACE_WAIT: Duration = Duration::from_secs(1);

/// How long to wait for the Work of an earlier namespace of the same name to go, where nothing tells of it.
const EARLIER_WAIT: Duration = Duration::from_secs(30);

/// Works that are written at once.
const WRITES_AT_ONCE: usize = 16;

/// What one look is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamespaceKey {
    /// The namespace.
    pub namespace: Arc<str>,
    /// The one cluster that it is to go to; all of them where none is named.
    pub cluster: Option<Arc<str>>,
}

impl NamespaceKey {
    fn everywhere(namespace: &Arc<str>) -> Self {
        NamespaceKey { namespace: namespace.clone(), cluster: None }
    }
}

/// The controller.
pub struct NamespaceSync {
    shared: Arc<ControllerContext>,
    skip: SkipRules,
}

/// What came of one cluster.
enum Outcome {
    Done,
    /// Its execution namespace is not there yet, or not any more.
    NoPlace,
    /// The Work of an earlier namespace is still there.
    Earlier,
}

/// Whether a cluster came, or is another to the override policies that namespaces have.
fn is_news(transition: &Transition<Cluster>, overrides: &Typed<OverridePolicy>) -> bool {
    let (Some(before), Some(now)) = (&transition.before, &transition.now) else {
        return transition.now.is_some();
    };
    let policies = || overrides.all("").iter().cloned().collect::<Vec<_>>();
    before.metadata.uid != now.metadata.uid || overrides::are_other_for(policies, before, now)
}

/// A namespace, as policies and rules select it.
fn reference(namespace: &str) -> ObjectReference {
    ObjectReference {
        api_version: "v1".to_owned(),
        kind: "Namespace".to_owned(),
        name: namespace.to_owned(),
        ..ObjectReference::default()
    }
}

/// Whether an override policy may mean a namespace, as it was or as it is.
fn means(transition: &Transition<OverridePolicy>, namespace: &str) -> bool {
    let object = reference(namespace);
    transition.states().any(|policy| policy.namespace().is_empty() && overrides::may_mean(policy, &object))
}

/// What to look at where ResidencyRules cover namespaces: those that a rule may mean or meant, everywhere; and all that any may mean, in a cluster
/// whose labels changed, which are nothing to the others.
fn by_residency(shared: &ControllerContext) -> [Source<NamespaceKey>; 2] {
    let names = shared.namespaces.clone();
    let rules = shared.residency.wakes(move |transition| {
        let means = |name: &&Arc<str>| transition.states().any(|rule| may_mean(rule, &reference(name)));
        names.all().iter().filter(means).map(NamespaceKey::everywhere).collect()
    });
    let (names, all) = (shared.namespaces.clone(), shared.residency.rules.clone());
    let clusters = shared.clusters.wakes(move |transition| {
        let labels = |cluster: &Option<Arc<Cluster>>| cluster.as_ref()?.metadata.labels.clone();
        let rules = all.all("");
        if rules.is_empty() || labels(&transition.before) == labels(&transition.now) {
            return Vec::new();
        }
        let meant =
            names.all().into_iter().filter(|name| rules.iter().any(|rule| may_mean(rule, &reference(name))));
        let to = |namespace| NamespaceKey { namespace, cluster: Some(transition.key.name.clone()) };
        meant.map(to).collect()
    });
    [rules, clusters]
}

/// What is read of a Work: whose it is, and nothing of what it carries.
#[derive(Deserialize)]
struct Owned {
    metadata: OwnedMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OwnedMetadata {
    #[serde(default)]
    owner_references: Vec<OwnerReference>,
}

/// The namespace that a Work is for, and where it is.
fn namespace_of_work(change: &Change) -> Option<NamespaceKey> {
    let (Change::Applied(work) | Change::Deleted(work)) = change;
    // Works of bindings carry their ids.
    if binding_id(work).is_some() {
        return None;
    }
    let Owned { metadata } = work.parse().ok()?;
    let owner = metadata.owner_references.into_iter().find(|owner| owner.kind == "Namespace")?;
    let cluster = names::cluster_of_execution_namespace(&work.key.namespace)?;
    Some(NamespaceKey { namespace: owner.name.into(), cluster: Some(cluster.into()) })
}

impl NamespaceSync {
    /// A controller that keeps back what `skip` says.
    pub fn new(shared: Arc<ControllerContext>, skip: SkipRules) -> Arc<Self> {
        Arc::new(NamespaceSync { shared, skip })
    }

    /// What wakes this controller: a namespace, for every cluster; a cluster that comes, or that override policies mean otherwise now, for every namespace; a
    /// ClusterOverridePolicy or a ResidencyRule, for those that it may mean or meant; the Work of an earlier namespace of the same name that is gone.
    pub fn wakes(shared: &ControllerContext) -> Vec<Source<NamespaceKey>> {
        let own =
            Source::new("v1", "Namespace", |change| vec![NamespaceKey::everywhere(&key_of(change).name)]);
        let (names, overrides) = (shared.namespaces.clone(), shared.overrides.clone());
        let clusters = shared.clusters.wakes(move |transition| {
            let to = |namespace| NamespaceKey { namespace, cluster: Some(transition.key.name.clone()) };
            if is_news(transition, &overrides) {
                names.all().into_iter().map(to).collect()
            } else {
                Vec::new()
            }
        });
        let names = shared.namespaces.clone();
        let policies = shared.overrides.wakes(move |transition| {
            if !transition.key.namespace.is_empty() {
                return Vec::new();
            }
            let all = names.all();
            all.iter().filter(|name| means(transition, name)).map(NamespaceKey::everywhere).collect()
        });
        let works = Source::new("work.karmada.io/v1alpha1", "Work", |change| {
            namespace_of_work(change).into_iter().collect()
        });
        let mut sources = vec![own, clusters, policies, works.but_status()];
        sources.extend(by_residency(shared));
        sources
    }

    /// Sends a namespace to one cluster.
    async fn send(&self, namespace: &Value, cluster: &Cluster) -> Result<Outcome, Error> {
        let overrides = self.shared.overrides.all("");
        let work = decide::namespace_work(namespace, cluster, &overrides)
            .map_err(|error| Error::Other(error.to_string()))?;
        match self.put(&work).await {
            Ok(true) => Ok(Outcome::Done),
            // One on its way out is made anew when it is gone.
            Ok(false) => Ok(Outcome::Earlier),
            // A cluster that is just coming (or going) has no execution namespace yet (or any more).
            Err(Error::Api(ApiError::NotFound(_))) => Ok(Outcome::NoPlace),
            Err(error) => Err(error),
        }
    }

    /// Writes the Work for one cluster; false where that of an earlier namespace is still there.
    async fn put(&self, work: &Work) -> Result<bool, Error> {
        let put = self.shared.put_work(work).await?;
        if let Put::Beside { name, holder } = &put {
            tracing::warn!(
                work = name,
                holder,
                "a namespace's Work has another name: its usual one is taken"
            );
        }
        Ok(put != Put::Wait)
    }
}

#[async_trait::async_trait]
impl Controller for NamespaceSync {
    type Key = NamespaceKey;

    fn name(&self) -> &'static str {
        "namespace-sync-controller"
    }

    async fn reconcile(&self, errand: &NamespaceKey) -> Result<Action, Error> {
        let api: &dyn Api = &*self.shared.api;
        let resource = kinds::namespaces(api)?;
        let Some(namespace) = fetch::get::<Value>(api, &resource, "", &errand.namespace).await? else {
            return Ok(Action::Done);
        };
        if !decide::is_carried_along(&namespace, &self.skip) {
            return Ok(Action::Done);
        }
        let clusters = match &errand.cluster {
            Some(name) => Arc::new(self.shared.clusters.get("", name).into_iter().collect()),
            None => self.shared.clusters.all(""),
        };
        let residency = self.shared.residency.now().covering_object(&namespace);
        let meant = |cluster: &Arc<Cluster>| !cluster.deleting() && residency.admits(cluster).is_ok();
        let writes = clusters.iter().filter(|cluster| meant(cluster));
        let writes: Vec<_> = writes.map(|cluster| self.send(&namespace, cluster).boxed()).collect();
        let mut outcomes = futures::stream::iter(writes).buffer_unordered(WRITES_AT_ONCE);
        let (mut failed, mut waits, mut earlier) = (None, false, false);
        while let Some(outcome) = outcomes.next().await {
            match outcome {
                Ok(Outcome::Done) => {}
                Ok(Outcome::NoPlace) => waits = true,
                Ok(Outcome::Earlier) => earlier = true,
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        match failed {
            Some(error) => Err(error),
            None if waits => Ok(Action::RequeueAfter(NAMESPACE_WAIT)),
            None if earlier => Ok(Action::RequeueAfter(EARLIER_WAIT)),
            None => Ok(Action::Done),
        }
    }
}

#[cfg(test)]
mod tests;
