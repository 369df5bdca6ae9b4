//! Going on without what is lost: a new file of what the old one still has, as `--accept-data-loss` allows.
//!
//! In: a file that lacks acknowledged writes or is damaged. Out: a new one in its place, in a new epoch and past every revision that
//! was given out, so that no number means two things; the old one is set aside as it is. The log alone tells what lives: of
//! each live key it has the last write. What cannot be read is named in the log of the process.

use std::collections::BTreeMap;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, Error};

use super::acknowledged::{self, Acknowledged, AcknowledgedPosition, Recorded};
use super::checked::{LOG, LogRow, damage_of, live_sum};
use super::schema::{Role, connect, create, read_head, write_meta};
use super::{SqliteOptions, from_sql, to_sql};
use crate::{Revision, StoreError};

/// The newest readable write of each key; `None`: a removal.
type Found = BTreeMap<String, (Revision, Option<Revision>)>;

/// Puts a new file into the old one's place.
pub(super) fn rebuild(options: &SqliteOptions) -> Result<(), StoreError> {
    let refused = |why: &dyn std::fmt::Display| {
        StoreError::Backend(format!(
            "nothing could be saved of it ({why}): restore a backup of the data directory"
        ))
    };
    let old = connect(options, Role::Writer).map_err(|error| refused(&error))?;
    let mut made = options.clone();
    made.path = with_ending(&options.path, ".salvaged");
    remove(&made.path).map_err(|error| refused(&error))?;
    let position = copy(&old, &made, floor(&old, options)).map_err(|error| refused(&error))?;
    drop(old);
    replace(options, &made.path, position).map_err(|error| refused(&error))
}

/// The highest epoch and revision that are known to have been given out.
fn floor(old: &Connection, options: &SqliteOptions) -> AcknowledgedPosition {
    let number = |name: &str| {
        let read = old.query_row("SELECT value FROM meta WHERE name = ?1", [name], |row| row.get(0));
        read.map_or(0, from_sql)
    };
    let told = match acknowledged::read(&options.path) {
        Ok(Recorded::Acknowledged(position)) => position,
        _ => AcknowledgedPosition { epoch: number("epoch").max(options.first_epoch), revision: 0 },
    };
    let head = read_head(old, 0).unwrap_or(0);
    AcknowledgedPosition { epoch: told.epoch, revision: told.revision.max(head) }
}

/// Writes what can be read into a new file. Returns where that stands.
fn copy(
    old: &Connection,
    options: &SqliteOptions,
    floor: AcknowledgedPosition,
) -> rusqlite::Result<AcknowledgedPosition> {
    let found = newest(old);
    let file = std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(&options.path);
    file.map_err(|error| Error::ToSqlConversionFailure(Box::new(error)))?;
    let new = connect(options, Role::Writer)?;
    create(&new, options)?;
    let transaction = new.unchecked_transaction()?;
    let mut read = old.prepare(&format!("{LOG} WHERE revision = ?1"))?;
    let mut index = new.prepare("INSERT INTO live (key, revision, created, sum) VALUES (?1, ?2, ?3, ?4)")?;
    let mut live = 0_u64;
    for (key, (revision, created)) in found {
        let Some(created) = created else { continue };
        read.query_row([to_sql(revision)], |row| LogRow::read(row)?.insert(&new))?;
        let sum = live_sum(&key, revision, created);
        index.execute((key, to_sql(revision), to_sql(created), sum.cast_signed()))?;
        live = live.wrapping_add(sum);
    }
    let position = AcknowledgedPosition { epoch: floor.epoch.saturating_add(1), revision: floor.revision };
    let head = position.revision;
    for (name, value) in
        [("epoch", position.epoch), ("indexed", head), ("compacted", head), ("swept", head), ("live", live)]
    {
        write_meta(&transaction, name, value)?;
    }
    transaction.commit()?;
    Ok(position)
}

/// Walks the log from both ends, so that one page that cannot be read hides as little as possible.
fn newest(old: &Connection) -> Found {
    let mut found = Found::new();
    let (mut last, mut end) = (0, Revision::MAX);
    if !walk(old, "ORDER BY revision", &mut found, &mut last) {
        walk(old, "ORDER BY revision DESC", &mut found, &mut end);
        tracing::warn!(
            after = last,
            before = end,
            "a part of the log of writes cannot be read: writes of these revisions are lost"
        );
    }
    found
}

/// Takes in rows until one cannot be reached. True: all were.
fn walk(old: &Connection, order: &str, found: &mut Found, at: &mut Revision) -> bool {
    let mut through = || -> rusqlite::Result<()> {
        let mut statement = old.prepare(&format!("{LOG} {order}"))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            *at = row.get(0).map_or(0, from_sql);
            match LogRow::read(row) {
                Ok(row) => {
                    let newest = found.entry(row.key.to_owned()).or_default();
                    if row.revision >= newest.0 {
                        *newest = (row.revision, row.value.map(|_| row.created));
                    }
                }
                Err(error) => {
                    let what =
                        damage_of(&error).map_or_else(|| error.to_string(), |damage| damage.to_string());
                    tracing::warn!(what, "a write is lost");
                }
            }
        }
        Ok(())
    };
    through().is_ok()
}

/// Sets the old file aside, and what was acknowledged with it.
fn replace(options: &SqliteOptions, made: &Path, position: AcknowledgedPosition) -> std::io::Result<()> {
    let aside = with_ending(&options.path, ".damaged");
    remove(&aside)?;
    for ending in ["", "-wal", "-shm"] {
        let from = with_ending(&options.path, ending);
        if from.exists() {
            std::fs::rename(from, with_ending(&aside, ending))?;
        }
    }
    std::fs::rename(made, &options.path)?;
    sync_folder(&options.path)?;
    Acknowledged::begin(&options.path, position, options.synchronous_full)?;
    tracing::warn!(aside = %aside.display(), epoch = position.epoch, revision = position.revision,
        "what could be read was taken over, in a new epoch; the damaged file is kept until it is removed by hand");
    Ok(())
}

fn remove(path: &Path) -> std::io::Result<()> {
    for ending in ["", "-wal", "-shm"] {
        match std::fs::remove_file(with_ending(path, ending)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// A new file is safe only when its folder's entry is.
pub(super) fn sync_folder(path: &Path) -> std::io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::File::open(folder)?.sync_all()
}
