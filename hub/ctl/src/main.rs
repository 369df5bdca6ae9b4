//! karmadactl: joins clusters to a hub and takes them away, and looks at the fleet. Called `kubectl-karmada`, it is a kubectl plugin.
//!
//! In: flags and kubeconfigs. Out: tables and manifests on stdout, what went wrong and what to do next on stderr. It talks to
//! the public API alone, of the hub and, to install an agent, of a member.

mod access;
mod adopt;
mod called_as;
mod certs;
mod cluster_name;
mod command;
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
mod placement;
mod plan;
mod register;
mod render;
mod resource;
mod retry;
mod site;
mod table;
mod taint;
mod token;
mod unregister;
mod version;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser};

use crate::access::Access;
use crate::command::Command;
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
    arguments.command.run(&arguments.access, now, Arguments::command()).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_help_of_taint_names_each_word_once() {
        let mut line = Arguments::command();
        let help = line.find_subcommand_mut("taint").unwrap().render_long_help().to_string();
        assert!(help.contains("<clusters> <NAME...> <TAINT>"), "{help}");
        let usage = help.lines().find(|line| line.starts_with("Usage:")).unwrap();
        assert_eq!(usage.matches("clusters").count(), 1, "{usage}");
    }

    #[test]
    fn a_span_that_is_negative_is_told_to_be_no_duration() {
        for words in [
            "token create --ttl -1h",
            "unregister shop --karmada-context hub --wait -1h",
            "delete cluster shop --timeout -1h",
            "register hub:5443 --token t --cluster-name shop --timeout -1h",
        ] {
            let line = std::iter::once("karmadactl").chain(words.split(' '));
            let said = Arguments::command().try_get_matches_from(line).unwrap_err().to_string();
            assert!(said.contains("\"-1h\" is not a duration like 90s"), "{words}: {said}");
        }
    }
}
