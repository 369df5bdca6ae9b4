//! A JSON web token (RFC 7515) taken apart, before anything in it is believed. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

/// The largest token that is looked at.
const LARGEST: usize = 64 << 10;

/// A token's parts.
#[derive(Debug)]
pub(super) struct Unverified<'a> {
    /// `alg` of its header.
    pub algorithm: String,
    /// `kid` of its header; empty where it names none.
    pub key_id: String,
    /// What was signed.
    pub message: &'a [u8],
    /// The signature.
    pub signature: Vec<u8>,
    /// What it claims.
    pub claims: Value,
}

impl Unverified<'_> {
    /// Takes a token apart; `None` for what is none.
    pub(super) fn read(token: &str) -> Option<Unverified<'_>> {
        if token.len() > LARGEST {
            return None;
        }
        let (message, signature) = token.rsplit_once('.')?;
        let (header, claims) = message.split_once('.')?;
        let json = |part: &str| serde_json::from_slice::<Value>(&URL_SAFE_NO_PAD.decode(part).ok()?).ok();
        let (header, claims) = (json(header)?, json(claims)?);
        let text = |field: &str| header[field].as_str().unwrap_or_default().to_owned();
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        let (algorithm, key_id) = (text("alg"), text("kid"));
        claims.is_object().then_some(Unverified {
            algorithm,
            key_id,
            message: message.as_bytes(),
            signature,
            claims,
        })
    }
}
