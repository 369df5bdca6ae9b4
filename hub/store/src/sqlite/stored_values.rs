//! Values as they are stored, for who hands them over encrypted and has to write them down anew under another key.
//!
//! In: stretches of the log, other bytes for some of its rows. Out: the same writes in these bytes, and a file wiped of what it held
//! before ([`rewrite`]).

use super::batch::Operation;
use super::rewrite::{self, StoredValue, Stretch};
use super::{SqliteStore, failed};
use crate::{Revision, StoreError};

impl SqliteStore {
    /// The values that were put after revision `after` and up to `through`, of as many writes as are read at once. A damaged one is
    /// left out, and named in the log of the process.
    ///
    /// # Errors
    /// The file cannot be read.
    pub async fn stored_values(&self, after: Revision, through: Revision) -> Result<Stretch, StoreError> {
        self.readers.run(move |db| rewrite::values(db, after, through).map_err(|error| failed(&error))).await
    }

    /// Writes values anew, each in place of what its write put there, where that is still kept. Returns how many it was.
    ///
    /// # Errors
    /// It cannot be written, or the store is closed; nothing was written then.
    pub async fn rewrite(&self, values: Vec<StoredValue>) -> Result<u64, StoreError> {
        self.writes.submit(Operation::Rewrite(values)).await
    }

    /// Wipes what the file held before and holds no more, and remembers that as `mark`, which is not 0. Writes wait meanwhile.
    ///
    /// # Errors
    /// The file cannot be wiped or written; nothing is remembered then.
    pub async fn clean(&self, layout: u64) -> Result<(), StoreError> {
        self.writes.clean(layout).await
    }

    /// The mark of the last [`SqliteStore::clean`], unless something was rewritten since.
    ///
    /// # Errors
    /// The file cannot be read.
    pub async fn cleaned(&self) -> Result<Option<u64>, StoreError> {
        self.readers.run(|db| rewrite::cleaned(db).map_err(|error| failed(&error))).await
    }
}
