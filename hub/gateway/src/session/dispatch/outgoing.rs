//! A body on its way to the agent, in chunks.
//!
//! In: what waits in the slot of the same Work meanwhile; how much credit there is. Out: whether the body is worth finishing, and its next
//! chunk. Pure.

use bytes::Bytes;
use karmada_proto::{body, v1};

use crate::ports::Work;
use crate::queue::Pending;
use crate::session::chunk_size::ChunkSize;
use crate::work_body;

/// A body on its way.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) frame: v1::Upsert,
    pub(super) encoded: Bytes,
    /// A body of this Work was given up for it.
    pub(super) is_second: bool,
}

impl Outgoing {
    /// Whether what waits has this very body, under the same header, and nobody asks for it anew.
    pub(super) fn is_body_of(&self, pending: &Pending) -> bool {
        match pending {
            Pending::Upsert { work, resend: false } if self.has_header_of(work) => {
                work_body::body_hash(&work.body.json()).is_some_and(|hash| hash == self.frame.hash)
            }
            _ => false,
        }
    }

    /// Whether `pending`, which has another body, can wait until this one is sent: whoever changes a Work faster than the line takes its body
    /// would else keep the site from ever having any.
    pub(super) fn is_sent_before(&self, pending: &Pending) -> bool {
        let Pending::Upsert { work, resend: false } = pending else { return false };
        self.is_second && self.has_header_of(work)
    }

    /// Whether the Work still says beside its body what the frame says. Where it was suspended since, the body must not go on its way under the
    /// older word: the site would enforce it before it hears of that.
    fn has_header_of(&self, work: &Work) -> bool {
        let frame = &self.frame;
        (&*work.uid, &*work.retry, work.suspended, work.preserve)
            == (&*frame.uid, &*frame.retry, frame.suspended, frame.preserve)
    }

    /// The frame with the next chunk of at most `room` bytes, and whether it is the last one.
    pub(super) fn next_chunk(&mut self, room: u64, size: &mut ChunkSize) -> (v1::Upsert, bool) {
        let chunk = body::chunk(&self.encoded, self.frame.offset, room.min(size.next()));
        size.sent(chunk.len() as u64);
        let frame = v1::Upsert { chunk, ..self.frame.clone() };
        self.frame.offset += frame.chunk.len() as u64;
        (frame, self.frame.offset >= self.frame.encoded_size)
    }
}
