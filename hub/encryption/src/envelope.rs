//! Values under a key of a key management service: the service encrypts a seed, once; each value has a key of its own, which comes of
//! the seed, and is stored with the encrypted seed.
//!
//! In: seeds, as the service has encrypted and decrypted them; values; the present. Out: stored bytes, values, or what the service is to
//! decrypt first. Seeds are kept in memory, so that the service is asked once for each, not for each value.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use prost::Message;
use ring::hkdf::{HKDF_SHA256, KeyType, Prk};
use sha2::{Digest, Sha256};
use tokio::time::Instant;
use zeroize::Zeroizing;

use crate::symmetric::{Random, Refused, open_gcm, seal_gcm};
use crate::v2::{EncryptedDekSourceType, EncryptedObject};

/// A seed's length, a derived key's, and that of what derives it.
const SIZE: usize = 32;
/// How long values are still written after the service last said that it is well.
const GOOD_FOR: Duration = Duration::from_secs(180);
/// Seeds that are kept: one for each start and each change of the service's key, where nothing is written anew.
const MOST_SEEDS: usize = 1000;
const SEALED_MOST: usize = 1024;
const KEY_ID_MOST: usize = 1024;
const ANNOTATIONS_MOST: usize = 32 << 10;

type Seed = Zeroizing<Vec<u8>>;

/// A seed (or, of old, a key) as the service has encrypted it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sealed {
    pub source: Vec<u8>,
    pub key_id: String,
    pub annotations: HashMap<String, Vec<u8>>,
    is_seed: bool,
}

impl Sealed {
    /// A seed, as the service answered.
    pub fn seed(
        source: Vec<u8>,
        key_id: String,
        annotations: HashMap<String, Vec<u8>>,
    ) -> Result<Sealed, &'static str> {
        let sealed = Sealed { source, key_id, annotations, is_seed: true };
        sealed.judge().map(|()| sealed)
    }

    fn judge(&self) -> Result<(), &'static str> {
        let annotations: usize = self.annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
        if self.source.is_empty() {
            Err("encrypted DEK source is empty")
        } else if self.source.len() > SEALED_MOST {
            Err("encrypted DEK source is larger than 1024 bytes")
        } else if self.key_id.is_empty() {
            Err("keyID is empty")
        } else if self.key_id.len() > KEY_ID_MOST {
            Err("keyID is larger than 1024 bytes")
        } else if annotations > ANNOTATIONS_MOST {
            Err("annotations are larger than 32768 bytes in all")
        } else {
            Ok(())
        }
    }

    fn digest(&self) -> [u8; SIZE] {
        let mut annotations: Vec<_> = self.annotations.iter().collect();
        annotations.sort();
        let mut digest = Sha256::new();
        digest.update([u8::from(self.is_seed)]);
        let parts = annotations.into_iter().flat_map(|(key, value)| [key.as_bytes(), value.as_slice()]);
        for part in [self.source.as_slice(), self.key_id.as_bytes()].into_iter().chain(parts) {
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part);
        }
        digest.finalize().into()
    }
}

/// What a stored value turned out to be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// The value, and whether it is to be written anew.
    Value(Vec<u8>, bool),
    /// The service is to decrypt this first.
    Asks(Sealed),
}

/// Why nothing is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unwritable {
    /// The service has not said for too long that it is well.
    Expired,
    Failed,
}

/// The seeds of one service.
#[derive(Default)]
pub(crate) struct Seeds {
    writing: RwLock<Option<Writing>>,
    known: RwLock<BTreeMap<[u8; SIZE], Arc<Seed>>>,
}

struct Writing {
    seed: Arc<Seed>,
    sealed: Sealed,
    good_until: Instant,
}

impl Seeds {
    /// Whether a new seed is to be made, now that the service would encrypt with this key. If not, the one in use stays good.
    pub fn needs_another(&self, key_id: &str, now: Instant) -> bool {
        match &mut *self.writing.write() {
            Some(writing) if writing.sealed.key_id == key_id => {
                writing.good_until = now + GOOD_FOR;
                false
            }
            _ => true,
        }
    }

    /// Values are written with this seed from now on.
    pub fn write_with(&self, seed: Seed, sealed: Sealed, now: Instant) {
        let seed = Arc::new(seed);
        self.known.write().insert(sealed.digest(), seed.clone());
        *self.writing.write() = Some(Writing { seed, sealed, good_until: now + GOOD_FOR });
    }

    /// The service has decrypted this.
    pub fn learn(&self, sealed: &Sealed, seed: Seed) {
        let mut known = self.known.write();
        if known.len() >= MOST_SEEDS {
            known.clear();
        }
        known.insert(sealed.digest(), Arc::new(seed));
    }

    /// The key that values are written with, as the service calls it.
    pub fn key_id(&self) -> Option<String> {
        self.writing.read().as_ref().map(|writing| writing.sealed.key_id.clone())
    }

    /// The bytes to store, after the prefix.
    pub fn seal(
        &self,
        place: &[u8],
        value: &[u8],
        random: &Random,
        now: Instant,
    ) -> Result<Vec<u8>, Unwritable> {
        let writing = self.writing.read();
        let Some(writing) = writing.as_ref().filter(|writing| now <= writing.good_until) else {
            return Err(Unwritable::Expired);
        };
        let mut info = [0; SIZE];
        random(&mut info);
        let key = derive(&writing.seed, &info).map_err(|_| Unwritable::Failed)?;
        let data = seal_gcm(&key[..], place, value, random).map_err(|_| Unwritable::Failed)?;
        let object = EncryptedObject {
            encrypted_data: [&info[..], &data].concat(),
            key_id: writing.sealed.key_id.clone(),
            encrypted_dek_source: writing.sealed.source.clone(),
            annotations: writing.sealed.annotations.clone(),
            encrypted_dek_source_type: EncryptedDekSourceType::HkdfSha256XnonceAesGcmSeed.into(),
        };
        Ok(object.encode_to_vec())
    }

    /// Reads what was stored after the prefix.
    pub fn open(&self, place: &[u8], stored: &[u8]) -> Result<Read, Refused> {
        let object = EncryptedObject::decode(stored).map_err(|_| Refused)?;
        let is_seed = match object.encrypted_dek_source_type() {
            EncryptedDekSourceType::HkdfSha256XnonceAesGcmSeed => true,
            EncryptedDekSourceType::AesGcmKey if object.encrypted_dek_source_type == 0 => false,
            EncryptedDekSourceType::AesGcmKey => return Err(Refused),
        };
        let EncryptedObject { encrypted_data, key_id, encrypted_dek_source: source, annotations, .. } =
            object;
        let sealed = Sealed { source, key_id, annotations, is_seed };
        sealed.judge().map_err(|_| Refused)?;
        let Some(seed) = self.known.read().get(&sealed.digest()).cloned() else {
            return Ok(Read::Asks(sealed));
        };
        let value = if is_seed {
            let (info, data) = encrypted_data.split_first_chunk::<SIZE>().ok_or(Refused)?;
            open_gcm(&derive(&seed, info)?[..], place, data)?
        } else {
            open_gcm(&seed, place, &encrypted_data)?
        };
        let is_current = self.key_id().is_some_and(|current| is_seed && current == sealed.key_id);
        Ok(Read::Value(value, !is_current))
    }
}

/// The key of one value.
fn derive(seed: &Seed, info: &[u8; SIZE]) -> Result<Zeroizing<[u8; SIZE]>, Refused> {
    struct Length;
    impl KeyType for Length {
        fn len(&self) -> usize {
            SIZE
        }
    }
    if seed.len() < SIZE {
        return Err(Refused);
    }
    let info = [&info[..]];
    let seed = Prk::new_less_safe(HKDF_SHA256, seed);
    let expanded = seed.expand(&info, Length).map_err(|_| Refused)?;
    let mut key = Zeroizing::new([0; SIZE]);
    expanded.fill(&mut key[..]).map_err(|_| Refused)?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: &[u8] = b"/registry/core/secrets/default/a";

    fn sealed(key_id: &str) -> Sealed {
        Sealed::seed(vec![1, 2, 3], key_id.into(), HashMap::new()).unwrap()
    }

    fn counting(buffer: &mut [u8]) {
        buffer.iter_mut().zip(1..).for_each(|(byte, n)| *byte = n);
    }

    #[test]
    fn a_value_is_read_with_its_seed_and_at_its_place_alone() {
        let (now, seeds) = (Instant::now(), Seeds::default());
        assert_eq!(seeds.seal(PLACE, b"value", &counting, now), Err(Unwritable::Expired));
        seeds.write_with(Zeroizing::new(vec![5; 32]), sealed("one"), now);
        let stored = seeds.seal(PLACE, b"value", &counting, now).unwrap();
        assert_eq!(seeds.open(PLACE, &stored), Ok(Read::Value(b"value".to_vec(), false)));
        assert_eq!(seeds.open(b"/elsewhere", &stored), Err(Refused));
        let others = Seeds::default();
        assert_eq!(others.open(PLACE, &stored), Ok(Read::Asks(sealed("one"))));
        others.learn(&sealed("one"), Zeroizing::new(vec![6; 32]));
        assert_eq!(others.open(PLACE, &stored), Err(Refused), "another seed");
        others.learn(&sealed("one"), Zeroizing::new(vec![5; 32]));
        assert_eq!(others.open(PLACE, &stored), Ok(Read::Value(b"value".to_vec(), true)), "writes with none");
        for length in 0..stored.len() {
            let cut = seeds.open(PLACE, &stored[..length]);
            assert!(!matches!(cut, Ok(Read::Value(..))), "{length}");
        }
    }

    #[test]
    fn writing_ends_when_the_service_was_not_well_for_long_and_its_new_key_makes_values_old() {
        let (now, seeds) = (Instant::now(), Seeds::default());
        assert!(seeds.needs_another("one", now));
        seeds.write_with(Zeroizing::new(vec![5; 32]), sealed("one"), now);
        let stored = seeds.seal(PLACE, b"value", &counting, now + GOOD_FOR).unwrap();
        let late = now + GOOD_FOR + Duration::from_secs(1);
        assert_eq!(seeds.seal(PLACE, b"value", &counting, late), Err(Unwritable::Expired));
        assert!(!seeds.needs_another("one", late), "it is well again");
        assert!(seeds.seal(PLACE, b"value", &counting, late).is_ok());
        assert!(seeds.needs_another("two", late));
        seeds.write_with(Zeroizing::new(vec![6; 32]), Sealed { source: vec![9], ..sealed("two") }, late);
        assert_eq!(seeds.open(PLACE, &stored), Ok(Read::Value(b"value".to_vec(), true)));
    }

    #[test]
    fn what_a_service_answers_is_bounded() {
        let make = |source: usize, key_id: usize, note: usize| {
            let notes = HashMap::from([("a.example.com".to_owned(), vec![0; note])]);
            Sealed::seed(vec![0; source], "k".repeat(key_id), notes)
        };
        assert!(make(1024, 1024, 30_000).is_ok());
        for (source, key_id, note) in [(0, 1, 0), (1025, 1, 0), (1, 0, 0), (1, 1025, 0), (1, 1, 40_000)] {
            assert!(make(source, key_id, note).is_err(), "{source} {key_id} {note}");
        }
    }
}
