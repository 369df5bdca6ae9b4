//! Bodies that are told by what differs from the one that is held.
//!
//! In: upserts of a difference, and the base, which the ledger is asked for. Out: the body, if it is the one that the hub means; a want where
//! it is not, or where the base is not held. Until one of the two is said, no cursor passes it.

use bytes::Bytes;
use karmada_proto::body::{BodyError, hash};
use karmada_proto::delta::{BASE, unpack};
use karmada_proto::v1::Upsert;

use super::{Intake, Out};

/// A difference that waits for its base.
#[derive(Debug)]
pub(super) struct Delta {
    /// Without its chunk.
    upsert: Upsert,
    /// Of the base, in full.
    base: Bytes,
    packed: Bytes,
}

impl Intake {
    /// A difference came, or a piece of one.
    pub(super) fn delta(&mut self, upsert: &Upsert, out: &mut Out) {
        let packed = match self.assembly.gather(upsert) {
            Ok(None) => return,
            Ok(Some(packed)) => packed,
            Err(error) => return self.unusable(upsert, &error, out),
        };
        let held = self.held.get(&upsert.key).map(|held| held.hash.clone());
        let base = held.filter(|hash| upsert.base.len() == BASE && hash.starts_with(&upsert.base));
        let Some(base) = base else { return self.unusable(upsert, &BodyError::NoBase, out) };
        // One is asked for at a time: whose ledger does not answer is sent the one before as a whole.
        if let Some(before) = self.delta.take() {
            self.unusable(&before.upsert, &BodyError::NoBase, out);
        }
        self.wanted.insert(upsert.key.clone());
        let upsert = Upsert { chunk: Bytes::new(), ..upsert.clone() };
        self.delta = Some(Delta { upsert, base, packed });
    }

    /// What comes of a Work is newer than a difference that waits, and is what is waited for from now on.
    pub(super) fn drop_pending_delta(&mut self, key: &str) {
        if self.delta.take_if(|delta| delta.upsert.key == key).is_some() {
            self.wanted.remove(key);
        }
    }

    /// What the ledger is to give: a Work's name, and the hash of its body.
    pub(in crate::session) fn base_wanted(&self) -> Option<(&str, &Bytes)> {
        self.delta.as_ref().map(|delta| (delta.upsert.key.as_str(), &delta.base))
    }

    /// The ledger gives it, or has it not.
    pub(in crate::session) fn base(&mut self, base: Option<&Bytes>, out: &mut Out) {
        let Some(Delta { upsert, packed, .. }) = self.delta.take() else { return };
        let body = base.ok_or(BodyError::NoBase).and_then(|base| unpack(base, &packed, upsert.decoded_size));
        match body {
            Ok(body) if hash(&body) == upsert.hash => self.whole(&upsert, body),
            Ok(_) => self.unusable(&upsert, &BodyError::HashDiffers, out),
            Err(error) => self.unusable(&upsert, &error, out),
        }
    }
}
