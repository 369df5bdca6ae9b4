//! Bodies as they go over the wire, of which what many sites share is packed once for all of them.
//!
//! In: a body, and for a difference the body that it is of; what the other end can unpack. Out: the bytes, and how many packings were made for
//! them.
//!
//! A Work's objects name their cluster and their Work's own id, so that no two sites' bodies are the same; all but these mostly is. A large body
//! is cut there. What is left and right of them is packed apart and kept by its content, and the frames of zstd stand one after the other. A
//! small body is packed whole for each site: its pieces would take more bytes, and save about as much time as its hash takes. So is one of many
//! objects, which have more in common with each other than with other sites' pieces.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use karmada_proto::body::{self, Encoded, Packing};
use karmada_proto::delta;
use karmada_proto::v1::Encoding;
use parking_lot::Mutex;

/// The shortest piece that is packed apart.
const PIECE: usize = 4 * 1024;
/// What comes before the cluster's name, and the Work's id, in each object.
const SITES_OWN: [&str; 2] = [r#""work.karmada.io/namespace":""#, r#""work.karmada.io/permanent-id":""#];
/// A body that falls into more pieces is packed whole.
const MOST_PIECES: usize = 8;
/// Bytes of pieces that are kept: half of them used lately, half before. Packed they take as much again at most.
const KEPT: usize = 4 << 20;
/// In a larger base nothing is looked for that a site has alone: it is packed without.
const LARGE_BASE: usize = 128 * 1024;

/// A piece, by what it is packed with and as. Its text is not kept: that may be a Secret's.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Piece {
    /// The hash of the base of a difference; empty for a piece on its own.
    base: Bytes,
    /// The hash of the text.
    text: Bytes,
    packing: Packing,
    /// Bytes of both.
    weight: usize,
}

impl Piece {
    fn of(base: &Bytes, text: &Bytes, packing: Packing) -> Self {
        let named = |bytes: &Bytes| if bytes.is_empty() { Bytes::new() } else { body::hash(bytes) };
        Piece { base: named(base), text: named(text), packing, weight: base.len() + text.len() }
    }
}

/// Packed once, by the first who needs it; the others wait for that.
type Packed = Arc<OnceLock<Option<Bytes>>>;

#[derive(Default)]
struct Kept {
    /// Used lately, and how many bytes that takes.
    young: (HashMap<Piece, Packed>, usize),
    /// Used before; goes when what was used lately takes its share.
    old: HashMap<Piece, Packed>,
}

impl Kept {
    fn get(&mut self, piece: Piece) -> Packed {
        if let Some(packed) = self.young.0.get(&piece) {
            return packed.clone();
        }
        let packed = self.old.remove(&piece).unwrap_or_default();
        if self.young.1 + piece.weight > KEPT / 2 {
            self.old = std::mem::take(&mut self.young.0);
            self.young.1 = 0;
        }
        self.young.1 += piece.weight;
        self.young.0.insert(piece, packed.clone());
        packed
    }
}

/// What all sessions of a hub have packed.
#[derive(Default)]
pub struct Encodings {
    kept: Mutex<Kept>,
    packed: AtomicU64,
    shared: AtomicU64,
}

/// Without what it keeps: Works may carry Secrets.
impl std::fmt::Debug for Encodings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encodings").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

impl Encodings {
    /// Of the pieces that may be shared: how many were packed, and how many times one was at hand already.
    pub fn counts(&self) -> (u64, u64) {
        (self.packed.load(Ordering::Relaxed), self.shared.load(Ordering::Relaxed))
    }

    /// A body on its own.
    pub fn whole(&self, text: &Bytes, packing: Packing) -> Encoded {
        let cuts = cuts(text);
        if !cuts.iter().any(|cut| cut.is_shared) || cuts.len() > MOST_PIECES {
            return body::encode_for(text, packing);
        }
        let frames = cuts.iter().map(|cut| {
            let text = text.slice(cut.from..cut.to);
            let pack = |text: &Bytes| body::frame_of(text, packing);
            if cut.is_shared { self.shared((&Bytes::new(), &text), packing, pack) } else { pack(&text) }
        });
        match joined(frames).filter(|bytes| bytes.len() < text.len()) {
            Some(bytes) => Encoded { encoding: packing.encoding(), bytes, decoded_size: text.len() as u64 },
            None => body::encode_for(text, packing),
        }
    }

    /// What differs in a body from `base`. `None` where it cannot be packed.
    pub fn difference(&self, base: &Bytes, text: &Bytes) -> Option<Encoded> {
        let cuts = cuts(text);
        let bases = self::cuts(base);
        // What both end with after what is the site's own: the end of a base serves as well as all of it. What comes before is at another
        // distance from the end for each site.
        let end = match (&cuts[..], &bases[..]) {
            ([.., cut], [.., of]) if cut.is_shared && of.is_shared && cut.from > 0 => Some((cut, of)),
            _ => None,
        };
        let bytes = match end {
            Some((cut, of)) => {
                let (first, last, end) = (&text[..cut.from], text.slice(cut.from..), base.slice(of.from..));
                let own = if base.len() > LARGE_BASE {
                    body::frame_of(first, Packing::Alone)
                } else {
                    delta::frame_of(base, first)
                };
                let shared = self.shared((&end, &last), Packing::Alone, |last| delta::frame_of(&end, last));
                joined([own, shared].into_iter())?
            }
            None => delta::frame_of(base, text)?,
        };
        Some(Encoded { encoding: Encoding::ZstdOnBase, bytes, decoded_size: text.len() as u64 })
    }

    /// The frame of a piece that other sites may have as well.
    fn shared(
        &self,
        (base, text): (&Bytes, &Bytes),
        packing: Packing,
        pack: impl FnOnce(&Bytes) -> Option<Bytes>,
    ) -> Option<Bytes> {
        if base.len() + text.len() > KEPT / 2 {
            self.packed.fetch_add(1, Ordering::Relaxed);
            return pack(text);
        }
        // Hashed before the lock is taken, which all sessions share.
        let piece = Piece::of(base, text, packing);
        let packed = self.kept.lock().get(piece);
        let mut is_new = false;
        let frame = packed.get_or_init(|| {
            is_new = true;
            pack(text)
        });
        let count = if is_new { &self.packed } else { &self.shared };
        count.fetch_add(1, Ordering::Relaxed);
        frame.clone()
    }
}

fn joined(frames: impl Iterator<Item = Option<Bytes>>) -> Option<Bytes> {
    let frames: Vec<Bytes> = frames.collect::<Option<_>>()?;
    Some(frames.concat().into())
}

/// A part of a body: other sites may have it as well, or it names the cluster.
#[derive(Debug, PartialEq, Eq)]
struct Cut {
    from: usize,
    to: usize,
    is_shared: bool,
}

/// Cuts a body around what is one site's own. Where the cuts are matters to nothing but how much is shared; short pieces are put together.
fn cuts(text: &[u8]) -> Vec<Cut> {
    let mut cuts: Vec<Cut> = Vec::new();
    let mut add = |from: usize, to: usize, is_named: bool| {
        let is_shared = !is_named && to - from >= PIECE;
        match cuts.last_mut() {
            Some(last) if !last.is_shared && !is_shared => last.to = to,
            _ if from == to => {}
            _ => cuts.push(Cut { from, to, is_shared }),
        }
    };
    let mut from = 0;
    // A body is JSON, and text therefore; what is not is one piece.
    let whole = if text.len() < PIECE { "" } else { std::str::from_utf8(text).unwrap_or_default() };
    let next = |from: usize| {
        let found =
            SITES_OWN.iter().filter_map(|own| whole[from..].find(own).map(|at| from + at + own.len()));
        found.min()
    };
    while let Some(name) = next(from) {
        let end = whole[name..].find('"').map_or(whole.len(), |length| name + length);
        add(from, name, false);
        add(name, end, true);
        from = end;
    }
    add(from, text.len(), text.len() < PIECE);
    cuts
}

#[cfg(test)]
mod tests;
