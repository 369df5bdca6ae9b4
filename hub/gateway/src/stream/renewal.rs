//! Renewing an agent's certificate over its session.
//!
//! In: a request of the agent. Out: the certificate or the refusal; a note for the audit log; when the new certificate ends.

use karmada_certs::{CertificateRequest, PeerIdentity};
use karmada_proto::v1::RenewReply;

use crate::gateway::Gateway;
use crate::ports::Occurrence;
use crate::session_handle::SessionHandle;

/// Signs a new certificate, for the session that is current and whose key holds.
pub(super) async fn renew(gateway: &Gateway, handle: &SessionHandle, csr: &[u8]) -> RenewReply {
    let peer = &handle.peer;
    let note = |refused: Option<&str>| {
        let (user, cluster) = (Some(peer.common_name.as_str()), handle.cluster.as_str());
        let said = Occurrence { verb: "renew", user, cluster, from: None, refused, pending: false };
        gateway.ports.registrar.note(&said);
    };
    let refused = |refusal: String| {
        note(Some(&refusal));
        RenewReply { refusal, ..RenewReply::default() }
    };
    if !gateway.fleet.is_current(handle) {
        return refused("this session is not the cluster's any more".to_owned());
    }
    let request = match CertificateRequest::from_der(csr) {
        Ok(request) => request,
        Err(error) => return refused(error.to_string()),
    };
    match gateway.ports.registrar.renew(&handle.cluster, peer, request).await {
        Ok(grant) => {
            note(None);
            if let Ok(new) = PeerIdentity::from_pem(&grant.certificate) {
                gateway.fleet.renewed(handle, new.not_after);
            }
            RenewReply {
                certificate: grant.certificate,
                ca_bundle: grant.ca_bundle,
                endpoints: grant.endpoints,
                refusal: String::new(),
            }
        }
        Err(error) => refused(error.message),
    }
}
