//! `karmadactl register`: installs an agent in a member and waits until the hub has seen it. In: the hub's address, a token, the
//! hash of the hub's CA, the member's kubeconfig. Out: the agent's objects in the member, or the cause why it could not connect.

mod contact;
pub mod manifests;
mod permissions;
mod preflight;
mod wait;

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use karmada_api::strings::namespaces;
use karmada_certs::{JoinToken, Pin};
use serde_json::{Value, json};

use crate::access::Access;
use crate::connection::{Connection, object_path};
use crate::output::{self, Progress};
use crate::register::manifests::{Installation, MANAGED_BY, MANAGER, STATE};
use crate::register::permissions::Profile;
use crate::{cluster_name, duration};

/// The agent's image. No registry: it is expected on the nodes or where --karmada-agent-image says.
const IMAGE: &str = concat!("karmada-agent:v", env!("CARGO_PKG_VERSION"));

/// Flags of `register`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The hub, as the member reaches it.
    #[arg(value_name = "HOST:PORT")]
    hub: HubAddress,
    /// The token that karmadactl token create printed. Other users of this machine can see it while this runs: --token-file hides it.
    #[arg(long, required_unless_present = "token_file", conflicts_with = "token_file")]
    token: Option<String>,
    /// A file that holds the token; `-` reads it from standard input.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// The hash of the hub's CA that it printed.
    #[arg(long, value_name = "sha256:HEX")]
    discovery_token_ca_cert_hash: Pin,
    /// The cluster's name on the hub [default: the kubeconfig's cluster name, made a DNS label]
    #[arg(long, value_name = "NAME")]
    cluster_name: Option<String>,
    /// Accepted for scripts made for upstream. The hub holds no credential of a member, so nothing is stored there.
    #[arg(long, value_name = "NAME", default_value = namespaces::CLUSTER, hide_short_help = true)]
    cluster_namespace: String,
    /// Who runs the cluster. By default, as for region and zones, what its Nodes say when it joins, or later
    #[arg(long, value_name = "NAME")]
    cluster_provider: Option<String>,
    /// The region it is in.
    #[arg(long, value_name = "NAME")]
    cluster_region: Option<String>,
    /// The zones it is in.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    cluster_zones: Vec<String>,
    /// The agent's image.
    #[arg(long, value_name = "IMAGE", default_value = IMAGE)]
    karmada_agent_image: String,
    /// 1, or 0 to install the agent without starting it. One identity is one agent.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=1))]
    karmada_agent_replicas: u8,
    /// What the agent may do in the member.
    #[arg(long, value_enum, default_value_t = Profile::Workloads)]
    permissions: Profile,
    /// The namespaces of --permissions namespaced; those missing are made.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', required_if_eq("permissions", "namespaced"))]
    workload_namespaces: Vec<String>,
    /// How long to wait until the hub has seen the agent.
    #[arg(long, default_value = "5m", value_parser = duration::parse, allow_hyphen_values = true, visible_alias = "discovery-timeout")]
    timeout: Duration,
    /// Do not ask the hub from this machine first: for a member that reaches the hub by a way which this machine does not have.
    #[arg(long)]
    skip_hub_check: bool,
    /// Print the manifests and touch nothing.
    #[arg(long)]
    dry_run: bool,
}

/// `host:port`; the host is a name, an IPv4 address, or an IPv6 address in brackets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubAddress {
    host: String,
    port: u16,
}

impl HubAddress {
    /// From a kubeconfig's server.
    pub fn of_server(url: &str) -> Result<HubAddress> {
        let uri: http::Uri = url.parse().with_context(|| format!("the server {url:?} is not a URL"))?;
        let host = uri.host().filter(|host| !host.is_empty());
        let host = host.with_context(|| format!("the server {url:?} names no host"))?;
        Ok(HubAddress { host: host.to_owned(), port: uri.port_u16().unwrap_or(443) })
    }

    /// The host without the brackets of an IPv6 address.
    fn bare_host(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }

    /// Whether it leads to the machine itself.
    pub fn is_loopback(&self) -> bool {
        let bare = self.bare_host();
        bare == "localhost" || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

impl FromStr for HubAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shape = || format!("{text:?} is not HOST:PORT, for example hub.example.com:5443");
        let bare = text.strip_prefix("https://").unwrap_or(text).trim_end_matches('/');
        let (host, port) = bare.rsplit_once(':').ok_or_else(shape)?;
        let port = port.parse().ok().filter(|port| *port != 0).ok_or_else(shape)?;
        let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let sound = match bracketed {
            Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
            None => {
                !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_".contains(&b))
            }
        };
        if sound { Ok(HubAddress { host: host.to_owned(), port }) } else { Err(shape()) }
    }
}

impl std::fmt::Display for HubAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Installs, and waits.
pub async fn run(access: &Access, arguments: &Arguments, now: Timestamp) -> Result<()> {
    let token = token(arguments)?;
    // A dry run needs no kubeconfig where the name is given.
    let member = match access.member().await {
        Err(_) if arguments.dry_run && arguments.cluster_name.is_some() => None,
        member => Some(member?),
    };
    let installation = installation(access, arguments, token, member.as_ref())?;
    let Some(member) = member.filter(|_| !arguments.dry_run) else {
        return output::print(&output::yaml(&installation.manifests())?);
    };
    let mut progress = Progress::new();
    progress.step(&format!("checking the member at {}", member.server));
    preflight::not_a_hub(&member).await?;
    let found = preflight::check(&member, &installation).await?;
    if !arguments.skip_hub_check {
        progress.step(&format!("checking the hub at {}", installation.hub));
        let with_token = found.needs_token(&installation);
        let checked = contact::check(&installation, with_token, now).await;
        checked.map_err(|obstacle| anyhow::anyhow!(obstacle.told(&installation)))?;
    }
    let baseline = install(&member, &installation, found.deployment.as_ref(), &mut progress).await?;
    if arguments.karmada_agent_replicas == 0 {
        return output::line(&format!(
            "cluster {}: the agent is installed and not started",
            installation.cluster
        ));
    }
    wait::until_connected(&member, &installation, baseline, arguments.timeout, &mut progress).await?;
    output::line(&format!(
        "cluster {} is registered: the hub {} has seen its agent",
        installation.cluster, installation.hub
    ))
}

/// From the command line, a file or standard input.
fn token(arguments: &Arguments) -> Result<JoinToken> {
    let Some(file) = &arguments.token_file else {
        return JoinToken::parse(arguments.token.as_deref().unwrap_or_default()).context("--token");
    };
    let name = format!("--token-file {}", file.display());
    let text = if file.as_os_str() == "-" {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(file)
    };
    JoinToken::parse(text.with_context(|| name.clone())?.trim()).context(name)
}

fn installation(
    access: &Access,
    arguments: &Arguments,
    token: JoinToken,
    member: Option<&Connection>,
) -> Result<Installation> {
    let cluster = match (&arguments.cluster_name, member) {
        (Some(name), _) => name.clone(),
        (None, Some(member)) => cluster_name::from_kubeconfig(&member.chosen.cluster).with_context(|| {
            format!(
                "no name can be made of the kubeconfig's cluster {:?}: give --cluster-name",
                member.chosen.cluster
            )
        })?,
        (None, None) => String::new(),
    };
    cluster_name::check(&cluster).map_err(anyhow::Error::msg)?;
    let narrow = arguments.permissions == Profile::Namespaced;
    ensure!(
        narrow || arguments.workload_namespaces.is_empty(),
        "--workload-namespaces goes with --permissions namespaced"
    );
    Ok(Installation {
        namespace: access.agent_namespace().to_owned(),
        cluster,
        hub: arguments.hub.clone(),
        pin: arguments.discovery_token_ca_cert_hash,
        token,
        image: arguments.karmada_agent_image.clone(),
        replicas: arguments.karmada_agent_replicas,
        profile: arguments.permissions,
        workload_namespaces: arguments.workload_namespaces.clone(),
        provider: arguments.cluster_provider.clone(),
        region: arguments.cluster_region.clone(),
        zones: arguments.cluster_zones.clone(),
    })
}

/// Applies everything. Returns what the agent has said of itself so far, if it goes on running as it is.
async fn install(
    member: &Connection,
    installation: &Installation,
    live: Option<&Value>,
    progress: &mut Progress,
) -> Result<Option<String>> {
    let deployment = installation.deployment();
    let restarts = live.is_none_or(|live| manifests::restarts(live, &deployment));
    let mut baseline = None;
    for object in installation.manifests() {
        let (kind, path) = (object["kind"].as_str().unwrap_or_default(), object_path(&object));
        progress
            .step(&format!("applying {kind} {}", object["metadata"]["name"].as_str().unwrap_or_default()));
        let identity = object["metadata"]["name"] == manifests::IDENTITY;
        if kind == "Namespace" || identity {
            let there = member.find(&path).await?;
            // A namespace that somebody else made stays theirs, and the identity is the agent's to write.
            if let Some(there) =
                there.filter(|there| identity || there["metadata"]["labels"][MANAGED_BY] != MANAGER)
            {
                if identity {
                    baseline = said_so_far(member, &path, &there, restarts).await?;
                }
                continue;
            }
        }
        member.apply(&object).await?;
    }
    Ok(baseline)
}

/// What stands on the identity Secret. An agent that is started anew writes anew, so what the last one said is taken off.
async fn said_so_far(
    member: &Connection,
    path: &str,
    secret: &Value,
    restarts: bool,
) -> Result<Option<String>> {
    let Some(said) = secret["metadata"]["annotations"][STATE].as_str() else { return Ok(None) };
    if !restarts {
        return Ok(Some(said.to_owned()));
    }
    member.merge(path, &json!({"metadata": {"annotations": {STATE: null}}})).await?;
    Ok(None)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    #[test]
    fn without_a_word_register_grants_the_profile_workloads() {
        let pin = format!("--discovery-token-ca-cert-hash=sha256:{}", "0".repeat(64));
        let line = ["register", "hub:5443", "--token-file=-", &pin];
        let plain = Line::try_parse_from(line).map(|line| line.arguments.permissions);
        assert_eq!(plain.unwrap(), Profile::Workloads);
        let full = line.into_iter().chain(["--permissions", "full"]);
        assert_eq!(Line::try_parse_from(full).map(|line| line.arguments.permissions).unwrap(), Profile::Full);
    }

    #[test]
    fn addresses_are_read_and_loopback_is_known() {
        for (text, shown, loopback) in [
            ("hub.example.com:5443", "hub.example.com:5443", false),
            ("https://hub:443/", "hub:443", false),
            ("[::1]:5443", "[::1]:5443", true),
            ("127.0.0.1:1", "127.0.0.1:1", true),
            ("localhost:1", "localhost:1", true),
        ] {
            let address: HubAddress = text.parse().unwrap();
            assert_eq!((address.to_string().as_str(), address.is_loopback()), (shown, loopback));
        }
        for wrong in [
            "",
            "hub",
            "hub:",
            "hub:0",
            "hub:70000",
            "::1:5443",
            ":5443",
            "hub/x:5443",
            "a b:1",
            "http://hub:80",
        ] {
            assert!(wrong.parse::<HubAddress>().is_err(), "{wrong}");
        }
        for (url, shown) in [
            ("https://hub", "hub:443"),
            ("https://hub:5443", "hub:5443"),
            ("https://[::1]:5443/", "[::1]:5443"),
        ] {
            assert_eq!(HubAddress::of_server(url).unwrap().to_string(), shown);
        }
    }
}
