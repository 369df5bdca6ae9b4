//! A join: from the request as it came to the answer, by way of the registrar.
//!
//! In: a [`JoinRequest`] of anybody. Out: a [`JoinReply`], a line in the log, a note for the audit log. Its texts are checked before
//! anything else is done with them. The lines about refusals are bounded in number: who has no credential cannot fill a disk.

use std::net::IpAddr;

use karmada_certs::{CertificateRequest, JoinToken};
use karmada_proto::v1::{self, JoinReply, JoinRequest, join_reply};
use karmada_proto::{join, quoted};

use crate::gateway::Gateway;
use crate::ports::{JoinAsk, JoinOutcome, JoinRefusal, JoinRefusalCode, Occurrence, PortError};
use crate::session_admission;

/// Answers a join that came from an address.
pub(crate) async fn answer(
    gateway: &Gateway,
    request: JoinRequest,
    from: Option<IpAddr>,
) -> Result<JoinReply, PortError> {
    let clocks = session_admission::clocks(request.clock_ms, gateway.wall_ms());
    let outcome = match clocks.and_then(|()| ask(request)) {
        Err(refusal) => {
            note(gateway, None, "", from, &JoinOutcome::Refused(refusal.clone()));
            JoinOutcome::Refused(refusal)
        }
        Ok(ask) => {
            let (token, cluster) = (ask.token.id().to_owned(), ask.cluster_name.clone());
            let outcome = gateway.ports.registrar.join(ask).await?;
            note(gateway, Some(&token), &cluster, from, &outcome);
            outcome
        }
    };
    let result = Some(match outcome {
        JoinOutcome::Granted(grant) => join_reply::Result::Grant(v1::JoinGrant {
            certificate: grant.certificate,
            ca_bundle: grant.ca_bundle,
            endpoints: grant.endpoints,
            cluster_name: grant.cluster_name,
        }),
        JoinOutcome::Pending(after) => join_reply::Result::PendingMs(after.as_millis() as u64),
        JoinOutcome::Refused(refusal) => {
            join_reply::Result::Refusal(join::refused(refusal.code, &refusal.message))
        }
    });
    Ok(JoinReply { result, hub_clock_ms: gateway.wall_ms() })
}

/// Checks the shape of a join request: the bounds of its texts, then the token's shape, then that the key is held.
///
/// # Errors
/// As of [`join::check`]; the token is none, or the certificate request is none or not signed by its key.
pub fn ask(request: JoinRequest) -> Result<JoinAsk, JoinRefusal> {
    let refusal = |code, message: String| JoinRefusal { code, message };
    join::check(&request).map_err(|refused| refusal(refused.code(), refused.message))?;
    let token = JoinToken::parse(&request.token)
        .map_err(|error| refusal(JoinRefusalCode::TokenUnknown, error.to_string()))?;
    let certificate = CertificateRequest::from_der(&request.csr)
        .map_err(|error| refusal(JoinRefusalCode::CsrInvalid, error.to_string()))?;
    Ok(JoinAsk {
        token,
        cluster_name: request.cluster_name,
        cluster_uid: request.cluster_uid,
        request: certificate,
        provider: request.provider,
        region: request.region,
        zones: request.zones,
        agent_version: request.agent_version,
    })
}

/// Writes down how a join ended. `token`: the id it showed, where it had the shape of one.
fn note(gateway: &Gateway, token: Option<&str>, cluster: &str, from: Option<IpAddr>, outcome: &JoinOutcome) {
    let (code, message) = match outcome {
        JoinOutcome::Granted(_) => ("granted", ""),
        JoinOutcome::Pending(_) => ("pending", "it waits for a person, or for the name"),
        JoinOutcome::Refused(refusal) => (refusal.code.as_str_name(), &*refusal.message),
    };
    let known =
        !matches!(outcome, JoinOutcome::Refused(JoinRefusal { code: JoinRefusalCode::TokenUnknown, .. }));
    let who = token.filter(|_| known).map(|id| format!("system:bootstrap:{id}"));
    gateway.ports.registrar.note(&Occurrence {
        verb: "join",
        user: who.as_deref(),
        cluster,
        from,
        refused: matches!(outcome, JoinOutcome::Refused(_)).then_some(message),
        pending: matches!(outcome, JoinOutcome::Pending(_)),
    });
    let granted = matches!(outcome, JoinOutcome::Granted(_));
    let (token, cluster, why) = (token.unwrap_or(""), quoted(cluster), quoted(message));
    if granted {
        tracing::info!(token, %cluster, from = from.map(tracing::field::display), "a join was granted");
    } else if let Some(left_out) = gateway.may_log_refusal() {
        tracing::info!(token, %cluster, from = from.map(tracing::field::display), code, %why, left_out, "a join was not granted");
    }
}
