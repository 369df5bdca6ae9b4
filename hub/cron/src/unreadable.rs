//! Why a text is no schedule.
//!
//! In: words. Out: an error that says them.

/// Why a schedule cannot be read, in the words of kube-apiserver.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(pub String);
