//! Which Works that nobody wants any more may go at once, and which wait for a person: a mistaken label, policy or eviction takes little from a
//! site before somebody looks. Pure.
//!
//! In: a Work that a change of placement lets go of, what the LinkPolicies say, what went from its site lately and what waits there. Out:
//! whether it goes. A person's own delete of a template, a binding or a Cluster is not asked about here.

use std::borrow::Borrow;
use std::collections::VecDeque;

use jiff::Timestamp;
use karmada_api::cluster::Cluster;
use karmada_api::link_policy::{Deletes, LinkPolicy};
use karmada_api::selector::labels_match;
use karmada_api::strings::annotations::CONFIRM_REMOVALS;

/// How a moment is written in a mark: it sorts as text, and may be the value of a label.
const MARK: &str = "%Y%m%dT%H%M%SZ";

/// The spans that a window counts in: what went is forgotten by this part of its time.
const SPANS: u32 = 20;

/// What becomes of a Work that nobody wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes.
    Goes,
    /// It stays until a person says otherwise.
    Waits,
}

/// A site of which a Work is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// Works there that are not on their way out, the one in question among them.
    pub works: usize,
    /// Works that a change of placement took within the time of the policy.
    pub taken: usize,
    /// Whether any Work there waits for a person.
    pub waits: bool,
}

/// What holds for a cluster: of the policies that select it the one of the highest priority, of several the first by name. One whose
/// selector cannot be read selects none.
pub fn bounds<P: Borrow<LinkPolicy>>(cluster: &Cluster, policies: &[P]) -> Deletes {
    let labels = cluster.metadata.labels.clone().unwrap_or_default();
    let selects = |policy: &&LinkPolicy| {
        let selector = policy.spec.cluster_selector.as_ref();
        selector.is_none_or(|selector| labels_match(selector, &labels).unwrap_or(false))
    };
    let selecting = policies.iter().map(Borrow::borrow).filter(selects);
    let first = selecting.min_by_key(|policy| (std::cmp::Reverse(policy.spec.priority), policy.name()));
    first.and_then(|policy| policy.spec.deletes.clone()).unwrap_or_default()
}

/// Whether a Work may go. Once something waits at a site all that follows waits as well: it is of the same change, or nobody can tell.
pub fn judge(bounds: &Deletes, site: Site) -> Verdict {
    let taken = site.taken as u64 + 1;
    let all = (site.works + site.taken) as u64;
    let too_many = taken > u64::from(bounds.max_objects);
    let too_large = taken * 100 > u64::from(bounds.max_percent) * all;
    if site.waits || (too_many && too_large) { Verdict::Waits } else { Verdict::Goes }
}

/// Whether these bounds hold nothing back, however much it is.
pub fn hold_nothing(bounds: &Deletes) -> bool {
    bounds.max_percent >= 100
}

/// The mark of a Work that waits from now on.
pub fn mark(now: Timestamp) -> String {
    now.strftime(MARK).to_string()
}

/// The moment that a mark says; `None` where it is no mark.
pub fn moment_of(mark: &str) -> Option<Timestamp> {
    let moment = jiff::civil::DateTime::strptime(MARK, mark).ok()?;
    moment.to_zoned(jiff::tz::TimeZone::UTC).ok().map(|moment| moment.timestamp())
}

/// Whether a person let go what was held back by `mark`.
pub fn is_confirmed(mark: &str, cluster: &Cluster) -> bool {
    let word = cluster.annotation(CONFIRM_REMOVALS);
    word.is_some_and(|word| word.len() == mark.len() && mark <= word)
}

/// What changes of placement took from one site lately.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// Spans of time, by their number since 1970, and how many went in each.
    spans: VecDeque<(i64, usize)>,
}

impl Window {
    /// How many went within so many seconds before now. What went at an hour that is still to come counts: the clock was set.
    pub fn taken(&mut self, within: u32, now: Timestamp) -> usize {
        let oldest = now.as_second() - i64::from(within);
        let span = span_of(within);
        while self.spans.front().is_some_and(|(at, _)| (at + 1) * span <= oldest) {
            self.spans.pop_front();
        }
        self.spans.iter().map(|(_, count)| count).sum()
    }

    /// One more went.
    pub fn take(&mut self, within: u32, now: Timestamp) {
        let at = now.as_second().div_euclid(span_of(within));
        match self.spans.back_mut() {
            Some((last, count)) if *last >= at => *count += 1,
            _ => self.spans.push_back((at, 1)),
        }
    }
}

fn span_of(within: u32) -> i64 {
    i64::from((within / SPANS).max(1))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn site(works: usize, taken: usize, waits: bool) -> Site {
        Site { works, taken, waits }
    }

    #[test]
    fn more_than_both_bounds_wait() {
        let usual = Deletes::default();
        // A small site: ten may go, whatever part of it they are.
        assert_eq!(judge(&usual, site(12, 9, false)), Verdict::Goes);
        assert_eq!(judge(&usual, site(11, 10, false)), Verdict::Waits);
        // A large one: a fifth may go, however many they are.
        assert_eq!(judge(&usual, site(801, 199, false)), Verdict::Goes);
        assert_eq!(judge(&usual, site(800, 200, false)), Verdict::Waits);
        // What waits keeps what follows.
        assert_eq!(judge(&usual, site(800, 0, true)), Verdict::Waits);
    }

    #[test]
    fn bounds_may_hold_all_or_nothing() {
        let none = Deletes { max_objects: 0, max_percent: 0, ..Deletes::default() };
        assert_eq!(judge(&none, site(1000, 0, false)), Verdict::Waits);
        let all = Deletes { max_percent: 100, ..none.clone() };
        assert_eq!(judge(&all, site(1, 999, false)), Verdict::Goes);
        assert!(hold_nothing(&all) && !hold_nothing(&none));
    }

    #[test]
    fn the_policy_of_the_highest_priority_that_selects_a_cluster_holds() {
        let policy = |name: &str, priority: i32, region: &str, max: u32| -> LinkPolicy {
            serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"priority": priority,
                "clusterSelector": {"matchLabels": {"region": region}}, "deletes": {"maxObjects": max}}}))
            .unwrap()
        };
        let all = [
            policy("a", 1, "eu", 1),
            policy("c", 5, "eu", 2),
            policy("b", 5, "eu", 3),
            policy("d", 9, "us", 4),
        ];
        let cluster: Cluster =
            serde_json::from_value(json!({"metadata": {"name": "m", "labels": {"region": "eu"}}})).unwrap();
        assert_eq!(bounds(&cluster, &all), Deletes { max_objects: 3, ..Deletes::default() });
        assert_eq!(bounds::<LinkPolicy>(&cluster, &[]), Deletes::default());
        let plain: LinkPolicy =
            serde_json::from_value(json!({"metadata": {"name": "z"}, "spec": {"priority": 7}})).unwrap();
        let with_plain = [&all[..], &[plain]].concat();
        assert_eq!(
            bounds(&cluster, &with_plain),
            Deletes::default(),
            "it selects all and says nothing of deletes"
        );
    }

    #[test]
    fn a_word_is_for_what_was_held_by_then() {
        let cluster = |word: &str| -> Cluster {
            serde_json::from_value(
                json!({"metadata": {"name": "m", "annotations": {CONFIRM_REMOVALS: word}}}),
            )
            .unwrap()
        };
        let held = mark(at(1_700_000_000));
        assert_eq!((held.as_str(), moment_of(&held)), ("20231114T221320Z", Some(at(1_700_000_000))));
        assert!(moment_of("soon").is_none() && moment_of("").is_none());
        assert!(is_confirmed(&held, &cluster(&held)));
        assert!(!is_confirmed(&mark(at(1_700_000_001)), &cluster(&held)), "held later");
        for no_word in ["", "true", "z", "20231114T221320", "2023-11-14T22:13:20Z"] {
            assert!(!is_confirmed(&held, &cluster(no_word)), "{no_word}");
        }
        assert!(!is_confirmed(&held, &Cluster::default()));
    }

    #[test]
    fn a_window_forgets_what_went_before_it() {
        let mut window = Window::default();
        for second in 0..120 {
            window.take(60, at(1000 + second));
        }
        let taken = window.taken(60, at(1120));
        assert!((60..=63).contains(&taken), "{taken}");
        assert_eq!(window.taken(60, at(1300)), 0);
        // A clock that was set back counts on in the newest span, and holds no more spans than there are.
        window.take(60, at(1300));
        window.take(60, at(200));
        assert_eq!((window.taken(60, at(200)), window.spans.len()), (2, 1));
    }
}
