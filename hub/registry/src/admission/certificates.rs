//! CertificateSigningRequests: who may ask for what, who may approve and who may sign, as kube-apiserver's plugins
//! CertificateApproval, CertificateSigning and CertificateSubjectRestriction judge it.
//!
//! In: writes of requests, what the authorizer allows, and a reader of requests. Out: nothing, or a 403.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use karmada_definitions::kind_row::BuiltinKind;
use karmada_definitions::status::Status;
use serde_json::Value;

use super::Admission;
use crate::authorize::{Attributes, Authorize};
use crate::registry_context::RegistryContext;
use crate::request::{AdmissionRequest, Operation};
use crate::user::MASTERS;

const GROUP: &str = "certificates.k8s.io";

/// The signer of client certificates that this API server trusts.
const CLIENT: &str = "kubernetes.io/kube-apiserver-client";

/// What a request asks to be called.
#[derive(Clone, Debug, Default)]
pub struct AskedName {
    /// Groups.
    pub organizations: Vec<String>,
    /// Why the name or a group is given in another way alone, where it is.
    pub reserved: Option<&'static str>,
}

/// What a request in PEM asks to be called; `None` where it cannot be read.
pub type ReadName = fn(&str) -> Option<AskedName>;

/// The gate.
pub struct CertificateRequests {
    authorizer: Arc<dyn Authorize>,
    read: ReadName,
}

impl CertificateRequests {
    /// A gate that judges by what the authorizer allows, and reads requests with `read`.
    pub fn new(authorizer: Arc<dyn Authorize>, read: ReadName) -> Self {
        CertificateRequests { authorizer, read }
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
    fn admit(&self, _: &RegistryContext, request: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        let definition = request.definition;
        if definition.row.known != BuiltinKind::CertificateRequest {
            return Ok(());
        }
        match (request.operation, request.subresource, request.old) {
            (Operation::Create, "", _) => match refused_name(request.object, self.read) {
                Some(why) => Err(Status::forbidden(definition, &request.key.name, &why)),
                None => Ok(()),
            },
            (_, "approval", Some(old)) => self.permitted(request, "approve", old),
            (_, "status", Some(old)) if is_signed_anew(old, request.object) => {
                self.permitted(request, "sign", old)
            }
            _ => Ok(()),
        }
    }
}

/// Whether a write of the status brings another certificate, or other conditions: that it failed is said by who signs.
fn is_signed_anew(old: &Value, new: &Value) -> bool {
    let certificate =
        |object: &Value| object["status"]["certificate"].as_str().unwrap_or_default().to_owned();
    let conditions = |object: &Value| object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    certificate(old) != certificate(new) || conditions(old) != conditions(new)
}

/// Why a name cannot be asked for: nobody becomes `system:masters` by asking, nor what is given in another way alone. What cannot be read is never signed, and
/// that its writer hears of it is the validation's.
fn refused_name(object: &Value, read: ReadName) -> Option<String> {
    let spec = &object["spec"];
    let bytes = STANDARD.decode(spec["request"].as_str().unwrap_or_default()).ok()?;
    let asked = read(&String::from_utf8(bytes).ok()?)?;
    if spec["signerName"] == CLIENT && asked.organizations.iter().any(|one| one.trim() == MASTERS) {
        return Some(format!("use of {CLIENT} signer with {MASTERS} group is not allowed"));
    }
    let ours = spec["signerName"].as_str().is_some_and(|signer| signer.starts_with("kubernetes.io/"));
    asked.reserved.filter(|_| ours).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn by_words(pem: &str) -> Option<AskedName> {
        let organizations: Vec<String> = pem.split(' ').map(str::to_owned).collect();
        let reserved = pem.contains("robot").then_some("robots are made otherwise");
        (pem != "unreadable").then_some(AskedName { organizations, reserved })
    }

    #[test]
    fn nobody_asks_to_be_a_master_or_what_is_reserved() {
        let refused = |signer: &str, text: &str| {
            let request = json!({"spec": {"signerName": signer, "request": STANDARD.encode(text)}});
            refused_name(&request, by_words).is_some()
        };
        assert!(refused(CLIENT, "developers system:masters"));
        assert!(!refused(CLIENT, "developers"));
        assert!(!refused(CLIENT, "unreadable"));
        assert!(!refused("kubernetes.io/legacy-unknown", "system:masters"));
        for ours in [CLIENT, "kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/kubelet-serving"] {
            assert!(refused(ours, "robot"), "{ours}");
        }
        assert!(!refused("example.com/own", "robot"), "another CA's names are none here");
    }

    #[test]
    fn signing_is_what_changes_the_certificate_or_what_became_of_it() {
        let status = |certificate: Value| json!({"status": {"certificate": certificate}});
        assert!(is_signed_anew(&json!({}), &status(json!("eA=="))));
        assert!(is_signed_anew(&status(json!("eA==")), &json!({"status": {}})));
        assert!(!is_signed_anew(&json!({"status": {}}), &status(json!(""))));
        assert!(!is_signed_anew(&status(json!("eA==")), &status(json!("eA=="))));
        let failed = json!({"status": {"conditions": [{"type": "Failed", "status": "True"}]}});
        assert!(is_signed_anew(&json!({}), &failed));
        assert!(!is_signed_anew(&failed, &failed));
        assert!(!is_signed_anew(&json!({}), &json!({"status": {"conditions": []}})));
    }
}
