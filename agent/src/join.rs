//! The join: one call that turns a token into an identity, and names the cause where it does not.
//!
//! In: a key and what to ask for ([`Ask`]). Out: an identity that is not kept yet, or a [`JoinError`]; meanwhile the link's view says what
//! is waited for.

use std::time::Duration;

use karmada_certs::{CertError, ClientKey, JoinToken, Pin, Trust, agent_subject, client_config_h2};
use karmada_proto::v1::{JoinRefusalCode, JoinRequest, join_reply};
use karmada_proto::{one_line, quoted};
use tokio::sync::watch;

use crate::agent_state::LinkView;
use crate::cause::Cause;
use crate::clock_and_random::ClockAndRandom;
use crate::identity::Identity;
use crate::link::dial::{Connector, DialError, dial};
use crate::retry;

/// The shortest pause between two times of asking for a person's decision, whatever the hub says.
const SOONEST: Duration = Duration::from_secs(1);
/// The longest such pause.
const LATEST: Duration = Duration::from_secs(300);

/// What a join asks for.
#[derive(Debug, Clone)]
pub struct Ask {
    /// `host:port`s of the hub, tried in order.
    pub endpoints: Vec<String>,
    /// What allows the asking.
    pub token: JoinToken,
    /// Of the hub's CA.
    pub pins: Vec<Pin>,
    /// The name to have.
    pub cluster_name: String,
    /// Of the member.
    pub cluster_uid: String,
    /// For the Cluster object.
    pub provider: String,
    /// For the Cluster object.
    pub region: String,
    /// For the Cluster object.
    pub zones: Vec<String>,
    /// How long to try while the hub is not reached.
    pub patience: Duration,
    /// The wall clock, which the hub holds against its own.
    pub sources: ClockAndRandom,
}

/// Why a join failed.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The hub was not reached.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// The hub refused.
    #[error("{}", refusal_text(*code, message))]
    Refused {
        /// The class of the reason.
        code: JoinRefusalCode,
        /// The hub's words.
        message: String,
    },
    /// The call failed otherwise.
    #[error("the hub did not answer the join: {0}")]
    Call(String),
    /// A person has to decide; it is asked again after this long.
    #[error(
        "somebody who may update clusters on the hub has to decide: karmadactl adopt {cluster} --key {key}"
    )]
    Pending {
        /// The name asked for.
        cluster: String,
        /// The fingerprint of the key that asks.
        key: String,
        /// The pause that the hub wants.
        after: Duration,
    },
    /// The key could not be made or kept.
    #[error(transparent)]
    Cert(#[from] CertError),
}

impl From<&JoinError> for Cause {
    fn from(error: &JoinError) -> Self {
        match error {
            JoinError::Dial(error) => error.into(),
            JoinError::Refused { code, .. } => (*code).into(),
            JoinError::Call(_) => Cause::Passing,
            JoinError::Pending { .. } => Cause::Pending,
            JoinError::Cert(_) => Cause::Other,
        }
    }
}

impl JoinError {
    fn is_transient(&self) -> bool {
        match self {
            Self::Dial(error) => error.is_transient(),
            Self::Call(_) => true,
            Self::Refused { code, .. } => *code == JoinRefusalCode::JoinUnavailable,
            _ => false,
        }
    }
}

fn refusal_text(code: JoinRefusalCode, message: &str) -> String {
    let cause = match code {
        JoinRefusalCode::TokenUnknown => "the token is unknown to this hub",
        JoinRefusalCode::TokenExpired => "the token has expired",
        JoinRefusalCode::TokenUsedUp => "the token was used as often as it may be",
        JoinRefusalCode::NameTaken => "the name is taken",
        JoinRefusalCode::ClusterTaken => "this cluster is registered under another name",
        JoinRefusalCode::NameInvalid => "the name cannot be used",
        JoinRefusalCode::CsrInvalid => "the certificate request was not accepted",
        JoinRefusalCode::Permission => "the hub does not allow it",
        JoinRefusalCode::ClockSkewed => "the clocks differ too much for certificates",
        JoinRefusalCode::JoinUnavailable | JoinRefusalCode::JoinRefusalUnspecified => {
            "the hub cannot join clusters now"
        }
    };
    let mut text = cause.to_owned();
    if !message.is_empty() {
        text.push_str(&format!(": {message}"));
    }
    text
}

/// Joins with `key`. Transient causes are tried again for as long as `ask.patience`, and shown in `link` meanwhile; a person's
/// decision is waited for without end.
///
/// # Errors
/// [`JoinError`]: the hub refuses, or it was not reached or did not answer for as long as `ask.patience`. Never [`JoinError::Pending`].
pub async fn join(
    connector: &dyn Connector,
    key: &ClientKey,
    ask: &Ask,
    link: &watch::Sender<LinkView>,
) -> Result<Identity, JoinError> {
    loop {
        match patiently(connector, key, ask, link).await {
            Err(JoinError::Pending { after, .. }) => {
                tokio::time::sleep(after.clamp(SOONEST, LATEST)).await;
            }
            ended => return ended,
        }
    }
}

async fn patiently(
    connector: &dyn Connector,
    key: &ClientKey,
    ask: &Ask,
    link: &watch::Sender<LinkView>,
) -> Result<Identity, JoinError> {
    let mut at = 0;
    retry::until(ask.patience, JoinError::is_transient, || {
        let endpoint = ask.endpoints.get(at % ask.endpoints.len().max(1)).cloned().unwrap_or_default();
        at += 1;
        async move {
            let joined = Box::pin(once(connector, key, ask, &endpoint)).await;
            joined.inspect_err(|error| {
                let view = LinkView::away(error.into(), error);
                // What is waited for is said once, however often it is asked for.
                if link.send_if_modified(|shown| {
                    *shown != view && {
                        *shown = view;
                        true
                    }
                }) {
                    tracing::info!(why = %quoted(&error.to_string()), "not joined yet");
                }
            })
        }
    })
    .await
}

async fn once(
    connector: &dyn Connector,
    key: &ClientKey,
    ask: &Ask,
    endpoint: &str,
) -> Result<Identity, JoinError> {
    let config = client_config_h2(&Trust::Pinned(ask.pins.clone()), None)?;
    let mut client = dial(connector, endpoint, config).await?;
    let request = JoinRequest {
        token: ask.token.reveal(),
        cluster_name: ask.cluster_name.clone(),
        cluster_uid: ask.cluster_uid.clone(),
        csr: key.request(&agent_subject(&ask.cluster_name))?.into(),
        provider: ask.provider.clone(),
        region: ask.region.clone(),
        zones: ask.zones.clone(),
        agent_version: env!("CARGO_PKG_VERSION").to_owned(),
        clock_ms: ask.sources.now().as_millisecond(),
    };
    let reply = client.join(request).await.map_err(|status| JoinError::Call(one_line(status.message())))?;
    match reply.into_inner().result {
        Some(join_reply::Result::Grant(grant)) => {
            let mut identity = Identity::new(key, ask.cluster_uid.clone(), grant, endpoint);
            identity.token_id = ask.token.id().to_owned();
            Ok(identity)
        }
        Some(join_reply::Result::Refusal(refusal)) => {
            Err(JoinError::Refused { code: refusal.code(), message: one_line(&refusal.message) })
        }
        Some(join_reply::Result::PendingMs(after)) => Err(JoinError::Pending {
            cluster: ask.cluster_name.clone(),
            key: key.fingerprint(),
            after: Duration::from_millis(after),
        }),
        None => Err(JoinError::Call("an answer without a result".into())),
    }
}

/// A cluster's name from any text: lower case, `-` for what a DNS label cannot hold, at most 48 characters.
pub fn dns_label(text: &str) -> String {
    let mut label: String = text
        .to_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect::<String>()
        .split('-')
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("-");
    label.truncate(48);
    label.trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_labels() {
        for (text, label) in [
            ("kind-Member1", "kind-member1"),
            ("arn:aws:eks:eu-1:123:cluster/Prod", "arn-aws-eks-eu-1-123-cluster-prod"),
            ("--a..b--", "a-b"),
            ("ä", ""),
            ("", ""),
        ] {
            assert_eq!(dns_label(text), label);
        }
        let long = dns_label(&"ab-".repeat(40));
        assert!(long.len() <= 48 && !long.ends_with('-'));
    }

    #[test]
    fn a_refusal_is_told_in_words() {
        let error = JoinError::Refused { code: JoinRefusalCode::NameTaken, message: "choose another".into() };
        assert_eq!(error.to_string(), "the name is taken: choose another");
        assert!(!error.is_transient());
    }
}
