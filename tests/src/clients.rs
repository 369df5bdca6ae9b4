//! The clients that are written in Go (one program of them all, and Helm) and in Python (an environment with what they need); found,
//! or built from `tests/clients` by its scripts.
//!
//! In: nothing, or a program with arguments and variables. Out: where the clients are, `None` (after a line `skipped: …`) where they cannot
//! be had; or what a run printed and how it ended. Blocks while it builds or runs.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::folder::{target_dir, workspace_root};
use crate::kubectl::Output;
use crate::must_not_skip;

/// Where the programs are.
#[derive(Clone, Debug)]
pub struct Clients {
    /// `clients KUBECONFIG client-go|gitops-engine|flux-ssa [CHECK]...`
    pub clients: PathBuf,
    /// Helm 3.
    pub helm: PathBuf,
}

/// The programs, or a line `skipped: …` and `None` where they cannot be had; in CI that is a failure. Builds what is missing on
/// first use, which takes minutes.
pub fn programs_or_skip() -> Option<&'static Clients> {
    static FOUND: OnceLock<Result<Clients, String>> = OnceLock::new();
    had_or_skipped(FOUND.get_or_init(|| {
        let bin = target_dir().join("clients").join("bin");
        build("tests/clients/build", &bin)?;
        Ok(Clients { clients: bin.join("clients"), helm: bin.join("helm") })
    }))
}

/// Python with the clients that are written in it; what is not there is as with [`programs_or_skip`].
pub fn python_or_skip() -> Option<&'static PathBuf> {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    had_or_skipped(FOUND.get_or_init(|| {
        let venv = target_dir().join("clients").join("python");
        build("tests/clients/python/build", &venv)?;
        Ok(venv.join("bin").join("python"))
    }))
}

pub(crate) fn had_or_skipped<T>(found: &'static Result<T, String>) -> Option<&'static T> {
    match found {
        Ok(found) => Some(found),
        Err(why) if must_not_skip() => panic!("{why}"),
        Err(why) => {
            println!("skipped: {why}");
            None
        }
    }
}

pub(crate) fn build(script: &str, folder: &Path) -> Result<(), String> {
    let script = workspace_root().join(script);
    let output = Command::new(&script).arg(folder).output();
    let output = output.map_err(|error| format!("cannot run {}: {error}", script.display()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{} failed ({}): {}", script.display(), output.status, said.trim()));
    }
    Ok(())
}

/// Runs a program to its end, with variables beside this process's.
#[track_caller]
pub fn run(program: &Path, args: &[&str], env: &[(&str, &str)]) -> Output {
    let mut command = Command::new(program);
    command.args(args).envs(env.iter().copied());
    let output = command.output().unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    let mut shown = String::new();
    for (name, value) in env {
        let _ = write!(shown, "{name}={value} ");
    }
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    Output {
        command: format!("{shown}{name} {}", args.join(" ")),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        status: output.status,
    }
}
