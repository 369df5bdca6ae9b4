//! What the hub was told of each Work, for the next process: lost in a crash, it is told once more.
//!
//! In: digests of what was told. Out: the same to the next process; one that cannot be read counts as not told.

use std::collections::BTreeMap;

use karmada_proto::digest::Content;
use rusqlite::params;

use super::{Ledger, LedgerError};
use karmada_session::outbox::ToldStatus;

/// Three digests; of the statuses all zero where none were told.
fn blob(told: &ToldStatus) -> Vec<u8> {
    [told.content, told.statuses.unwrap_or_default(), told.uid].concat()
}

fn read(blob: &[u8]) -> Option<ToldStatus> {
    let (parts, rest) = blob.as_chunks::<16>();
    let [content, statuses, uid]: [Content; 3] = parts.try_into().ok()?;
    let statuses = Some(statuses).filter(|statuses| *statuses != Content::default());
    rest.is_empty().then_some(ToldStatus { content, statuses, uid })
}

impl Ledger {
    /// What the hub was told of each Work.
    ///
    /// # Errors
    /// Neither the file nor, in its place, what is in memory can be read.
    pub fn told(&self) -> Result<BTreeMap<String, ToldStatus>, LedgerError> {
        let rows: Vec<(String, Vec<u8>)> = self.read(|connection| {
            let mut query = connection.prepare("SELECT key, told FROM works WHERE told != x''")?;
            let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.collect()
        })?;
        Ok(rows.into_iter().filter_map(|(key, told)| Some((key, read(&told)?))).collect())
    }

    /// The hub was told this of these Works. Not waited for on the disk.
    ///
    /// # Errors
    /// Neither the file nor, in its place, memory can be written.
    pub fn set_told(&self, told: &[(String, Option<ToldStatus>)]) -> Result<(), LedgerError> {
        if told.is_empty() {
            return Ok(());
        }
        self.relaxed(|connection| {
            for (key, told) in told {
                let set = "UPDATE works SET told = ?2 WHERE key = ?1";
                let told = told.as_ref().map(blob).unwrap_or_default();
                connection.prepare_cached(set)?.execute(params![key, told])?;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use karmada_session::session::Change;

    fn put(key: &str) -> Change {
        Change::Put {
            key: key.into(),
            uid: "u".into(),
            revision: 1,
            hash: karmada_proto::body::hash(b"{}"),
            body: Bytes::from_static(b"{}"),
            suspended: false,
            preserve: false,
            generation: 1,
            retry: String::new(),
        }
    }

    #[test]
    fn what_was_told_outlives_the_process_and_not_the_work() {
        let ledger = Ledger::in_memory().unwrap();
        let put = put("a");
        ledger.commit(std::slice::from_ref(&put)).unwrap();
        let told = ToldStatus { content: [1; 16], statuses: None, uid: [3; 16] };
        let both = ToldStatus { statuses: Some([2; 16]), ..told };
        for now in [told, both] {
            ledger.set_told(&[("a".into(), Some(now)), ("gone".into(), Some(now))]).unwrap();
            assert_eq!(ledger.told().unwrap(), [("a".to_owned(), now)].into());
        }
        ledger.commit(&[put]).unwrap();
        assert_eq!(ledger.told().unwrap().len(), 1, "a newer body tells nothing of it");
        ledger.set_told(&[("a".into(), None)]).unwrap();
        assert!(ledger.told().unwrap().is_empty());
    }

    #[test]
    fn what_was_told_is_saved_of_a_damaged_ledger_with_the_rows_that_can_be_read() {
        let dir = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(dir.path()).unwrap();
        let told = ToldStatus { content: [1; 16], statuses: Some([2; 16]), uid: [3; 16] };
        for key in ["a", "b"] {
            ledger.commit(&[put(key)]).unwrap();
            ledger.set_told(&[(key.into(), Some(told))]).unwrap();
        }
        let other = rusqlite::Connection::open(dir.path().join("ledger.sqlite")).unwrap();
        other.execute("UPDATE works SET body = x'6f6e66' WHERE key = 'a'", []).unwrap();
        assert!(ledger.entry("a").unwrap().is_none() && ledger.relists() == 1);
        assert_eq!(ledger.told().unwrap(), [("b".to_owned(), told)].into());
    }
}
