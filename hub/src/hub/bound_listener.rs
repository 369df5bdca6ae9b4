//! The one port: its listener, its certificate, and what tells others how to reach it.
//!
//! In: settings, the registry. Out: a [`Port`]; the kubeconfig beside the data, and `cluster-info`, the front proxy's ConfigMap and
//! `default/kubernetes` in the registry.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use jiff::Timestamp;
use karmada_apiserver::kubernetes_service::{self, KubernetesService};
use karmada_registry::Registry;
use tokio::net::TcpListener;

use crate::addresses::{public_address, url};
use crate::data_dir::DataDir;
use crate::server_certificate::PortTls;
use crate::settings::Settings;
use crate::{cluster_info, extension_apiserver_authentication};

/// A port that is listened on, and not served yet.
pub(super) struct Port {
    pub listener: TcpListener,
    pub address: SocketAddr,
    /// What clients are told.
    pub url: String,
    pub tls: Arc<PortTls>,
}

impl Port {
    /// Listens, and tells others how to reach the port; what keeps the address of `default/kubernetes` comes with it.
    pub async fn bind(
        settings: &Settings,
        registry: &Arc<Registry>,
        data: &Arc<DataDir>,
        now: Timestamp,
    ) -> Result<(Port, KubernetesService)> {
        let listener = TcpListener::bind(settings.listen)
            .await
            .with_context(|| format!("listening on {}", settings.listen))?;
        let address = listener.local_addr().context("reading the listener's address")?;
        let url = url(&settings.advertise, address);
        data.write_kubeconfig(&url, now)?;
        cluster_info::publish(registry, &url, &data.authorities().bundle_pem()).await?;
        let proxies = settings.access.proxy.as_ref().map(|proxy| proxy.ca_pem.as_str());
        let tls = PortTls::new(data, own_names(settings), proxies, now)?;
        extension_apiserver_authentication::publish(registry, data, settings.access.proxy.as_ref()).await?;
        let public = public_address(&settings.advertise, address);
        kubernetes_service::ensure_service(registry, address.port(), public)
            .await
            .unwrap_or_else(|status| tracing::warn!(why = status.message, "default/kubernetes"));
        let service = KubernetesService { registry: registry.clone(), port: address.port(), public };
        Ok((Port { listener, address, url, tls }, service))
    }
}

/// Host and port of a URL, as agents are told.
pub(super) fn endpoint(url: &str) -> String {
    url.trim_start_matches("https://").trim_end_matches('/').to_owned()
}

/// The names by which the hub's certificate vouches for it.
pub(super) fn own_names(settings: &Settings) -> Vec<String> {
    let hostname = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    karmada_certs::server_names(hostname.as_deref().map(str::trim), &settings.advertise)
}
