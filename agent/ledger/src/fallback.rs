//! Where the ledger goes on when its file does not: in memory, until the file can be written again.
//!
//! In: the directory, and an error of the file. Out: a connection that works, on disk or in memory, and the health that says which. An
//! error that is not about the file is given back.
//!
//! A full disk or a broken file must not end the enforcement of what the site was told. What is taken meanwhile is held in memory and
//! not acknowledged, so that the hub keeps it for an agent that is restarted. A file that is damaged is set aside, what can be read of it
//! is kept, and the hub lists everything anew.

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::Connection;
use tokio_util::sync::CancellationToken;

use super::schema::{self, Trouble};
use super::{Ledger, LedgerError};

/// Between two attempts to write the file again.
const PERIOD: Duration = Duration::from_secs(15);

/// Where the ledger is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LedgerHealth {
    /// Why it is in memory alone; `None` while what is committed is on disk.
    pub trouble: Option<String>,
    /// Counts how often its cursor was given up: everything is to be asked for again.
    pub relists: u64,
}

/// The connection that is in use, and the file's while that is not.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) connection: Connection,
    /// While the ledger is in memory: the file, where it is open.
    file: Option<Connection>,
    pub(super) durable: bool,
}

impl Store {
    /// A ledger that works as it shall.
    pub(super) fn sound(connection: Connection) -> Self {
        Self { connection, file: None, durable: true }
    }

    /// The file in `directory`, or as much of it as there is. The error that kept it from being used is told in the health.
    pub(super) fn open(directory: &Path) -> Result<(Self, LedgerHealth), LedgerError> {
        let mut health = LedgerHealth::default();
        let trouble = match schema::open(directory) {
            Ok(connection) => return Ok((Self::sound(connection), health)),
            Err(error) => (error.trouble(), error),
        };
        match trouble {
            (None, error) => Err(error),
            (Some(Trouble::Disk), error) => {
                let mut connection = schema::in_memory()?;
                if let Ok(file) = unwritable(directory)
                    && schema::copy(&file, &mut connection).is_ok()
                {
                    schema::prepare(&connection)?;
                }
                health.trouble = Some(words(&error));
                Ok((Self { connection, file: None, durable: false }, health))
            }
            (Some(Trouble::Damaged), error) => {
                let memory = schema::in_memory()?;
                match Connection::open(directory.join("ledger.sqlite"))
                    .and_then(|file| schema::salvage(&file, &memory))
                {
                    Ok(works) => {
                        tracing::warn!(works, "the ledger is damaged: so many Works could be read in it");
                    }
                    Err(failed) => {
                        tracing::error!(%failed, "the ledger is damaged, and not all that could be read was kept");
                    }
                }
                let mut store = Self { connection: memory, file: None, durable: false };
                health = store.begin_anew(directory, &error);
                Ok((store, health))
            }
        }
    }

    /// Sets the damaged file aside and puts what was saved of it into a new one.
    #[expect(
        clippy::disallowed_methods,
        reason = "names the file that is set aside; nothing is decided by it"
    )]
    fn begin_anew(&mut self, directory: &Path, error: &LedgerError) -> LedgerHealth {
        self.file = None;
        match schema::set_aside(directory, Timestamp::now()) {
            Ok(aside) => {
                tracing::error!(%error, aside = %aside.display(), "the ledger was damaged: it is set aside, and the hub is asked for everything again");
            }
            Err(failed) => {
                tracing::error!(%error, %failed, "the ledger is damaged and could not be set aside");
            }
        }
        let written = self.write_back(directory).err();
        LedgerHealth { trouble: written.map(|error| words(&error)), relists: 1 }
    }

    /// Goes on in memory because of `error`, or gives it back where it is no matter of the file.
    pub(super) fn take_refuge(
        &mut self,
        directory: Option<&Path>,
        error: LedgerError,
    ) -> Result<LedgerHealth, LedgerError> {
        let (Some(trouble), Some(directory), true) = (error.trouble(), directory, self.durable) else {
            return Err(error);
        };
        let mut memory = schema::in_memory()?;
        let whole = trouble == Trouble::Disk && schema::copy(&self.connection, &mut memory).is_ok();
        if !whole {
            memory = schema::in_memory()?;
            schema::salvage(&self.connection, &memory)?;
        }
        let file = std::mem::replace(&mut self.connection, memory);
        self.durable = false;
        if trouble == Trouble::Disk {
            tracing::error!(
                error = words(&error),
                "the ledger goes on in memory; what comes is not acknowledged"
            );
            self.file = Some(file);
            return Ok(LedgerHealth { trouble: Some(words(&error)), relists: u64::from(!whole) });
        }
        drop(file);
        Ok(self.begin_anew(directory, &error))
    }

    /// The file grows by so many pages more; as much as it likes, where none are given.
    pub(super) fn bound_file(&self, pages: Option<u32>) {
        let file = self.file.as_ref().unwrap_or(&self.connection);
        let now = file.pragma_query_value(None, "page_count", |row| row.get::<_, i64>(0)).unwrap_or(0);
        let most = pages.map_or(i64::from(i32::MAX), |more| now + i64::from(more));
        let _ = file.pragma_update(None, "max_page_count", most);
    }

    /// Writes what is in memory into the file, and uses that again.
    pub(super) fn write_back(&mut self, directory: &Path) -> Result<(), LedgerError> {
        let mut file = match self.file.take() {
            Some(file) => file,
            None => schema::open(directory)?,
        };
        let copied = schema::copy(&self.connection, &mut file);
        if let Err(error) = copied {
            self.file = Some(file);
            return Err(error.into());
        }
        self.connection = file;
        self.durable = true;
        Ok(())
    }
}

/// The file of a disk that takes no more: without the shared memory that SQLite would make beside it.
fn unwritable(directory: &Path) -> Result<Connection, rusqlite::Error> {
    let connection = Connection::open(directory.join("ledger.sqlite"))?;
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    Ok(connection)
}

fn words(error: &LedgerError) -> String {
    match error {
        LedgerError::Sqlite(error) => error.to_string(),
        LedgerError::File(error) => error.to_string(),
        error => error.to_string(),
    }
}

/// Tries to write the file again while the ledger is in memory, until `stop`, and once more then.
pub async fn run(ledger: &Ledger, stop: CancellationToken) {
    let mut health = ledger.health();
    loop {
        let troubled = health.borrow_and_update().trouble.is_some();
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            changed = health.changed(), if !troubled => if changed.is_err() { break },
            () = tokio::time::sleep(PERIOD), if troubled => ledger.write_back(),
        }
    }
    ledger.write_back();
}
