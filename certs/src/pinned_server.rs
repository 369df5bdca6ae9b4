//! A server whose CA is known by its pin only: the first contact of a join.
//!
//! In: pins, and the chain that a server shows. Out: whether one of its CAs has such a pin and vouches for the server; else the pin that was shown.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use crate::Pin;

/// The server showed no CA with a pinned key: a wrong hash, another hub, or somebody in between.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct PinMismatch {
    /// The pin of the last certificate in the chain shown; `None` where the server shows its own certificate alone.
    pub shown: Option<Pin>,
}

impl std::fmt::Display for PinMismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.shown {
            Some(pin) => write!(f, "the hub's CA is {pin}, not the one that --discovery-token-ca-cert-hash names"),
            None => f.write_str("the server shows no CA, so not the one that --discovery-token-ca-cert-hash names: it is no hub"),
        }
    }
}

/// Finds the CA by its pin in the chain shown, then verifies as usual with that CA as the only root.
#[derive(Debug)]
pub(crate) struct PinVerifier {
    /// Any of these CAs.
    pub pins: Vec<Pin>,
    /// What signatures are verified with.
    pub crypto: Arc<CryptoProvider>,
}

impl PinVerifier {
    fn anchor<'a>(&self, chain: &'a [CertificateDer<'a>]) -> Result<&'a CertificateDer<'a>, Error> {
        let pin = |der: &CertificateDer<'_>| Pin::of_certificate(der).ok();
        chain.iter().find(|der| pin(der).is_some_and(|pin| self.pins.contains(&pin))).ok_or_else(|| {
            let shown = chain.last().and_then(pin);
            CertificateError::Other(OtherError(Arc::new(PinMismatch { shown }))).into()
        })
    }
}

impl ServerCertVerifier for PinVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let anchor = self.anchor(intermediates)?;
        let mut roots = RootCertStore::empty();
        roots.add(anchor.clone().into_owned())?;
        WebPkiServerVerifier::builder_with_provider(roots.into(), self.crypto.clone())
            .build()
            .map_err(|error| Error::General(error.to_string()))?
            .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.crypto.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.crypto.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.crypto.signature_verification_algorithms.supported_schemes()
    }
}
