//! Server-side apply: who owns which field, merging by owner, conflicts.
use crate::schema::SchemaRef;
use serde_json::Value;

/// One field two managers disagree on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The other manager.
    pub manager: String,
    /// The API version it wrote.
    pub api_version: String,
    /// The field's path, such as `.spec.replicas`.
    pub field: String,
}

/// Why an apply fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// 409 Conflict; the message is kubectl's.
    #[error("Apply failed with {} conflict(s)", .0.len())]
    Conflicts(Vec<Conflict>),
    /// 500: the configuration does not fit the schema.
    #[error("{0}")]
    Typed(String),
    /// 400.
    #[error("{0}")]
    BadRequest(String),
}

/// Who writes, and how.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    /// `fieldManager`, or what the user agent gives.
    pub manager: &'a str,
    /// The API version of the request.
    pub api_version: &'a str,
    /// The subresource; empty for the object itself.
    pub subresource: &'a str,
    /// RFC 3339, whole seconds.
    pub now: &'a str,
}

/// Brings `new`'s managedFields up to date after a create, update or patch.
pub fn update_managed(_live: Option<&Value>, _new: &mut Value, _writer: Writer<'_>, _schema: SchemaRef<'_>) {}

/// Merges `applied` into `live`.
///
/// # Errors
/// Conflicts, or a configuration that does not fit the schema.
pub fn apply(
    _live: Option<&Value>,
    applied: &Value,
    _writer: Writer<'_>,
    _force: bool,
    _schema: SchemaRef<'_>,
) -> Result<Value, ApplyError> {
    Ok(applied.clone())
}
