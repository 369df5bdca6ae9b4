//! A `caBundle`: the authorities by which a server's certificate is verified.
//!
//! In: PEM text. Out: the store of their certificates, read at the first question and kept; `None` for no bundle; or why the bundle cannot
//! be used.

use std::sync::{Arc, OnceLock};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

/// The authorities whose certificates are believed.
#[derive(Debug, Default)]
pub struct Trust {
    ca_pem: Vec<u8>,
    /// Read at the first call, and not again at each: a bundle may hold thousands.
    roots: OnceLock<Result<Option<Arc<rustls::RootCertStore>>, String>>,
}

impl Trust {
    /// The CAs of a bundle, PEM; empty: those that the machine trusts.
    pub fn of(ca_pem: Vec<u8>) -> Trust {
        Trust { ca_pem, roots: OnceLock::new() }
    }

    /// The certificates of the bundle; `None` where there is no bundle.
    ///
    /// # Errors
    /// The bundle cannot be read, or holds no certificate.
    pub fn roots(&self) -> Result<Option<Arc<rustls::RootCertStore>>, String> {
        self.roots.get_or_init(|| self.read()).clone()
    }

    fn read(&self) -> Result<Option<Arc<rustls::RootCertStore>>, String> {
        if self.ca_pem.is_empty() {
            return Ok(None);
        }
        let mut roots = rustls::RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&self.ca_pem) {
            let certificate = certificate.map_err(|error| format!("the caBundle cannot be read: {error}"))?;
            roots.add(certificate).map_err(|error| format!("the caBundle cannot be used: {error}"))?;
        }
        if roots.is_empty() {
            return Err("tls: the caBundle holds no certificate".to_owned());
        }
        Ok(Some(Arc::new(roots)))
    }
}
