//! Which Works that nobody wants any more may go at once, and which wait for a person: a mistaken label, policy or eviction takes little from a
//! site before somebody looks. Pure.
//!
//! In: a Work that a change of placement lets go of, what the LinkPolicies say, what went from its site lately and what waits there. Out:
//! whether it goes. A person's own delete of a template, a binding or a Cluster is not asked about here.

use std::borrow::Borrow;
use std::collections::VecDeque;

use jiff::{SignedDuration, Timestamp};
use karmada_api::binding::ObjectReference;
use karmada_api::cluster::Cluster;
use karmada_api::link_policy::{Deletes, LinkPolicy};
use karmada_api::object;
use karmada_api::selector::labels_match;
use karmada_api::strings::annotations::CONFIRM_REMOVALS;
use karmada_api::work::Work;

use crate::kind_facts;

/// How the label of a held Work writes since when it waits: it sorts as text, and may be the value of a label.
const HELD_SINCE_FORMAT: &str = "%Y%m%dT%H%M%SZ";

/// What a mark tells apart.
const SECOND: SignedDuration = SignedDuration::from_secs(1);

/// The spans that a window counts in: what went is forgotten by this part of its time.
const SPANS: u32 = 20;

/// What becomes of a Work that nobody wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovalVerdict {
    /// It goes.
    Goes,
    /// It stays until a person says otherwise.
    Waits,
}

/// A site of which a Work is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// Works of bindings there that are not on their way out, the one in question among them.
    pub works: usize,
    /// Works that a change of placement took within the time of the policy.
    pub taken: usize,
    /// Whether any Work there waits for a person because too many went; one that takes others along waits for itself alone.
    pub waits: bool,
    /// Whether the Work in question takes others along.
    pub takes_others: bool,
}

/// Whether an object takes others along where it goes, also such as no Work tells of.
pub fn takes_others(object: &ObjectReference) -> bool {
    kind_facts::of_kind(&object.api_version, &object.kind).takes_others
}

/// The same of what a Work carries.
pub fn carries_what_takes_others(work: &Work) -> bool {
    let manifests = work.spec.workload.manifests.iter();
    let objects = manifests.map(|manifest| ObjectReference {
        api_version: object::api_version(manifest).to_owned(),
        kind: object::kind(manifest).to_owned(),
        ..ObjectReference::default()
    });
    objects.into_iter().any(|object| takes_others(&object))
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

/// Whether a Work may go. Once one of too many waits at a site all that follows waits as well: it is of the same change, or nobody can tell. What
/// takes others along waits always: nobody counts how many. It says nothing of what else goes.
pub fn verdict(bounds: &Deletes, site: Site) -> RemovalVerdict {
    let taken = site.taken as u64 + 1;
    let all = (site.works + site.taken) as u64;
    let too_many = taken > u64::from(bounds.max_objects);
    let too_large = taken * 100 > u64::from(bounds.max_percent) * all;
    let waits = site.waits || site.takes_others || (too_many && too_large);
    if waits && !hold_nothing(bounds) { RemovalVerdict::Waits } else { RemovalVerdict::Goes }
}

/// Whether these bounds hold nothing back, however much it is.
pub fn hold_nothing(bounds: &Deletes) -> bool {
    bounds.max_percent >= 100
}

/// The value of the label for a moment.
pub fn held_since_text(moment: Timestamp) -> String {
    moment.strftime(HELD_SINCE_FORMAT).to_string()
}

/// The moment that the label's value says; `None` where it says none.
pub fn held_since(text: &str) -> Option<Timestamp> {
    let moment = jiff::civil::DateTime::strptime(HELD_SINCE_FORMAT, text).ok()?;
    let moment = moment.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp();
    (held_since_text(moment) == text).then_some(moment)
}

/// Since when what is held back now is said to wait: later than a person's word, which was for what waited by then. Such a word may say an
/// hour that is still to come, and the clock may have been set back since.
pub fn waits_since(now: Timestamp, cluster: &Cluster) -> Timestamp {
    confirmation(cluster).map_or(now, |(_, next)| now.max(next))
}

/// Until when a person let go what was held back; `None` where nobody did.
pub fn let_go_until(cluster: &Cluster) -> Option<Timestamp> {
    confirmation(cluster).map(|(said, _)| said)
}

/// The moment that a person confirmed, and the next one. A moment without a next one would let go all that ever waits: it confirms nothing.
fn confirmation(cluster: &Cluster) -> Option<(Timestamp, Timestamp)> {
    let said = held_since(cluster.annotation(CONFIRM_REMOVALS)?)?;
    Some((said, said.checked_add(SECOND).ok()?))
}

/// What changes of placement took from one site lately.
#[derive(Clone, Debug, Default)]
pub struct Window {
    spans: VecDeque<Span>,
}

/// What went within one part of a window's time. The seconds are told as they are, for another policy may count in other parts.
#[derive(Clone, Copy, Debug)]
struct Span {
    begun: i64,
    last: i64,
    count: usize,
}

impl Window {
    /// How many went within so many seconds before now. What went at an hour that is still to come counts as if it went now: the clock was
    /// set.
    pub fn taken(&mut self, within: u32, now: Timestamp) -> usize {
        let now = now.as_second();
        for span in &mut self.spans {
            (span.begun, span.last) = (span.begun.min(now), span.last.min(now));
        }
        while self.spans.front().is_some_and(|span| span.last <= now - i64::from(within)) {
            self.spans.pop_front();
        }
        self.spans.iter().map(|span| span.count).sum()
    }

    /// One more went.
    pub fn take(&mut self, within: u32, now: Timestamp) {
        let (now, long) = (now.as_second(), i64::from((within / SPANS).max(1)));
        match self.spans.back_mut() {
            Some(span) if now < span.begun + long => {
                (span.last, span.count) = (span.last.max(now), span.count + 1);
            }
            _ => self.spans.push_back(Span { begun: now, last: now, count: 1 }),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn site(works: usize, taken: usize, waits: bool) -> Site {
        Site { works, taken, waits, takes_others: false }
    }

    #[test]
    fn what_takes_others_along_waits_unless_nothing_does() {
        let one = Site { takes_others: true, ..site(1000, 0, false) };
        assert_eq!(verdict(&Deletes::default(), one), RemovalVerdict::Waits);
        assert_eq!(verdict(&Deletes { max_percent: 100, ..Deletes::default() }, one), RemovalVerdict::Goes);
        for (api_version, kind, takes) in [
            ("v1", "Namespace", true),
            ("apiextensions.k8s.io/v1", "CustomResourceDefinition", true),
            ("example.com/v1", "Namespace", false),
            ("v1", "ConfigMap", false),
        ] {
            let (api_version, kind) = (api_version.to_owned(), kind.to_owned());
            let object = ObjectReference { api_version, kind, ..ObjectReference::default() };
            assert_eq!(takes_others(&object), takes, "{object:?}");
        }
    }

    #[test]
    fn more_than_both_bounds_wait() {
        let usual = Deletes::default();
        // A small site: ten may go, whatever part of it they are.
        assert_eq!(verdict(&usual, site(12, 9, false)), RemovalVerdict::Goes);
        assert_eq!(verdict(&usual, site(11, 10, false)), RemovalVerdict::Waits);
        // A large one: a fifth may go, however many they are.
        assert_eq!(verdict(&usual, site(801, 199, false)), RemovalVerdict::Goes);
        assert_eq!(verdict(&usual, site(800, 200, false)), RemovalVerdict::Waits);
        // What waits keeps what follows.
        assert_eq!(verdict(&usual, site(800, 0, true)), RemovalVerdict::Waits);
    }

    #[test]
    fn bounds_may_hold_all_or_nothing() {
        let none = Deletes { max_objects: 0, max_percent: 0, ..Deletes::default() };
        assert_eq!(verdict(&none, site(1000, 0, false)), RemovalVerdict::Waits);
        let all = Deletes { max_percent: 100, ..none.clone() };
        assert_eq!(verdict(&all, site(1, 999, false)), RemovalVerdict::Goes);
        assert_eq!(verdict(&all, site(1, 0, true)), RemovalVerdict::Goes, "what waits there goes as well");
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

    fn said(word: &str) -> Cluster {
        serde_json::from_value(json!({"metadata": {"name": "m", "annotations": {CONFIRM_REMOVALS: word}}}))
            .unwrap()
    }

    fn is_let_go(text: &str, cluster: &Cluster) -> bool {
        held_since(text).zip(let_go_until(cluster)).is_some_and(|(held, until)| held <= until)
    }

    #[test]
    fn a_word_is_for_what_was_held_by_then() {
        let held = held_since_text(at(1_700_000_000));
        assert_eq!((held.as_str(), held_since(&held)), ("20231114T221320Z", Some(at(1_700_000_000))));
        assert!(is_let_go(&held, &said(&held)));
        assert!(!is_let_go(&held_since_text(at(1_700_000_001)), &said(&held)), "held later");
        for no_word in ["", "true", "z", "20231114T221320", "2023-11-14T22:13:20Z"] {
            assert!(!is_let_go(&held, &said(no_word)), "{no_word}");
        }
        assert!(!is_let_go(&held, &Cluster::default()));
    }

    /// A word is a moment and not whatever sorts after one; of one that has no next moment nothing that is held later could be told apart.
    #[test]
    fn what_is_no_moment_lets_nothing_go() {
        let held = held_since_text(at(1_700_000_000));
        for no_word in ["zzzzzzzzzzzzzzzz", "20231314T221320Z", "99991231T235959Z", "99991230T220000Z"] {
            assert!(!is_let_go(&held, &said(no_word)), "{no_word}");
        }
        for no_mark in ["soon", "", "+0231114T221320Z", " 0231114T221320Z", "00000000T000000Z"] {
            assert_eq!(held_since(no_mark), None, "{no_mark}");
            assert!(!is_let_go(no_mark, &said(&held)), "{no_mark}");
        }
    }

    /// Somebody mistook the year, the clock was ahead when something was held back and let go, or it is the same second.
    #[test]
    fn what_is_held_after_a_word_waits_for_another_one() {
        let now = at(1_700_000_000);
        for word in ["20231114T221320Z", "20231114T230000Z", "29231114T221320Z"] {
            let cluster = said(word);
            let held = held_since_text(waits_since(now, &cluster));
            assert!(!is_let_go(&held, &cluster), "{held} after {word}");
            assert!(is_let_go(&held, &said(&held)), "{held}");
        }
        for earlier in ["20231114T221319Z", "soon", "99991231T235959Z"] {
            assert_eq!(waits_since(now, &said(earlier)), now, "{earlier}");
        }
    }

    #[test]
    fn a_window_forgets_what_went_before_it() {
        let mut window = Window::default();
        for second in 0..120 {
            window.take(60, at(1000 + second));
        }
        let taken = window.taken(60, at(1120));
        assert!((60..=63).contains(&taken), "{taken}");
        assert!(window.spans.len() <= 21);
        assert_eq!(window.taken(60, at(1300)), 0);
        // A clock that was set back counts on in the newest span, and what was counted is forgotten in its time.
        window.take(60, at(1300));
        window.take(60, at(200));
        assert_eq!((window.taken(60, at(200)), window.spans.len()), (2, 1));
        assert_eq!((window.taken(60, at(259)), window.taken(60, at(260))), (2, 0));
    }

    /// A LinkPolicy that is changed says another time for what went before.
    #[test]
    fn a_window_counts_whatever_its_time_was() {
        let start = 1_700_000_000;
        for (before, after) in [(60, 600), (600, 60), (60, 86_400), (86_400, 1)] {
            let mut window = Window::default();
            (0..10).for_each(|_| window.take(before, at(start)));
            let (soon, over) = (i64::from(before.min(after)) - 1, i64::from(after));
            assert_eq!(window.taken(after, at(start + soon)), 10, "{before} and then {after}");
            assert_eq!(window.taken(after, at(start + over)), 0, "{before} and then {after}");
        }
    }
}
