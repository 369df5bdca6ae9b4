//! What a session begins with, and the hello that says so.
//!
//! In: what the identity, the ledger, the member and the schedule tell. Out: the first frame of the session. Pure.

use bytes::Bytes;
use karmada_certs::SealKeys;
use karmada_proto::digest::{Content, Root, Seed};
use karmada_proto::v1::{self, Credit};
use karmada_proto::{FEATURES, PROTOCOL};

/// What a session begins with.
#[derive(Debug, Clone, Default)]
pub struct Opening {
    /// From the identity.
    pub cluster_name: String,
    /// Of the member.
    pub cluster_uid: String,
    /// Of the agent's key.
    pub key_fingerprint: String,
    /// Random per process.
    pub boot_id: String,
    /// From the ledger.
    pub epoch: u64,
    /// From the ledger.
    pub cursor: u64,
    /// From the ledger: the hub's start that told the cursor.
    pub timeline: u64,
    /// From the ledger: where the cursor was before a listing that is unfinished.
    pub former_cursor: u64,
    /// From the ledger: what it may hold beyond the cursor.
    pub seen: Vec<v1::Seen>,
    /// From the ledger: the hub's proof of the epoch.
    pub epoch_seal: Bytes,
    /// Whose proofs count.
    pub seal_keys: SealKeys,
    /// The agent's wall clock, milliseconds since 1970 UTC.
    pub clock_ms: i64,
    /// From the schedule.
    pub attempt: u32,
    /// What the session's digests are salted with: random, and of this session alone.
    pub seed: Seed,
    /// The root over what the hub was told of Works, over `seed`.
    pub status_root: Root,
    /// Of the cluster's status, as the hub was told it last.
    pub cluster_digest: Option<Content>,
    /// From the ledger: the documents that are held.
    pub holdings: Vec<v1::Holding>,
}

impl Opening {
    /// The hello of an agent that holds so many Works, with this root over them; `partial`: what it has of a body that was cut off, and of documents;
    /// `credit`: what the hub may send.
    pub(super) fn hello(
        &self,
        objects: usize,
        ledger_root: &Root,
        (partial, partial_documents): (Option<v1::Partial>, Vec<v1::PartialDocument>),
        credit: Credit,
    ) -> v1::Hello {
        let digest = |content: Content| Bytes::copy_from_slice(&content);
        v1::Hello {
            protocol_min: PROTOCOL.0,
            protocol_max: PROTOCOL.1,
            cluster_name: self.cluster_name.clone(),
            cluster_uid: self.cluster_uid.clone(),
            key_fingerprint: self.key_fingerprint.clone(),
            boot_id: self.boot_id.clone(),
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
            features: FEATURES.map(str::to_owned).to_vec(),
            epoch: self.epoch,
            cursor: self.cursor,
            objects: objects as u32,
            ledger_root: ledger_root.bytes(),
            digest_seed: self.seed.bytes(),
            status_root: self.status_root.bytes(),
            cluster_digest: self.cluster_digest.map_or_else(Bytes::new, digest),
            holdings: self.holdings.clone(),
            clock_ms: self.clock_ms,
            credit: Some(credit),
            partial,
            partial_documents,
            attempt: self.attempt,
            timeline: self.timeline,
            former_cursor: self.former_cursor,
            epoch_seal: self.epoch_seal.clone(),
            seen: self.seen.clone(),
        }
    }
}
