//! The record of one request, from its head to the end of its answer.
//!
//! In: what becomes known of the request, stage by stage. Out: a line for each stage that the policy wants. A watch's last line
//! is written when its body ends or is dropped.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::StreamExt;
use http::{HeaderValue, Response};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::{BodyExt, BodyStream, StreamBody};
use karmada_registry::{Decision, User, Warnings};
use serde_json::Value;

use super::event::drop_managed_fields;
use super::{AUDIT_ID, Audit, Event, Level, Ruling, Stage};
use crate::http::Body;

/// The largest object in an event; larger ones are left out, and the event says so.
const LARGEST: usize = 1 << 20;

/// One request's record.
pub struct Record {
    audit: Arc<Audit>,
    event: Event,
    ruling: Ruling,
    said: Warnings,
    oversized: bool,
    /// Whether its last line is written, or goes with the answer's body.
    ended: bool,
}

/// What nginx calls the answer to a client that went away before it was made; HTTP has no code for that.
const WENT_AWAY: u16 = 499;

impl Record {
    pub(super) fn new(audit: Arc<Audit>, event: Event, ruling: Ruling) -> Record {
        Record { audit, event, ruling, said: Warnings::noting(), oversized: false, ended: false }
    }

    /// Where admission notes what the log should know.
    pub fn notes(&self) -> Warnings {
        self.said.clone()
    }

    /// The request came.
    pub async fn received(&mut self) {
        self.write(Stage::RequestReceived).await;
    }

    /// Whom it acts as.
    pub fn acts_as(&mut self, user: &User) {
        self.event.acts_as(user);
    }

    /// Whether it was allowed, and by what.
    pub fn decided(&mut self, decision: &Decision) {
        let word = if decision.allowed { "allow" } else { "forbid" };
        self.event.note("authorization.k8s.io/decision", word.to_owned());
        self.event.note("authorization.k8s.io/reason", decision.reason.clone());
    }

    /// Whether the request's body is to be told: where it is logged, and where it names what is made.
    pub fn wants_body(&self, verb: &str) -> bool {
        self.ruling.level >= Level::Request || verb == "create"
    }

    /// The request's body, as far as it could be read.
    pub fn request(&mut self, object: Option<Value>, size: usize) {
        let Some(mut object) = object else { return };
        let whole = self.ruling.level >= Level::Request;
        self.oversized |= whole && size > LARGEST;
        if self.ruling.omit_managed_fields {
            drop_managed_fields(&mut object);
        }
        self.event.request(object, whole);
    }

    /// The answer: what is left of the stages is written now, or when its body ends.
    pub async fn answered(mut self, mut response: Response<Body>, long: bool) -> Response<Body> {
        if let Ok(id) = HeaderValue::from_str(self.event.id()) {
            response.headers_mut().insert(AUDIT_ID, id);
        }
        let code = response.status().as_u16();
        self.event.status(code, None);
        if long && response.body().size_hint().exact().is_none() {
            self.write(Stage::ResponseStarted).await;
            return response.map(|body| Watched { body, record: Some(self) }.boxed_unsync());
        }
        let wanted = self.ruling.level >= Level::RequestResponse || code >= 400;
        let response = if wanted { self.look(response).await } else { response };
        self.write(Stage::ResponseComplete).await;
        response
    }

    /// The credential was nobody's: kube-apiserver writes one line of that.
    pub async fn unknown(mut self, attempted: &str) {
        let message = format!("Authentication failed, {attempted}");
        self.event.status(401, Some(&serde_json::json!({"message": message})));
        self.write(Stage::ResponseStarted).await;
        self.ended = true;
    }

    /// Answering broke down.
    pub async fn panicked(mut self) {
        let told = serde_json::json!({"status": "Failure", "reason": "InternalError", "message": "the server panicked"});
        self.event.status(500, Some(&told));
        self.write(Stage::Panic).await;
    }

    /// Reads the answer's body, within bounds.
    async fn look(&mut self, response: Response<Body>) -> Response<Body> {
        let code = response.status().as_u16();
        let (parts, body) = response.into_parts();
        let (read, body) = peek(body, LARGEST).await;
        match read.map(|bytes| serde_json::from_slice::<Value>(&bytes)) {
            None => self.oversized |= self.ruling.level >= Level::RequestResponse,
            Some(Err(_)) => {}
            Some(Ok(mut object)) => {
                if object["kind"] == "Status" {
                    self.event.status(code, Some(&object));
                }
                if self.ruling.level >= Level::RequestResponse {
                    if self.ruling.omit_managed_fields {
                        drop_managed_fields(&mut object);
                    }
                    self.event.response(object);
                }
            }
        }
        Response::from_parts(parts, body)
    }

    fn line(&mut self, stage: Stage) -> Option<Vec<u8>> {
        if !self.ruling.wants(stage) {
            return None;
        }
        for (key, value) in self.said.notes() {
            self.event.note(&key, value);
        }
        if self.oversized {
            self.event.truncate();
        }
        Some(self.event.line(stage, (self.audit.clock)()))
    }

    /// Writes the last line from where nothing can be waited for.
    fn end(&mut self) {
        self.ended = true;
        if let Some(line) = self.line(Stage::ResponseComplete) {
            self.audit.log.offer(line);
        }
    }

    async fn write(&mut self, stage: Stage) {
        self.ended |= matches!(stage, Stage::ResponseComplete | Stage::Panic);
        if let Some(line) = self.line(stage) {
            self.audit.log.write(line).await;
        }
    }
}

/// Reads a body up to `most` bytes; the body that comes back is the whole one again.
async fn peek(mut body: Body, most: usize) -> (Option<Bytes>, Body) {
    let (mut held, mut size): (Vec<Bytes>, usize) = (Vec::new(), 0);
    while size <= most {
        match body.frame().await {
            Some(Ok(frame)) => {
                let data = frame.into_data().unwrap_or_default();
                size += data.len();
                held.push(data);
            }
            Some(Err(never)) => match never {},
            None => {
                let whole = Bytes::from(held.concat());
                return (Some(whole.clone()), http_body_util::Full::new(whole).boxed_unsync());
            }
        }
    }
    let first = futures::stream::iter(held.into_iter().map(|data| Ok(Frame::data(data))));
    (None, StreamBody::new(first.chain(BodyStream::new(body))).boxed_unsync())
}

/// A body whose end is told.
struct Watched {
    body: Body,
    record: Option<Record>,
}

impl http_body::Body for Watched {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let Some(mut record) = self.record.take() else { return };
        record.end();
    }
}

/// A read is dropped with its caller, wherever it was. That it was asked for is written down.
impl Drop for Record {
    fn drop(&mut self) {
        if !self.ended {
            let told = serde_json::json!({"status": "Failure", "message": "the client went away before it was answered"});
            self.event.status(WENT_AWAY, Some(&told));
            self.end();
        }
    }
}
