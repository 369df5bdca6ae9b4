//! Large answers, sent so that small ones need not wait for them.
//!
//! In: a body that has an end, and the seat of its request. Out: the same body, which lets other connections go on after each
//! slice, and gives the seat back when it is sent or its reader is too slow to be waited for: without, hundreds of long lists
//! would be encrypted and sent at once however few seats there are.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use tokio::sync::oneshot;

use super::heavy::HeavyRequest;
use super::respond::Body;
use crate::fairness::Seat;

/// What is sent before others have a turn: about a tenth of a millisecond of encryption.
const SLICE: usize = 64 << 10;

/// A slow reader keeps its seat no longer.
const LONGEST: Duration = Duration::from_secs(2);

struct Paced {
    inner: Body,
    /// Bytes since the last rest.
    since: usize,
    /// Dropped at the end: the seat is free.
    _seat: Option<oneshot::Sender<()>>,
    _heavy: Option<HeavyRequest>,
}

/// Paces a body that is longer than a slice, or of unknown length. The seat is free at once where there is nothing to pace.
/// It counts as heavy as long.
pub(super) fn paced(body: Body, seat: Option<Seat>, heavy: Option<HeavyRequest>) -> Body {
    if http_body::Body::size_hint(&body).exact().is_some_and(|size| size <= SLICE as u64) {
        return body;
    }
    Paced { inner: body, since: 0, _seat: seat.map(keep), _heavy: heavy }.boxed_unsync()
}

/// Keeps the seat until the sender is dropped, or for the longest time.
fn keep(seat: Seat) -> oneshot::Sender<()> {
    let (done, is_done) = oneshot::channel();
    tokio::spawn(async move {
        let _ = tokio::time::timeout(LONGEST, is_done).await;
        drop(seat);
    });
    done
}

impl http_body::Body for Paced {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.since >= SLICE {
            self.since = 0;
            // Woken at once, but behind all others that are ready.
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let polled = Pin::new(&mut self.inner).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            self.since += frame.data_ref().map_or(0, Bytes::len);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::pieces::pieces;
    use crate::http::respond::full;
    use futures::FutureExt;

    #[tokio::test]
    async fn others_have_a_turn_after_each_slice_and_nothing_is_lost() {
        let parts: Vec<Bytes> = (0..40u8).map(|n| Bytes::from(vec![n; 10_000])).collect();
        let whole = parts.concat();
        let mut body = paced(pieces(parts.into_iter().map(Into::into).collect()), None, None);
        let (mut rests, mut got) = (0, Vec::new());
        loop {
            match body.frame().now_or_never() {
                None => rests += 1,
                Some(Some(frame)) => got.extend_from_slice(frame.unwrap().data_ref().unwrap()),
                Some(None) => break,
            }
        }
        assert_eq!(got, whole);
        // Seven parts make a slice.
        assert_eq!(rests, 40 / 7);
    }

    #[tokio::test(start_paused = true)]
    async fn the_seat_is_kept_while_the_body_is_sent_and_no_longer_than_the_longest_time() {
        let long = || pieces(vec![Bytes::from(vec![0; 3 * SLICE]).into()]);
        let (seat, is_free) = Seat::watched();
        let body = paced(long(), Some(seat), None);
        tokio::time::sleep(LONGEST / 2).await;
        assert!(!is_free());
        drop(body);
        tokio::task::yield_now().await;
        assert!(is_free(), "the body is gone");
        let (seat, is_free) = Seat::watched();
        let _body = paced(long(), Some(seat), None);
        tokio::time::sleep(LONGEST * 2).await;
        assert!(is_free(), "nobody reads");
        let (seat, is_free) = Seat::watched();
        let _body = paced(full("short"), Some(seat), None);
        assert!(is_free(), "there is nothing to pace");
    }
}
