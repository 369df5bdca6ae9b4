//! What becomes of an object, by the state of its owners. Pure.
//!
//! In: how each owner stands, the object's finalizers, and whether it has dependants. Out: a [`Verdict`]. Where it cannot be told whether
//! an owner is there, nothing is deleted.

use super::{OwnerReference, propagation_of};
use karmada_controller_runtime::port::{DeletionPropagation, Resource};

/// The group of bindings and Works.
const WORK_GROUP: &str = "work.karmada.io";

/// How an owner stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OwnerState {
    /// It exists.
    Present,
    /// It exists, is deleted, and waits for its dependants to go first.
    Waiting,
    /// It does not exist.
    Absent,
    /// It cannot be told.
    Unknown,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing.
    Keep,
    /// Nothing now; an owner cannot be told.
    AskAgain,
    /// Drop the references to owners that are not present.
    DropOwners,
    /// Delete the object.
    Delete(DeletionPropagation),
}

/// Decides about an object that is not being deleted.
pub(super) fn decide(owners: &[OwnerState], finalizers: &[String], has_dependants: bool) -> Verdict {
    let any = |state: OwnerState| owners.contains(&state);
    if owners.is_empty() {
        return Verdict::Keep;
    }
    if any(OwnerState::Unknown) {
        return Verdict::AskAgain;
    }
    if any(OwnerState::Present) {
        let all = owners.iter().all(|state| *state == OwnerState::Present);
        return if all { Verdict::Keep } else { Verdict::DropOwners };
    }
    // What an owner waits for lets its own dependants go first too.
    if any(OwnerState::Waiting) && has_dependants {
        return Verdict::Delete(DeletionPropagation::Foreground);
    }
    Verdict::Delete(propagation_of(finalizers))
}

/// Whether the hub made a dependant for the owner `uid`: a binding or a Work that the owner controls. One that a user wrote names owners as
/// it likes, and controls nothing by it.
pub(super) fn is_of_the_hub(resource: &Resource, owners: &[OwnerReference], uid: &str) -> bool {
    &*resource.group == WORK_GROUP && owners.iter().any(|owner| owner.controller && &*owner.uid == uid)
}

#[cfg(test)]
mod tests {
    use super::OwnerState::{Absent, Present, Unknown, Waiting};
    use super::*;

    #[test]
    fn verdicts() {
        let orphan = ["orphan".to_owned()];
        let table: [(&[OwnerState], &[String], bool, Verdict); 10] = [
            (&[], &[], true, Verdict::Keep),
            (&[Present], &[], false, Verdict::Keep),
            (&[Present, Present], &[], false, Verdict::Keep),
            (&[Present, Absent], &[], false, Verdict::DropOwners),
            (&[Present, Waiting], &[], false, Verdict::DropOwners),
            (&[Absent, Absent], &[], true, Verdict::Delete(DeletionPropagation::Background)),
            (&[Absent], &orphan, true, Verdict::Delete(DeletionPropagation::Orphan)),
            (&[Waiting, Absent], &[], true, Verdict::Delete(DeletionPropagation::Foreground)),
            (&[Waiting], &[], false, Verdict::Delete(DeletionPropagation::Background)),
            (&[Absent, Unknown], &[], false, Verdict::AskAgain),
        ];
        for (owners, finalizers, has_dependants, expected) in table {
            assert_eq!(decide(owners, finalizers, has_dependants), expected, "{owners:?}");
        }
    }
}
