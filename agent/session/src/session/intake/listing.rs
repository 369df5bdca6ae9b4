//! Listings: the hub tells all that it wants, or what differs of it from what is held.
//!
//! In: the start and the end of a listing, and between them what the hub asks and says to find the differences. Out: changes for the
//! ledger, answers, and what is held that the hub knows nothing of: reported as orphans, and never removed.

use std::collections::BTreeSet;

use bytes::Bytes;
use karmada_proto::v1::{self, Table, agent_frame};

use super::{Change, Intake, Out};
use crate::session::held::Phase;

/// Bytes of keys and contents in one frame of rows: well below what a slow link takes in a second.
const ROWS: usize = 16 * 1024;
/// Bytes of a row beside its key: a digest, a part of a hash, and what tells the fields apart.
const ROW: usize = 30;
/// Bytes of a body's hash in a row.
const HASH: usize = 4;

/// A listing that is under way.
#[derive(Debug)]
pub(super) enum Listing {
    /// Everything that the hub wants: these came so far.
    Whole(BTreeSet<String>),
    /// Only what differs: what is lacking on the hub, so far.
    Differences(BTreeSet<String>),
}

impl Intake {
    /// A listing begins. What is held may be of a history that the hub has not: revisions and the cursor count from
    /// what is listed now, be they lower.
    pub(in crate::session) fn listing_starts(&mut self, start: &v1::SnapshotStart) {
        if !start.differences || start.anew {
            // Written down: what is not listed is held on under its name, and later tombstones for that name must not pass for older ones.
            if self.cursor > 0 || self.held.iter().any(|(_, held)| held.revision > 0) {
                self.changes.push(Change::Listing);
            }
            self.held.revisions_begin_anew();
            (self.cursor, self.next_cursor, self.lazy_cursor, self.acked) = (0, 0, 0, 0);
        }
        let differences = || Listing::Differences(BTreeSet::new());
        self.listing = Some(if start.differences { differences() } else { Listing::Whole(BTreeSet::new()) });
        self.withheld = false;
        // Which these are its end will say.
        self.orphans = None;
    }

    /// What is held beyond a listing is an orphan suspect, reported and never removed; what was removed
    /// already needs no more word of the hub.
    pub(in crate::session) fn snapshot_end(&mut self, end: v1::SnapshotEnd) {
        let Some(listing) = self.listing.take() else { return };
        let is_differences = matches!(listing, Listing::Differences(_));
        let (mut orphans, mut done) = (BTreeSet::new(), Vec::new());
        for (key, held) in self.held.iter() {
            let is_listed = match &listing {
                Listing::Whole(listed) => listed.contains(key),
                Listing::Differences(lacking) => !lacking.contains(key) && !self.held.orphans().contains(key),
            };
            match held.phase {
                _ if is_listed => {}
                Phase::Desired => drop(orphans.insert(key.clone())),
                Phase::Removed => done.push(key.clone()),
                Phase::Deleting => {}
            }
        }
        for key in done {
            self.held.remove(&key);
            self.changes.push(Change::Forget { key });
        }
        if let Listing::Differences(lacking) = listing {
            self.end_of_differences(&orphans, &lacking, end.cursor);
        }
        if !orphans.is_empty() {
            self.orphans = Some(orphans.iter().cloned().collect());
        }
        self.held.set_orphans(orphans);
        self.withheld = end.withheld;
        if is_differences {
            // The end is acknowledged also where the cursor stays where it was.
            self.acked = 0;
        }
        self.moves_to(end.cursor);
    }

    /// All that was not lacking is what the hub wants: it has a revision in the life that is spoken with.
    fn end_of_differences(&mut self, orphans: &BTreeSet<String>, lacking: &BTreeSet<String>, cursor: u64) {
        for key in lacking.intersection(orphans) {
            self.held.change(key, |held| held.revision = 0);
            self.changes.push(Change::Unlisted { key: key.clone() });
        }
        self.held.set_orphans(orphans.clone());
        for key in self.held.listed_at(cursor) {
            self.changes.push(Change::Listed { key, revision: cursor });
        }
    }

    /// The hub has no such Works.
    pub(in crate::session) fn lacking(&mut self, keys: Vec<String>) {
        if let Some(Listing::Differences(lacking)) = &mut self.listing {
            lacking.extend(keys.into_iter().filter(|key| self.held.get(key).is_some()));
        }
    }

    /// The hub asks for the sums of the buckets.
    pub(in crate::session) fn compare(&self, out: &mut Out) {
        let sums = self.held.buckets().bytes();
        out.push_back(agent_frame::Body::Buckets(v1::Buckets { table: Table::Works as u32, sums }));
    }

    /// The hub asks for the rows of some buckets.
    pub(in crate::session) fn differing(&self, buckets: &BTreeSet<u32>, out: &mut Out) {
        let (mut rows, mut bytes) = (Vec::new(), 0);
        let table = Table::Works as u32;
        for (key, held) in self.held.rows_in(buckets) {
            bytes += key.len() + ROW;
            let content = Bytes::copy_from_slice(&held.content);
            let hash = held.hash.slice(..held.hash.len().min(HASH));
            rows.push(v1::Row { key: key.to_owned(), content, hash });
            if bytes >= ROWS {
                let rows = std::mem::take(&mut rows);
                out.push_back(agent_frame::Body::Rows(v1::Rows { table, rows, last: false }));
                bytes = 0;
            }
        }
        out.push_back(agent_frame::Body::Rows(v1::Rows { table, rows, last: true }));
    }

    pub(super) fn note_listed(&mut self, key: &str) {
        if let Some(Listing::Whole(listed)) = &mut self.listing {
            listed.insert(key.to_owned());
        }
    }
}
