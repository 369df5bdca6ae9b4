//! A body told by what differs from another that both ends hold: zstd with the other body as its dictionary, as `zstd --patch-from` does.
//!
//! In: a base and a body. Out: the difference, and from it and the base the body again. Which base both ends hold is the callers' to know;
//! that the body is the right one its hash tells, as of any body. Nothing larger than [`BODY_LIMIT`] is taken or made.
//!
//! A dictionary of plain content is what comes right before the body, as far as zstd goes: what is packed with the end of a base is unpacked
//! with all of it. So what many bases end with alike is packed once, and several frames may stand for a body.

use std::io;

use bytes::Bytes;
use zstd::zstd_safe::{CCtx, CParameter, DCtx, ErrorCode, compress_bound, get_error_name};

use crate::body::BodyError;
use crate::{BODY_LIMIT, dictionary};

/// Bytes of a base's hash by which it is named: the hash of what comes out is looked at in full.
pub const BASE: usize = 8;

/// Both together from here on are looked through for long matches, too: a table of plain ones forgets what is far away.
const LONG_FROM: usize = 256 * 1024;

fn failed(code: ErrorCode) -> io::Error {
    io::Error::other(get_error_name(code))
}

/// `piece` of a body as a frame of zstd on `base`, or on the end of it. `None` where it cannot be packed.
pub fn frame_of(base: &[u8], piece: &[u8]) -> Option<Bytes> {
    let both = base.len() + piece.len();
    if both > 2 * BODY_LIMIT {
        return None;
    }
    pack(base, piece, both).ok().map(Bytes::from)
}

fn pack(base: &[u8], piece: &[u8], both: usize) -> io::Result<Vec<u8>> {
    let mut context = CCtx::try_create().ok_or(io::ErrorKind::OutOfMemory)?;
    let window = both.next_power_of_two().ilog2().max(10);
    let parameters = [CParameter::CompressionLevel(dictionary::LEVEL), CParameter::WindowLog(window)];
    let long = (both >= LONG_FROM).then_some(CParameter::EnableLongDistanceMatching(true));
    for parameter in parameters.into_iter().chain(long) {
        context.set_parameter(parameter).map_err(failed)?;
    }
    context.ref_prefix(base).map_err(failed)?;
    let mut packed = Vec::with_capacity(compress_bound(piece.len()));
    context.compress2(&mut packed, piece).map_err(failed)?;
    Ok(packed)
}

/// The body behind `packed`, on `base`. Memory is bounded by `decoded_size`, which is bounded by [`BODY_LIMIT`]. Its hash is the caller's to
/// compare: any bytes may come out, where the base is another.
///
/// # Errors
/// It is too large, or does not unpack to its size.
pub fn unpack(base: &[u8], packed: &[u8], decoded_size: u64) -> Result<Bytes, BodyError> {
    if decoded_size > BODY_LIMIT as u64 {
        return Err(BodyError::TooLarge(decoded_size));
    }
    let malformed = |_| BodyError::Malformed;
    let mut context = DCtx::try_create().ok_or(BodyError::Malformed)?;
    context.ref_prefix(base).map_err(malformed)?;
    let mut body = Vec::with_capacity(decoded_size as usize);
    context.decompress(&mut body, packed).map_err(malformed)?;
    if body.len() as u64 != decoded_size {
        return Err(BodyError::Malformed);
    }
    Ok(body.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text that shrinks little on its own.
    fn text(length: usize, seed: u64) -> String {
        let mut state = seed;
        let letter = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            char::from(b'a' + ((state >> 40) % 26) as u8)
        };
        (0..length).map(letter).collect()
    }

    #[test]
    fn a_change_costs_a_few_bytes_whatever_the_size() {
        for size in [300, 2_000, 20_000, 200_000, 1_400_000] {
            let before = text(size, 1);
            let mut after = before.clone();
            after.replace_range(size / 2..size / 2 + 1, "17");
            let packed = frame_of(before.as_bytes(), after.as_bytes()).unwrap();
            assert!(packed.len() < 200, "{size}: {}", packed.len());
            let again = unpack(before.as_bytes(), &packed, after.len() as u64);
            assert_eq!(again.as_deref(), Ok(after.as_bytes()), "{size}");
        }
    }

    #[test]
    fn what_is_packed_with_the_end_of_a_base_is_unpacked_with_all_of_it() {
        let (end, new_end) = (text(9_000, 2), text(9_000, 2).replace("ab", "ba"));
        for site in ["berlin", "a-much-longer-name"] {
            let (base, body) = (format!("{{{site}{end}"), format!("{{{site}{new_end}"));
            let own = frame_of(base.as_bytes(), format!("{{{site}").as_bytes()).unwrap();
            let shared = frame_of(end.as_bytes(), new_end.as_bytes()).unwrap();
            let packed = [own, shared].concat();
            assert_eq!(unpack(base.as_bytes(), &packed, body.len() as u64).as_deref(), Ok(body.as_bytes()));
        }
    }

    #[test]
    fn another_base_gives_another_body_or_none_and_a_bomb_is_bounded() {
        let (before, after) = (text(3_000, 3), text(3_000, 3).replace('q', "17"));
        let packed = frame_of(before.as_bytes(), after.as_bytes()).unwrap();
        let other = unpack(text(3_000, 4).as_bytes(), &packed, after.len() as u64);
        assert_ne!(other.as_deref(), Ok(after.as_bytes()));
        assert!(unpack(b"", &packed, after.len() as u64).is_err());
        let bomb = frame_of(b"", &vec![0; 1_000_000]).unwrap();
        assert_eq!(unpack(b"", &bomb, 10), Err(BodyError::Malformed));
        let limit = BODY_LIMIT as u64 + 1;
        assert_eq!(unpack(b"", &bomb, limit), Err(BodyError::TooLarge(limit)));
        assert_eq!(unpack(b"x", b"", 5), Err(BodyError::Malformed));
    }
}
