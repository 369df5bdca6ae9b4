//! karmada-hub: parse, build, run, drain.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand, ValueEnum};
use karmada_hub::{Hub, Settings, StoreKind};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[derive(Parser)]
#[command(name = "karmada-hub", version, about = "The hub of a fleet of Kubernetes clusters")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// What to log, as in RUST_LOG; `info`, for the demo `error`, where it is not given.
    #[arg(long, global = true, env = "KARMADA_LOG")]
    log: Option<String>,
}

#[derive(Subcommand)]
enum Command {
    /// Run a hub.
    Serve(Serve),
    /// Try it: a hub, agents and embedded members in one process, with a sample spread over them.
    Demo {
        /// How many clusters.
        #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
        clusters: u16,
    },
}

#[derive(clap::Args)]
struct Serve {
    /// Where the CA, keys and state live; made at the first start.
    #[arg(long)]
    data_dir: PathBuf,
    /// Address and port of everything: Kubernetes API, agents, page.
    #[arg(long, default_value = "0.0.0.0:5443")]
    listen: SocketAddr,
    /// A host, host:port or URL under which the hub is reached; may be given again, the first is handed out.
    #[arg(long)]
    advertise: Vec<String>,
    /// What keeps the state.
    #[arg(long, value_enum, default_value_t = StoreArgument::Sqlite)]
    store: StoreArgument,
    /// Which control loops run: all, or none for an API server alone.
    #[arg(long, value_enum, default_value_t = ControllersArgument::All)]
    controllers: ControllersArgument,
}

#[derive(Clone, Copy, ValueEnum)]
enum StoreArgument {
    Sqlite,
    Memory,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ControllersArgument {
    All,
    None,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let usual = if matches!(arguments.command, Command::Demo { .. }) { "error" } else { "info" };
    let filter = EnvFilter::new(arguments.log.as_deref().unwrap_or(usual));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&anyhow::anyhow!("starting threads: {error}")),
    };
    let outcome = match arguments.command {
        Command::Serve(serve) => runtime.block_on(run(serve)),
        Command::Demo { clusters } => runtime.block_on(demo(clusters)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

fn fail(error: &anyhow::Error) -> ExitCode {
    eprintln!("karmada-hub: {error:#}");
    ExitCode::FAILURE
}

async fn run(serve: Serve) -> anyhow::Result<()> {
    let settings = Settings {
        data_dir: serve.data_dir,
        listen: serve.listen,
        advertise: serve.advertise,
        store: match serve.store {
            StoreArgument::Sqlite => StoreKind::Sqlite,
            StoreArgument::Memory => StoreKind::Memory,
        },
        controllers: serve.controllers == ControllersArgument::All,
    };
    let stop = on_signal()?;
    let hub = Hub::start(&settings, Arc::new(jiff::Timestamp::now)).await?;
    tracing::info!(url = hub.url, kubeconfig = %hub.data.kubeconfig_file().display(), "the hub is ready");
    let failed = tokio::select! {
        () = stop.cancelled() => false,
        () = hub.failed() => true,
    };
    tracing::info!("draining");
    hub.stop().await;
    anyhow::ensure!(!failed, "the store failed: see the log above");
    Ok(())
}

async fn demo(clusters: u16) -> anyhow::Result<()> {
    karmada_hub::demo::run(usize::from(clusters), Arc::new(jiff::Timestamp::now), on_signal()?).await
}

/// Cancelled by SIGTERM or Ctrl-C.
fn on_signal() -> anyhow::Result<CancellationToken> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let stop = CancellationToken::new();
    let told = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        told.cancel();
    });
    Ok(stop)
}
