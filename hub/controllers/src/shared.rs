//! What the controllers of templates and bindings share: what they look up, and how a Work is written.
//!
//! In: the port, and the watches of the hub. Out: indexes of bindings, Works and claims, and policies, overrides and clusters as typed objects; each
//! object is read when it changes, by nobody twice.

use std::sync::Arc;

use karmada_api::binding::ResourceBinding;
use karmada_api::cluster::Cluster;
use karmada_api::override_policy::OverridePolicy;
use karmada_api::policy::PropagationPolicy;
use karmada_api::work::Work;
use karmada_core::binding;
use karmada_core::work_name::{self, Placing};
use karmada_interpreter::Interpreter;
use parking_lot::Mutex;

use crate::bindings_index::BindingsIndex;
use crate::claims_index::ClaimsIndex;
use crate::enablements::Enablements;
use crate::events::Recorder;
use crate::fetch::{self, kinds};
use crate::informer::{Hearing, Informers, Notice};
use crate::names_index::Names;
use crate::port::{Api, ApiError, Change, Object, Resource};
use crate::runner::{Clock, Error};
use crate::typed::Typed;
use crate::works_index::WorksIndex;

/// What came of writing a Work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Put {
    /// It is there, as wanted.
    Done,
    /// It was made under a name of its own, as its usual one is another's.
    Beside {
        /// Its name.
        name: String,
        /// Whose Work has the usual one.
        holder: String,
    },
    /// An earlier life of it is on its way out, so that it cannot be made now.
    Wait,
}

/// What they share.
pub struct Shared {
    /// The hub.
    pub api: Arc<dyn Api>,
    /// Who knows the kinds.
    pub interpreter: Arc<dyn Interpreter>,
    /// The present.
    pub clock: Clock,
    /// Events of the controllers of templates and bindings.
    pub recorder: Arc<Recorder>,
    /// Works by binding.
    pub works: Arc<WorksIndex>,
    /// Bindings by whom they concern.
    pub bindings: Arc<BindingsIndex>,
    /// Templates by the policy that claimed them.
    pub claims: Arc<ClaimsIndex>,
    /// Every Cluster.
    pub clusters: Arc<Typed<Cluster>>,
    /// PropagationPolicies by namespace; ClusterPropagationPolicies have none.
    pub policies: Arc<Typed<PropagationPolicy>>,
    /// OverridePolicies by namespace; ClusterOverridePolicies have none.
    pub overrides: Arc<Typed<OverridePolicy>>,
    /// Names of namespaces that templates are in.
    pub namespaces: Arc<Names>,
    hearings: Mutex<Vec<Hearing>>,
}

impl Shared {
    /// Nothing is known before [`Shared::load`].
    pub fn new(
        api: Arc<dyn Api>,
        interpreter: Arc<dyn Interpreter>,
        clock: Clock,
        recorder: Arc<Recorder>,
    ) -> Arc<Self> {
        let enablements = Enablements::default();
        let share = move |cluster: &mut Cluster| enablements.share(&mut cluster.status.api_enablements);
        Arc::new(Shared {
            api,
            interpreter,
            clock,
            recorder,
            works: Arc::default(),
            bindings: Arc::default(),
            claims: Arc::default(),
            clusters: Arc::new(Typed::compacted(share)),
            policies: Arc::default(),
            overrides: Arc::default(),
            namespaces: Arc::default(),
            hearings: Mutex::default(),
        })
    }

    /// Takes in what there is, and from then on every change, before any controller hears of it. To be called before
    /// controllers start: who looks for Works by their binding would else take it that there are none, and let go of one that ends.
    pub async fn load(&self, informers: &Informers) -> Result<(), Error> {
        let api = &*self.api;
        let mut hearings = Vec::new();
        let mut feed = |resource: Resource, observe: Box<dyn Fn(&Change) + Send>| {
            hearings.push(informers.hear(&resource, Notice::All, observe));
        };
        let (works, clusters, names) = (self.works.clone(), self.clusters.clone(), self.namespaces.clone());
        feed(kinds::works(api)?, Box::new(move |change| works.observe(change)));
        feed(kinds::clusters(api)?, Box::new(move |change| clusters.observe(change)));
        feed(kinds::namespaces(api)?, Box::new(move |change| names.observe(change)));
        for namespace in ["any", ""] {
            let bindings = self.bindings.clone();
            feed(kinds::bindings(api, namespace)?, Box::new(move |change| bindings.observe(change)));
            let policies = self.policies.clone();
            feed(kinds::policies(api, namespace)?, Box::new(move |change| policies.observe(change)));
            let overrides = self.overrides.clone();
            feed(kinds::overrides(api, namespace)?, Box::new(move |change| overrides.observe(change)));
        }
        for hearing in &mut hearings {
            hearing.listed().await;
        }
        self.hearings.lock().extend(hearings);
        Ok(())
    }

    /// The Works that carry a binding's id, as they lie in the cache. The hub gave the id, and nobody else can: see its gates.
    pub async fn works_of(&self, of: &ResourceBinding) -> Result<Vec<Arc<Object>>, Error> {
        let resource = kinds::works(&*self.api)?;
        let (_, id) = binding::work_selector(of);
        let mut works = Vec::new();
        for key in self.works.of(&id) {
            match self.api.get(&resource, &key.namespace, &key.name).await {
                Ok(work) => works.push(work),
                Err(ApiError::NotFound(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(works)
    }

    /// Makes a Work as wanted: created, changed, or left where it is so already; where its usual name is another's, under a name of its
    /// own, which it keeps.
    pub async fn put_work(&self, wanted: &Work) -> Result<Put, Error> {
        let name = wanted.metadata.name.as_deref().unwrap_or_default();
        let usual = work_name::placing(self.work_at(wanted, name).await?.as_ref(), wanted);
        if !matches!(usual, Placing::Create | Placing::Taken(_)) {
            return self.carry_out(wanted, usual).await;
        }
        let second = work_name::of_its_own(wanted);
        let existing = self.work_at(wanted, &second).await?;
        let renamed = work_name::renamed(wanted, &second);
        match (usual, work_name::placing(existing.as_ref(), &renamed)) {
            (usual @ Placing::Create, Placing::Create | Placing::Taken(_)) => {
                self.carry_out(wanted, usual).await
            }
            (Placing::Taken(holder), Placing::Taken(other)) => {
                let namespace = wanted.metadata.namespace.as_deref().unwrap_or_default();
                let words =
                    format!("the Works {name} and {second} in {namespace} are those of {holder} and {other}");
                Err(Error::Other(words))
            }
            (Placing::Taken(holder), Placing::Create) => {
                self.carry_out(&renamed, Placing::Create).await?;
                Ok(Put::Beside { name: second, holder })
            }
            // It got its own name while the usual one was taken.
            (_, placing) => self.carry_out(&renamed, placing).await,
        }
    }

    async fn work_at(&self, wanted: &Work, name: &str) -> Result<Option<Work>, Error> {
        let namespace = wanted.metadata.namespace.as_deref().unwrap_or_default();
        fetch::get(&*self.api, &kinds::works(&*self.api)?, namespace, name).await
    }

    async fn carry_out(&self, wanted: &Work, placing: Placing) -> Result<Put, Error> {
        let resource = kinds::works(&*self.api)?;
        match placing {
            Placing::Create => {
                let created = self.api.create(&resource, fetch::to_value(wanted)?).await?;
                // At once, not when the watch tells: a binding that ends now must find it.
                self.works.observe(&Change::Applied(created.clone()));
                // And where it went before this was told, the watch has told that already.
                let now = self.api.get(&resource, &created.key.namespace, &created.key.name).await;
                if matches!(now, Err(ApiError::NotFound(_))) {
                    self.works.forget(&created);
                }
            }
            Placing::Update(merged) => {
                self.api.update(&resource, fetch::to_value(&*merged)?).await?;
            }
            Placing::Nothing => {}
            Placing::Wait | Placing::Taken(_) => return Ok(Put::Wait),
        }
        Ok(Put::Done)
    }
}
