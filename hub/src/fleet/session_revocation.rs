//! Holds sessions to what is written on their Clusters: who was deleted, given another key or shut out is cut off at once.
//!
//! In: changes of Clusters, and what people decided about keys that ask ([`keys`]). Out: the decisions carried out, and the end of
//! sessions whose identity is refused now; what is kept of a cluster that is gone goes with it. It takes no hint: at each change it asks the registrar as a new session does, so
//! that what would keep one out also ends one that runs. The end of a certificate needs no change, and is the session's own timer.

use std::sync::Arc;

use karmada_controllers::port::Key;
use karmada_controllers::runner::{Action, Controller, Error, Source};
use karmada_definitions::status::Status;
use karmada_gateway::Gateway;
use karmada_registry::Registry;
use karmada_schema::object::ObjectKey;
use serde_json::Value;

use super::hub_history::StoredSessions;
use super::write_options::write_options;
use karmada_core::registration::keys;

/// Looks at every Cluster that changes.
pub struct SessionGuard {
    registry: Arc<Registry>,
    gateway: Arc<Gateway>,
    sessions: Arc<StoredSessions>,
}

impl SessionGuard {
    /// One for the sessions of a gateway.
    pub fn new(
        registry: Arc<Registry>,
        gateway: Arc<Gateway>,
        sessions: Arc<StoredSessions>,
    ) -> Arc<SessionGuard> {
        Arc::new(SessionGuard { registry, gateway, sessions })
    }

    /// What wakes this controller: a Cluster.
    pub fn wakes() -> Vec<Source<Key>> {
        vec![Source::own("cluster.karmada.io/v1alpha1", "Cluster")]
    }

    /// Of a cluster that is gone nothing is kept; of one that is there, what is learned.
    async fn remember(&self, name: &str) -> Result<(), Status> {
        let definition = self.registry.definition("cluster.karmada.io", "v1alpha1", "clusters")?;
        if self.registry.find(&definition, "", name)?.is_some() {
            self.gateway.fleet().exists(name);
            return Ok(());
        }
        self.gateway.fleet().forget(name);
        let forgotten = self.sessions.forget(name).await;
        forgotten.map_err(|error| Status::unavailable(error.message))
    }

    /// Carries out what people decided about keys that ask.
    async fn carry_out_key_decision(&self, name: &str) -> Result<(), Status> {
        let definition = self.registry.definition("cluster.karmada.io", "v1alpha1", "clusters")?;
        let Ok(cluster) = self.registry.get(&definition, "", name) else { return Ok(()) };
        if cluster.deleting || keys::carry_out(&cluster.value()).is_none() {
            return Ok(());
        }
        let mut change = |live: Option<&Value>| {
            let live = live.ok_or_else(|| Status::not_found(&definition, name))?;
            Ok(keys::carry_out(live).unwrap_or_else(|| live.clone()))
        };
        let at = ObjectKey::new("", name);
        self.registry.update(&definition, &at, &write_options(), &mut change).await?;
        tracing::info!(cluster = name, "what was decided about keys that ask for the name is carried out");
        Ok(())
    }
}

#[async_trait::async_trait]
impl Controller for SessionGuard {
    type Key = Key;

    fn name(&self) -> &'static str {
        "session-guard"
    }

    async fn reconcile(&self, key: &Key) -> Result<Action, Error> {
        // First who may stay: a decision that cannot be written must not keep anybody in.
        self.gateway.review(&key.name).await;
        self.remember(&key.name).await.map_err(|status| Error::Other(status.message))?;
        match self.carry_out_key_decision(&key.name).await {
            Err(status) if status.reason != "NotFound" => Err(Error::Other(status.message)),
            _ => Ok(Action::Done),
        }
    }
}

#[cfg(test)]
mod tests;
