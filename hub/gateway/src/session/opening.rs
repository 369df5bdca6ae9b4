//! What a session begins with, and the welcome that says so.
//!
//! In: what was decided of the session, what the agent understands. Out: the first frame to the agent. Pure.

use std::time::Duration;

use bytes::Bytes;
use karmada_proto::v1::{self, Credit};
use karmada_proto::{CHUNK, FEATURES};

use super::restore_hold::SessionHold;
use crate::options::Options;

/// What a session begins with.
#[derive(Debug, Clone)]
pub struct Opening {
    /// The protocol version agreed on.
    pub protocol: u32,
    /// This session's number.
    pub session_seq: u64,
    /// The hub's epoch.
    pub epoch: u64,
    /// The proof that it was handed out.
    pub epoch_seal: Bytes,
    /// This start of the hub, by the number that this Cluster's agent is told.
    pub timeline: u64,
    /// Where the watch resumes; `None`: a full listing.
    pub resumed: Option<u64>,
    /// Whether what the agent was told is all of this hub's history.
    pub of_our_history: bool,
    /// Which deletes of listings wait for a person to confirm them.
    pub restore_hold: Option<SessionHold>,
    /// See [`crate::session_admission::retry_hint`].
    pub retry_hint: Duration,
    /// The hub's wall clock, milliseconds since 1970 UTC.
    pub hub_clock_ms: i64,
    /// What tells the CAs that are to be trusted from others.
    pub trust_revision: u64,
}

impl Opening {
    /// The welcome of an agent that understands `features` and may send what `credit` says.
    pub(super) fn welcome(&self, features: &[String], credit: Credit, options: &Options) -> v1::Welcome {
        v1::Welcome {
            protocol: self.protocol,
            session_seq: self.session_seq,
            epoch: self.epoch,
            ping_min_ms: options.ping_min.as_millis() as u64,
            ping_max_ms: options.ping_max.as_millis() as u64,
            retry_hint_ms: self.retry_hint.as_millis() as u64,
            credit: Some(credit),
            hub_clock_ms: self.hub_clock_ms,
            frame_limit: CHUNK as u32,
            timeline: self.timeline,
            epoch_seal: self.epoch_seal.clone(),
            trust_bundle_revision: self.trust_revision,
            features: agreed(features),
        }
    }
}

/// What both ends understand.
fn agreed(theirs: &[String]) -> Vec<String> {
    let ours = FEATURES.iter().filter(|feature| theirs.iter().any(|their| their == *feature));
    ours.map(|feature| (*feature).to_owned()).collect()
}
