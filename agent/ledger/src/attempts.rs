//! Which Works are being worked on, so that the next process knows what this one may have ended over, and what it may have asked of the
//! member.
//!
//! In: that work on a Work begins, came back, panicked; that the process ends on purpose, or that another process had the ledger. Out: the
//! suspects of a crash, and how often each Work alone was one.

use rusqlite::{Connection, params};

use super::row::{NOTHING_COMES, TO_BE_WRITTEN, UNANSWERED, still_open};
use super::{Ledger, LedgerError};

impl Ledger {
    /// The Works that were being worked on when the process before ended without a word.
    pub fn suspects(&self) -> &[String] {
        &self.suspects
    }

    /// What was under way when the process before ended may have ended it. It counts against a Work that was alone; of several,
    /// nobody knows which it was.
    pub(super) fn after_a_crash(&self) -> Result<Vec<String>, LedgerError> {
        // How far the process before came with what was next, nobody knows.
        self.relaxed(|connection| {
            let next = "UPDATE works SET unanswered = ?1 WHERE unanswered = ?2";
            connection.execute(next, [UNANSWERED, TO_BE_WRITTEN]).map(drop)
        })?;
        let suspects: Vec<String> = self.read(|connection| {
            let mut query = connection.prepare("SELECT key FROM works WHERE attempts > 0 ORDER BY key")?;
            let rows = query.query_map([], |row| row.get(0))?;
            rows.collect()
        })?;
        if !suspects.is_empty() {
            let counts = i64::from(suspects.len() == 1);
            tracing::warn!(works = ?suspects, "the process before ended while it worked on these");
            self.relaxed(|connection| {
                let undo =
                    "UPDATE works SET attempts = 0, placed = 1, crashes = crashes + ?1 WHERE attempts > 0";
                connection.execute(undo, [counts]).map(drop)
            })?;
        }
        Ok(suspects)
    }

    /// Another process worked with the ledger until now: what it had under way counts as at a start. Out: the suspects.
    ///
    /// # Errors
    /// Neither the file nor, in its place, memory can be written.
    pub fn after_another(&self) -> Result<Vec<String>, LedgerError> {
        self.after_a_crash()
    }

    /// Work on these begins: said before it begins. The member may be asked to write what is desired, and neither the process nor the
    /// machine may be there any more when it does. True where that was synced: that a write is next is on disk already with a new body
    /// and after a failure; of what was applied, one sync says it for all that begin together.
    ///
    /// # Errors
    /// Neither the file nor, in its place, memory can be written.
    pub fn begins(&self, keys: &[String]) -> Result<bool, LedgerError> {
        if keys.is_empty() {
            return Ok(false);
        }
        let begin = |connection: &Connection| {
            for key in keys {
                let begin = "UPDATE works SET attempts = 1, unanswered = CASE phase WHEN 0 THEN ?2 ELSE unanswered END WHERE key = ?1";
                connection.prepare_cached(begin)?.execute(params![key, UNANSWERED])?;
            }
            Ok(())
        };
        if self.all_are_to_be_written(keys)? {
            return self.relaxed(begin).map(|()| false);
        }
        self.read(|connection| {
            let transaction = connection.transaction()?;
            begin(&transaction)?;
            transaction.commit()
        })?;
        self.wrote(true);
        Ok(true)
    }

    /// Whether it is on disk of each of these that something may come of a write, as far as one is desired.
    fn all_are_to_be_written(&self, keys: &[String]) -> Result<bool, LedgerError> {
        self.read(|connection| {
            let news = "SELECT 1 FROM works WHERE key = ?1 AND phase = 0 AND unanswered = ?2";
            let mut news = connection.prepare_cached(news)?;
            let mut is_known =
                |key: &String| news.exists(params![key, NOTHING_COMES]).map(|is_news| !is_news);
            keys.iter().try_fold(true, |all, key| Ok(all && is_known(key)?))
        })
    }

    /// Work on this one ended, whatever came of it; `unanswered` as in [`Entry::unanswered`], `next`: a write of it is to be tried again.
    ///
    /// # Errors
    /// Neither the file nor, in its place, memory can be written.
    pub fn came_back(&self, key: &str, unanswered: bool, next: bool) -> Result<(), LedgerError> {
        let open = still_open(unanswered, next);
        self.relaxed(|transaction| {
            let end = "UPDATE works SET attempts = 0, crashes = 0, unanswered = ?2
                 WHERE key = ?1 AND (attempts > 0 OR crashes > 0 OR unanswered <> ?2)";
            transaction.prepare_cached(end)?.execute(params![key, open]).map(drop)
        })
    }

    /// Nothing comes any more of what these had begun.
    ///
    /// # Errors
    /// Neither the file nor, in its place, memory can be written.
    pub fn clear_unanswered(&self, keys: &[String]) -> Result<(), LedgerError> {
        let clear = "UPDATE works SET unanswered = 0 WHERE key = ?1 AND unanswered <> 0 AND attempts = 0";
        self.each(keys, clear)
    }

    /// Working on this one would have ended the process, had it not been caught.
    ///
    /// # Errors
    /// Neither the file nor, in its place, memory can be written.
    pub fn panicked(&self, key: &str) -> Result<(), LedgerError> {
        let count = "UPDATE works SET attempts = 0, placed = 1, crashes = crashes + 1 WHERE key = ?1";
        self.each(&[key.to_owned()], count)
    }

    /// The process ends on purpose: what is under way is no crash, though it may have placed something.
    ///
    /// # Errors
    /// Neither the file nor, in its place, memory can be written.
    pub fn stops(&self) -> Result<(), LedgerError> {
        self.relaxed(|connection| {
            connection.execute("UPDATE works SET attempts = 0, placed = 1 WHERE attempts > 0", [])?;
            // What was not begun is not under way.
            let not_begun = "UPDATE works SET unanswered = ?1 WHERE unanswered = ?2";
            connection.execute(not_begun, [NOTHING_COMES, TO_BE_WRITTEN]).map(drop)
        })
    }
}
