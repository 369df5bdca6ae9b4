//! What the controllers of templates and bindings share: who may read policies, clusters and Works, typed and once.

use std::sync::Arc;

use karmada_api::binding::ResourceBinding;
use karmada_api::cluster::Cluster;
use karmada_api::override_policy::OverridePolicy;
use karmada_api::policy::PropagationPolicy;
use karmada_api::work::Work;
use karmada_core::binding;
use karmada_core::work_name::{self, Placing};
use karmada_interpreter::Interpreter;

use crate::events::Recorder;
use crate::fetch::{self, Snapshot, kinds};
use crate::port::{Api, Change};
use crate::runner::{Clock, Error};
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

/// The shared reading room.
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
    policies: Snapshot<PropagationPolicy>,
    cluster_policies: Snapshot<PropagationPolicy>,
    overrides: Snapshot<OverridePolicy>,
    cluster_overrides: Snapshot<OverridePolicy>,
    clusters: Snapshot<Cluster>,
}

impl Shared {
    /// A reading room over a hub.
    pub fn new(
        api: Arc<dyn Api>,
        interpreter: Arc<dyn Interpreter>,
        clock: Clock,
        recorder: Arc<Recorder>,
    ) -> Arc<Self> {
        Arc::new(Shared {
            api,
            interpreter,
            clock,
            recorder,
            works: Arc::default(),
            policies: Snapshot::default(),
            cluster_policies: Snapshot::default(),
            overrides: Snapshot::default(),
            cluster_overrides: Snapshot::default(),
            clusters: Snapshot::default(),
        })
    }

    /// Reads which Works there are. To be called before anything that looks for Works by their binding runs: a binding that is
    /// ending would else be let go before its Works.
    pub async fn load(&self) -> Result<(), Error> {
        for work in self.api.list(&kinds::works(&*self.api)?, "").await? {
            self.works.observe(&Change::Applied(work));
        }
        Ok(())
    }

    /// The Works that carry a binding's id.
    pub async fn works_of(&self, of: &ResourceBinding) -> Result<Vec<Work>, Error> {
        let resource = kinds::works(&*self.api)?;
        let (_, id) = binding::work_selector(of);
        let mut works = Vec::new();
        for key in self.works.of(&id) {
            works.extend(fetch::get::<Work>(&*self.api, &resource, &key.namespace, &key.name).await?);
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
                self.works.observe(&Change::Applied(created));
            }
            Placing::Update(merged) => {
                self.api.update(&resource, fetch::to_value(&*merged)?).await?;
            }
            Placing::Nothing => {}
            Placing::Wait | Placing::Taken(_) => return Ok(Put::Wait),
        }
        Ok(Put::Done)
    }

    /// Every PropagationPolicy.
    pub async fn policies(&self) -> Result<Arc<Vec<PropagationPolicy>>, Error> {
        self.policies.list(&*self.api, &kinds::policies(&*self.api, "any")?, "").await
    }

    /// Every ClusterPropagationPolicy.
    pub async fn cluster_policies(&self) -> Result<Arc<Vec<PropagationPolicy>>, Error> {
        self.cluster_policies.list(&*self.api, &kinds::policies(&*self.api, "")?, "").await
    }

    /// Every OverridePolicy.
    pub async fn overrides(&self) -> Result<Arc<Vec<OverridePolicy>>, Error> {
        self.overrides.list(&*self.api, &kinds::overrides(&*self.api, "any")?, "").await
    }

    /// Every ClusterOverridePolicy.
    pub async fn cluster_overrides(&self) -> Result<Arc<Vec<OverridePolicy>>, Error> {
        self.cluster_overrides.list(&*self.api, &kinds::overrides(&*self.api, "")?, "").await
    }

    /// Every Cluster, sorted by name.
    pub async fn clusters(&self) -> Result<Arc<Vec<Cluster>>, Error> {
        self.clusters.list(&*self.api, &kinds::clusters(&*self.api)?, "").await
    }
}
