//! Making responses: bodies, headers, warnings, compression.

use std::io::Write;

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use futures::stream::{self, Stream};
use http::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, RETRY_AFTER, VARY, WARNING,
};
use http::{HeaderMap, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use serde_json::Value;

use super::form::{Encoding, Form};
use crate::status::Status;

/// A response body: whole, or a stream that may not end.
pub type Body = UnsyncBoxBody<Bytes, std::convert::Infallible>;

/// Bodies from this size on are compressed for clients that accept it (kube-apiserver's threshold).
const GZIP_FROM: u64 = 128 << 10;

pub(super) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).boxed_unsync()
}

pub(super) fn streamed(chunks: impl Stream<Item = Bytes> + Send + 'static) -> Body {
    use futures::StreamExt;
    StreamBody::new(chunks.map(|chunk| Ok(Frame::data(chunk)))).boxed_unsync()
}

/// A list body: many shared pieces, sent in larger chunks and never held whole.
pub(super) fn pieces(parts: Vec<Bytes>) -> Body {
    const CHUNK: usize = 64 << 10;
    let chunks = stream::unfold(parts.into_iter(), |mut parts| async move {
        let first = parts.next()?;
        if first.len() >= CHUNK {
            return Some((first, parts));
        }
        let mut chunk = Vec::with_capacity(CHUNK);
        chunk.extend_from_slice(&first);
        while chunk.len() < CHUNK {
            match parts.next() {
                Some(part) => chunk.extend_from_slice(&part),
                None => break,
            }
        }
        Some((Bytes::from(chunk), parts))
    });
    streamed(chunks)
}

pub(super) fn with_type(code: StatusCode, body: Body, content_type: &'static str) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert("cache-control", HeaderValue::from_static("no-cache, private"));
    response
}

pub(super) fn text(words: &'static str) -> Response<Body> {
    let mut response = with_type(StatusCode::OK, full(words), "text/plain; charset=utf-8");
    response.headers_mut().insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    response
}

pub(super) fn text_as(words: String, content_type: &'static str) -> Response<Body> {
    with_type(StatusCode::OK, full(words), content_type)
}

/// A document that anybody may keep for an hour.
pub(super) fn public(value: &Value, content_type: &'static str) -> Response<Body> {
    let mut response = with_type(StatusCode::OK, full(value.to_string()), content_type);
    response.headers_mut().insert("cache-control", HeaderValue::from_static("public, max-age=3600"));
    response
}

pub(super) fn json(value: &Value) -> Response<Body> {
    with_type(StatusCode::OK, full(value.to_string()), "application/json")
}

/// One JSON document in the form asked for.
pub(super) fn document(code: StatusCode, bytes: Bytes, form: Form) -> Response<Body> {
    let body = match form.encoding {
        Encoding::Json => bytes,
        Encoding::Yaml => to_yaml(&bytes),
    };
    with_type(code, full(body), form.content_type())
}

fn to_yaml(bytes: &Bytes) -> Bytes {
    let value: Value = serde_json::from_slice(bytes).unwrap_or(Value::Null);
    // A JSON value always has a YAML form; the JSON itself is one.
    serde_saphyr::to_string(&value).map_or_else(|_| bytes.clone(), Bytes::from)
}

pub(super) fn warn(response: &mut Response<Body>, warnings: &[String]) {
    for warning in warnings {
        let clean: String = warning.chars().filter(|c| !c.is_control()).collect();
        let escaped = clean.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{escaped}\"")) {
            response.headers_mut().append(WARNING, value);
        }
    }
}

/// Tells browsers to take the content type at its word.
pub(super) fn no_sniffing(response: &mut Response<Body>) {
    response.headers_mut().insert("x-content-type-options", HeaderValue::from_static("nosniff"));
}

/// The response for a refusal, in YAML where only that is accepted.
pub(super) fn refused(status: &Status, headers: &HeaderMap) -> Response<Body> {
    let form = Form::choose(headers).unwrap_or(Form::JSON);
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if status.is_plain() {
        let mut response = with_type(code, full(status.message.clone()), "text/plain; charset=utf-8");
        no_sniffing(&mut response);
        come_back(&mut response, status);
        return response;
    }
    let mut response =
        document(code, status.body().into(), Form { shape: super::form::Shape::Whole, ..form });
    come_back(&mut response, status);
    response
}

/// Says when to try again, where the status does.
fn come_back(response: &mut Response<Body>, status: &Status) {
    let after = status.details.as_ref().map_or(0, |d| d.retry_after_seconds);
    if after > 0 {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(after));
    }
}

pub(super) fn accepts_gzip(headers: &HeaderMap) -> bool {
    headers
        .get_all(ACCEPT_ENCODING)
        .iter()
        .filter_map(|v| v.to_str().ok())
        .any(|v| v.split(',').any(|e| e.trim().split(';').next() == Some("gzip")))
}

/// Compresses a large, finished body. Streams (watches) have no known size and pass through.
pub(super) async fn compress(response: Response<Body>, accepted: bool) -> Response<Body> {
    let size = http_body::Body::size_hint(response.body()).exact();
    if !accepted
        || size.is_none_or(|size| size < GZIP_FROM)
        || response.headers().contains_key(CONTENT_ENCODING)
    {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let bytes = match body.collect().await {
        Ok(collected) => collected.to_bytes(),
        Err(never) => match never {},
    };
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
    // Writing to memory does not fail; if it did, the plain bytes are as good.
    let packed = encoder.write_all(&bytes).and_then(|()| encoder.finish());
    match packed {
        Ok(packed) => {
            parts.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            parts.headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
            Response::from_parts(parts, full(packed))
        }
        Err(_) => Response::from_parts(parts, full(bytes)),
    }
}
