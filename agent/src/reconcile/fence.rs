//! Whether this agent is the one that may act on the member, and knows enough to. Pure.
//!
//! In: where the link stands, and time. Out: whether work may begin. Of two agents with one identity and one member (a copied state
//! directory, a Pod that did not end) the hub takes one, and tells the other so. That one leaves the member alone until the hub takes it:
//! it would fight with the first, over a ledger that nobody keeps current. And what a ledger says may be old: the hub may tell at once
//! that what is missing in the member was deleted. So a start waits a moment for what the hub sends, whether the first dial reaches it or
//! a later one; where no hub is reached it goes on.

use std::time::Duration;

use crate::LinkView;
use crate::cause::Cause;

/// A start waits no longer for the hub's welcome.
const WELCOME_TIMEOUT: Duration = Duration::from_secs(10);
/// After a welcome, this long is waited for what changed since the ledger was last current.
const FIRST_WORDS: Duration = Duration::from_secs(1);

/// The verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fence(Verdict);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Verdict {
    /// Not welcomed yet.
    #[default]
    Unheard,
    /// Welcomed, and to begin then.
    Welcomed(Duration),
    /// No other agent of this identity is known.
    Alone,
    /// The hub has another agent of this identity.
    Second,
}

impl Fence {
    /// Of a ledger that holds nothing: there is nothing that the hub could take back, so that its welcome is enough.
    pub fn of_nothing() -> Self {
        Self(Verdict::Alone)
    }

    /// The link stands like this, `now` after the start.
    pub fn sees(&mut self, view: &LinkView, now: Duration) {
        self.0 = match (self.0, view) {
            (verdict, LinkView::Starting) => verdict,
            (_, LinkView::Away { cause: Cause::Clone, .. }) => Verdict::Second,
            // Being away for another reason says nothing of the other, nor of what the hub has to tell.
            (verdict, LinkView::Away { .. }) => verdict,
            (Verdict::Unheard, LinkView::Connected { .. }) if now >= WELCOME_TIMEOUT => Verdict::Alone,
            (Verdict::Unheard | Verdict::Second, LinkView::Connected { .. }) => {
                Verdict::Welcomed(now + FIRST_WORDS)
            }
            (verdict, LinkView::Connected { .. }) => verdict,
        };
    }

    /// Whether work may begin, `now` after the start.
    pub fn is_open(self, now: Duration) -> bool {
        match self.0 {
            Verdict::Unheard => now >= WELCOME_TIMEOUT,
            Verdict::Welcomed(begins) => now >= begins,
            Verdict::Alone => true,
            Verdict::Second => false,
        }
    }

    /// Whether another agent is known to have the member.
    pub fn rests(self) -> bool {
        self.0 == Verdict::Second
    }

    /// When to look again, where time alone may open it.
    pub fn opens_at(self) -> Option<Duration> {
        match self.0 {
            Verdict::Unheard => Some(WELCOME_TIMEOUT),
            Verdict::Welcomed(begins) => Some(begins),
            Verdict::Alone | Verdict::Second => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn away(cause: Cause) -> LinkView {
        LinkView::Away { cause, reason: String::new() }
    }

    const CONNECTED: LinkView = LinkView::Connected { epoch: 1 };

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_start_waits_for_the_hubs_first_words_and_not_for_ever() {
        for view in [LinkView::Starting, away(Cause::Tcp)] {
            let mut fence = Fence::default();
            fence.sees(&view, at(1));
            assert!(!fence.is_open(at(9)) && fence.is_open(at(10)), "with no word of a hub it goes on");
            assert_eq!(fence.opens_at(), Some(at(10)));
            let mut late = fence;
            late.sees(&CONNECTED, at(11));
            assert!(late.is_open(at(11)), "it went on already");
            fence.sees(&CONNECTED, at(2));
            fence.sees(&away(Cause::Tcp), at(2));
            assert!(!fence.is_open(at(2)) && fence.is_open(at(3)));
            assert_eq!(fence.opens_at(), Some(at(3)));
        }
    }

    #[test]
    fn the_second_of_two_leaves_the_member_alone_until_the_hub_takes_it() {
        let mut fence = Fence::of_nothing();
        for (seconds, view, open) in [
            (1, CONNECTED, true),
            (2, away(Cause::Tcp), true),
            (3, away(Cause::Clone), false),
            (60, away(Cause::Tcp), false),
            (61, CONNECTED, false),
            (62, CONNECTED, true),
            (63, away(Cause::Clone), false),
        ] {
            fence.sees(&view, at(seconds));
            assert_eq!(fence.is_open(at(seconds)), open, "{seconds} {view:?}");
        }
        assert_eq!(fence.opens_at(), None, "time alone changes nothing");
    }
}
