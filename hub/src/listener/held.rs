//! An answer's body on its way out: while it is sent, its connection is busy, and it is known since when the peer takes none of it.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::Frame;

use super::Body;
use super::connections::Busy;

/// A body that tells its connection's place how it goes.
pub(super) struct Held {
    body: Body,
    busy: Busy,
    /// Its number on the connection, where it matters whether the peer takes it.
    number: Option<u64>,
}

impl Held {
    /// The peer is waited for from now on, until the body is asked for its first piece.
    pub fn new(body: Body, busy: Busy, number: Option<u64>) -> Held {
        if let Some(number) = number {
            busy.place().waits(number);
        }
        Held { body, busy, number }
    }
}

impl http_body::Body for Held {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    /// Asked for a piece when the one before is taken. A body that has none yet, as a watch, is not waited for by its peer's fault.
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
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.busy.place().took(number);
        }
    }
}
