//! The commands of karmadactl. In: what clap read. Out: the module that does it, each command in a file of its name.

use anyhow::Result;
use clap::Subcommand;
use jiff::Timestamp;

use crate::access::Access;
use crate::{
    adopt, certs, completion, confirm, cordon, delete, get, orphans, placement, plan, register, render,
    retry, taint, token, unregister, version,
};

/// One of them, with its flags.
#[derive(Subcommand)]
pub enum Command {
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
    /// Show what a site will do once it has heard of everything that the hub wants of it.
    Plan(plan::Arguments),
    /// Explain where an object is placed and why not elsewhere, or where it would be.
    ExplainPlacement(placement::Explain),
    /// Say what would become of the templates of a file.
    Schedule(placement::Schedule),
    /// Say what files would place where and what each cluster would get, without a hub.
    Render(render::Arguments),
    /// Let the deletes go out that a restored hub holds back for a site.
    Confirm(confirm::Arguments),
    /// Have a site try again a Work that it has put aside because it crashed the agent.
    #[command(visible_alias = "release")]
    Retry(retry::Arguments),
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

impl Command {
    /// Does it. `line`: the whole command line, which completion needs.
    pub async fn run(self, access: &Access, now: Timestamp, mut line: clap::Command) -> Result<()> {
        match self {
            Command::Token(command) => token::run(access, command, now).await,
            Command::Register(command) => Box::pin(register::run(access, &command, now)).await,
            Command::Unregister(command) => Box::pin(unregister::run(access, &command)).await,
            Command::Adopt(command) => adopt::run(access, &command, adopt::Decision::Adopt).await,
            Command::Refuse(command) => adopt::run(access, &command, adopt::Decision::Refuse).await,
            Command::Get(command) => get::run(access, &command).await,
            Command::Delete(command) => delete::run(access, &command).await,
            Command::Cordon(command) => cordon::run(access, &command, true).await,
            Command::Uncordon(command) => cordon::run(access, &command, false).await,
            Command::Plan(command) => plan::run(access, &command).await,
            Command::ExplainPlacement(command) => placement::explain(access, &command).await,
            Command::Schedule(command) => placement::schedule(access, &command).await,
            Command::Render(command) => render::run(&command, now),
            Command::Confirm(command) => confirm::run(access, &command).await,
            Command::Retry(command) => retry::run(access, &command, now).await,
            Command::Orphans(command) => orphans::run(access, &command).await,
            Command::Taint(command) => taint::run(access, &command).await,
            Command::Certs(command) => certs::run(access, command, now).await,
            Command::Version(command) => version::run(access, &command).await,
            Command::Completion { shell } => completion::print(&shell, &mut line),
        }
    }
}
