//! Kubernetes' own end-to-end specs: whatever passes on a kube-apiserver that has the hub's controllers and no node passes on the
//! hub, or stands in `differences.yaml` with its reason.
//!
//! In: `specs.txt`, each spec that passes there and the seconds that it takes; `SUITE` says what is run:
//!
//! - unset: on the hub alone, the specs that take few seconds;
//! - `all`: every listed spec, on both servers;
//! - `find`: every spec that there is, on the kube-apiserver, with a short time limit; the list is written anew;
//! - anything else: on the hub, the listed specs whose text contains it.
//!
//! Out: a failure that names each spec that fails on the hub, with its message and the end of its log.

#![allow(clippy::disallowed_methods, reason = "tests and benches are of this machine's time")]
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tests::hub::{Hub, HubOptions};
use tests::member::{Member, MemberOptions};
use tests::suite::{Ended, How, all, program_or_skip, run};

/// What a spec of the list may take: many times what it takes on a quiet machine.
const LIMIT: Duration = Duration::from_secs(180);

/// What a spec may take while those that pass are looked for: nearly all others wait for a Pod that never runs.
const FINDING: Duration = Duration::from_secs(60);

/// Specs that take longer on a kube-apiserver are not run by every `cargo test`.
const QUICK: f64 = 3.0;

/// What is not looked at: what needs an optional part of a cluster, its nodes' health or their system, or is known to be unsteady.
const LEFT_OUT: [&str; 5] = ["[Feature:", "[Flaky]", "[Disruptive]", "[sig-windows]", "[LinuxOnly]"];

fn data(name: &str) -> PathBuf {
    tests::folder::workspace_root().join("tests/tests/suite").join(name)
}

/// The specs that pass on a kube-apiserver, and the seconds that each takes there.
fn listed() -> BTreeMap<String, f64> {
    let text = std::fs::read_to_string(data("specs.txt")).unwrap_or_default();
    let line = |line: &str| {
        let (seconds, spec) = line.trim().split_once(' ')?;
        Some((spec.to_owned(), seconds.parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

/// Specs that do not pass on the hub, and why.
fn differences() -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(data("differences.yaml")).unwrap_or_default();
    serde_saphyr::from_str(&text).unwrap()
}

fn reference() -> Member {
    // Where the API server is, is told as a production one tells it.
    let args = vec!["--endpoint-reconciler-type=lease".to_owned()];
    Member::start(MemberOptions { apiserver_args: args, ..MemberOptions::like_a_hub("suite") })
}

fn how(kubeconfig: PathBuf, limit: Duration) -> How {
    let workers = std::env::var("SUITE_WORKERS").ok().and_then(|text| text.parse().ok());
    How { kubeconfig, workers: workers.unwrap_or(6), limit }
}

fn told<'a>(failed: impl Iterator<Item = (&'a String, &'a Ended)>) -> String {
    let each = |(spec, ended): (&String, &Ended)| {
        let log: Vec<&str> = ended.log.lines().rev().take(25).collect();
        let log: Vec<&str> = log.into_iter().rev().collect();
        format!("{spec}\n  {}: {}\n  {}\n", ended.state, ended.message.trim(), log.join("\n  "))
    };
    failed.map(each).collect()
}

/// The specs that are run, by `SUITE`.
fn chosen(wanted: &str, differences: &BTreeMap<String, String>) -> Vec<String> {
    let wants = |spec: &str, seconds: f64| match wanted {
        "" => seconds <= QUICK && !spec.contains("[Serial]") && !differences.contains_key(spec),
        "all" => true,
        part => spec.contains(part),
    };
    let chosen: Vec<String> =
        listed().into_iter().filter(|(spec, seconds)| wants(spec, *seconds)).map(|(spec, _)| spec).collect();
    assert!(!chosen.is_empty(), "no listed spec contains {wanted:?}");
    chosen
}

/// Runs specs on the kube-apiserver; the names of those that pass.
fn pass_on_reference(program: &Path, specs: &[String]) -> BTreeSet<String> {
    let reference = reference();
    let ended = run(program, &how(reference.kubeconfig(), LIMIT), specs);
    let (passed, failed): (Vec<_>, Vec<_>) = ended.iter().partition(|(_, ended)| ended.passed());
    println!("on the kube-apiserver: {} of {} pass\n{}", passed.len(), ended.len(), told(failed.into_iter()));
    passed.into_iter().map(|(spec, _)| spec.clone()).collect()
}

#[test]
fn what_passes_on_a_kube_apiserver_passes_on_the_hub() {
    let Some(program) = program_or_skip() else { return };
    let wanted = std::env::var("SUITE").unwrap_or_default();
    if wanted == "find" {
        return find(program);
    }
    let differences = differences();
    let chosen = chosen(&wanted, &differences);
    // As kube-apiserver has it by default, and a hub where it is asked to.
    let args = vec!["--enable-admission-plugins=ServiceAccount".to_owned()];
    let hub = Hub::start(HubOptions { args, ..HubOptions::default() });
    let mut ended = run(program, &how(hub.kubeconfig(), LIMIT), &chosen);
    drop(hub);
    if wanted == "all" {
        let there = pass_on_reference(program, &chosen);
        ended.retain(|spec, _| there.contains(spec));
    }
    let (passed, failed): (Vec<_>, Vec<_>) = ended.iter().partition(|(_, ended)| ended.passed());
    println!("on the hub: {} of {} pass", passed.len(), ended.len());
    let excused = |spec: &String| differences.contains_key(spec);
    let mended: Vec<&String> =
        passed.into_iter().map(|(spec, _)| spec).filter(|spec| excused(spec)).collect();
    assert!(mended.is_empty(), "these pass; differences.yaml need not excuse them: {mended:#?}");
    let failed: Vec<_> = failed.into_iter().filter(|(spec, _)| !excused(spec)).collect();
    assert!(
        failed.is_empty(),
        "{} of {} fail on the hub:\n{}",
        failed.len(),
        ended.len(),
        told(failed.into_iter())
    );
}

/// Runs everything on the kube-apiserver and writes down what passes, and in the build folder what did not.
fn find(program: &Path) {
    let every: Vec<String> =
        all(program).into_iter().filter(|spec| !LEFT_OUT.iter().any(|part| spec.contains(part))).collect();
    let reference = reference();
    let found = run(program, &how(reference.kubeconfig(), FINDING), &every);
    let mut states: BTreeMap<&str, usize> = BTreeMap::new();
    found.values().for_each(|ended| *states.entry(&ended.state).or_default() += 1);
    let (passed, other): (Vec<_>, Vec<_>) = found.iter().partition(|(_, ended)| ended.passed());
    let lines: String =
        passed.into_iter().map(|(spec, ended)| format!("{:.1} {spec}\n", ended.seconds)).collect();
    std::fs::write(data("specs.txt"), lines).unwrap();
    let file = tests::folder::target_dir().join("suite").join("not-passed.txt");
    std::fs::write(&file, told(other.into_iter())).unwrap();
    println!("{} specs: {states:?}; what did not pass: {}", found.len(), file.display());
}
