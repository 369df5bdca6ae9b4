//! How a live session is reached by others: orders and questions to it, whether what it does still counts, and the news that it was heard.
//!
//! In: orders of whoever has one. Out: the orders, one by one, to the session's stream, which is woken. What waits is bounded: a newer
//! order takes the place of an older one of its sort, and after a close there is none.

use std::collections::VecDeque;
use std::mem::discriminant;
use std::time::Duration;

use futures::task::AtomicWaker;
use karmada_certs::PeerIdentity;
use karmada_proto::v1::{Answer, Ask, answer, ask};
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

use crate::pending_asks::{NotAsked, PendingAsks};
use crate::session::SessionOrder;

/// The handle of one session.
#[derive(Debug)]
pub struct SessionHandle {
    /// The cluster.
    pub cluster: String,
    /// The session's number.
    pub seq: u64,
    /// Whose certificate the stream shows.
    pub peer: PeerIdentity,
    /// Of the agent's process.
    pub boot_id: String,
    /// Wakes the session's stream.
    pub waker: AtomicWaker,
    /// Something was heard, or the session is over.
    pub heard: Notify,
    /// Nothing counts any more that is done in this session's name.
    pub over: CancellationToken,
    asks: Mutex<PendingAsks>,
    orders: Mutex<VecDeque<SessionOrder>>,
    fenced: Mutex<bool>,
}

impl SessionHandle {
    /// The handle of a session about to open.
    pub fn new(cluster: &str, seq: u64, boot_id: &str, peer: &PeerIdentity) -> Self {
        Self {
            cluster: cluster.to_owned(),
            seq,
            peer: peer.clone(),
            boot_id: boot_id.to_owned(),
            waker: AtomicWaker::new(),
            heard: Notify::new(),
            over: CancellationToken::new(),
            asks: Mutex::default(),
            orders: Mutex::default(),
            fenced: Mutex::new(false),
        }
    }

    /// Gives the session an order.
    pub fn order(&self, order: SessionOrder) {
        let mut orders = self.orders.lock();
        let is_closed = orders.iter().any(|waiting| matches!(waiting, SessionOrder::Close(_)));
        if !is_closed {
            orders.retain(|waiting| !replaces(&order, waiting));
            orders.push_back(order);
        }
        drop(orders);
        self.waker.wake();
    }

    /// The next order.
    pub fn take_order(&self) -> Option<SessionOrder> {
        self.orders.lock().pop_front()
    }

    /// Asks the agent something, for an answer within this time.
    pub(crate) fn ask(
        &self,
        question: ask::Question,
        within: Duration,
    ) -> Result<oneshot::Receiver<answer::Result>, NotAsked> {
        let asked = self.asks.lock().ask(question, within);
        self.waker.wake();
        asked
    }

    /// The next question to send.
    pub fn take_ask(&self) -> Option<Ask> {
        self.asks.lock().take()
    }

    /// The agent answered. False where nobody asked that.
    pub fn answered(&self, answer: Answer) -> bool {
        self.asks.lock().answered(answer)
    }

    /// Nothing more is written in this session's name. Returns once nothing is being written.
    pub fn fence(&self) {
        *self.fenced.lock() = true;
        self.asks.lock().end();
        self.over.cancel();
    }

    /// Does `write` unless the session is fenced, which it then is not before `write` is over.
    pub fn unless_fenced<T>(&self, write: impl FnOnce() -> T) -> Option<T> {
        let fenced = self.fenced.lock();
        (!*fenced).then(write)
    }
}

/// Whether an order takes the place of one that waits: both are of one sort, and about one document.
fn replaces(newer: &SessionOrder, waiting: &SessionOrder) -> bool {
    match (newer, waiting) {
        (SessionOrder::Tell(newer), SessionOrder::Tell(waiting)) => newer.table == waiting.table,
        _ => discriminant(newer) == discriminant(waiting),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use karmada_proto::v1::{Close, CloseCode};

    use super::*;

    #[test]
    fn orders_wait_once_each_and_a_close_is_the_last() {
        let peer = crate::testing::peer("m");
        let handle = SessionHandle::new("m", 1, "b", &peer);
        for round in 0..1000_u64 {
            handle.order(SessionOrder::Probe);
            handle.order(SessionOrder::Trust(round));
            handle.order(SessionOrder::CountBy(Bytes::from(round.to_string())));
        }
        let close = |code: CloseCode| SessionOrder::Close(Close { code: code.into(), ..Close::default() });
        for late in [close(CloseCode::Replaced), close(CloseCode::Revoked), SessionOrder::Probe] {
            handle.order(late);
        }
        let waiting: Vec<SessionOrder> = std::iter::from_fn(|| handle.take_order()).collect();
        let last = [
            SessionOrder::Probe,
            SessionOrder::Trust(999),
            SessionOrder::CountBy("999".into()),
            close(CloseCode::Replaced),
        ];
        assert_eq!(waiting, last);
    }
}
