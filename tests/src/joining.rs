//! A token by which any number of agents join a hub: for benches.
//!
//! In: a hub that runs. Out: what an agent is told on its command line.

use serde_json::json;

use crate::hub::Hub;

/// Makes the token by which everything here joins.
pub struct Joining {
    /// `id.secret`.
    pub token: String,
    /// `sha256:…`.
    pub ca_hash: String,
}

impl Joining {
    /// A token of a hub.
    pub fn on(hub: &Hub) -> Joining {
        let token = "bench0.0123456789abcdef".to_owned();
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
            "metadata": {"name": "bootstrap-token-bench0", "namespace": "kube-system"},
            "stringData": {
                "token-id": "bench0", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true",
                "auth-extra-groups": "system:bootstrappers:karmada:default-cluster-token",
                "uses-left": "100000", "joins-per-minute": "100000",
            },
        });
        hub.api().create("/api/v1/namespaces/kube-system/secrets", &secret).expect("the hub takes the token");
        let ca = std::fs::read_to_string(hub.data_dir().join("pki/ca.crt")).expect("the hub has a CA");
        let authority_key =
            std::fs::read_to_string(hub.data_dir().join("pki/ca.key")).expect("the hub has a CA key");
        let authority = karmada_certs::Authority::from_pem(&ca, &authority_key).expect("the hub's CA is one");
        Joining { token, ca_hash: authority.pin().to_string() }
    }
}
