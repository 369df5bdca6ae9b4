//! CertificateSigningRequests: who may ask for what, who may approve and who may sign, as kube-apiserver's plugins
//! CertificateApproval, CertificateSigning and CertificateSubjectRestriction judge it.
//!
//! In: writes of requests, what the authorizer allows, and a reader of requests. Out: nothing, or a 403.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::Admission;
use crate::auth::{Attributes, Authorizer, MASTERS};
use crate::registry::{AdmissionRequest, Operation, Registry};
use crate::status::Status;

const GROUP: &str = "certificates.k8s.io";

/// The signer of client certificates that this API server trusts.
const CLIENT: &str = "kubernetes.io/kube-apiserver-client";

/// The organisations that a request in PEM asks for; `None` where it cannot be read.
pub type Organizations = fn(&str) -> Option<Vec<String>>;

/// The gate.
pub struct CertificateRequests {
    authorizer: Arc<Authorizer>,
    organizations: Organizations,
}

impl CertificateRequests {
    /// A gate that judges by what the authorizer allows, and reads requests with `organizations`.
    pub fn new(authorizer: Arc<Authorizer>, organizations: Organizations) -> Self {
        CertificateRequests { authorizer, organizations }
    }

    /// Whether the user has the verb on the signer, by its name or by its domain.
    fn may(&self, request: &AdmissionRequest<'_>, verb: &str, signer: &str) -> bool {
        let domain = signer.split('/').next().unwrap_or_default();
        [signer.to_owned(), format!("{domain}/*")].into_iter().any(|name| {
            let attributes = Attributes {
                verb: verb.to_owned(),
                group: GROUP.to_owned(),
                version: "*".to_owned(),
                resource: "signers".to_owned(),
                name,
                ..Attributes::default()
            };
            self.authorizer.authorize(request.user, &attributes).allowed
        })
    }

    fn permitted(&self, request: &AdmissionRequest<'_>, verb: &str, old: &Value) -> Result<(), Status> {
        let signer = old["spec"]["signerName"].as_str().unwrap_or_default();
        if self.may(request, verb, signer) {
            return Ok(());
        }
        let why = format!("user not permitted to {verb} requests with signerName \"{signer}\"");
        Err(Status::forbidden(request.definition, &request.key.name, &why))
    }
}

impl Admission for CertificateRequests {
    fn admit(&self, _: &Registry, request: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        let definition = request.definition;
        if &*definition.group != GROUP || &*definition.plural != "certificatesigningrequests" {
            return Ok(());
        }
        match (request.operation, request.subresource, request.old) {
            (Operation::Create, "", _) if asks_for_masters(request.object, self.organizations) => {
                let why = format!("use of {CLIENT} signer with {MASTERS} group is not allowed");
                Err(Status::forbidden(definition, &request.key.name, &why))
            }
            (_, "approval", Some(old)) => self.permitted(request, "approve", old),
            (_, "status", Some(old)) if is_signed_anew(old, request.object) => {
                self.permitted(request, "sign", old)
            }
            _ => Ok(()),
        }
    }
}

/// Whether a write of the status brings another certificate.
fn is_signed_anew(old: &Value, new: &Value) -> bool {
    let certificate =
        |object: &Value| object["status"]["certificate"].as_str().unwrap_or_default().to_owned();
    certificate(old) != certificate(new)
}

/// Nobody becomes `system:masters` by asking. What cannot be read is never signed, and that its writer hears of it is the
/// validation's.
fn asks_for_masters(object: &Value, organizations: Organizations) -> bool {
    let spec = &object["spec"];
    if spec["signerName"] != CLIENT {
        return false;
    }
    let bytes = STANDARD.decode(spec["request"].as_str().unwrap_or_default()).ok();
    let pem = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    pem.and_then(|pem| organizations(&pem)).is_some_and(|all| all.iter().any(|one| one == MASTERS))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn by_words(pem: &str) -> Option<Vec<String>> {
        (pem != "unreadable").then(|| pem.split(' ').map(str::to_owned).collect())
    }

    #[test]
    fn nobody_asks_to_be_a_master() {
        let asks = |signer: &str, text: &str| {
            let request = json!({"spec": {"signerName": signer, "request": STANDARD.encode(text)}});
            asks_for_masters(&request, by_words)
        };
        assert!(asks(CLIENT, "developers system:masters"));
        assert!(!asks(CLIENT, "developers"));
        assert!(!asks(CLIENT, "unreadable"));
        assert!(!asks("kubernetes.io/legacy-unknown", "system:masters"));
    }

    #[test]
    fn signing_is_what_changes_the_certificate() {
        let status = |certificate: Value| json!({"status": {"certificate": certificate}});
        assert!(is_signed_anew(&json!({}), &status(json!("eA=="))));
        assert!(is_signed_anew(&status(json!("eA==")), &json!({"status": {}})));
        assert!(!is_signed_anew(&json!({"status": {}}), &status(json!(""))));
        assert!(!is_signed_anew(&status(json!("eA==")), &status(json!("eA=="))));
    }
}
