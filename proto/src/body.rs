//! How JSON bodies travel: hashed, compressed where it pays, cut into chunks, put together again.
//!
//! In: the bytes of a body, or frames of one. Out: what goes on the wire, or the whole body; one that is larger than declared, does not
//! unpack or has another hash is refused.
//!
//! Each body is its own compression context, so that a secret never shares one with data another writer chose.
//! The hash is over the decoded bytes: what counts is what the agent would apply.

use std::cell::RefCell;
use std::io;

use bytes::{Bytes, BytesMut};
use sha2::{Digest, Sha256};
use zstd::bulk::{Compressor, Decompressor};

use crate::v1::{Encoding, Upsert};
use crate::{BODY_LIMIT, CHUNK, DICTIONARY, dictionary};

/// Below this a body travels as it is: zstd's frame would eat the gain.
const COMPRESS_FROM: usize = 256;
/// The same where both ends have the dictionary.
const COMPRESS_FROM_WITH: usize = 24;
/// Above this the dictionary gains nothing worth its cost.
const DICTIONARY_TO: usize = 64 * 1024;

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
    /// It was told by what differs from a body that is not held.
    #[error("the body is told by what differs from another one that is not held")]
    NoBase,
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

/// What the other end of a session can unpack.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Packing {
    /// What is packed on its own.
    #[default]
    Alone,
    /// What is packed with the dictionary, too (feature [`crate::DICTIONARY`]).
    WithDictionary,
}

impl Packing {
    /// By the features that the other end named.
    pub fn of(features: &[String]) -> Self {
        let knows = features.iter().any(|feature| feature == DICTIONARY);
        if knows { Self::WithDictionary } else { Self::Alone }
    }

    /// How frames of zstd are called that may be packed so.
    pub fn encoding(self) -> Encoding {
        match self {
            Self::Alone => Encoding::Zstd,
            Self::WithDictionary => Encoding::ZstdDictionary,
        }
    }
}

/// First 16 bytes of SHA-256 over `body`.
pub fn hash(body: &[u8]) -> Bytes {
    Bytes::copy_from_slice(&Sha256::digest(body)[..16])
}

thread_local! {
    // Making a context costs more than using it for a small body; what one holds is forgotten between two bodies.
    static COMPRESSORS: [RefCell<Option<Compressor<'static>>>; 2] = const { [RefCell::new(None), RefCell::new(None)] };
    static DECOMPRESSORS: [RefCell<Option<Decompressor<'static>>>; 2] = const { [RefCell::new(None), RefCell::new(None)] };
}

fn compress(body: &[u8], packing: Packing) -> io::Result<Vec<u8>> {
    COMPRESSORS.with(|all| {
        let mut held = all[packing as usize].borrow_mut();
        let mut compressor = match (held.take(), packing) {
            (Some(compressor), _) => compressor,
            (None, Packing::Alone) => Compressor::new(dictionary::LEVEL)?,
            (None, Packing::WithDictionary) => Compressor::with_prepared_dictionary(&dictionary::PACKS)?,
        };
        // One that failed is not used again.
        let packed = compressor.compress(body)?;
        *held = Some(compressor);
        Ok(packed)
    })
}

fn decompress(bytes: &[u8], size: usize, packing: Packing) -> io::Result<Vec<u8>> {
    DECOMPRESSORS.with(|all| {
        let mut held = all[packing as usize].borrow_mut();
        let mut decompressor = match (held.take(), packing) {
            (Some(decompressor), _) => decompressor,
            (None, Packing::Alone) => Decompressor::new()?,
            (None, Packing::WithDictionary) => Decompressor::with_prepared_dictionary(&dictionary::UNPACKS)?,
        };
        let body = decompressor.decompress(bytes, size)?;
        *held = Some(decompressor);
        Ok(body)
    })
}

/// `piece` of a body as a frame of zstd, also where that makes it larger: such frames one after the other are what their pieces are one
/// after the other, in the encoding that [`Packing::encoding`] names. `None` where it cannot be packed.
pub fn frame_of(piece: &[u8], packing: Packing) -> Option<Bytes> {
    let packing = if piece.len() > DICTIONARY_TO { Packing::Alone } else { packing };
    compress(piece, packing).ok().map(Bytes::from)
}

/// Compresses `body` on its own where that makes it smaller.
pub fn encode(body: &Bytes) -> Encoded {
    encode_for(body, Packing::Alone)
}

/// Compresses `body` where that makes it smaller, as the other end can unpack it.
pub fn encode_for(body: &Bytes, packing: Packing) -> Encoded {
    let decoded_size = body.len() as u64;
    let packing = if body.len() > DICTIONARY_TO { Packing::Alone } else { packing };
    let from = match packing {
        Packing::Alone => COMPRESS_FROM,
        Packing::WithDictionary => COMPRESS_FROM_WITH,
    };
    if body.len() >= from
        && let Ok(packed) = compress(body, packing)
        && packed.len() < body.len()
    {
        return Encoded { encoding: packing.encoding(), bytes: packed.into(), decoded_size };
    }
    Encoded { encoding: Encoding::Identity, bytes: body.clone(), decoded_size }
}

/// The body behind `bytes`. Memory is bounded by `decoded_size`, which is bounded by [`BODY_LIMIT`].
///
/// # Errors
/// It is too large ([`BodyError::TooLarge`]), its encoding is unknown here, or it does not unpack to `decoded_size` bytes
/// ([`BodyError::Malformed`]).
pub fn decode(encoding: i32, bytes: &Bytes, decoded_size: u64) -> Result<Bytes, BodyError> {
    if decoded_size > BODY_LIMIT as u64 {
        return Err(BodyError::TooLarge(decoded_size));
    }
    let unpack = |packing| {
        let body = decompress(bytes, decoded_size as usize, packing);
        body.map(Bytes::from).map_err(|_| BodyError::Malformed)
    };
    let body = match Encoding::try_from(encoding) {
        Ok(Encoding::Identity) => bytes.clone(),
        Ok(Encoding::Zstd) => unpack(Packing::Alone)?,
        Ok(Encoding::ZstdDictionary) => unpack(Packing::WithDictionary)?,
        // What is packed with another body says nothing without it: see [`crate::delta`].
        Ok(Encoding::ZstdOnBase) | Err(_) => return Err(BodyError::UnknownEncoding(encoding)),
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
    is_delta: bool,
    parts: BytesMut,
}

impl Assembly {
    /// Takes one frame of a body. `Ok(Some(body))` once it is complete and its hash is right; what is held is
    /// dropped on any error, so that the body can be asked for again.
    ///
    /// # Errors
    /// Those of [`Assembly::gather`] and [`decode`], and [`BodyError::HashDiffers`].
    pub fn take(&mut self, frame: &Upsert) -> Result<Option<Bytes>, BodyError> {
        let Some(packed) = self.gather(frame)? else { return Ok(None) };
        let body = decode(frame.encoding, &packed, frame.decoded_size)?;
        if hash(&body) != frame.hash {
            return Err(BodyError::HashDiffers);
        }
        Ok(Some(body))
    }

    /// The same, of what is told by a difference: `Ok(Some(delta))` once it is complete, for [`crate::delta::unpack`].
    ///
    /// # Errors
    /// A size beyond [`BODY_LIMIT`], a chunk that does not continue what is held ([`BodyError::OutOfOrder`]), or more bytes than declared.
    pub fn gather(&mut self, frame: &Upsert) -> Result<Option<Bytes>, BodyError> {
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
            self.is_delta = frame.encoding == i32::from(Encoding::ZstdOnBase);
        }
        let want = if self.key == frame.key && self.hash == frame.hash { self.parts.len() as u64 } else { 0 };
        if frame.offset != want {
            return Err(BodyError::OutOfOrder { want, got: frame.offset });
        }
        if frame.offset + frame.chunk.len() as u64 > frame.encoded_size {
            return Err(BodyError::Malformed);
        }
        if frame.offset == 0 && frame.chunk.len() as u64 == frame.encoded_size {
            return Ok(Some(frame.chunk.clone()));
        }
        self.parts.extend_from_slice(&frame.chunk);
        let is_whole = self.parts.len() as u64 >= frame.encoded_size;
        Ok(is_whole.then(|| self.parts.split().freeze()))
    }

    /// What is held of an unfinished body: key, hash and bytes received.
    pub fn partial(&self) -> Option<(&str, &Bytes, u64)> {
        (!self.parts.is_empty()).then(|| (self.key.as_str(), &self.hash, self.parts.len() as u64))
    }

    /// What the next session may go on with: a body, and not what differs from one, as the base may be another then.
    #[must_use]
    pub fn carried_over(self) -> Self {
        if self.is_delta { Self::default() } else { self }
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

    /// What was packed with a dictionary is read by nobody who has another.
    #[test]
    fn the_dictionary_never_changes() {
        let hex: String = Sha256::digest(dictionary::TEXT).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "687e47f12b1a353712b8f7d8edded8f6f2d6a3151e08ebb6739c5a9d77abe852");
    }

    #[test]
    fn what_every_fleet_says_takes_a_part_of_its_bytes() {
        let status = br#"[{"health":"Healthy","identifier":{"group":"apps","kind":"Deployment","name":"shop","namespace":"berlin","ordinal":0,"resource":"deployments","version":"v1"},"status":{"availableReplicas":4,"generation":3,"observedGeneration":3,"readyReplicas":4,"replicas":4,"resourceTemplateGeneration":3,"updatedReplicas":4}}]"#;
        let work = br#"{"manifests":[{"apiVersion":"v1","data":{"town":"berlin","greeting":"good morning"},"kind":"ConfigMap","metadata":{"annotations":{"resourcebinding.karmada.io/name":"shop-configmap","resourcebinding.karmada.io/namespace":"berlin","work.karmada.io/conflict-resolution":"abort","work.karmada.io/name":"shop-687f7fb96f","work.karmada.io/namespace":"karmada-es-berlin"},"labels":{"karmada.io/managed":"true","work.karmada.io/permanent-id":"5f27f73b-ed87-454c-8960-da69adbd2307"},"name":"shop","namespace":"berlin"}}]}"#;
        // In hundredths. A Work has uids and hashes that nobody can know before.
        for (body, most) in [(&status[..], 40), (&work[..], 70)] {
            let body = Bytes::copy_from_slice(body);
            let (alone, with) = (encode(&body), encode_for(&body, Packing::WithDictionary));
            assert_eq!(with.encoding, Encoding::ZstdDictionary);
            assert!(
                with.bytes.len() * 100 < alone.bytes.len() * most,
                "{} beside {}",
                with.bytes.len(),
                alone.bytes.len()
            );
            assert_eq!(decode(with.encoding.into(), &with.bytes, with.decoded_size), Ok(body));
            let other = decode(Encoding::Zstd.into(), &with.bytes, with.decoded_size);
            assert_ne!(
                other,
                Ok(Bytes::copy_from_slice(status)),
                "an end without it reads something else, or nothing"
            );
        }
    }

    #[test]
    fn any_body_comes_out_as_it_went_in() {
        for length in [0, 1, 23, 24, 300, 20_000, DICTIONARY_TO, DICTIONARY_TO + 1, 500_000] {
            let text =
                Bytes::from(r#"{"kind":"Deployment","metadata":{"labels":{}}}"#.repeat(length / 46 + 1))
                    .slice(..length);
            for body in [noise(length), text] {
                for packing in [Packing::Alone, Packing::WithDictionary] {
                    let encoded = encode_for(&body, packing);
                    assert!(encoded.bytes.len() <= body.len());
                    let decoded = decode(encoded.encoding.into(), &encoded.bytes, encoded.decoded_size);
                    assert_eq!(decoded.as_ref(), Ok(&body), "{length} {packing:?}");
                }
            }
        }
        let lie = decode(Encoding::ZstdDictionary.into(), &noise(100), 1 << 20);
        assert_eq!(lie, Err(BodyError::Malformed));
    }
}
