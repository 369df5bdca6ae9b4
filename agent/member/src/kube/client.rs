//! The HTTP client of a member, over the kubeconfig's address and credentials.
//!
//! In: the kubeconfig as read, and the identity that connections are held to. Out: a client for the agent's own calls, and one that passes
//! on requests of others; a proxy on the way is refused.
//!
//! It is put together here, of the library's parts: each connection is asked where it leads before it is used ([`super::checked`]). And
//! the library refuses a client certificate of X.509 version 1, which openssl makes unless told otherwise and kubectl takes: it
//! reads the certificate to compare its key, and cannot read that version. A client only presents its certificate, so such a
//! one is presented as it is.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::ConfigExt;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use tower::util::BoxCloneSyncService;
use tower::{ServiceBuilder, ServiceExt as _};

use super::checked::{Checked, Identity};
use super::config::ConfigError;
use crate::Passing;

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// A client of the member that `config` leads to, over connections that lead to the cluster of `identity`.
pub(super) fn client(config: &kube::Config, identity: Arc<Identity>) -> Result<kube::Client, ConfigError> {
    let connector = connector(config)?;
    let client = || -> Result<kube::Client, Failed> {
        let service = ServiceBuilder::new()
            .layer(config.base_uri_layer())
            .option_layer(config.auth_layer()?)
            .layer(config.extra_headers_layer()?)
            .map_err(Failed::from)
            .service(over(connector, config, identity)?);
        Ok(kube::Client::new(service, config.default_namespace.clone()))
    };
    client().map_err(ConfigError::Credentials)
}

/// Sends requests of others as they are, with the agent's credentials. Cheap to clone.
#[derive(Clone)]
pub(super) struct Passer(BoxCloneSyncService<Request<Passing>, Response<Incoming>, Failed>);

impl Passer {
    /// To the member that `config` leads to, over connections that lead to the cluster of `identity`.
    pub fn new(config: &kube::Config, identity: Arc<Identity>) -> Result<Self, ConfigError> {
        let auth = &config.auth_info;
        if auth.impersonate.is_some() || auth.impersonate_groups.is_some() {
            // Its headers would take the place of those that say who asks.
            return Err(ConfigError::Impersonates);
        }
        let connector = connector(config)?;
        let passer = || -> Result<_, Failed> {
            let service = ServiceBuilder::new()
                .layer(config.base_uri_layer())
                .option_layer(config.auth_layer()?)
                .map_err(Failed::from)
                .service(over(connector, config, identity)?);
            Ok(Self(BoxCloneSyncService::new(service)))
        };
        passer().map_err(ConfigError::Credentials)
    }

    /// The answer, whose body is still to come.
    pub async fn send(&self, request: Request<Passing>) -> Result<Response<Passing>, Failed> {
        let answer = self.0.clone().oneshot(request).await?;
        Ok(answer.map(|body| body.map_err(std::io::Error::other).boxed_unsync()))
    }
}

fn connector(config: &kube::Config) -> Result<HttpsConnector<HttpConnector>, ConfigError> {
    if config.proxy_url.is_some() {
        return Err(ConfigError::Proxy);
    }
    config.rustls_https_connector().or_else(|error| match presenting(config) {
        Ok(Some(connector)) => Ok(connector),
        Ok(None) => Err(ConfigError::Client(Box::new(error))),
        Err(failed) => Err(ConfigError::Certificate(failed)),
    })
}

type Connector = TimeoutConnector<Checked<HttpsConnector<HttpConnector>>>;

fn over<B>(
    connector: HttpsConnector<HttpConnector>,
    config: &kube::Config,
    identity: Arc<Identity>,
) -> Result<legacy::Client<Connector, B>, Failed>
where
    B: hyper::body::Body + Send,
    B::Data: Send,
{
    let mut connector = TimeoutConnector::new(Checked::new(connector, config, identity)?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    Ok(legacy::Client::builder(TokioExecutor::new()).build(connector))
}

/// A connector that presents the kubeconfig's certificate as it is; `None` where that has none.
fn presenting(config: &kube::Config) -> Result<Option<HttpsConnector<HttpConnector>>, Failed> {
    let mut config = config.clone();
    let Some(identity) = identity(&config.auth_info)? else { return Ok(None) };
    let auth = &mut config.auth_info;
    (auth.client_certificate, auth.client_certificate_data) = (None, None);
    (auth.client_key, auth.client_key_data) = (None, None);
    let mut tls = config.rustls_client_config()?;
    tls.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(identity));
    let mut builder = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    if let Some(name) = config.tls_server_name.clone() {
        let name = hyper_rustls::FixedServerNameResolver::new(name.try_into()?);
        builder = builder.with_server_name_resolver(name);
    }
    Ok(Some(builder.enable_http1().build()))
}

/// The certificate and key that the kubeconfig names, in the file or beside it.
fn identity(auth: &kube::config::AuthInfo) -> Result<Option<CertifiedKey>, Failed> {
    let fields = serde_json::to_value(auth)?;
    let pem = |name: &str| -> Result<Option<Vec<u8>>, Failed> {
        let text = |field: &str| fields.get(field).and_then(serde_json::Value::as_str);
        match (text(&format!("{name}-data")), text(name)) {
            (Some(data), _) => Ok(Some(STANDARD.decode(data)?)),
            (None, Some(file)) => Ok(Some(std::fs::read(file).map_err(|error| format!("{file}: {error}"))?)),
            (None, None) => Ok(None),
        }
    };
    let (Some(certificate), Some(key)) = (pem("client-certificate")?, pem("client-key")?) else {
        return Ok(None);
    };
    let chain: Vec<CertificateDer<'static>> =
        CertificateDer::pem_slice_iter(&certificate).collect::<Result<_, _>>()?;
    let key = any_supported_type(&PrivateKeyDer::from_pem_slice(&key)?)?;
    Ok(Some(CertifiedKey::new(chain, key)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;
    use karmada_certs::{Authority, CertificateRequest, ClientKey, agent_subject};
    use serde_json::json;

    use super::*;

    /// The content of a DER element, and what is behind it.
    fn split(der: &[u8]) -> (&[u8], &[u8]) {
        let (length, head) = match der[1] {
            short @ 0..=127 => (usize::from(short), 2),
            0x81 => (usize::from(der[2]), 3),
            _ => (usize::from(u16::from_be_bytes([der[2], der[3]])), 4),
        };
        (&der[head..head + length], &der[head + length..])
    }

    fn sequence(content: &[u8]) -> Vec<u8> {
        let length = u16::try_from(content.len()).unwrap().to_be_bytes();
        [&[0x30, 0x82, length[0], length[1]][..], content].concat()
    }

    /// The same certificate without its version and extensions, which is what version 1 is; its signature is of no concern here.
    fn as_version_1(pem: &str) -> String {
        let der = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        let (tbs, signature) = {
            let (whole, _) = split(&der);
            let (tbs, rest) = split(whole);
            (tbs, rest)
        };
        let (_, fields) = split(tbs);
        let (mut old, mut rest) = (Vec::new(), fields);
        while !rest.is_empty() {
            let (_, behind) = split(rest);
            if rest[0] != 0xa3 {
                old.extend_from_slice(&rest[..rest.len() - behind.len()]);
            }
            rest = behind;
        }
        let whole = sequence(&[&sequence(&old)[..], signature].concat());
        format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", STANDARD.encode(whole))
    }

    #[tokio::test]
    async fn a_version_1_certificate_is_presented_as_it_is() {
        let (ca, _) = Authority::create(Timestamp::now()).unwrap();
        let key = ClientKey::generate().unwrap();
        let subject = agent_subject("x");
        let request = CertificateRequest::from_der(&key.request(&subject).unwrap()).unwrap();
        let certificate =
            ca.issue_client(&subject, &request, Duration::from_secs(600), Timestamp::now()).unwrap();
        for pem in [as_version_1(&certificate), certificate] {
            let kubeconfig = json!({
                "apiVersion": "v1", "kind": "Config", "current-context": "c",
                "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1", "certificate-authority-data": STANDARD.encode(ca.certificate_pem())}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "users": [{"name": "u", "user": {"client-certificate-data": STANDARD.encode(pem), "client-key-data": STANDARD.encode(key.to_pem())}}],
            });
            let kubeconfig = serde_json::from_value(kubeconfig).unwrap();
            let config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await.unwrap();
            client(&config, Arc::default()).unwrap();
        }
    }
}
