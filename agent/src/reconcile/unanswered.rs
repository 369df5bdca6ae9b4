//! Works of which a write got no answer: the member may still carry it out. Pure.
//!
//! In: that a write of a Work was left open, and the time. Out: until when that Work's objects may yet appear, and which Works are past
//! that. A request that is on its way cannot be called back, and a create has nothing that a later removal could forbid it by; but a
//! kube-apiserver gives up a request of its own after a minute (`--request-timeout`). So a removal is done only when what it removes has
//! been looked for after that time.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// After this, nothing comes of a write any more: the minute of kube-apiserver, and a quarter of one for who passes it on.
const SETTLED: Duration = Duration::from_secs(75);

/// The Works with a write that may still be carried out.
#[derive(Debug, Default)]
pub struct Unanswered {
    until: BTreeMap<String, Duration>,
    /// In the order of their ends; one that was left open again is in it twice, of which the later counts.
    ends: VecDeque<(Duration, String)>,
}

impl Unanswered {
    /// A write of `key` was given up at `now` without an answer.
    pub fn left_open(&mut self, key: &str, now: Duration) {
        let until = now + SETTLED;
        if self.until.insert(key.to_owned(), until) != Some(until) {
            self.ends.push_back((until, key.to_owned()));
        }
    }

    /// Until when something of `key` may yet appear; `None` where nothing is open.
    pub fn until(&self, key: &str) -> Option<Duration> {
        self.until.get(key).copied()
    }

    /// Works of which nothing is open any more at `now`, each once.
    pub fn expire(&mut self, now: Duration) -> Vec<String> {
        let mut expired = Vec::new();
        while self.ends.front().is_some_and(|(end, _)| *end <= now)
            && let Some((end, key)) = self.ends.pop_front()
        {
            if self.until.get(&key) == Some(&end) {
                self.until.remove(&key);
                expired.push(key);
            }
        }
        expired
    }

    /// When [`Unanswered::expire`] is worth calling.
    pub fn due(&self) -> Option<Duration> {
        self.ends.front().map(|(end, _)| *end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_write_without_an_answer_counts() {
        let at = Duration::from_secs;
        let mut open = Unanswered::default();
        open.left_open("a", at(10));
        open.left_open("b", at(11));
        open.left_open("a", at(40));
        assert_eq!((open.until("a"), open.until("none")), (Some(at(115)), None));
        assert_eq!(open.due(), Some(at(85)));
        assert_eq!(open.expire(at(90)), ["b"]);
        assert_eq!((open.expire(at(114)), open.until("a")), (vec![], Some(at(115))));
        assert_eq!((open.expire(at(115)), open.until("a"), open.due()), (vec!["a".to_owned()], None, None));
    }
}
