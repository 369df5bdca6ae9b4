//! Service-account tokens, signed by the hub's own key.
//!
//! In: claims, or a token that somebody shows. Out: a signed token, the claims of one that this hub signed, or the public key as a key set.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use karmada_access::{Claims, ServiceAccountTokens};
use karmada_kube_controller_manager::service_account::AccountTokens;

use crate::data_dir::DataDir;

/// Tokens over the key in the data directory.
pub struct HubTokens(pub Arc<DataDir>);

impl ServiceAccountTokens for HubTokens {
    fn issue(&self, claims: &Claims) -> Result<String, String> {
        let bytes = serde_json::to_vec(claims).map_err(|error| error.to_string())?;
        self.0.accounts.sign(&bytes).map_err(|error| error.to_string())
    }

    fn verify(&self, token: &str) -> Option<Claims> {
        serde_json::from_slice(&self.0.accounts.verify(token).ok()?).ok()
    }

    fn keys(&self) -> serde_json::Value {
        let key = &self.0.accounts;
        // An uncompressed point: a byte that says so, then both coordinates.
        let (x, y) = key.public_point()[1..].split_at(32);
        let encoded = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        serde_json::json!({"keys": [{
            "use": "sig", "kty": "EC", "kid": key.key_id(), "crv": "P-256", "alg": "ES256", "x": encoded(x), "y": encoded(y),
        }]})
    }
}

impl AccountTokens for HubTokens {
    fn token(&self, namespace: &str, account: &str, uid: &str, secret: &str) -> Result<String, String> {
        self.issue(&Claims::legacy(namespace, account, uid, secret))
    }
}
