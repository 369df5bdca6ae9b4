//! The directory of the agent's state: its key, its ledger with the Secrets in it. Nobody but its owner may look into it, and one process
//! at a time has it.
//!
//! In: the path. Out: a directory of mode 0700, and the lock on it, for which it waits without end; a directory that others may enter and
//! that cannot be closed is refused.

use std::fs::{File, TryLockError};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Between two looks whether another process has let go of it.
const AGAIN: Duration = Duration::from_millis(500);

/// Why the directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateDirError {
    /// It cannot be made or looked at.
    #[error("the state directory {0}: {1}")]
    File(PathBuf, #[source] std::io::Error),
    /// Others may enter it, and it is not ours to close.
    #[error(
        "the state directory {0} has mode {1:04o}, so that others on this machine may reach the agent's key and the member's Secrets, \
         and it belongs to somebody else: give --state-dir a directory of the agent's own, for example {0}/agent"
    )]
    Open(PathBuf, u32),
    /// It is something else.
    #[error("the state directory {0} is no directory")]
    NoDirectory(PathBuf),
}

/// Makes `path`, mode 0700, or closes it to others where it is wider. True where it was wider.
///
/// # Errors
/// It cannot be made, or it is open to others and cannot be closed.
pub fn prepare(path: &Path) -> Result<bool, StateDirError> {
    let fail = |error| StateDirError::File(path.to_owned(), error);
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(fail)?;
    let metadata = std::fs::metadata(path).map_err(fail)?;
    if !metadata.is_dir() {
        return Err(StateDirError::NoDirectory(path.to_owned()));
    }
    let mode = metadata.mode() & 0o7777;
    if mode & 0o077 == 0 {
        return Ok(false);
    }
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700))
        .map_err(|_| StateDirError::Open(path.to_owned(), mode))?;
    Ok(true)
}

/// The directory while this process has it for itself. The kernel takes that back however the process ends.
#[derive(Debug)]
pub struct StateDirLock {
    _directory: Option<File>,
}

/// Waits until no other process has `path`. It is to be called before anything in it is read: what another agent still changes there is
/// out of date as soon as it is read. A file system that knows no such locks keeps nobody from working.
pub async fn hold(path: &Path) -> StateDirLock {
    let mut told = false;
    loop {
        match lock(path) {
            Ok(directory) => return StateDirLock { _directory: Some(directory) },
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => {
                tracing::warn!(directory = %path.display(), %error, "the state directory cannot be locked: nothing keeps a second agent out of it");
                return StateDirLock { _directory: None };
            }
        }
        if !told {
            tracing::warn!(directory = %path.display(), "another agent works with this state directory: this one does nothing until that one ends");
            told = true;
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// The directory itself is what is locked: a full disk takes no file more.
fn lock(path: &Path) -> Result<File, TryLockError> {
    let directory = File::open(path).map_err(TryLockError::Error)?;
    directory.try_lock()?;
    Ok(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_process_at_a_time_has_it() {
        let state = tempfile::tempdir().unwrap();
        let first = hold(state.path()).await;
        let mut second = Box::pin(hold(state.path()));
        let early = tokio::time::timeout(Duration::from_secs(60), &mut second).await;
        assert!(early.is_err(), "the first has it");
        drop(first);
        second.await;
        hold(&state.path().join("nowhere")).await;
    }

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn it_is_made_private_and_closed_where_it_was_open() {
        let outside = tempfile::tempdir().unwrap();
        let path = outside.path().join("a/b");
        assert!(!prepare(&path).unwrap());
        assert_eq!(mode(&path), 0o700);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(prepare(&path).unwrap());
        assert_eq!(mode(&path), 0o700);
        std::fs::write(outside.path().join("file"), "").unwrap();
        assert!(prepare(&outside.path().join("file")).is_err());
    }

    #[test]
    fn one_that_cannot_be_closed_is_refused_with_words() {
        let error = StateDirError::Open("/var/lib/x".into(), 0o2777).to_string();
        assert!(error.contains("mode 2777") && error.contains("/var/lib/x/agent"), "{error}");
    }
}
