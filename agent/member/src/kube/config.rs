//! Where the member is, and by which credentials: a kubeconfig, or the Pod's service account.
//!
//! In: a path, or the variables and files of a Pod. Out: the address and credentials, or which of them is missing or cannot be used.

use std::path::{Path, PathBuf};

use kube::config::{KubeConfigOptions, Kubeconfig};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// Why the member's address and credentials could not be found.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The kubeconfig.
    #[error("reading the kubeconfig")]
    Kubeconfig(#[from] kube::config::KubeconfigError),
    /// The service account.
    #[error("no --kubeconfig given, and not running in a cluster")]
    InCluster(#[from] kube::config::InClusterError),
    /// The service account, where its folder is named.
    #[error("the service account: {0}")]
    ServiceAccount(String),
    /// The client certificate.
    #[error("the kubeconfig's client certificate cannot be used: {0}")]
    Certificate(Box<dyn std::error::Error + Send + Sync>),
    /// What else the kubeconfig has its user prove himself with, or how the member is to be reached.
    #[error("the kubeconfig's credentials or its server cannot be used: {0}")]
    Credentials(Box<dyn std::error::Error + Send + Sync>),
    /// The member is to be reached through a proxy.
    #[error(
        "the member is to be reached through a proxy (proxy-url in the kubeconfig, or HTTPS_PROXY), and the agent reaches it directly: \
         run it where the member's own address can be reached, without either"
    )]
    Proxy,
    /// Requests of others are not passed on by who acts for somebody else already.
    #[error(
        "the kubeconfig's user acts as another (as, as-groups), so that requests of the hub's users cannot be passed on in their names: \
         give the agent a user of its own"
    )]
    Impersonates,
    /// The client.
    #[error("setting up the member's client")]
    Client(#[source] Box<kube::Error>),
}

/// The name of the cluster that the kubeconfig's current context names.
///
/// # Errors
/// The file cannot be read, or is no kubeconfig.
pub fn kubeconfig_cluster(path: &Path) -> Result<Option<String>, ConfigError> {
    let config = Kubeconfig::read_from(path)?;
    let current = config.current_context.unwrap_or_default();
    let context = config.contexts.into_iter().find(|context| context.name == current);
    Ok(context.and_then(|context| context.context).map(|context| context.cluster))
}

/// Names the folder of the Pod's service account (`token`, `ca.crt`), where that is not mounted at the usual place.
const SERVICE_ACCOUNT_DIR: &str = "KUBERNETES_SERVICE_ACCOUNT_DIR";

/// The Pod's service account.
fn in_cluster() -> Result<kube::Config, ConfigError> {
    let Some(folder) = std::env::var_os(SERVICE_ACCOUNT_DIR).map(PathBuf::from) else {
        return Ok(kube::Config::incluster()?);
    };
    let wrong = |what: &str, why: String| ConfigError::ServiceAccount(format!("{what}: {why}"));
    let variable = |name: &str| std::env::var(name).map_err(|error| wrong(name, error.to_string()));
    let (host, port) = (variable("KUBERNETES_SERVICE_HOST")?, variable("KUBERNETES_SERVICE_PORT")?);
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    let url = format!("https://{host}:{port}");
    let url = url.parse().map_err(|error: http::uri::InvalidUri| wrong(&url, error.to_string()))?;
    let ca = folder.join("ca.crt");
    let certificates: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(&ca).and_then(|certificates| certificates.collect());
    let certificates = certificates.map_err(|error| wrong(&ca.display().to_string(), error.to_string()))?;
    let mut config = kube::Config::new(url);
    config.root_cert = Some(certificates.into_iter().map(|certificate| certificate.to_vec()).collect());
    // The client reads it again as the kubelet renews it.
    config.auth_info.token_file = Some(folder.join("token").display().to_string());
    Ok(config)
}

/// What the kubeconfig at `path` says, or the Pod's service account where there is none.
pub(super) async fn read(path: Option<&Path>) -> Result<kube::Config, ConfigError> {
    let Some(path) = path else { return in_cluster() };
    let options = KubeConfigOptions::default();
    Ok(kube::Config::from_custom_kubeconfig(Kubeconfig::read_from(path)?, &options).await?)
}
