//! Whether the store's files are still where they were opened. A file that was removed or moved away takes writes like any other, and
//! keeps none of them beyond the process.
//!
//! In: the path of the database, once it is open. Out: at each commit, whether the database and its log are the same files.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The files that acknowledged writes are in.
#[derive(Debug)]
pub(super) struct InPlace(Vec<(PathBuf, (u64, u64))>);

impl InPlace {
    /// The database and its log as they are now; the log is there from the first write on.
    ///
    /// # Errors
    /// The database cannot be looked at.
    pub fn of(database: &Path) -> std::io::Result<InPlace> {
        let mut log = database.as_os_str().to_owned();
        log.push("-wal");
        let mut files = vec![(database.to_owned(), identity(database)?)];
        let log = PathBuf::from(log);
        if let Ok(identity) = identity(&log) {
            files.push((log, identity));
        }
        Ok(InPlace(files))
    }

    /// # Errors
    /// Which file is not there any more, or is another one, and what to do.
    pub fn check(&self) -> Result<(), String> {
        let moved = self.0.iter().find(|(path, before)| identity(path).ok() != Some(*before));
        moved.map_or(Ok(()), |(path, _)| {
            let path = path.display();
            Err(format!(
                "{path} was removed, moved or replaced while it is open: nothing is acknowledged until it is put back; what was \
                 acknowledged before is in the file that was moved, or in a backup"
            ))
        })
    }
}

/// Device and inode.
fn identity(path: &Path) -> std::io::Result<(u64, u64)> {
    std::fs::metadata(path).map(|found| (found.dev(), found.ino()))
}
