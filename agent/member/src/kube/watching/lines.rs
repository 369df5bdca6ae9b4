//! The lines of an answer that comes in parts.
//!
//! In: the parts as they come. Out: each line once its end is there. Each byte is looked at once, however many parts a line comes in,
//! and of a line that does not end no more than [`LONGEST`] is kept. Pure.

use bytes::{Buf, BytesMut};

/// The longest line: several times the largest object that a member's store takes.
pub(super) const LONGEST: usize = 8 << 20;

/// A line is longer than [`LONGEST`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event of more than {} MiB", LONGEST >> 20)]
pub(super) struct TooLong;

/// What came of an answer and was not taken yet.
#[derive(Debug, Default)]
pub(super) struct Lines {
    buffer: BytesMut,
    /// So many of its bytes are known to hold no end of a line.
    scanned: usize,
}

impl Lines {
    /// The next part.
    pub fn push(&mut self, part: &[u8]) {
        self.buffer.extend_from_slice(part);
    }

    /// The next line without its end, or `None` where more must come first.
    pub fn next(&mut self) -> Result<Option<BytesMut>, TooLong> {
        let end = self.buffer[self.scanned..].iter().position(|byte| *byte == b'\n');
        let Some(end) = end.map(|at| self.scanned + at) else {
            self.scanned = self.buffer.len();
            return if self.scanned > LONGEST { Err(TooLong) } else { Ok(None) };
        };
        if end > LONGEST {
            return Err(TooLong);
        }
        let line = self.buffer.split_to(end);
        self.buffer.advance(1);
        self.scanned = 0;
        Ok(Some(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_whole_however_they_are_cut() {
        let text = b"one\n\ntwo words\nlast";
        for size in 1..=text.len() {
            let (mut lines, mut told) = (Lines::default(), Vec::new());
            for part in text.chunks(size) {
                lines.push(part);
                while let Some(line) = lines.next().unwrap() {
                    told.push(line.to_vec());
                }
            }
            assert_eq!(told, [&b"one"[..], b"", b"two words"], "in parts of {size}");
        }
    }

    #[test]
    fn a_byte_is_looked_at_once_and_a_line_that_does_not_end_is_told() {
        let (mut lines, part) = (Lines::default(), vec![b'x'; 16 << 10]);
        for count in 1..=LONGEST / part.len() {
            lines.push(&part);
            assert_eq!(lines.next(), Ok(None));
            assert_eq!(lines.scanned, count * part.len(), "nothing before is looked at again");
        }
        lines.push(b"x\n");
        assert_eq!(lines.next(), Err(TooLong), "with an end or without");
        let mut lines = Lines::default();
        lines.push(&vec![b'x'; LONGEST + 1]);
        assert_eq!(lines.next(), Err(TooLong));
    }
}
