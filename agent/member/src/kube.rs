//! A real member, over `kube::Client`'s transport.
//!
//! In: a kubeconfig or a service account; kinds, names, JSON. Out: the member's answer as JSON, or a [`MemberError`]. A request of the
//! agent's own ends within a minute, watches aside, and no answer to it is larger than 32 MiB.
//!
//! Requests are built here, on plain JSON: the agent handles kinds it was never compiled with, keeps no cache of
//! objects, and reads lists page by page, so that its memory stays small.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use karmada_api::cluster::ApiEnablement;
use karmada_api::object;
use karmada_proto::{one_line, one_line_of};
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

mod checked;
mod client;
mod config;
#[cfg(test)]
mod fake;
mod history;
mod refusal;
mod unserved;
mod watching;

pub use config::{ConfigError, kubeconfig_cluster};

use self::client::Passer;
use super::discovery::{Discovery, Resource};
use super::percent::percent_encoded;
use super::{
    FIELD_MANAGER, Gvk, Member, MemberError, MemberEvent, ObjectId, Passing, Probe, Unserved, Watch,
};

/// A request without an answer for this long has none.
const TIMEOUT: Duration = Duration::from_secs(30);
/// No answer may be larger.
const ANSWER_LIMIT: usize = 32 * 1024 * 1024;
/// No version is longer.
const VERSION: usize = 64;
/// Discovery for a kind not found is asked again this seldom.
const DISCOVERY_PAUSE: Duration = Duration::from_secs(3);
const AGGREGATED: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

/// The member behind a kubeconfig or a service account.
pub struct KubeMember {
    inner: Arc<Inner>,
}

struct Inner {
    config: kube::Config,
    client: Mutex<kube::Client>,
    /// For requests from outside; made when there is one.
    passer: Mutex<Option<Passer>>,
    identity: Arc<checked::Identity>,
    discovery: Mutex<DiscoveryState>,
    asking: tokio::sync::Mutex<()>,
    /// Connections that failed or ended.
    breaks: AtomicU64,
}

#[derive(Default)]
struct DiscoveryState {
    served: Arc<Discovery>,
    /// Of `/api` and `/apis`, with the texts: where one changed, both are parsed again.
    tags: [Option<String>; 2],
    documents: [Bytes; 2],
    asked: Option<Instant>,
    /// Why the last asking came to nothing.
    failed: Option<MemberError>,
}

impl KubeMember {
    /// Over the kubeconfig at `path`, or the Pod's service account where there is none.
    ///
    /// # Errors
    /// There is neither a kubeconfig that can be read nor a service account, or a client cannot be made of it: [`ConfigError`] says which.
    pub async fn connect(path: Option<&Path>) -> Result<Self, ConfigError> {
        let mut config = config::read(path).await?;
        // The agent tries again by itself, and heeds how long the member asks it to wait.
        config.default_retry = false;
        let identity: Arc<checked::Identity> = Arc::default();
        let client = Mutex::new(client::client(&config, identity.clone())?);
        Ok(Self {
            inner: Arc::new(Inner {
                config,
                client,
                passer: Mutex::default(),
                identity,
                discovery: Mutex::default(),
                asking: tokio::sync::Mutex::default(),
                breaks: AtomicU64::new(0),
            }),
        })
    }
}

impl Inner {
    fn passer(&self) -> Result<Passer, MemberError> {
        let mut passer = self.passer.lock();
        if let Some(passer) = &*passer {
            return Ok(passer.clone());
        }
        let made = Passer::new(&self.config, self.identity.clone());
        let made = made.map_err(|error| MemberError::Other(one_line(&error.to_string())))?;
        Ok(passer.insert(made).clone())
    }

    async fn send(&self, request: Request<Body>) -> Result<Response<Body>, MemberError> {
        let client = self.client.lock().clone();
        let method = request.method().clone();
        let sent = tokio::time::timeout(TIMEOUT, client.send(request)).await;
        sent.map_err(|_| sent_in_vain(&method, self.broken("no answer in 30 s")))?.map_err(|error| {
            let broken = self.broken(&refusal::error_chain(&error));
            if refusal::was_sent(&error) { sent_in_vain(&method, broken) } else { broken }
        })
    }

    /// No answer came: whoever answers next may be another cluster.
    fn broken(&self, error: &str) -> MemberError {
        self.breaks.fetch_add(1, Ordering::AcqRel);
        MemberError::Unreachable(one_line(error))
    }

    async fn call(&self, request: Request<Body>) -> Result<Bytes, MemberError> {
        let method = request.method().clone();
        let response = self.send(request).await?;
        let (parts, body) = response.into_parts();
        let body = self.whole(body).await.map_err(|error| sent_in_vain(&method, error))?;
        if parts.status.is_success() {
            return Ok(body);
        }
        // That the member is not reached may be the word of a proxy that did not wait for it, or its own of its store.
        Err(sent_in_vain(&method, refusal::of_answer(parts.status, &parts.headers, &body)))
    }

    /// A whole answer, which ends in time and is no larger than an answer may be.
    async fn whole<B>(&self, body: B) -> Result<Bytes, MemberError>
    where
        B: hyper::body::Body,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let read = tokio::time::timeout(TIMEOUT, Limited::new(body, ANSWER_LIMIT).collect()).await;
        let read = read.map_err(|_| self.broken("the answer did not end in 30 s"))?;
        read.map(http_body_util::Collected::to_bytes).map_err(|error| self.broken(&error.to_string()))
    }

    async fn json(&self, request: Request<Body>) -> Result<Value, MemberError> {
        let body = self.call(request).await?;
        serde_json::from_slice(&body)
            .map_err(|error| MemberError::Internal(format!("the member's answer: {error}")))
    }

    /// How `gvk` is served; asks again, at most every few seconds, where it was not. A member that could not be asked is not said to
    /// serve nothing.
    async fn served(&self, gvk: &Gvk) -> Result<Resource, MemberError> {
        if let Some(resource) = self.discovery.lock().served.resource(gvk) {
            return Ok(resource.clone());
        }
        // One asks; the others wait for what it hears.
        let _one = self.asking.lock().await;
        let recently = |asked: Option<Instant>| asked.is_some_and(|at| at.elapsed() < DISCOVERY_PAUSE);
        if !recently(self.discovery.lock().asked) {
            let failed = self.discover().await.err();
            self.discovery.lock().failed = failed;
        }
        let discovery = self.discovery.lock();
        match (discovery.served.resource(gvk), &discovery.failed) {
            (Some(resource), _) => Ok(resource.clone()),
            (None, Some(error)) => Err(error.clone()),
            (None, None) => Err(MemberError::NoKind(gvk.clone())),
        }
    }

    async fn discover(&self) -> Result<Arc<Discovery>, MemberError> {
        self.discovery.lock().asked = Some(Instant::now());
        let (mut tags, mut documents) = {
            let discovery = self.discovery.lock();
            (discovery.tags.clone(), discovery.documents.clone())
        };
        let mut changed = false;
        for (at, path) in ["/api", "/apis"].into_iter().enumerate() {
            if let Some((tag, document)) = self.document(path, tags[at].clone()).await? {
                (tags[at], documents[at]) = (tag, document);
                changed = true;
            }
        }
        if !changed {
            return Ok(self.discovery.lock().served.clone());
        }
        let served = match Discovery::aggregated(&[&documents[0], &documents[1]]) {
            Some(served) => served,
            None => self.discover_legacy(&documents[1]).await?,
        };
        let served = Arc::new(served);
        let mut discovery = self.discovery.lock();
        // Only now: where one of these requests fails, or a group's does, the next time must not be told that nothing changed.
        discovery.tags = if served.is_complete() { tags } else { [None, None] };
        discovery.documents = documents;
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
        let body = self.whole(body).await?;
        if !parts.status.is_success() {
            return Err(refusal::of_answer(parts.status, &parts.headers, &body));
        }
        let tag = parts.headers.get(header::ETAG).and_then(|tag| tag.to_str().ok()).map(str::to_owned);
        Ok(Some((tag, body)))
    }

    async fn discover_legacy(&self, groups: &[u8]) -> Result<Discovery, MemberError> {
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
        Ok(Discovery::legacy(&lists, complete))
    }

    async fn collection(&self, gvk: &Gvk, namespace: &str) -> Result<String, MemberError> {
        let resource = self.served(gvk).await?;
        let root = if gvk.group.is_empty() {
            format!("/api/{}", gvk.version)
        } else {
            format!("/apis/{}/{}", gvk.group, gvk.version)
        };
        if resource.namespaced && !namespace.is_empty() {
            return Ok(format!("{root}/namespaces/{}/{}", percent_encoded(namespace), resource.plural));
        }
        Ok(format!("{root}/{}", resource.plural))
    }

    /// The path of an object's collection, where there can be such an object.
    async fn home(&self, id: &ObjectId) -> Result<String, MemberError> {
        if let Some(fault) = id.fault() {
            return Err(MemberError::NoObject(fault));
        }
        let resource = self.served(&id.gvk).await?;
        if resource.namespaced && id.namespace.is_empty() {
            return Err(MemberError::NoObject(format!("{id} needs a namespace, and its manifest says none")));
        }
        if !resource.readable {
            let words =
                format!("a {} is an answer to its request, and nothing that the member keeps", id.gvk.kind);
            return Err(MemberError::NoObject(words));
        }
        self.collection(&id.gvk, &id.namespace).await
    }

    async fn object(&self, id: &ObjectId) -> Result<String, MemberError> {
        Ok(format!("{}/{}", self.home(id).await?, percent_encoded(&id.name)))
    }

    /// An object written, as the member says that it is now.
    async fn put(
        &self,
        id: &ObjectId,
        method: Method,
        uri: String,
        kind: &str,
        body: &Value,
    ) -> Result<Value, MemberError> {
        let answer = self.write(method, uri, kind, body).await?;
        if answers(id, self.served(&id.gvk).await?.namespaced, &answer) && !object::uid(&answer).is_empty() {
            return Ok(answer);
        }
        // It may have been carried out all the same.
        Err(MemberError::Internal(format!("{SOMETHING_ELSE}: {id} was written")))
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
            Ok(value) if answers(id, self.inner.served(&id.gvk).await?.namespaced, &value) => Ok(Some(value)),
            // No word of the object: neither that it is there nor that it is not.
            Ok(_) => Err(MemberError::Internal(format!("{SOMETHING_ELSE}: {id} was asked for"))),
            Err(MemberError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn apply(&self, object: &Value) -> Result<Value, MemberError> {
        let id = ObjectId::of(object);
        let uri = format!("{}?fieldManager={FIELD_MANAGER}&force=true", self.inner.object(&id).await?);
        self.inner.put(&id, Method::PATCH, uri, "application/apply-patch+yaml", object).await
    }

    async fn create(&self, object: &Value) -> Result<Value, MemberError> {
        let id = ObjectId::of(object);
        let uri = format!("{}?fieldManager={FIELD_MANAGER}", self.inner.home(&id).await?);
        self.inner.put(&id, Method::POST, uri, "application/json", object).await
    }

    async fn update(&self, object: &Value) -> Result<Value, MemberError> {
        let id = ObjectId::of(object);
        let uri = format!("{}?fieldManager={FIELD_MANAGER}", self.inner.object(&id).await?);
        self.inner.put(&id, Method::PUT, uri, "application/json", object).await
    }

    async fn merge(&self, id: &ObjectId, patch: &Value) -> Result<Value, MemberError> {
        let uri = self.inner.object(id).await?;
        let uri = format!("{uri}?fieldManager={FIELD_MANAGER}");
        self.inner.put(id, Method::PATCH, uri, "application/merge-patch+json", patch).await
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
        watching::events(self.inner.clone(), watch)
    }

    async fn resource(&self, gvk: &Gvk) -> Result<String, MemberError> {
        Ok(self.inner.served(gvk).await?.plural)
    }

    async fn unserved(&self, gvk: &Gvk) -> Result<Unserved, MemberError> {
        // One that is not ready may not know yet what it serves.
        match self.probe().await {
            Probe::Ok => self.inner.unserved(gvk).await,
            Probe::Unhealthy | Probe::Unreachable => Ok(Unserved::Hidden),
        }
    }

    async fn api_enablements(&self) -> Result<(Vec<ApiEnablement>, bool), MemberError> {
        Ok(self.inner.discover().await?.enablements())
    }

    async fn version(&self) -> Result<String, MemberError> {
        let version = self.inner.json(built(Request::get("/version").body(Body::empty()))?).await?;
        let version = version.get("gitVersion").and_then(Value::as_str).unwrap_or_default();
        Ok(one_line_of(version, VERSION))
    }

    async fn pass(&self, request: Request<Passing>) -> Result<Response<Passing>, MemberError> {
        let passer = self.inner.passer()?;
        passer.send(request).await.map_err(|error| self.inner.broken(&refusal::error_chain(&*error)))
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

    fn breaks(&self) -> u64 {
        self.inner.breaks.load(Ordering::Acquire) + self.inner.identity.unknown()
    }

    fn expects(&self, uid: &str) {
        self.inner.identity.expects(uid);
        // What was opened before was not asked.
        *self.inner.passer.lock() = None;
        match client::client(&self.inner.config, self.inner.identity.clone()) {
            Ok(client) => *self.inner.client.lock() = client,
            Err(error) => tracing::warn!(%error, "connections to the member that stand are used on"),
        }
    }

    fn stranger(&self) -> Option<String> {
        self.inner.identity.stranger()
    }
}

/// What it means of a request that was sent, where no answer came: a write may be carried out all the same.
fn sent_in_vain(method: &Method, error: MemberError) -> MemberError {
    match error {
        MemberError::Unreachable(why) if method != Method::GET => MemberError::Unanswered(why),
        error => error,
    }
}

/// What is said of a success that is none.
const SOMETHING_ELSE: &str = "the member's API answered with something else";

/// Whether `answer` is the object `id`, in whatever version. What stands in front of an API server may call anything a success.
fn answers(id: &ObjectId, namespaced: bool, answer: &Value) -> bool {
    let there = ObjectId::of(answer);
    id.means(&there) && (!namespaced || there.namespace == id.namespace)
}

fn built(request: Result<Request<Body>, http::Error>) -> Result<Request<Body>, MemberError> {
    request.map_err(|error| MemberError::Invalid(format!("a request that cannot be built: {error}")))
}

#[cfg(test)]
mod tests;
