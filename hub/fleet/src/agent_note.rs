//! What is kept of each agent on its Cluster for the time when it is away: its version, and the certificate that it showed.
//!
//! In: a Cluster, or what an agent showed. Out: the note, which stands in the annotation [`AGENT`] as JSON. Pure.

use jiff::Timestamp;
use karmada_api::object;
use karmada_api::strings::annotations::AGENT;
use karmada_certs::PeerIdentity;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

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

    /// Puts it on a Cluster.
    pub fn put(&self, cluster: &mut Value) {
        object::set_annotation(cluster, AGENT, &json!(self).to_string());
    }

    /// Of an agent that showed `peer`, and has a certificate now that ends at `ends`. A new one that was never shown may not have come
    /// through: its CA is not told.
    pub fn new(version: &str, peer: &PeerIdentity, ends: Timestamp) -> AgentNote {
        AgentNote { version: version.to_owned(), authority: peer.issuer.clone(), certificate_ends: ends }
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
