//! The hub's end of CertificateSigningRequests: how requests are read, and the key that signs them.
//!
//! In: a request as PEM; usages, a lifetime, the time. Out: what it asks for, or a certificate as PEM; words where the request cannot be
//! read or signed.
//!
//! What may be asked, approved and signed is decided elsewhere: by the API server's admission
//! (`hub/registry/src/admission/certificates.rs`) and by the signing controller (`hub/kube_controller_manager/src/csr_signer.rs`).

use std::sync::Arc;
use std::time::Duration;

use karmada_certs::{CertificateRequest, is_agent_name};
use karmada_kube_controller_manager::csr_signer::{RequestedSubject, Signer};
use karmada_registry::admission::AskedName;

use crate::data_dir::DataDir;

/// What a request in PEM asks to be called; `None` where it cannot be read.
pub fn asked_name(pem: &str) -> Option<AskedName> {
    let subject = CertificateRequest::from_pem(pem).ok()?.subject;
    let is_of_an_agent = is_agent_name(&subject.common_name, &subject.organizations);
    let reserved = is_of_an_agent.then_some("agents' names are given by joining alone");
    Some(AskedName { organizations: subject.organizations, reserved })
}

/// Signs with the hub's CA.
pub struct HubSigner {
    /// Holds the CA's key.
    pub data: Arc<DataDir>,
    /// The names of the hub's own server certificate.
    pub own_names: Vec<String>,
}

impl Signer for HubSigner {
    fn read(&self, request: &str) -> Result<RequestedSubject, String> {
        let parsed = CertificateRequest::from_pem(request).map_err(|error| error.to_string())?;
        let names = parsed.alternative_names();
        let hubs_own = parsed.asks_for_any_of(&self.own_names);
        let is_of_an_agent = is_agent_name(&parsed.subject.common_name, &parsed.subject.organizations);
        Ok(RequestedSubject {
            is_of_an_agent,
            common_name: parsed.subject.common_name,
            organizations: parsed.subject.organizations,
            dns_names: names.dns,
            addresses: names.addresses,
            emails: names.emails,
            uris: names.uris,
            hubs_own,
        })
    }

    fn sign(
        &self,
        request: &str,
        usages: &[&str],
        lives: Duration,
        now: jiff::Timestamp,
    ) -> Result<String, String> {
        let parsed = CertificateRequest::from_pem(request).map_err(|error| error.to_string())?;
        let authorities = self.data.authorities();
        authorities.signing().issue_requested(&parsed, usages, lives, now).map_err(|error| error.to_string())
    }
}
