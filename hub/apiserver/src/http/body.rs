//! Reading a request's body: bounded, JSON or YAML, with what is wrong with it said in words.
//!
//! In: a body as it arrives, its media type. Out: its bytes, 3 MiB at most, or the object in it; or a `Status`: 400, 413, 415, 504, or that
//! memory is short. Reading waits for the client, a minute at most.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use karmada_definitions::status::Status;
use karmada_schema::protobuf::{self, ProtobufError};
use serde_json::Value;

use super::memory_shares::{self, TakenMemory};
use super::negotiation::ACCEPTED;
use super::yaml;

/// The largest body that is read: kube-apiserver's limit.
pub const MAX_BODY: usize = 3 << 20;

/// A body that takes longer to arrive is given up, as kube-apiserver gives a request up: who trickles holds no seat for ever.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// What a body may hold beyond its limit, and how long that may take to arrive, for its client still to be told why it is refused.
const LARGEST_OVERRUN: usize = 32 << 20;
const OVERRUN: Duration = Duration::from_secs(2);

/// A request's body: as it comes, or as it was read already.
pub type Received = UnsyncBoxBody<Bytes, String>;

/// A body that was read already.
pub(super) fn received(bytes: Bytes) -> Received {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// Whether reading what it holds and judging it may take a thread for long: it is long, or its length is not told.
pub(super) fn is_long(body: &Received) -> bool {
    !http_body::Body::is_end_stream(body)
        && http_body::Body::size_hint(body).exact().is_none_or(|size| size > memory_shares::FROM as u64)
}

/// A body whose bytes take room while they arrive. A short one whose length is told is not counted.
pub(super) fn counted(inner: Received, taken: TakenMemory) -> Received {
    let size = http_body::Body::size_hint(&inner);
    if size.exact().is_some_and(|size| size <= memory_shares::FROM as u64) {
        return inner;
    }
    Counted { inner, taken }.boxed_unsync()
}

struct Counted {
    inner: Received,
    taken: TakenMemory,
}

impl http_body::Body for Counted {
    type Data = Bytes;
    type Error = String;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, String>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && self.taken.more(frame.data_ref().map_or(0, Bytes::len)).is_err()
        {
            return Poll::Ready(Some(Err(memory_shares::FULL.to_owned())));
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// Reads the whole body, up to [`MAX_BODY`] bytes, within a minute.
///
/// # Errors
/// 413 for a longer one, 504 for one that does not end in time, 400 for one that breaks off.
pub(super) async fn read(body: Received) -> Result<Bytes, Status> {
    let late =
        |_| Status::timeout("request did not complete within requested timeout - the body was not sent");
    tokio::time::timeout(BODY_TIMEOUT, read_all(body)).await.map_err(late)?
}

async fn read_all(mut body: Received) -> Result<Bytes, Status> {
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| match error == memory_shares::FULL {
            true => Status::from(memory_shares::Full),
            false => Status::bad_request(format!("the body broke off: {error}")),
        })?;
        if let Some(data) = frame.data_ref() {
            if all.len() + data.len() > MAX_BODY {
                let _ = tokio::time::timeout(OVERRUN, pass_over(&mut body)).await;
                return Err(Status::too_large(MAX_BODY));
            }
            all.extend_from_slice(data);
        }
    }
    Ok(all.freeze())
}

/// Reads what is left of a body that is too long, within bounds: many clients look for the answer only when they have sent all, and
/// would find a broken connection.
async fn pass_over(body: &mut Received) {
    let mut left = LARGEST_OVERRUN;
    while let Some(Ok(frame)) = body.frame().await {
        left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
        if left == 0 {
            return;
        }
    }
}

/// The media type of the body, without parameters.
pub(super) fn media_type(headers: &HeaderMap) -> &str {
    let text = headers.get(http::header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("");
    text.split(';').next().unwrap_or("").trim()
}

/// Parses an object. JSON and YAML are told apart by the media type; none means JSON, or YAML where it does not begin like JSON.
pub(super) fn parse(media: &str, bytes: &Bytes) -> Result<Value, Status> {
    match media {
        "" | "application/json" => parse_json(bytes),
        "application/yaml" | "application/x-yaml" => yaml::parse(bytes),
        "application/vnd.kubernetes.protobuf" => protobuf::decode(bytes).map_err(|error| match error {
            ProtobufError::Unsupported(_) => Status::unsupported_media_type(ACCEPTED),
            ProtobufError::Malformed(_) | ProtobufError::Unfit(..) => Status::bad_request(error.to_string()),
        }),
        _ => Err(Status::unsupported_media_type(ACCEPTED)),
    }
}

/// Whatever a body holds, patches included, as far as it can be read: for the audit log.
pub(super) fn object_of(headers: &HeaderMap, bytes: &Bytes) -> Option<Value> {
    match media_type(headers) {
        "application/apply-patch+yaml" => yaml::parse(bytes).ok(),
        media if media.ends_with("-patch+json") => serde_json::from_slice(bytes).ok(),
        media => parse(media, bytes).ok(),
    }
}

/// The beginning of a body, for messages: text where it looks like an object, else bytes.
pub(super) fn summary(raw: &[u8]) -> String {
    const SHOWN: usize = 30;
    let short = &raw[..raw.len().min(SHOWN)];
    let more = if raw.len() > SHOWN { " ..." } else { "" };
    match raw.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(short)),
        Some(_) => {
            let hex: String = short.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{hex}{more}")
        }
    }
}

pub(super) fn parse_json(bytes: &Bytes) -> Result<Value, Status> {
    let bad =
        |why: String| Status::bad_request(format!("couldn't get version/kind; json parse error: {why}"));
    if let Some(why) = karmada_schema::json_error::syntax_error(bytes) {
        return Err(bad(why));
    }
    // Go takes what is no UTF-8 for replacement characters.
    let text = String::from_utf8_lossy(bytes);
    let value: Value = serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
    const HEAD: &str = "struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }";
    let what = karmada_schema::go_kind(&value);
    if !value.is_object() && !value.is_null() {
        return Err(bad(format!("json: cannot unmarshal {what} into Go value of type {HEAD}")));
    }
    for field in ["apiVersion", "kind"] {
        if !value[field].is_string() && !value[field].is_null() {
            let what = karmada_schema::go_kind(&value[field]);
            return Err(bad(format!(
                "json: cannot unmarshal {what} into Go struct field .{field} of type string"
            )));
        }
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::StreamExt;
    use http_body_util::StreamBody;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn sent(pieces: impl futures::Stream<Item = &'static [u8]> + Send + 'static) -> Received {
        StreamBody::new(pieces.map(|piece| Ok(Frame::data(Bytes::from_static(piece))))).boxed_unsync()
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_end_is_given_up() {
        let whole = read(sent(futures::stream::iter([&b"{}"[..], b" "]))).await.unwrap();
        assert_eq!(whole, "{} ");
        let trickle = futures::stream::unfold((), |()| async {
            tokio::time::sleep(BODY_TIMEOUT / 10).await;
            Some((&b" "[..], ()))
        });
        assert_eq!(read(sent(trickle)).await.unwrap_err().code, 504);
    }

    /// Two hundred who send all but the end, under one name: what they hold is bounded, and others still get through.
    #[tokio::test]
    async fn bodies_that_nobody_finishes_hold_a_bounded_room() {
        static MEGABYTE: [u8; 1 << 20] = [b' '; 1 << 20];
        let user = |name: &str| karmada_registry::User { name: name.into(), ..Default::default() };
        let room = memory_shares::MemoryShares::default();
        let mut unfinished = Vec::new();
        let mut refused = 0;
        for _ in 0..200 {
            let body = futures::stream::repeat(&MEGABYTE[..]).take(2).chain(futures::stream::pending());
            let mut reading = Box::pin(read(counted(sent(body), room.of(&user("greedy")))));
            match futures::poll!(&mut reading) {
                Poll::Ready(answer) => {
                    assert_eq!(answer.unwrap_err().code, 429);
                    refused += 1;
                }
                Poll::Pending => unfinished.push(reading),
            }
        }
        assert_eq!((unfinished.len(), refused), (32, 168), "64 MiB for one account");
        let whole = sent(futures::stream::iter([&MEGABYTE[..]]));
        assert_eq!(read(counted(whole, room.of(&user("other")))).await.unwrap().len(), 1 << 20);
        drop(unfinished);
        let again = sent(futures::stream::iter([&MEGABYTE[..]]));
        assert!(read(counted(again, room.of(&user("greedy")))).await.is_ok());
    }

    #[tokio::test]
    async fn a_body_that_is_too_long_is_not_read_on() {
        static MEGABYTE: [u8; 1 << 20] = [b' '; 1 << 20];
        let without_end = futures::stream::repeat(&MEGABYTE[..]);
        assert_eq!(read(sent(without_end)).await.unwrap_err().code, 413);
        // Its client hears of it, which reads when it has sent all.
        let sent_whole = Arc::new(AtomicBool::new(false));
        let end = sent_whole.clone();
        let whole = futures::stream::repeat(&MEGABYTE[..]).take(5).chain(futures::stream::once(async move {
            end.store(true, Ordering::Relaxed);
            &b""[..]
        }));
        assert_eq!(read(sent(whole)).await.unwrap_err().code, 413);
        assert!(sent_whole.load(Ordering::Relaxed));
    }
}
