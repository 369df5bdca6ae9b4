//! One change for the ledger: what the hub's frames make of what it holds.
//!
//! Types alone: the session makes them of frames, the ledger writes them, all that belong together in one transaction.

use bytes::Bytes;
use karmada_proto::v1;

/// One change for the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A new desired state.
    Put {
        /// The Work's name.
        key: String,
        /// Its uid.
        uid: String,
        /// The hub's revision.
        revision: u64,
        /// Of `body`.
        hash: Bytes,
        /// `{"manifests":[…]}`.
        body: Bytes,
        /// Leave the member as it is.
        suspended: bool,
        /// Keep the member's objects once the Work is deleted.
        preserve: bool,
        /// The Work's generation: what is reported of this body is reported for it.
        generation: u64,
        /// Where it differs from the one held, what was put aside is to be tried again.
        retry: String,
    },
    /// Objects that earlier bodies of this Work named, and the one just put does not, stay in the member and are reported as orphans.
    KeepFormer {
        /// The Work's name.
        key: String,
    },
    /// The same body under a newer revision.
    Touch {
        /// The Work's name.
        key: String,
        /// Its uid.
        uid: String,
        /// The hub's revision.
        revision: u64,
        /// Leave the member as it is.
        suspended: bool,
        /// Keep the member's objects once the Work is deleted.
        preserve: bool,
        /// The Work's generation: what is reported of this body is reported for it.
        generation: u64,
        /// Where it differs from the one held, what was put aside is to be tried again.
        retry: String,
    },
    /// Remove its objects from the member, or (`preserve`) only our marks.
    Delete {
        /// The Work's name.
        key: String,
        /// The uid that the tombstone names: what the removal is confirmed for.
        uid: String,
        /// The revision of the tombstone.
        revision: u64,
        /// Strip instead of delete.
        preserve: bool,
        /// Where it differs from the one held, the removal is tried at once.
        retry: String,
    },
    /// Forget it; the member stays as it is.
    Forget {
        /// The Work's name.
        key: String,
    },
    /// Everything is in this epoch from now on; the cursor begins anew.
    Epoch(u64),
    /// A full listing begins: revisions and the cursor count from what is listed, be they lower.
    Listing,
    /// What is held is what the hub wants, as of this revision.
    Listed {
        /// The Work's name.
        key: String,
        /// The hub's revision.
        revision: u64,
    },
    /// The hub knows nothing of it.
    Unlisted {
        /// The Work's name.
        key: String,
    },
    /// Everything up to here is held.
    Cursor(u64),
    /// The hub's start that told the cursor.
    Timeline(u64),
    /// What is held beyond the cursor, by the hub's starts that told it.
    Seen(Vec<v1::Seen>),
    /// The hub's proof of the epoch.
    Seal(Bytes),
    /// A document: a table that is told whole, by content.
    Document {
        /// Which.
        table: u32,
        /// Of its body.
        hash: Bytes,
        /// All of it.
        body: Bytes,
    },
}
