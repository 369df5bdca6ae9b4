//! Credit: what the receiver of a class of frames is ready to take. The sender spends from a
//! [`SendCredit`]; the receiver notes what it has dealt with in a [`CreditWindow`] and gives it back in lots, so that
//! credit frames stay rare. A frame may be sent while any credit is left, so that the last one may run into debt: both
//! sides count the debt, and so come to the same number.
//!
//! In: frames sent, received and dealt with, by their bytes. Out: how much may be sent, when to grant more, and whether a peer sent more
//! than it was granted. Pure.

use crate::v1::{Credit, agent_frame};

/// What a report of the agent costs beside one message, where removals, orphans and events are paid for too.
pub fn cost(body: &agent_frame::Body) -> u64 {
    use agent_frame::Body as B;
    let bytes = match body {
        B::WorkStatus(status) => status.manifest_statuses.len(),
        B::ClusterStatus(status) => status.body.len(),
        B::Removed(removed) => removed.object_uids.iter().map(String::len).sum(),
        B::Orphans(orphans) => orphans.keys.iter().map(String::len).sum(),
        B::Event(event) => event.message.len(),
        _ => 0,
    };
    bytes as u64
}

/// The sender's side.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SendCredit {
    messages: i64,
    bytes: i64,
}

/// More than any window; what a peer grants beyond is not counted.
const MOST: i64 = 1 << 60;

fn count(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(MOST).min(MOST)
}

impl SendCredit {
    /// More to spend.
    pub fn add(&mut self, credit: &Credit) {
        self.messages = self.messages.saturating_add(credit.messages.into()).min(MOST);
        self.bytes = self.bytes.saturating_add(count(credit.bytes)).min(MOST);
    }

    /// Bytes that the next frame may carry; zero where nothing may be sent.
    pub fn room(&self) -> u64 {
        if self.messages <= 0 { 0 } else { self.bytes.max(0) as u64 }
    }

    /// One frame of `bytes` was sent.
    pub fn spend(&mut self, bytes: u64) {
        self.messages = self.messages.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(count(bytes)).max(-MOST);
    }
}

/// The receiver's side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreditWindow {
    window: Credit,
    owed: Credit,
    /// What the sender has left, as far as this side knows: never less than what it really has.
    left: SendCredit,
}

/// A sender that sent what it had no credit for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("more was sent than was granted")]
pub struct Overspent;

impl CreditWindow {
    /// A receiver that takes `window` at once.
    pub fn new(window: Credit) -> Self {
        let mut left = SendCredit::default();
        left.add(&window);
        Self { window, owed: Credit::default(), left }
    }

    /// What to grant at the start of a session.
    pub fn window(&self) -> Credit {
        self.window
    }

    /// One frame of `bytes` came.
    ///
    /// # Errors
    /// There was no credit left for it: no message, or a debt of a whole window of bytes. (A sender of an earlier version
    /// forgets its debts, so that a smaller one is no proof.)
    pub fn receive(&mut self, bytes: u64) -> Result<(), Overspent> {
        if self.left.messages <= 0 || self.left.bytes <= -count(self.window.bytes) {
            return Err(Overspent);
        }
        self.left.spend(bytes);
        Ok(())
    }

    /// One frame of `bytes` was dealt with.
    pub fn return_credit(&mut self, bytes: u64) {
        self.owed.messages = self.owed.messages.saturating_add(1);
        self.owed.bytes = self.owed.bytes.saturating_add(bytes);
    }

    /// The grant to send now: half a window or more, so that the sender never has to stop.
    pub fn grant(&mut self) -> Option<Credit> {
        let due = self.owed.messages >= self.window.messages.div_ceil(2).max(1)
            || self.owed.bytes >= self.window.bytes.div_ceil(2).max(1);
        due.then(|| {
            let grant = std::mem::take(&mut self.owed);
            self.left.add(&grant);
            grant
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_never_starves_and_never_exceeds_the_window() {
        for (messages, bytes, size) in [(1, 10, 10), (4, 100, 7), (64, 1 << 20, 65_536), (3, 1000, 1)] {
            let window = Credit { messages, bytes };
            let (mut sender, mut receiver) = (SendCredit::default(), CreditWindow::new(window));
            sender.add(&receiver.window());
            let mut outstanding = 0;
            for _ in 0..1000 {
                let room = sender.room();
                assert!(room > 0, "starved with a window of {window:?}");
                let frame = room.min(size);
                sender.spend(frame);
                receiver.receive(frame).unwrap();
                outstanding += frame;
                assert!(outstanding <= bytes);
                receiver.return_credit(frame);
                if let Some(grant) = receiver.grant() {
                    outstanding -= grant.bytes;
                    sender.add(&grant);
                }
            }
        }
    }

    /// Frames larger than what is left are sent whole, and grants cross frames on the way: nobody who keeps to what he
    /// knows is accused.
    #[test]
    fn who_keeps_to_it_is_never_accused() {
        let window = Credit { messages: 4, bytes: 100 };
        for lag in 0..4_usize {
            let (mut sender, mut receiver) = (SendCredit::default(), CreditWindow::new(window));
            sender.add(&receiver.window());
            let mut on_the_way = std::collections::VecDeque::new();
            for at in 0..2000_u64 {
                if sender.room() > 0 {
                    let bytes = at * 7_919 % 230;
                    sender.spend(bytes);
                    on_the_way.push_back(bytes);
                }
                if on_the_way.len() > lag || sender.room() == 0 {
                    let Some(bytes) = on_the_way.pop_front() else { continue };
                    receiver.receive(bytes).unwrap();
                    receiver.return_credit(bytes);
                    if let Some(grant) = receiver.grant() {
                        sender.add(&grant);
                    }
                }
            }
        }
    }

    #[test]
    fn who_overspends_is_found_out() {
        let window = Credit { messages: 3, bytes: 100 };
        let mut receiver = CreditWindow::new(window);
        for _ in 0..3 {
            receiver.receive(1).unwrap();
        }
        assert_eq!(receiver.receive(0), Err(Overspent), "a message too many");
        let mut receiver = CreditWindow::new(window);
        receiver.receive(150).unwrap();
        receiver.receive(50).unwrap();
        assert_eq!(receiver.receive(1), Err(Overspent), "a window of bytes in debt");
    }

    #[test]
    fn absurd_grants_do_not_overflow() {
        let mut sender = SendCredit::default();
        for _ in 0..3 {
            sender.add(&Credit { messages: u32::MAX, bytes: u64::MAX });
        }
        sender.spend(u64::MAX);
        assert_eq!(sender.room(), 0);
        sender.spend(u64::MAX);
        sender.add(&Credit { messages: 1, bytes: 1 });
        assert_eq!(sender.room(), 0);
    }
}
