//! An object's JSON as it lies in memory: in the sizes that the allocator has.
//!
//! In: JSON bytes. Out: the same bytes, whole or a piece at a time.
//!
//! Allocators of size classes have four of them between a power of two and the next: 2,200 bytes lie in 2,560, and where a class is a
//! power of two, a page holds so few that its header weighs, too. A cache of many objects would be a sixth larger for it than its
//! JSON, so JSON is cut in two where that saves memory: 2,200 bytes lie in 1,792 and 448. Who reads it whole gets a copy, which costs
//! less than parsing or sending it. What other objects have as well lies apart, once for all of them.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

/// Below, a class is so close that nothing is saved.
const SMALLEST: usize = 256;
/// Above, the allocator gives whole pages, and what is not written to of them is no memory.
const LARGEST: usize = 14 << 10;
/// A page of memory, and what jemalloc keeps of each run of them.
const PAGE: usize = 4096;
const HEADER: usize = 136;

/// JSON bytes in at most three pieces.
#[derive(Debug)]
pub(super) struct Pieces(Layout);

#[derive(Debug)]
enum Layout {
    /// One after the other; the tail may be empty.
    Cut { head: Box<[u8]>, tail: Box<[u8]> },
    /// Elsewhere, at least in part. Behind a pointer, so that the common case pays nothing for it.
    Apart(Box<Apart>),
}

#[derive(Debug)]
enum Apart {
    /// Shared with whoever reads it.
    Whole(Bytes),
    /// `shared` stands at `at` of what is the object's own.
    Around { own: Box<[u8]>, at: usize, shared: Arc<[u8]> },
}

impl Pieces {
    /// Lays bytes down.
    pub(super) fn of(bytes: &Bytes) -> Pieces {
        if bytes.len() > LARGEST {
            return Pieces(Layout::Apart(Box::new(Apart::Whole(bytes.clone()))));
        }
        let (head, tail) = bytes.split_at(cut(bytes.len()));
        Pieces(Layout::Cut { head: head.into(), tail: tail.into() })
    }

    /// Lays bytes down of which those at `place` are `shared`.
    pub(super) fn around(bytes: &Bytes, place: Range<usize>, shared: Arc<[u8]>) -> Pieces {
        let own = [&bytes[..place.start], &bytes[place.end..]].concat().into();
        Pieces(Layout::Apart(Box::new(Apart::Around { own, at: place.start, shared })))
    }

    /// All pieces; some may be empty.
    pub(super) fn all(&self) -> [&[u8]; 3] {
        match &self.0 {
            Layout::Cut { head, tail } => [head, tail, &[]],
            Layout::Apart(apart) => match &**apart {
                Apart::Whole(bytes) => [bytes, &[], &[]],
                Apart::Around { own, at, shared } => [&own[..*at], shared, &own[*at..]],
            },
        }
    }

    /// In one piece: shared where it lies so, else copied.
    pub(super) fn whole(&self) -> Bytes {
        match &self.0 {
            Layout::Apart(apart) => match &**apart {
                Apart::Whole(bytes) => bytes.clone(),
                Apart::Around { .. } => self.all().concat().into(),
            },
            Layout::Cut { head, tail } => [&head[..], &tail[..]].concat().into(),
        }
    }

    /// How many bytes there are.
    pub(super) fn len(&self) -> usize {
        self.all().iter().map(|piece| piece.len()).sum()
    }

    /// The bytes from `from` on, `len` of them, where they lie in one piece.
    pub(super) fn get(&self, from: usize, len: usize) -> Option<&[u8]> {
        let mut from = from;
        for piece in self.all() {
            if from < piece.len() {
                return piece.get(from..from + len);
            }
            from -= piece.len();
        }
        (len == 0).then_some(&[])
    }
}

/// Where so many bytes are cut: where both pieces together take the least memory, or not at all.
fn cut(len: usize) -> usize {
    if len < SMALLEST {
        return len;
    }
    let heads = std::iter::successors(Some(class_below(len)), |head| Some(class_below(head - 1)));
    // Down to a quarter of it; below, the tail is what the head was.
    heads.take(8).chain([len]).min_by_key(|head| taken(*head) + taken(len - head)).unwrap_or(len)
}

/// The largest size of the allocator that is not above `len`, of those from 128 on: quarters between powers of two.
fn class_below(len: usize) -> usize {
    let step = 1 << (len.ilog2() - 2);
    len / step * step
}

/// What the allocator takes for so many bytes: their size class, and its share of what a run of pages costs it. A run is as many
/// pages as hold a whole number of the class.
fn taken(len: usize) -> usize {
    if len == 0 {
        return 0;
    }
    let step = if len <= 128 { 16 } else { 1 << ((len - 1).ilog2() - 2) };
    let class = len.div_ceil(step) * step;
    let run = (class >> class.trailing_zeros()) << class.trailing_zeros().max(PAGE.ilog2());
    class + HEADER * class / run
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn no_object_loses_much_to_the_allocator() {
        assert_eq!((taken(2200), cut(2200)), (2560 + 17, 1792));
        let mut all = (0, 0);
        for len in SMALLEST..=LARGEST {
            let lies_in = taken(cut(len)) + taken(len - cut(len));
            assert!(lies_in <= taken(len), "{len} bytes take {lies_in}, uncut {}", taken(len));
            assert!(lies_in * 100 <= len * 108, "{len} bytes take {lies_in}");
            all = (all.0 + len, all.1 + lies_in);
        }
        assert!(all.1 * 1000 < all.0 * 1025, "on average {all:?}");
    }

    proptest! {
        #[test]
        fn what_is_laid_down_is_read_back(bytes in proptest::collection::vec(any::<u8>(), 0..20_000), at in 0usize..20_000) {
            let bytes = Bytes::from(bytes);
            let pieces = Pieces::of(&bytes);
            prop_assert_eq!(&pieces.whole(), &bytes);
            prop_assert_eq!(pieces.len(), bytes.len());
            let wanted = bytes.get(at..at + 5);
            if let Some(got) = pieces.get(at, 5) {
                prop_assert_eq!(Some(got), wanted);
            }
        }
    }
}
