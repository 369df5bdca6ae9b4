//! How JSON bodies travel: hashed, compressed where it pays, cut into chunks, put together again.
//!
//! Each body is its own compression context, so that a secret never shares one with data another writer chose.
//! The hash is over the decoded bytes: what counts is what the agent would apply.

use std::cell::RefCell;
use std::io;

use bytes::{Bytes, BytesMut};
use sha2::{Digest, Sha256};
use zstd::bulk::{Compressor, Decompressor};

use crate::v1::{Encoding, Upsert};
use crate::{BODY_LIMIT, CHUNK};

/// Below this a body travels as it is: zstd's frame would eat the gain.
const COMPRESS_FROM: usize = 256;
/// zstd level: the fastest; Kubernetes JSON shrinks to a third or less even so.
const LEVEL: i32 = 1;

/// Why a body could not be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BodyError {
    /// The declared or decoded size is beyond [`BODY_LIMIT`].
    #[error("a body of {0} bytes is larger than the limit of {BODY_LIMIT}")]
    TooLarge(u64),
    /// zstd did not accept the bytes, or they decoded to another size than declared.
    #[error("the body does not decode")]
    Malformed,
    /// An encoding that this end does not know.
    #[error("the body's encoding {0} is unknown here")]
    UnknownEncoding(i32),
    /// The decoded bytes have another hash than declared.
    #[error("the body's hash differs from the one declared")]
    HashDiffers,
    /// A chunk came that does not continue what is held.
    #[error("a chunk at offset {got} where {want} was expected")]
    OutOfOrder {
        /// Where the next chunk must begin.
        want: u64,
        /// Where the received one began.
        got: u64,
    },
}

/// A body ready for the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoded {
    /// How `bytes` are encoded.
    pub encoding: Encoding,
    /// The encoded bytes.
    pub bytes: Bytes,
    /// Size before encoding.
    pub decoded_size: u64,
}

/// First 16 bytes of SHA-256 over `body`.
pub fn hash(body: &[u8]) -> Bytes {
    Bytes::copy_from_slice(&Sha256::digest(body)[..16])
}

thread_local! {
    // Making a context costs more than using it for a small body; what one holds is forgotten between two bodies.
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

fn compress(body: &[u8]) -> io::Result<Vec<u8>> {
    COMPRESSOR.with_borrow_mut(|held| {
        let mut compressor = held.take().map_or_else(|| Compressor::new(LEVEL), Ok)?;
        // One that failed is not used again.
        let packed = compressor.compress(body)?;
        *held = Some(compressor);
        Ok(packed)
    })
}

fn decompress(bytes: &[u8], size: usize) -> io::Result<Vec<u8>> {
    DECOMPRESSOR.with_borrow_mut(|held| {
        let mut decompressor = held.take().map_or_else(Decompressor::new, Ok)?;
        let body = decompressor.decompress(bytes, size)?;
        *held = Some(decompressor);
        Ok(body)
    })
}

/// Compresses `body` where that makes it smaller.
pub fn encode(body: &Bytes) -> Encoded {
    let decoded_size = body.len() as u64;
    if body.len() >= COMPRESS_FROM
        && let Ok(packed) = compress(body)
        && packed.len() < body.len()
    {
        return Encoded { encoding: Encoding::Zstd, bytes: packed.into(), decoded_size };
    }
    Encoded { encoding: Encoding::Identity, bytes: body.clone(), decoded_size }
}

/// The body behind `bytes`. Memory is bounded by `decoded_size`, which is bounded by [`BODY_LIMIT`].
pub fn decode(encoding: i32, bytes: &Bytes, decoded_size: u64) -> Result<Bytes, BodyError> {
    if decoded_size > BODY_LIMIT as u64 {
        return Err(BodyError::TooLarge(decoded_size));
    }
    let body = match Encoding::try_from(encoding) {
        Ok(Encoding::Identity) => bytes.clone(),
        Ok(Encoding::Zstd) => {
            decompress(bytes, decoded_size as usize).map_err(|_| BodyError::Malformed)?.into()
        }
        Err(_) => return Err(BodyError::UnknownEncoding(encoding)),
    };
    if body.len() as u64 != decoded_size {
        return Err(BodyError::Malformed);
    }
    Ok(body)
}

/// The next chunk of `encoded` from `offset`, at most `limit` and at most [`CHUNK`] bytes.
pub fn chunk(encoded: &Bytes, offset: u64, limit: u64) -> Bytes {
    let from = (offset as usize).min(encoded.len());
    let to = encoded.len().min(from + CHUNK.min(limit.max(1) as usize));
    encoded.slice(from..to)
}

/// Puts the chunks of one Work together.
#[derive(Debug, Default)]
pub struct Assembly {
    key: String,
    hash: Bytes,
    parts: BytesMut,
}

impl Assembly {
    /// Takes one frame of a body. `Ok(Some(body))` once it is complete and its hash is right; what is held is
    /// dropped on any error, so that the body can be asked for again.
    pub fn take(&mut self, frame: &Upsert) -> Result<Option<Bytes>, BodyError> {
        let result = self.step(frame);
        if !matches!(result, Ok(None)) {
            self.clear();
        }
        result
    }

    fn step(&mut self, frame: &Upsert) -> Result<Option<Bytes>, BodyError> {
        for size in [frame.encoded_size, frame.decoded_size] {
            if size > BODY_LIMIT as u64 {
                return Err(BodyError::TooLarge(size));
            }
        }
        if frame.offset == 0 {
            self.clear();
            self.key.clone_from(&frame.key);
            self.hash = frame.hash.clone();
        }
        let want = if self.key == frame.key && self.hash == frame.hash { self.parts.len() as u64 } else { 0 };
        if frame.offset != want {
            return Err(BodyError::OutOfOrder { want, got: frame.offset });
        }
        if frame.offset + frame.chunk.len() as u64 > frame.encoded_size {
            return Err(BodyError::Malformed);
        }
        let whole = if frame.offset == 0 && frame.chunk.len() as u64 == frame.encoded_size {
            frame.chunk.clone()
        } else {
            self.parts.extend_from_slice(&frame.chunk);
            if (self.parts.len() as u64) < frame.encoded_size {
                return Ok(None);
            }
            self.parts.split().freeze()
        };
        let body = decode(frame.encoding, &whole, frame.decoded_size)?;
        if hash(&body) != frame.hash {
            return Err(BodyError::HashDiffers);
        }
        Ok(Some(body))
    }

    /// What is held of an unfinished body: key, hash and bytes received.
    pub fn partial(&self) -> Option<(&str, &Bytes, u64)> {
        (!self.parts.is_empty()).then(|| (self.key.as_str(), &self.hash, self.parts.len() as u64))
    }

    /// Forgets what is held.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(body: &Bytes, step: u64) -> Vec<Upsert> {
        let encoded = encode(body);
        let mut offset = 0;
        let mut frames = Vec::new();
        loop {
            let chunk = chunk(&encoded.bytes, offset, step);
            let len = chunk.len() as u64;
            frames.push(Upsert {
                key: "nginx".into(),
                hash: hash(body),
                encoding: encoded.encoding.into(),
                encoded_size: encoded.bytes.len() as u64,
                decoded_size: encoded.decoded_size,
                offset,
                chunk,
                ..Upsert::default()
            });
            offset += len;
            if offset >= encoded.bytes.len() as u64 {
                return frames;
            }
        }
    }

    fn noise(len: usize) -> Bytes {
        let mut state = 7u32;
        (0..len)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            })
            .collect()
    }

    #[test]
    fn a_body_comes_back_whatever_its_size_and_step() {
        for size in [0, 1, 255, 256, 4096, CHUNK, CHUNK + 1, 300_000] {
            for body in [noise(size), Bytes::from(vec![b'a'; size])] {
                for step in [100, 1000, u64::MAX] {
                    if size as u64 / step > 100 {
                        continue;
                    }
                    let mut assembly = Assembly::default();
                    let frames = frames(&body, step);
                    let last = frames.len() - 1;
                    for (at, frame) in frames.iter().enumerate() {
                        assert!(frame.chunk.len() <= CHUNK);
                        let got = assembly.take(frame).unwrap();
                        assert_eq!(
                            got,
                            (at == last).then(|| body.clone()),
                            "size {size} step {step} at {at}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn repetitive_json_shrinks_and_noise_stays() {
        let json = Bytes::from("{\"a\":\"bbbbbbbbbbbbbbbbbbbb\"}".repeat(100));
        assert_eq!(encode(&json).encoding, Encoding::Zstd);
        assert!(encode(&json).bytes.len() * 5 < json.len());
        assert_eq!(encode(&noise(1000)).encoding, Encoding::Identity);
    }

    #[test]
    fn wrong_chunks_are_told_apart_and_forgotten() {
        let body = noise(3000);
        let frames = frames(&body, 1000);
        let mut assembly = Assembly::default();
        assembly.take(&frames[0]).unwrap();
        assert_eq!(assembly.take(&frames[2]), Err(BodyError::OutOfOrder { want: 1000, got: 2000 }));
        assert_eq!(assembly.partial(), None);
        let mut wrong = frames[0].clone();
        wrong.decoded_size = u64::MAX;
        assert_eq!(assembly.take(&wrong), Err(BodyError::TooLarge(u64::MAX)));
        let mut other = frames.clone();
        for frame in &mut other {
            frame.hash = hash(b"other");
        }
        assembly.take(&other[0]).unwrap();
        assembly.take(&other[1]).unwrap();
        assert_eq!(assembly.take(&other[2]), Err(BodyError::HashDiffers));
    }

    #[test]
    fn a_bomb_is_bounded_by_its_declared_size() {
        let bomb = encode(&Bytes::from(vec![0; 1_000_000]));
        assert_eq!(decode(bomb.encoding.into(), &bomb.bytes, 10), Err(BodyError::Malformed));
        assert_eq!(decode(9, &bomb.bytes, 10), Err(BodyError::UnknownEncoding(9)));
    }
}
