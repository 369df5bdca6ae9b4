//! Twin tests: one table of request sequences runs against a real kube-apiserver and against the hub, and every answer is compared.
//!
//! In: `sequences/*.yaml` (written by hand) and one generated sequence for every kind and verb. Out: each sequence is a test of its
//! own name, and one that differs fails with the request and both answers. `differences.yaml` lists what may
//! differ, with the reason; an entry that no longer differs fails. Sequences run in JSON and once more in protobuf, as generated
//! clients speak. `TWIN_MUTATIONS=1` adds all mutations (see [`mutations`]). What is served is asked of kube-apiserver, so that both
//! servers are started even to print the names.

#![allow(clippy::disallowed_methods, reason = "tests and benches are of this machine's time")]
#![allow(clippy::unwrap_used)]

mod client;
mod compare;
mod generated;
mod mutations;
mod normal;
mod protobuf;
mod run;
mod sequence;
mod twins;

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};

use mutations::Share;
use sequence::{Sequence, Step};
use twins::Twins;

/// Sequences under way at once, unless `--test-threads` says otherwise: most of a sequence is waiting for its two servers.
const WORKERS: usize = 6;

/// One in so many mutations runs, unless all are asked for: those of one field differ by little.
const MUTATIONS: usize = 2;

/// One in so many mutations and cases of tables runs in protobuf as well, unless all are asked for: what a field may hold is judged
/// behind the encoding.
const SAMPLE: usize = 10;

/// The most differences that may be listed.
const MOST: usize = 20;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(WORKERS);
    let share = mutations::share(arguments.filter.as_deref());
    let twins = Arc::new(Twins::start());
    let all = sequences(&twins, share);
    let listed = listed(&all);
    let karmada = twins.resources.contains_key("works.v1alpha1.work.karmada.io");
    let trial = |one: Sequence| {
        let name = one.name.clone();
        let left_out = !karmada && one.steps.iter().any(is_about_karmada);
        // A difference is listed once for both encodings.
        let listed = listed.contains(name.trim_end_matches(sequence::IN_PROTOBUF));
        let twins = twins.clone();
        Trial::test(name, move || judge(&twins, &one, listed)).with_ignored_flag(left_out)
    };
    let trials = all.into_iter().map(trial).collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    // The servers end with their last holder: before the process does.
    drop(twins);
    conclusion.exit_code()
}

/// Every sequence, in both encodings.
fn sequences(twins: &Twins, share: Share) -> Vec<Sequence> {
    let mut all = sequence::written();
    all.extend(generated::all(twins));
    let each = if share == Share::All { 1 } else { MUTATIONS };
    let mutations: Vec<Sequence> = mutations::all(twins, share).into_iter().step_by(each).collect();
    let each = if share == Share::All { 1 } else { SAMPLE };
    let (cases, sequences): (Vec<&Sequence>, Vec<&Sequence>) = all
        .iter()
        .chain(&mutations)
        .partition(|one| one.name.contains(": ") || one.name.starts_with("mutations/"));
    let in_protobuf = sequences.into_iter().chain(cases.into_iter().step_by(each));
    let in_protobuf: Vec<Sequence> = in_protobuf.map(Sequence::in_protobuf).collect();
    all.extend(mutations);
    all.extend(in_protobuf);
    all
}

/// The names of the sequences that may differ.
///
/// # Panics
///
/// Where two sequences have one name, too many are listed, or one is listed that is no sequence.
fn listed(all: &[Sequence]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for one in all {
        assert!(names.insert(one.name.as_str()), "two sequences are named {}", one.name);
    }
    let text = std::fs::read_to_string(sequence::folder().join("differences.yaml")).unwrap();
    let listed: BTreeMap<String, String> =
        serde_saphyr::from_str(&text).expect("differences.yaml is a map of texts");
    assert!(listed.len() <= MOST, "{} differences are listed, {MOST} may be", listed.len());
    if let Some(stale) = listed.keys().find(|name| !names.contains(name.as_str())) {
        panic!("differences.yaml names {stale:?}, which is no sequence");
    }
    listed.into_keys().collect()
}

/// Whether both servers answer alike; a listed sequence has to differ, in JSON at least: in protobuf fewer requests can be made.
fn judge(twins: &Twins, sequence: &Sequence, listed: bool) -> Result<(), Failed> {
    let differs = run::differs(twins, sequence);
    match (differs.is_empty(), listed) {
        (false, false) => Err(differs.join("\n").into()),
        (true, true) if !sequence.protobuf => Err("is listed as a difference, and does not differ".into()),
        _ => Ok(()),
    }
}

/// Whether a step needs Karmada's kinds on both sides.
fn is_about_karmada(step: &Step) -> bool {
    step.path.contains("karmada.io") || step.body.to_string().contains("karmada.io")
}
