//! The last acknowledged write, kept outside the write-ahead log: a log that was cut, or whose end cannot be read, is SQLite's
//! sign of a crash, and it goes on with what is before. It does not know which of the lost writes clients had an answer for.
//!
//! In: where the store stands after each commit, before anybody is answered. Out: at the start, what must be there. The file
//! beside the database has two places, a disk's block each, that are written in turn, so that one that was being written when the power
//! went leaves the other; each has a checksum. Writing it is a second wait for the disk in each group commit. It cannot share the
//! first: were this file on the disk before the log, a power cut between the two would look like a loss.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use twox_hash::XxHash3_64;

use super::schema::Meta;
use crate::Revision;

const MAGIC: &[u8; 8] = b"kmst-ack";
const RECORD: usize = 32;
const PLACE: u64 = 4096;

/// What has been acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AcknowledgedPosition {
    pub epoch: u64,
    pub revision: Revision,
}

impl AcknowledgedPosition {
    /// Where a store stands.
    pub fn of(meta: &Meta) -> AcknowledgedPosition {
        AcknowledgedPosition { epoch: meta.epoch, revision: meta.head }
    }

    fn encode(self) -> [u8; RECORD] {
        let mut record = [0; RECORD];
        record[..8].copy_from_slice(MAGIC);
        record[8..16].copy_from_slice(&self.epoch.to_le_bytes());
        record[16..24].copy_from_slice(&self.revision.to_le_bytes());
        let sum = XxHash3_64::oneshot(&record[..24]);
        record[24..].copy_from_slice(&sum.to_le_bytes());
        record
    }

    fn decode(record: &[u8]) -> Option<AcknowledgedPosition> {
        let number = |at: usize| Some(u64::from_le_bytes(record.get(at..at + 8)?.try_into().ok()?));
        let position = AcknowledgedPosition { epoch: number(8)?, revision: number(16)? };
        (record.get(..RECORD)? == position.encode()).then_some(position)
    }
}

/// The name of the file beside `database`.
pub(super) fn beside(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(".acknowledged");
    PathBuf::from(name)
}

/// What a file tells.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Recorded {
    /// There is no file.
    Nothing,
    /// Neither place can be read.
    Garbage,
    /// This much was acknowledged.
    Acknowledged(AcknowledgedPosition),
}

/// Reads the file beside `database`.
pub(super) fn read(database: &Path) -> std::io::Result<Recorded> {
    let content = match std::fs::read(beside(database)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Recorded::Nothing),
        content => content?,
    };
    Ok(Recorded::by(&content))
}

impl Recorded {
    fn by(content: &[u8]) -> Recorded {
        let second = content.get(PLACE as usize..).unwrap_or_default();
        let position = AcknowledgedPosition::decode(content).max(AcknowledgedPosition::decode(second));
        position.map_or(Recorded::Garbage, Recorded::Acknowledged)
    }
}

/// The file, open for writing.
pub(super) struct Acknowledged {
    file: File,
    written: AcknowledgedPosition,
    second: bool,
    is_durable: bool,
}

impl Acknowledged {
    /// Opens or makes the file beside `database`, and writes `mark` into both of its places, one after the other.
    pub fn begin(
        database: &Path,
        position: AcknowledgedPosition,
        is_durable: bool,
    ) -> std::io::Result<Acknowledged> {
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true).mode(0o600);
        let file = options.open(beside(database))?;
        let mut this =
            Acknowledged { file, written: AcknowledgedPosition::default(), second: false, is_durable };
        // All of its length is written now: later writes need no room on the disk.
        let rest = vec![0; PLACE as usize - RECORD];
        this.place(position)?;
        this.file.write_all_at(&rest, RECORD as u64)?;
        this.place(position)?;
        this.file.write_all_at(&rest, PLACE + RECORD as u64)?;
        if is_durable {
            this.file.sync_all()?;
        }
        Ok(this)
    }

    /// When this returns, `mark` is on the disk.
    pub fn write(&mut self, position: AcknowledgedPosition) -> std::io::Result<()> {
        if position == self.written { Ok(()) } else { self.place(position) }
    }

    fn place(&mut self, position: AcknowledgedPosition) -> std::io::Result<()> {
        self.file.write_all_at(&position.encode(), if self.second { PLACE } else { 0 })?;
        if self.is_durable {
            self.file.sync_data()?;
        }
        self.second = !self.second;
        self.written = position;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_places_the_newer_counts_and_one_may_be_torn() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("hub.db");
        assert_eq!(read(&database).unwrap(), Recorded::Nothing);
        let position = |revision| AcknowledgedPosition { epoch: 2, revision };
        let mut file = Acknowledged::begin(&database, position(5), true).unwrap();
        for revision in 6..9 {
            file.write(position(revision)).unwrap();
            assert_eq!(read(&database).unwrap(), Recorded::Acknowledged(position(revision)));
        }
        let whole = std::fs::read(beside(&database)).unwrap();
        for byte in 0..whole.len() {
            let mut torn = whole.clone();
            torn[byte] ^= 4;
            let told = Recorded::by(&torn);
            let one_of_two = [7, 8].map(|revision| Recorded::Acknowledged(position(revision)));
            assert!(one_of_two.contains(&told), "byte {byte}: {told:?}");
        }
        assert_eq!(Recorded::by(&whole[..20]), Recorded::Garbage);
    }
}
