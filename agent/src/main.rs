//! karmada-agent: parse, build, run, drain.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use clap::{Parser, ValueEnum};
use karmada_agent::cause::Cause;
use karmada_agent::identity::Keeper;
use karmada_agent::link::dial::Tcp;
use karmada_agent::member::Member;
use karmada_agent::member::kube::{KubeMember, kubeconfig_cluster};
use karmada_agent::metrics::bind_address;
use karmada_agent::{AgentError, Config, LinkView, Parts, command_line, join, run, state_dir};
use karmada_certs::{JoinToken, Pin};
use karmada_interpreter::Native;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Keeps a member cluster in step with its hub, over one outbound connection.
#[derive(Parser)]
#[command(name = "karmada-agent", version)]
struct Args {
    /// The hub's address, HOST:PORT; may be given several times, tried in order.
    #[arg(long, env = "KARMADA_HUB", value_delimiter = ',')]
    hub: Vec<String>,
    /// The join token, as `karmadactl token create` prints it; needed once.
    #[arg(long, env = "KARMADA_TOKEN", hide_env_values = true, value_parser = |t: &str| JoinToken::parse(t))]
    token: Option<JoinToken>,
    /// A file with the join token, read when joining; for a Secret mounted into the agent's Pod.
    #[arg(long, conflicts_with = "token")]
    token_file: Option<PathBuf>,
    /// sha256:… of the hub's CA, printed with the token; needed once.
    #[arg(long, value_delimiter = ',')]
    discovery_token_ca_cert_hash: Vec<Pin>,
    /// The cluster's name on the hub; by default the kubeconfig's name for it, made a DNS label.
    #[arg(long, env = "KARMADA_CLUSTER_NAME")]
    cluster_name: Option<String>,
    /// Where the agent keeps what it must not forget.
    #[arg(long, env = "KARMADA_STATE_DIR", default_value = "/var/lib/karmada-agent")]
    state_dir: PathBuf,
    /// The member's kubeconfig; by default the Pod's service account.
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// Keep the identity in this Secret of the member, NAMESPACE/NAME, so that it survives the Pod's move.
    #[arg(long)]
    identity_secret: Option<String>,
    /// For the Cluster object: the provider.
    #[arg(long, default_value = "")]
    cluster_provider: String,
    /// For the Cluster object: the region.
    #[arg(long, default_value = "")]
    cluster_region: String,
    /// For the Cluster object: the zones.
    #[arg(long, value_delimiter = ',')]
    cluster_zones: Vec<String>,
    /// The only namespaces of the member in which the agent may watch workloads; all, where none are named.
    #[arg(long, env = "KARMADA_AGENT_NAMESPACES", value_delimiter = ',')]
    namespaces: Vec<String>,
    /// Objects checked for drift per second.
    #[arg(long, default_value_t = 5.0)]
    drift_rate: f64,
    /// Where /healthz and /metrics are served, over plain HTTP; 0 for nowhere.
    #[arg(long, env = "KARMADA_METRICS_BIND_ADDRESS", default_value = "127.0.0.1:8080", value_parser = |text: &str| bind_address(text).map(Bind))]
    metrics_bind_address: Bind,
    /// What is logged: a level (error, warn, info, debug, trace), or target=level pairs.
    #[arg(long, env = "KARMADA_LOG", default_value = "info", value_parser = |text: &str| EnvFilter::try_new(text).map(|_| text.to_owned()))]
    log: String,
    /// How it is written.
    #[arg(long, env = "KARMADA_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
}

/// An address, or none.
#[derive(Clone, Copy)]
struct Bind(Option<SocketAddr>);

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    /// A line for people.
    Text,
    /// An object of JSON a line, for collectors.
    Json,
}

/// Logs to standard error. The Kubernetes client library logs each failed request as an error; the agent says once what that means.
fn log(args: &Args) {
    let filter = EnvFilter::new(format!("kube_client::client::builder=off,{}", args.log));
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match args.log_format {
        LogFormat::Text => lines.with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => lines.json().init(),
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    log(&args);
    // Two threads: a disk that syncs must not hold up the link.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(2)
        .thread_stack_size(1 << 20)
        .enable_all()
        .build();
    let result = runtime.context("starting").and_then(|runtime| runtime.block_on(serve(args)));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("karmada-agent: {error:#}");
            let next = error.downcast_ref::<AgentError>().and_then(|error| Cause::from(error).next());
            if let Some(next) = next {
                eprintln!("next: {next}");
            }
            ExitCode::FAILURE
        }
    }
}

async fn serve(args: Args) -> anyhow::Result<()> {
    if state_dir::prepare(&args.state_dir)? {
        tracing::warn!(directory = %args.state_dir.display(), "others could enter the state directory: it is mode 0700 now");
    }
    if let Some(token) = &args.token {
        command_line::hide(token, &args.state_dir);
    }
    let cluster_name = match (&args.cluster_name, &args.kubeconfig) {
        (Some(name), _) => name.clone(),
        (None, Some(path)) => join::dns_label(&kubeconfig_cluster(path)?.unwrap_or_default()),
        (None, None) => String::new(),
    };
    let member: Arc<dyn Member> = Arc::new(KubeMember::connect(args.kubeconfig.as_deref()).await?);
    let keeper = match &args.identity_secret {
        Some(secret) => {
            let (namespace, name) = secret.split_once('/').context("--identity-secret is NAMESPACE/NAME")?;
            Keeper::Secret { member: member.clone(), namespace: namespace.into(), name: name.into() }
        }
        None => Keeper::Directory(args.state_dir.clone()),
    };
    let config = Config {
        hub: args.hub,
        token: args.token,
        token_file: args.token_file,
        pins: args.discovery_token_ca_cert_hash,
        cluster_name,
        provider: args.cluster_provider,
        region: args.cluster_region,
        zones: args.cluster_zones,
        state_dir: Some(args.state_dir),
        namespaces: args.namespaces,
        drift_rate: args.drift_rate,
        metrics: args.metrics_bind_address.0,
        ..Config::default()
    };
    let (link, _) = tokio::sync::watch::channel(LinkView::default());
    let parts = Parts { member, interpreter: Arc::new(Native), connector: Arc::new(Tcp), keeper, link };
    let stop = CancellationToken::new();
    tokio::spawn(until_signal(stop.clone()));
    Ok(Box::pin(run(config, parts, stop)).await?)
}

/// SIGTERM or SIGINT asks the agent to leave.
async fn until_signal(stop: CancellationToken) {
    let (term, int) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
    if let (Ok(mut term), Ok(mut int)) = (term, int) {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
        stop.cancel();
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
