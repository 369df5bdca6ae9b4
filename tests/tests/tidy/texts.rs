//! What the texts hold: beginnings, sizes, promises, citations, tests with a body, and the variables of units.

use std::collections::BTreeSet;

use regex::Regex;
use tests::folder::workspace_root;

use crate::sources::all_rust_files;

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

/// The names of tests in `text` that have no body: they pass whatever the program does.
fn empty_tests(text: &str) -> Vec<&str> {
    let empty =
        r"#\[(?:tokio::)?test(?:\([^)]*\))?\]\s*(?:#\[[^\]]*\]\s*)*(?:async\s+)?fn\s+(\w+)\(\)\s*\{\s*\}";
    let empty = Regex::new(empty).expect("a pattern");
    empty.captures_iter(text).filter_map(|found| found.get(1)).map(|name| name.as_str()).collect()
}

#[test]
fn no_test_is_empty() {
    for (path, text) in all_rust_files() {
        let empty = empty_tests(&text);
        assert!(empty.is_empty(), "{}: tests without a body: {empty:?}", path.display());
    }
}

#[test]
fn empty_tests_are_found_and_others_are_none() {
    let text = "#[test]\nfn a() {}\n#[tokio::test]\n#[ignore]\nasync fn b() {\n}\n#[test]\nfn c() { d(); }\nfn d() {}\n";
    assert_eq!(empty_tests(text), ["a", "b"]);
}

/// A reader has this repository alone: a comment says a rule, and not its number in a document elsewhere.
#[test]
fn no_comment_cites_a_document_elsewhere() {
    let words =
        ["behaviour", "behaviours", "rule R", "rules R", "quirk", "quirks", "correction", "corrections"];
    let numbered = |text: &str, word: &str| {
        let rest = |at: usize| text[at + word.len()..].trim_start_matches(' ').chars().next();
        text.match_indices(word)
            .find(|(at, _)| rest(*at).is_some_and(|first| first.is_ascii_digit()))
            .is_some()
    };
    let documents = [["design", ".md"].concat(), ["edge", ".md"].concat()];
    for (path, text) in all_rust_files() {
        for line in text.lines().filter(|line| line.trim_start().starts_with("//")) {
            let cites = words.iter().any(|word| numbered(line, word));
            let names = documents.iter().any(|document| line.contains(document.as_str()));
            assert!(!cites && !names, "{}: {}", path.display(), line.trim());
        }
    }
}
