//! `kube-public/cluster-info`: how a newcomer learns the hub's address and CA, signed for each token by the bootstrap signer.
//!
//! In: the hub's URL and CA. Out: the ConfigMap, written where it differs; a default Role lets anonymous read it.

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use karmada_registry::Registry;
use karmada_schema::object::ObjectKey;
use serde_json::{Value, json};

use crate::write_options::write_options;

/// Writes the ConfigMap for a hub at `url`.
pub async fn publish(registry: &Registry, url: &str, ca_pem: &str) -> Result<()> {
    let catalogue = registry.catalogue();
    let definition = catalogue.resource("", "v1", "configmaps").context("config maps are not served")?;
    let cluster =
        json!({"name": "", "cluster": {"server": url, "certificate-authority-data": BASE64.encode(ca_pem)}});
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "clusters": [cluster], "contexts": [], "users": [], "current-context": "",
        "preferences": {},
    });
    let text = kubeconfig.to_string();
    let mut change = |live: Option<&Value>| {
        let fresh = || json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cluster-info", "namespace": "kube-public"}});
        let mut object = live.cloned().unwrap_or_else(fresh);
        object["data"]["kubeconfig"] = json!(text);
        Ok(object)
    };
    let at = ObjectKey::new("kube-public", "cluster-info");
    let written = registry.update_or_create(definition, &at, &write_options(), &mut change).await;
    written.map(|_| ()).map_err(|status| anyhow::anyhow!("publishing cluster-info: {}", status.message))
}
