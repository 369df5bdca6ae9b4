//! When an agent is asked where its cluster is, and when what it tells is believed.
//!
//! In: what of the Cluster says that, what the agent was asked last and what it told, the moment. Out: how long the next question waits, and whether an answer is
//! to be written. What is written then, and what never is, `karmada_core::registration::topology` says.

use std::time::Duration;

use karmada_core::registration::topology::{Seen, Told};

/// Between two questions to an agent, at first and where it tells something new, and at last. What was told is believed no sooner: Nodes come one by one.
const SOON: Duration = Duration::from_secs(60);
const LATE: Duration = Duration::from_secs(3600);

/// When the agent was asked last, and what it told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The moment, since some beginning.
    at: Duration,
    /// How many Nodes there were.
    nodes: i64,
    /// How often it had been asked before with as many, and told nothing new.
    before: u32,
    told: Told,
}

impl Asked {
    /// What it told.
    pub fn told(&self) -> &Told {
        &self.told
    }
}

/// How long the question waits; none where it is due. Where no Node is seen it is asked too, as an agent may be told by flags where its site is.
pub fn wait(last: Option<&Asked>, nodes: i64, now: Duration) -> Option<Duration> {
    let last = last?;
    if last.nodes == 0 && nodes > 0 {
        return None;
    }
    let before = if last.nodes == nodes { last.before } else { 0 };
    let due = last.at + SOON.saturating_mul(1_u32.checked_shl(before).unwrap_or(u32::MAX)).min(LATE);
    due.checked_sub(now).filter(|left| !left.is_zero())
}

/// What is to be kept of a question of this moment and its answer, and what of that is to be written: what is told of open fields, where the same was told of
/// as many Nodes before. Else the first Node's zone would be all zones for good, and rules would believe that.
pub fn answered(last: Option<&Asked>, seen: &Seen, now: Duration, told: Told) -> (Asked, bool) {
    let nodes = seen.nodes();
    let same = last.filter(|last| last.nodes == nodes);
    let has_news = !seen.news(&told).is_empty();
    let at_rest = same.is_some_and(|last| last.told == told && now >= last.at + SOON);
    let before = same.filter(|_| !has_news).map_or(0, |last| last.before + 1);
    (Asked { at: now, nodes, before, told }, has_news && at_rest)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(region: &str, zones: &[&str]) -> Told {
        let zones = zones.iter().map(|zone| (*zone).to_owned()).collect();
        Told { region: region.to_owned(), zones, ..Told::default() }
    }

    fn with_nodes(nodes: i64) -> Seen {
        serde_json::from_value(json!({"metadata": {}, "status": {"nodeSummary": {"totalNum": nodes}}}))
            .unwrap()
    }

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn what_an_agent_tells_counts_when_it_told_the_same_of_as_many_nodes_a_minute_ago() {
        let answer = |last: Option<&Asked>, nodes, now, zones: &[&str]| {
            answered(last, &with_nodes(nodes), at(now), told("eu", zones))
        };
        let (one, counts) = answer(None, 1, 5, &["a"]);
        assert!(!counts, "the first Node is not all of them");
        let (two, counts) = answer(Some(&one), 2, 65, &["a", "b"]);
        assert!(!counts, "it told otherwise");
        assert!(!answer(Some(&two), 3, 125, &["a", "b"]).1, "another Node");
        assert!(!answer(Some(&two), 2, 124, &["a", "b"]).1, "too soon");
        assert!(!answer(Some(&two), 2, 125, &["a"]).1);
        assert!(answer(Some(&two), 2, 125, &["a", "b"]).1);
        assert_eq!(wait(Some(&two), 2, at(65)), Some(at(60)), "what is new is asked again soon");
        let nothing = answered(None, &with_nodes(0), at(5), Told::default()).0;
        assert!(!answered(Some(&nothing), &with_nodes(0), at(65), Told::default()).1);
    }

    #[test]
    fn an_agent_is_asked_at_once_and_then_ever_more_seldom() {
        assert_eq!(wait(None, 0, at(5)), None, "flags may tell where no Node does");
        let ask =
            |last: Option<&Asked>, nodes, now| answered(last, &with_nodes(nodes), now, Told::default()).0;
        assert_eq!(wait(Some(&ask(None, 0, at(5))), 1, at(6)), None, "the first Node");
        let first = ask(None, 2, at(5));
        assert_eq!(wait(Some(&first), 2, at(5)), Some(at(60)));
        assert_eq!(wait(Some(&first), 3, at(35)), Some(at(30)), "however Nodes come and go");
        let (mut last, mut waits) = (first, Vec::new());
        for _ in 0..40 {
            let left = wait(Some(&last), 2, last.at).unwrap();
            waits.push(left.as_secs());
            last = ask(Some(&last), 2, last.at + left);
        }
        assert_eq!(waits[..8], [60, 120, 240, 480, 960, 1920, 3600, 3600]);
        assert_eq!(waits.last(), Some(&3600));
        assert_eq!(wait(Some(&last), 3, last.at + at(60)), None, "another Node, another answer");
    }
}
