//! What the ledger holds of one Work, and what is written of it when an application ended.
//!
//! Types alone, with what follows from their fields: whether anything of the Work may be in the member, whether this very body was applied.

use bytes::Bytes;
use karmada_proto::v1::Applied;

use karmada_member::ObjectId;
use karmada_session::session::Phase;

/// One Work as the ledger holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The Work's uid.
    pub uid: String,
    /// The hub's revision.
    pub revision: u64,
    /// The hash of `body`.
    pub hash: Bytes,
    /// `{"manifests":[…]}`.
    pub body: Bytes,
    /// Leave the member as it is.
    pub suspended: bool,
    /// Strip our marks instead of deleting.
    pub preserve: bool,
    /// How far its life has come.
    pub phase: Phase,
    /// How often the agent ended while it worked on this Work and no other.
    pub crashes: u32,
    /// The last outcome, and whether it is about this very body.
    pub applied: Option<(Applied, bool)>,
    /// Whether the member ever took an object of it, in whichever body.
    pub placed: bool,
    /// The Work's generation; zero where the hub did not say.
    pub generation: u64,
    /// The mark of a person's last request to try again what was put aside.
    pub retry: String,
    /// Of each manifest, the mark of the agent's last write that its object bore when the last outcome came: see
    /// the digest of what was written. Empty where that is not known.
    pub written: Vec<u64>,
    /// A write of it was begun of which it is not known whether the member carries it out.
    pub unanswered: bool,
    /// Objects that bodies before named and this one does not, as far as they may still be in the member.
    pub former: Vec<ObjectId>,
}

impl Entry {
    /// Nothing of it can be in the member: every application came to its end, and none placed anything.
    pub fn is_nowhere(&self) -> bool {
        !self.may_be_placed()
    }

    /// An object of it may be in the member: one is, or the member was asked.
    pub(super) fn may_be_placed(&self) -> bool {
        self.placed || self.unanswered
    }

    /// No Work of the hub's: objects ([`Entry::former`]) that were found in the member with the marks of one that nobody holds. A Work
    /// of the hub's has a uid.
    pub fn is_stray(&self) -> bool {
        self.uid.is_empty() && self.phase == Phase::Desired
    }

    /// This body was applied, and successfully.
    pub fn is_applied(&self) -> bool {
        matches!(&self.applied, Some((applied, true)) if applied.ok)
    }
}

/// An application that ended.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The Work.
    pub key: String,
    /// Of the body that was applied.
    pub hash: Bytes,
    /// What came of it.
    pub applied: Applied,
    /// The member took at least one object.
    pub placed: bool,
    /// As in [`Entry::written`].
    pub written: Vec<u64>,
    /// As in [`Entry::unanswered`].
    pub unanswered: bool,
}
