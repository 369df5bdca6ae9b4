//! How large an object may be, and what of that is left for its status. Pure.
//!
//! In: what an object says beside its status. Out: bytes of JSON. A status that does not fit is refused whole and for ever: whoever writes one that
//! grows with its object leaves out what it can do without.

use std::io::{self, Write};

use serde::Serialize;

/// Bytes of JSON of the largest object that is stored.
pub const LARGEST: usize = karmada_schema::object::LARGEST;

/// Of these, what is kept for what others write beside a status: who wrote which field, finalizers, a version.
const KEPT: usize = 32 << 10;

/// Counts what is written.
#[derive(Default)]
struct Count(usize);

impl Write for Count {
    fn write(&mut self, written: &[u8]) -> io::Result<usize> {
        self.0 += written.len();
        Ok(written.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Bytes of JSON of something.
pub fn bytes(of: &impl Serialize) -> usize {
    let mut count = Count::default();
    // A count takes everything; what cannot be written as JSON is written nowhere.
    match serde_json::to_writer(&mut count, of) {
        Ok(()) => count.0,
        Err(_) => 0,
    }
}

/// Bytes of JSON that the status of an object may have which says these beside it.
pub fn room_for_status(metadata: &impl Serialize, spec: &impl Serialize) -> usize {
    room_within(LARGEST, metadata, spec)
}

/// The same of an object that may have so many bytes in all.
pub fn room_within(largest: usize, metadata: &impl Serialize, spec: &impl Serialize) -> usize {
    largest.saturating_sub(KEPT + bytes(metadata) + bytes(spec))
}
