//! How many bytes may be under way. Pure.
//!
//! In: what is sent, what came, what was taken. Out: how much may be sent, what the other end is to be allowed, and the fault of an end that
//! does not keep to it.

/// What the other end did that it may not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Bytes were left out, or came again.
    Gap,
    /// More than was allowed.
    Overspent,
    /// More after the end.
    AfterEnd,
    /// Less is allowed than was allowed before.
    Narrowed,
}

impl Fault {
    /// In plain words.
    pub fn message(self) -> &'static str {
        match self {
            Self::Gap => "the other end of the tunnel left bytes out, or sent them again",
            Self::Overspent => "the other end of the tunnel sent more than it was allowed",
            Self::AfterEnd => "the other end of the tunnel sent more after its end",
            Self::Narrowed => "the other end of the tunnel took back what it had allowed",
        }
    }
}

/// Both directions of a tunnel, as one end counts them.
#[derive(Debug, Clone)]
pub struct Flow {
    sent: u64,
    /// Where the other end stops to take.
    until: u64,
    received: u64,
    taken: u64,
    /// Up to where the other end was allowed to send.
    allowed: u64,
    window: u64,
    ended: bool,
}

impl Flow {
    /// Of an end that takes `window` bytes ahead of what is taken from it, where the other end takes `theirs`.
    pub fn new(window: u64, theirs: u64) -> Self {
        Self { sent: 0, until: theirs, received: 0, taken: 0, allowed: window, window, ended: false }
    }

    /// Bytes that may be sent now.
    pub fn room(&self) -> u64 {
        self.until - self.sent
    }

    /// So many bytes are sent; their offset. No more than there is room for.
    pub fn sends(&mut self, bytes: usize) -> u64 {
        let offset = self.sent;
        self.sent += (bytes as u64).min(self.room());
        offset
    }

    /// How much was sent.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// The other end takes everything before `until`.
    ///
    /// # Errors
    /// Where it had allowed more already.
    pub fn widened(&mut self, until: u64) -> Result<(), Fault> {
        if until < self.until {
            return Err(Fault::Narrowed);
        }
        self.until = until;
        Ok(())
    }

    /// Bytes came.
    ///
    /// # Errors
    /// Not those that were to come, or more than were allowed.
    pub fn receives(&mut self, offset: u64, bytes: usize) -> Result<(), Fault> {
        if self.ended {
            return Err(Fault::AfterEnd);
        }
        if offset != self.received {
            return Err(Fault::Gap);
        }
        if bytes as u64 > self.allowed - self.received {
            return Err(Fault::Overspent);
        }
        self.received += bytes as u64;
        Ok(())
    }

    /// Nothing more comes, after so many bytes.
    ///
    /// # Errors
    /// Where others came, or where it had ended.
    pub fn ends(&mut self, offset: u64) -> Result<(), Fault> {
        if self.ended {
            return Err(Fault::AfterEnd);
        }
        if offset != self.received {
            return Err(Fault::Gap);
        }
        self.ended = true;
        Ok(())
    }

    /// So many of the bytes that came were taken. Up to where more may come, where the other end is to be told: once for each half of the
    /// window.
    pub fn takes(&mut self, bytes: usize) -> Option<u64> {
        self.taken = (self.taken + bytes as u64).min(self.received);
        let until = self.taken + self.window;
        if self.ended || until - self.allowed < self.window.div_ceil(2) {
            return None;
        }
        self.allowed = until;
        Some(until)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn who_does_not_keep_to_it_is_found() {
        let mut flow = Flow::new(10, 5);
        assert_eq!(flow.receives(1, 1), Err(Fault::Gap));
        assert_eq!(flow.receives(0, 11), Err(Fault::Overspent));
        assert_eq!(flow.receives(0, 10), Ok(()));
        assert_eq!(flow.receives(10, 1), Err(Fault::Overspent));
        assert_eq!(flow.receives(9, 0), Err(Fault::Gap));
        assert_eq!(flow.widened(4), Err(Fault::Narrowed));
        assert_eq!(flow.ends(9), Err(Fault::Gap));
        assert_eq!(flow.ends(10), Ok(()));
        assert_eq!(flow.ends(10), Err(Fault::AfterEnd));
        assert_eq!(flow.receives(10, 0), Err(Fault::AfterEnd));
    }

    #[test]
    fn no_number_overflows() {
        let mut flow = Flow::new(u64::MAX, u64::MAX);
        assert_eq!(flow.room(), u64::MAX);
        assert_eq!(flow.widened(u64::MAX), Ok(()));
        assert_eq!(flow.receives(u64::MAX, 1), Err(Fault::Gap));
        assert_eq!(flow.receives(0, usize::MAX), Ok(()));
    }

    proptest! {
        /// Whatever is taken when: everything arrives, and what is not taken never exceeds the window.
        #[test]
        fn everything_arrives_within_the_window(
            window in 1_u64..100,
            sizes in prop::collection::vec(1_usize..60, 1..80),
            takes in prop::collection::vec(1_usize..60, 1..80),
        ) {
            let (mut near, mut far) = (Flow::new(7, window), Flow::new(window, 7));
            let total: usize = sizes.iter().sum();
            let (mut left, mut held, mut taken) = (total, 0_usize, 0_usize);
            let (mut sizes, mut takes) = (sizes.iter().cycle(), takes.iter().cycle());
            while taken < total {
                let size = (*sizes.next().unwrap()).min(left).min(near.room() as usize);
                if size > 0 {
                    let offset = near.sends(size);
                    far.receives(offset, size).unwrap();
                    (left, held) = (left - size, held + size);
                }
                prop_assert!(held as u64 <= window);
                let take = (*takes.next().unwrap()).min(held);
                (held, taken) = (held - take, taken + take);
                if let Some(until) = far.takes(take) {
                    near.widened(until).unwrap();
                }
                prop_assert!(size > 0 || take > 0, "it stands still");
            }
            prop_assert_eq!(near.sent(), total as u64);
            far.ends(near.sent()).unwrap();
        }
    }
}
