//! Whether this agent is the one that may act on the member. Pure.
//!
//! In: where the link stands, and time. Out: whether work may begin. Of two agents with one identity and one member (a copied state
//! directory, a Pod that did not end) the hub takes one, and tells the other so. That one leaves the member alone until the hub takes it:
//! it would fight with the first, over a ledger that nobody keeps current. So a start waits a moment for the hub's word, and with no hub to
//! be heard it goes on.

use std::time::Duration;

use crate::LinkView;
use crate::cause::Cause;

/// A start waits no longer for the hub's word.
const PATIENCE: Duration = Duration::from_secs(10);

/// The verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fence(Verdict);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Verdict {
    /// Nothing was heard yet.
    #[default]
    Unheard,
    /// Nobody else is known to be there.
    Alone,
    /// The hub has another agent of this identity.
    Second,
}

impl Fence {
    /// The link stands like this.
    pub fn sees(&mut self, view: &LinkView) {
        self.0 = match (self.0, view) {
            (verdict, LinkView::Starting) => verdict,
            (_, LinkView::Connected { .. }) => Verdict::Alone,
            (_, LinkView::Away { cause: Cause::Clone, .. }) => Verdict::Second,
            // Being away for another reason says nothing of the other.
            (Verdict::Second, LinkView::Away { .. }) => Verdict::Second,
            (_, LinkView::Away { .. }) => Verdict::Alone,
        };
    }

    /// Whether work may begin, `now` after the start.
    pub fn is_open(self, now: Duration) -> bool {
        match self.0 {
            Verdict::Unheard => now >= PATIENCE,
            Verdict::Alone => true,
            Verdict::Second => false,
        }
    }

    /// When to look again, where time alone may open it.
    pub fn opens_at(self) -> Option<Duration> {
        (self.0 == Verdict::Unheard).then_some(PATIENCE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_of_two_leaves_the_member_alone_until_the_hub_takes_it() {
        let away = |cause| LinkView::Away { cause, reason: String::new() };
        let (early, late) = (Duration::from_secs(1), Duration::from_secs(10));
        let mut fence = Fence::default();
        fence.sees(&LinkView::Starting);
        assert!(!fence.is_open(early) && fence.is_open(late), "with no word of a hub it goes on");
        for (view, open) in [
            (away(Cause::Clone), false),
            (away(Cause::Tcp), false),
            (LinkView::Connected { epoch: 1 }, true),
            (away(Cause::Tcp), true),
            (away(Cause::Clone), false),
        ] {
            fence.sees(&view);
            assert_eq!((fence.is_open(early), fence.is_open(late)), (open, open), "{view:?}");
        }
        let mut gone = Fence::default();
        gone.sees(&away(Cause::Tcp));
        assert!(gone.is_open(early));
    }
}
