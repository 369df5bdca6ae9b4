//! Who decides what of a member's objects stays, where an interpreter webhook does: agents reach no webhook.
//!
//! In: a manifest of a Work, and the object as the member has it. Out: the manifest with what is to stay in it.

use async_trait::async_trait;
use bytes::Bytes;

/// Why it is not known what stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotRetained {
    /// Too much is being asked; the same may be asked again later.
    Busy,
    /// In words for whoever reads the Work's condition.
    Failed(String),
}

/// Who decides it.
#[async_trait]
pub trait Retention: Send + Sync + 'static {
    /// The manifest as it is to be applied over `observed`, all of them JSON of one object. What `observed` is, its agent says: it is to be
    /// looked at as the word of a stranger. May wait for a webhook.
    ///
    /// # Errors
    /// No webhook decides it, or it did not answer, or the two are not of one object; or too much is being asked just now.
    async fn retained(&self, manifest: Bytes, observed: Bytes) -> Result<Bytes, NotRetained>;
}
