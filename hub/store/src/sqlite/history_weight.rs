//! What the kept events weigh. Pure.
//!
//! In: the weight of each event as it comes. Out: up to which revision events are to be forgotten, where all that are kept weigh more
//! than they may. A bound in number alone is none where objects of a megabyte are changed again and again.

use std::collections::VecDeque;

use crate::Revision;

/// The events that came since the file was opened, in stretches: what is forgotten is forgotten by stretches.
#[derive(Debug)]
pub(super) struct HistoryWeight {
    most: u64,
    stretches: VecDeque<(Revision, u64)>,
    /// Bytes since the last stretch.
    since: u64,
    all: u64,
}

impl HistoryWeight {
    /// Stretches that a full history has.
    const STRETCHES: u64 = 32;

    /// Nothing yet; events may weigh `most` bytes together.
    pub(super) fn new(most: u64) -> HistoryWeight {
        HistoryWeight { most, stretches: VecDeque::new(), since: 0, all: 0 }
    }

    /// An event came.
    pub(super) fn add(&mut self, revision: Revision, bytes: u64) {
        self.since += bytes;
        self.all += bytes;
        if self.since >= self.most / Self::STRETCHES {
            self.stretches.push_back((revision, std::mem::take(&mut self.since)));
        }
    }

    /// The newest revision to be forgotten, so that half of what may be kept is left; `None` while all of it may be.
    pub(super) fn surplus(&mut self) -> Option<Revision> {
        if self.all <= self.most {
            return None;
        }
        let mut through = None;
        while self.all > self.most / 2
            && let Some((revision, bytes)) = self.stretches.pop_front()
        {
            self.all -= bytes;
            through = Some(revision);
        }
        through
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_is_left_of_what_weighs_too_much() {
        let mut kept = HistoryWeight::new(3_200);
        for revision in 1..=32 {
            kept.add(revision, 100);
            assert_eq!(kept.surplus(), None, "{revision}");
        }
        kept.add(33, 50);
        assert_eq!(kept.surplus(), Some(17), "1,600 bytes are left");
        kept.add(34, 10_000);
        assert_eq!(kept.surplus(), Some(34));
        assert_eq!(kept.surplus(), None);
    }
}
