//! Namespace controller: the hub's namespaces go along to every cluster, so that what is placed there has a place (behaviour 65).

use std::sync::Arc;
use std::time::Duration;

use karmada_api::work::Work;
use karmada_core::namespace as decide;
use karmada_core::skip::SkipRules;
use serde_json::Value;

use crate::fetch::{self, kinds};
use crate::policies::{Put, Shared};
use crate::port::{Api, ApiError, Key};
use crate::runner::{Action, Controller, Error};

/// How long to wait for a new cluster's execution namespace.
const NAMESPACE_WAIT: Duration = Duration::from_secs(1);

/// How long to wait for the Work of an earlier namespace of the same name to go, where nothing tells of it.
const EARLIER_WAIT: Duration = Duration::from_secs(30);

/// The controller.
pub struct NamespaceSync {
    shared: Arc<Shared>,
    skip: SkipRules,
}

impl NamespaceSync {
    /// A controller that keeps back what `skip` says.
    pub fn new(shared: Arc<Shared>, skip: SkipRules) -> Arc<Self> {
        Arc::new(NamespaceSync { shared, skip })
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
    type Key = Key;

    fn name(&self) -> &'static str {
        "namespace-sync-controller"
    }

    async fn reconcile(&self, key: &Key) -> Result<Action, Error> {
        let api: &dyn Api = &*self.shared.api;
        let resource = kinds::namespaces(api)?;
        let Some(namespace) = fetch::get::<Value>(api, &resource, "", &key.name).await? else {
            return Ok(Action::Done);
        };
        if !decide::is_carried_along(&namespace, &self.skip) {
            return Ok(Action::Done);
        }
        let (clusters, overrides) = (self.shared.clusters().await?, self.shared.cluster_overrides().await?);
        let (mut failed, mut waits, mut earlier) = (None, false, false);
        for cluster in clusters.iter().filter(|cluster| !cluster.deleting()) {
            let wanted = decide::work(&namespace, cluster, &overrides);
            let outcome = match wanted {
                Ok(work) => self.put(&work).await,
                Err(error) => Err(Error::Other(error.to_string())),
            };
            match outcome {
                // One on its way out is made anew when it is gone.
                Ok(gone) => earlier |= !gone,
                // A cluster that is just coming (or going) has no execution namespace yet (or any more).
                Err(Error::Api(ApiError::NotFound(_))) => waits = true,
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
