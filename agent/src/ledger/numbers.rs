//! The table `meta`: numbers and the seal, by name.

use rusqlite::{Connection, params};

/// Sets a number.
pub(super) fn set_number(connection: &Connection, key: &str, value: i64) -> Result<(), rusqlite::Error> {
    set_value(connection, key, value)
}

/// Sets a value.
pub(super) fn set_value(
    connection: &Connection,
    key: &str,
    value: impl rusqlite::ToSql,
) -> Result<(), rusqlite::Error> {
    connection
        .prepare_cached(
            "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = ?2",
        )?
        .execute(params![key, value])?;
    Ok(())
}
