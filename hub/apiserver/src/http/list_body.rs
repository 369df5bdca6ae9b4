//! The body of a list: texts and objects one after the other, put together as they are sent.
//!
//! In: parts in order. Out: a body of known length, in chunks. Objects stay in the cache until their turn comes: however long a
//! list is and however slow its reader, it holds one chunk.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use karmada_schema::object::Stored;

use super::answer_body::Body;

/// About what is sent at once.
const CHUNK: usize = 64 << 10;

/// One part of a body.
#[derive(Clone)]
pub(super) enum Part {
    /// Bytes that were made for this body.
    Text(Bytes),
    /// An object's JSON from a place on.
    Object(Arc<Stored>, usize),
}

impl Part {
    /// Bytes that need not be made.
    pub(super) const fn text(text: &'static str) -> Part {
        Part::Text(Bytes::from_static(text.as_bytes()))
    }

    fn all(&self) -> [&[u8]; 3] {
        match self {
            Part::Text(bytes) => [bytes, &[], &[]],
            Part::Object(object, from) => object.json_from(*from),
        }
    }

    fn len(&self) -> usize {
        self.all().iter().map(|piece| piece.len()).sum()
    }

    fn whole(&self) -> Bytes {
        match self {
            Part::Text(bytes) => bytes.clone(),
            Part::Object(object, from) => object.json().slice(*from..),
        }
    }
}

impl From<Bytes> for Part {
    fn from(bytes: Bytes) -> Part {
        Part::Text(bytes)
    }
}

/// A body of all parts in order.
pub(super) fn pieces(parts: Vec<Part>) -> Body {
    let left = parts.iter().map(|part| part.len() as u64).sum();
    Pieces { parts: parts.into_iter(), left }.boxed_unsync()
}

/// All parts in one piece, for what can only be made of the whole.
pub(super) fn concat(parts: &[Part]) -> Bytes {
    let mut out = Vec::with_capacity(parts.iter().map(Part::len).sum());
    parts.iter().flat_map(Part::all).for_each(|piece| out.extend_from_slice(piece));
    out.into()
}

struct Pieces {
    parts: std::vec::IntoIter<Part>,
    left: u64,
}

impl Pieces {
    fn chunk(&mut self) -> Option<Bytes> {
        let first = self.parts.next()?;
        if first.len() >= CHUNK {
            return Some(first.whole());
        }
        let left = usize::try_from(self.left).unwrap_or(CHUNK);
        let mut chunk = Vec::with_capacity(CHUNK.min(left));
        let mut part = Some(first);
        while let Some(now) = part {
            now.all().into_iter().for_each(|piece| chunk.extend_from_slice(piece));
            part = if chunk.len() < CHUNK { self.parts.next() } else { None };
        }
        Some(Bytes::from(chunk))
    }
}

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let chunk = self.chunk();
        self.left -= chunk.as_ref().map_or(0, |chunk| chunk.len() as u64);
        Poll::Ready(chunk.map(|chunk| Ok(Frame::data(chunk))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use karmada_schema::object::encode;

    fn object(padding: usize) -> Arc<Stored> {
        let object = json!({"metadata": {"name": "a", "uid": "u"}, "data": {"long": "x".repeat(padding)}});
        Arc::new(Stored::read(&encode(&object, "ConfigMap", "v1"), 7).unwrap())
    }

    #[tokio::test]
    async fn texts_and_objects_come_in_order_whatever_their_length() {
        let mut parts = vec![Part::text("[")];
        let mut expected = b"[".to_vec();
        for padding in [0, 10, 1_700, 20_000, 70_000, 200, 66_000, 3] {
            let object = object(padding);
            let from = object.metadata_from().unwrap();
            expected.extend_from_slice(&object.json()[from..]);
            parts.push(Part::Object(object, from));
            expected.push(b',');
            parts.push(Part::text(","));
        }
        assert_eq!(concat(&parts), expected);
        let body = pieces(parts);
        assert_eq!(http_body::Body::size_hint(&body).exact(), Some(expected.len() as u64));
        assert_eq!(body.collect().await.unwrap().to_bytes(), expected);
    }

    /// What waits for a slow reader is a place in the cache, not a copy.
    #[tokio::test]
    async fn a_long_list_holds_one_chunk() {
        let object = object(10_000);
        let mut body = pieces((0..100).map(|_| Part::Object(object.clone(), 0)).collect());
        assert_eq!(Arc::strong_count(&object), 101);
        let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(first.len() >= CHUNK && first.len() < CHUNK + 11_000, "{}", first.len());
        assert_eq!(Arc::strong_count(&object), 101 - first.len().div_ceil(object.json_len()));
    }
}
