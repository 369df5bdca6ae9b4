//! What API servers that groups are handed over to must know of this hub: `kube-system/extension-apiserver-authentication`.
//!
//! In: the hub's CA, the front proxy's CA, what is configured of a proxy in front of the hub itself. Out: the ConfigMap, as
//! kube-apiserver writes it; its readers are granted by a default Role.

use anyhow::{Context, Result};
use karmada_registry::Registry;
use karmada_schema::object::ObjectKey;
use serde_json::{Value, json};

use crate::data_dir::{DataDir, FRONT_PROXY};
use crate::settings::ProxySettings;
use crate::write_options::write_options;

const NAME: &str = "extension-apiserver-authentication";

/// Writes the ConfigMap where it differs.
pub async fn publish(registry: &Registry, data: &DataDir, in_front: Option<&ProxySettings>) -> Result<()> {
    let catalogue = registry.catalogue();
    let definition = catalogue.resource("", "v1", "configmaps").context("config maps are not served")?;
    let wanted = contents(data, in_front);
    let mut change = |live: Option<&Value>| {
        let fresh = || json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME, "namespace": "kube-system"}});
        let mut object = live.cloned().unwrap_or_else(fresh);
        object["data"] = wanted.clone();
        Ok(object)
    };
    let at = ObjectKey::new("kube-system", NAME);
    let written = registry.update_or_create(definition, &at, &write_options(), &mut change).await;
    written.map(|_| ()).map_err(|status| anyhow::anyhow!("publishing {NAME}: {}", status.message))
}

/// The CAs and headers by which those servers know this hub and its clients, and, where there is one, the proxy in front.
fn contents(data: &DataDir, in_front: Option<&ProxySettings>) -> Value {
    let list = |items: &[String]| json!(items).to_string();
    let mut authorities = data.front_proxy().bundle_pem();
    let mut names = vec![FRONT_PROXY.to_owned()];
    if let Some(proxy) = in_front {
        authorities.push_str(&proxy.ca_pem);
        // No names given: any is believed.
        match proxy.headers.allowed_names.is_empty() {
            true => names.clear(),
            false => names.extend(proxy.headers.allowed_names.iter().cloned()),
        }
    }
    let one = |name: &str| list(&[name.to_owned()]);
    json!({
        "client-ca-file": data.authorities().bundle_pem(),
        "requestheader-allowed-names": list(&names),
        "requestheader-client-ca-file": authorities,
        "requestheader-extra-headers-prefix": one("X-Remote-Extra-"),
        "requestheader-group-headers": one("X-Remote-Group"),
        "requestheader-uid-headers": one("X-Remote-Uid"),
        "requestheader-username-headers": one("X-Remote-User"),
    })
}
