//! The table `meta`: numbers, the seal and the names of clusters, by name.

use rusqlite::{Connection, OptionalExtension, params};

/// Where the cursor was before it began anew, until it is somewhere again.
pub(super) const FORMER_CURSOR: &str = "former_cursor";

/// The names of clusters, the newest last.
const CLUSTERS: &str = "clusters";

/// Sets the cursor. Where it begins anew, what was told up to where it was is held all the same, and is remembered.
pub(super) fn set_cursor(connection: &Connection, cursor: u64) -> Result<(), rusqlite::Error> {
    if cursor == 0 {
        connection
            .prepare_cached(
                "INSERT INTO meta (key, value) SELECT ?1, value FROM meta WHERE key = 'cursor' AND value > 0
                 ON CONFLICT (key) DO UPDATE SET value = max(value, excluded.value)",
            )?
            .execute([FORMER_CURSOR])?;
    } else {
        connection.prepare_cached("DELETE FROM meta WHERE key = ?1")?.execute([FORMER_CURSOR])?;
    }
    set_number(connection, "cursor", cursor as i64)
}

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

/// The names of the clusters whose ledger it is and was; none where none was ever said.
pub(super) fn cluster_names(connection: &Connection) -> Result<Vec<String>, rusqlite::Error> {
    let select = "SELECT value FROM meta WHERE key = ?1";
    let text: Option<String> = connection.query_row(select, [CLUSTERS], |row| row.get(0)).optional()?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
}

/// Keeps the names of clusters.
pub(super) fn set_cluster_names(connection: &Connection, names: &[String]) -> Result<(), rusqlite::Error> {
    set_value(connection, CLUSTERS, serde_json::json!(names).to_string())
}
