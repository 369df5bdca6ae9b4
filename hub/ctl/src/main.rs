//! karmadactl: joins clusters to a hub and takes them away, and looks at the fleet. Called `kubectl-karmada`, it is a kubectl plugin.
//!
//! In: flags and kubeconfigs. Out: tables and manifests on stdout, what went wrong and what to do next on stderr. It talks to
//! the public API alone, of the hub and, to install an agent, of a member.

mod access;
mod adopt;
mod called_as;
mod certs;
mod cluster_name;
mod completion;
mod confirm;
mod connection;
mod cordon;
mod delete;
mod duration;
mod get;
mod kubeconfig;
mod logging;
mod orphans;
mod output;
mod register;
mod release;
mod resource;
mod site;
mod table;
mod taint;
mod token;
mod unregister;
mod version;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::access::Access;
use crate::logging::Logging;

#[derive(Parser)]
#[command(
    name = "karmadactl",
    version,
    about = "Joins Kubernetes clusters to a Karmada hub and looks after them"
)]
struct Arguments {
    #[command(flatten)]
    access: Access,
    #[command(flatten)]
    logging: Logging,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make, list and delete the tokens with which clusters join.
    #[command(subcommand)]
    Token(token::Command),
    /// Install an agent in a member cluster and wait until the hub has seen it.
    Register(Box<register::Arguments>),
    /// Take a cluster out of the fleet, and the agent out of the cluster.
    Unregister(unregister::Arguments),
    /// Give a cluster's name to a key that asks for it: a new cluster's, or that of a site whose agent lost its own.
    Adopt(adopt::Arguments),
    /// Refuse keys that ask for a cluster's name.
    Refuse(adopt::Arguments),
    /// Show objects of the hub.
    Get(get::Arguments),
    /// Delete objects of the hub by name.
    Delete(delete::Arguments),
    /// Place nothing new on a cluster.
    Cordon(cordon::Arguments),
    /// Place workloads on a cluster again.
    Uncordon(cordon::Arguments),
    /// Let the deletes go out that a restored hub holds back for a site.
    Confirm(confirm::Arguments),
    /// Have a site try again a Work that it has put aside because it crashed the agent.
    Release(release::Arguments),
    /// Show what a site has of Works that the hub knows nothing of, or have the site release or delete it.
    Orphans(orphans::Arguments),
    /// Add taints to clusters, or remove them.
    Taint(taint::Arguments),
    /// Look after certificates.
    #[command(subcommand)]
    Certs(certs::Command),
    /// Show the version of this program and of the hub.
    Version(version::Arguments),
    /// Print the completion script of a shell.
    Completion {
        /// The shell.
        #[arg(value_parser = ["bash", "zsh", "fish"])]
        shell: String,
    },
}

fn main() -> ExitCode {
    let called = called_as::name(std::env::args().next().as_deref());
    let matches = Arguments::command().bin_name(called).get_matches();
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let outcome = match runtime {
        Ok(runtime) => runtime.block_on(Box::pin(run(arguments))),
        Err(error) => Err(anyhow::anyhow!("starting the runtime: {error}")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", output::plain(&format!("{error:#}")));
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "here the clock is read, once for a command")]
async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let now = jiff::Timestamp::now();
    arguments.logging.start()?;
    let access = arguments.access;
    match arguments.command {
        Command::Token(command) => token::run(&access, command, now).await,
        Command::Register(command) => Box::pin(register::run(&access, &command, now)).await,
        Command::Unregister(command) => Box::pin(unregister::run(&access, &command)).await,
        Command::Adopt(command) => adopt::run(&access, &command, adopt::Decision::Adopt).await,
        Command::Refuse(command) => adopt::run(&access, &command, adopt::Decision::Refuse).await,
        Command::Get(command) => get::run(&access, &command).await,
        Command::Delete(command) => delete::run(&access, &command).await,
        Command::Cordon(command) => cordon::run(&access, &command, true).await,
        Command::Uncordon(command) => cordon::run(&access, &command, false).await,
        Command::Confirm(command) => confirm::run(&access, &command).await,
        Command::Release(command) => release::run(&access, &command, now).await,
        Command::Orphans(command) => orphans::run(&access, &command).await,
        Command::Taint(command) => taint::run(&access, &command).await,
        Command::Certs(command) => certs::run(&access, command, now).await,
        Command::Version(command) => version::run(&access, &command).await,
        Command::Completion { shell } => completion::print(&shell, &mut Arguments::command()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Arguments::command().debug_assert();
    }
}
