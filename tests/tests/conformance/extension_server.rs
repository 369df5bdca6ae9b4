//! An API server of another group on this machine, as Karmada's optional ones are: HTTPS, known clients by the front proxy's
//! certificate, a few documents, a watch, and a connection that becomes something else.

use std::path::Path;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::StreamExt as _;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tests::runtime;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// What one request said of who asks, and through whom it came.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Method and path with the query.
    pub line: String,
    /// Its headers.
    pub headers: HeaderMap,
    /// The common name of the client's certificate; empty without one.
    pub client: String,
    /// Its body.
    pub body: String,
}

/// A running server; it ends with the tests.
pub struct ExtensionServer {
    /// Where it listens.
    pub port: u16,
    /// Its CA, as an APIService names it.
    pub ca_bundle: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl ExtensionServer {
    /// Starts one that answers a group's `v1`, its certificate for a Service; it believes clients that the CA in a folder signed.
    pub fn start(group: &'static str, service: &str, client_ca: &Path) -> ExtensionServer {
        let now = jiff::Timestamp::now();
        let (authority, _) = karmada_certs::Authority::create(now).unwrap();
        let names = [service.to_owned()];
        let certificate = authority.issue_server(&names, std::time::Duration::from_secs(3600), now).unwrap();
        let clients = std::fs::read_to_string(client_ca.join("ca.crt")).unwrap();
        let clients = karmada_certs::certificates(&clients).unwrap();
        let mut config = karmada_certs::server_config(&certificate, &clients).unwrap();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let listener = runtime().block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let told = asked.clone();
        runtime().spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let (acceptor, told) = (acceptor.clone(), told.clone());
                tokio::spawn(async move {
                    let Ok(tls) = acceptor.accept(tcp).await else { return };
                    let chain = tls.get_ref().1.peer_certificates().map(<[_]>::to_vec).unwrap_or_default();
                    let peer =
                        chain.first().and_then(|leaf| karmada_certs::PeerIdentity::from_der(leaf).ok());
                    let client = peer.map(|peer| peer.common_name).unwrap_or_default();
                    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
                        let (told, client) = (told.clone(), client.clone());
                        async move { Ok::<_, hyper::Error>(answer(group, &told, client, request).await) }
                    });
                    let server = hyper::server::conn::http1::Builder::new();
                    let _ = server.serve_connection(TokioIo::new(tls), service).with_upgrades().await;
                });
            }
        });
        ExtensionServer { port, ca_bundle: STANDARD.encode(authority.certificate_pem()), asked }
    }

    /// Every request of a method and path so far.
    pub fn asked(&self, line: &str) -> Vec<Asked> {
        self.asked.lock().unwrap().iter().filter(|asked| asked.line == line).cloned().collect()
    }
}

fn whole(value: &Value) -> Response<BoxBody<Bytes, hyper::Error>> {
    let body = Full::new(Bytes::from(value.to_string())).map_err(|never| match never {}).boxed();
    Response::builder().header("content-type", "application/json").body(body).unwrap()
}

async fn answer(
    group: &str,
    told: &Mutex<Vec<Asked>>,
    client: String,
    mut request: Request<Incoming>,
) -> Response<BoxBody<Bytes, hyper::Error>> {
    let upgrade = request.headers().contains_key("upgrade").then(|| hyper::upgrade::on(&mut request));
    let (parts, body) = request.into_parts();
    let uri = parts.uri.path_and_query().unwrap().as_str().to_owned();
    let body = if upgrade.is_some() { Bytes::new() } else { body.collect().await.unwrap().to_bytes() };
    told.lock().unwrap().push(Asked {
        line: format!("{} {uri}", parts.method),
        headers: parts.headers.clone(),
        client,
        body: String::from_utf8_lossy(&body).into_owned(),
    });
    let aggregated = parts
        .headers
        .get("accept")
        .is_some_and(|v| v.to_str().unwrap_or("").contains("APIGroupDiscoveryList"));
    let root = format!("/apis/{group}/v1");
    let things = format!("{root}/namespaces/default/things");
    match parts.uri.path() {
        "/apis" if aggregated => whole(&json!({
            "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": [{"metadata": {"name": group}, "versions": [{
                "version": "v1", "freshness": "Current", "resources": [{
                    "resource": "things", "responseKind": {"group": group, "version": "v1", "kind": "Thing"}, "scope": "Namespaced",
                    "singularResource": "thing", "verbs": ["get", "list", "watch", "create", "delete", "deletecollection"]}]}]}]})),
        "/openapi/v3" => {
            let address = format!("/openapi/v3/apis/{group}/v1?hash=C0FFEE");
            whole(&json!({"paths": {format!("apis/{group}/v1"): {"serverRelativeURL": address}}}))
        }
        "/openapi/v2" => whole(&json!({
            "swagger": "2.0", "paths": {format!("{root}/"): {"get": {"operationId": "theirs"}}, "/version": {}},
            "definitions": {"org.example.v1.Thing": {"type": "object"}}})),
        path if path == format!("/openapi/v3/apis/{group}/v1") => {
            whole(&json!({"openapi": "3.0.0", "info": {"title": "things"}}))
        }
        path if path == root => whole(&json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{group}/v1"), "resources": [
                {"name": "things", "singularName": "thing", "namespaced": true, "kind": "Thing", "verbs": ["get", "list", "watch", "create", "delete", "deletecollection"]}]})),
        path if path == format!("{things}/a/exec") => {
            let Some(upgrade) = upgrade else { return whole(&json!({})) };
            tokio::spawn(async move {
                let mut stream = TokioIo::new(upgrade.await.unwrap());
                let mut held = [0; 64];
                while let Ok(read @ 1..) = stream.read(&mut held).await {
                    let loud = held[..read].to_ascii_uppercase();
                    if stream.write_all(&loud).await.is_err() {
                        break;
                    }
                }
            });
            let mut response = whole(&json!({}));
            *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
            response.headers_mut().insert("upgrade", "loud".parse().unwrap());
            response.headers_mut().insert("connection", "Upgrade".parse().unwrap());
            response.headers_mut().remove("content-type");
            response.map(|_| Full::new(Bytes::new()).map_err(|never| match never {}).boxed())
        }
        path if path == things && uri.contains("watch=") => {
            let event = |name: &str| {
                format!(
                    "{}\n",
                    json!({"type": "ADDED", "object": {"kind": "Thing", "metadata": {"name": name}}})
                )
            };
            let events = futures::stream::iter([event("a"), event("b")]);
            // It stays open: the client sees both events before any end.
            let events = events.chain(futures::stream::pending());
            let frames = events.map(|line| Ok(Frame::data(Bytes::from(line))));
            Response::builder()
                .header("content-type", "application/json")
                .body(BodyExt::boxed(StreamBody::new(frames)))
                .unwrap()
        }
        path if path.starts_with(&format!("{root}/namespaces/")) && path.ends_with("/things") => {
            whole(&json!({"kind": "ThingList", "apiVersion": format!("{group}/v1"), "items": []}))
        }
        _ => {
            let mut response =
                whole(&json!({"kind": "Status", "status": "Failure", "code": 404, "message": "theirs"}));
            *response.status_mut() = StatusCode::NOT_FOUND;
            response
        }
    }
}
