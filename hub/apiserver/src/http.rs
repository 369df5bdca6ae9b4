//! HTTP in front of the registry: who asks, for what, in which form, and the answer.
//!
//! In: a request with the user of its client certificate in its extensions ([`CertificateUser`]). Out: a response; watches are
//! bodies that do not end. Every path passes identification and authorisation before anything else is looked at.

mod answer_body;
mod binding;
mod body;
mod connecting;
mod deletion;
mod detached_writes;
mod discovery;
mod eviction;
mod health;
mod heavy_requests;
mod indent;
mod list;
mod list_body;
mod memory_shares;
mod negotiation;
mod objects;
mod openapi;
mod options;
mod patching;
mod paths;
mod protobuf_list;
mod request_checks;
mod request_timeout;
mod resource_call;
mod resources;
mod respond;
mod response_pacing;
pub(crate) mod scale_table;
mod selectors;
mod slow_reader;
mod subresources;
mod table;
mod target;
mod watch;
mod write_options;
mod yaml;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use karmada_access::Access;
use karmada_definitions::status::{Details, Status};
use karmada_registry::user::ANONYMOUS;
use karmada_registry::{Attributes, Registry, User, Warnings};
use tokio_util::sync::CancellationToken;

use crate::aggregation::Aggregator;
use crate::audit::{Audit, Record};
use crate::connect::Connectors;
use crate::fairness::{Fairness, Judged, Seat, TooMany};
use crate::openapi::Published;
use crate::request_metrics::{Labels, RequestMetrics};
pub use body::MAX_BODY;
pub use body::Received;
pub use detached_writes::{WriteExecutor, WriteTask};
pub use health::STORE as STORE_CHECK;
pub use heavy_requests::{HeavyRequest, HeavyRequests};

pub use answer_body::Body;
use detached_writes::Unanswered;
use memory_shares::{MemoryShares, TakenMemory};
use selectors::Selectors;
use target::{Query, ResourcePath, Target};

/// The user that a verified client certificate names, put into the request's extensions by the listener.
#[derive(Clone, Debug)]
pub struct CertificateUser(pub User);

/// Put into the request's extensions by the listener where the connection's certificate is good for nothing here: it has ended, or
/// is for another service of this port. Who shows nothing else is not let in, not even as nobody.
#[derive(Clone, Copy, Debug)]
pub struct RefusedCertificate;

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

/// What `/readyz` looks at: each check by name, and what is wrong where something is.
pub type Readiness = dyn Fn() -> Vec<(&'static str, Result<(), String>)> + Send + Sync;

/// The API server.
pub struct ApiServer {
    registry: Arc<Registry>,
    access: Arc<Access>,
    options: ServerOptions,
    ready: Arc<Readiness>,
    metrics: Arc<dyn Fn() -> String + Send + Sync>,
    audit: Option<Arc<Audit>>,
    fairness: Option<Arc<Fairness>>,
    aggregator: Option<Arc<Aggregator>>,
    connectors: Connectors,
    requests: Option<Arc<RequestMetrics>>,
    room: MemoryShares,
    selectors: Selectors,
    documents: Published,
    stop: CancellationToken,
}

/// One request past identification.
pub(crate) struct Call<'a> {
    pub user: User,
    pub method: Method,
    pub parts: &'a http::request::Parts,
    pub headers: &'a http::HeaderMap,
    pub query: Query,
    pub warnings: Warnings,
}

/// What goes along with a request from its head to the end of its answer.
#[derive(Default)]
struct RequestState {
    record: Option<Record>,
    judged: Option<Judged>,
    /// Held until the answer is made; by a long answer that has an end, until it is sent.
    seat: Option<Seat>,
    /// Whether the answer goes on after its head: a watch.
    long: bool,
    /// Where it is heavy: until its answer is made, or of a long list, sent.
    heavy: Option<HeavyRequest>,
    /// Whether another server's answer is passed on as it came.
    passed: bool,
    /// The room that its answer takes.
    room: Option<TakenMemory>,
    /// Whether it was refused for whom it wanted to act as.
    acts_as_nobody: bool,
    /// As what the request is counted.
    counted: Option<Labels>,
}

impl ApiServer {
    /// A server over a registry. `ready` says what is not as it should be; `stop` ends watches.
    pub fn new(
        registry: Arc<Registry>,
        access: Arc<Access>,
        options: ServerOptions,
        ready: Arc<Readiness>,
        metrics: Arc<dyn Fn() -> String + Send + Sync>,
        stop: CancellationToken,
    ) -> Self {
        let room = MemoryShares::default();
        ApiServer {
            registry,
            access,
            options,
            ready,
            metrics,
            audit: None,
            fairness: None,
            aggregator: None,
            connectors: Connectors::default(),
            requests: None,
            selectors: Selectors::new(room.clone()),
            room,
            documents: Published::default(),
            stop,
        }
    }

    /// The same server, writing an audit log.
    #[must_use]
    pub fn audited(mut self, audit: Option<Arc<Audit>>) -> Self {
        self.audit = audit;
        self
    }

    /// The same server, giving out seats.
    #[must_use]
    pub fn fair(mut self, fairness: Option<Arc<Fairness>>) -> Self {
        self.fairness = fairness;
        self
    }

    /// The same server, handing groups over.
    #[must_use]
    pub fn aggregating(mut self, aggregator: Option<Arc<Aggregator>>) -> Self {
        self.aggregator = aggregator;
        self
    }

    /// The same server, where these serve parts of objects that are connections.
    #[must_use]
    pub fn connecting(mut self, connectors: Connectors) -> Self {
        self.connectors = connectors;
        self
    }

    /// The same server, counting its requests.
    #[must_use]
    pub fn counting(mut self, requests: Arc<RequestMetrics>) -> Self {
        self.requests = Some(requests);
        self
    }

    /// The registry behind it.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Answers one request. What may change something is worked on to its end, also where this is dropped.
    pub async fn handle<B>(self: Arc<Self>, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: std::fmt::Display,
    {
        let (parts, body) = request.into_parts();
        if let Some(refused) = paths::unreadable(parts.uri.path()) {
            return refused;
        }
        let body: Received = body.map_err(|error| error.to_string()).boxed_unsync();
        let target = Target::parse(parts.uri.path());
        if !detached_writes::may_change(&parts.method) || self.connects(&target) {
            return self.work_on(parts, body).await;
        }
        let (headers, patience) = (parts.headers.clone(), request_timeout::patience_of(&target, &parts));
        let workers = parts.extensions.get::<WriteExecutor>().cloned().unwrap_or_default();
        let work = async move { self.work_on(parts, body).await };
        match workers.run_detached(patience, work).await {
            Ok(response) => response,
            Err(Unanswered::Late) => respond::refused(&request_timeout::too_late(), &headers),
            Err(Unanswered::Broken) => {
                respond::refused(&Status::internal("the work on it ended early"), &headers)
            }
        }
    }

    /// Boxed, so that all of it is compiled here and not by whoever serves a port.
    fn work_on(
        self: Arc<Self>,
        parts: http::request::Parts,
        body: Received,
    ) -> BoxFuture<'static, Response<Body>> {
        Box::pin(self.answered(parts, body))
    }

    async fn answered(self: Arc<Self>, parts: http::request::Parts, body: Received) -> Response<Body> {
        let begun = tokio::time::Instant::now();
        let mut state = RequestState::default();
        let answering = std::panic::AssertUnwindSafe(self.answer(&parts, body, &mut state));
        let answer = answering.catch_unwind().await;
        let mut response = match answer {
            Ok(Ok(response)) => response,
            Ok(Err(status)) => {
                let mut response = respond::refused(&status, &parts.headers);
                if status.code == 403 || state.acts_as_nobody {
                    respond::no_sniffing(&mut response);
                }
                response
            }
            Err(_) => {
                tracing::error!(method = %parts.method, path = parts.uri.path(), "answering a request panicked");
                if let Some(record) = state.record.take() {
                    record.panicked().await;
                }
                let words = "This request caused apiserver to panic. Look in the logs for details.\n";
                respond::refused(&Status::plain(500, words), &parts.headers)
            }
        };
        let room = state.room.take().filter(|_| !state.long);
        let room = match respond::housed(&response, room) {
            Ok(room) => room,
            Err(full) => {
                response = respond::refused(&full.into(), &parts.headers);
                None
            }
        };
        if let (Some(requests), Some(labels)) = (&self.requests, &state.counted) {
            let took = (!state.long).then(|| begun.elapsed());
            requests.observe(labels, response.status().as_u16(), took);
        }
        if let Some(judged) = state.judged {
            let headers = response.headers_mut();
            headers.insert("x-kubernetes-pf-flowschema-uid", judged.schema);
            headers.insert("x-kubernetes-pf-prioritylevel-uid", judged.level);
        }
        if let Some(record) = state.record {
            response = record.answered(response, state.long).await;
        }
        if state.long {
            return response;
        }
        // Paced before it is compressed: what takes time is what goes in.
        let packed = respond::accepts_gzip(&parts.headers) && respond::is_large(&response);
        let document = parts.uri.path().starts_with("/openapi");
        if !state.passed && !document && indent::asked(&parts.headers, &Query::of(&parts.uri)) {
            response = indent::indented(response);
        }
        let response = response.map(|body| response_pacing::paced(body, state.seat, state.heavy, room));
        if packed { respond::compress(response) } else { response }
    }

    async fn answer(
        self: &Arc<Self>,
        parts: &http::request::Parts,
        mut body: Received,
        state: &mut RequestState,
    ) -> Result<Response<Body>, Status> {
        let query = Query::of(&parts.uri);
        let target = Target::parse(parts.uri.path());
        let attributes = target.attributes(&parts.method, &query);
        state.counted = self.requests.as_ref().map(|_| Labels::of(&attributes, self.serves(&target)));
        let connects = self.connects(&target);
        // What follows the address of a connection is for its other end, and it lasts as long as it does.
        let patience = if connects { None } else { request_timeout::patience(&target, &attributes, &query)? };
        // Of a write, the caller's patience ends alone.
        let patience = patience.filter(|_| !detached_writes::may_change(&parts.method));
        let user = self.identify(parts, &attributes, state).await?;
        state.room = Some(self.room.of(&user));
        if !connects {
            body = body::counted(body, self.room.of(&user));
        }
        let width = self.width(&target, &attributes, &query);
        self.seat(&user, &attributes, width, state).await?;
        let is_heavy = width > 1 || body::is_long(&body) || state.seat.as_ref().is_some_and(Seat::is_crowded);
        if is_heavy {
            begin_heavy(parts, state).await;
        }
        let decision = self.access.decide(&user, &attributes);
        if let Some(record) = &mut state.record {
            record.decided(&decision);
        }
        if !decision.allowed {
            return Err(attributes.forbidden(&user, &decision.reason));
        }
        state.long = attributes.verb == "watch" || connects;
        if connects {
            // What is waited for is the other end's work.
            state.seat = None;
        }
        if let Some(aggregator) = &self.aggregator
            && let Some(handed) = aggregator.answers(parts.uri.path())
        {
            let upgrade = parts.extensions.get::<hyper::upgrade::OnUpgrade>().cloned();
            state.passed = true;
            return Box::pin(aggregator.pass(&handed, &user, parts, body, upgrade)).await;
        }
        let recorded =
            state.record.as_mut().filter(|record| !connects && record.wants_body(&attributes.verb));
        if let Some(record) = recorded {
            let bytes = body::read(body).await?;
            record.request(body::object_of(&parts.headers, &bytes), bytes.len());
            body = body::received(bytes);
        }
        let warnings = state.record.as_ref().map(Record::notes).unwrap_or_default();
        let call =
            Call { user, method: parts.method.clone(), parts, headers: &parts.headers, query, warnings };
        match target {
            Target::Path(path) => self.path(&call, &path).await,
            Target::Resource(wanted) => Ok(self.in_time(&call, &wanted, body, patience).await),
        }
    }

    /// The answer about a resource, a refusal where that took longer than `patience`; with what the caller is warned of.
    async fn in_time(
        self: &Arc<Self>,
        call: &Call<'_>,
        wanted: &ResourcePath,
        body: Received,
        patience: Option<Duration>,
    ) -> Response<Body> {
        let answering = self.resource(call, wanted, body);
        let answered = match patience {
            Some(patience) => {
                let in_time = tokio::time::timeout(patience, answering).await;
                in_time.unwrap_or_else(|_| Err(request_timeout::too_late()))
            }
            None => answering.await,
        };
        let mut response = answered.unwrap_or_else(|status| respond::refused(&status, call.headers));
        respond::warn(&mut response, &call.warnings.all());
        response
    }

    /// Whether the resource that is asked for is there, and the part of it: what may be told apart in counts.
    fn serves(&self, target: &Target) -> bool {
        let Target::Resource(wanted) = target else { return false };
        let catalogue = self.registry.catalogue();
        let found = catalogue.resource(&wanted.group, &wanted.version, &wanted.plural);
        found.is_some_and(|found| {
            wanted.subresource.is_empty() || found.subresource(&wanted.subresource).is_some()
        })
    }

    /// Who asks, and whom they act as; the record of the request begins here.
    async fn identify(
        &self,
        parts: &http::request::Parts,
        attributes: &Attributes,
        state: &mut RequestState,
    ) -> Result<User, Status> {
        let certificate = parts.extensions.get::<CertificateUser>().map(|c| &c.0);
        let known = self
            .access
            .authenticate(&parts.headers, certificate, parts.extensions.get(), parts.uri.path())
            .await;
        let refused = parts.extensions.get::<RefusedCertificate>().is_some();
        let known = known.and_then(|user| match refused && user.name == ANONYMOUS {
            true => Err(Status::unauthorized()),
            false => Ok(user),
        });
        if let Some(audit) = &self.audit {
            state.record = audit.begin(known.as_ref().ok(), attributes, parts);
        }
        let user = match known {
            Ok(user) => user,
            Err(status) => {
                if let Some(record) = state.record.take() {
                    let tried = parts.headers.contains_key(http::header::AUTHORIZATION);
                    record.unknown(if tried { "attempted: bearer" } else { "no credentials provided" }).await;
                }
                return Err(status);
            }
        };
        if let Some(record) = &mut state.record {
            record.received().await;
        }
        let is_other = parts.headers.contains_key("impersonate-user");
        let acting = self.access.impersonate(user, &parts.headers, attributes);
        state.acts_as_nobody = acting.is_err();
        let user = acting?;
        if let Some(record) = state.record.as_mut().filter(|_| is_other) {
            record.acts_as(&user);
        }
        Ok(user)
    }

    /// A seat for the request, where seats are given out.
    async fn seat(
        &self,
        user: &User,
        attributes: &Attributes,
        width: u32,
        state: &mut RequestState,
    ) -> Result<(), Status> {
        let Some(fairness) = &self.fairness else { return Ok(()) };
        let (judged, seat) = fairness.seat(user, attributes, width).await;
        state.judged = Some(judged);
        match seat {
            Ok(seat) => {
                state.seat = Some(seat);
                Ok(())
            }
            Err(TooMany) => {
                let mut status = Status::plain(429, "Too many requests, please try again later.\n");
                let details = Details { retry_after_seconds: 1, ..Details::default() };
                status.details = Some(Box::new(details));
                Err(status)
            }
        }
    }

    /// How many seats a request takes: lists, and watches that begin with one, by how many objects they read.
    fn width(&self, target: &Target, attributes: &Attributes, query: &Query) -> u32 {
        let Target::Resource(wanted) = target else { return 1 };
        let reads = match attributes.verb.as_str() {
            "list" => true,
            "watch" => query.flag("sendInitialEvents"),
            _ => false,
        };
        if !reads || !attributes.name.is_empty() {
            return 1;
        }
        let catalogue = self.registry.catalogue();
        let definition = catalogue.resource(&wanted.group, &wanted.version, &wanted.plural);
        Fairness::width(definition.map_or(0, |definition| self.registry.count(definition)))
    }
}

/// Whoever drives the connection sees that the work is heavy before it begins.
async fn begin_heavy(parts: &http::request::Parts, state: &mut RequestState) {
    if let Some(requests) = parts.extensions.get::<HeavyRequests>() {
        state.heavy = Some(requests.begin());
        tokio::task::yield_now().await;
    }
}
