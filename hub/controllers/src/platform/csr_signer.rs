//! Signs approved CertificateSigningRequests of the signers that kube-controller-manager serves for clients.
//!
//! In: CertificateSigningRequests. Out: `status.certificate`, or the condition `Failed` with what is wrong. Nothing is approved
//! here: that is a person's. `kubernetes.io/kubelet-serving` needs names in the certificate, which this CA gives to nobody but the
//! hub, and `kubernetes.io/legacy-unknown` is nobody's to trust; both are left as they are, as are other people's signers.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{find, gone_is_fine, resource};
use crate::port::{Api, Key};
use crate::queue::Queue;
use crate::runner::{self, Action, Clock, Controller, Error, Source};

/// The longest life of a certificate that a request may ask for, and that of one that asks for none.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// The shortest.
const SHORTEST: Duration = Duration::from_secs(600);

const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
const KUBELET: &str = "kubernetes.io/kube-apiserver-client-kubelet";

/// What a request asks to be called.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// User name.
    pub common_name: String,
    /// Groups.
    pub organizations: Vec<String>,
    /// Whether it asks for further names.
    pub has_alternative_names: bool,
}

/// Holds the CA's key.
pub trait Signer: Send + Sync + 'static {
    /// Reads a request in PEM.
    ///
    /// # Errors
    /// It is none, or its sender does not hold the key.
    fn read(&self, request: &str) -> Result<Asked, String>;

    /// A client certificate for what the request asks to be called, in PEM.
    ///
    /// # Errors
    /// The CA cannot sign it.
    fn sign(&self, request: &str, lives: Duration, now: jiff::Timestamp) -> Result<String, String>;
}

/// Runs the controller until told to stop.
pub async fn run(api: Arc<dyn Api>, signer: Arc<dyn Signer>, clock: Clock, stop: CancellationToken) {
    let sources = vec![Source::own("certificates.k8s.io/v1", "CertificateSigningRequest")];
    let controller = Arc::new(Signing { api: api.clone(), signer, clock });
    runner::run(api, controller, Arc::new(Queue::default()), sources, 1, stop).await;
}

struct Signing {
    api: Arc<dyn Api>,
    signer: Arc<dyn Signer>,
    clock: Clock,
}

#[async_trait::async_trait]
impl Controller for Signing {
    type Key = Key;

    fn name(&self) -> &'static str {
        "csrsigning"
    }

    async fn reconcile(&self, key: &Key) -> Result<Action, Error> {
        let kind = resource(&*self.api, "certificates.k8s.io/v1", "CertificateSigningRequest")?;
        let found = find(&*self.api, &kind, "", &key.name).await?;
        let Some(found) = found.filter(|request| !request.deleting) else { return Ok(Action::Done) };
        let mut request = found.value()?;
        if !waits(&request) {
            return Ok(Action::Done);
        }
        let now = (self.clock)();
        match self.signed(&request, now) {
            Ok(certificate) => request["status"]["certificate"] = json!(STANDARD.encode(certificate)),
            Err((reason, message)) => {
                let at = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
                let condition = json!({"type": "Failed", "status": "True", "reason": reason, "message": message,
                    "lastUpdateTime": at, "lastTransitionTime": at});
                if let Some(conditions) = request["status"]["conditions"].as_array_mut() {
                    conditions.push(condition);
                }
            }
        }
        gone_is_fine(self.api.update_status(&kind, request).await)?;
        Ok(Action::Done)
    }
}

impl Signing {
    /// The certificate, or reason and message of the failure.
    fn signed(&self, request: &Value, now: jiff::Timestamp) -> Result<String, (&'static str, String)> {
        let invalid = |why: String| ("SignerValidationFailure", why);
        let bytes = STANDARD.decode(request["spec"]["request"].as_str().unwrap_or_default());
        let pem = bytes.ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let pem = pem.ok_or_else(|| invalid("unable to parse the request".to_owned()))?;
        let asked = self.signer.read(&pem).map_err(invalid)?;
        judge(&request["spec"], &asked).map_err(invalid)?;
        self.signer.sign(&pem, life(&request["spec"]), now).map_err(|why| ("SigningError", why))
    }
}

/// Whether the request is approved, not refused, not done, and ours. Pure.
fn waits(request: &Value) -> bool {
    let conditions = request["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let has = |kind: &str| conditions.iter().any(|condition| condition["type"] == kind);
    let signed = request["status"]["certificate"].as_str().is_some_and(|pem| !pem.is_empty());
    let ours = matches!(request["spec"]["signerName"].as_str(), Some(CLIENT | KUBELET));
    ours && !signed && has("Approved") && !has("Denied") && !has("Failed")
}

/// Whether the signer signs such a request: kube-controller-manager's checks. Pure.
fn judge(spec: &Value, asked: &Asked) -> Result<(), String> {
    let usages: Vec<&str> =
        spec["usages"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let known = |usage: &&str| matches!(*usage, "client auth" | "digital signature" | "key encipherment");
    if let Some(other) = usages.iter().find(|usage| !known(usage)) {
        return Err(format!("invalid usage for client certificate: {other}"));
    }
    if !usages.contains(&"client auth") {
        return Err("missing required usage for client certificate: client auth".to_owned());
    }
    if spec["signerName"] != KUBELET {
        return Ok(());
    }
    if !usages.contains(&"digital signature") {
        return Err("missing required usage for client certificate: digital signature".to_owned());
    }
    if asked.organizations != ["system:nodes"] {
        return Err("subject organization is not system:nodes".to_owned());
    }
    if !asked.common_name.starts_with("system:node:") {
        return Err("subject common name does not begin with system:node:".to_owned());
    }
    if asked.has_alternative_names {
        return Err("subject alternative names are not allowed".to_owned());
    }
    Ok(())
}

/// How long the certificate lives. Pure.
fn life(spec: &Value) -> Duration {
    let asked = spec["expirationSeconds"].as_u64().map_or(LONGEST, Duration::from_secs);
    asked.clamp(SHORTEST, LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_a_signature() {
        let request = |signer: &str, conditions: &[&str], certificate: &str| {
            let conditions: Vec<Value> = conditions.iter().map(|kind| json!({"type": kind})).collect();
            json!({"spec": {"signerName": signer}, "status": {"conditions": conditions, "certificate": certificate}})
        };
        for (request, wanted) in [
            (request(CLIENT, &["Approved"], ""), true),
            (request(KUBELET, &["Approved"], ""), true),
            (request(CLIENT, &[], ""), false),
            (request(CLIENT, &["Approved", "Denied"], ""), false),
            (request(CLIENT, &["Approved", "Failed"], ""), false),
            (request(CLIENT, &["Approved"], "cGVt"), false),
            (request("example.com/own", &["Approved"], ""), false),
        ] {
            assert_eq!(waits(&request), wanted, "{request}");
        }
    }

    #[test]
    fn what_each_signer_signs() {
        let spec = |signer: &str, usages: &[&str]| json!({"signerName": signer, "usages": usages});
        let node = Asked {
            common_name: "system:node:a".into(),
            organizations: vec!["system:nodes".into()],
            ..Asked::default()
        };
        let user = Asked { common_name: "jane".into(), ..Asked::default() };
        let named = Asked { has_alternative_names: true, ..node.clone() };
        for (spec, asked, fine) in [
            (spec(CLIENT, &["client auth"]), &user, true),
            (spec(CLIENT, &["client auth", "digital signature", "key encipherment"]), &user, true),
            (spec(CLIENT, &["client auth", "server auth"]), &user, false),
            (spec(CLIENT, &["digital signature"]), &user, false),
            (spec(KUBELET, &["client auth", "digital signature"]), &node, true),
            (spec(KUBELET, &["client auth"]), &node, false),
            (spec(KUBELET, &["client auth", "digital signature"]), &user, false),
            (spec(KUBELET, &["client auth", "digital signature"]), &named, false),
        ] {
            assert_eq!(judge(&spec, asked).is_ok(), fine, "{spec} {asked:?}");
        }
        assert_eq!(life(&json!({"expirationSeconds": 3600})), Duration::from_secs(3600));
        assert_eq!((life(&json!({"expirationSeconds": 1})), life(&json!({}))), (SHORTEST, LONGEST));
    }
}
