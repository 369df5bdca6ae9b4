//! Why a file is not opened, in words that say what to do.
//!
//! In: what was acknowledged and what is there, or SQLite's error. Out: a [`Refusal`], which tells damage from a file that is not ours and
//! from one that cannot be read.

use std::path::Path;

use super::acknowledged::AcknowledgedPosition;
use super::checked::{ADVICE, damage_of};
use crate::StoreError;

/// Why a file is not opened.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    /// It is not one that this program can do anything with.
    #[error("{0}")]
    Foreign(String),
    /// Something of it is lost or damaged.
    #[error("{0}; {advice}", advice = ADVICE)]
    Lost(String),
    /// It cannot be read or written.
    #[error("{0}")]
    Sqlite(rusqlite::Error),
}

impl Refusal {
    pub(super) fn behind(
        path: &Path,
        acknowledged: AcknowledgedPosition,
        there: AcknowledgedPosition,
    ) -> Refusal {
        Refusal::Lost(format!(
            "revision {} of epoch {} was acknowledged, and the file ends at revision {} of epoch {}: what came between is lost, \
             either with the end of {}-wal or because this is an older copy",
            acknowledged.revision,
            acknowledged.epoch,
            there.revision,
            there.epoch,
            path.display()
        ))
    }
}

impl From<rusqlite::Error> for Refusal {
    fn from(error: rusqlite::Error) -> Self {
        match damage_of(&error) {
            Some(StoreError::Damaged { what }) => Refusal::Lost(format!("{what} is damaged on disk")),
            _ => Refusal::Sqlite(error),
        }
    }
}
