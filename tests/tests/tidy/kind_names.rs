//! Where a kind's name may decide anything, and where the fleet may be named at all.
//!
//! In: the sources of the API server's crates. Out: tests that fail where one of them decides by a kind's name that is not listed, or names the fleet.

use std::collections::BTreeSet;
use std::path::Path;

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

/// A file's code, without its tests; nothing where the whole file is a test.
fn code<'a>(path: &Path, text: &'a str) -> &'a str {
    let is_test =
        path.components().any(|part| matches!(part.as_os_str().to_str(), Some("tests" | "tests.rs")));
    if is_test { "" } else { text.split("\n#[cfg(test)]").next().unwrap_or_default() }
}

/// Fails for each line of these rooms that its expression finds, files in the list aside; and for each file in the list without one.
fn refuse(rooms: &[(&str, Regex)], exceptions: &[(&str, &str)], what: &str) {
    let (mut found, mut used) = (Vec::new(), BTreeSet::new());
    for (name, _, files) in sources() {
        let Some((_, expression)) = rooms.iter().find(|(room, _)| *room == name) else { continue };
        for (path, text) in files {
            let lines = (1..).zip(code(&path, &text).lines());
            for (line, words) in lines.filter(|(_, words)| expression.is_match(words)) {
                match exceptions.iter().find(|(file, _)| path.ends_with(file)) {
                    Some((file, _)) => drop(used.insert(*file)),
                    None => found.push(format!("{}:{line}: {}", path.display(), words.trim())),
                }
            }
        }
    }
    assert!(found.is_empty(), "{what}: {found:#?}");
    let idle: Vec<&str> =
        exceptions.iter().map(|(file, _)| *file).filter(|file| !used.contains(file)).collect();
    assert!(idle.is_empty(), "these compare no names any more, and their list follows: {idle:?}");
}

#[test]
fn a_kind_is_its_row_and_no_request_asks_for_its_name() {
    // Below the rows, what is judged of one kind may be about others: only what names a definition is looked at.
    let rooms = [("karmada-kinds", r"\."), ("karmada-registry", ""), ("karmada-apiserver", "")];
    let rooms = rooms.map(|(room, compared)| (room, by_name(compared)));
    refuse(&rooms, NAMES_KINDS, "these decide by a kind's name, which is its row's business");
}

/// A decision by what an object says of its kind, or by the type of its schema.
fn by_said_kind() -> Regex {
    let said = own_kind("").to_string();
    let asked =
        r#"\bkind\([^()]*\) [!=]= "|"kind"\) [!=]= "[A-Z]|match(es!)? ?\(*([a-z_]+, )?(object::)?kind\("#;
    let schema = r#"type_name\(\) [!=]= |"(io\.k8s\.)?api\.[a-z]+\.v[0-9]"#;
    Regex::new(&format!("{said}|{asked}|{schema}")).unwrap()
}

/// The same by a field that says it.
fn own_kind(whose: &str) -> Regex {
    let said = whose.to_owned() + r#"(\["kind"\]|\.kind)( [!=]= |\.as_str\(\)[^;]* == )(Some\()?"[A-Z]"#;
    Regex::new(&said).unwrap()
}

/// Where that is done all the same, and why.
const SAYS_KINDS: &[(&str, &str)] = &[
    (
        "schema/src/metadata.rs",
        "an owner is known by what refers to it; the one that may be none is so for every kind",
    ),
    ("schema/src/apply/typed.rs", "a part of an object of any kind that nobody knows more of"),
    ("core/src/skipped_resources.rs", "what is never propagated is this list of names"),
    ("core/src/service_import.rs", "what a ServiceImport makes are two kinds of objects"),
    (
        "core/src/unified_auth.rs",
        "a reference says which kind of role it means, an owner that it is a Cluster",
    ),
    ("controllers/src/namespace.rs", "an owner says that it is a Namespace"),
    ("access/src/escalation.rs", "a reference says which kind of role it means"),
    ("access/src/rbac.rs", "a reference says which kind of role it means"),
    ("access/src/oidc/configuration.rs", "a file says its own kind"),
    ("apiserver/src/audit/record.rs", "an answer says its own kind"),
    ("apiserver/src/aggregation/remote_discovery.rs", "the answer of another server says its own kind"),
    ("apiserver/src/kubernetes_service.rs", "of two objects that it keeps itself, one is only made"),
];

/// What is known of a kind is in tables: `karmada-kinds` for the API server, `karmada_core::kind_facts` for the controllers.
#[test]
fn what_an_object_says_of_its_kind_decides_nothing_beside_the_tables() {
    let rooms = [
        "karmada-schema",
        "karmada-definitions",
        "karmada-registry",
        "karmada-access",
        "karmada-apiserver",
        "karmada-core",
        "karmada-indexes",
        "karmada-controllers",
    ];
    let mut rooms: Vec<(&str, Regex)> = rooms.into_iter().map(|room| (room, by_said_kind())).collect();
    // What is judged of one kind may be about others, and what those say of theirs.
    rooms.push(("karmada-kinds", own_kind(r"\b(object|new|old|live|value)")));
    refuse(&rooms, SAYS_KINDS, "these decide by what an object says of its kind, which a table knows");
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
            if path.ends_with(NAMES_GROUPS) {
                continue;
            }
            let lines = (1..).zip(code(&path, &text).lines());
            for (line, words) in lines.filter(|(_, words)| !words.contains("user agent")) {
                if FLEETS_WORDS.iter().any(|word| words.contains(word)) {
                    found.push(format!("{}:{line}: {}", path.display(), words.trim()));
                }
            }
        }
    }
    assert!(found.is_empty(), "these name the fleet: {found:#?}");
}
