//! karmada-agent: parse, build, run, drain.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Parser;
use karmada_agent::cause::Cause;
use karmada_agent::identity::Keeper;
use karmada_agent::link::dial::Tcp;
use karmada_agent::member::Member;
use karmada_agent::member::kube::{KubeMember, kubeconfig_cluster};
use karmada_agent::{AgentError, Config, LinkView, Parts, join, run};
use karmada_certs::{JoinToken, Pin};
use karmada_interpreter::Native;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

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
    #[arg(long, env = "KARMADA_CA_HASH", value_delimiter = ',')]
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
}

fn main() -> ExitCode {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    // Two threads: a disk that syncs must not hold up the link.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(2)
        .thread_stack_size(1 << 20)
        .enable_all()
        .build();
    let result = runtime.context("starting").and_then(|runtime| runtime.block_on(serve(Args::parse())));
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
    std::fs::create_dir_all(&args.state_dir)
        .with_context(|| format!("making the state directory {}", args.state_dir.display()))?;
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
