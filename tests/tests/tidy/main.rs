//! The house rules that a compiler does not hold: who may know whom, what stands at the top, what every file begins with.

#![allow(clippy::disallowed_methods, reason = "tests and benches are of this machine's time")]
// Helpers of tests are no tests to the lint.
#![allow(clippy::unwrap_used)]

mod circles;
mod readmes;
mod statements;
mod texts;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use regex::Regex;
use serde_json::Value;
use tests::folder::workspace_root;

/// Crate → the crates of this workspace that it may name among its normal dependencies. A crate that is missing here may name
/// none and must be added with its place in the house.
const MAY_KNOW: &[(&str, &[&str])] = &[
    ("karmada-proto", &[]),
    ("karmada-quantity", &[]),
    ("karmada-field", &[]),
    ("karmada-api", &["karmada-field", "karmada-quantity"]),
    ("karmada-interpreter", &["karmada-api", "karmada-quantity"]),
    ("karmada-lua", &["karmada-api", "karmada-interpreter", "karmada-quantity"]),
    ("karmada-tunnel", &["karmada-proto"]),
    ("karmada-bare", &[]),
    ("karmada-certs", &[]),
    (
        "karmada-core",
        &[
            "karmada-api",
            "karmada-cron",
            "karmada-field",
            "karmada-interpreter",
            "karmada-quantity",
            "karmada-schema",
        ],
    ),
    ("karmada-store", &[]),
    ("karmada-cel", &[]),
    ("karmada-cron", &[]),
    ("karmada-encryption", &[]),
    ("karmada-schema", &["karmada-cel", "karmada-field", "karmada-quantity"]),
    ("karmada-definitions", &["karmada-cel", "karmada-schema"]),
    (
        "karmada-kinds",
        &[
            "karmada-api",
            "karmada-cel",
            "karmada-cron",
            "karmada-definitions",
            "karmada-quantity",
            "karmada-schema",
        ],
    ),
    (
        "karmada-registry",
        &[
            "karmada-api",
            "karmada-cel",
            "karmada-definitions",
            "karmada-kinds",
            "karmada-quantity",
            "karmada-schema",
            "karmada-store",
        ],
    ),
    ("karmada-access", &["karmada-cel", "karmada-definitions", "karmada-registry", "karmada-schema"]),
    (
        "karmada-apiserver",
        &[
            "karmada-access",
            "karmada-definitions",
            "karmada-kinds",
            "karmada-registry",
            "karmada-schema",
            "karmada-store",
        ],
    ),
    ("karmada-controller-runtime", &["karmada-api"]),
    ("karmada-placement-expressions", &["karmada-api", "karmada-cel", "karmada-core", "karmada-field"]),
    ("karmada-kube-controller-manager", &["karmada-api", "karmada-controller-runtime", "karmada-schema"]),
    (
        "karmada-resource-interpreter",
        &["karmada-api", "karmada-controller-runtime", "karmada-core", "karmada-interpreter", "karmada-lua"],
    ),
    (
        "karmada-controllers",
        &[
            "karmada-api",
            "karmada-controller-runtime",
            "karmada-core",
            "karmada-indexes",
            "karmada-interpreter",
            "karmada-lua",
            "karmada-resource-interpreter",
            "karmada-schema",
        ],
    ),
    (
        "karmada-indexes",
        &["karmada-api", "karmada-controller-runtime", "karmada-core", "karmada-interpreter"],
    ),
    ("karmada-descheduler", &["karmada-api", "karmada-controllers", "karmada-core", "karmada-quantity"]),
    ("karmada-gateway", &["karmada-certs", "karmada-proto", "karmada-tunnel"]),
    (
        "karmadactl",
        &[
            "karmada-api",
            "karmada-certs",
            "karmada-core",
            "karmada-interpreter",
            "karmada-lua",
            "karmada-placement-expressions",
        ],
    ),
    ("karmada-member", &["karmada-api", "karmada-proto"]),
    ("karmada-ledger", &["karmada-api", "karmada-member", "karmada-proto", "karmada-session"]),
    ("karmada-session", &["karmada-certs", "karmada-proto"]),
    ("karmada-identity", &["karmada-api", "karmada-certs", "karmada-member", "karmada-proto"]),
    (
        "karmada-pods",
        &["karmada-api", "karmada-interpreter", "karmada-member", "karmada-proto", "karmada-quantity"],
    ),
    (
        "karmada-agent",
        &[
            "karmada-api",
            "karmada-bare",
            "karmada-certs",
            "karmada-interpreter",
            "karmada-identity",
            "karmada-ledger",
            "karmada-lua",
            "karmada-member",
            "karmada-pods",
            "karmada-proto",
            "karmada-quantity",
            "karmada-session",
            "karmada-tunnel",
        ],
    ),
    (
        "karmada-hub",
        &[
            "karmada-access",
            "karmada-agent",
            "karmada-api",
            "karmada-apiserver",
            "karmada-bare",
            "karmada-certs",
            "karmada-controllers",
            "karmada-core",
            "karmada-definitions",
            "karmada-descheduler",
            "karmada-encryption",
            "karmada-field",
            "karmada-gateway",
            "karmada-interpreter",
            "karmada-kinds",
            "karmada-kube-controller-manager",
            "karmada-lua",
            "karmada-placement-expressions",
            "karmada-proto",
            "karmada-registry",
            "karmada-resource-interpreter",
            "karmada-schema",
            "karmada-store",
            "karmada-tunnel",
        ],
    ),
    ("tests", &["karmada-agent", "karmada-api", "karmada-certs", "karmada-core", "karmada-interpreter"]),
];

/// Crates that decide, and so know no runtime, no socket and no clock.
const PURE: [&str; 10] = [
    "karmada-proto",
    "karmada-field",
    "karmada-quantity",
    "karmada-cron",
    "karmada-api",
    "karmada-interpreter",
    "karmada-core",
    "karmada-schema",
    "karmada-definitions",
    "karmada-kinds",
];

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

/// Lines of sources that a crate may have.
const LARGEST_CRATE: usize = 16_000;

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

/// A crate's name, the root of its sources, the files with their texts.
type Source = (String, PathBuf, Vec<(PathBuf, String)>);

/// The sources of each crate.
fn sources() -> Vec<Source> {
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

/// A decision by a kind's name: what a kind is stands in its row.
fn by_name(compared: &str) -> Regex {
    let compared = compared.to_owned() + r#"\b(group|plural|kind) [=!]= \*?("\w|GROUP)"#;
    let matched = r"match(es!)? ?\(*&?\*?[\w.]*\.(group|plural|kind)\b([^(]|$)";
    Regex::new(&format!("{compared}|{matched}")).unwrap()
}

/// Where names are compared all the same, and why.
const NAMES_KINDS: &[(&str, &str)] = &[
    ("kinds/src/catalogue.rs", "events are stored in another group; asked when definitions are made"),
    ("registry/src/authorize.rs", "what a refusal calls that which was asked for"),
    ("registry/src/field_validation.rs", "a body says its own kind, which may be any"),
    ("registry/src/admission/configuration.rs", "whom no webhook judges is said by group"),
    ("registry/src/admission/namespace.rs", "all kinds of a group are questions, not objects in a namespace"),
    ("registry/src/admission/param_authorization.rs", "all kinds of a group are judged, two of them by more"),
    ("registry/src/admission/policies.rs", "all kinds of two groups are asked and forgotten"),
    ("registry/src/admission/type_check.rs", "a policy names the kinds that its expressions meet"),
    ("apiserver/src/aggregation/automatic.rs", "an APIService names the group that it is for"),
    ("apiserver/src/aggregation/remote_discovery.rs", "the answer of another server says its own kind"),
    ("apiserver/src/http/deletion.rs", "the body of a delete says its own kind"),
    ("apiserver/src/http/negotiation.rs", "a client names what it asks to be answered with"),
];

#[test]
fn a_kind_is_its_row_and_no_request_asks_for_its_name() {
    // Below the rows, what is judged of one kind may be about others: only what names a definition is looked at.
    let rooms = [("karmada-kinds", r"\."), ("karmada-registry", ""), ("karmada-apiserver", "")];
    let (mut found, mut used) = (Vec::new(), BTreeSet::new());
    for (name, _, files) in sources() {
        let Some((_, compared)) = rooms.iter().find(|(room, _)| *room == name) else { continue };
        let by_name = by_name(compared);
        for (path, text) in files {
            if path.components().any(|part| matches!(part.as_os_str().to_str(), Some("tests" | "tests.rs"))) {
                continue;
            }
            let code = text.split("\n#[cfg(test)]").next().unwrap_or_default();
            for (line, words) in (1..).zip(code.lines()).filter(|(_, words)| by_name.is_match(words)) {
                match NAMES_KINDS.iter().find(|(file, _)| path.ends_with(file)) {
                    Some((file, _)) => drop(used.insert(*file)),
                    None => found.push(format!("{}:{line}: {}", path.display(), words.trim())),
                }
            }
        }
    }
    assert!(found.is_empty(), "these decide by a kind's name, which is its row's business: {found:#?}");
    let idle: Vec<&str> =
        NAMES_KINDS.iter().map(|(file, _)| *file).filter(|file| !used.contains(file)).collect();
    assert!(idle.is_empty(), "these compare no names any more, and NAMES_KINDS follows: {idle:?}");
}

/// What the API server and what is below it never name, in their code and its comments; tests may.
const FLEETS_WORDS: [&str; 7] =
    ["karmada.io", "agents", "agent's", "an agent", "fleet", "member cluster", "Works"];

/// The texts on kinds are told from Kubernetes' own by the names of their groups.
const NAMES_GROUPS: &str = "apiserver/src/openapi/texts.rs";

/// The fleet's kinds, roles, gates and exemptions are registered through ports: rooms that serve any kind do not know them.
#[test]
fn the_api_server_knows_nothing_of_the_fleet() {
    let rooms =
        ["karmada-schema", "karmada-definitions", "karmada-registry", "karmada-access", "karmada-apiserver"];
    let mut found = Vec::new();
    for (_, _, files) in sources().into_iter().filter(|(name, ..)| rooms.contains(&name.as_str())) {
        for (path, text) in files {
            let is_test =
                path.components().any(|part| matches!(part.as_os_str().to_str(), Some("tests" | "tests.rs")));
            if is_test || path.ends_with(NAMES_GROUPS) {
                continue;
            }
            let code = text.split("\n#[cfg(test)]").next().unwrap_or_default();
            for (line, words) in (1..).zip(code.lines()).filter(|(_, words)| !words.contains("user agent")) {
                if FLEETS_WORDS.iter().any(|word| words.contains(word)) {
                    found.push(format!("{}:{line}: {}", path.display(), words.trim()));
                }
            }
        }
    }
    assert!(found.is_empty(), "these name the fleet: {found:#?}");
}
