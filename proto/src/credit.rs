//! Credit: what the receiver of a class of frames is ready to take (rule R19). The sender spends from a
//! [`Purse`]; the receiver notes what it has dealt with in a [`Ledger`] and gives it back in lots, so that
//! credit frames stay rare.

use crate::v1::Credit;

/// The sender's side.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Purse {
    messages: u64,
    bytes: u64,
}

impl Purse {
    /// More to spend.
    pub fn add(&mut self, credit: &Credit) {
        self.messages = self.messages.saturating_add(credit.messages.into());
        self.bytes = self.bytes.saturating_add(credit.bytes);
    }

    /// Bytes that the next frame may carry; zero where nothing may be sent.
    pub fn room(&self) -> u64 {
        if self.messages == 0 { 0 } else { self.bytes }
    }

    /// One frame of `bytes` was sent.
    pub fn spend(&mut self, bytes: u64) {
        self.messages = self.messages.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

/// The receiver's side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ledger {
    window: Credit,
    owed: Credit,
}

impl Ledger {
    /// A receiver that takes `window` at once.
    pub fn new(window: Credit) -> Self {
        Self { window, owed: Credit::default() }
    }

    /// What to grant at the start of a session.
    pub fn window(&self) -> Credit {
        self.window
    }

    /// One frame of `bytes` was dealt with.
    pub fn settle(&mut self, bytes: u64) {
        self.owed.messages = self.owed.messages.saturating_add(1);
        self.owed.bytes = self.owed.bytes.saturating_add(bytes);
    }

    /// The grant to send now: half a window or more, so that a sender never runs dry while we sit on it.
    pub fn grant(&mut self) -> Option<Credit> {
        let due = self.owed.messages >= self.window.messages.div_ceil(2).max(1)
            || self.owed.bytes >= self.window.bytes.div_ceil(2).max(1);
        due.then(|| std::mem::take(&mut self.owed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_never_starves_and_never_exceeds_the_window() {
        for (messages, bytes, size) in [(1, 10, 10), (4, 100, 7), (64, 1 << 20, 65_536), (3, 1000, 1)] {
            let window = Credit { messages, bytes };
            let (mut purse, mut ledger) = (Purse::default(), Ledger::new(window));
            purse.add(&ledger.window());
            let mut outstanding = 0;
            for _ in 0..1000 {
                let room = purse.room();
                assert!(room > 0, "starved with a window of {window:?}");
                let frame = room.min(size);
                purse.spend(frame);
                outstanding += frame;
                assert!(outstanding <= bytes);
                ledger.settle(frame);
                if let Some(grant) = ledger.grant() {
                    outstanding -= grant.bytes;
                    purse.add(&grant);
                }
            }
        }
    }
}
