//! A real member, over `kube::Client`'s transport.
//!
//! Requests are built here, on plain JSON: the agent handles kinds it was never compiled with, keeps no cache of
//! objects, and reads lists page by page, so that its memory stays small.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Buf, Bytes, BytesMut};
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use karmada_api::cluster::ApiEnablement;
use karmada_api::object;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use parking_lot::Mutex;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::Value;
use tokio::time::Instant;

use super::discovery::{Resource, Served};
use super::{FIELD_MANAGER, Gvk, Member, MemberError, MemberEvent, ObjectId, Probe, Watch};

/// A request without an answer for this long has none.
const TIMEOUT: Duration = Duration::from_secs(30);
/// No answer may be larger.
const ANSWER_LIMIT: usize = 32 * 1024 * 1024;
/// Objects per page of a list: some tens of kilobytes of JSON at a time.
const PAGE: usize = 25;
/// A watch is renewed this often, seconds.
const WATCH_SECONDS: u32 = 290;
/// Discovery for a kind not found is asked again this seldom.
const DISCOVERY_PAUSE: Duration = Duration::from_secs(3);
const AGGREGATED: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

/// The member behind a kubeconfig or a service account.
pub struct KubeMember {
    inner: Arc<Inner>,
}

struct Inner {
    client: kube::Client,
    discovery: Mutex<Discovery>,
}

#[derive(Default)]
struct Discovery {
    served: Arc<Served>,
    /// Of `/api` and `/apis`, with the texts: where one changed, both are parsed again.
    tags: [Option<String>; 2],
    documents: [Bytes; 2],
    asked: Option<Instant>,
}

/// Why the member's address and credentials could not be found.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The kubeconfig.
    #[error("reading the kubeconfig")]
    Kubeconfig(#[from] kube::config::KubeconfigError),
    /// The service account.
    #[error("no --kubeconfig given, and not running in a cluster")]
    InCluster(#[from] kube::config::InClusterError),
    /// The service account, where its folder is named.
    #[error("the service account: {0}")]
    ServiceAccount(String),
    /// The client.
    #[error("setting up the member's client")]
    Client(#[source] Box<kube::Error>),
}

/// The name of the cluster that the kubeconfig's current context names.
pub fn kubeconfig_cluster(path: &Path) -> Result<Option<String>, ConfigError> {
    let config = Kubeconfig::read_from(path)?;
    let current = config.current_context.unwrap_or_default();
    let context = config.contexts.into_iter().find(|context| context.name == current);
    Ok(context.and_then(|context| context.context).map(|context| context.cluster))
}

/// Names the folder of the Pod's service account (`token`, `ca.crt`), where that is not mounted at the usual place.
const SERVICE_ACCOUNT_DIR: &str = "KUBERNETES_SERVICE_ACCOUNT_DIR";

/// The Pod's service account.
fn in_cluster() -> Result<kube::Config, ConfigError> {
    let Some(folder) = std::env::var_os(SERVICE_ACCOUNT_DIR).map(PathBuf::from) else {
        return Ok(kube::Config::incluster()?);
    };
    let wrong = |what: &str, why: String| ConfigError::ServiceAccount(format!("{what}: {why}"));
    let variable = |name: &str| std::env::var(name).map_err(|error| wrong(name, error.to_string()));
    let (host, port) = (variable("KUBERNETES_SERVICE_HOST")?, variable("KUBERNETES_SERVICE_PORT")?);
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    let url = format!("https://{host}:{port}");
    let url = url.parse().map_err(|error: http::uri::InvalidUri| wrong(&url, error.to_string()))?;
    let ca = folder.join("ca.crt");
    let certificates: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(&ca).and_then(|certificates| certificates.collect());
    let certificates = certificates.map_err(|error| wrong(&ca.display().to_string(), error.to_string()))?;
    let mut config = kube::Config::new(url);
    config.root_cert = Some(certificates.into_iter().map(|certificate| certificate.to_vec()).collect());
    // The client reads it again as the kubelet renews it.
    config.auth_info.token_file = Some(folder.join("token").display().to_string());
    Ok(config)
}

impl KubeMember {
    /// Over the kubeconfig at `path`, or the Pod's service account where there is none.
    pub async fn connect(path: Option<&Path>) -> Result<Self, ConfigError> {
        let config = match path {
            Some(path) => {
                let options = KubeConfigOptions::default();
                kube::Config::from_custom_kubeconfig(Kubeconfig::read_from(path)?, &options).await?
            }
            None => in_cluster()?,
        };
        let client = kube::Client::try_from(config).map_err(|error| ConfigError::Client(Box::new(error)))?;
        Ok(Self { inner: Arc::new(Inner { client, discovery: Mutex::default() }) })
    }
}

impl Inner {
    async fn send(&self, request: Request<Body>) -> Result<Response<Body>, MemberError> {
        let sent = tokio::time::timeout(TIMEOUT, self.client.send(request)).await;
        let unreachable = |error: String| MemberError::Unreachable(error);
        sent.map_err(|_| unreachable("no answer in 30 s".into()))?
            .map_err(|error| unreachable(error_chain(&error)))
    }

    async fn call(&self, request: Request<Body>) -> Result<Bytes, MemberError> {
        let response = self.send(request).await?;
        let (parts, body) = response.into_parts();
        let read = tokio::time::timeout(TIMEOUT, Limited::new(body, ANSWER_LIMIT).collect()).await;
        let body = read
            .map_err(|_| MemberError::Unreachable("the answer did not end in 30 s".into()))?
            .map_err(|error| MemberError::Unreachable(error.to_string()))?
            .to_bytes();
        if parts.status.is_success() { Ok(body) } else { Err(refusal(parts.status, &parts.headers, &body)) }
    }

    async fn json(&self, request: Request<Body>) -> Result<Value, MemberError> {
        let body = self.call(request).await?;
        serde_json::from_slice(&body)
            .map_err(|error| MemberError::Other(format!("the member's answer: {error}")))
    }

    /// How `gvk` is served; asks again, at most every few seconds, where it was not.
    async fn served(&self, gvk: &Gvk) -> Result<Resource, MemberError> {
        if let Some(resource) = self.discovery.lock().served.resource(gvk) {
            return Ok(resource.clone());
        }
        let recently = |asked: Option<Instant>| asked.is_some_and(|at| at.elapsed() < DISCOVERY_PAUSE);
        if !recently(self.discovery.lock().asked) {
            self.discover().await?;
        }
        let served = self.discovery.lock().served.clone();
        served.resource(gvk).cloned().ok_or_else(|| MemberError::NoKind(gvk.clone()))
    }

    async fn discover(&self) -> Result<Arc<Served>, MemberError> {
        self.discovery.lock().asked = Some(Instant::now());
        let mut changed = false;
        for (at, path) in ["/api", "/apis"].into_iter().enumerate() {
            let tag = self.discovery.lock().tags[at].clone();
            if let Some((tag, document)) = self.document(path, tag).await? {
                let mut discovery = self.discovery.lock();
                (discovery.tags[at], discovery.documents[at]) = (tag, document);
                changed = true;
            }
        }
        if !changed {
            return Ok(self.discovery.lock().served.clone());
        }
        let documents = self.discovery.lock().documents.clone();
        let served = match Served::aggregated(&[&documents[0], &documents[1]]) {
            Some(served) => served,
            None => self.discover_legacy(&documents[1]).await?,
        };
        let served = Arc::new(served);
        let mut discovery = self.discovery.lock();
        discovery.served = served.clone();
        Ok(served)
    }

    /// A discovery document, or `None` where it is still the one of `tag`.
    async fn document(
        &self,
        path: &str,
        tag: Option<String>,
    ) -> Result<Option<(Option<String>, Bytes)>, MemberError> {
        let mut request = Request::get(path).header(header::ACCEPT, AGGREGATED);
        if let Some(tag) = tag {
            request = request.header(header::IF_NONE_MATCH, tag);
        }
        let response = self.send(built(request.body(Body::empty()))?).await?;
        let (parts, body) = response.into_parts();
        if parts.status == StatusCode::NOT_MODIFIED {
            return Ok(None);
        }
        let body = Limited::new(body, ANSWER_LIMIT)
            .collect()
            .await
            .map_err(|error| MemberError::Unreachable(error.to_string()))?
            .to_bytes();
        if !parts.status.is_success() {
            return Err(refusal(parts.status, &parts.headers, &body));
        }
        let tag = parts.headers.get(header::ETAG).and_then(|tag| tag.to_str().ok()).map(str::to_owned);
        Ok(Some((tag, body)))
    }

    async fn discover_legacy(&self, groups: &[u8]) -> Result<Served, MemberError> {
        let groups: Value = serde_json::from_slice(groups).unwrap_or_default();
        let listed = groups.get("groups").and_then(Value::as_array).into_iter().flatten();
        let versions = listed.flat_map(|g| g.get("versions").and_then(Value::as_array).into_iter().flatten());
        let mut paths = vec!["/api/v1".to_owned()];
        paths.extend(versions.filter_map(|v| Some(format!("/apis/{}", v.get("groupVersion")?.as_str()?))));
        let (mut lists, mut complete) = (Vec::new(), true);
        for path in paths {
            match self.call(built(Request::get(path).body(Body::empty()))?).await {
                Ok(list) => lists.push(list.to_vec()),
                Err(error @ (MemberError::Unreachable(_) | MemberError::Throttled(_))) => return Err(error),
                Err(_) => complete = false,
            }
        }
        Ok(Served::legacy(&lists, complete))
    }

    async fn collection(&self, gvk: &Gvk, namespace: &str) -> Result<String, MemberError> {
        let resource = self.served(gvk).await?;
        let root = if gvk.group.is_empty() {
            format!("/api/{}", gvk.version)
        } else {
            format!("/apis/{}/{}", gvk.group, gvk.version)
        };
        if resource.namespaced && !namespace.is_empty() {
            return Ok(format!("{root}/namespaces/{}/{}", escape(namespace), resource.plural));
        }
        Ok(format!("{root}/{}", resource.plural))
    }

    async fn object(&self, id: &ObjectId) -> Result<String, MemberError> {
        Ok(format!("{}/{}", self.collection(&id.gvk, &id.namespace).await?, escape(&id.name)))
    }

    async fn write(
        &self,
        method: Method,
        uri: String,
        kind: &str,
        body: &Value,
    ) -> Result<Value, MemberError> {
        let body = serde_json::to_vec(body).map_err(|error| MemberError::Other(error.to_string()))?;
        let request = Request::builder().method(method).uri(uri).header(header::CONTENT_TYPE, kind);
        self.json(built(request.body(Body::from(body)))?).await
    }
}

#[async_trait]
impl Member for KubeMember {
    async fn get(&self, id: &ObjectId) -> Result<Option<Value>, MemberError> {
        let uri = self.inner.object(id).await?;
        match self.inner.json(built(Request::get(uri).body(Body::empty()))?).await {
            Ok(value) => Ok(Some(value)),
            Err(MemberError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn apply(&self, object: &Value) -> Result<Value, MemberError> {
        let uri = self.inner.object(&ObjectId::of(object)).await?;
        let uri = format!("{uri}?fieldManager={FIELD_MANAGER}&force=true");
        self.inner.write(Method::PATCH, uri, "application/apply-patch+yaml", object).await
    }

    async fn create(&self, object: &Value) -> Result<Value, MemberError> {
        let id = ObjectId::of(object);
        let uri = self.inner.collection(&id.gvk, &id.namespace).await?;
        let uri = format!("{uri}?fieldManager={FIELD_MANAGER}");
        self.inner.write(Method::POST, uri, "application/json", object).await
    }

    async fn update(&self, object: &Value) -> Result<Value, MemberError> {
        let uri = self.inner.object(&ObjectId::of(object)).await?;
        let uri = format!("{uri}?fieldManager={FIELD_MANAGER}");
        self.inner.write(Method::PUT, uri, "application/json", object).await
    }

    async fn merge(&self, id: &ObjectId, patch: &Value) -> Result<Value, MemberError> {
        let uri = self.inner.object(id).await?;
        let uri = format!("{uri}?fieldManager={FIELD_MANAGER}");
        self.inner.write(Method::PATCH, uri, "application/merge-patch+json", patch).await
    }

    async fn delete(&self, id: &ObjectId, uid: &str) -> Result<(), MemberError> {
        let uri = self.inner.object(id).await?;
        let options = serde_json::json!({
            "kind": "DeleteOptions", "apiVersion": "v1",
            "propagationPolicy": "Background", "preconditions": {"uid": uid},
        });
        match self.inner.write(Method::DELETE, uri, "application/json", &options).await {
            Ok(_) | Err(MemberError::NotFound(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn watch(&self, watch: Watch) -> BoxStream<'static, Result<MemberEvent, MemberError>> {
        let watcher = Watcher {
            inner: self.inner.clone(),
            watch,
            state: State::List { page: String::new() },
            ready: VecDeque::from([Ok(MemberEvent::Listing)]),
        };
        stream::unfold(watcher, |mut watcher| async move {
            loop {
                if let Some(event) = watcher.ready.pop_front() {
                    return Some((event, watcher));
                }
                if matches!(watcher.state, State::Over) {
                    return None;
                }
                watcher.step().await;
            }
        })
        .boxed()
    }

    async fn resource(&self, gvk: &Gvk) -> Result<String, MemberError> {
        Ok(self.inner.served(gvk).await?.plural)
    }

    async fn api_enablements(&self) -> Result<(Vec<ApiEnablement>, bool), MemberError> {
        Ok(self.inner.discover().await?.enablements())
    }

    async fn version(&self) -> Result<String, MemberError> {
        let version = self.inner.json(built(Request::get("/version").body(Body::empty()))?).await?;
        Ok(version.get("gitVersion").and_then(Value::as_str).unwrap_or_default().to_owned())
    }

    async fn probe(&self) -> Probe {
        for path in ["/readyz", "/healthz"] {
            let Ok(request) = built(Request::get(path).body(Body::empty())) else { break };
            match self.inner.send(request).await {
                Ok(response) if response.status().is_success() => return Probe::Ok,
                Ok(response) if response.status() == StatusCode::NOT_FOUND => {}
                Ok(_) => return Probe::Unhealthy,
                Err(_) => return Probe::Unreachable,
            }
        }
        Probe::Unhealthy
    }
}

/// Where a watch stands.
enum State {
    /// The next page of the list is to be read.
    List { page: String },
    /// Events after this version are to be read; `failures` in a row without one.
    Open { version: String, failures: u32 },
    /// Events are coming in.
    Reading { version: String, body: Box<Body>, buffer: BytesMut },
    /// It ended.
    Over,
}

struct Watcher {
    inner: Arc<Inner>,
    watch: Watch,
    state: State,
    ready: VecDeque<Result<MemberEvent, MemberError>>,
}

impl Watcher {
    async fn step(&mut self) {
        self.state = match std::mem::replace(&mut self.state, State::Over) {
            State::List { page } => self.list(page).await,
            State::Open { version, failures } => self.open(version, failures).await,
            State::Reading { version, body, buffer } => self.read(version, body, buffer).await,
            State::Over => State::Over,
        };
    }

    fn fail(&mut self, error: MemberError) -> State {
        self.ready.push_back(Err(error));
        State::Over
    }

    fn relist(&mut self) -> State {
        self.ready.push_back(Ok(MemberEvent::Listing));
        State::List { page: String::new() }
    }

    fn selectors(&self) -> String {
        let mut query = String::new();
        for (name, selector) in [("labelSelector", &self.watch.labels), ("fieldSelector", &self.watch.fields)]
        {
            if !selector.is_empty() {
                query.push_str(&format!("&{name}={}", escape(selector)));
            }
        }
        query
    }

    async fn list(&mut self, page: String) -> State {
        match self.page(&page).await {
            Ok((items, version, next)) => {
                let objects = items.into_iter().map(|item| Ok(MemberEvent::Object(Box::new(item))));
                self.ready.extend(objects);
                if !next.is_empty() {
                    return State::List { page: next };
                }
                self.ready.push_back(Ok(MemberEvent::Listed));
                State::Open { version, failures: 0 }
            }
            // The continue token expired between two pages.
            Err(MemberError::Conflict(_)) if !page.is_empty() => self.relist(),
            Err(error) => self.fail(error),
        }
    }

    async fn page(&mut self, page: &str) -> Result<(Vec<Value>, String, String), MemberError> {
        let inner = self.inner.clone();
        let uri = inner.collection(&self.watch.gvk, &self.watch.namespace).await?;
        let next = if page.is_empty() { String::new() } else { format!("&continue={}", escape(page)) };
        let uri = format!("{uri}?limit={PAGE}{}{next}", self.selectors());
        let mut list = inner.json(built(Request::get(uri).body(Body::empty()))?).await?;
        let text = |list: &Value, path: &str| {
            list.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let (version, next) = (text(&list, "/metadata/resourceVersion"), text(&list, "/metadata/continue"));
        let mut items = match list.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => items,
            _ => Vec::new(),
        };
        for item in &mut items {
            self.name_kind(item);
        }
        Ok((items, version, next))
    }

    /// Items of a list do not say what they are.
    fn name_kind(&self, item: &mut Value) {
        let gvk = &self.watch.gvk;
        let api_version =
            if gvk.group.is_empty() { gvk.version.clone() } else { format!("{}/{}", gvk.group, gvk.version) };
        let root = object::root(item);
        root.insert("apiVersion".into(), api_version.into());
        root.insert("kind".into(), gvk.kind.clone().into());
    }

    async fn open(&mut self, version: String, failures: u32) -> State {
        if failures > 0 {
            tokio::time::sleep(Duration::from_secs(1 << failures.min(5))).await;
        }
        let (inner, gvk, selectors) = (self.inner.clone(), self.watch.gvk.clone(), self.selectors());
        let namespace = self.watch.namespace.clone();
        let opened = async {
            let uri = inner.collection(&gvk, &namespace).await?;
            let uri = format!(
                "{uri}?watch=true&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}&resourceVersion={}{}",
                escape(&version),
                selectors
            );
            // Watches are never compressed: small events would wait in the compressor.
            let request = Request::get(uri).header(header::ACCEPT_ENCODING, "identity").body(Body::empty());
            let response = inner.send(built(request)?).await?;
            if response.status().is_success() {
                return Ok(response.into_body());
            }
            let (parts, body) = response.into_parts();
            let body =
                Limited::new(body, ANSWER_LIMIT).collect().await.map(|b| b.to_bytes()).unwrap_or_default();
            Err(refusal(parts.status, &parts.headers, &body))
        };
        match opened.await {
            Ok(body) => State::Reading { version, body: Box::new(body), buffer: BytesMut::new() },
            Err(MemberError::Conflict(_)) => self.relist(),
            Err(MemberError::Unreachable(_) | MemberError::Throttled(_)) if failures < 8 => {
                State::Open { version, failures: failures + 1 }
            }
            Err(error) => self.fail(error),
        }
    }

    async fn read(&mut self, mut version: String, mut body: Box<Body>, mut buffer: BytesMut) -> State {
        let frame = match body.frame().await {
            Some(Ok(frame)) => frame,
            Some(Err(_)) => return State::Open { version, failures: 1 },
            None => return State::Open { version, failures: 0 },
        };
        if let Ok(data) = frame.into_data() {
            buffer.extend_from_slice(&data);
        }
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let line = buffer.split_to(end);
            buffer.advance(1);
            match self.event(&line) {
                Some(seen) if !seen.is_empty() => version = seen,
                Some(_) => {}
                None => return self.relist(),
            }
        }
        if buffer.len() > ANSWER_LIMIT {
            return self.fail(MemberError::Other("an event without an end".into()));
        }
        State::Reading { version, body, buffer }
    }

    /// Takes one line. The version it was at; `None` where history is gone and must be listed anew.
    fn event(&mut self, line: &[u8]) -> Option<String> {
        let mut event: Value = serde_json::from_slice(line).ok()?;
        let object = event.get_mut("object").map(Value::take).unwrap_or_default();
        let version = object::resource_version(&object).to_owned();
        match event.get("type").and_then(Value::as_str).unwrap_or_default() {
            "ADDED" | "MODIFIED" => self.ready.push_back(Ok(MemberEvent::Object(Box::new(object)))),
            "DELETED" => self.ready.push_back(Ok(MemberEvent::Gone(ObjectId::of(&object)))),
            "BOOKMARK" => {}
            _ => return None,
        }
        Some(version)
    }
}

fn built(request: Result<Request<Body>, http::Error>) -> Result<Request<Body>, MemberError> {
    request.map_err(|error| MemberError::Invalid(format!("a request that cannot be built: {error}")))
}

/// Percent-encodes what may not stand in a path segment or a query value.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

/// The `Status` of an answer that is not a success.
fn refusal(status: StatusCode, headers: &http::HeaderMap, body: &[u8]) -> MemberError {
    let parsed: Option<Value> = serde_json::from_slice(body).ok();
    let text = |key: &str| parsed.as_ref().and_then(|s| s.get(key)).and_then(Value::as_str);
    let message = text("message").map_or_else(|| format!("the member answered {status}"), str::to_owned);
    match status.as_u16() {
        404 => MemberError::NotFound(message),
        // Gone: history or a continue token; like a conflict, it is solved by reading anew.
        409 | 410 => MemberError::Conflict(message),
        401 | 403 => MemberError::Forbidden(message),
        429 => {
            let seconds = headers.get(header::RETRY_AFTER).and_then(|v| v.to_str().ok()?.parse().ok());
            MemberError::Throttled(Duration::from_secs(seconds.unwrap_or(1)))
        }
        400..=500 if not_mergeable(&message) => MemberError::NotMergeable(message),
        400..=499 => MemberError::Invalid(message),
        502..=504 => MemberError::Unreachable(message),
        _ => MemberError::Other(message),
    }
}

/// What kube-apiserver says where structured merge cannot read an object that create takes.
fn not_mergeable(message: &str) -> bool {
    message.contains("typed patch object") || message.contains("duplicate entries for key")
}

fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        source = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_apart() {
        let of = |code: u16, body: &str| {
            refusal(StatusCode::from_u16(code).unwrap(), &http::HeaderMap::new(), body.as_bytes())
        };
        assert_eq!(of(404, r#"{"message":"gone"}"#), MemberError::NotFound("gone".into()));
        assert!(matches!(of(403, "no json"), MemberError::Forbidden(m) if m.contains("403")));
        assert!(matches!(of(429, ""), MemberError::Throttled(_)));
        assert!(matches!(of(503, ""), MemberError::Unreachable(_)));
        assert!(matches!(of(422, r#"{"message":"field is immutable"}"#), MemberError::Invalid(_)));
        let duplicate = r#"{"message":"failed to create typed patch object (a/b; apps/v1, Kind=Deployment): .spec.template.spec.containers[name=\"a\"].env: duplicate entries for key [name=\"X\"]"}"#;
        assert!(matches!(of(500, duplicate), MemberError::NotMergeable(_)));
    }

    #[test]
    fn names_are_escaped() {
        assert_eq!(escape("system:karmada:a"), "system%3Akarmada%3Aa");
        assert_eq!(escape("karmada.io/managed=true"), "karmada.io%2Fmanaged%3Dtrue");
    }
}
