//! karmada-agent: parse, build, run, drain.
//!
//! In: arguments, the environment, SIGTERM or SIGINT. Out: an agent until it is told to stop; exit code 0, or 1 with the reason and what to
//! do next on stderr.

mod args;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Parser;
use karmada_agent::cause::Cause;
use karmada_agent::identity::IdentityStore;
use karmada_agent::link::dial::Tcp;
use karmada_agent::member::Member;
use karmada_agent::member::kube::{KubeMember, kubeconfig_cluster};
use karmada_agent::{
    AgentError, ClockAndRandom, Config, LinkView, Parts, command_line, join, run, state_dir,
};
use karmada_interpreter::Chain;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::args::Args;

/// Programs of sites have it (`--profile dist --features jemalloc`); what is built to be tried or tested does without the minutes that it takes to
/// build.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let args = Args::parse();
    args::log(&args);
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
    if cfg!(not(any(debug_assertions, feature = "jemalloc"))) {
        tracing::warn!(
            "built without `--features jemalloc`: memory of what is over may stay with this process"
        );
    }
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
    let identity_store = match &args.identity_secret {
        Some(secret) => {
            let (namespace, name) = secret.split_once('/').context("--identity-secret is NAMESPACE/NAME")?;
            IdentityStore::Secret { member: member.clone(), namespace: namespace.into(), name: name.into() }
        }
        None => IdentityStore::Directory(args.state_dir.clone()),
    };
    let config = Config {
        status: args.status(),
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
        reports_service_names: args.report_service_names,
        allowed: args.allow_requests,
        transports: args.transport.into(),
        metrics: args.metrics_bind_address.0,
        ..Config::default()
    };
    let (link, _) = tokio::sync::watch::channel(LinkView::default());
    let sources = ClockAndRandom::system();
    let parts = Parts {
        member,
        interpreter: Arc::new(Chain::default()),
        connector: Arc::new(Tcp),
        identity_store,
        link,
        sources,
    };
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
