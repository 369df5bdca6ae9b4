//! `karmadactl completion`: the script by which a shell completes our commands.
//!
//! In: the name of a shell. Out: its script, on stdout; an error for a shell that is not known.

use clap_complete::Shell;

use crate::output;

/// Prints the script by which `shell` completes what `command` takes.
pub fn print(shell: &str, command: &mut clap::Command) -> anyhow::Result<()> {
    let shell: Shell = shell.parse().map_err(|error: String| anyhow::anyhow!(error))?;
    let mut script = Vec::new();
    clap_complete::generate(shell, command, "karmadactl", &mut script);
    output::print(&String::from_utf8_lossy(&script))
}
