//! The house rules that a compiler does not hold: who may know whom, what stands at the top, what every file begins with.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tests::folder::workspace_root;

/// Crate → the crates of this workspace that it may name among its normal dependencies. A crate that is missing here may name
/// none and must be added with its place in the house.
const MAY_KNOW: &[(&str, &[&str])] = &[
    ("karmada-proto", &[]),
    ("karmada-api", &[]),
    ("karmada-interpreter", &["karmada-api"]),
    ("karmada-certs", &[]),
    ("karmada-core", &["karmada-api", "karmada-interpreter"]),
    ("karmada-store", &[]),
    ("karmada-cel", &[]),
    ("karmada-encryption", &[]),
    ("karmada-apiserver", &["karmada-api", "karmada-cel", "karmada-store"]),
    ("karmada-controllers", &["karmada-api", "karmada-core", "karmada-interpreter"]),
    ("karmada-gateway", &["karmada-certs", "karmada-proto"]),
    ("karmadactl", &["karmada-api", "karmada-certs"]),
    ("karmada-agent", &["karmada-api", "karmada-certs", "karmada-interpreter", "karmada-proto"]),
    (
        "karmada-hub",
        &[
            "karmada-agent",
            "karmada-api",
            "karmada-apiserver",
            "karmada-certs",
            "karmada-controllers",
            "karmada-core",
            "karmada-encryption",
            "karmada-gateway",
            "karmada-interpreter",
            "karmada-proto",
            "karmada-store",
        ],
    ),
    ("tests", &["karmada-agent", "karmada-api", "karmada-certs", "karmada-core", "karmada-interpreter"]),
];

/// Crates that decide, and so know no runtime, no socket and no clock.
const PURE: [&str; 4] = ["karmada-proto", "karmada-api", "karmada-interpreter", "karmada-core"];

/// What pure crates may not depend on, by name.
const RUNTIMES: [&str; 4] = ["tokio", "hyper", "rusqlite", "kube"];

/// Everything that may stand at the top, dotfiles and what git ignores aside.
const TOP: [&str; 10] =
    ["Cargo.lock", "Cargo.toml", "LICENSE", "README.md", "agent", "certs", "deploy", "hub", "proto", "tests"];

fn packages() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(workspace_root())
        .output()
        .expect("cargo runs");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON");
    metadata["packages"].as_array().expect("there are packages").clone()
}

/// Package → its normal dependencies.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let of = |package: &Value| {
        let all = package["dependencies"].as_array().expect("a list").clone();
        let normal = all.into_iter().filter(|dependency| dependency["kind"].is_null());
        normal.filter_map(|dependency| dependency["name"].as_str().map(str::to_owned)).collect()
    };
    packages().iter().map(|p| (p["name"].as_str().expect("a name").to_owned(), of(p))).collect()
}

#[test]
fn the_direction_of_the_house_holds() {
    let all = dependencies();
    let house: BTreeSet<&String> = all.keys().collect();
    for (package, dependencies) in &all {
        let Some((_, allowed)) = MAY_KNOW.iter().find(|(name, _)| name == package) else {
            panic!("{package} has no place in MAY_KNOW");
        };
        for dependency in dependencies.iter().filter(|d| house.contains(d)) {
            assert!(allowed.contains(&dependency.as_str()), "{package} may not know {dependency}");
        }
    }
    assert_eq!(all.len(), MAY_KNOW.len(), "MAY_KNOW names a crate that is gone");
}

#[test]
fn crates_that_decide_know_no_runtime() {
    let all = dependencies();
    for package in PURE {
        for runtime in RUNTIMES {
            assert!(!all[package].contains(runtime), "{package} is pure and may not depend on {runtime}");
        }
    }
}

#[test]
fn every_crate_holds_the_workspace_lints() {
    for package in packages() {
        let manifest = package["manifest_path"].as_str().expect("a path");
        let text = std::fs::read_to_string(manifest).expect("the manifest is read");
        assert!(
            text.contains("[lints]\nworkspace = true"),
            "{manifest} does not opt into the workspace's lints"
        );
    }
}

#[test]
fn the_top_holds_what_it_may() {
    let output =
        Command::new("git").args(["ls-files"]).current_dir(workspace_root()).output().expect("git runs");
    let listed = String::from_utf8(output.stdout).expect("paths are text");
    let top: BTreeSet<&str> = listed.lines().filter_map(|path| path.split('/').next()).collect();
    for entry in top.iter().filter(|entry| !entry.starts_with('.')) {
        assert!(TOP.contains(entry), "{entry} may not stand at the top");
    }
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        let name = entry.file_name();
        if path.is_dir() && name != "target" && !name.to_string_lossy().starts_with('.') {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

fn all_rust_files() -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    for room in ["agent", "certs", "hub", "proto", "tests"] {
        rust_files(&workspace_root().join(room), &mut files);
    }
    files.into_iter().map(|path| (path.clone(), std::fs::read_to_string(&path).expect("a text"))).collect()
}

#[test]
fn every_file_says_what_it_is() {
    for (path, text) in all_rust_files() {
        assert!(text.starts_with("//!"), "{} does not begin with what it is", path.display());
    }
}

#[test]
fn no_room_grows_too_large() {
    for (path, text) in all_rust_files() {
        let lines = text.lines().count();
        assert!(lines <= 1000, "{} has {lines} lines", path.display());
        if path.ends_with("src/main.rs") {
            assert!(
                lines <= 150,
                "{} has {lines} lines: a main parses, builds, runs and drains",
                path.display()
            );
        }
    }
}

/// Every `KARMADA_…` in a text.
fn variables(text: &str) -> BTreeSet<String> {
    let starts = text.match_indices("KARMADA_").map(|(at, _)| &text[at..]);
    let name = |rest: &str| rest.chars().take_while(|c| c.is_ascii_uppercase() || *c == '_').collect();
    starts.map(name).collect()
}

/// The programs read them from their environment themselves: one that is not set is then no empty flag.
#[test]
fn a_units_variables_are_its_programs() {
    for (unit, sources) in [
        ("karmada-agent", &["agent/src/args.rs"][..]),
        ("karmada-hub", &["hub/src/main.rs", "hub/src/flags.rs", "hub/src/logging.rs"][..]),
    ] {
        let read = |path: &str| std::fs::read_to_string(workspace_root().join(path)).expect("a text");
        let service = read(&format!("deploy/systemd/{unit}.service"));
        let sources: String = sources.iter().map(|path| read(path)).collect();
        for variable in variables(&service) {
            assert!(sources.contains(&format!("env = \"{variable}\"")), "{unit} does not read {variable}");
        }
        let start = service.lines().find(|line| line.starts_with("ExecStart=")).expect("a start");
        assert!(
            !start.contains("${KARMADA_"),
            "{unit}: a variable that is not set would be an empty flag: {start}"
        );
    }
}

#[test]
fn nothing_is_promised_in_comments() {
    let promises = [
        ["TO", "DO"].concat(),
        ["FIX", "ME"].concat(),
        ["todo", "!("].concat(),
        ["unimplemented", "!("].concat(),
    ];
    for (path, text) in all_rust_files() {
        for promise in &promises {
            assert!(!text.contains(promise.as_str()), "{} holds a {promise}", path.display());
        }
    }
}
