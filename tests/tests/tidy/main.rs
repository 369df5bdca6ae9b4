//! The house rules that a compiler does not hold: who may know whom, what stands at the top, what every file begins with.

#![allow(clippy::disallowed_methods, reason = "tests and benches are of this machine's time")]
// Helpers of tests are no tests to the lint.
#![allow(clippy::unwrap_used)]

mod circles;
mod directions;
mod kind_names;
mod readmes;
mod recordings;
mod sources;
mod statements;
mod texts;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use tests::folder::workspace_root;

use crate::sources::{packages, sources};

/// Everything that may stand at the top, dotfiles and what git ignores aside.
const TOP: [&str; 10] =
    ["Cargo.lock", "Cargo.toml", "LICENSE", "README.md", "agent", "certs", "deploy", "hub", "proto", "tests"];

/// Lines of sources that a crate may have.
const LARGEST_CRATE: usize = 16_000;

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

/// A newcomer finds what a room's README names; and a table with a wrong name is seen to have one.
#[test]
fn readmes_name_files_that_are_there() {
    let mut unknown = BTreeMap::new();
    for (name, root, _) in sources() {
        let readme = root.parent().expect("a folder").join("README.md");
        let Ok(text) = std::fs::read_to_string(&readme) else { continue };
        let mut missing = readmes::unknown_modules(&text, &root);
        missing.extend(readmes::unknown_paths(&text, &workspace_root(), &root));
        if !missing.is_empty() {
            unknown.insert(name, missing);
        }
    }
    assert!(unknown.is_empty(), "READMEs name modules that are not there: {unknown:#?}");
    let sources = workspace_root().join("hub/src");
    let table = "| files | what |\n| --- | --- |\n| `hub`, `fleet/`, `no_such_file` | x |\n\n| room |\n| `elsewhere` |\n";
    assert_eq!(readmes::unknown_modules(table, &sources), ["no_such_file"]);
    let text = "It is `hub/src/main.rs` and `fleet/works`, not `hub/src/none.rs` or `fleet/none`; `apps/v1` is no path.\n```\n`hub/x`\n```\n";
    assert_eq!(readmes::unknown_paths(text, &workspace_root(), &sources), ["hub/src/none.rs", "fleet/none"]);
}

/// Each room says what it is and what it never knows; the suites say how they are run instead.
#[test]
fn every_crate_has_a_readme() {
    for (name, root, _) in sources().into_iter().filter(|(name, ..)| name != "tests") {
        let readme = root.parent().expect("a folder").join("README.md");
        let text = std::fs::read_to_string(&readme).unwrap_or_default();
        let says = |what: &str| text.lines().any(|line| line.starts_with(what));
        assert!(says("# ") && says("**Never "), "{name} does not say what it is and what it never knows");
    }
}

#[test]
fn no_crate_grows_too_large() {
    for (name, _, files) in sources() {
        let lines: usize = files.iter().map(|(_, text)| text.lines().count()).sum();
        assert!(lines <= LARGEST_CRATE, "{name} has {lines} lines of sources: it is several crates");
    }
}

#[test]
fn no_circle_of_files_between_modules() {
    let mut found = BTreeSet::new();
    for (name, root, files) in sources() {
        found.extend(circles::of(&files, &root).into_iter().map(|circle| (name.clone(), circle.join(" "))));
    }
    assert!(found.is_empty(), "these files name each other in circles: {found:#?}");
}

/// A crate in which two files name each other, one through what a third publishes, is found; a parent and its children are not.
#[test]
fn circles_are_found_and_families_are_none() {
    let root = Path::new("/src");
    let file = |name: &str, text: &str| (root.join(name), text.to_owned());
    let family = [
        file("lib.rs", "mod a;\npub use a::A;"),
        file("a.rs", "mod child;\npub struct A(child::C);"),
        file("a/child.rs", "use super::A;\npub struct C(Option<Box<A>>);"),
    ];
    assert!(circles::of(&family, root).is_empty());
    let mut circle = family.to_vec();
    circle.push(file("b.rs", "use crate::A;\npub struct B(A);"));
    circle.push(file(
        "a/other.rs",
        "fn f(_: crate::b::B) {}\n#[cfg(test)]\nmod tests { use crate::a::child::C; }",
    ));
    assert!(circles::of(&circle, root).is_empty(), "a child's tests and a parent's types close no circle");
    circle[1].1.push_str(" fn f(b: crate::b::B) {}");
    assert_eq!(circles::of(&circle, root), [["a", "a::child", "b"]]);
}
