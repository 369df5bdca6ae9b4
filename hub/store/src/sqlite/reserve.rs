//! Room on the disk that is kept for when there is no other: with it, what makes the store no larger can still be written on a
//! full disk: deletions above all, which free space.
//!
//! In: the writer's failures and tries. Out: whether the store is short of room. The room is a file beside the database that holds
//! nothing; it is given up at the first write that fails for want of room, and made again as soon as the disk has that much and
//! somewhat more. Without that margin the file would be made of the space that it just gave up, and the disk would look free until the next
//! write. Until then pages of the database that deletions have freed stand in for it.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode};

/// What the disk must have beside the room: more than one write needs.
const MARGIN: u64 = 4 << 20;
/// The part of the room that puts may take, and the part that those of deletions may; the rest is for deletions themselves, and for forgetting what
/// was deleted.
const PUTS_PART: u64 = 4;
const DELETIONS_PART: u64 = 4;

/// The room, or the lack of it.
#[derive(Debug)]
pub(super) struct Reserve {
    file: PathBuf,
    bytes: u64,
    is_there: bool,
    /// What puts have taken of the room since it was given up, and what puts of deletions have.
    taken: u64,
    taken_by_deletions: u64,
}

/// What puts may still take while the store is short of room, in bytes. Each adds a row, however much it replaces: without an end to that,
/// nothing would be left for deletions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PutRoom {
    /// Pages of the database that hold nothing.
    pub freed: u64,
    /// Of the room that was kept.
    pub kept: u64,
    /// The same for puts that a deletion begins or ends with: its stamp, and what takes finalizers off.
    pub deletions: u64,
}

impl PutRoom {
    /// Takes so many bytes. False: there are not so many.
    pub fn take(&mut self, bytes: u64, of_deletion: bool) -> bool {
        let from = match of_deletion {
            _ if self.freed >= bytes => &mut self.freed,
            true => &mut self.deletions,
            false => &mut self.kept,
        };
        let left = from.checked_sub(bytes);
        *from = left.unwrap_or(*from);
        left.is_some()
    }
}

impl Reserve {
    /// Makes the room beside `database`; 0 bytes: none is kept, and none is missed.
    pub fn open(database: &Path, bytes: u64) -> Reserve {
        let mut name = database.as_os_str().to_owned();
        name.push(".reserve");
        let mut reserve =
            Reserve { file: PathBuf::from(name), bytes, is_there: false, taken: 0, taken_by_deletions: 0 };
        if let Err(error) = reserve.restore() {
            tracing::warn!(%error, file = %reserve.file.display(), bytes, "no room can be kept for a full disk");
        }
        reserve
    }

    /// Gives the room up. False: there was none to give.
    pub fn release(&mut self) -> bool {
        if self.bytes == 0 || !self.is_there {
            return false;
        }
        self.is_there = false;
        if let Err(error) = std::fs::remove_file(&self.file) {
            tracing::warn!(%error, file = %self.file.display(), "the room kept for a full disk cannot be given up");
        }
        true
    }

    /// Whether a write failed for want of room.
    pub fn is_full(&self, error: &rusqlite::Error) -> bool {
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => true,
            // A log that cannot grow may say so as a failure of the disk; but so does a disk that takes no writes at all.
            Some(ErrorCode::SystemIoFailure) => !self.has_margin(),
            _ => false,
        }
    }

    fn has_margin(&self) -> bool {
        self.has_room(MARGIN)
    }

    fn has_room(&self, bytes: u64) -> bool {
        let folder = self.file.parent().filter(|folder| !folder.as_os_str().is_empty());
        let disk = rustix::fs::statvfs(folder.unwrap_or(Path::new(".")));
        disk.is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) >= bytes)
    }

    /// Whether the room is there.
    pub fn is_whole(&self) -> bool {
        self.is_there
    }

    /// Where only what makes the store no larger may be written: what of that may be puts. Takes the room again where the disk has it.
    pub fn shortage(&mut self, db: &Connection) -> Option<PutRoom> {
        if self.is_there {
            return None;
        }
        if self.has_room(self.bytes + MARGIN) && self.restore().is_ok() {
            (self.taken, self.taken_by_deletions) = (0, 0);
            return None;
        }
        let freed = self.freed(db);
        (freed < self.bytes).then(|| self.put_room(freed))
    }

    /// The same right after the room was given up.
    pub fn put_room(&self, freed: u64) -> PutRoom {
        PutRoom {
            freed,
            kept: (self.bytes / PUTS_PART).saturating_sub(self.taken),
            deletions: (self.bytes / DELETIONS_PART).saturating_sub(self.taken_by_deletions),
        }
    }

    /// Puts took what is missing in `left` of what they might take.
    pub fn took(&mut self, left: PutRoom) {
        self.taken = (self.bytes / PUTS_PART).saturating_sub(left.kept);
        self.taken_by_deletions = (self.bytes / DELETIONS_PART).saturating_sub(left.deletions);
    }

    /// Bytes of the database's pages that hold nothing.
    fn freed(&self, db: &Connection) -> u64 {
        let number = |name: &str| db.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).unwrap_or(0);
        number("freelist_count").max(0).cast_unsigned() * number("page_size").max(0).cast_unsigned()
    }

    fn restore(&mut self) -> std::io::Result<()> {
        let made = allocate(&self.file, self.bytes, MARGIN);
        if made.is_err() {
            // Half of it would only be missed elsewhere.
            let _ = std::fs::remove_file(&self.file);
        }
        self.is_there = made.is_ok();
        made
    }
}

/// Makes a file of so many bytes where the disk has `margin` more.
fn allocate(path: &Path, bytes: u64, margin: u64) -> std::io::Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    let all = bytes + margin;
    let mut file: File =
        OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)?;
    match rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, all) {
        // Not every file system can; writing always does it.
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
            let block = [0; 64 << 10];
            let mut left = all;
            while left > 0 {
                let part = left.min(block.len() as u64);
                file.write_all(&block[..part as usize])?;
                left -= part;
            }
            file.sync_data()?;
        }
        outcome => outcome?,
    }
    file.set_len(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn puts_leave_to_deletions_what_is_theirs() {
        let mut room = PutRoom { freed: 10, kept: 5, deletions: 4 };
        assert!(room.take(6, false), "of what is free already");
        assert!(room.take(5, false) && !room.take(5, false) && !room.take(5, true));
        assert!(room.take(4, true), "what is left free is enough for it");
        assert!(room.take(4, true) && !room.take(1, true));
        assert_eq!(room, PutRoom { freed: 0, kept: 0, deletions: 0 });
    }
}
