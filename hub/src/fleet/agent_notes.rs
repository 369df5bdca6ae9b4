//! What is known of each agent, kept on its Cluster for the time when it is away: its version, and the certificate that it showed.
//!
//! In: agents that come, or are given a new certificate. Out: the annotation [`AGENT`], written where it differs: once for a new version or a new certificate. Whoever
//! drops a CA sees there which sites still come with a certificate of it.

use std::sync::Arc;

use jiff::Timestamp;
use karmada_api::strings::annotations::AGENT;
use karmada_certs::PeerIdentity;
use karmada_controllers::port::Key;
use karmada_controllers::runner::{Action, Controller, Error};
use karmada_definitions::status::Status;
use karmada_gateway::SharedFleet;
use karmada_registry::Registry;
use karmada_schema::object::{ObjectKey, meta};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::write_options::write_options;

/// What is kept of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentNote {
    /// Its version.
    pub version: String,
    /// The CA of the certificate that it showed last.
    pub authority: String,
    /// When its certificate ends.
    pub certificate_ends: Timestamp,
}

impl AgentNote {
    /// What is kept on a Cluster; `None` where nothing is, or what cannot be read.
    pub fn of(cluster: &Value) -> Option<AgentNote> {
        serde_json::from_str(cluster["metadata"]["annotations"][AGENT].as_str()?).ok()
    }

    /// Of an agent that showed `peer`, and has a certificate now that ends at `ends`. A new one that was never shown may not have come
    /// through: its CA is not told.
    fn new(version: &str, peer: &PeerIdentity, ends: Timestamp) -> AgentNote {
        AgentNote { version: version.to_owned(), authority: peer.issuer.clone(), certificate_ends: ends }
    }
}

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

    async fn write(&self, name: &str, note: &AgentNote) -> Result<(), Status> {
        let definition = self.registry.definition("cluster.karmada.io", "v1alpha1", "clusters")?;
        let Ok(cluster) = self.registry.get(&definition, "", name) else { return Ok(()) };
        if cluster.deleting || AgentNote::of(&cluster.value()).as_ref() == Some(note) {
            return Ok(());
        }
        let mut change = |live: Option<&Value>| {
            let mut changed = live.cloned().ok_or_else(|| Status::not_found(&definition, name))?;
            let annotations = meta::of(&mut changed).entry("annotations").or_insert_with(|| json!({}));
            annotations[AGENT] = json!(json!(note).to_string());
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
mod tests {
    use super::*;

    #[test]
    fn a_note_survives_the_cluster_and_another_text_is_none() {
        let note = AgentNote {
            version: "1.2.3".into(),
            authority: "CN=karmada-ca-1".into(),
            certificate_ends: "2027-01-01T00:00:00Z".parse().unwrap(),
        };
        let on = |text: &str| json!({"metadata": {"annotations": {AGENT: text}}});
        let text = json!(note).to_string();
        assert_eq!(
            text,
            r#"{"authority":"CN=karmada-ca-1","certificateEnds":"2027-01-01T00:00:00Z","version":"1.2.3"}"#
        );
        assert_eq!(AgentNote::of(&on(&text)), Some(note));
        assert_eq!(AgentNote::of(&on("somebody's")), None);
        assert_eq!(AgentNote::of(&json!({})), None);
    }
}
