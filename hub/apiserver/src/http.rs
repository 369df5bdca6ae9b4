//! HTTP in front of the registry: who asks, for what, in which form, and the answer.
//!
//! In: a request with the user of its client certificate in its extensions ([`CertificateUser`]). Out: a response; watches are
//! bodies that do not end. Every path passes identification and authorisation before anything else is looked at.

mod body;
mod discovery;
mod eviction;
mod form;
mod json_error;
mod list;
mod objects;
mod options;
mod patching;
mod respond;
pub(crate) mod scale;
mod subresources;
mod table;
mod target;
mod watch;

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response};
use tokio_util::sync::CancellationToken;

use crate::auth::{Access, Attributes};
use crate::registry::{Registry, User, Warnings};
use crate::status::Status;
pub use body::MAX_BODY;

/// What is wrong with a text that is no JSON, in Go's words; `None` where it is JSON.
pub(crate) fn json_syntax_error(bytes: &[u8]) -> Option<String> {
    json_error::syntax_error(bytes)
}

pub use respond::Body;
use target::{Query, Target};

/// The user that a verified client certificate names, put into the request's extensions by the listener.
#[derive(Clone, Debug)]
pub struct CertificateUser(pub User);

/// How the API server presents itself.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// What `/version` says: kubectl picks its behaviour by it.
    pub git_version: String,
    /// The commit built.
    pub git_commit: String,
    /// Where clients are told to come (`/api`).
    pub advertise: String,
}

/// The API server.
pub struct ApiServer {
    registry: Arc<Registry>,
    access: Arc<Access>,
    options: ServerOptions,
    ready: Arc<dyn Fn() -> Result<(), String> + Send + Sync>,
    metrics: Arc<dyn Fn() -> String + Send + Sync>,
    stop: CancellationToken,
}

/// One request past identification.
pub(crate) struct Call<'a> {
    pub user: User,
    pub method: Method,
    pub headers: &'a http::HeaderMap,
    pub query: Query,
    pub warnings: Warnings,
}

impl ApiServer {
    /// A server over a registry. `ready` says why not yet; `stop` ends watches.
    pub fn new(
        registry: Arc<Registry>,
        access: Arc<Access>,
        options: ServerOptions,
        ready: Arc<dyn Fn() -> Result<(), String> + Send + Sync>,
        metrics: Arc<dyn Fn() -> String + Send + Sync>,
        stop: CancellationToken,
    ) -> Self {
        ApiServer { registry, access, options, ready, metrics, stop }
    }

    /// The registry behind it.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Answers one request.
    pub async fn handle<B>(self: Arc<Self>, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: std::fmt::Display,
    {
        let (parts, body) = request.into_parts();
        let accepts_gzip = respond::accepts_gzip(&parts.headers);
        let answer = self.answer(&parts, body).await;
        match answer {
            Ok(response) => respond::compress(response, accepts_gzip).await,
            Err(status) => {
                let mut response = respond::refused(&status, &parts.headers);
                if status.code == 403 {
                    respond::no_sniffing(&mut response);
                }
                response
            }
        }
    }

    async fn answer<B>(
        self: &Arc<Self>,
        parts: &http::request::Parts,
        body: B,
    ) -> Result<Response<Body>, Status>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: std::fmt::Display,
    {
        let certificate = parts.extensions.get::<CertificateUser>().map(|c| &c.0);
        let user = self.access.identify(&parts.headers, certificate, parts.uri.path())?;
        let query = Query::parse(parts.uri.query().unwrap_or(""));
        let target = Target::parse(parts.uri.path());
        let attributes = target.attributes(&parts.method, &query);
        if let Err(status) = self.access.allow(&user, &attributes) {
            let mut response = respond::refused(&status, &parts.headers);
            respond::no_sniffing(&mut response);
            return Ok(response);
        }
        let call = Call {
            user,
            method: parts.method.clone(),
            headers: &parts.headers,
            query,
            warnings: Warnings::default(),
        };
        match target {
            Target::Path(path) => self.path(&call, &path),
            Target::Resource(wanted) => {
                let answered = self.resource(&call, &wanted, body).await;
                let mut response = answered.unwrap_or_else(|status| respond::refused(&status, call.headers));
                respond::warn(&mut response, &call.warnings.all());
                Ok(response)
            }
        }
    }

    /// Paths that are no resource: health, version, discovery, documents.
    fn path(&self, call: &Call<'_>, path: &str) -> Result<Response<Body>, Status> {
        const SERVED: [&str; 8] =
            ["api", "apis", "openapi", "version", "healthz", "livez", "readyz", "metrics"];
        let first = path.trim_matches('/').split('/').next().unwrap_or("");
        if path.contains("//") || !(matches!(first, "" | "index.html") || SERVED.contains(&first)) {
            return Err(Status::no_page());
        }
        let is_health = matches!(first, "healthz" | "livez" | "readyz");
        if call.method != Method::GET && call.method != Method::HEAD && !is_health {
            return Err(Status::method_not_allowed());
        }
        match path.trim_end_matches('/') {
            "/healthz" | "/livez" => Ok(respond::text("ok")),
            "/healthz/ping" | "/livez/ping" | "/readyz/ping" => {
                Ok(respond::text_as("ok".to_owned(), "text/plain; charset=utf-8"))
            }
            "/readyz" => match (self.ready)() {
                Ok(()) => Ok(respond::text("ok")),
                Err(why) => Err(Status::unavailable(why)),
            },
            "/metrics" => Ok(respond::text_as((self.metrics)(), "text/plain; version=0.0.4; charset=utf-8")),
            "/version" => Ok(respond::json(&discovery::version(&self.options))),
            "" | "/index.html" => Ok(respond::json(&discovery::paths(&self.registry.catalogue()))),
            _ if is_health => Err(Status::no_page()),
            other => self.discover(call, other),
        }
    }
}
