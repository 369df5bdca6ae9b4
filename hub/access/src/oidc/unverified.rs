//! A JSON web token (RFC 7515) taken apart, before anything in it is believed. Pure.
//!
//! In: the token's text. Out: its parts, or why it is not looked at: too long, not of three parts, or with header extensions that must be
//! understood.

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
    /// Takes a token apart. `Err` says why it is not looked at.
    pub(super) fn read(token: &str) -> Result<Unverified<'_>, &'static str> {
        if token.len() > LARGEST {
            return Err("longer than any token that is looked at");
        }
        let (header, unverified) = parts(token).ok_or("not a token of three parts")?;
        // RFC 7515, 4.1.11: a header that asks for an extension to be understood is refused by who understands none.
        if header.get("crit").is_some() {
            return Err("its header names extensions that must be understood, and none is");
        }
        Ok(unverified)
    }
}

/// The header, and the whole.
fn parts(token: &str) -> Option<(Value, Unverified<'_>)> {
    let (message, signature) = token.rsplit_once('.')?;
    let (header, claims) = message.split_once('.')?;
    let json = |part: &str| serde_json::from_slice::<Value>(&URL_SAFE_NO_PAD.decode(part).ok()?).ok();
    let (header, claims) = (json(header)?, json(claims)?);
    if !header.is_object() || !claims.is_object() {
        return None;
    }
    let text = |field: &str| header[field].as_str().unwrap_or_default().to_owned();
    let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
    let (algorithm, key_id) = (text("alg"), text("kid"));
    let unverified = Unverified { algorithm, key_id, message: message.as_bytes(), signature, claims };
    Some((header, unverified))
}
