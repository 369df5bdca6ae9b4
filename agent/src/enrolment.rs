//! How the agent comes by its identity: kept from before, or by joining; and by joining anew, where the hub does not know it any more and a
//! person gave another token since.
//!
//! In: what a person set, the store of the identity, the member. Out: an identity, kept; or what is missing or refused. An identity of
//! another member is refused.

use std::time::Duration;

use karmada_api::cluster::ApiEnablement;
use karmada_api::object;
use karmada_certs::JoinToken;

use crate::identity::Identity;
use crate::member::{self, MemberError};
use crate::{AgentError, Config, Parts, join, retry};

/// A join waits no longer for the Nodes, which say where the cluster is.
const NODES: Duration = Duration::from_secs(10);

/// What a join needs, for as long as the agent runs.
#[derive(Clone)]
pub struct Enrolment {
    /// What a person set.
    pub config: Config,
    /// What the agent works with.
    pub parts: Parts,
}

impl Enrolment {
    /// The identity that is kept, or a new one by joining.
    ///
    /// # Errors
    /// It cannot be read, is another member's, or the join cannot succeed.
    pub async fn identity(&self) -> Result<Identity, AgentError> {
        let Some(mut identity) = self.parts.identity_store.load().await? else { return self.join().await };
        // Where the member does not answer now, the identity is used all the same: nothing is enforced before the member is back.
        if let Ok(uid) = member::cluster_uid(&*self.parts.member).await
            && uid != identity.cluster_uid
        {
            return Err(AgentError::OtherMember(identity.cluster_uid, uid));
        }
        for endpoint in self.config.hub.iter().rev() {
            identity.endpoints.retain(|known| known != endpoint);
            identity.endpoints.insert(0, endpoint.clone());
        }
        Ok(identity)
    }

    /// Whether a person gave a token since `identity` was joined: the one that it was joined with does not bring a
    /// cluster back that somebody removed from the hub.
    #[must_use]
    pub fn has_new_token(&self, identity: &Identity) -> bool {
        self.token().is_ok_and(|token| token.id() != identity.token_id)
    }

    /// Joins and keeps what is granted.
    ///
    /// # Errors
    /// [`AgentError`]: something is missing to join with, the member does not answer, the join fails, or the identity cannot be kept.
    pub async fn join(&self) -> Result<Identity, AgentError> {
        let Self { config, parts } = self;
        let token = self.token()?;
        if config.hub.is_empty() {
            return Err(AgentError::Missing("--hub"));
        }
        if config.pins.is_empty() {
            return Err(AgentError::Missing("--discovery-token-ca-cert-hash"));
        }
        if config.cluster_name.is_empty() {
            return Err(AgentError::Missing("--cluster-name"));
        }
        let unreachable =
            |error: &MemberError| matches!(error, MemberError::Unreachable(_) | MemberError::Throttled(_));
        let member = &parts.member;
        let uid = || async { member::cluster_uid(&**member).await };
        let cluster_uid = retry::until(config.join_patience, unreachable, uid).await?;
        // What is not served is not known for sure where discovery fails: then the join goes on.
        if let Ok((served, _)) = member.api_enablements().await
            && is_control_plane(&served)
        {
            return Err(AgentError::ControlPlane);
        }
        let place = config.said_topology().completed_by(&**member, NODES).await;
        // The same over restarts: the hub grants a name to the key that holds it, as often as it asks.
        let key = parts.identity_store.joining_key().await?;
        let ask = join::Ask {
            endpoints: config.hub.clone(),
            token,
            pins: config.pins.clone(),
            cluster_name: config.cluster_name.clone(),
            cluster_uid,
            provider: place.provider,
            region: place.region,
            zones: place.zones,
            patience: config.join_patience,
            sources: parts.sources.clone(),
        };
        let identity = join::join(&*parts.connector, &key, &ask, &parts.link).await?;
        parts.identity_store.save(&identity).await?;
        tracing::info!(cluster = identity.cluster_name, "joined");
        Ok(identity)
    }

    fn token(&self) -> Result<JoinToken, AgentError> {
        if let Some(token) = &self.config.token {
            return Ok(token.clone());
        }
        let path = self.config.token_file.as_ref().ok_or(AgentError::Missing("--token"))?;
        let wrong = |why: String| AgentError::Token { file: path.display().to_string(), why };
        let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        JoinToken::parse(text.trim()).map_err(|error| wrong(error.to_string()))
    }
}

/// Whether these are the APIs of a Karmada control plane. An agent there would place the fleet's objects where they come from.
fn is_control_plane(served: &[ApiEnablement]) -> bool {
    served.iter().any(|api| object::group_version(&api.group_version).0 == "cluster.karmada.io")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_plane_is_known_by_its_clusters() {
        let of = |versions: &[&str]| {
            let api = |version: &&str| ApiEnablement {
                group_version: (*version).to_owned(),
                resources: Vec::new(),
            };
            is_control_plane(&versions.iter().map(api).collect::<Vec<_>>())
        };
        assert!(of(&["v1", "apps/v1", "cluster.karmada.io/v1alpha1"]));
        assert!(!of(&["v1", "apps/v1", "operator.karmada.io/v1alpha1", "work.karmada.io/v1alpha1"]));
    }
}
