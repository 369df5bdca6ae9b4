//! Signs approved CertificateSigningRequests of the signers that kube-controller-manager serves.
//!
//! In: CertificateSigningRequests. Out: `status.certificate`, or the condition `Failed` with what is wrong. Nothing is approved
//! here: that is a person's. Other people's signers are left as they are, and so is `legacy-unknown`, which this API does not take.
//! More than kube-controller-manager refuses: a server's certificate for a name of the hub itself, as agents know the hub by the same
//! CA; an agent's name, which is given by joining alone; and `system:masters`, also where the request was let in by an older hub.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use karmada_schema::{condition, time};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{find, gone_is_fine, resource};
use karmada_controller_runtime::informer::Informers;
use karmada_controller_runtime::port::{Api, Key};
use karmada_controller_runtime::queue::Queue;
use karmada_controller_runtime::runner::{self, Action, Clock, Controller, Error, Source};

/// The longest life of a certificate that a request may ask for, and that of one that asks for none.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// The shortest.
const SHORTEST: Duration = Duration::from_secs(600);

const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
const KUBELET: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const SERVING: &str = "kubernetes.io/kubelet-serving";

/// What a request asks to be called.
#[derive(Clone, Debug, Default)]
pub struct RequestedSubject {
    /// User name.
    pub common_name: String,
    /// Groups.
    pub organizations: Vec<String>,
    /// How many DNS names it asks for.
    pub dns_names: usize,
    /// IP addresses.
    pub addresses: usize,
    /// Mail addresses.
    pub emails: usize,
    /// URIs.
    pub uris: usize,
    /// Whether one of the names is the hub's own, or may stand for it.
    pub hubs_own: bool,
    /// Whether the name or a group is an agent's.
    pub is_of_an_agent: bool,
}

/// Holds the CA's key.
pub trait Signer: Send + Sync + 'static {
    /// Reads a request in PEM.
    ///
    /// # Errors
    /// It is none, or its sender does not hold the key.
    fn read(&self, request: &str) -> Result<RequestedSubject, String>;

    /// A certificate for what the request asks to be called, for these usages, in PEM.
    ///
    /// # Errors
    /// The CA cannot sign it.
    fn sign(
        &self,
        request: &str,
        usages: &[&str],
        lives: Duration,
        now: jiff::Timestamp,
    ) -> Result<String, String>;
}

/// Runs the controller until told to stop.
pub async fn run(
    informers: impl Into<Informers>,
    signer: Arc<dyn Signer>,
    clock: Clock,
    stop: CancellationToken,
) {
    let informers: Informers = informers.into();
    let api = informers.api().clone();
    let sources = vec![Source::own("certificates.k8s.io/v1", "CertificateSigningRequest")];
    let controller = Arc::new(Signing { api: api.clone(), signer, clock });
    runner::run(informers, controller, Arc::new(Queue::default()), sources, 1, stop).await;
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
                let at = time::seconds(now);
                let failed = json!({"type": "Failed", "status": "True", "reason": reason, "message": message,
                    "lastUpdateTime": at, "lastTransitionTime": at});
                condition::put(&mut request, failed);
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
        let spec = &request["spec"];
        self.signer.sign(&pem, &usages(spec), lifetime(spec), now).map_err(|why| ("SigningError", why))
    }
}

/// Whether the request is approved, not refused, not done, and ours. Pure.
fn waits(request: &Value) -> bool {
    let conditions = request["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let has = |kind: &str| conditions.iter().any(|condition| condition["type"] == kind);
    let signed = request["status"]["certificate"].as_str().is_some_and(|pem| !pem.is_empty());
    let ours = matches!(request["spec"]["signerName"].as_str(), Some(CLIENT | KUBELET | SERVING));
    ours && !signed && has("Approved") && !has("Denied") && !has("Failed")
}

fn usages(spec: &Value) -> Vec<&str> {
    spec["usages"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Whether the signer signs such a request: kube-controller-manager's checks. Pure.
fn judge(spec: &Value, asked: &RequestedSubject) -> Result<(), String> {
    if asked.is_of_an_agent {
        return Err("agents' names are given by joining alone".to_owned());
    }
    // Who reads a name in a header trims it.
    if asked.organizations.iter().any(|group| group.trim() == "system:masters") {
        return Err("the group system:masters is not given by approval".to_owned());
    }
    match spec["signerName"].as_str() {
        Some(CLIENT) => judge_client(&usages(spec)),
        Some(KUBELET) => judge_kubelet(asked).and_then(|()| judge_node(spec, asked, "client auth")),
        Some(SERVING) => judge_serving(asked, spec),
        _ => Ok(()),
    }
}

fn judge_client(usages: &[&str]) -> Result<(), String> {
    let known = |usage: &&&str| matches!(**usage, "client auth" | "digital signature" | "key encipherment");
    if let Some(other) = usages.iter().find(|usage| !known(usage)) {
        return Err(format!("invalid usage for client certificate: {other}"));
    }
    if !usages.contains(&"client auth") {
        return Err("missing required usage for client certificate: client auth".to_owned());
    }
    Ok(())
}

fn is_of_nodes(asked: &RequestedSubject) -> Result<(), String> {
    let fits = asked.organizations == ["system:nodes"];
    if fits { Ok(()) } else { Err("subject organization is not system:nodes".to_owned()) }
}

fn judge_kubelet(asked: &RequestedSubject) -> Result<(), String> {
    is_of_nodes(asked)?;
    let counts =
        [("DNS", asked.dns_names), ("Email", asked.emails), ("IP", asked.addresses), ("URI", asked.uris)];
    match counts.iter().find(|(_, count)| *count > 0) {
        Some((what, _)) => Err(format!("{what} subjectAltNames are not allowed")),
        None => Ok(()),
    }
}

fn judge_serving(asked: &RequestedSubject, spec: &Value) -> Result<(), String> {
    is_of_nodes(asked)?;
    if asked.dns_names + asked.addresses == 0 {
        return Err("DNS or IP subjectAltName is required".to_owned());
    }
    if asked.hubs_own {
        return Err("a DNS or IP subjectAltName is one that the hub itself goes by".to_owned());
    }
    match (asked.emails, asked.uris) {
        (0, 0) => judge_node(spec, asked, "server auth"),
        (0, _) => Err("URI subjectAltNames are not allowed".to_owned()),
        _ => Err("Email subjectAltNames are not allowed".to_owned()),
    }
}

/// Usages and name of a node's certificate; which of the two is told first differs between the signers.
fn judge_node(spec: &Value, asked: &RequestedSubject, wanted: &str) -> Result<(), String> {
    let mut given = usages(spec);
    given.retain(|usage| *usage != "key encipherment");
    given.sort_unstable();
    given.dedup();
    let mut all = [wanted, "digital signature", "key encipherment"];
    all.sort_unstable();
    let least: Vec<&str> = all.iter().filter(|usage| **usage != "key encipherment").copied().collect();
    let usages = || {
        let fits = given == least;
        if fits { Ok(()) } else { Err(format!("usages did not match [{}]", all.join(" "))) }
    };
    let name = || {
        let fits = asked.common_name.starts_with("system:node:");
        if fits { Ok(()) } else { Err("subject common name does not begin with system:node:".to_owned()) }
    };
    if wanted == "server auth" { usages().and_then(|()| name()) } else { name().and_then(|()| usages()) }
}

/// How long the certificate lives. Pure.
fn lifetime(spec: &Value) -> Duration {
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
            (request(SERVING, &["Approved"], ""), true),
            (request("kubernetes.io/legacy-unknown", &["Approved"], ""), false),
            (request("example.com/own", &["Approved"], ""), false),
        ] {
            assert_eq!(waits(&request), wanted, "{request}");
        }
    }

    #[test]
    fn what_each_signer_signs() {
        let spec = |signer: &str, usages: &[&str]| json!({"signerName": signer, "usages": usages});
        let node = RequestedSubject {
            common_name: "system:node:a".into(),
            organizations: vec!["system:nodes".into()],
            ..RequestedSubject::default()
        };
        let user = RequestedSubject { common_name: "jane".into(), ..RequestedSubject::default() };
        let named = RequestedSubject { addresses: 1, ..node.clone() };
        let hub = RequestedSubject { hubs_own: true, ..named.clone() };
        let mailed = RequestedSubject { emails: 1, ..named.clone() };
        let outsider = RequestedSubject { organizations: Vec::new(), ..named.clone() };
        let master =
            RequestedSubject { organizations: vec!["a".into(), "system:masters ".into()], ..user.clone() };
        let agent = RequestedSubject { is_of_an_agent: true, ..user.clone() };
        let stranger = RequestedSubject { common_name: "a".into(), ..named.clone() };
        for (spec, asked, fine) in [
            (spec(CLIENT, &["client auth"]), &user, true),
            (spec(CLIENT, &["client auth", "digital signature", "key encipherment"]), &user, true),
            (spec(CLIENT, &["client auth", "server auth"]), &user, false),
            (spec(CLIENT, &["digital signature"]), &user, false),
            (spec(CLIENT, &["client auth"]), &master, false),
            (spec(CLIENT, &["client auth"]), &agent, false),
            (spec(KUBELET, &["client auth", "digital signature"]), &node, true),
            (spec(KUBELET, &["client auth"]), &node, false),
            (spec(KUBELET, &["client auth", "digital signature"]), &user, false),
            (spec(KUBELET, &["client auth", "digital signature"]), &named, false),
            (spec(KUBELET, &["client auth", "digital signature", "server auth"]), &node, false),
            (spec(SERVING, &["server auth", "digital signature"]), &named, true),
            (spec(SERVING, &["key encipherment", "server auth", "digital signature"]), &named, true),
            (spec(SERVING, &["server auth"]), &named, false),
            (spec(SERVING, &["server auth", "digital signature", "client auth"]), &named, false),
            (spec(SERVING, &["server auth", "digital signature"]), &node, false),
            (spec(SERVING, &["server auth", "digital signature"]), &mailed, false),
            (spec(SERVING, &["server auth", "digital signature"]), &outsider, false),
            (spec(SERVING, &["server auth", "digital signature"]), &stranger, false),
            (spec(SERVING, &["server auth", "digital signature"]), &hub, false),
        ] {
            assert_eq!(judge(&spec, asked).is_ok(), fine, "{spec} {asked:?}");
        }
        assert_eq!(lifetime(&json!({"expirationSeconds": 3600})), Duration::from_secs(3600));
        assert_eq!((lifetime(&json!({"expirationSeconds": 1})), lifetime(&json!({}))), (SHORTEST, LONGEST));
    }
}
