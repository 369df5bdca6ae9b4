//! Whose ledger it is: the names that the agent's cluster has, and had, on the hub.
//!
//! In: the cluster's name of now. Out: the names before; under another name, a ledger whose cursor and epoch begin anew.
//!
//! A cursor, an epoch and what goes with them are of one cluster's Works. Under another name they begin anew, so that the hub lists all;
//! what was held stays held, as of a hub that knows nothing of it; and the name before is kept, as the member's objects bear it.

use rusqlite::Connection;

use super::changes::apply;
use super::meta::{FORMER_CURSOR, SEAL, SEEN, cluster_names, set_cluster_names, set_number};
use super::{Ledger, LedgerError};
use karmada_session::session::Change;

impl Ledger {
    /// The ledger is the one of `cluster` from now on. Where it was another's, the hub is asked for everything anew. Out: the names of
    /// those whose it was before.
    ///
    /// # Errors
    /// Neither the file nor, in its place, memory can be written.
    pub fn is_of(&self, cluster: &str) -> Result<Vec<String>, LedgerError> {
        let (before, _) = self.with(|connection| {
            let transaction = connection.transaction()?;
            let mut known = cluster_names(&transaction)?;
            let is_known = known.last().is_some_and(|name| name == cluster);
            let is_another = !known.is_empty() && !is_known;
            known.retain(|name| name != cluster);
            if is_another {
                begin_anew(&transaction)?;
            }
            if !is_known {
                let all: Vec<String> = known.iter().cloned().chain([cluster.to_owned()]).collect();
                set_cluster_names(&transaction, &all)?;
            }
            transaction.commit().map(|()| known)
        })?;
        Ok(before)
    }

    /// Puts back the names that a copy of the ledger had.
    ///
    /// # Errors
    /// Neither the file nor, in its place, memory can be written.
    pub fn restore_clusters(&self, clusters: &[String]) -> Result<(), LedgerError> {
        if clusters.is_empty() {
            return Ok(());
        }
        self.read(|connection| set_cluster_names(connection, clusters))
    }
}

/// Nothing of where another cluster's Works were told up to is left.
fn begin_anew(connection: &Connection) -> Result<(), rusqlite::Error> {
    apply(connection, &Change::Epoch(0))?;
    for key in [FORMER_CURSOR, SEAL, SEEN] {
        connection.execute("DELETE FROM meta WHERE key = ?1", [key])?;
    }
    set_number(connection, "timeline", 0)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn position(ledger: &Ledger) -> (u64, u64, u64, u64, Bytes) {
        let (epoch, cursor) = ledger.position().unwrap();
        let (timeline, former) = (ledger.timeline().unwrap(), ledger.former_cursor().unwrap());
        (epoch, cursor, timeline, former, ledger.epoch_seal().unwrap())
    }

    #[test]
    fn under_another_name_the_cursor_begins_anew_and_the_names_before_are_known() {
        let directory = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(directory.path()).unwrap();
        let seal = Bytes::from_static(b"proof");
        let told = [Change::Epoch(7), Change::Timeline(3), Change::Seal(seal.clone()), Change::Cursor(9)];
        ledger.commit(&told).unwrap();
        // One that an older agent wrote says no name.
        for _ in 0..2 {
            assert_eq!(ledger.is_of("one").unwrap(), Vec::<String>::new());
            assert_eq!(position(&ledger), (7, 9, 3, 0, seal.clone()));
        }
        drop(ledger);
        let ledger = Ledger::open(directory.path()).unwrap();
        assert_eq!(ledger.is_of("two").unwrap(), ["one"]);
        assert_eq!(position(&ledger), (0, 0, 0, 0, Bytes::new()));
        ledger.commit(&told).unwrap();
        assert_eq!(ledger.is_of("two").unwrap(), ["one"]);
        assert_eq!(position(&ledger), (7, 9, 3, 0, seal));
        assert_eq!(ledger.is_of("one").unwrap(), ["two"], "and back");
        assert_eq!(position(&ledger).1, 0);
    }

    #[test]
    fn a_copy_and_what_is_saved_of_a_damaged_ledger_know_whose_they_are() {
        let ledger = Ledger::in_memory().unwrap();
        for name in ["one", "two"] {
            ledger.is_of(name).unwrap();
        }
        let copy = ledger.snapshot(&[], 1).unwrap();
        let put_back = Ledger::in_memory().unwrap();
        put_back.restore_clusters(&copy.clusters).unwrap();
        assert_eq!(put_back.is_of("two").unwrap(), ["one"]);
        let saved = crate::schema::in_memory().unwrap();
        crate::schema::salvage(&ledger.store.lock().connection, &saved).unwrap();
        assert_eq!(cluster_names(&saved).unwrap(), ["one", "two"]);
    }
}
