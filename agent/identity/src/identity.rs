//! Who this agent is: its name, its key, the certificate issued for it, and whom it trusts.
//!
//! In: what a join or a renewal granted; a directory or a Secret. Out: certificate, key and CAs for TLS, and where the hub is; a renewal
//! that is for somebody else or says nothing new is refused.
//!
//! Kept in `identity.json` in the state directory, or in a Secret of the member, where the agent runs as a Pod
//! and must survive its move. The key is made here and goes nowhere else.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use karmada_api::object;
use karmada_certs::{
    CertError, ClientKey, KeyedCertificate, PeerIdentity, Trust, bundle_revision, certificates, files,
};
use karmada_proto::v1::RenewReply;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use karmada_member::{Gvk, Member, MemberError, ObjectId, retry};

/// File, or key of the Secret, of the key that joins are asked with until one is granted.
const JOINING_KEY: &str = "joining.key";
/// How long it is tried to put that key into a Secret that others write at the same time.
const JOINING_KEY_TIMEOUT: Duration = Duration::from_secs(2);

/// An identity that a hub gave.
#[derive(Clone, Serialize, Deserialize)]
pub struct Identity {
    /// The cluster's name on the hub.
    pub cluster_name: String,
    /// UID of the member's kube-system namespace when it joined.
    pub cluster_uid: String,
    /// PKCS#8 PEM.
    key: String,
    /// PEM.
    pub certificate: String,
    /// PEM: the certificate before, of the same key. It is shown while the newer one has not begun, which happens where that was made
    /// under a clock that was ahead.
    #[serde(default)]
    earlier: Option<String>,
    /// PEM of the CAs to trust.
    pub ca_bundle: String,
    /// `host:port`s of the hub, in order.
    pub endpoints: Vec<String>,
    /// The token that it was joined with; empty where that is not known.
    #[serde(default)]
    pub token_id: String,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").field("cluster_name", &self.cluster_name).finish_non_exhaustive()
    }
}

impl Identity {
    /// What a join granted, for `key`.
    pub fn new(
        key: &ClientKey,
        cluster_uid: String,
        grant: karmada_proto::v1::JoinGrant,
        dialled: &str,
    ) -> Self {
        let mut identity = Self {
            cluster_name: grant.cluster_name,
            cluster_uid,
            key: key.to_pem(),
            certificate: grant.certificate,
            earlier: None,
            ca_bundle: grant.ca_bundle,
            endpoints: grant.endpoints,
            token_id: String::new(),
        };
        // What has worked is tried first.
        identity.endpoints.retain(|endpoint| endpoint != dialled && is_endpoint(endpoint));
        identity.endpoints.insert(0, dialled.to_owned());
        identity.endpoints.truncate(ENDPOINTS);
        identity
    }

    /// The key.
    ///
    /// # Errors
    /// The key that was kept is none.
    pub fn key(&self) -> Result<ClientKey, CertError> {
        ClientKey::from_pem(&self.key)
    }

    /// The certificate to show: the newest, unless that has not begun and the one before serves.
    fn shown(&self, now: Timestamp) -> &str {
        let dates =
            |pem: &str| PeerIdentity::from_pem(pem).ok().map(|peer| (peer.not_before, peer.not_after));
        let has_begun = dates(&self.certificate).is_none_or(|(begins, _)| begins <= now);
        let serves =
            |earlier: &&String| dates(earlier).is_some_and(|(begins, ends)| begins <= now && now < ends);
        match &self.earlier {
            Some(earlier) if !has_begun && serves(&earlier) => earlier,
            _ => &self.certificate,
        }
    }

    /// Whether another certificate than the newest is shown.
    pub fn shows_earlier(&self, now: Timestamp) -> bool {
        self.shown(now) != self.certificate
    }

    /// For TLS.
    pub fn keyed_certificate(&self, now: Timestamp) -> KeyedCertificate {
        KeyedCertificate { certificate_pem: self.shown(now).to_owned(), key_pem: self.key.clone() }
    }

    /// For TLS.
    pub fn trust(&self) -> Trust {
        Trust::Bundle(self.ca_bundle.clone())
    }

    /// What tells the CAs that are trusted from others.
    pub fn trust_revision(&self) -> u64 {
        bundle_revision(&self.ca_bundle)
    }

    /// What the certificate says that is shown.
    ///
    /// # Errors
    /// The certificate that is shown cannot be read.
    pub fn peer(&self, now: Timestamp) -> Result<PeerIdentity, CertError> {
        PeerIdentity::from_pem(self.shown(now))
    }

    /// Takes a renewal. True where the hub's CA is another since.
    ///
    /// # Errors
    /// In words: the hub refuses, or what it sent cannot be read, says nothing new, or is for another key or name. Nothing is changed then,
    /// so that a mistake cannot lock us out.
    pub fn renewed(&mut self, reply: RenewReply, now: Timestamp) -> Result<bool, String> {
        if !reply.refusal.is_empty() {
            return Err(reply.refusal);
        }
        let (old, new) = (self.peer(now), PeerIdentity::from_pem(&reply.certificate));
        let (Ok(old), Ok(new)) = (old, new) else { return Err("the new certificate does not parse".into()) };
        if new.key_fingerprint != old.key_fingerprint || new.common_name != old.common_name {
            return Err("the new certificate is for somebody else".into());
        }
        let is_news = |endpoint: &String| is_endpoint(endpoint) && !self.endpoints.contains(endpoint);
        let same_bundle = reply.ca_bundle.is_empty() || reply.ca_bundle == self.ca_bundle;
        let is_held = reply.certificate == self.certificate;
        if is_held
            && same_bundle
            && !(self.endpoints.len() < ENDPOINTS && reply.endpoints.iter().any(is_news))
        {
            return Err("the hub sent the certificate that is held already".into());
        }
        let before = (old.issuer, self.trust_revision());
        if !reply.ca_bundle.is_empty() {
            // One that trusts nobody would never find its hub again.
            certificates(&reply.ca_bundle).map_err(|error| format!("the new CA bundle: {error}"))?;
            self.ca_bundle = reply.ca_bundle;
        }
        if !is_held {
            self.earlier = Some(self.shown(now).to_owned());
            self.certificate = reply.certificate;
        }
        for endpoint in reply.endpoints {
            let is_news = is_endpoint(&endpoint) && !self.endpoints.contains(&endpoint);
            if is_news && self.endpoints.len() < ENDPOINTS {
                self.endpoints.push(endpoint);
            }
        }
        Ok(before != (new.issuer, self.trust_revision()))
    }
}

/// Endpoints of a hub that are kept.
const ENDPOINTS: usize = 16;

/// Whether what a hub names may be an endpoint: no longer than a DNS name with a colon and a port, and nothing but visible characters.
fn is_endpoint(text: &str) -> bool {
    text.len() <= 260 && text.chars().all(|c| c.is_ascii_graphic())
}

/// Why an identity cannot be kept or found.
#[derive(Debug, thiserror::Error)]
pub enum IdentityStoreError {
    /// The file.
    #[error(transparent)]
    File(#[from] CertError),
    /// The Secret.
    #[error("the identity's Secret {0}: {1}")]
    Secret(String, MemberError),
    /// It does not parse.
    #[error("the identity in {0} is damaged: {1}")]
    Damaged(String, String),
}

/// Where the identity is kept.
#[derive(Clone)]
pub enum IdentityStore {
    /// `identity.json` in this directory.
    Directory(PathBuf),
    /// A Secret of the member, key `identity.json`.
    Secret {
        /// The member that holds it.
        member: Arc<dyn Member>,
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
}

impl IdentityStore {
    /// The same place, reached over `member`.
    #[must_use]
    pub fn over(&self, member: Arc<dyn Member>) -> Self {
        match self {
            Self::Directory(directory) => Self::Directory(directory.clone()),
            Self::Secret { namespace, name, .. } => {
                Self::Secret { member, namespace: namespace.clone(), name: name.clone() }
            }
        }
    }

    /// The identity, where there is one.
    ///
    /// # Errors
    /// [`IdentityStoreError::Damaged`] where it does not parse; otherwise the file cannot be read, or the member does not give the Secret.
    pub async fn load(&self) -> Result<Option<Identity>, IdentityStoreError> {
        let (place, text) = match self {
            Self::Directory(directory) => {
                let path = file(directory);
                (path.display().to_string(), files::read(&path)?)
            }
            Self::Secret { member, namespace, name } => {
                let place = format!("{namespace}/{name}");
                let secret = member.get(&secret_id(namespace, name)).await;
                let secret = secret.map_err(|error| IdentityStoreError::Secret(place.clone(), error))?;
                let data = secret.as_ref().and_then(|s| s.pointer("/data/identity.json")?.as_str());
                let damaged = |error: String| IdentityStoreError::Damaged(place.clone(), error);
                let text =
                    data.map(|data| STANDARD.decode(data).map_err(|e| damaged(e.to_string()))).transpose()?;
                let text = text.map(String::from_utf8).transpose().map_err(|e| damaged(e.to_string()))?;
                (place, text)
            }
        };
        let parse = |text: String| serde_json::from_str(&text);
        text.map(parse).transpose().map_err(|error| IdentityStoreError::Damaged(place, error.to_string()))
    }

    /// The key to join with: made and kept at the first time, and the same until an identity is kept.
    ///
    /// # Errors
    /// A kept key cannot be looked up, or a new one cannot be made or kept; other writers of the Secret are waited for first.
    pub async fn joining_key(&self) -> Result<ClientKey, IdentityStoreError> {
        match self {
            Self::Directory(directory) => {
                let path = directory.join(JOINING_KEY);
                if let Some(kept) = files::read(&path)?.and_then(|pem| ClientKey::from_pem(&pem).ok()) {
                    return Ok(kept);
                }
                let key = ClientKey::generate()?;
                files::write_private(&path, key.to_pem().as_bytes())?;
                Ok(key)
            }
            Self::Secret { member, namespace, name } => {
                // Somebody else wrote the Secret between the look and the write: what a person set, or the agent's own annotations.
                let is_conflict = |error: &MemberError| matches!(error, MemberError::Conflict(_));
                let look = || joining_key_in_secret(&**member, namespace, name);
                let key = retry::until(JOINING_KEY_TIMEOUT, is_conflict, look).await;
                key.map_err(|error| IdentityStoreError::Secret(format!("{namespace}/{name}"), error))
            }
        }
    }

    /// Keeps the identity; the key to join with has done its work.
    ///
    /// # Errors
    /// The file cannot be written, or the member refuses the write of the Secret.
    pub async fn save(&self, identity: &Identity) -> Result<(), IdentityStoreError> {
        let text = json!(identity).to_string();
        match self {
            Self::Directory(directory) => {
                files::write_private(&file(directory), text.as_bytes())?;
                // Where it stays, it is the key of an identity that is kept beside it.
                let _ = std::fs::remove_file(directory.join(JOINING_KEY));
                Ok(())
            }
            Self::Secret { member, namespace, name } => {
                let wrong = |error| IdentityStoreError::Secret(format!("{namespace}/{name}"), error);
                let data = json!({"identity.json": STANDARD.encode(text)});
                let applied = member.apply(&secret_with(namespace, name, &data)).await.map_err(wrong)?;
                if applied["data"][JOINING_KEY].is_string() {
                    let none = json!({"data": {JOINING_KEY: null}});
                    member.merge(&secret_id(namespace, name), &none).await.map_err(wrong)?;
                }
                Ok(())
            }
        }
    }
}

/// The key to join with that the Secret has, or a new one, put over what was read and over nothing else: a key of an earlier try that
/// comes late takes nobody's place.
async fn joining_key_in_secret(
    member: &dyn Member,
    namespace: &str,
    name: &str,
) -> Result<ClientKey, MemberError> {
    let id = secret_id(namespace, name);
    let secret = member.get(&id).await?;
    let kept = secret.as_ref().and_then(|secret| secret["data"][JOINING_KEY].as_str());
    let pem = kept.and_then(|data| String::from_utf8(STANDARD.decode(data).ok()?).ok());
    if let Some(kept) = pem.and_then(|pem| ClientKey::from_pem(&pem).ok()) {
        return Ok(kept);
    }
    let key = ClientKey::generate().map_err(|error| MemberError::Other(error.to_string()))?;
    let data = json!({JOINING_KEY: STANDARD.encode(key.to_pem())});
    match secret {
        Some(secret) => {
            let version = object::resource_version(&secret);
            let patch = json!({"metadata": {"resourceVersion": version}, "data": data});
            member.merge(&id, &patch).await?;
        }
        None => drop(member.create(&secret_with(namespace, name, &data)).await?),
    }
    Ok(key)
}

/// An opaque Secret of this name, with these values in base64.
pub fn secret_with(namespace: &str, name: &str, data: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": name, "namespace": namespace}, "data": data,
    })
}

fn file(directory: &Path) -> PathBuf {
    directory.join("identity.json")
}

/// Where a Secret of this name stands.
pub fn secret_id(namespace: &str, name: &str) -> ObjectId {
    ObjectId { gvk: Gvk::new("v1", "Secret"), namespace: namespace.into(), name: name.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_certs::{Authority, CertificateRequest, agent_subject};
    use karmada_member::memory::MemoryMember;

    fn identity(ca: &Authority, key: &ClientKey) -> Identity {
        let grant = karmada_proto::v1::JoinGrant {
            certificate: issue(ca, key, "site1"),
            ca_bundle: ca.certificate_pem().into(),
            endpoints: vec!["b:1".into(), "a:1".into()],
            cluster_name: "site1".into(),
        };
        Identity::new(key, "uid".into(), grant, "a:1")
    }

    fn issue(ca: &Authority, key: &ClientKey, cluster: &str) -> String {
        issue_at(ca, key, cluster, Timestamp::now())
    }

    fn issue_at(ca: &Authority, key: &ClientKey, cluster: &str, now: Timestamp) -> String {
        let subject = agent_subject(cluster);
        let request = CertificateRequest::from_der(&key.request(&subject).unwrap()).unwrap();
        ca.issue_client(&subject, &request, Duration::from_secs(600), now).unwrap()
    }

    #[test]
    fn a_hub_names_a_few_endpoints_that_can_be_such() {
        let (ca, _) = Authority::create(Timestamp::now()).unwrap();
        let key = ClientKey::generate().unwrap();
        let mut identity = identity(&ca, &key);
        let (certificate, now) = (issue(&ca, &key, "site1"), Timestamp::now());
        let odd = ["a b:1".to_owned(), "c\n:1".to_owned(), "x".repeat(1 << 20)];
        let many = (0..10_000).map(|at| format!("h{at}:1"));
        let endpoints = odd.into_iter().chain(many).collect();
        identity.renewed(RenewReply { certificate, endpoints, ..RenewReply::default() }, now).unwrap();
        assert_eq!((identity.endpoints.len(), &*identity.endpoints[0]), (ENDPOINTS, "a:1"));
        assert!(identity.endpoints.iter().all(|endpoint| is_endpoint(endpoint)), "{:?}", identity.endpoints);
    }

    /// Hub and agent had the same wrong clock, and both are right again.
    #[test]
    fn a_certificate_that_has_not_begun_does_not_take_the_place_of_one_that_serves() {
        let (ca, _) = Authority::create(Timestamp::now()).unwrap();
        let key = ClientKey::generate().unwrap();
        let mut identity = identity(&ca, &key);
        let (first, now) = (identity.certificate.clone(), Timestamp::now());
        let ahead = now + Duration::from_secs(20_000);
        let reply =
            |at| RenewReply { certificate: issue_at(&ca, &key, "site1", at), ..RenewReply::default() };
        identity.renewed(reply(ahead), ahead).unwrap();
        let of_then = identity.certificate.clone();
        assert_eq!(identity.keyed_certificate(ahead).certificate_pem, of_then);
        let mut identity: Identity = serde_json::from_value(json!(identity)).unwrap();
        assert_eq!(identity.keyed_certificate(now).certificate_pem, first);
        assert!(identity.shows_earlier(now) && !identity.shows_earlier(ahead));
        // What is renewed from here on is kept beside the one that serves.
        identity.renewed(reply(ahead), now).unwrap();
        assert_eq!(identity.keyed_certificate(now).certificate_pem, first);
        identity.renewed(reply(now), now).unwrap();
        assert!(!identity.shows_earlier(now));
    }

    #[tokio::test]
    async fn an_identity_survives_in_a_directory_and_in_a_secret() {
        let (ca, _) = Authority::create(Timestamp::now()).unwrap();
        let key = ClientKey::generate().unwrap();
        let identity = identity(&ca, &key);
        assert_eq!(identity.endpoints, ["a:1", "b:1"]);
        assert!(!format!("{identity:?}").contains("KEY"));
        let dir = tempfile::tempdir().unwrap();
        let member: Arc<dyn Member> = Arc::new(MemoryMember::new("m", 1, Duration::ZERO));
        let secret =
            IdentityStore::Secret { member, namespace: "default".into(), name: "karmada-agent".into() };
        for identity_store in [IdentityStore::Directory(dir.path().to_owned()), secret] {
            assert!(identity_store.load().await.unwrap().is_none());
            let joining = identity_store.joining_key().await.unwrap().fingerprint();
            assert_eq!(
                identity_store.joining_key().await.unwrap().fingerprint(),
                joining,
                "the same at the next start"
            );
            assert!(identity_store.load().await.unwrap().is_none(), "a key alone is no identity");
            identity_store.save(&identity).await.unwrap();
            assert_ne!(
                identity_store.joining_key().await.unwrap().fingerprint(),
                joining,
                "one key, one identity"
            );
            let loaded = identity_store.load().await.unwrap().unwrap();
            assert_eq!(
                (loaded.cluster_name.as_str(), loaded.key().unwrap().fingerprint()),
                ("site1", key.fingerprint())
            );
        }
    }

    /// `karmadactl register` applies the Secret, and the agent writes annotations into it, while a join makes its key.
    #[tokio::test(start_paused = true)]
    async fn a_key_to_join_with_outlasts_others_writes_of_its_secret() {
        let busy = MemoryMember::new("m", 1, Duration::ZERO);
        let member: Arc<dyn Member> = Arc::new(busy.clone());
        busy.seed(secret_with("default", "karmada-agent", &json!({"other": "eA=="})));
        let store =
            IdentityStore::Secret { member, namespace: "default".into(), name: "karmada-agent".into() };
        let conflict = || Some(MemberError::Conflict("it has been modified".into()));
        busy.fail("karmada-agent", conflict());
        let written = async {
            tokio::time::sleep(JOINING_KEY_TIMEOUT / 8).await;
            busy.fail("karmada-agent", None);
        };
        let (key, ()) = tokio::join!(store.joining_key(), written);
        let kept = store.joining_key().await.unwrap();
        assert_eq!(key.unwrap().fingerprint(), kept.fingerprint());
        let secret = busy.read(&secret_id("default", "karmada-agent")).unwrap();
        assert_eq!(secret["data"]["other"], "eA==", "what others wrote stands");
        store.save(&identity(&Authority::create(Timestamp::now()).unwrap().0, &kept)).await.unwrap();
        busy.fail("karmada-agent", conflict());
        assert!(store.joining_key().await.is_err(), "one that never ends is told");
    }

    #[test]
    fn only_a_renewal_of_this_very_identity_is_taken() {
        let now = Timestamp::now();
        let (ca, _) = Authority::create(Timestamp::now()).unwrap();
        let key = ClientKey::generate().unwrap();
        let mut identity = identity(&ca, &key);
        let reply = |certificate| RenewReply { certificate, ..RenewReply::default() };
        let other = ClientKey::generate().unwrap();
        assert!(identity.renewed(reply(issue(&ca, &other, "site1")), now).is_err());
        assert!(identity.renewed(reply(issue(&ca, &key, "site2")), now).is_err());
        assert!(identity.renewed(RenewReply { refusal: "no".into(), ..RenewReply::default() }, now).is_err());
        let new = issue(&ca, &key, "site1");
        let nobody = RenewReply { ca_bundle: "no pem".into(), ..reply(new.clone()) };
        let before = identity.certificate.clone();
        assert!(identity.renewed(nobody, now).is_err() && identity.trust_revision() != 0);
        assert_eq!(identity.certificate, before);
        assert!(!identity.renewed(reply(new.clone()), now).unwrap());
        assert_eq!(identity.certificate, new);
        let kept = json!(identity);
        assert!(identity.renewed(reply(new), now).is_err(), "the same once more is no renewal");
        assert_eq!(json!(identity), kept);
        let (next, _) = Authority::create(Timestamp::now()).unwrap();
        let bundle = format!("{}{}", next.certificate_pem(), ca.certificate_pem());
        let of_next = || RenewReply { ca_bundle: bundle.clone(), ..reply(issue(&next, &key, "site1")) };
        assert!(identity.renewed(of_next(), now).unwrap(), "the CA is another one");
        assert!(!identity.renewed(of_next(), now).unwrap());
    }
}
