//! One process at a time: a lock on a file beside the store's.
//!
//! In: the store's path. Out: the lock, held until it is dropped, or at once an error where another process has it. The file beside the
//! store stays there.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::StoreError;

/// Keeps other processes away for as long as any of our threads holds it. The kernel lets go of it however
/// the process ends.
pub(super) struct FileLock {
    _file: File,
}

/// Takes the lock of the store at `path`.
///
/// # Errors
/// Another process holds it, or the file beside cannot be made.
pub(super) fn lock(path: &Path) -> Result<Arc<FileLock>, StoreError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let name = PathBuf::from(name);
    let refused = |why: String| StoreError::Backend(format!("{}: {why}", path.display()));
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(&name)
        .map_err(|error| refused(format!("cannot open the lock file {}: {error}", name.display())))?;
    match file.try_lock() {
        Ok(()) => Ok(Arc::new(FileLock { _file: file })),
        Err(TryLockError::WouldBlock) => {
            Err(refused("is in use by another process; only one hub may use it".into()))
        }
        Err(TryLockError::Error(error)) => Err(refused(format!("cannot lock: {error}"))),
    }
}
