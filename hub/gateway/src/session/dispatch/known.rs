//! What the agent is known to hold of a Work: its body's hash, and what was told beside it.
//!
//! In: Works that were told, and the agent's reports. Out: whether a Work has anything to tell. Pure.

use std::sync::Arc;

use bytes::Bytes;

use crate::ports::Work;

/// What the agent is known to hold of a Work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) uid: Arc<str>,
    /// Empty where the last word was a tombstone.
    pub(super) hash: Bytes,
    /// What was told beside the body, or with the tombstone; `None` where only the agent's word on the hash is known.
    pub(super) header: Option<ToldHeader>,
}

/// What a Work says beside its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ToldHeader {
    suspended: bool,
    preserve: bool,
    generation: u64,
    retry: Arc<str>,
}

impl ToldHeader {
    pub(super) fn of(work: &Work) -> Self {
        let Work { suspended, preserve, generation, ref retry, .. } = *work;
        Self { suspended, preserve, generation, retry: retry.clone() }
    }

    /// What a tombstone of `work` says.
    pub(super) fn of_tombstone(work: &Work) -> Self {
        Self { suspended: false, generation: 0, ..Self::of(work) }
    }
}
