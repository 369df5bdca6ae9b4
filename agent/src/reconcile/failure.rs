//! Why a manifest is not applied, or an object not removed, in words for people and in what follows from it.
//!
//! In: errors of the member and the interpreter. Out: one sentence, whether the member asked for less or for a pause, whether a write may
//! still be carried out. Pure.

use std::time::Duration;

use karmada_interpreter::InterpretError;

use crate::member::{Gvk, MemberError, ObjectId};

/// The longest pause that a member is granted.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// Why a manifest is not applied.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Failure {
    /// Somebody else made the object.
    #[error(
        "{0} already exists in the member and will not be managed: set conflictResolution Overwrite in the policy to take it over"
    )]
    Unmanaged(ObjectId),
    /// The object must be gone before it can be made again.
    #[error("{0} is being deleted in the member and is made again once it is gone")]
    Terminating(ObjectId),
    /// The member refused or did not answer.
    #[error("{}", in_words(.0))]
    Member(#[from] MemberError),
    /// There may be objects that cannot be seen now.
    #[error(
        "the member does not serve {0} now and may hold objects of it: they are removed once it serves them, or once their definition is \
         gone there"
    )]
    Hidden(Gvk),
    /// The object is not what its kind promises.
    #[error(transparent)]
    Interpret(#[from] InterpretError),
    /// It crashed the agent before.
    #[error(
        "left alone: the agent ended {crashes} times while it worked on this Work and no other. It is tried again when it changes, \
         or after: karmadactl retry {key} --cluster {cluster}"
    )]
    Quarantined {
        /// How often.
        crashes: u32,
        /// The Work.
        key: String,
        /// Where.
        cluster: String,
    },
    /// Working on it panicked.
    #[error("working on it made the agent panic, which is a fault of the agent's: it is tried once more")]
    Panicked,
    /// It is what the agent itself lives by.
    #[error(
        "{0} belongs to the agent that keeps this member, and no Work may change or remove it: karmadactl register and unregister do"
    )]
    Own(ObjectId),
    /// What the hub sent is no list of manifests.
    #[error("the Work's body cannot be read: {0}")]
    Malformed(String),
}

/// A rule that is missing is named by the member; how to grant it, by us. (Quotas and webhooks forbid too, and are no rules.)
fn in_words(error: &MemberError) -> String {
    match error {
        MemberError::Forbidden(words) if words.contains(" cannot ") && words.contains(" in API group ") => {
            format!(
                "{words}: grant the agent this, or run karmadactl register again with wider --permissions"
            )
        }
        error => error.to_string(),
    }
}

impl Failure {
    /// Whether the member asked for less.
    pub fn is_throttling(&self) -> bool {
        matches!(
            self,
            Self::Member(
                MemberError::Throttled(_)
                    | MemberError::Overloaded(..)
                    | MemberError::Unreachable(_)
                    | MemberError::Unanswered(_)
            )
        )
    }

    /// Whether what was asked for may have been carried out all the same, or may be yet.
    pub fn leaves_open(&self) -> bool {
        match self {
            Self::Member(error) => error.leaves_open(),
            Self::Panicked => true,
            _ => false,
        }
    }

    /// The pause that the member asked for, where it did: never more than some minutes, whatever it says.
    pub fn pause(&self) -> Option<Duration> {
        match self {
            Self::Member(MemberError::Throttled(pause) | MemberError::Overloaded(_, pause)) => {
                Some((*pause).min(LONGEST_PAUSE))
            }
            _ => None,
        }
    }

    /// Whether a rule is missing.
    pub fn is_forbidden(&self) -> bool {
        matches!(self, Self::Member(MemberError::Forbidden(_)))
    }
}
