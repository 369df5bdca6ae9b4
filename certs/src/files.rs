//! Files of keys: written whole or not at all, readable by their owner only.
//!
//! In: a path, and the text to keep. Out: the file on disk, synced, or its text. Blocks.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::CertError;

/// Writes `contents` with mode 0600 beside `path`, syncs it, and renames it into place.
///
/// # Errors
/// [`CertError::File`]: it cannot be written, synced or renamed; the file at `path` is then the old one or the whole new one.
pub fn write_private(path: &Path, contents: &[u8]) -> Result<(), CertError> {
    let fail = |source| CertError::File { action: "writing", path: path.to_owned(), source };
    let mut staged = path.as_os_str().to_owned();
    staged.push(".new");
    let staged = Path::new(&staged);
    // A leftover of a crash may have another mode.
    match fs::remove_file(staged) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(fail(error)),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(staged).map_err(fail)?;
    file.write_all(contents).map_err(fail)?;
    file.sync_all().map_err(fail)?;
    fs::rename(staged, path).map_err(fail)?;
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent).and_then(|dir| dir.sync_all()).map_err(fail)
}

/// The file's text, or `None` where there is no such file.
///
/// # Errors
/// [`CertError::File`]: it is there and cannot be read, or is no UTF-8.
pub fn read(path: &Path) -> Result<Option<String>, CertError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(CertError::File { action: "reading", path: path.to_owned(), source }),
    }
}

/// Removes the file, where it is there.
///
/// # Errors
/// [`CertError::File`]: it is there and cannot be removed.
pub fn remove(path: &Path) -> Result<(), CertError> {
    match fs::remove_file(path) {
        Err(source) if source.kind() != ErrorKind::NotFound => {
            Err(CertError::File { action: "removing", path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_private_file_is_replaced_whole_and_stays_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ca.key");
        assert!(read(&path).unwrap().is_none());
        fs::write(dir.path().join("ca.key.new"), "left by a crash").unwrap();
        write_private(&path, b"one").unwrap();
        write_private(&path, b"two").unwrap();
        assert_eq!(read(&path).unwrap().as_deref(), Some("two"));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
