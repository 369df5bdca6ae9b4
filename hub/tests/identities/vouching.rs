//! Those whom a hub believes about others: an OpenID Connect issuer whose keys change, and proxies in front.
//!
//! Each has a CA of its own, which is none of the hub's.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use karmada_access::{FrontProxy, IssuerOptions};
use karmada_certs::{Authority, KeyedCertificate, ServiceAccountKey, Subject, server_config};
use karmada_hub::{ProxySettings, Settings};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::world::HOUR;

/// The one proxy whose word counts.
const FRONT: &str = "front";
/// Whom the issuer's tokens are meant for.
const AUDIENCE: &str = "hub";

/// The keys that the issuer shows.
type Keys = Arc<Mutex<Value>>;

/// The issuer, and the proxies' CA.
pub struct Vouching {
    url: String,
    ca_pem: String,
    keys: Keys,
    first: ServiceAccountKey,
    second: ServiceAccountKey,
    proxies: Authority,
}

impl Vouching {
    pub async fn start() -> Vouching {
        let (authority, _) = Authority::create(Timestamp::now()).unwrap();
        let (proxies, _) = Authority::create(Timestamp::now()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let (first, second) =
            (ServiceAccountKey::generate().unwrap(), ServiceAccountKey::generate().unwrap());
        let keys: Keys = Arc::new(Mutex::new(shown(&first)));
        tokio::spawn(serve(listener, tls(&authority), url.clone(), keys.clone()));
        Vouching { url, ca_pem: authority.certificate_pem().to_owned(), keys, first, second, proxies }
    }

    /// Has a hub believe them.
    pub fn believed(&self, settings: &mut Settings) {
        settings.access.issuers = vec![IssuerOptions {
            url: self.url.clone(),
            audiences: vec![AUDIENCE.to_owned()],
            username_claim: "sub".to_owned(),
            username_prefix: Some("oidc:".to_owned()),
            ca_pem: self.ca_pem.clone().into_bytes(),
            algorithms: vec!["ES256".to_owned()],
            ..IssuerOptions::default()
        }];
        let headers = FrontProxy { allowed_names: vec![FRONT.to_owned()], ..FrontProxy::default() };
        let ca_pem = self.proxies.certificate_pem().to_owned();
        settings.access.proxy = Some(ProxySettings { ca_pem, headers });
    }

    /// From now on the issuer shows another key, and not the one before.
    pub fn rotate(&self) {
        *self.keys.lock().unwrap() = shown(&self.second);
    }

    /// The token of who comes with one of the issuer's, or of somebody who pretends to be it.
    pub fn token(&self, who: &str) -> Option<String> {
        let mut claims = json!({"iss": self.url, "aud": AUDIENCE, "sub": "jane", "exp": Timestamp::now().as_second() + 3600});
        match who {
            "vouched" | "forged" | "fresh" => {}
            "late" => claims["exp"] = json!(Timestamp::now().as_second() - 600),
            "elsewhere" => claims["aud"] = json!("another"),
            "foreign" => claims["iss"] = json!(format!("{}/another", self.url)),
            _ => return None,
        }
        let stranger = ServiceAccountKey::generate().unwrap();
        let key = match who {
            "fresh" => &self.second,
            "forged" => &stranger,
            _ => &self.first,
        };
        Some(key.sign(claims.to_string().as_bytes()).unwrap())
    }

    /// The certificate of who comes as a proxy.
    pub fn certificate(&self, who: &str) -> Option<KeyedCertificate> {
        let name = match who {
            "proxied" | "mastered" | "silent" => FRONT,
            "misnamed" => "another",
            _ => return None,
        };
        let subject =
            Subject { common_name: name.to_owned(), organizations: vec!["system:masters".to_owned()] };
        Some(self.proxies.issue_client_with_key(&subject, HOUR, Timestamp::now()).unwrap())
    }

    /// What is said in headers of who asks.
    pub fn headers(&self, who: &str) -> Vec<(&'static str, String)> {
        let all: &[(&str, &str)] = match who {
            "proxied" | "boasting" => &[("x-remote-user", "jane")],
            "mastered" | "misnamed" | "claimed" => {
                &[("x-remote-user", "jane"), ("x-remote-group", "system:masters")]
            }
            _ => &[],
        };
        all.iter().map(|(name, value)| (*name, (*value).to_owned())).collect()
    }
}

/// A key set of one key.
fn shown(key: &ServiceAccountKey) -> Value {
    let (x, y) = key.public_point()[1..].split_at(32);
    let encoded = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    json!({"keys": [{"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": key.key_id(),
        "x": encoded(x), "y": encoded(y)}]})
}

fn tls(authority: &Authority) -> TlsAcceptor {
    const DAY: Duration = Duration::from_secs(24 * 3600);
    let own = authority.issue_server(&["127.0.0.1".to_owned()], DAY, Timestamp::now()).unwrap();
    let mut config = server_config(&own, &[authority.certificate().clone()]).unwrap();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

/// Answers what an issuer is asked: where its keys are, and which.
async fn serve(listener: TcpListener, tls: TlsAcceptor, url: String, keys: Keys) {
    loop {
        let (tcp, _): (_, SocketAddr) = listener.accept().await.unwrap();
        let (tls, url, keys) = (tls.clone(), url.clone(), keys.clone());
        tokio::spawn(async move {
            let Ok(stream) = tls.accept(tcp).await else { return };
            let answer = move |request: Request<Incoming>| {
                let said = match request.uri().path() {
                    "/.well-known/openid-configuration" => {
                        json!({"issuer": url, "jwks_uri": format!("{url}/keys")})
                    }
                    _ => keys.lock().unwrap().clone(),
                };
                std::future::ready(Ok::<_, std::convert::Infallible>(Response::new(Full::new(Bytes::from(
                    said.to_string(),
                )))))
            };
            let service = hyper::service::service_fn(answer);
            drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
        });
    }
}
