//! What came of applications and removals, as the ledger keeps it.
//!
//! In: outcomes, and Works whose objects are there or gone. Out: rows that say so, written without waiting for the disk.

use rusqlite::params;

use super::row::{change_guarded, encode_digests, still_open};
use super::{Ledger, LedgerError, Outcome};

impl Ledger {
    /// Applications that ended.
    ///
    /// # Errors
    /// Neither the file nor, in its place, memory can be written.
    pub fn ended(&self, outcomes: &[Outcome]) -> Result<(), LedgerError> {
        if outcomes.is_empty() {
            return Ok(());
        }
        self.relaxed(|transaction| {
            for Outcome { key, hash, applied, placed, written, unanswered } in outcomes {
                transaction
                    .prepare_cached(
                        "UPDATE works SET attempts = 0, crashes = 0, applied_hash = ?2, applied_ok = ?3,
                            applied_message = ?4, placed = max(placed, ?5), written = ?6, unanswered = ?7
                         WHERE key = ?1",
                    )?
                    .execute(params![
                        key,
                        hash.as_ref(),
                        applied.ok,
                        applied.message,
                        placed,
                        encode_digests(written),
                        still_open(*unanswered, !applied.ok)
                    ])?;
            }
            Ok(())
        })
    }

    /// The member took an object of this one, for a body that is no longer the one to apply.
    ///
    /// # Errors
    /// Neither the file nor, in its place, memory can be written.
    pub fn placed(&self, key: &str) -> Result<(), LedgerError> {
        self.each(&[key.to_owned()], "UPDATE works SET placed = 1 WHERE key = ?1 AND placed = 0")
    }

    /// The objects of these Works are gone from the member.
    ///
    /// # Errors
    /// Neither the file nor, in its place, memory can be written.
    pub fn removed(&self, keys: &[String]) -> Result<(), LedgerError> {
        if keys.is_empty() {
            return Ok(());
        }
        let remove = "UPDATE works SET phase = 2, attempts = 0, crashes = 0, unanswered = 0, former = '' WHERE key = ?1 AND phase = 1";
        self.relaxed(|transaction| {
            for key in keys {
                change_guarded(transaction, key, || {
                    transaction.prepare_cached(remove)?.execute([key]).map(drop)
                })?;
            }
            Ok(())
        })
    }
}
