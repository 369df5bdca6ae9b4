//! What becomes of a ledger's files: copies that come back later, what a process that ends in the middle leaves behind, what a power cut
//! does, bits that flip in stored rows.
//!
//! In: the directory of an agent, each committed write of its ledger, and what the script wants of them. Out: files, and a word of each write
//! to whoever looks at ledgers.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use karmada_agent::ledger::Ledger;
use parking_lot::Mutex;
use rusqlite::types::Value;
use rusqlite::{Connection, params};
use tempfile::TempDir;
use tokio::sync::Notify;

use crate::crash::Fuse;
use crate::dice::Dice;

/// Where nothing waits for a disk.
pub fn directory() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory).unwrap() } else { tempfile::tempdir().unwrap() }
}

pub fn copy_files(from: &Path, to: &Path) {
    let files: Vec<PathBuf> = std::fs::read_dir(from).unwrap().map(|file| file.unwrap().path()).collect();
    for file in files.iter().filter(|file| file.is_file()) {
        std::fs::copy(file, to.join(file.file_name().unwrap())).unwrap();
    }
}

/// How a process is to end at a write of its ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtWrite {
    /// It is killed: the write is in the file.
    Killed,
    /// The machine loses its power: what was not synced is gone.
    PowerCut,
}

#[derive(Default)]
struct Armed {
    ends: Option<(u64, AtWrite)>,
    /// The files as the next process finds them, once they are known.
    left: Option<TempDir>,
}

/// Looks on as a ledger is written, and ends its process at one of the writes. Clones are the same.
#[derive(Clone, Default)]
pub struct Camera {
    armed: Arc<Mutex<Armed>>,
    /// Writes that were committed.
    writes: Arc<AtomicU64>,
    /// Of any ledger of the run.
    written: Arc<Notify>,
}

impl Camera {
    /// One that tells of each write.
    pub fn telling(written: Arc<Notify>) -> Self {
        Self { written, ..Self::default() }
    }

    /// One for another process.
    pub fn beside(&self) -> Self {
        Self::telling(self.written.clone())
    }

    /// How often its ledger was written.
    pub fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    /// The process ends at its `write`th write from now on.
    pub fn ends_at(&self, write: u64, how: AtWrite) {
        *self.armed.lock() = Armed { ends: Some((write, how)), left: None };
    }

    pub fn forgets(&self) {
        *self.armed.lock() = Armed::default();
    }

    /// Follows the ledger of one process.
    pub fn follows(&self, ledger: &Ledger, directory: &Path, fuse: Fuse) {
        let (armed, from) = (self.armed.clone(), directory.to_owned());
        let (writes, written) = (self.writes.clone(), self.written.clone());
        ledger.witnessed_by(move |is_synced| {
            writes.fetch_add(1, Ordering::Relaxed);
            written.notify_one();
            let mut armed = armed.lock();
            let Some((left, how)) = &mut armed.ends else { return };
            let how = *how;
            // What was on the disk before the first synced write, nobody knows here.
            let is_known = is_synced || how == AtWrite::Killed;
            *left = if is_known || *left == 1 { left.saturating_sub(1) } else { *left };
            let ends = *left == 0;
            if is_known && (how == AtWrite::PowerCut || ends) {
                let photo = self::directory();
                copy_files(&from, photo.path());
                armed.left = Some(photo);
            }
            if ends && armed.left.is_some() {
                armed.ends = None;
                fuse.blow(if how == AtWrite::PowerCut {
                    "as its machine loses power"
                } else {
                    "as its ledger has a write"
                });
            }
        });
    }

    /// What the process that ended at a write left behind. Nothing, where it ended otherwise.
    pub fn take(&self) -> Option<TempDir> {
        let mut armed = self.armed.lock();
        if armed.ends.is_some() {
            *armed = Armed::default();
        }
        armed.left.take()
    }
}

/// What of a row is looked at as it is read: a bit of it that flips is found out.
const GUARDED: [&str; 4] = ["hash", "body", "encoding", "decoded_size"];

/// One bit of one stored Work is another from now on. Out: of which Work, and in which column.
pub fn flip_a_bit(directory: &Path, dice: &mut Dice) -> Option<(String, &'static str)> {
    let connection = Connection::open(directory.join("ledger.sqlite")).ok()?;
    let mut keys = connection.prepare("SELECT key FROM works ORDER BY key").ok()?;
    let keys: Vec<String> = keys.query_map([], |row| row.get(0)).ok()?.filter_map(Result::ok).collect();
    if keys.is_empty() {
        return None;
    }
    let (key, column) = (dice.one(&keys).clone(), *dice.one(&GUARDED));
    let select = format!("SELECT {column} FROM works WHERE key = ?1");
    let value: Value = connection.query_row(&select, [&key], |row| row.get(0)).ok()?;
    let flipped = match value {
        Value::Blob(mut bytes) if !bytes.is_empty() => {
            let at = dice.next() as usize % bytes.len();
            bytes[at] ^= 1 << (dice.next() % 8);
            Value::Blob(bytes)
        }
        Value::Integer(number) => Value::Integer(number ^ 1 << (dice.next() % 8)),
        _ => return None,
    };
    let update = format!("UPDATE works SET {column} = ?2 WHERE key = ?1");
    connection.execute(&update, params![key, flipped]).ok()?;
    Some((key, column))
}
