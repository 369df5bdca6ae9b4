//! What is known of each agent, kept on its Cluster for the time when it is away: its version, and the certificate that it showed.
//!
//! In: agents that come, or are given a new certificate. Out: the annotation of `AgentNote`, written where it differs: once for a new version or a new certificate. Whoever
//! drops a CA sees there which sites still come with a certificate of it.

use std::sync::Arc;

use karmada_controllers::port::Key;
use karmada_controllers::runner::{Action, Controller, Error, Source};
use karmada_definitions::status::Status;
use karmada_fleet::agent_note::AgentNote;
use karmada_gateway::SharedFleet;
use karmada_registry::Registry;
use karmada_schema::object::ObjectKey;
use serde_json::Value;

use super::write_options::write_options;

/// Writes down what agents show.
pub struct AgentNoteController {
    registry: Arc<Registry>,
    fleet: Arc<SharedFleet>,
}

impl AgentNoteController {
    /// One over the fleet's state.
    pub fn new(registry: Arc<Registry>, fleet: Arc<SharedFleet>) -> Arc<AgentNoteController> {
        Arc::new(AgentNoteController { registry, fleet })
    }

    /// What wakes this controller, beside the news of links ([`FleetQueues::agents`](super::FleetQueues::agents)): nothing.
    pub fn wakes() -> Vec<Source<Key>> {
        Vec::new()
    }

    async fn write(&self, name: &str, note: &AgentNote) -> Result<(), Status> {
        let definition = self.registry.definition("cluster.karmada.io", "v1alpha1", "clusters")?;
        let Ok(cluster) = self.registry.get(&definition, "", name) else { return Ok(()) };
        if cluster.deleting || AgentNote::of(&cluster.value()).as_ref() == Some(note) {
            return Ok(());
        }
        let mut change = |live: Option<&Value>| {
            let mut changed = live.cloned().ok_or_else(|| Status::not_found(&definition, name))?;
            note.put(&mut changed);
            Ok(changed)
        };
        let at = ObjectKey::new("", name);
        self.registry.update(&definition, &at, &write_options(), &mut change).await.map(drop)
    }
}

#[async_trait::async_trait]
impl Controller for AgentNoteController {
    type Key = Key;

    fn name(&self) -> &'static str {
        "agents"
    }

    async fn reconcile(&self, key: &Key) -> Result<Action, Error> {
        let (link, peer) = (self.fleet.link(&key.name), self.fleet.peer(&key.name));
        let (Some(session), Some(peer)) = (link.session, peer) else { return Ok(Action::Done) };
        let ends = link.certificate_ends.unwrap_or(peer.not_after);
        match self.write(&key.name, &AgentNote::new(&session.agent_version, &peer, ends)).await {
            Err(status) if status.reason != "NotFound" => Err(Error::Other(status.message)),
            _ => Ok(Action::Done),
        }
    }
}

#[cfg(test)]
mod tests;
