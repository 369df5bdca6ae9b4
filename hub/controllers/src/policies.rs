//! What the controllers of templates and bindings share: who may read policies, clusters and Works, typed and once.

use std::sync::Arc;

use karmada_api::binding::ResourceBinding;
use karmada_api::cluster::Cluster;
use karmada_api::override_policy::OverridePolicy;
use karmada_api::policy::PropagationPolicy;
use karmada_api::work::Work;
use karmada_core::binding;
use karmada_interpreter::Interpreter;

use crate::events::Recorder;
use crate::fetch::{self, Snapshot, kinds};
use crate::port::{Api, Change};
use crate::runner::{Clock, Error};
use crate::works_index::WorksIndex;

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
