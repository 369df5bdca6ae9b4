//! A webhook on this machine: HTTPS with a certificate of its own. In: what it answers. Out: a `clientConfig`, and what it was asked.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};

/// What a webhook does.
#[derive(Default)]
pub struct State {
    asked: Mutex<Vec<Value>>,
    /// Whether it accepts and says nothing.
    pub hangs: AtomicBool,
    /// Whether it answers with more than anybody has to say.
    pub rambles: AtomicBool,
}

/// The Service by which it is reached on the hub, in namespace `default`.
pub const SERVICE: &str = "hooks";

/// More than an answer may have.
const TOO_LONG: usize = 7 << 19;

/// A running webhook; it ends with the test.
pub struct Server {
    port: u16,
    ca_bundle: String,
    pub state: Arc<State>,
}

impl Server {
    /// One that answers each request with what `respond` makes of it.
    pub async fn start(respond: fn(&Value) -> Value) -> Server {
        let now = jiff::Timestamp::now();
        let (authority, _) = karmada_certs::Authority::create(now).unwrap();
        let names = ["127.0.0.1".to_owned(), format!("{SERVICE}.default.svc")];
        let certificate = authority.issue_server(&names, Duration::from_secs(3600), now).unwrap();
        let config = karmada_certs::server_config(&certificate, &[authority.certificate().clone()]).unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::<State>::default();
        let kept = state.clone();
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let (acceptor, state) = (acceptor.clone(), kept.clone());
                tokio::spawn(async move {
                    let Ok(tls) = acceptor.accept(tcp).await else { return };
                    let service = hyper::service::service_fn(move |request: http::Request<Incoming>| {
                        let state = state.clone();
                        async move { state.answer(request, respond).await }
                    });
                    let server = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                    let _ = server.serve_connection(TokioIo::new(tls), service).await;
                });
            }
        });
        Server { port, ca_bundle: STANDARD.encode(authority.certificate_pem()), state }
    }

    /// The `clientConfig` that reaches it.
    pub fn client(&self) -> Value {
        json!({"url": format!("https://127.0.0.1:{}/interpret", self.port), "caBundle": self.ca_bundle})
    }

    /// The same by a Service.
    pub fn client_of_service(&self) -> Value {
        let service =
            json!({"namespace": "default", "name": SERVICE, "path": "/interpret", "port": self.port});
        json!({"service": service, "caBundle": self.ca_bundle})
    }

    /// What it was asked to do so far.
    pub fn asked(&self, operation: &str) -> Vec<Value> {
        let asked = self.state.asked.lock().unwrap();
        asked.iter().filter(|request| request["operation"] == operation).cloned().collect()
    }
}

impl State {
    async fn answer(
        &self,
        request: http::Request<Incoming>,
        respond: fn(&Value) -> Value,
    ) -> Result<http::Response<Full<Bytes>>, hyper::Error> {
        assert_eq!((request.method().as_str(), request.uri().path()), ("POST", "/interpret"));
        let body = request.into_body().collect().await?.to_bytes();
        let context: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(context["kind"], "ResourceInterpreterContext");
        let request = &context["request"];
        self.asked.lock().unwrap().push(request.clone());
        if self.hangs.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        let mut response = respond(request);
        response["uid"] = request["uid"].clone();
        response["successful"] = json!(true);
        let context =
            json!({"apiVersion": context["apiVersion"], "kind": context["kind"], "response": response});
        let answer = http::Response::builder().header("content-type", "application/json");
        let more = if self.rambles.load(Ordering::Relaxed) { TOO_LONG } else { 0 };
        Ok(answer.body(Full::new(Bytes::from(context.to_string() + &" ".repeat(more)))).unwrap())
    }
}

/// A response that puts a value at a path.
pub fn put(path: &str, value: &Value) -> Value {
    let patch = json!([{"op": "add", "path": path, "value": value}]).to_string();
    json!({"patchType": "JSONPatch", "patch": STANDARD.encode(patch)})
}
