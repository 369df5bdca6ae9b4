//! In front of each connection to the member: who answers on it is asked before anything else goes over it.
//!
//! Comes in: connections, and the uid of the cluster that they are to lead to. Goes out: those that lead there. A virtual address, a
//! name or a load balancer may lead new connections to another cluster while those that stand live on, and a pool opens new ones
//! whenever it needs them: that an answer came over one connection says nothing of the next.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::request::Parts;
use http::{HeaderMap, Request, Response, Uri, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper::rt::{Read, Write};
use karmada_api::object;
use kube::client::{Body, ConfigExt};
use serde_json::Value;
use tower::util::BoxService;
use tower::{Service, ServiceBuilder, ServiceExt, service_fn};

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Who answers is known by the uid of this.
const WHO: &str = "/api/v1/namespaces/kube-system";
/// No answer to the question in this time: no connection.
const TIMEOUT: Duration = Duration::from_secs(10);
/// A namespace is never larger.
const LIMIT: usize = 1024 * 1024;

/// Which cluster connections are to lead to, and where they were found to lead.
#[derive(Debug, Default)]
pub(super) struct Identity {
    expected: OnceLock<String>,
    stranger: OnceLock<String>,
    /// Connections that were let through although who answers did not say.
    unknown: AtomicU64,
}

impl Identity {
    /// From now on, connections are to lead to the cluster with this uid.
    pub(super) fn expects(&self, uid: &str) {
        let _ = self.expected.set(uid.to_owned());
    }

    /// The uid of another cluster that a connection led to.
    pub(super) fn stranger(&self) -> Option<String> {
        self.stranger.get().cloned()
    }

    /// Counts connections of which it is not known where they lead.
    pub(super) fn unknown(&self) -> u64 {
        self.unknown.load(Ordering::Acquire)
    }
}

/// A connector whose connections lead to the expected cluster.
#[derive(Clone)]
pub(super) struct Checked<C> {
    connector: C,
    identity: Arc<Identity>,
    question: Arc<tokio::sync::Mutex<Question>>,
}

/// Gives the question the address and the credentials that every other request has.
type Question = BoxService<Request<Body>, Response<()>, Failed>;

impl<C> Checked<C> {
    /// Over `connector`, with the address and credentials of `config`.
    pub(super) fn new(connector: C, config: &kube::Config, identity: Arc<Identity>) -> Result<Self, Failed> {
        let ready = service_fn(|request: Request<Body>| async move {
            let (parts, _) = request.into_parts();
            let mut response = Response::new(());
            response.extensions_mut().insert(parts);
            Ok::<_, Failed>(response)
        });
        let question = ServiceBuilder::new()
            .layer(config.base_uri_layer())
            .option_layer(config.auth_layer()?)
            .layer(config.extra_headers_layer()?)
            .map_err(Failed::from)
            .service(ready);
        let question = Arc::new(tokio::sync::Mutex::new(BoxService::new(question)));
        Ok(Self { connector, identity, question })
    }
}

impl<C> Service<Uri> for Checked<C>
where
    C: Service<Uri> + Clone + Send + 'static,
    C::Response: Read + Write + Unpin + Send + 'static,
    C::Future: Send,
    C::Error: Into<Failed>,
{
    type Response = C::Response;
    type Error = Failed;
    type Future = BoxFuture<'static, Result<C::Response, Failed>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Failed>> {
        self.connector.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let fresh = self.connector.clone();
        let mut connector = std::mem::replace(&mut self.connector, fresh);
        let (identity, question) = (self.identity.clone(), self.question.clone());
        Box::pin(async move {
            let connection = connector.call(uri.clone()).await.map_err(Into::into)?;
            let Some(expected) = identity.expected.get() else { return Ok(connection) };
            let asked =
                tokio::time::timeout(TIMEOUT, async { ask(connection, prepared(&question).await?).await });
            let (connection, said) = asked.await.map_err(|_| "who answers did not say so in 10 s")??;
            match said {
                Said::Uid(uid) if uid == *expected => Ok(connection),
                Said::Uid(uid) => {
                    let error =
                        format!("the connection leads to the cluster with the uid {uid}, not {expected}");
                    let _ = identity.stranger.set(uid);
                    Err(error.into())
                }
                Said::Nothing => {
                    identity.unknown.fetch_add(1, Ordering::AcqRel);
                    Ok(connection)
                }
                // One that serves a single request cannot be asked and used.
                Said::Last => {
                    identity.unknown.fetch_add(1, Ordering::AcqRel);
                    futures::future::poll_fn(|context| connector.poll_ready(context))
                        .await
                        .map_err(Into::into)?;
                    connector.call(uri).await.map_err(Into::into)
                }
            }
        })
    }
}

/// What came over a connection.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    /// Of the cluster that answered.
    Uid(String),
    /// It may not be asked, or cannot say now.
    Nothing,
    /// The same, and the connection ends with it.
    Last,
}

async fn prepared(question: &tokio::sync::Mutex<Question>) -> Result<Parts, Failed> {
    let request = Request::get(WHO).header(header::ACCEPT, "application/json").body(Body::empty())?;
    let mut question = question.lock().await;
    let response = question.ready().await?.call(request).await?;
    Ok(response.extensions().get::<Parts>().cloned().ok_or("the question was lost")?)
}

/// Asks who answers, and gives the connection back.
async fn ask<C: Read + Write + Unpin + Send + 'static>(
    connection: C,
    mut question: Parts,
) -> Result<(C, Said), Failed> {
    if let Some(authority) = question.uri.authority() {
        let host = authority.as_str().rsplit('@').next().unwrap_or_default();
        question.headers.insert(header::HOST, host.parse()?);
    }
    question.uri = question.uri.path_and_query().map_or(WHO, |path| path.as_str()).parse()?;
    let (mut sender, talking) = http1::handshake(connection).await?;
    let asking = async move {
        let response = sender.send_request(Request::from_parts(question, Empty::<Bytes>::new())).await?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, LIMIT).collect().await?.to_bytes();
        let uid = serde_json::from_slice::<Value>(&body).ok().filter(|_| parts.status.is_success());
        let uid = uid.map(|namespace| object::uid(&namespace).to_owned()).filter(|uid| !uid.is_empty());
        Ok::<_, Failed>((uid, ends(&parts.headers)))
    };
    let (left, said) = tokio::join!(talking.without_shutdown(), asking);
    let (uid, last) = said?;
    let left = left?;
    if !left.read_buf.is_empty() {
        return Err("the member said more than it was asked".into());
    }
    let said = match (uid, last) {
        (Some(uid), false) => Said::Uid(uid),
        (_, true) => Said::Last,
        (None, false) => Said::Nothing,
    };
    Ok((left.io, said))
}

/// Whether the connection ends with this answer.
fn ends(headers: &HeaderMap) -> bool {
    let words = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    words.flat_map(|value| value.split(',')).any(|word| word.trim().eq_ignore_ascii_case("close"))
}

#[cfg(test)]
mod tests;
