//! CertificateSigningRequests at the hub: who may ask for what, who may approve and sign, and the key that signs.
//!
//! In: writes of CertificateSigningRequests. Out: the request with its asker's name in it, or a 403, as kube-apiserver's plugins
//! CertificateApproval, CertificateSigning and CertificateSubjectRestriction give it.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use karmada_apiserver::admission::Admission;
use karmada_apiserver::auth::{Attributes, Authorizer};
use karmada_apiserver::registry::{AdmissionRequest, Operation, Registry};
use karmada_apiserver::status::Status;
use karmada_certs::{ADMIN_ORGANIZATION, CertificateRequest};
use karmada_controllers::platform::csr_signer::{Asked, Signer};
use serde_json::{Value, json};

use crate::data_dir::DataDir;

const GROUP: &str = "certificates.k8s.io";

/// The gate.
pub struct CertificateRequests {
    authorizer: Arc<Authorizer>,
}

impl CertificateRequests {
    /// A gate that judges by what the authorizer allows.
    pub fn new(authorizer: Arc<Authorizer>) -> Self {
        CertificateRequests { authorizer }
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

    fn permitted(&self, request: &AdmissionRequest<'_>, verb: &str) -> Result<(), Status> {
        let signer = request.old.and_then(|old| old["spec"]["signerName"].as_str()).unwrap_or_default();
        if self.may(request, verb, signer) {
            return Ok(());
        }
        let why = format!("user not permitted to {verb} requests with signerName \"{signer}\"");
        Err(Status::forbidden(request.definition, &request.key.name, &why))
    }
}

impl Admission for CertificateRequests {
    fn admit(&self, registry: &Registry, request: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        let definition = request.definition;
        if &*definition.group != GROUP || &*definition.plural != "certificatesigningrequests" {
            return Ok(());
        }
        let Some(old) = request.old else {
            if request.operation == Operation::Create {
                sign_with_asker(request);
                return restricted(request);
            }
            return Ok(());
        };
        match request.subresource {
            "approval" => {
                let conditions = request.object["status"]["conditions"].take();
                request.object["status"] = old["status"].clone();
                request.object["status"]["conditions"] = conditions;
                stamp_conditions(request.object, &registry.now_text());
                self.permitted(request, "approve")
            }
            "status" => {
                stamp_conditions(request.object, &registry.now_text());
                if request.object["status"]["certificate"] == old["status"]["certificate"] {
                    return Ok(());
                }
                self.permitted(request, "sign")
            }
            _ => {
                request.object["spec"] = old["spec"].clone();
                Ok(())
            }
        }
    }
}

/// Who asks is the server's to say.
fn sign_with_asker(request: &mut AdmissionRequest<'_>) {
    let user = request.user;
    let Some(spec) = request.object["spec"].as_object_mut() else { return };
    for field in ["username", "uid", "groups", "extra"] {
        spec.remove(field);
    }
    spec.insert("username".to_owned(), json!(user.name));
    if !user.uid.is_empty() {
        spec.insert("uid".to_owned(), json!(user.uid));
    }
    if !user.groups.is_empty() {
        spec.insert("groups".to_owned(), json!(user.groups));
    }
    if !user.extra.is_empty() {
        spec.insert("extra".to_owned(), json!(user.extra));
    }
}

/// Nobody becomes `system:masters` by asking.
fn restricted(request: &AdmissionRequest<'_>) -> Result<(), Status> {
    const SIGNER: &str = "kubernetes.io/kube-apiserver-client";
    let spec = &request.object["spec"];
    if spec["signerName"] != SIGNER {
        return Ok(());
    }
    let parsed = pem_of(spec).and_then(|pem| CertificateRequest::from_pem(&pem).map_err(|e| e.to_string()));
    // What cannot be read is never signed; that its writer hears of it is the validation's.
    let Ok(parsed) = parsed else { return Ok(()) };
    if parsed.subject.organizations.iter().any(|one| one == ADMIN_ORGANIZATION) {
        let why = format!("use of {SIGNER} signer with {ADMIN_ORGANIZATION} group is not allowed");
        return Err(Status::forbidden(request.definition, &request.key.name, &why));
    }
    Ok(())
}

fn pem_of(spec: &Value) -> Result<String, String> {
    let bytes = STANDARD.decode(spec["request"].as_str().unwrap_or_default());
    let bytes = bytes.map_err(|error| error.to_string())?;
    String::from_utf8(bytes).map_err(|error| error.to_string())
}

/// Conditions without times get the present ones.
fn stamp_conditions(object: &mut Value, now: &str) {
    for condition in object["status"]["conditions"].as_array_mut().into_iter().flatten() {
        for field in ["lastUpdateTime", "lastTransitionTime"] {
            if condition[field].is_null() {
                condition[field] = json!(now);
            }
        }
    }
}

/// Signs with the hub's CA.
pub struct HubSigner(pub Arc<DataDir>);

impl Signer for HubSigner {
    fn read(&self, request: &str) -> Result<Asked, String> {
        let parsed = CertificateRequest::from_pem(request).map_err(|error| error.to_string())?;
        Ok(Asked {
            common_name: parsed.subject.common_name,
            organizations: parsed.subject.organizations,
            has_alternative_names: parsed.has_alternative_names,
        })
    }

    fn sign(&self, request: &str, lives: Duration, now: jiff::Timestamp) -> Result<String, String> {
        let parsed = CertificateRequest::from_pem(request).map_err(|error| error.to_string())?;
        let signed = self.0.authority.issue_client(&parsed.subject, &parsed, lives, now);
        signed.map_err(|error| error.to_string())
    }
}
