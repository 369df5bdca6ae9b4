//! The ciphers whose keys are in the file, in the forms that kube-apiserver stores.
//!
//! In: a key, a value, the storage key that it belongs to, randomness. Out: the stored bytes, or the value. AES-GCM holds the value to
//! its storage key; AES-CBC and XSalsa20-Poly1305 do not, in the form that others read, and AES-CBC finds no changed byte either.

use aes::{Aes128, Aes192, Aes256};
use aes_gcm::aead::consts::U12;
use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes128Gcm, Aes256Gcm, AesGcm};
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockModeDecrypt, BlockModeEncrypt, KeyIvInit};
use crypto_secretbox::XSalsa20Poly1305;
use crypto_secretbox::aead::{Aead as _, KeyInit as _};

use crate::configuration::Cipher;

/// Fills a buffer with bytes that nobody can foretell.
pub type Random = dyn Fn(&mut [u8]) + Send + Sync;

const BLOCK: usize = 16;
pub(crate) const GCM_NONCE: usize = 12;
const GCM_TAG: usize = 16;
const SECRETBOX_NONCE: usize = 24;

/// Why bytes are not read: they are not what was written under this key, for this place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused;

impl Cipher {
    /// The bytes to store, after the prefix.
    pub fn seal(self, key: &[u8], place: &[u8], value: &[u8], random: &Random) -> Result<Vec<u8>, Refused> {
        match self {
            Cipher::AesCbc => seal_cbc(key, value, random),
            Cipher::AesGcm => seal_gcm(key, place, value, random),
            Cipher::Secretbox => {
                let mut nonce = [0; SECRETBOX_NONCE];
                random(&mut nonce);
                let cipher = XSalsa20Poly1305::new_from_slice(key).map_err(|_| Refused)?;
                let sealed = cipher.encrypt(&nonce.into(), value).map_err(|_| Refused)?;
                Ok([&nonce[..], &sealed].concat())
            }
        }
    }

    /// The value.
    pub fn open(self, key: &[u8], place: &[u8], stored: &[u8]) -> Result<Vec<u8>, Refused> {
        match self {
            Cipher::AesCbc => open_cbc(key, stored),
            Cipher::AesGcm => open_gcm(key, place, stored),
            Cipher::Secretbox => {
                let (nonce, sealed) = stored.split_first_chunk::<SECRETBOX_NONCE>().ok_or(Refused)?;
                let cipher = XSalsa20Poly1305::new_from_slice(key).map_err(|_| Refused)?;
                cipher.decrypt(nonce.into(), sealed).map_err(|_| Refused)
            }
        }
    }
}

fn seal_cbc(key: &[u8], value: &[u8], random: &Random) -> Result<Vec<u8>, Refused> {
    fn sealed<C>(key: &[u8], iv: &[u8], value: &[u8]) -> Result<Vec<u8>, Refused>
    where
        C: KeyIvInit + BlockModeEncrypt,
    {
        C::new_from_slices(key, iv)
            .map(|cipher| cipher.encrypt_padded_vec::<Pkcs7>(value))
            .map_err(|_| Refused)
    }
    let mut iv = [0; BLOCK];
    random(&mut iv);
    let sealed = match key.len() {
        16 => sealed::<cbc::Encryptor<Aes128>>(key, &iv, value),
        24 => sealed::<cbc::Encryptor<Aes192>>(key, &iv, value),
        _ => sealed::<cbc::Encryptor<Aes256>>(key, &iv, value),
    }?;
    Ok([&iv[..], &sealed].concat())
}

fn open_cbc(key: &[u8], stored: &[u8]) -> Result<Vec<u8>, Refused> {
    fn opened<C>(key: &[u8], iv: &[u8], sealed: &[u8]) -> Result<Vec<u8>, Refused>
    where
        C: KeyIvInit + BlockModeDecrypt,
    {
        let cipher = C::new_from_slices(key, iv).map_err(|_| Refused)?;
        cipher.decrypt_padded_vec::<Pkcs7>(sealed).map_err(|_| Refused)
    }
    let (iv, sealed) = stored.split_at_checked(BLOCK).ok_or(Refused)?;
    match key.len() {
        16 => opened::<cbc::Decryptor<Aes128>>(key, iv, sealed),
        24 => opened::<cbc::Decryptor<Aes192>>(key, iv, sealed),
        _ => opened::<cbc::Decryptor<Aes256>>(key, iv, sealed),
    }
}

/// AES-GCM with a nonce by chance, which comes first.
pub(crate) fn seal_gcm(key: &[u8], place: &[u8], value: &[u8], random: &Random) -> Result<Vec<u8>, Refused> {
    fn sealed<C: KeyInit + Aead<NonceSize = U12>>(
        key: &[u8],
        nonce: [u8; GCM_NONCE],
        payload: Payload<'_, '_>,
    ) -> Result<Vec<u8>, Refused> {
        let cipher = C::new_from_slice(key).map_err(|_| Refused)?;
        cipher.encrypt(&nonce.into(), payload).map_err(|_| Refused)
    }
    let mut nonce = [0; GCM_NONCE];
    random(&mut nonce);
    let payload = Payload { msg: value, aad: place };
    let sealed = match key.len() {
        16 => sealed::<Aes128Gcm>(key, nonce, payload),
        24 => sealed::<AesGcm<Aes192, U12>>(key, nonce, payload),
        _ => sealed::<Aes256Gcm>(key, nonce, payload),
    }?;
    Ok([&nonce[..], &sealed].concat())
}

/// What [`seal_gcm`] made.
pub(crate) fn open_gcm(key: &[u8], place: &[u8], stored: &[u8]) -> Result<Vec<u8>, Refused> {
    fn opened<C: KeyInit + Aead<NonceSize = U12>>(
        key: &[u8],
        nonce: [u8; GCM_NONCE],
        payload: Payload<'_, '_>,
    ) -> Result<Vec<u8>, Refused> {
        let cipher = C::new_from_slice(key).map_err(|_| Refused)?;
        cipher.decrypt(&nonce.into(), payload).map_err(|_| Refused)
    }
    let (nonce, sealed) = stored.split_first_chunk::<GCM_NONCE>().ok_or(Refused)?;
    if sealed.len() < GCM_TAG {
        return Err(Refused);
    }
    let payload = Payload { msg: sealed, aad: place };
    match key.len() {
        16 => opened::<Aes128Gcm>(key, *nonce, payload),
        24 => opened::<AesGcm<Aes192, U12>>(key, *nonce, payload),
        _ => opened::<Aes256Gcm>(key, *nonce, payload),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: &[u8] = b"/registry/core/secrets/default/a";

    fn counting(buffer: &mut [u8]) {
        buffer.iter_mut().zip(1..).for_each(|(byte, n)| *byte = n);
    }

    #[test]
    fn what_is_sealed_is_opened_by_its_own_key_alone() {
        for (cipher, sizes) in
            [(Cipher::AesCbc, &[16, 24, 32][..]), (Cipher::AesGcm, &[16, 24, 32]), (Cipher::Secretbox, &[32])]
        {
            for size in sizes {
                for length in [0, 1, 15, 16, 17, 1000] {
                    let (key, value) = (vec![7; *size], vec![9; length]);
                    let stored = cipher.seal(&key, PLACE, &value, &counting).unwrap();
                    assert_eq!(
                        cipher.open(&key, PLACE, &stored),
                        Ok(value.clone()),
                        "{cipher:?} {size} {length}"
                    );
                    if length > 4 {
                        assert_ne!(cipher.open(&vec![8; *size], PLACE, &stored), Ok(value), "{cipher:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn no_cut_is_a_panic_and_authenticated_ciphers_find_every_change() {
        for cipher in [Cipher::AesCbc, Cipher::AesGcm, Cipher::Secretbox] {
            let stored = cipher.seal(&[7; 32], PLACE, b"some value", &counting).unwrap();
            for length in 0..stored.len() {
                assert_ne!(cipher.open(&[7; 32], PLACE, &stored[..length]), Ok(b"some value".to_vec()));
            }
            for at in (0..stored.len()).filter(|_| cipher != Cipher::AesCbc) {
                let mut other = stored.clone();
                other[at] ^= 1;
                assert_eq!(cipher.open(&[7; 32], PLACE, &other), Err(Refused), "{cipher:?} {at}");
            }
        }
        let stored = Cipher::AesGcm.seal(&[7; 32], PLACE, b"value", &counting).unwrap();
        assert_eq!(Cipher::AesGcm.open(&[7; 32], b"/registry/core/secrets/default/b", &stored), Err(Refused));
    }
}
