//! Twin tests: one table of request sequences runs against a real kube-apiserver and against the hub, and every answer is compared.
//!
//! In: `sequences/*.yaml` (written by hand) and one generated sequence for every kind and verb. Out: for each that differs, the
//! request and both answers; a last line that counts sequences and listed differences. `differences.yaml` lists what may
//! differ, with the reason; an entry that no longer differs fails. Sequences run in JSON and once more in protobuf, as generated
//! clients speak. `TWIN_ONLY=words` runs only sequences whose names hold one of
//! the words (separated by commas). `TWIN_MUTATIONS=1` runs all mutations (see [`mutations`]).

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

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use sequence::{Sequence, Step};
use twins::Twins;

/// Sequences under way at once.
const WORKERS: usize = 6;

/// One in so many mutations and cases of tables runs in protobuf as well, unless all are asked for: what a field may hold is judged
/// behind the encoding.
const SAMPLE: usize = 10;

/// The most differences that may be listed.
const MOST: usize = 20;

fn wanted(name: &str) -> bool {
    match std::env::var("TWIN_ONLY") {
        Ok(words) if !words.is_empty() => words.split(',').any(|word| name.contains(word)),
        _ => true,
    }
}

fn listed() -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(sequence::folder().join("differences.yaml")).unwrap();
    let listed: BTreeMap<String, String> =
        serde_saphyr::from_str(&text).expect("differences.yaml is a map of texts");
    assert!(listed.len() <= MOST, "{} differences are listed, {MOST} may be", listed.len());
    listed
}

#[test]
fn no_answer_tells_the_hub_from_kube_apiserver() {
    let twins = Twins::start();
    let mut all = sequence::written();
    all.extend(generated::all(&twins));
    let mutations = mutations::all(&twins);
    let each = if mutations::all_wanted() { 1 } else { SAMPLE };
    let (cases, sequences): (Vec<&Sequence>, Vec<&Sequence>) = all
        .iter()
        .chain(&mutations)
        .partition(|one| one.name.contains(": ") || one.name.starts_with("mutations/"));
    let in_protobuf = sequences.into_iter().chain(cases.into_iter().step_by(each));
    let in_protobuf: Vec<Sequence> = in_protobuf.map(Sequence::in_protobuf).collect();
    all.extend(mutations);
    all.extend(in_protobuf);
    let mut names = BTreeMap::new();
    for (index, one) in all.iter().enumerate() {
        assert!(names.insert(one.name.clone(), index).is_none(), "two sequences are named {}", one.name);
    }
    let listed = listed();
    if let Some(stale) = listed.keys().find(|name| !names.contains_key(*name)) {
        panic!("differences.yaml names {stale:?}, which is no sequence");
    }
    let karmada = twins.resources.contains_key("works.v1alpha1.work.karmada.io");
    let can_run = |one: &Sequence| karmada || !one.steps.iter().any(is_about_karmada);
    let chosen: Vec<&Sequence> = all.iter().filter(|one| wanted(&one.name) && can_run(one)).collect();
    let found = run_all(&twins, &chosen);
    mutations::count(&chosen, &found);
    let mut report = Vec::new();
    let mut differing = 0;
    for sequence in &chosen {
        // A difference is listed once for both encodings; in protobuf it may be none, as fewer requests can be made.
        let listed = listed.get(sequence.name.trim_end_matches(sequence::IN_PROTOBUF));
        match (
            found.get(&sequence.name),
            listed.filter(|_| !sequence.protobuf || found.contains_key(&sequence.name)),
        ) {
            (Some(_), Some(_)) => differing += 1,
            (Some(what), None) => report.push(format!("{}\n{}", sequence.name, what.join("\n"))),
            (None, Some(_)) => {
                report.push(format!("{}\n  is listed as a difference, and does not differ", sequence.name));
            }
            (None, None) => {}
        }
    }
    for text in &report {
        println!("{text}\n");
    }
    println!("twin: {} sequences, {} listed differences, {} unlisted", chosen.len(), differing, report.len());
    assert!(report.is_empty(), "{} of {} sequences differ", report.len(), chosen.len());
}

/// Whether a step needs Karmada's kinds on both sides.
fn is_about_karmada(step: &Step) -> bool {
    step.path.contains("karmada.io") || step.body.to_string().contains("karmada.io")
}

/// Runs the sequences, several at once; answers what differs, by name.
fn run_all(twins: &Twins, chosen: &[&Sequence]) -> BTreeMap<String, Vec<String>> {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while let Some(sequence) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let what = run::differs(twins, sequence);
                    if !what.is_empty() {
                        found.lock().unwrap().insert(sequence.name.clone(), what);
                    }
                }
            });
        }
    });
    found.into_inner().unwrap()
}
