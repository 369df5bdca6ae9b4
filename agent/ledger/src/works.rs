//! What the ledger holds of Works: what is to be enforced, and which objects may still be in the member.
//!
//! In: keys, hashes, objects that were found in the member, are none of a Work's any more, or were removed. Out: entries, bodies, what a
//! session must know.

use std::collections::BTreeMap;

use bytes::Bytes;
use rusqlite::{OptionalExtension, params};

use super::row::{COLUMNS, HELD, change_guarded, entry_of, former_text, held_of, set_guard};
use super::{Entry, Ledger, LedgerError, changes};
use karmada_member::ObjectId;
use karmada_session::session::HeldWork;

impl Ledger {
    /// What a session must know of each Work.
    ///
    /// # Errors
    /// Neither the file nor, in its place, what is in memory can be read.
    pub fn held(&self) -> Result<BTreeMap<String, HeldWork>, LedgerError> {
        self.read(|connection| {
            let mut query = connection.prepare_cached(HELD)?;
            let rows = query.query_map([], held_of)?;
            rows.collect()
        })
    }

    /// The keys of all Works.
    ///
    /// # Errors
    /// Neither the file nor, in its place, what is in memory can be read.
    pub fn keys(&self) -> Result<Vec<String>, LedgerError> {
        self.read(|connection| {
            let mut query = connection.prepare_cached("SELECT key FROM works ORDER BY key")?;
            let rows = query.query_map([], |row| row.get(0))?;
            rows.collect()
        })
    }

    /// One Work.
    ///
    /// # Errors
    /// Neither the file nor, in its place, what is in memory can be read.
    pub fn entry(&self, key: &str) -> Result<Option<Entry>, LedgerError> {
        let select = format!("SELECT {} FROM works WHERE key = ?1", COLUMNS.join(", "));
        self.read(|connection| {
            let mut query = connection.prepare_cached(&select)?;
            query.query_row([key], entry_of).optional()
        })
    }

    /// The body of a Work, where it is the one of this hash and can be read.
    pub fn body(&self, key: &str, hash: &[u8]) -> Option<Bytes> {
        let entry = self.entry(key).ok().flatten()?;
        (entry.hash == hash).then_some(entry.body)
    }

    /// The member has `objects` with the marks of Work `key`. Where no such Work is held it is from now on, by name alone: suspended and
    /// with nothing to apply, so that the agent touches them only where the hub says what is to become of that Work. True where that is news.
    ///
    /// # Errors
    /// Neither the file nor, in its place, memory can be written.
    pub fn found(&self, key: &str, objects: &[ObjectId]) -> Result<bool, LedgerError> {
        let (news, _) = self.with(|connection| {
            let transaction = connection.transaction()?;
            let news = changes::found(&transaction, key, objects)?;
            transaction.commit().map(|()| news)
        })?;
        self.wrote(true);
        if news {
            self.desired.send_modify(|count| *count += 1);
        }
        Ok(news)
    }

    /// `object`, which the row `key` notes as found, is none of it any more; a row that notes nothing more is done with. True where that
    /// is news.
    ///
    /// # Errors
    /// Neither the file nor, in its place, memory can be written.
    pub fn lost(&self, key: &str, object: &ObjectId) -> Result<bool, LedgerError> {
        let is_it = |id: &ObjectId| id.unversioned() == object.unversioned();
        let Some(entry) = self.entry(key)?.filter(|entry| entry.is_stray() && entry.former.iter().any(is_it))
        else {
            return Ok(false);
        };
        let left: Vec<ObjectId> = entry.former.into_iter().filter(|id| !is_it(id)).collect();
        self.relaxed(|connection| {
            let lose =
                "UPDATE works SET former = ?2, phase = CASE ?2 WHEN '' THEN 2 ELSE phase END WHERE key = ?1";
            connection.prepare_cached(lose)?.execute(params![key, former_text(&left)])?;
            set_guard(connection, key)
        })?;
        Ok(true)
    }

    /// Objects that earlier bodies of this Work named, and the one of `hash` does not, are gone from the member.
    ///
    /// # Errors
    /// Neither the file nor, in its place, memory can be written.
    pub fn former_removed(&self, key: &str, hash: &Bytes) -> Result<(), LedgerError> {
        self.relaxed(|transaction| {
            let forget = "UPDATE works SET former = '' WHERE key = ?1 AND hash = ?2";
            change_guarded(transaction, key, || {
                transaction.prepare_cached(forget)?.execute(params![key, hash.as_ref()]).map(drop)
            })
        })
    }
}
