//! OpenAPI documents, as clients ask for them: by the form that they take, by the hash that they hold.
//!
//! In: a call and the path of a document. Out: the document with an ETag, a redirect where the hash is an old one, or a 404. The first who
//! asks waits while a document is made.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, CACHE_CONTROL, EXPIRES, HeaderValue};
use http::{Response, StatusCode};
use serde_json::Value;

use super::answer_body::Body;
use super::discovery::cached;
use super::{ApiServer, Call, respond};
use crate::aggregation::More;
use crate::openapi::{Document, Form, V2_PROTOBUF};

impl ApiServer {
    /// `/openapi/v2`, with what other servers add to it.
    pub(super) async fn openapi_v2(&self, call: &Call<'_>) -> Response<Body> {
        let more = match &self.aggregator {
            Some(aggregator) => Box::pin(aggregator.more()).await,
            None => Arc::<More>::default(),
        };
        let accept = call.headers.get(ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or("");
        let (form, content_type) = if accept.contains("proto-openapi") {
            (Form::V2Protobuf, V2_PROTOBUF)
        } else {
            (Form::V2Json, "application/json")
        };
        match self.documents.document(form, self.registry.announced(), more).await {
            Some(document) => cached(call, document, content_type),
            None => no_document(),
        }
    }

    /// `/openapi/v3`, or what is at a path below it.
    pub(super) async fn openapi_v3(&self, call: &Call<'_>, path: &str) -> Response<Body> {
        if path.is_empty() {
            return self.openapi_v3_index(call).await;
        }
        let Some(document) = self.v3(Form::V3(path.to_owned())).await else { return no_document() };
        let asked = call.query.get("hash");
        if asked.is_empty() {
            return cached(call, document, "application/json");
        }
        if let Some(place) = self.openapi_v3_address(path).await
            && place.rsplit_once("hash=").is_some_and(|(_, current)| current != asked)
        {
            return moved(&place);
        }
        let mut response = cached(call, document, "application/json");
        keep(&mut response, self.registry.now());
        response
    }

    async fn openapi_v3_index(&self, call: &Call<'_>) -> Response<Body> {
        let Some(mut index) = self.v3(Form::V3Index).await else { return no_document() };
        let handed = self.aggregator.as_ref().and_then(|aggregator| aggregator.groups());
        if let Some(handed) = handed
            && let Ok(mut paths) = serde_json::from_slice(&index.bytes)
        {
            handed.add_to_openapi(&mut paths);
            index = Document::of(paths.to_string().into());
        }
        cached(call, index, "application/json")
    }

    async fn v3(&self, form: Form) -> Option<Document> {
        self.documents.document(form, self.registry.announced(), Arc::default()).await
    }

    /// Where the index has such a document now, with the hash of its content.
    async fn openapi_v3_address(&self, path: &str) -> Option<String> {
        let index = self.v3(Form::V3Index).await?;
        let index: Value = serde_json::from_slice(&index.bytes).ok()?;
        index["paths"][path]["serverRelativeURL"].as_str().map(str::to_owned)
    }
}

/// The 404 of a document that there is not: it has no body.
pub(super) fn no_document() -> Response<Body> {
    let mut response = respond::text("");
    *response.status_mut() = StatusCode::NOT_FOUND;
    response.headers_mut().remove(http::header::CONTENT_TYPE);
    response.headers_mut().remove("x-content-type-options");
    response
}

/// The redirect to where a document is now.
fn moved(place: &str) -> Response<Body> {
    let mut response = respond::with_type(
        StatusCode::MOVED_PERMANENTLY,
        respond::full(Bytes::from(format!("<a href=\"{place}\">Moved Permanently</a>.\n\n"))),
        "text/html; charset=utf-8",
    );
    if let Ok(value) = HeaderValue::from_str(place) {
        response.headers_mut().insert(http::header::LOCATION, value);
    }
    response
}

/// A document asked for by its hash never changes: clients may keep it for a year, and kubectl then asks no more.
fn keep(response: &mut Response<Body>, now: jiff::Timestamp) {
    let later = now.checked_add(jiff::Span::new().hours(365 * 24)).unwrap_or(now);
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
    if let Ok(value) = HeaderValue::from_str(&later.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()) {
        headers.insert(EXPIRES, value);
    }
}
