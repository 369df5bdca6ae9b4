//! The hub's starts, by which it is known whether what an agent remembers is of this hub's past.
//!
//! In: the starts as they are stored, where the store stands, what an agent says it was told. Out: the starts with another one; whether a
//! cursor is a place in their history, and which Cluster's agent was told it. Pure. A file that was copied back lacks the starts that came
//! after the copy, so that a cursor which one of those told is found out even where the revisions have passed it since. Each Cluster's agent
//! is told a start by a number of its own, so that what one Cluster's agent remembers counts for no other.

use karmada_gateway::ports::{ClusterIncarnation, CursorOrigin};
use karmada_proto::body;
use serde::{Deserialize, Serialize};

/// Starts that are remembered. An agent that was away for more is listed everything.
const MOST: usize = 1000;

/// The starts of a hub, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HubStarts(Vec<Start>);

/// One start of the hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Start {
    id: u64,
    /// The newest revision when it began.
    first: u64,
    /// Whether it was told to each Cluster's agent by a number of its own. Earlier versions told all the same.
    #[serde(default)]
    is_told_apart: bool,
}

/// What of a start's number all Clusters are told alike: by this it is known again, whosever number it is.
const ALIKE: u64 = !0xffff_ffff;

impl Start {
    /// The number by which this start is told to `whose` agent.
    fn told_as(self, whose: ClusterIncarnation<'_>) -> u64 {
        told_as(self.id, whose)
    }

    /// Whether `told` is this start as it was told to some agent.
    fn is(self, told: u64) -> bool {
        if self.is_told_apart { self.id & ALIKE == told & ALIKE } else { self.id == told }
    }
}

/// The number by which the start `id` is told to `whose` agent.
pub fn told_as(id: u64, ClusterIncarnation { cluster, uid }: ClusterIncarnation<'_>) -> u64 {
    let hash = body::hash(format!("{id:x}/{cluster}/{uid}").as_bytes());
    let own = hash.iter().take(4).fold(0, |own, byte| (own << 8) | u64::from(*byte));
    // Zero stands for no start.
    ((id & ALIKE) | own).max(1)
}

impl HubStarts {
    /// The starts as they are stored.
    ///
    /// # Errors
    /// They cannot be read. With none every agent's cursor counts as another hub's, and each is listed everything: slow, and nothing is lost
    /// by it.
    pub fn read(stored: &[u8]) -> Result<HubStarts, serde_json::Error> {
        serde_json::from_slice(stored)
    }

    /// The starts, now that another began: `id` (random), with `first` the newest revision then.
    #[must_use]
    pub fn begun(self, id: u64, first: u64) -> HubStarts {
        HubStarts(begun(self.0, Start { id: id.max(1), first, is_told_apart: true }))
    }

    /// The number of the present one.
    pub fn present(&self) -> u64 {
        self.0.last().map_or(0, |start| start.id)
    }

    /// Whether `cursor`, told by the start `timeline`, is a place in this history, which has come to `now`.
    pub fn has(&self, now: u64, (timeline, cursor): (u64, u64)) -> bool {
        in_past(&self.0, now, cursor, |start| start.id == timeline)
    }

    /// Who was told `cursor` by the start that an agent knows as `timeline`, seen from the Cluster for which it speaks now.
    pub fn who_was_told(&self, now: u64, whose: ClusterIncarnation<'_>, cursor: (u64, u64)) -> CursorOrigin {
        who_was_told(&self.0, now, whose, cursor)
    }
}

fn begun(mut starts: Vec<Start>, start: Start) -> Vec<Start> {
    starts.push(start);
    starts.drain(..starts.len().saturating_sub(MOST));
    starts
}

/// Whether `cursor`, told by a start that `is` meant, is a place in the history of `starts`, which has come to `now`.
fn in_past(starts: &[Start], now: u64, cursor: u64, is: impl Fn(Start) -> bool) -> bool {
    let Some(at) = starts.iter().rposition(|start| is(*start)) else { return false };
    cursor <= starts.get(at + 1).map_or(now, |next| next.first)
}

fn who_was_told(
    starts: &[Start],
    now: u64,
    whose: ClusterIncarnation<'_>,
    (timeline, cursor): (u64, u64),
) -> CursorOrigin {
    let is_ours = |start: Start| start.is_told_apart && start.told_as(whose) == timeline;
    if in_past(starts, now, cursor, is_ours) {
        CursorOrigin::ThisCluster
    } else if in_past(starts, now, cursor, |start| start.is(timeline)) {
        CursorOrigin::AnotherCluster
    } else {
        CursorOrigin::InAnotherLife
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(id: u64, first: u64) -> Start {
        Start { id, first, is_told_apart: true }
    }

    const NORTH: ClusterIncarnation<'_> = ClusterIncarnation { cluster: "north", uid: "u1" };

    /// The file is copied at 50 in the second start, which goes on to 100; the copy is put back, starts anew and goes past
    /// 100 with other content.
    #[test]
    fn a_cursor_of_a_life_that_was_taken_back_is_none_of_ours() {
        let is_past = |starts: &[Start], now, timeline, cursor| {
            in_past(starts, now, cursor, |start| start.id == timeline)
        };
        let copy = begun(begun(Vec::new(), start(1, 0)), start(2, 30));
        assert!(is_past(&copy, 100, 2, 100), "as long as it runs");
        let restored = begun(copy.clone(), start(3, 50));
        for (timeline, cursor, ours) in [
            (1, 30, true),
            (1, 31, false),
            (2, 29, true),
            (2, 50, true),
            (2, 51, false),
            (2, 100, false),
            (3, 120, true),
            (3, 121, false),
            (4, 10, false),
            (0, 10, false),
        ] {
            assert_eq!(is_past(&restored, 120, timeline, cursor), ours, "{timeline}/{cursor}");
        }
        let other = begun(copy, start(9, 100));
        assert!(!is_past(&other, 200, 3, 60), "a start that came after the copy is not known");
    }

    #[test]
    fn a_cursor_counts_for_the_cluster_and_the_life_of_it_that_it_was_told_for() {
        let id = |number: u64| (number << 40) | 0xabcd;
        let starts =
            vec![Start { is_told_apart: false, ..start(id(1), 0) }, start(id(2), 30), start(id(3), 50)];
        let of = |cluster, uid| ClusterIncarnation { cluster, uid };
        let told = |timeline, cursor| who_was_told(&starts, 120, NORTH, (timeline, cursor));
        for (timeline, cursor, who) in [
            (told_as(id(2), NORTH), 50, CursorOrigin::ThisCluster),
            (told_as(id(2), NORTH), 51, CursorOrigin::InAnotherLife),
            (told_as(id(3), NORTH), 120, CursorOrigin::ThisCluster),
            (told_as(id(3), of("south", "u1")), 120, CursorOrigin::AnotherCluster),
            (told_as(id(3), of("north", "u0")), 120, CursorOrigin::AnotherCluster),
            (told_as(id(3), of("south", "u1")), 121, CursorOrigin::InAnotherLife),
            (id(3), 120, CursorOrigin::AnotherCluster),
            (id(1), 30, CursorOrigin::AnotherCluster),
            (id(1), 31, CursorOrigin::InAnotherLife),
            (told_as(id(1), NORTH), 10, CursorOrigin::InAnotherLife),
            (told_as(id(9), NORTH), 10, CursorOrigin::InAnotherLife),
            (0, 0, CursorOrigin::InAnotherLife),
        ] {
            assert_eq!(told(timeline, cursor), who, "{timeline:x}/{cursor}");
        }
    }

    #[test]
    fn starts_of_an_earlier_version_are_read() {
        let read: Vec<Start> = serde_json::from_str(r#"[{"id":7,"first":1}]"#).unwrap();
        assert_eq!(read, [Start { is_told_apart: false, ..start(7, 1) }]);
    }

    #[test]
    fn starts_are_bounded() {
        let starts = (1..=3000).fold(Vec::new(), |all, id| begun(all, start(id, id * 10)));
        assert_eq!((starts.len(), starts[0].id), (MOST, 2001));
    }
}
