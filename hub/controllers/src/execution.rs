//! Execution controller: a Work of a known cluster is kept until its objects are gone from the member, and one that is held back says
//! so. Sending and applying is the gateway's and the agent's.
//!
//! In: Works, and Clusters that come. Out: the finalizer of a Work that somebody wrote without it; the Dispatching condition; where a Work waits
//! for a person and its binding is gone, its end once the person spoke.

use std::sync::Arc;

use karmada_api::cluster::Cluster;
use karmada_api::strings::labels::REMOVAL_HELD;
use karmada_api::strings::{conditions, events, finalizers};
use karmada_api::work::Work;
use karmada_api::{names, object};
use karmada_core::status;

use crate::controller_context::ControllerContext;
use crate::events::{EventType, Reference};
use crate::fetch::{self, kinds};
use crate::indexes::bindings::BindingsIndex;
use crate::port::{Api, Key, Object, Resource};
use crate::runner::{Action, Controller, Error, Source};
use crate::status::Report;

/// The controller.
pub struct Execution {
    shared: Arc<ControllerContext>,
}

impl Execution {
    /// A controller.
    pub fn new(shared: Arc<ControllerContext>) -> Arc<Self> {
        Arc::new(Execution { shared })
    }

    /// What wakes this controller: a Work, its status aside; a Cluster that comes, for all Works that were written for it before; what may let
    /// go a Work that waits for a person, where its binding is gone.
    pub fn wakes(shared: &ControllerContext) -> Vec<Source<Key>> {
        let works = Source::own("work.karmada.io/v1alpha1", "Work").but_status();
        let clusters = shared.clusters.wakes(|transition| {
            let uid =
                |cluster: &Option<Arc<Cluster>>| cluster.as_ref().map(|found| found.metadata.uid.clone());
            let comes = transition.now.is_some() && uid(&transition.before) != uid(&transition.now);
            let namespace = names::execution_namespace(&transition.key.name);
            comes.then(|| Key { namespace: namespace.into(), name: "".into() }).into_iter().collect()
        });
        let left_over = |works: Vec<Arc<Object>>, bindings: &BindingsIndex| -> Vec<Key> {
            works.iter().filter(|work| bindings.is_left_over(work)).map(|work| work.key.clone()).collect()
        };
        let (bindings, removal_limit) = (shared.bindings.clone(), shared.removal_limit.clone());
        let words = shared
            .clusters
            .wakes(move |transition| left_over(removal_limit.to_judge_again(transition), &bindings));
        let (bindings, removal_limit) = (shared.bindings.clone(), shared.removal_limit.clone());
        let policies =
            shared.removal_limit.policies.wakes(move |_| left_over(removal_limit.all_held(), &bindings));
        vec![works, clusters, words, policies]
    }

    fn api(&self) -> &dyn Api {
        &*self.shared.api
    }

    async fn one(&self, resource: &Resource, object: Arc<Object>) -> Result<(), Error> {
        if self.ends_left_over(&object).await? {
            return Ok(());
        }
        // What it carries is read where it is written: a hub that starts looks at all Works there are.
        let work = Work::from(object.parse::<Report>()?);
        if !self.lacks_finalizer(&work).await? {
            return self.dispatching(resource, &object, &work).await;
        }
        let mut value = object.value()?;
        object::add_finalizer(&mut value, finalizers::EXECUTION);
        let written = self.api().update(resource, value).await?;
        let work = Work::from(written.parse::<Report>()?);
        self.dispatching(resource, &written, &work).await
    }

    /// Deletes a Work that waited for a person's word and has it, and whose binding was taken away without the hub: nobody else would.
    async fn ends_left_over(&self, work: &Object) -> Result<bool, Error> {
        let marked = !work.deleting && work.labels.contains_key(REMOVAL_HELD);
        let waits = marked && self.shared.bindings.is_left_over(work);
        if !waits || !self.shared.removal_limit.is_let_go(work).await? {
            return Ok(false);
        }
        self.shared.remove_work(work).await.map(|()| true)
    }

    /// Whether a Work is one that a cluster's agent is to remove the objects of, and would be gone before. Of a namespace that no cluster
    /// stands for, or one that goes, nobody would ever let it go.
    async fn lacks_finalizer(&self, work: &Work) -> Result<bool, Error> {
        let namespace = work.metadata.namespace.as_deref().unwrap_or_default();
        let held = work.metadata.finalizers.iter().flatten().any(|held| held == finalizers::EXECUTION);
        let Some(name) = names::cluster_of_execution_namespace(namespace) else { return Ok(false) };
        if held || work.metadata.deletion_timestamp.is_some() {
            return Ok(false);
        }
        let clusters = kinds::clusters(self.api())?;
        let cluster = fetch::get_object(self.api(), &clusters, "", name).await?;
        Ok(cluster.is_some_and(|cluster| !cluster.deleting))
    }

    /// `work` is what was read of `object`.
    async fn dispatching(&self, resource: &Resource, object: &Object, work: &Work) -> Result<(), Error> {
        let Some(said) = status::dispatching(work, (self.shared.clock)()) else { return Ok(()) };
        let mut work: Work = object.parse()?;
        work.status.conditions = said;
        let value = fetch::to_value(&work)?;
        let about = Reference::of(&value);
        self.api().update_status(resource, value).await?;
        if let Some(condition) = work.status.condition(conditions::DISPATCHING) {
            let message = &condition.message;
            self.shared.recorder.record(&about, EventType::Normal, events::WORK_DISPATCHING, message);
        }
        Ok(())
    }
}

#[async_trait::async_trait]
impl Controller for Execution {
    type Key = Key;

    fn name(&self) -> &'static str {
        "execution-controller"
    }

    /// One Work, or all of a namespace where none is named.
    async fn reconcile(&self, key: &Key) -> Result<Action, Error> {
        let resource = kinds::works(self.api())?;
        if key.name.is_empty() {
            for work in self.api().list(&resource, &key.namespace).await? {
                self.one(&resource, work).await?;
            }
        } else if let Some(work) = fetch::get_object(self.api(), &resource, &key.namespace, &key.name).await?
        {
            self.one(&resource, work).await?;
        }
        Ok(Action::Done)
    }
}

#[cfg(test)]
mod tests;
