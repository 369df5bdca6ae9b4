//! CAs and keys are made once for all runs of a process: nothing of a run depends on which they are.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::Timestamp;
use karmada_agent::identity::Identity;
use karmada_certs::{CertificateRequest, ClientKey, JoinToken, agent_subject, server_config, server_names};
use karmada_gateway::ports::JoinAsk;
use karmada_hub::DataDir;
use karmada_proto::v1::JoinGrant;
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio_rustls::TlsAcceptor;

pub const TOKEN: &str = "abcdef.0123456789abcdef";

/// The hub's directory, what it shows in handshakes, and the agents' keys.
pub struct Authorities {
    pub now: Timestamp,
    pub data: Arc<DataDir>,
    pub acceptor: TlsAcceptor,
    keys: Mutex<BTreeMap<String, (ClientKey, String)>>,
    _directory: TempDir,
}

impl Authorities {
    /// Those of this process.
    pub fn shared() -> Arc<Self> {
        static SHARED: OnceLock<Arc<Authorities>> = OnceLock::new();
        SHARED.get_or_init(|| Arc::new(Self::make())).clone()
    }

    fn make() -> Self {
        // Certificates are looked at by the machine's clock, so that a run begins at its hour. Whole seconds: what is rounded is rounded alike.
        let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let data = Arc::new(DataDir::open(directory.path(), now).unwrap());
        let authorities = data.authorities();
        let signing = authorities.signing();
        let day = Duration::from_secs(24 * 3600);
        let shown = signing.issue_server(&server_names(None, &["hub:1".to_owned()]), day, now).unwrap();
        let mut tls = server_config(&shown, &[signing.certificate().clone()]).unwrap();
        tls.alpn_protocols.insert(0, karmada_bare::ALPN.to_vec());
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        Self { now, data, acceptor, keys: Mutex::default(), _directory: directory }
    }

    fn key(&self, site: &str) -> (ClientKey, String) {
        let mut keys = self.keys.lock();
        let (key, certificate) = keys.entry(site.to_owned()).or_insert_with(|| {
            let key = ClientKey::generate().unwrap();
            let subject = agent_subject(site);
            let request = CertificateRequest::from_der(&key.request(&subject).unwrap()).unwrap();
            let year = Duration::from_secs(365 * 24 * 3600);
            let authorities = self.data.authorities();
            let certificate = authorities.signing().issue_client(&subject, &request, year, self.now).unwrap();
            (key, certificate)
        });
        (ClientKey::from_pem(&key.to_pem()).unwrap(), certificate.clone())
    }

    /// How a site asks to join.
    pub fn ask(&self, site: &str, cluster_uid: &str) -> JoinAsk {
        let (key, _) = self.key(site);
        JoinAsk {
            token: JoinToken::parse(TOKEN).unwrap(),
            cluster_name: site.to_owned(),
            cluster_uid: cluster_uid.to_owned(),
            request: CertificateRequest::from_der(&key.request(&agent_subject(site)).unwrap()).unwrap(),
            provider: String::new(),
            region: String::new(),
            zones: Vec::new(),
            agent_version: String::new(),
        }
    }

    /// Who the agent of a site is, once it was let in.
    pub fn identity(&self, site: &str, cluster_uid: &str) -> Identity {
        let (key, certificate) = self.key(site);
        let grant = JoinGrant {
            certificate,
            ca_bundle: self.data.authorities().bundle_pem(),
            endpoints: Vec::new(),
            cluster_name: site.to_owned(),
        };
        Identity::new(&key, cluster_uid.to_owned(), grant, "hub:1")
    }
}
