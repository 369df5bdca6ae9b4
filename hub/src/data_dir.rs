//! The directory that is the hub: CA, keys, and the store's file.
//!
//! In: a path, the names under which the hub is reached, the present. Out: loaded or newly made keys. Everything private is
//! written with mode 0600 before it is used.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use jiff::Timestamp;
use karmada_certs::{Authorities, KeyedCertificate, PeerIdentity, ServiceAccountKey, Subject};
use parking_lot::RwLock;

/// The server's certificate, and the front proxy's. Made anew at every start, and while the hub runs.
const SERVER_LIFE: Duration = Duration::from_secs(400 * 24 * 3600);

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
    ///
    /// # Errors
    /// A directory or file cannot be made or read, or as of [`Authorities::load_or_create`] and [`ServiceAccountKey::load_or_create`].
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
    ///
    /// # Errors
    /// A CA cannot be read; those before it are taken all the same.
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

    /// A file of the directory.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The store's file.
    pub fn store_file(&self) -> PathBuf {
        self.path.join("hub.db")
    }

    /// A server certificate for these names.
    ///
    /// # Errors
    /// A name cannot stand in a certificate, or the system gives no randomness for a key.
    pub fn server_certificate(&self, names: &[String], now: Timestamp) -> Result<KeyedCertificate> {
        self.authorities().issue_server(names, SERVER_LIFE, now).context("making the server certificate")
    }

    /// The certificate by which other API servers know this hub as the proxy in front of them.
    ///
    /// # Errors
    /// The system gives no randomness for a key.
    pub fn front_proxy_client(&self, now: Timestamp) -> Result<KeyedCertificate> {
        let subject = Subject { common_name: FRONT_PROXY.to_owned(), organizations: Vec::new() };
        let made = self.front_proxy().signing().issue_client_with_key(&subject, SERVER_LIFE, now);
        made.context("making the front proxy's certificate")
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

/// Whether a certificate is good for a while: it has begun, and does not end soon. One that was made while the clock was ahead has not.
pub fn lasts(certificate: &PeerIdentity, now: Timestamp) -> bool {
    let left = certificate.not_after.as_second() - now.as_second();
    certificate.not_before <= now && left > RENEWED.as_secs().cast_signed()
}
