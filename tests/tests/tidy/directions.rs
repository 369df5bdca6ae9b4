//! Who may know whom: the crates of this workspace, and what crates that decide may not depend on.
//!
//! In: what cargo says of the workspace. Out: a test that fails for each crate that knows another which it may not.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::sources::{built_with, packages};

/// Crate → the crates of this workspace that it may name among its normal dependencies. A crate that is missing here may name
/// none and must be added with its place in the house; what a crate does not name is not here.
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
            "karmada-field",
            "karmada-interpreter",
            "karmada-quantity",
            "karmada-resource-quota",
            "karmada-schema",
        ],
    ),
    ("karmada-store", &[]),
    ("karmada-cel", &[]),
    ("karmada-cron", &[]),
    ("karmada-resource-quota", &["karmada-quantity"]),
    ("karmada-encryption", &["karmada-schema"]),
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
            "karmada-cel",
            "karmada-definitions",
            "karmada-kinds",
            "karmada-quantity",
            "karmada-resource-quota",
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
    (
        "karmada-autoscaling",
        &["karmada-api", "karmada-core", "karmada-cron", "karmada-field", "karmada-quantity"],
    ),
    ("karmada-controller-runtime", &["karmada-api"]),
    ("karmada-placement-expressions", &["karmada-api", "karmada-cel", "karmada-core", "karmada-field"]),
    (
        "karmada-kube-controller-manager",
        &["karmada-api", "karmada-controller-runtime", "karmada-resource-quota", "karmada-schema"],
    ),
    (
        "karmada-resource-interpreter",
        &["karmada-api", "karmada-controller-runtime", "karmada-core", "karmada-interpreter", "karmada-lua"],
    ),
    (
        "karmada-controllers",
        &[
            "karmada-api",
            "karmada-autoscaling",
            "karmada-controller-runtime",
            "karmada-core",
            "karmada-indexes",
            "karmada-interpreter",
            "karmada-lua",
            "karmada-resource-interpreter",
        ],
    ),
    (
        "karmada-indexes",
        &["karmada-api", "karmada-controller-runtime", "karmada-core", "karmada-interpreter"],
    ),
    ("karmada-descheduler", &["karmada-api", "karmada-controllers", "karmada-core", "karmada-quantity"]),
    ("karmada-gateway", &["karmada-certs", "karmada-proto", "karmada-tunnel"]),
    (
        "karmada-fleet",
        &[
            "karmada-api",
            "karmada-certs",
            "karmada-core",
            "karmada-gateway",
            "karmada-proto",
            "karmada-schema",
        ],
    ),
    (
        "karmadactl",
        &[
            "karmada-api",
            "karmada-certs",
            "karmada-core",
            "karmada-interpreter",
            "karmada-lua",
            "karmada-placement-expressions",
            "karmada-schema",
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
            "karmada-autoscaling",
            "karmada-bare",
            "karmada-certs",
            "karmada-controllers",
            "karmada-core",
            "karmada-definitions",
            "karmada-descheduler",
            "karmada-encryption",
            "karmada-fleet",
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

/// Crates that decide, and so know no runtime, no socket and no clock (CEL and Lua look at how long they have run, to end what is too long).
const PURE: [&str; 16] = [
    "karmada-proto",
    "karmada-field",
    "karmada-quantity",
    "karmada-cron",
    "karmada-resource-quota",
    "karmada-api",
    "karmada-interpreter",
    "karmada-lua",
    "karmada-core",
    "karmada-autoscaling",
    "karmada-fleet",
    "karmada-cel",
    "karmada-placement-expressions",
    "karmada-schema",
    "karmada-definitions",
    "karmada-kinds",
];

/// What pure crates may not be built with, by name.
const RUNTIMES: [&str; 6] = ["tokio", "mio", "hyper", "rusqlite", "kube", "rustls-native-certs"];

/// What has types for others and brings a runtime with them, which is not used: by whom, and why.
const TYPES_ALONE: &[(&str, &str, &str)] = &[
    ("karmada-proto", "tonic", "what is generated of a service is its client and its server"),
    ("karmada-proto", "tonic-prost", "what is generated of a service names its codec"),
    ("karmada-fleet", "karmada-gateway", "reports and links have the types of the gateway's ports"),
];

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
        let idle: Vec<_> = allowed.iter().filter(|name| !dependencies.contains(**name)).collect();
        assert!(idle.is_empty(), "{package} does not know {idle:?}: MAY_KNOW need not allow it");
    }
    assert_eq!(all.len(), MAY_KNOW.len(), "MAY_KNOW names a crate that is gone");
}

/// What is YAML to one room is the same to all: `0644` is 420. Tests read what they wrote.
#[test]
fn one_crate_reads_yaml() {
    let all = dependencies();
    let reads =
        |(name, knows): &(&String, &BTreeSet<String>)| *name != "tests" && knows.contains("serde-saphyr");
    let readers: Vec<&String> = all.iter().filter(reads).map(|(name, _)| name).collect();
    assert_eq!(readers, ["karmada-schema"]);
}

/// The way from a package to one of these, if there is any.
fn way(built_with: &BTreeMap<String, BTreeSet<String>>, from: &str, to: &[&str]) -> Option<Vec<String>> {
    let (mut seen, mut ways) = (BTreeSet::new(), vec![vec![from.to_owned()]]);
    while let Some(way) = ways.pop() {
        let last = way.last().expect("a way has an end");
        if to.contains(&last.as_str()) {
            return Some(way);
        }
        let spares =
            |next: &str| TYPES_ALONE.iter().any(|(user, library, _)| (*user, *library) == (last, next));
        let next = built_with[last].iter().filter(|next| !spares(next));
        ways.extend(next.filter(|next| seen.insert((*next).clone())).map(|next| {
            let mut longer = way.clone();
            longer.push(next.clone());
            longer
        }));
    }
    None
}

/// Neither by themselves nor through anything else that they are built with.
#[test]
fn crates_that_decide_know_no_runtime() {
    let built_with = built_with();
    for package in PURE {
        let way = way(&built_with, package, &RUNTIMES);
        assert!(way.is_none(), "{package} is pure and may not be built with a runtime: {way:?}");
    }
    assert!(
        way(&built_with, "karmada-registry", &RUNTIMES).is_some(),
        "a runtime is found where there is one"
    );
}
