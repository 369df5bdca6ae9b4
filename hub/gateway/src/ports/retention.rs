//! Who decides what of a member's objects stays, where an interpreter webhook does: agents reach no webhook.
//!
//! In: a manifest of a Work, and the object as the member has it. Out: the manifest with what is to stay in it.

use async_trait::async_trait;
use bytes::Bytes;

/// Who decides it.
#[async_trait]
pub trait Retention: Send + Sync + 'static {
    /// The manifest as it is to be applied over `observed`, all of them JSON of one object. What `observed` is, its agent says: it is to be
    /// looked at as the word of a stranger. May wait for a webhook.
    ///
    /// # Errors
    /// In words for whoever reads the Work's condition: no webhook decides it, or it did not answer, or the two are not of one object.
    async fn retained(&self, manifest: Bytes, observed: Bytes) -> Result<Bytes, String>;
}
