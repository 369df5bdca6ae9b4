//! A start: the file is locked, opened or made, checked, and held against what was acknowledged.
//!
//! In: the options. Out: a file that is as new and as whole as the last process said, or why not. What is lost or damaged is gone on
//! without only where the options say so.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::Connection;

use super::acknowledged::{self, Acknowledged, AcknowledgedPosition, Recorded};
use super::checked::{LOG, LogRow, damage, live_row};
use super::file_lock::{FileLock, lock};
use super::refusal::Refusal;
use super::salvage::sync_folder;
use super::schema::{APPLICATION_ID, Meta, Role, VERSION, connect, create, read_meta};
use super::upgrade::{first_acknowledge, take_over};
use super::{SqliteOptions, rewrite, salvage};
use crate::StoreError;

/// A file that is ours, open for writing.
pub(super) struct OpenedFile {
    pub db: Connection,
    pub meta: Meta,
    pub lock: Arc<FileLock>,
    pub acknowledged: Acknowledged,
}

/// Locks, opens or creates, checks.
pub(super) fn open(options: &SqliteOptions) -> Result<OpenedFile, StoreError> {
    let path = &options.path;
    let lock = lock(path)?;
    let named = |error: &dyn std::fmt::Display| StoreError::Backend(format!("{}: {error}", path.display()));
    // Created before SQLite sees it, for the mode: the file holds every Secret of the fleet.
    OpenOptions::new().create(true).append(true).mode(0o600).open(path).map_err(|e| named(&e))?;
    let (db, meta) = match inspect(options) {
        Err(Refusal::Lost(why)) if options.accept_data_loss => {
            tracing::warn!(file = %path.display(), why, "going on without what is lost or damaged");
            salvage::rebuild(options).map_err(|e| named(&e))?;
            inspect(options)
        }
        inspected => inspected,
    }
    .map_err(|refusal| named(&refusal))?;
    if options.synchronous_full {
        sync_folder(path).map_err(|e| named(&e))?;
        // Of what a killed hub wrote and did not sync, nothing is to be shown that a power cut could still take away.
        sync_log(path).map_err(|e| named(&e))?;
    }
    if !options.overwrite_deleted {
        rewrite::forget_cleaned(&db).map_err(|e| named(&e))?;
    }
    let acknowledged =
        Acknowledged::begin(path, AcknowledgedPosition::of(&meta), options.synchronous_full)
            .map_err(|e| named(&format!("cannot write {}: {e}", acknowledged::beside(path).display())))?;
    Ok(OpenedFile { db, meta, lock, acknowledged })
}

/// Opens the file and holds it against what was acknowledged.
fn inspect(options: &SqliteOptions) -> Result<(Connection, Meta), Refusal> {
    let told = acknowledged::read(&options.path)
        .map_err(|error| Refusal::Foreign(format!("cannot read what was acknowledged: {error}")))?;
    let db = connect(options, Role::Writer)?;
    let is_of_this_layout = prepare(&db, options, &told)?;
    let meta = read_meta(&db)?;
    verify_live(&db, &meta)?;
    if options.accept_data_loss {
        verify_log(&db)?;
    }
    let beside = acknowledged::beside(&options.path);
    match told {
        Recorded::Acknowledged(position) if position.epoch > meta.epoch || position.revision > meta.head => {
            Err(Refusal::behind(&options.path, position, AcknowledgedPosition::of(&meta)))
        }
        Recorded::Garbage => {
            Err(Refusal::Lost(format!("{} is damaged, which tells what was acknowledged", beside.display())))
        }
        Recorded::Nothing if is_of_this_layout && meta.head > 0 => Err(Refusal::Lost(format!(
            "{} is missing, which tells what was acknowledged; without it this is a copy of unknown age",
            beside.display()
        ))),
        Recorded::Nothing | Recorded::Acknowledged(_) => Ok((db, meta)),
    }
}

/// Whether the index of keys is whole: each row as it was written, and none missing.
fn verify_live(db: &Connection, meta: &Meta) -> rusqlite::Result<()> {
    let mut statement = db.prepare("SELECT key, revision, created, sum FROM live")?;
    let mut rows = statement.query([])?;
    let mut sum = 0_u64;
    while let Some(row) = rows.next()? {
        sum = sum.wrapping_add(live_row(row)?.2);
    }
    if sum == meta.live {
        Ok(())
    } else {
        Err(damage("the index of keys, which lacks some or has old ones,".into()))
    }
}

/// Whether each row of the log is as it was written, and each that a live key needs is there.
fn verify_log(db: &Connection) -> rusqlite::Result<()> {
    let mut statement = db.prepare(LOG)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        LogRow::read(row)?;
    }
    let lost: i64 = db.query_row(
        "SELECT count(*) FROM live LEFT JOIN log ON log.revision = live.revision
         WHERE log.revision IS NULL OR log.key <> live.key",
        [],
        |row| row.get(0),
    )?;
    if lost == 0 { Ok(()) } else { Err(damage(format!("the log of writes, which lacks {lost} live keys,"))) }
}

/// Creates what is empty, takes over what is older. True: the file has had this layout before.
fn prepare(db: &Connection, options: &SqliteOptions, told: &Recorded) -> Result<bool, Refusal> {
    let application: i32 = db.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let tables: i64 = db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if application == 0 && tables == 0 {
        let fresh = AcknowledgedPosition { epoch: options.first_epoch, revision: 0 };
        return match *told {
            Recorded::Acknowledged(position) if position.revision > 0 => {
                Err(Refusal::behind(&options.path, position, AcknowledgedPosition::default()))
            }
            _ => Ok(first_acknowledge(options, fresh, || create(db, options)).map(|()| false)?),
        };
    }
    if application != APPLICATION_ID {
        return Err(Refusal::Foreign("is a SQLite file of another program, not a hub's store".into()));
    }
    let version: i32 = db.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if !matches!(version, 1 | 2 | VERSION) {
        return Err(Refusal::Foreign(format!("has layout version {version}, this program knows {VERSION}")));
    }
    check(db, options)?;
    if version < VERSION {
        take_over(db, options, version)?;
    }
    Ok(version == VERSION)
}

fn check(db: &Connection, options: &SqliteOptions) -> Result<(), Refusal> {
    let size = std::fs::metadata(&options.path).map_or(0, |file| file.len());
    if size > options.check_up_to {
        return Ok(());
    }
    let verdict: String = db.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if verdict == "ok" { Ok(()) } else { Err(Refusal::Lost(format!("its structure is damaged: {verdict}"))) }
}

/// Brings what lies in the write-ahead log to the disk.
fn sync_log(path: &Path) -> std::io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    match File::open(PathBuf::from(name)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        log => log?.sync_data(),
    }
}
