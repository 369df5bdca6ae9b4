//! Where a kind's name may decide anything, and where the fleet may be named at all.
//!
//! In: the sources of the API server's crates. Out: tests that fail where one of them decides by a kind's name that is not listed, or names the fleet.

use std::collections::BTreeSet;

use regex::Regex;

use crate::sources::sources;

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
