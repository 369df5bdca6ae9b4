//! The flags of `karmada-hub serve`. Those that kube-apiserver or Karmada has are named as there.
//!
//! In: what clap read, and the files that it names. Out: [`Settings`], or an error that says which flag or file is wrong. The comments on
//! the fields are the help texts.

#[cfg(test)]
mod karmada_flags;
mod lifecycle;
mod propagation;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use karmada_access::{Anonymous, FrontProxy, IssuerOptions};
use karmada_apiserver::audit::LogOptions;
use karmada_core::controllers_list::{ControllersList, UnknownController};

use self::lifecycle::Lifecycle;
use crate::addresses;
use crate::fleet::Approval;
use crate::settings::{
    AccessSettings, AuditSettings, CONNECTIONS_PER_ADDRESS, EncryptionSettings, PortPatience, ProxySettings,
    Serves, Settings, StoreKind,
};

/// What `serve` is told.
#[derive(clap::Args)]
pub struct Serve {
    /// Where the CA, keys and state live; made at the first start.
    #[arg(long)]
    data_dir: PathBuf,
    /// Address (or name) and port of everything: Kubernetes API, agents, page.
    #[arg(long, default_value = "0.0.0.0:5443", value_parser = addresses::listen)]
    listen: SocketAddr,
    /// A host, host:port or https URL under which the hub is reached; may be given again, the first is handed out.
    #[arg(long, env = "KARMADA_HUB_ADDRESS", value_delimiter = ',', value_parser = addresses::advertised)]
    advertise: Vec<String>,
    /// What keeps the state.
    #[arg(long, value_enum, default_value_t = StoreArgument::Sqlite)]
    store: StoreArgument,
    /// Start where writes that were acknowledged are lost or damaged, without them. A new epoch begins; what is there is set aside as
    /// hub.db.damaged. Without such a loss it does nothing.
    #[arg(long)]
    accept_data_loss: bool,
    /// Which control loops run, as in Karmada: `*` all that run by themselves, `name` one more, `-name` one less (`*,-namespace`);
    /// or `none`, for an API server alone.
    #[arg(long, default_value = "*", allow_hyphen_values = true, value_parser = controllers)]
    controllers: ControllersArgument,
    /// Admission plugins beside those that are always on: ServiceAccount, which asks for a Pod's account and mounts its token. A hub's
    /// Pods run in members, which do the same, so that it is off as in Karmada.
    #[arg(long, value_delimiter = ',', value_enum)]
    enable_admission_plugins: Vec<PluginArgument>,
    #[command(flatten)]
    encryption: Encryption,
    #[command(flatten)]
    joins: Joins,
    #[command(flatten)]
    audit: Audit,
    #[command(flatten)]
    fairness: Fairness,
    #[command(flatten)]
    proxy: RequestHeader,
    #[command(flatten)]
    oidc: Oidc,
    #[command(flatten)]
    lifecycle: Lifecycle,
}

#[derive(Clone, Copy, ValueEnum)]
enum StoreArgument {
    Sqlite,
    Memory,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ControllersArgument {
    None,
    Listed(ControllersList),
}

fn controllers(text: &str) -> Result<ControllersArgument, UnknownController> {
    match text {
        "none" => Ok(ControllersArgument::None),
        "all" => Ok(ControllersArgument::Listed(ControllersList::default())),
        list => list.parse().map(ControllersArgument::Listed),
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PluginArgument {
    #[value(name = "ServiceAccount")]
    ServiceAccount,
}

#[derive(Clone, Copy, ValueEnum)]
enum ApprovalArgument {
    Auto,
    Manual,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Joins and connections")]
struct Joins {
    /// Who says yes to a cluster of a new name: its token, or a person by `karmadactl adopt`.
    #[arg(long, value_enum, default_value_t = ApprovalArgument::Auto)]
    join_approval: ApprovalArgument,
    /// Connections that one address may hold at once; above, the one that is idle longest goes. 0 for any number. Raise it where
    /// many agents come by way of one NAT or load balancer.
    #[arg(long, default_value_t = CONNECTIONS_PER_ADDRESS)]
    max_connections_per_address: usize,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Encryption on the disk")]
struct Encryption {
    /// File with an EncryptionConfiguration (apiserver.config.k8s.io/v1): which resources are encrypted on the disk, and by which keys.
    /// Works and override policies are covered where anything is. Values under other keys are rewritten while the hub runs.
    #[arg(long)]
    encryption_provider_config: Option<PathBuf>,
    /// Look at that file again while the hub runs. One that is wrong changes nothing.
    #[arg(long, requires = "encryption_provider_config")]
    encryption_provider_config_automatic_reload: bool,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Audit")]
struct Audit {
    /// File with an audit.k8s.io/v1 Policy: which requests are logged. Without it, none is.
    #[arg(long, requires = "audit_log_path")]
    audit_policy_file: Option<PathBuf>,
    /// File that audit events are written to; `-` for standard output.
    #[arg(long, requires = "audit_policy_file")]
    audit_log_path: Option<PathBuf>,
    /// Days that old audit logs are kept; 0 for ever.
    #[arg(long, default_value_t = 0)]
    audit_log_maxage: u32,
    /// Old audit logs that are kept; 0 for all.
    #[arg(long, default_value_t = 0)]
    audit_log_maxbackup: usize,
    /// Megabytes after which an audit log is turned over; 0 for 100.
    #[arg(long, default_value_t = 0)]
    audit_log_maxsize: u64,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Priority and fairness")]
struct Fairness {
    /// Whether requests wait for each other by FlowSchemas and PriorityLevelConfigurations.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    enable_priority_and_fairness: bool,
    /// Requests that only read, worked on at once; with the one below, the seats that priority levels share.
    #[arg(long, default_value_t = 400)]
    max_requests_inflight: u32,
    /// Requests that write, worked on at once.
    #[arg(long, default_value_t = 200)]
    max_mutating_requests_inflight: u32,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Authentication by a proxy in front")]
struct RequestHeader {
    /// File with the CAs of proxies that say in headers who asks.
    #[arg(long)]
    requestheader_client_ca_file: Option<PathBuf>,
    /// Common names of such proxies; none for any that those CAs signed.
    #[arg(long, value_delimiter = ',')]
    requestheader_allowed_names: Vec<String>,
    /// Headers of the user name.
    #[arg(long, value_delimiter = ',', default_value = "x-remote-user")]
    requestheader_username_headers: Vec<String>,
    /// Headers of the uid.
    #[arg(long, value_delimiter = ',', default_value = "x-remote-uid")]
    requestheader_uid_headers: Vec<String>,
    /// Headers of groups.
    #[arg(long, value_delimiter = ',', default_value = "x-remote-group")]
    requestheader_group_headers: Vec<String>,
    /// Beginnings of headers of further facts.
    #[arg(long, value_delimiter = ',', default_value = "x-remote-extra-")]
    requestheader_extra_headers_prefix: Vec<String>,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Authentication by OpenID Connect")]
struct Oidc {
    /// URL of the issuer whose tokens are believed.
    #[arg(long, requires = "oidc_client_id")]
    oidc_issuer_url: Option<String>,
    /// Whom its tokens must be meant for.
    #[arg(long, requires = "oidc_issuer_url")]
    oidc_client_id: Option<String>,
    /// The claim that is the user name.
    #[arg(long, default_value = "sub")]
    oidc_username_claim: String,
    /// What is put before user names; `-` for nothing, by default the issuer's URL and `#` unless the claim is `email`.
    #[arg(long)]
    oidc_username_prefix: Option<String>,
    /// The claim that holds the groups.
    #[arg(long, default_value = "")]
    oidc_groups_claim: String,
    /// What is put before groups.
    #[arg(long, default_value = "")]
    oidc_groups_prefix: String,
    /// CLAIM=VALUE that tokens must have; may be given again.
    #[arg(long)]
    oidc_required_claim: Vec<String>,
    /// File with the CAs of the issuer's certificate; by default those that this machine trusts.
    #[arg(long)]
    oidc_ca_file: Option<PathBuf>,
    /// Signature algorithms that are taken.
    #[arg(long, value_delimiter = ',', default_value = "RS256")]
    oidc_signing_algs: Vec<String>,
    /// File with an AuthenticationConfiguration: several issuers, in place of the flags above.
    #[arg(long, conflicts_with = "oidc_issuer_url")]
    authentication_config: Option<PathBuf>,
    /// Whether who shows no credential is let in as system:anonymous, to what roles allow. Joins by token need it.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, conflicts_with = "authentication_config")]
    anonymous_auth: bool,
}

impl Serve {
    /// The settings that the flags and the files they name make.
    ///
    /// # Errors
    /// A file that they name cannot be read or holds what is not allowed, or flags do not fit together.
    pub fn settings(self) -> Result<Settings> {
        let (issuers, anonymous) = self.oidc.issuers()?;
        let access = AccessSettings {
            audit: self.audit.settings(),
            seats: self.fairness.enable_priority_and_fairness.then(|| {
                self.fairness
                    .max_requests_inflight
                    .saturating_add(self.fairness.max_mutating_requests_inflight)
            }),
            proxy: self.proxy.settings()?,
            issuers,
            anonymous,
            approval: match self.joins.join_approval {
                ApprovalArgument::Auto => Approval::Auto,
                ApprovalArgument::Manual => Approval::Manual,
            },
            connections_per_address: self.joins.max_connections_per_address,
            patience: PortPatience::default(),
            accounts_of_pods: self.enable_admission_plugins.contains(&PluginArgument::ServiceAccount),
        };
        Ok(Settings {
            serves: Serves::Fleet,
            data_dir: self.data_dir,
            listen: self.listen,
            advertise: self.advertise,
            store: match self.store {
                StoreArgument::Sqlite => StoreKind::Sqlite,
                StoreArgument::Memory => StoreKind::Memory,
            },
            accept_data_loss: self.accept_data_loss,
            encryption: self.encryption.settings(),
            controllers: self.controllers != ControllersArgument::None,
            lifecycle: self.lifecycle.settings(match self.controllers {
                ControllersArgument::None => ControllersList::default(),
                ControllersArgument::Listed(list) => list,
            })?,
            access,
        })
    }
}

impl Encryption {
    fn settings(self) -> Option<EncryptionSettings> {
        Some(EncryptionSettings {
            file: self.encryption_provider_config?,
            reloads: self.encryption_provider_config_automatic_reload,
            warned: Arc::default(),
        })
    }
}

impl Audit {
    fn settings(self) -> Option<AuditSettings> {
        let log = LogOptions {
            path: self.audit_log_path?,
            max_age_days: self.audit_log_maxage,
            max_backups: self.audit_log_maxbackup,
            max_megabytes: self.audit_log_maxsize,
        };
        Some(AuditSettings { policy_file: self.audit_policy_file?, log })
    }
}

impl RequestHeader {
    fn settings(self) -> Result<Option<ProxySettings>> {
        let Some(file) = self.requestheader_client_ca_file else {
            if self.requestheader_allowed_names.is_empty() {
                return Ok(None);
            }
            bail!("--requestheader-allowed-names needs --requestheader-client-ca-file")
        };
        let ca_pem = std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
        let headers = FrontProxy {
            allowed_names: self.requestheader_allowed_names,
            username_headers: self.requestheader_username_headers,
            uid_headers: self.requestheader_uid_headers,
            group_headers: self.requestheader_group_headers,
            extra_prefixes: self.requestheader_extra_headers_prefix,
        };
        Ok(Some(ProxySettings { ca_pem, headers }))
    }
}

impl Oidc {
    fn issuers(self) -> Result<(Vec<IssuerOptions>, Anonymous)> {
        if let Some(file) = self.authentication_config {
            let text =
                std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
            let read = IssuerOptions::read_configuration(&text).map_err(anyhow::Error::msg);
            return read.with_context(|| format!("reading {}", file.display()));
        }
        let anonymous = if self.anonymous_auth { Anonymous::Everywhere } else { Anonymous::Nowhere };
        let (Some(url), Some(client)) = (self.oidc_issuer_url, self.oidc_client_id) else {
            return Ok((Vec::new(), anonymous));
        };
        if !url.starts_with("https://") {
            bail!("--oidc-issuer-url {url:?} is no https URL");
        }
        let ca_pem = match &self.oidc_ca_file {
            Some(file) => std::fs::read(file).with_context(|| format!("reading {}", file.display()))?,
            None => Vec::new(),
        };
        let claim = |text: &String| {
            let (claim, value) = text.split_once('=').context("--oidc-required-claim is CLAIM=VALUE")?;
            Ok((claim.to_owned(), value.to_owned()))
        };
        let required_claims =
            self.oidc_required_claim.iter().map(claim).collect::<Result<BTreeMap<_, _>>>()?;
        let issuer = IssuerOptions {
            url,
            audiences: vec![client],
            username_claim: self.oidc_username_claim,
            username_prefix: self
                .oidc_username_prefix
                .map(|prefix| if prefix == "-" { String::new() } else { prefix }),
            groups_claim: self.oidc_groups_claim,
            groups_prefix: self.oidc_groups_prefix,
            required_claims,
            ca_pem,
            algorithms: self.oidc_signing_algs,
            ..IssuerOptions::default()
        };
        Ok((vec![issuer], anonymous))
    }
}
