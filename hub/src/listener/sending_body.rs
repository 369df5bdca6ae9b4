//! An answer's body on its way out: while it is sent, its connection is busy, and it is known since when the peer takes none of it. One
//! that broke off does not end as one that is whole: its connection is cut, or its stream reset.
//!
//! In: an answer, and its connection's place. Out: the same answer; its place is told when the peer is waited for, and when not.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Response;
use http_body::Frame;

use super::Body;
use super::connections::Busy;

/// Goes with an answer whose body comes from elsewhere and can only end: whether it ended as it should.
#[derive(Clone, Debug, Default)]
pub struct BrokenOff(Arc<AtomicBool>);

impl BrokenOff {
    /// The body ends next, and that is not the end that it should have.
    pub fn breaks_off(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether it did.
    pub fn is_broken(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// A body that tells its connection's place how it goes.
pub(super) struct Retained {
    body: Body,
    busy: Busy,
    broken: Option<BrokenOff>,
    /// Its number on the connection, where it matters whether the peer takes it.
    number: Option<u64>,
}

impl Retained {
    /// The peer is waited for from now on, until the body is asked for its first piece.
    pub fn of(answer: Response<Body>, busy: Busy, number: Option<u64>) -> Response<Retained> {
        if let Some(number) = number {
            busy.place().waits(number);
        }
        let broken = answer.extensions().get::<BrokenOff>().cloned();
        answer.map(|body| Retained { body, busy, broken, number })
    }
}

impl http_body::Body for Retained {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    /// Asked for a piece when the one before is taken. Where a body has none yet, as that of a quiet watch, it is not the peer that is
    /// waited for.
    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let Some(number) = self.number {
            match &polled {
                Poll::Ready(Some(_)) => self.busy.place().waits(number),
                Poll::Ready(None) | Poll::Pending => self.busy.place().took(number),
            }
        }
        match polled {
            Poll::Ready(None) if self.broken.as_ref().is_some_and(BrokenOff::is_broken) => {
                Poll::Ready(Some(Err("the answer broke off".into())))
            }
            polled => polled,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Retained {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.busy.place().took(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::super::connections::Connections;
    use super::*;
    use crate::settings::PortPatience;

    #[tokio::test]
    async fn what_broke_off_does_not_end_as_what_is_whole() {
        let place = Connections::new(0, PortPatience::default()).enter([127, 0, 0, 1].into()).unwrap();
        for breaks in [false, true] {
            let broken = BrokenOff::default();
            let body = http_body_util::Full::new(Bytes::from_static(b"half")).map_err(|never| match never {});
            let mut answer = Response::new(body.boxed_unsync());
            answer.extensions_mut().insert(broken.clone());
            let mut body = Retained::of(answer, place.begin(), Some(1)).into_body();
            assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "half");
            if breaks {
                broken.breaks_off();
            }
            let end = body.frame().await;
            assert_eq!(end.is_some_and(|end| end.is_err()), breaks);
        }
    }
}
