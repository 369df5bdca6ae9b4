//! The command line of the agent, and what it says of logging. In: arguments and the environment. Out: [`Args`].

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use jiff::SignedDuration;
use karmada_agent::cluster_status::StatusOptions;
use karmada_agent::link::dial::Transports;
use karmada_agent::metrics::bind_address;
use karmada_agent::tunnel::allowed::{Allowed, STANDARD};
use karmada_api::readiness::Thresholds;
use karmada_certs::{JoinToken, Pin};
use tracing_subscriber::EnvFilter;

/// Keeps a member cluster in step with its hub, over one outbound connection.
#[derive(Parser)]
#[command(name = "karmada-agent", version)]
pub struct Args {
    /// The hub's address, HOST:PORT; may be given several times, tried in order.
    #[arg(long, env = "KARMADA_HUB", value_delimiter = ',')]
    pub hub: Vec<String>,
    /// The join token, as `karmadactl token create` prints it; needed once.
    #[arg(long, env = "KARMADA_TOKEN", hide_env_values = true, value_parser = |t: &str| JoinToken::parse(t))]
    pub token: Option<JoinToken>,
    /// A file with the join token, read when joining; for a Secret mounted into the agent's Pod.
    #[arg(long, conflicts_with = "token")]
    pub token_file: Option<PathBuf>,
    /// sha256:… of the hub's CA, printed with the token; needed once.
    #[arg(long, env = "KARMADA_CA_HASH", value_delimiter = ',')]
    pub discovery_token_ca_cert_hash: Vec<Pin>,
    /// The cluster's name on the hub; by default the kubeconfig's name for it, made a DNS label.
    #[arg(long, env = "KARMADA_CLUSTER_NAME")]
    pub cluster_name: Option<String>,
    /// Where the agent keeps what it must not forget.
    #[arg(long, env = "KARMADA_STATE_DIR", default_value = "/var/lib/karmada-agent")]
    pub state_dir: PathBuf,
    /// The member's kubeconfig; by default the Pod's service account.
    #[arg(long)]
    pub kubeconfig: Option<PathBuf>,
    /// Keep the identity in this Secret of the member, NAMESPACE/NAME, so that it survives the Pod's move.
    #[arg(long)]
    pub identity_secret: Option<String>,
    /// For the Cluster object: the provider. By default what all Nodes name that name one (`spec.providerID`), as of the join. Later it counts, within two hours, where the Cluster never said any.
    #[arg(long, default_value = "")]
    pub cluster_provider: String,
    /// For the Cluster object: the region. By default what all Nodes name that name one (label `topology.kubernetes.io/region`), as of the join. Later it counts, within two hours, where the Cluster never said any.
    #[arg(long, default_value = "")]
    pub cluster_region: String,
    /// For the Cluster object: the zones. By default those of its Nodes (label `topology.kubernetes.io/zone`), as of the join. Later it counts, within two hours, where the Cluster never said any.
    #[arg(long, value_delimiter = ',')]
    pub cluster_zones: Vec<String>,
    /// The only namespaces of the member in which the agent may watch workloads; all, where none are named.
    #[arg(long, env = "KARMADA_AGENT_NAMESPACES", value_delimiter = ',')]
    pub namespaces: Vec<String>,
    /// Objects checked for drift per second.
    #[arg(long, default_value_t = 5.0)]
    pub drift_rate: f64,
    /// Report whether names of Services resolve in the cluster, as the condition ServiceDomainNameResolutionReady that a Remedy goes by. For an agent in a Pod
    /// that uses the cluster's DNS.
    #[arg(long, env = "KARMADA_REPORT_SERVICE_NAMES")]
    pub report_service_names: bool,
    /// How often the cluster is looked at, and its status told where it changed, such as 10s.
    #[arg(long, default_value = "10s", value_parser = frequency)]
    pub cluster_status_update_frequency: Duration,
    /// How long the member's API server must be well before the cluster is Ready again, such as 30s.
    #[arg(long, default_value = "30s", value_parser = duration)]
    pub cluster_success_threshold: SignedDuration,
    /// How long it must fail before the cluster is no longer Ready, such as 30s.
    #[arg(long, default_value = "30s", value_parser = duration)]
    pub cluster_failure_threshold: SignedDuration,
    /// Whether the member's Nodes and Pods are watched, so that the hub knows its nodes and its room. Without, nothing that is divided by room goes
    /// there.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, default_missing_value = "true", num_args = 0..=1)]
    pub enable_cluster_resource_modeling: bool,
    /// What users of the hub may ask of this cluster by way of it, in their own names: words of get, list, watch, logs, exec, attach,
    /// port-forward, proxy, create, update, patch, delete, with commas between; or all, or none.
    #[arg(long, env = "KARMADA_ALLOW_REQUESTS", default_value = STANDARD, value_parser = Allowed::from_str)]
    pub allow_requests: Allowed,
    /// What carries the session with the hub.
    #[arg(long, env = "KARMADA_TRANSPORT", value_enum, default_value_t = Transport::Auto)]
    pub transport: Transport,
    /// Where /healthz, /livez, /readyz and /metrics are served, over plain HTTP; 0 for nowhere.
    #[arg(long, env = "KARMADA_METRICS_BIND_ADDRESS", default_value = "127.0.0.1:8080", value_parser = |text: &str| bind_address(text).map(Bind))]
    pub metrics_bind_address: Bind,
    /// What is logged: a level (error, warn, info, debug, trace), or target=level pairs.
    #[arg(long, env = "KARMADA_LOG", default_value = "info", value_parser = |text: &str| EnvFilter::try_new(text).map(|_| text.to_owned()))]
    pub log: String,
    /// How it is written.
    #[arg(long, env = "KARMADA_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
}

fn duration(text: &str) -> Result<SignedDuration, String> {
    let span = text.parse().ok().filter(|span: &SignedDuration| !span.is_negative());
    span.ok_or_else(|| format!("{text:?} is not a duration like 90s, 5m or 1h"))
}

/// A span between two looks: a second at least, as each costs the member some requests.
fn frequency(text: &str) -> Result<Duration, String> {
    let span = duration(text)?.unsigned_abs();
    if span < Duration::from_secs(1) {
        return Err(format!("{text:?} is shorter than a second"));
    }
    Ok(span)
}

impl Args {
    /// How the member is looked at.
    pub fn status(&self) -> StatusOptions {
        StatusOptions {
            frequency: self.cluster_status_update_frequency,
            thresholds: Thresholds {
                success: self.cluster_success_threshold,
                failure: self.cluster_failure_threshold,
            },
            resource_modeling: self.enable_cluster_resource_modeling,
        }
    }
}

/// An address, or none.
#[derive(Clone, Copy)]
pub struct Bind(pub Option<SocketAddr>);

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Transport {
    /// Frames straight over TLS, which cost the hub least; gRPC where these do not come through.
    Auto,
    /// gRPC alone.
    Grpc,
}

impl From<Transport> for Transports {
    fn from(transport: Transport) -> Transports {
        match transport {
            Transport::Auto => Transports::BareOrGrpc,
            Transport::Grpc => Transports::Grpc,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// A line for people.
    Text,
    /// An object of JSON a line, for collectors.
    Json,
}

/// Logs to standard error. The Kubernetes client library logs each failed request as an error; the agent says once what that means.
pub fn log(args: &Args) {
    let filter = EnvFilter::new(format!("kube_client::client::builder=off,{}", args.log));
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match args.log_format {
        LogFormat::Text => lines.with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => {
            lines.json().flatten_event(true).with_current_span(false).with_span_list(false).init();
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn the_cluster_is_looked_at_as_the_flags_say_and_else_as_karmadas_agent_does() {
        let read = |words: &[&str]| {
            Args::try_parse_from(std::iter::once(&"karmada-agent").chain(words)).map(|args| args.status())
        };
        assert_eq!(read(&[]).unwrap(), StatusOptions::default());
        let words = [
            "--cluster-status-update-frequency=1m",
            "--cluster-success-threshold=5s",
            "--cluster-failure-threshold=1m30s",
            "--enable-cluster-resource-modeling=false",
        ];
        let said = read(&words).unwrap();
        assert_eq!((said.frequency.as_secs(), said.resource_modeling), (60, false));
        assert_eq!((said.thresholds.success.as_secs(), said.thresholds.failure.as_secs()), (5, 90));
        for wrong in [
            "--cluster-status-update-frequency=0s",
            "--cluster-success-threshold=-1s",
            "--cluster-failure-threshold=soon",
            "--enable-cluster-resource-modeling=perhaps",
        ] {
            assert!(read(&[wrong]).is_err(), "{wrong}");
        }
    }

    /// Karmada's flags, as they were recorded: each is here with its default, or documented with the reason why it is not.
    #[test]
    fn each_flag_of_karmadas_agent_is_here_or_documented() {
        let command = Args::command();
        let page = include_str!("../README.md");
        let recorded = include_str!("../data/karmada_flags.tsv");
        for line in recorded.lines().filter(|line| !line.starts_with('#')) {
            let [flag, default, place] = line.split('\t').collect::<Vec<_>>().try_into().unwrap();
            let arg = command.get_arguments().find(|arg| arg.get_long() == Some(flag));
            let values = arg.map(|arg| {
                let values = arg.get_default_values().iter().map(|value| value.to_string_lossy());
                values.collect::<Vec<_>>().join(",")
            });
            assert_eq!(values, (place == "here").then(|| default.to_owned()), "--{flag}");
            let is_row = |line: &&str| line.starts_with("| `--") && line.contains(&format!("`--{flag}`"));
            assert_eq!(page.lines().filter(is_row).count(), usize::from(place != "here"), "--{flag}");
        }
    }

    /// What the unit's environment file is told to hold is read by this program, or is in the unit's own command line.
    #[test]
    fn the_units_environment_is_the_programs() {
        let unit = include_str!("../../deploy/systemd/karmada-agent.service");
        let command = Args::command();
        let known: Vec<String> = command
            .get_arguments()
            .filter_map(|arg| Some(arg.get_env()?.to_string_lossy().into_owned()))
            .collect();
        let names = unit.lines().filter_map(|line| line.strip_prefix("#   ")?.split_once('='));
        let names: Vec<&str> = names.map(|(name, _)| name).collect();
        assert!(names.len() >= 3, "{names:?}");
        for name in names {
            let used = known.iter().any(|known| known == name) || unit.contains(&format!("${{{name}}}"));
            assert!(used, "{name} is nothing to the agent");
        }
        assert!(unit.contains("--token-file ") && !unit.contains("--token "));
    }
}
