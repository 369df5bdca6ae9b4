//! Making responses: bodies, headers, warnings, compression.
//!
//! In: bytes, a JSON document or a `Status`, and the form that was chosen. Out: a response with its headers. Compressing is done while the
//! body is sent.

use super::answer_body::Body;
use std::io::Write;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use futures::stream::Stream;
use http::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, RETRY_AFTER, VARY, WARNING,
};
use http::{HeaderMap, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use karmada_definitions::status::Status;
use karmada_schema::{protobuf, yaml};
use serde_json::Value;

use super::list_body::{Part, pieces};
use super::memory_shares::{self, FROM, TakenMemory};
use super::negotiation::{AnswerFormat, Encoding};

/// Bodies from this size on are compressed for clients that accept it (kube-apiserver's threshold).
const GZIP_FROM: u64 = 128 << 10;

pub(super) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).boxed_unsync()
}

pub(super) fn streamed(chunks: impl Stream<Item = Bytes> + Send + 'static) -> Body {
    use futures::StreamExt;
    StreamBody::new(chunks.map(|chunk| Ok(Frame::data(chunk)))).boxed_unsync()
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

/// A document that is written for people, whoever asks.
pub(super) fn json_for_people(value: &Value) -> Response<Body> {
    with_type(StatusCode::OK, full(super::indent::text(value.to_string().as_bytes())), "application/json")
}

/// Marks an answer whose bytes are the cache's own: it holds nothing for its reader alone.
#[derive(Clone, Copy)]
pub(super) struct CachedBytes;

/// Takes the memory of an answer that was made for this reader alone out of `room`. Nothing is taken for short ones, which are sent at
/// once, nor for those without a known end, which are made while they are sent.
pub(super) fn housed(
    response: &Response<Body>,
    room: Option<TakenMemory>,
) -> Result<Option<TakenMemory>, memory_shares::Full> {
    let size = http_body::Body::size_hint(response.body()).exact().unwrap_or(0);
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    match room {
        Some(mut room) if size > FROM && response.extensions().get::<CachedBytes>().is_none() => {
            room.more(size)?;
            Ok(Some(room))
        }
        _ => Ok(None),
    }
}

/// One JSON document in the form asked for. JSON ends with a newline, as Go's encoder ends it.
pub(super) fn document(code: StatusCode, bytes: Bytes, format: AnswerFormat) -> Response<Body> {
    let body = match format.encoding {
        Encoding::Json if bytes.ends_with(b"\n") => full(bytes),
        Encoding::Json => pieces(vec![bytes.into(), Part::text("\n")]),
        Encoding::Yaml => full(to_yaml(&bytes)),
        Encoding::Protobuf => match to_protobuf(&bytes) {
            Some(bytes) => full(bytes),
            // An answer of another kind than its resource's that has no such form: JSON, and said to be.
            None => return document(code, bytes, AnswerFormat { encoding: Encoding::Json, ..format }),
        },
    };
    with_type(code, body, format.content_type())
}

fn to_yaml(bytes: &Bytes) -> Bytes {
    let value: Value = serde_json::from_slice(bytes).unwrap_or(Value::Null);
    // A JSON value always has a YAML form; the JSON itself is one.
    yaml::write(&value).map_or_else(|_| bytes.clone(), Bytes::from)
}

fn to_protobuf(bytes: &Bytes) -> Option<Vec<u8>> {
    let value: Value = serde_json::from_slice(bytes).ok()?;
    protobuf::encode(&value).ok()
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
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if status.is_plain() {
        let mut response = with_type(code, full(status.message.clone()), "text/plain; charset=utf-8");
        no_sniffing(&mut response);
        come_back(&mut response, status);
        return response;
    }
    let body = status.body();
    let mut response = match AnswerFormat::choose_whole(headers) {
        Some(format) => document(code, body.into(), format),
        // Who reads no form of it gets what people can read, as from kube-apiserver.
        None => with_type(code, full(super::indent::text(&body)), "application/json"),
    };
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
    let is_gzip = |coding: &str| {
        let mut parts = coding.split(';').map(str::trim);
        // A weight of nothing refuses it (RFC 9110, section 12.5.3).
        let is_refused = |part: &str| part.strip_prefix("q=").is_some_and(|weight| weight.parse() == Ok(0.0));
        parts.next() == Some("gzip") && !parts.any(is_refused)
    };
    let accepted = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(is_gzip)
}

/// Whether a body is worth compressing. Watches have no known size and are not.
pub(super) fn is_large(response: &Response<Body>) -> bool {
    let size = http_body::Body::size_hint(response.body()).exact();
    size.is_some_and(|size| size >= GZIP_FROM) && !response.headers().contains_key(CONTENT_ENCODING)
}

/// Compresses a body as it is sent.
pub(super) fn compress(response: Response<Body>) -> Response<Body> {
    let mut response = response.map(|inner| {
        Gzipped { inner, encoder: Some(GzEncoder::new(Vec::new(), Compression::fast())) }.boxed_unsync()
    });
    response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    // Beside what else it varies with.
    response.headers_mut().append(VARY, HeaderValue::from_static("Accept-Encoding"));
    response
}

struct Gzipped {
    inner: Body,
    /// `None` once the end is sent.
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl Gzipped {
    /// Takes in a frame, or the end. Writing to memory does not fail.
    fn pack(&mut self, frame: Option<Bytes>) -> Bytes {
        const READY: usize = 16 << 10;
        if let (Some(data), Some(encoder)) = (frame, &mut self.encoder) {
            let _ = encoder.write_all(&data);
            let packed = encoder.get_mut();
            return if packed.len() < READY { Bytes::new() } else { std::mem::take(packed).into() };
        }
        self.encoder.take().and_then(|encoder| encoder.finish().ok()).unwrap_or_default().into()
    }
}

impl http_body::Body for Gzipped {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        while self.encoder.is_some() {
            let frame = match std::task::ready!(Pin::new(&mut self.inner).poll_frame(context)) {
                Some(Ok(frame)) => frame.into_data().ok(),
                Some(Err(never)) => match never {},
                None => None,
            };
            let packed = self.pack(frame);
            if !packed.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(packed))));
            }
        }
        Poll::Ready(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[tokio::test]
    async fn a_long_list_is_compressed_as_it_is_sent_and_comes_back_whole() {
        let parts: Vec<Bytes> =
            (0..3000u32).map(|n| Bytes::from(format!("{{\"n\":{n}}},").repeat(20))).collect();
        let whole = parts.concat();
        let parts: Vec<Part> = parts.into_iter().map(Part::Text).collect();
        let plain = Response::new(pieces(parts.clone()));
        assert!(is_large(&plain));
        assert_eq!(plain.into_body().collect().await.unwrap().to_bytes(), whole);
        let packed = compress(Response::new(pieces(parts)));
        assert_eq!(packed.headers()[CONTENT_ENCODING], "gzip");
        let packed = packed.into_body().collect().await.unwrap().to_bytes();
        let mut unpacked = Vec::new();
        flate2::read::GzDecoder::new(&*packed).read_to_end(&mut unpacked).unwrap();
        assert!(packed.len() < whole.len() / 4 && unpacked == whole);
    }

    #[test]
    fn what_is_short_or_has_no_end_is_not_worth_it() {
        for body in [full("short"), streamed(futures::stream::pending())] {
            assert!(!is_large(&Response::new(body)));
        }
    }
}
