//! The sources of the workspace, for rules that look at them.
//!
//! In: the workspace on disk. Out: its packages as cargo tells them, and its files with their texts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use regex::Regex;
use serde_json::Value;
use tests::folder::workspace_root;

/// What cargo says of the workspace.
fn metadata(more: &[&str]) -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--offline"])
        .args(more)
        .current_dir(workspace_root())
        .output()
        .expect("cargo runs");
    serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON")
}

/// The packages, as cargo's metadata has them.
pub(crate) fn packages() -> Vec<Value> {
    metadata(&["--no-deps"])["packages"].as_array().expect("there are packages").clone()
}

/// Each package, those from elsewhere among them, and those that it is built with, by their names.
pub(crate) fn built_with() -> BTreeMap<String, BTreeSet<String>> {
    let all = metadata(&[]);
    let list = |value: &Value| value.as_array().expect("a list").clone();
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let names: BTreeMap<String, String> =
        list(&all["packages"]).iter().map(|one| (text(&one["id"]), text(&one["name"]))).collect();
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for node in list(&all["resolve"]["nodes"]) {
        let normal = list(&node["deps"]).into_iter();
        let normal = normal.filter(|one| list(&one["dep_kinds"]).iter().any(|kind| kind["kind"].is_null()));
        let known = normal.map(|one| names[&text(&one["pkg"])].clone());
        found.entry(names[&text(&node["id"])].clone()).or_default().extend(known);
    }
    found
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

pub(crate) fn all_rust_files() -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    for room in ["agent", "certs", "hub", "proto", "tests"] {
        rust_files(&workspace_root().join(room), &mut files);
    }
    files.into_iter().map(|path| (path.clone(), std::fs::read_to_string(&path).expect("a text"))).collect()
}

fn names_by<'t>(expression: &str, text: &'t str) -> BTreeSet<&'t str> {
    let expression = Regex::new(expression).expect("an expression");
    expression.captures_iter(text).filter_map(|found| Some(found.get(1)?.as_str())).collect()
}

/// The names of a file's functions.
pub(crate) fn functions_of(text: &str) -> BTreeSet<&str> {
    names_by(r"fn ([a-z0-9_]+)\(", text)
}

/// The names of those that are tests, whoever runs them: the attribute stands above the function, with others and comments between.
pub(crate) fn tests_of(text: &str) -> BTreeSet<&str> {
    let attribute = r"#\[(?:[a-z_]+::)*test(?:\([^\]]*\))?\]\s*";
    let between = r"(?:#\[[^\]]*\]\s*|//[^\n]*\n\s*)*";
    names_by(&format!(r"{attribute}{between}(?:pub )?(?:async )?fn ([a-z0-9_]+)\("), text)
}

/// A crate's name, the root of its sources, the files with their texts.
pub(crate) type Source = (String, PathBuf, Vec<(PathBuf, String)>);

/// The sources of each crate.
pub(crate) fn sources() -> Vec<Source> {
    let of = |package: Value| {
        let manifest = PathBuf::from(package["manifest_path"].as_str().expect("a path"));
        let root = manifest.parent().expect("a folder").join("src");
        let mut files = Vec::new();
        if root.is_dir() {
            rust_files(&root, &mut files);
        }
        let text = |path: PathBuf| (path.clone(), std::fs::read_to_string(&path).expect("a text"));
        let name = package["name"].as_str().expect("a name").to_owned();
        (name, root, files.into_iter().map(text).collect())
    };
    packages().into_iter().map(of).collect()
}
