//! A webhook on this machine: HTTPS with a certificate of its own, and an answer that the test makes.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tests::runtime;

/// A running webhook; it ends with the tests.
pub struct WebhookServer {
    port: u16,
    ca_bundle: String,
    /// Its CA, PEM.
    pub ca_pem: String,
}

impl WebhookServer {
    /// Starts one that answers each review, posted at a path, with what `answer` makes of it.
    pub fn start(answer: impl Fn(&str, Value) -> Value + Send + Sync + 'static) -> WebhookServer {
        let now = jiff::Timestamp::now();
        let (authority, _) = karmada_certs::Authority::create(now).unwrap();
        let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
        let certificate = authority.issue_server(&names, std::time::Duration::from_secs(3600), now).unwrap();
        let config = karmada_certs::server_config(&certificate, &[authority.certificate().clone()]).unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let listener = runtime().block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let port = listener.local_addr().unwrap().port();
        let answer = Arc::new(answer);
        runtime().spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let (acceptor, answer) = (acceptor.clone(), answer.clone());
                tokio::spawn(async move {
                    let Ok(tls) = acceptor.accept(tcp).await else { return };
                    let service = hyper::service::service_fn(move |request: http::Request<Incoming>| {
                        let answer = answer.clone();
                        async move {
                            let path = request.uri().path().to_owned();
                            let body = request.into_body().collect().await?.to_bytes();
                            let answer =
                                answer(&path, serde_json::from_slice(&body).unwrap_or_default()).to_string();
                            let answer = http::Response::builder()
                                .header("content-type", "application/json")
                                .body(Full::new(Bytes::from(answer)))
                                .unwrap();
                            Ok::<_, hyper::Error>(answer)
                        }
                    });
                    let server = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                    let _ = server.serve_connection(TokioIo::new(tls), service).await;
                });
            }
        });
        let ca_pem = authority.certificate_pem().to_owned();
        WebhookServer { port, ca_bundle: STANDARD.encode(&ca_pem), ca_pem }
    }

    /// The `clientConfig` that reaches it at a path.
    pub fn at(&self, path: &str) -> Value {
        json!({"url": format!("https://127.0.0.1:{}{path}", self.port), "caBundle": self.ca_bundle})
    }
}
