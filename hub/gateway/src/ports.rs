//! What the gateway needs from the hub, as traits: where Works come from, where reports go, who may join and
//! connect, and what must outlive the process.
//!
//! Traits and types alone: Works and decisions come in through them, reports and what is to be remembered go out.
//!
//! The gateway knows no store and no API; `hub` implements these over them. Every method may be called from many
//! sessions at once. None may block the thread.

mod registrar;
mod reports;
mod retention;
mod sessions;
mod works;

use std::sync::Arc;

pub use self::registrar::{
    JoinAsk, JoinGrant, JoinOutcome, JoinRefusal, JoinRefusalCode, Occurrence, Registrar, SessionRefusal,
};
pub use self::reports::{Applied, StatusSink, WorkNotice, WorkReport};
pub use self::retention::{NotRetained, Retention};
pub use self::sessions::{Batch, ClusterIncarnation, CursorOrigin, Position, RestoreHold, SessionStore};
pub use self::works::{Body, Former, Json, Work, WorkEvent, WorkFeed, WorkSource};

/// Everything the gateway is given.
#[derive(Clone)]
pub struct Ports {
    /// Where Works come from.
    pub works: Arc<dyn WorkSource>,
    /// Where reports go.
    pub statuses: Arc<dyn StatusSink>,
    /// Who may join and connect.
    pub registrar: Arc<dyn Registrar>,
    /// What must outlive the process.
    pub sessions: Arc<dyn SessionStore>,
}

/// A port could not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PortError {
    /// Whether the same call may succeed later. What is not retriable is logged and dropped: a Work that is gone
    /// takes no status.
    pub retriable: bool,
    /// In plain words.
    pub message: String,
}

impl PortError {
    /// Try again later.
    pub fn later(message: impl Into<String>) -> Self {
        Self { retriable: true, message: message.into() }
    }

    /// Never again.
    pub fn never(message: impl Into<String>) -> Self {
        Self { retriable: false, message: message.into() }
    }
}
