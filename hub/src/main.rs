//! karmada-hub: parse, build, run, drain.
//!
//! In: arguments, the environment, SIGTERM or Ctrl-C. Out: a hub until it is told to stop; exit code 0, or 1 and the reason on stderr.

use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand};
use karmada_hub::Hub;
use karmada_hub::certs_command::Certs;
use karmada_hub::flags::Serve;
use karmada_hub::logging::Logging;
use karmada_registry::Clock;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Programs of sites have it (`--profile dist --features jemalloc`); what is built to be tried or tested does without the minutes that it takes to
/// build.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[derive(Parser)]
#[command(name = "karmada-hub", version, about = "The hub of a fleet of Kubernetes clusters")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    logging: Logging,
}

#[derive(Subcommand)]
enum Command {
    /// Run a hub.
    Serve(Box<Serve>),
    /// Change the hub's CA.
    #[command(subcommand)]
    Certs(Certs),
    /// Try it: a hub, agents and embedded members in one process, with a sample spread over them.
    Demo {
        /// How many clusters.
        #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
        clusters: u16,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let usual = if matches!(arguments.command, Command::Demo { .. }) { "error" } else { "info" };
    if let Err(wrong) = arguments.logging.start(usual) {
        return fail(&anyhow::anyhow!(wrong));
    }
    // By default a busy worker looks at its sockets after 61 tasks: under a flood of long lists, that alone would be ten
    // milliseconds for everybody else.
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    // `block_in_place` hands the worker's other tasks to a blocking thread; there must be more of these than request seats.
    let runtime = match builder.enable_all().event_interval(7).max_blocking_threads(1024).build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&anyhow::anyhow!("starting threads: {error}")),
    };
    let outcome = match arguments.command {
        Command::Serve(serve) => runtime.block_on(run(*serve)),
        Command::Certs(certs) => certs.run(clock()()).map(|said| say(&said)),
        Command::Demo { clusters } => runtime.block_on(demo(clusters)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

#[allow(clippy::print_stdout, reason = "whoever gave the command is told the outcome")]
fn say(outcome: &str) {
    println!("{outcome}");
}

fn fail(error: &anyhow::Error) -> ExitCode {
    eprintln!("karmada-hub: {error:#}");
    ExitCode::FAILURE
}

async fn run(serve: Serve) -> anyhow::Result<()> {
    let settings = serve.settings()?;
    if cfg!(not(any(debug_assertions, feature = "jemalloc"))) {
        tracing::warn!(
            "built without `--features jemalloc`: memory of what is over may stay with this process"
        );
    }
    let stop = on_signal()?;
    // A start may wait, for a key management service for one, and is then given up like any other work.
    let started = stop.run_until_cancelled(Hub::start(&settings, clock())).await;
    let Some(hub) = started.transpose()? else { return Ok(()) };
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
    karmada_hub::demo::run(usize::from(clusters), clock(), on_signal()?).await
}

/// The clock of this machine.
#[expect(clippy::disallowed_methods, reason = "here the clock is made")]
fn clock() -> Clock {
    Arc::new(jiff::Timestamp::now)
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
