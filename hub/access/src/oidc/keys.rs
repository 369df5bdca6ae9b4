//! An issuer's public keys (RFC 7517), and what they signed. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512,
    RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde_json::Value;

use super::token::Unverified;

/// What the keys say of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
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
    pub(super) fn verify(&self, token: &Unverified<'_>) -> Verdict {
        let mut named =
            self.0.iter().filter(|(id, _)| token.key_id.is_empty() || *id == token.key_id).peekable();
        if named.peek().is_none() {
            return Verdict::UnknownKey;
        }
        if named.any(|(_, key)| key.signed(token)) { Verdict::Good } else { Verdict::Bad }
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
mod tests {
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
    use serde_json::json;

    use super::*;

    fn encoded(bytes: impl AsRef<[u8]>) -> String {
        URL_SAFE_NO_PAD.encode(bytes)
    }

    #[test]
    fn only_the_key_that_is_named_counts() {
        let random = SystemRandom::new();
        let pair = || {
            let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random).unwrap()
        };
        let (one, two) = (pair(), pair());
        let public = |id: &str, pair: &EcdsaKeyPair| {
            let point = pair.public_key().as_ref();
            json!({"kty": "EC", "crv": "P-256", "kid": id, "use": "sig", "x": encoded(&point[1..33]), "y": encoded(&point[33..])})
        };
        let keys = KeySet::read(&json!({"keys": [public("1", &one), public("2", &two), {"kty": "oct"}]}));
        let token = |pair: &EcdsaKeyPair, header: Value| {
            let message = format!("{}.{}", encoded(header.to_string()), encoded("{\"iss\":\"i\"}"));
            let signature = pair.sign(&random, message.as_bytes()).unwrap();
            format!("{message}.{}", encoded(signature))
        };
        let verdict = |token: &str| Unverified::read(token).map(|token| keys.verify(&token));
        assert_eq!(verdict(&token(&one, json!({"alg": "ES256", "kid": "1"}))), Some(Verdict::Good));
        assert_eq!(verdict(&token(&two, json!({"alg": "ES256"}))), Some(Verdict::Good));
        assert_eq!(verdict(&token(&one, json!({"alg": "ES256", "kid": "2"}))), Some(Verdict::Bad));
        assert_eq!(verdict(&token(&one, json!({"alg": "ES256", "kid": "3"}))), Some(Verdict::UnknownKey));
        for algorithm in ["none", "HS256", "RS256", "ES384", ""] {
            assert_eq!(
                verdict(&token(&one, json!({"alg": algorithm, "kid": "1"}))),
                Some(Verdict::Bad),
                "{algorithm}"
            );
        }
        for bad in ["", "a.b.c", "..", &token(&one, json!({"alg": "ES256"})).replace('.', "")] {
            assert_eq!(verdict(bad), None, "{bad}");
        }
    }
}
