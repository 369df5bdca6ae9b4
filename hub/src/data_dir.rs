//! The directory that is the hub: CA, keys, the store's file, and the administrator's kubeconfig.
//!
//! In: a path, the names under which the hub is reached, the present. Out: loaded or newly made keys. Everything private is
//! written with mode 0600 before it is used.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::Timestamp;
use karmada_certs::{
    ADMIN_ORGANIZATION, Authorities, KeyedCertificate, PeerIdentity, ServiceAccountKey, Subject,
};
use parking_lot::RwLock;
use serde_json::json;

/// The server's certificate, and the front proxy's. Made anew at every start, and while the hub runs.
const SERVER_LIFE: Duration = Duration::from_secs(400 * 24 * 3600);

/// The administrator's certificate.
const ADMIN_LIFE: Duration = Duration::from_secs(365 * 24 * 3600);

/// A certificate of the hub's own that ends within this is replaced.
const RENEWED: Duration = Duration::from_secs(60 * 24 * 3600);

/// The common name of the front proxy's certificate.
pub const FRONT_PROXY: &str = "front-proxy-client";

/// What the directory holds.
pub struct DataDir {
    path: PathBuf,
    authorities: RwLock<Arc<Authorities>>,
    front_proxy: RwLock<Arc<Authorities>>,
    /// Signs service-account tokens.
    pub accounts: ServiceAccountKey,
}

impl DataDir {
    /// Opens the directory, making it and what it lacks.
    pub fn open(path: &Path, now: Timestamp) -> Result<DataDir> {
        make_private(path).with_context(|| format!("making the data directory {}", path.display()))?;
        let keys = path.join("pki");
        make_private(&keys).with_context(|| format!("making {}", keys.display()))?;
        let authorities = Authorities::load_or_create(&keys, now).context("loading the hub's CA")?;
        let accounts = ServiceAccountKey::load_or_create(&keys).context("loading the service-account key")?;
        let proxies = keys.join("front-proxy");
        make_private(&proxies).with_context(|| format!("making {}", proxies.display()))?;
        let front_proxy =
            Authorities::load_or_create(&proxies, now).context("loading the front proxy's CA")?;
        let share = |loaded: Authorities| RwLock::new(Arc::new(loaded));
        let (authorities, front_proxy) = (share(authorities), share(front_proxy));
        Ok(DataDir { path: path.to_owned(), authorities, front_proxy, accounts })
    }

    /// The directory of a CA inside a data directory.
    pub fn authority_folder(path: &Path, of: AuthorityOf) -> PathBuf {
        let keys = path.join("pki");
        match of {
            AuthorityOf::Hub => keys,
            AuthorityOf::FrontProxy => keys.join("front-proxy"),
        }
    }

    /// Signs agents and administrators; while the CA is changed, the one before is trusted as well.
    pub fn authorities(&self) -> Arc<Authorities> {
        self.authorities.read().clone()
    }

    /// Signs what this hub shows to API servers that groups are handed over to.
    pub fn front_proxy(&self) -> Arc<Authorities> {
        self.front_proxy.read().clone()
    }

    /// Takes the CAs as they are in the directory now. True where they changed.
    pub fn reload(&self) -> Result<bool> {
        let mut changed = false;
        for (of, held) in
            [(AuthorityOf::Hub, &self.authorities), (AuthorityOf::FrontProxy, &self.front_proxy)]
        {
            let folder = Self::authority_folder(&self.path, of);
            let now = Authorities::load(&folder)
                .with_context(|| format!("reading the CA in {}", folder.display()))?;
            if now.revision() != held.read().revision() {
                *held.write() = Arc::new(now);
                changed = true;
            }
        }
        Ok(changed)
    }

    /// The store's file.
    pub fn store_file(&self) -> PathBuf {
        self.path.join("hub.db")
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig_file(&self) -> PathBuf {
        self.path.join("admin.kubeconfig")
    }

    /// A server certificate for these names.
    pub fn server_certificate(&self, names: &[String], now: Timestamp) -> Result<KeyedCertificate> {
        self.authorities().issue_server(names, SERVER_LIFE, now).context("making the server certificate")
    }

    /// The certificate by which other API servers know this hub as the proxy in front of them.
    pub fn front_proxy_client(&self, now: Timestamp) -> Result<KeyedCertificate> {
        let subject = Subject { common_name: FRONT_PROXY.to_owned(), organizations: Vec::new() };
        let made = self.front_proxy().signing().issue_client_with_key(&subject, SERVER_LIFE, now);
        made.context("making the front proxy's certificate")
    }

    /// The administrator's certificate, as the kubeconfig holds it.
    pub fn administrator(&self) -> Option<PeerIdentity> {
        let text = karmada_certs::files::read(&self.kubeconfig_file()).ok()??;
        PeerIdentity::from_pem(&credential_of(&text)?.certificate_pem).ok()
    }

    /// Writes the administrator's kubeconfig for `server`. One that is there keeps its credential, unless that is of another CA
    /// than the one that signs, has ended or ends soon.
    pub fn write_kubeconfig(&self, server: &str, now: Timestamp) -> Result<()> {
        let file = self.kubeconfig_file();
        let before = karmada_certs::files::read(&file).context("reading the administrator's kubeconfig")?;
        let authorities = self.authorities();
        let signs = |kept: &KeyedCertificate| {
            let issuer = PeerIdentity::from_pem(&kept.certificate_pem).map(|kept| kept.issuer);
            issuer.is_ok_and(|issuer| authorities.ends().first().is_some_and(|ca| ca.name == issuer))
        };
        let kept =
            before.as_deref().and_then(credential_of).filter(|kept| signs(kept) && kept_lasts(kept, now));
        let admin = match kept {
            Some(admin) => admin,
            None => {
                let subject = Subject {
                    common_name: "system:admin".to_owned(),
                    organizations: vec![ADMIN_ORGANIZATION.to_owned()],
                };
                let made = authorities.signing().issue_client_with_key(&subject, ADMIN_LIFE, now);
                made.context("making the administrator's certificate")?
            }
        };
        let text = kubeconfig(server, &authorities.bundle_pem(), &admin);
        if before.is_some_and(|before| before == text) {
            return Ok(());
        }
        karmada_certs::files::write_private(&file, text.as_bytes())
            .with_context(|| format!("writing {}", file.display()))
    }
}

fn make_private(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// One of the hub's CAs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum AuthorityOf {
    /// Agents and users know the hub by it, and the hub knows them.
    Hub,
    /// Servers that groups are handed over to know the hub by it.
    FrontProxy,
}

/// The client certificate in a kubeconfig.
fn credential_of(text: &str) -> Option<KeyedCertificate> {
    let config: serde_json::Value = serde_saphyr::from_str(text).ok()?;
    let data = |value: &serde_json::Value| {
        let bytes = BASE64.decode(value.as_str()?).ok()?;
        String::from_utf8(bytes).ok()
    };
    let user = &config["users"][0]["user"];
    let certificate_pem = data(&user["client-certificate-data"])?;
    let key_pem = data(&user["client-key-data"])?;
    Some(KeyedCertificate { certificate_pem, key_pem })
}

/// Whether a certificate is good for a while: it has begun, and does not end soon. One that was made while the clock was ahead has not.
pub fn lasts(certificate: &PeerIdentity, now: Timestamp) -> bool {
    let left = certificate.not_after.as_second() - now.as_second();
    certificate.not_before <= now && left > RENEWED.as_secs().cast_signed()
}

fn kept_lasts(kept: &KeyedCertificate, now: Timestamp) -> bool {
    PeerIdentity::from_pem(&kept.certificate_pem).is_ok_and(|kept| lasts(&kept, now))
}

/// A kubeconfig with everything inline and one context, `karmada-apiserver`.
fn kubeconfig(server: &str, ca_pem: &str, admin: &KeyedCertificate) -> String {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "karmada-apiserver", "cluster": {
            "server": server, "certificate-authority-data": BASE64.encode(ca_pem)}}],
        "users": [{"name": "karmada-admin", "user": {
            "client-certificate-data": BASE64.encode(&admin.certificate_pem),
            "client-key-data": BASE64.encode(&admin.key_pem)}}],
        "contexts": [{"name": "karmada-apiserver", "context": {"cluster": "karmada-apiserver", "user": "karmada-admin"}}],
        "current-context": "karmada-apiserver",
    });
    // JSON is YAML, and a kubeconfig is read by machines: no second writer is needed.
    serde_json::to_string_pretty(&config).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_administrators_credential_is_kept_until_its_end_is_near() {
        let folder = tempfile::tempdir().unwrap();
        let day = |day: i64| Timestamp::from_second(1_760_000_000 + day * 24 * 3600).unwrap();
        let written = |now: Timestamp| {
            let data = DataDir::open(folder.path(), now).unwrap();
            data.write_kubeconfig("https://hub:5443", now).unwrap();
            let text = std::fs::read_to_string(data.kubeconfig_file()).unwrap();
            credential_of(&text).unwrap()
        };
        let first = written(day(0));
        let ends = |kept: &KeyedCertificate| PeerIdentity::from_pem(&kept.certificate_pem).unwrap().not_after;
        assert_eq!(written(day(300)).certificate_pem, first.certificate_pem);
        let second = written(day(310));
        assert_eq!(ends(&second), day(310 + 365), "ten days more than two months before its end");
        // A hub that was off for years.
        let third = written(day(1000));
        assert_eq!(ends(&third), day(1365));
        let data = DataDir::open(folder.path(), day(1000)).unwrap();
        assert_eq!(data.authorities().ends()[0].end, day(3650));
        let before = ends(&written(day(1000)));
        Authorities::change(&DataDir::authority_folder(folder.path(), AuthorityOf::Hub), day(1100)).unwrap();
        let of_the_new = written(day(1100));
        assert!(ends(&of_the_new) > before, "while both are trusted, it is of the one that stays");
        assert_eq!(written(day(1101)).certificate_pem, of_the_new.certificate_pem);
        // A clock that was two years ahead for a while, and is right again.
        assert!(ends(&written(day(1101 + 730))) > day(2000));
        assert_eq!(ends(&written(day(1102))), day(1102 + 365), "one of that time has not begun");
    }
}
