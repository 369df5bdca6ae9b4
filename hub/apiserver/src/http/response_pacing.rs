//! Large answers, sent so that small ones need not wait for them.
//!
//! In: a body that has an end, the seat of its request and the room that it takes. Out: the same body, which lets other connections go on after
//! each slice, and gives the seat back when it is sent or its reader is too slow to be waited for: without, hundreds of long lists
//! would be encrypted and sent at once however few seats there are. An answer that is not taken within a minute is given up, as
//! kube-apiserver gives a request up: it breaks off.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::answer_body::Body;
use super::heavy_requests::HeavyRequest;
use super::memory_shares::TakenMemory;
use crate::fairness::Seat;

/// What is sent before others have a turn: about a tenth of a millisecond of encryption.
const SLICE: usize = 64 << 10;

/// A slow reader keeps its seat no longer.
const LONGEST: Duration = Duration::from_secs(2);

/// A slow reader is served no longer.
const READER_TIMEOUT: Duration = Duration::from_secs(60);

/// What is held for a reader.
struct Answer {
    body: Body,
    _room: Option<TakenMemory>,
}

struct Paced {
    /// `None` once it is given up.
    answer: Arc<Mutex<Option<Answer>>>,
    size: SizeHint,
    /// Bytes since the last rest.
    since: usize,
    /// Dropped at the end: the seat is free.
    _seat: oneshot::Sender<()>,
    _heavy: Option<HeavyRequest>,
}

/// Paces a body that is longer than a slice, or of unknown length. The seat is free at once where there is nothing to pace.
/// It counts as heavy as long.
pub(super) fn paced(
    body: Body,
    seat: Option<Seat>,
    heavy: Option<HeavyRequest>,
    room: Option<TakenMemory>,
) -> Body {
    let size = http_body::Body::size_hint(&body);
    if size.exact().is_some_and(|size| size <= SLICE as u64) {
        return body;
    }
    let answer = Arc::new(Mutex::new(Some(Answer { body, _room: room })));
    let seat = keep(seat, &answer);
    Paced { answer, size, since: 0, _seat: seat, _heavy: heavy }.boxed_unsync()
}

/// Keeps the seat until the sender is dropped, or for the longest time; and the answer as long as a reader may take.
fn keep(seat: Option<Seat>, answer: &Arc<Mutex<Option<Answer>>>) -> oneshot::Sender<()> {
    let (done, mut is_done) = oneshot::channel();
    let answer = Arc::downgrade(answer);
    tokio::spawn(async move {
        let in_time = tokio::time::timeout(LONGEST, &mut is_done).await.is_ok();
        drop(seat);
        if !in_time
            && tokio::time::timeout(READER_TIMEOUT - LONGEST, is_done).await.is_err()
            && let Some(answer) = answer.upgrade()
        {
            answer.lock().take();
        }
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
        let polled = match self.answer.lock().as_mut() {
            Some(answer) => Pin::new(&mut answer.body).poll_frame(context),
            None => Poll::Ready(None),
        };
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            let sent = frame.data_ref().map_or(0, Bytes::len);
            self.since += sent;
            if let Some(left) = self.size.exact() {
                self.size.set_exact(left.saturating_sub(sent as u64));
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.answer.lock().as_ref().is_some_and(|answer| answer.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.size
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::list_body::pieces;
    use crate::http::respond::full;
    use futures::FutureExt;

    #[tokio::test]
    async fn others_have_a_turn_after_each_slice_and_nothing_is_lost() {
        let parts: Vec<Bytes> = (0..40u8).map(|n| Bytes::from(vec![n; 10_000])).collect();
        let whole = parts.concat();
        let mut body = paced(pieces(parts.into_iter().map(Into::into).collect()), None, None, None);
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
        let body = paced(long(), Some(seat), None, None);
        tokio::time::sleep(LONGEST / 2).await;
        assert!(!is_free());
        drop(body);
        tokio::task::yield_now().await;
        assert!(is_free(), "the body is gone");
        let (seat, is_free) = Seat::watched();
        let _body = paced(long(), Some(seat), None, None);
        tokio::time::sleep(LONGEST * 2).await;
        assert!(is_free(), "nobody reads");
        let (seat, is_free) = Seat::watched();
        let _body = paced(full("short"), Some(seat), None, None);
        assert!(is_free(), "there is nothing to pace");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_nobody_takes_is_given_up_with_all_that_it_holds() {
        let part = Bytes::from(vec![7; 3 * SLICE]);
        let mut body = paced(pieces(vec![part.clone().into(), part.clone().into()]), None, None, None);
        tokio::time::sleep(READER_TIMEOUT / 2).await;
        assert!(body.frame().await.is_some(), "there is time");
        tokio::time::sleep(READER_TIMEOUT).await;
        assert!(part.is_unique(), "nothing of it is held any more");
        while let Some(frame) = body.frame().await {
            assert!(frame.unwrap().data_ref().is_none_or(|data| data.is_empty()), "it breaks off");
        }
    }
}
