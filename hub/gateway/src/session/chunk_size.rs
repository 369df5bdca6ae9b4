//! How large the next chunk of a body may be.
//!
//! In: how much was sent in chunks in this session. Out: what the next one carries at most. Pure.
//!
//! An agent keeps the chunks that came whole. How fast the line is, no end knows when a session begins, as its own system takes what the line does
//! not. So no chunk is larger than all before it together, but for the first: of what came before a line was cut, whatever its rate, at least about half was
//! whole chunks, and the next session goes on after them.

use karmada_proto::CHUNK;

/// The first chunk of a session.
const FIRST: u64 = 4 * 1024;

/// The size of the next chunk of a session.
#[derive(Debug, Default)]
pub(super) struct ChunkSize {
    sent: u64,
}

impl ChunkSize {
    /// What the next chunk carries at most.
    pub(super) fn next(&self) -> u64 {
        self.sent.clamp(FIRST, CHUNK as u64)
    }

    /// A chunk was sent.
    pub(super) fn sent(&mut self, bytes: u64) {
        self.sent = self.sent.saturating_add(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bodies of these sizes, one after the other: wherever they are cut, about half of what was sent by then was whole chunks.
    fn is_kept_by_half(bodies: &[u64]) {
        let (mut size, mut whole) = (ChunkSize::default(), 0);
        for body in bodies {
            let mut left = *body;
            while left > 0 {
                let chunk = left.min(size.next());
                assert!((1..=CHUNK as u64).contains(&chunk));
                let cut = whole + chunk - 1;
                assert!(whole >= cut.saturating_sub(FIRST) / 2, "{whole} of {cut}");
                size.sent(chunk);
                (left, whole) = (left - chunk, whole + chunk);
            }
        }
    }

    #[test]
    fn what_is_cut_goes_on_at_half_of_it_or_later() {
        is_kept_by_half(&[1_000_000]);
        is_kept_by_half(&[200, 200, 200, 200, 200, 60_000]);
        is_kept_by_half(&[3_000; 100]);
    }

    #[test]
    fn a_large_body_soon_goes_in_the_largest_chunks() {
        let mut size = ChunkSize::default();
        let sizes: Vec<u64> = std::iter::from_fn(|| {
            let next = size.next();
            size.sent(next);
            Some(next / 1024)
        })
        .take(8)
        .collect();
        assert_eq!(sizes, [4, 4, 8, 16, 32, 64, 64, 64]);
    }
}
