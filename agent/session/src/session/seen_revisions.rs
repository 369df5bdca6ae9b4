//! For each start of the hub, the highest revision of it that the ledger holds beyond its cursor. A hub that was restored from a backup knows by it
//! that this site saw more than the backup has. Pure.
//!
//! In: the revisions of what is stored, by the start that told them; cursors, which tell as much themselves. Out: the list, oldest first,
//! where it changed: to be written with what it is about, and told in the next hello.

use karmada_proto::v1::Seen;

/// Starts that are told of. A hub restarts this often during one unfinished listing only where something is badly wrong with it.
const MOST: usize = 16;

/// The list.
#[derive(Debug, Default)]
pub(super) struct SeenBeyond {
    now: Vec<Seen>,
    written: Vec<Seen>,
}

impl SeenBeyond {
    /// As the ledger has it.
    pub(super) fn new(written: Vec<Seen>) -> Self {
        Self { now: written.clone(), written }
    }

    /// What `timeline` told at `revision` is stored. A word that is newer than any revision counts for nothing, and so does a hub of an
    /// earlier version, which does not say which start it is.
    pub(super) fn stored(&mut self, timeline: u64, revision: u64) {
        if timeline == 0 || revision >= i64::MAX as u64 {
            return;
        }
        if let Some(seen) = self.now.iter_mut().find(|seen| seen.timeline == timeline) {
            seen.revision = seen.revision.max(revision);
            return;
        }
        if self.now.len() == MOST {
            // The first is of the life that was seen before all the others.
            self.now.remove(1);
        }
        self.now.push(Seen { timeline, revision });
    }

    /// A cursor that `timeline` told is written: the hub has all of what went before in its past.
    pub(super) fn covered(&mut self, timeline: u64, cursor: u64) {
        self.now.retain(|seen| seen.timeline == timeline && seen.revision > cursor);
    }

    /// The list, where it is not as it was written.
    pub(super) fn take_changed(&mut self) -> Option<Vec<Seen>> {
        let changed = self.now != self.written;
        changed.then(|| {
            self.written.clone_from(&self.now);
            self.now.clone()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(pairs: &[(u64, u64)]) -> Vec<Seen> {
        pairs.iter().map(|&(timeline, revision)| Seen { timeline, revision }).collect()
    }

    #[test]
    fn what_a_cursor_covers_is_not_written() {
        let mut beyond = SeenBeyond::default();
        beyond.stored(1, 4);
        beyond.covered(1, 4);
        assert_eq!(beyond.take_changed(), None);
        for (timeline, revision) in [(1, 7), (1, 6), (2, 9), (2, i64::MAX as u64), (0, 99)] {
            beyond.stored(timeline, revision);
        }
        assert_eq!(beyond.take_changed(), Some(seen(&[(1, 7), (2, 9)])));
        assert_eq!(beyond.take_changed(), None, "once");
        beyond.covered(2, 8);
        assert_eq!(beyond.take_changed(), Some(seen(&[(2, 9)])));
        beyond.covered(2, 9);
        assert_eq!(beyond.take_changed(), Some(Vec::new()));
    }

    #[test]
    fn the_list_is_bounded_and_keeps_the_oldest_and_the_newest() {
        let mut beyond = SeenBeyond::new(seen(&[(1, 9)]));
        (2..40).for_each(|timeline| beyond.stored(timeline, 5));
        let now = beyond.take_changed().unwrap();
        assert_eq!((now.len(), now[0].timeline, now[MOST - 1].timeline), (MOST, 1, 39));
    }
}
