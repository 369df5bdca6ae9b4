//! How the bodies of one session are packed: whole, or as what differs from the body that the agent holds.
//!
//! In: what the agent can unpack, by its hello, and what it could not make use of; bodies, with the one that it holds where that is known. Out:
//! the encoding of each. A difference is told where it is much smaller. Of a Work of which the agent once wanted the body, no difference
//! is told any more in this session: whatever was wrong with it, nothing goes round in circles. Pure.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use karmada_proto::body::{self, Encoded, Packing};
use karmada_proto::{DELTAS, delta, v1};

use crate::encodings::Encodings;
use crate::ports::Work;

/// Works that wait, beyond which no earlier bodies are held for them: of a slow link's many, nobody else has use for those.
const FORMERS: usize = 256;

/// The largest difference. What a line lets through of one before it is cut is lost, as the next session may begin from another base; of a whole
/// body it is kept: a larger one, on a line that is cut again and again, never came.
const LONGEST: usize = 64 << 10;

/// A difference of this part of the text is told without a look at how small the whole body would be.
const SMALL: usize = 16;

/// How bodies are packed for one agent.
#[derive(Debug)]
pub(super) struct Packs {
    packing: Packing,
    encodings: Arc<Encodings>,
    /// `None`: the agent takes no differences. Else those Works of which it is told none any more.
    whole: Option<BTreeSet<Arc<str>>>,
    /// Up to which revision the agent held everything when the session began.
    held: Option<u64>,
}

/// One body as it is told.
pub(super) struct Telling {
    encoded: Encoded,
    /// Of the base, where it is a difference.
    base: Bytes,
}

impl Telling {
    /// Says in `frame` how the body is encoded. Returns what is to be sent in its chunks.
    pub(super) fn put_in(self, frame: &mut v1::Upsert) -> Bytes {
        frame.encoding = self.encoded.encoding.into();
        frame.encoded_size = self.encoded.bytes.len() as u64;
        frame.decoded_size = self.encoded.decoded_size;
        frame.base = self.base;
        self.encoded.bytes
    }
}

impl Packs {
    /// For an agent that names these features; `held`: where its watch resumes.
    pub(super) fn new(features: &[String], held: Option<u64>) -> Self {
        let takes = features.iter().any(|feature| feature == DELTAS);
        Self {
            packing: Packing::of(features),
            encodings: Arc::default(),
            whole: takes.then(BTreeSet::new),
            held,
        }
    }

    pub(super) fn share(&mut self, encodings: Arc<Encodings>) {
        self.encodings = encodings;
    }

    /// Whether a change of this Work may be told as a difference.
    pub(super) fn tells_difference(&self, key: &str) -> bool {
        self.whole.as_ref().is_some_and(|whole| !whole.contains(key))
    }

    /// Whether the agent held what had this revision when the session began.
    pub(super) fn was_held_before(&self, revision: u64) -> bool {
        self.held.is_some_and(|held| revision <= held)
    }

    /// The agent wants the body of this Work.
    pub(super) fn whole_from_now_on(&mut self, key: &Arc<str>) {
        if let Some(whole) = &mut self.whole {
            whole.insert(key.clone());
        }
    }

    /// `work`, without what it was before where so many wait already.
    pub(super) fn bounded(&self, work: Work, waiting: usize) -> Work {
        let is_of_use = self.whole.is_some() && !work.deleting && waiting < FORMERS;
        Work { former: work.former.filter(|_| is_of_use), ..work }
    }

    /// Packs a body; as what differs from `base` where there is one, and that takes half of the bytes at most.
    pub(super) fn pack(&self, body: &Bytes, base: Option<Bytes>) -> Telling {
        let difference = base.and_then(|base| {
            let difference = self.encodings.difference(&base, body).filter(|it| it.bytes.len() <= LONGEST)?;
            Some((difference, body::hash(&base).slice(..delta::BASE)))
        });
        let size = |difference: &Encoded| difference.bytes.len() + delta::BASE;
        // So little that the whole body need not be packed to know.
        if let Some((encoded, base)) = difference.clone().filter(|(it, _)| SMALL * size(it) <= body.len()) {
            return Telling { encoded, base };
        }
        let whole = self.encodings.whole(body, self.packing);
        match difference.filter(|(it, _)| 2 * size(it) <= whole.bytes.len()) {
            Some((encoded, base)) => Telling { encoded, base },
            None => Telling { encoded: whole, base: Bytes::new() },
        }
    }
}
