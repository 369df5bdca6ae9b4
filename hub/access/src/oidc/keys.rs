//! An issuer's public keys (RFC 7517), and what they signed. Pure.
//!
//! In: an issuer's key set as JSON, and a token taken apart. Out: whether one of the keys signed it, or that none is named as the token
//! names it. Keys and algorithms that are not known sign nothing.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512,
    RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde_json::Value;

use super::unverified::Unverified;

/// What the keys say of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyVerdict {
    /// One of them signed it.
    Good,
    /// The key that it names did not.
    Bad,
    /// It names a key that is not among them.
    UnknownKey,
}

#[derive(Debug)]
enum Key {
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// An uncompressed point.
    P256(Vec<u8>),
    P384(Vec<u8>),
}

/// Keys by id.
#[derive(Debug, Default)]
pub(super) struct KeySet(Vec<(String, Key)>);

impl KeySet {
    /// Reads a key set; keys of kinds that are not known are passed over.
    pub(super) fn read(document: &Value) -> KeySet {
        let keys = document["keys"].as_array().into_iter().flatten();
        let signs = |key: &&Value| matches!(key["use"].as_str(), None | Some("sig"));
        let read = |key: &Value| Some((key["kid"].as_str().unwrap_or_default().to_owned(), Key::read(key)?));
        KeySet(keys.filter(signs).filter_map(read).collect())
    }

    /// What they say of a token.
    pub(super) fn verify(&self, token: &Unverified<'_>) -> KeyVerdict {
        let mut named =
            self.0.iter().filter(|(id, _)| token.key_id.is_empty() || *id == token.key_id).peekable();
        if named.peek().is_none() {
            return KeyVerdict::UnknownKey;
        }
        if named.any(|(_, key)| key.signed(token)) { KeyVerdict::Good } else { KeyVerdict::Bad }
    }
}

impl Key {
    fn read(key: &Value) -> Option<Key> {
        let bytes = |field: &str| URL_SAFE_NO_PAD.decode(key[field].as_str()?.trim_end_matches('=')).ok();
        let point = |size: usize| {
            let (x, y) = (bytes("x")?, bytes("y")?);
            (x.len() == size && y.len() == size).then(|| [vec![4], x, y].concat())
        };
        match (key["kty"].as_str()?, key["crv"].as_str()) {
            ("RSA", _) => Some(Key::Rsa { n: bytes("n")?, e: bytes("e")? }),
            ("EC", Some("P-256")) => point(32).map(Key::P256),
            ("EC", Some("P-384")) => point(48).map(Key::P384),
            _ => None,
        }
    }

    fn signed(&self, token: &Unverified<'_>) -> bool {
        let (message, signature) = (token.message, &token.signature);
        match (self, token.algorithm.as_str()) {
            (Key::Rsa { n, e }, algorithm) => {
                let parameters: &RsaParameters = match algorithm {
                    "RS256" => &RSA_PKCS1_2048_8192_SHA256,
                    "RS384" => &RSA_PKCS1_2048_8192_SHA384,
                    "RS512" => &RSA_PKCS1_2048_8192_SHA512,
                    "PS256" => &RSA_PSS_2048_8192_SHA256,
                    "PS384" => &RSA_PSS_2048_8192_SHA384,
                    "PS512" => &RSA_PSS_2048_8192_SHA512,
                    _ => return false,
                };
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signature).is_ok()
            }
            (Key::P256(point), "ES256") => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature).is_ok()
            }
            (Key::P384(point), "ES384") => {
                UnparsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, point).verify(message, signature).is_ok()
            }
            _ => false,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
    use serde_json::json;

    use super::*;

    fn encoded(bytes: impl AsRef<[u8]>) -> String {
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// A key that signs tokens.
    pub(crate) struct Signer(EcdsaKeyPair);

    impl Signer {
        pub(crate) fn new() -> Signer {
            let (kind, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
            let document = EcdsaKeyPair::generate_pkcs8(kind, &random).unwrap();
            Signer(EcdsaKeyPair::from_pkcs8(kind, document.as_ref(), &random).unwrap())
        }

        fn public(&self, id: &str) -> Value {
            let point = self.0.public_key().as_ref();
            json!({"kty": "EC", "crv": "P-256", "kid": id, "use": "sig", "x": encoded(&point[1..33]), "y": encoded(&point[33..])})
        }

        /// A token whose header names this key, or none.
        pub(crate) fn token(&self, id: &str) -> String {
            self.headed(match id {
                "" => json!({"alg": "ES256"}),
                id => json!({"alg": "ES256", "kid": id}),
            })
        }

        #[allow(clippy::needless_pass_by_value, reason = "the calls read better")]
        pub(crate) fn headed(&self, header: Value) -> String {
            let message = format!("{}.{}", encoded(header.to_string()), encoded("{\"iss\":\"i\"}"));
            let signature = self.0.sign(&SystemRandom::new(), message.as_bytes()).unwrap();
            format!("{message}.{}", encoded(signature))
        }
    }

    /// The key set of an issuer that shows these keys.
    pub(crate) fn shown(keys: &[(&str, &Signer)]) -> KeySet {
        let keys: Vec<Value> = keys.iter().map(|(id, signer)| signer.public(id)).collect();
        KeySet::read(&json!({"keys": keys}))
    }

    #[test]
    fn only_the_key_that_is_named_counts() {
        let (one, two) = (Signer::new(), Signer::new());
        let keys = KeySet::read(&json!({"keys": [one.public("1"), two.public("2"), {"kty": "oct"}]}));
        let verdict = |token: &str| Unverified::read(token).map(|token| keys.verify(&token)).ok();
        assert_eq!(verdict(&one.token("1")), Some(KeyVerdict::Good));
        assert_eq!(verdict(&two.token("")), Some(KeyVerdict::Good));
        assert_eq!(verdict(&one.token("2")), Some(KeyVerdict::Bad));
        assert_eq!(verdict(&one.token("3")), Some(KeyVerdict::UnknownKey));
        for algorithm in ["none", "HS256", "RS256", "ES384", ""] {
            let token = one.headed(json!({"alg": algorithm, "kid": "1"}));
            assert_eq!(verdict(&token), Some(KeyVerdict::Bad), "{algorithm}");
        }
        for bad in ["", "a.b.c", "..", &one.token("").replace('.', "")] {
            assert_eq!(verdict(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_header_that_must_be_understood_is_refused() {
        let one = Signer::new();
        for critical in [json!(["exp"]), json!(["b64"]), json!([]), json!("exp"), json!(null)] {
            let token = one.headed(json!({"alg": "ES256", "kid": "1", "crit": critical}));
            let why = Unverified::read(&token).map(|token| token.key_id).unwrap_err();
            assert_eq!(why, "its header names extensions that must be understood, and none is");
        }
    }
}
