//! The product's own programs, built with the profile that the tests were built with; or of another build, where one is named.
//!
//! In: the name of a program. Out: its path, up to date. The first call of a process runs cargo and blocks until it is done; a failed build
//! panics.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use crate::folder::{profile_dir, workspace_root};

/// Packages whose programs the tests start.
const PACKAGES: [&str; 3] = ["karmada-hub", "karmada-agent", "karmadactl"];

/// What the variables begin with by which cargo tells a program that it runs of its package.
const TOLD_TO_TESTS: [&str; 2] = ["CARGO_PKG_", "CARGO_MANIFEST_"];

/// The path of one of our programs (`karmada-hub`, `karmada-agent`, `karmadactl`).
///
/// `cargo test` builds programs only for tests of the same package, so the first call asks cargo for them; that
/// is a moment where they are up to date. `KARMADA_AGENT_PROGRAM` and the like name one of another build, which is used as it is: so an older
/// agent meets this hub, and an older hub these agents.
#[track_caller]
pub fn program(name: &str) -> PathBuf {
    let other = format!("{}_PROGRAM", name.to_uppercase().replace('-', "_"));
    if let Some(path) = std::env::var_os(&other).map(PathBuf::from) {
        assert!(path.is_file(), "{other} is no file: {}", path.display());
        return path;
    }
    static BUILT: OnceLock<Result<(), String>> = OnceLock::new();
    if let Err(why) = BUILT.get_or_init(build) {
        panic!("{why}");
    }
    let path = profile_dir().join(name);
    assert!(path.is_file(), "cargo did not make {}", path.display());
    path
}

fn build() -> Result<(), String> {
    let profile = profile_dir();
    let profile_name = profile.file_name().and_then(|name| name.to_str()).unwrap_or("debug");
    let profile_name = if profile_name == "debug" { "dev" } else { profile_name };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(workspace_root()).args(["build", "--quiet", "--bins", "--profile", profile_name]);
    command.args(PACKAGES.iter().flat_map(|package| ["-p", package]));
    if profile_name != "dev" {
        // Measured as at a site.
        command.args(["--features", "jemalloc"]);
    }
    command.env("CARGO_TARGET_DIR", crate::folder::target_dir());
    // Cargo tells a test of its package by variables, and build scripts (ring's) run again where those change: without this everything above
    // would be compiled once for the tests and once for the programs, each time anew.
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| TOLD_TO_TESTS.iter().any(|prefix| name.starts_with(prefix))) {
            command.env_remove(name);
        }
    }
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("cargo build of {} failed ({status})", PACKAGES.join(", "))),
        Err(error) => Err(format!("cannot run cargo: {error}")),
    }
}
