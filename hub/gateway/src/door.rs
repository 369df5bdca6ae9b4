//! How a live session is reached by others: orders to it, whether what it does still counts, and the news that it was heard.
//!
//! In: orders of whoever has one. Out: the orders, one by one, to the session's stream, which is woken. What waits is bounded: a newer
//! order takes the place of an older one of its sort, and after a close there is none.

use std::collections::VecDeque;
use std::mem::discriminant;

use futures::task::AtomicWaker;
use karmada_certs::PeerIdentity;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::session::Control;

/// The door of one session.
#[derive(Debug)]
pub struct Door {
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
    orders: Mutex<VecDeque<Control>>,
    fenced: Mutex<bool>,
}

impl Door {
    /// The door of a session about to open.
    pub fn new(cluster: &str, seq: u64, boot_id: &str, peer: &PeerIdentity) -> Self {
        Self {
            cluster: cluster.to_owned(),
            seq,
            peer: peer.clone(),
            boot_id: boot_id.to_owned(),
            waker: AtomicWaker::new(),
            heard: Notify::new(),
            orders: Mutex::default(),
            fenced: Mutex::new(false),
        }
    }

    /// Gives the session an order.
    pub fn order(&self, control: Control) {
        let mut orders = self.orders.lock();
        let is_closed = orders.iter().any(|waiting| matches!(waiting, Control::Close(_)));
        if !is_closed {
            orders.retain(|waiting| discriminant(waiting) != discriminant(&control));
            orders.push_back(control);
        }
        drop(orders);
        self.waker.wake();
    }

    /// The next order.
    pub fn take_order(&self) -> Option<Control> {
        self.orders.lock().pop_front()
    }

    /// Nothing more is written in this session's name. Returns once nothing is being written.
    pub fn fence(&self) {
        *self.fenced.lock() = true;
    }

    /// Does `write` unless the session is fenced, which it then is not before `write` is over.
    pub fn unless_fenced<T>(&self, write: impl FnOnce() -> T) -> Option<T> {
        let fenced = self.fenced.lock();
        (!*fenced).then(write)
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
        let door = Door::new("m", 1, "b", &peer);
        for round in 0..1000_u64 {
            door.order(Control::Probe);
            door.order(Control::Trust(round));
            door.order(Control::CountBy(Bytes::from(round.to_string())));
        }
        let close = |code: CloseCode| Control::Close(Close { code: code.into(), ..Close::default() });
        for late in [close(CloseCode::Replaced), close(CloseCode::Revoked), Control::Probe] {
            door.order(late);
        }
        let waiting: Vec<Control> = std::iter::from_fn(|| door.take_order()).collect();
        let last =
            [Control::Probe, Control::Trust(999), Control::CountBy("999".into()), close(CloseCode::Replaced)];
        assert_eq!(waiting, last);
    }
}
