//! Runs recorded cases of the reference implementation against ours.
//!
//! In: a file of cases, the test that reads it, a table of the cases that must differ (index and reason), and a check
//! of one case. Out: nothing, or a panic that says what is wrong. A case that differs and is not listed fails the test,
//! and so does a listed one that agrees, or of which our answer is not the one in `answers.tsv`. Which cases a test
//! looks at, and which nobody looks at and why, stands in `readers.tsv`: each case of a file stands there. Where no
//! recordings are at hand at all the test says so and passes.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value;

use self::table::{Rows, digest};

pub mod table;

/// Cases that must differ: index in the file, and why.
pub type Differences = &'static [(usize, &'static str)];

/// Differences of the same reason.
#[allow(dead_code, reason = "few files have so many")]
pub const fn alike<const N: usize>(cases: [usize; N], why: &'static str) -> [(usize, &'static str); N] {
    let mut listed = [(0, why); N];
    let mut at = 0;
    while at < N {
        listed[at].0 = cases[at];
        at += 1;
    }
    listed
}

/// Why a case is not looked at by the test that says so: another one does, or `readers.tsv` says why nobody does.
#[allow(dead_code, reason = "some files hold nothing but what their test is about")]
pub const BESIDE: &str = "it is not what this test is about";

/// What a check says of one case.
#[allow(dead_code, reason = "some files hold nothing but what their test is about")]
pub enum Verdict {
    /// The case is not looked at, and why: `BESIDE`, or what `readers.tsv` says of it.
    Skip(&'static str),
    /// Ours answers the same.
    Agrees,
    /// Ours answers this instead.
    Differs(String),
}

/// Compares what was recorded with what came out.
pub fn compare(wanted: &Value, got: &Value) -> Verdict {
    if wanted == got { Verdict::Agrees } else { Verdict::Differs(format!("wanted {wanted}\n     got {got}")) }
}

/// Where the recordings are, or would be.
pub fn folder() -> PathBuf {
    let shared = std::env::var("FLEET_SHARED").map(PathBuf::from);
    let shared = shared.unwrap_or_else(|_| {
        let manifest = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let workspace = manifest.ancestors().nth(2).map(PathBuf::from).unwrap_or_default();
        workspace.join("../shared")
    });
    shared.join("karmada/vectors")
}

/// The cases of `file`; `None` where there are no recordings at all. One file that is missing is a fault.
pub fn cases(file: &str) -> Option<Vec<Value>> {
    let folder = folder();
    if !folder.is_dir() {
        println!("skipped: {file}: no recordings at {}", folder.display());
        return None;
    }
    let text = std::fs::read_to_string(folder.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    let mut told = serde_json::from_str::<Value>(&text).unwrap();
    Some(serde_json::from_value(told["cases"].take()).unwrap())
}

/// What came of a test's cases.
#[derive(Default)]
struct Tally {
    looked_at: BTreeSet<usize>,
    complaints: Vec<String>,
    /// Lines that `answers.tsv` would have to have.
    answers: Vec<String>,
}

impl Tally {
    /// A listed difference is ours as it is noted, and no other.
    fn differs(&mut self, rows: &Rows<'_>, index: usize, how: &str) {
        let digest = digest(how);
        self.looked_at.insert(index);
        if rows.answers.get(&index) != Some(&digest.as_str()) {
            self.answers.push(rows.answer(index, &digest));
            self.complaints.push(format!("#{index} our answer is not the one that is noted: {how}"));
        }
    }

    fn take(
        &mut self,
        rows: &Rows<'_>,
        (index, case): (usize, &Value),
        verdict: Verdict,
        listed: Option<&str>,
    ) {
        let complaint = match (verdict, listed) {
            (Verdict::Skip(why), None) if rows.is_left(index, why) => return,
            (Verdict::Skip(why), None) => format!("is left out ({why}), and readers.tsv does not say so"),
            (Verdict::Skip(_), Some(why)) => format!("is listed as different ({why}), but left out"),
            (Verdict::Differs(how), Some(_)) => return self.differs(rows, index, &how),
            (Verdict::Differs(how), None) => self.saw(index, format!("{how}\n    case {case}")),
            (Verdict::Agrees, Some(why)) => {
                self.saw(index, format!("is listed as different ({why}), but agrees: {case}"))
            }
            (Verdict::Agrees, None) => {
                self.looked_at.insert(index);
                return;
            }
        };
        self.complaints.push(format!("#{index} {complaint}"));
    }

    fn saw(&mut self, index: usize, complaint: String) -> String {
        self.looked_at.insert(index);
        complaint
    }
}

/// Runs every case of `file` for the test named `reader`.
pub fn run(file: &str, reader: &str, differences: Differences, check: impl Fn(&Value) -> Verdict) {
    let Some(cases) = cases(file) else { return };
    let rows = Rows::of(file, reader);
    let mut tally = Tally::default();
    for (index, case) in cases.iter().enumerate() {
        let listed = differences.iter().find(|(listed, _)| *listed == index);
        tally.take(&rows, (index, case), check(case), listed.map(|(_, why)| *why));
    }
    let Tally { looked_at, complaints, answers } = tally;
    let mut all = rows.complaints(cases.len(), &looked_at, differences);
    all.extend(complaints);
    let complaints = all;
    let first: Vec<&str> = complaints.iter().take(60).map(String::as_str).collect();
    assert!(
        complaints.is_empty(),
        "{file}: {} complaints\n{}\nlines that answers.tsv would have:\n{}",
        complaints.len(),
        first.join("\n"),
        answers.join("\n")
    );
    println!("{file}: {} cases, {} of them listed as different", looked_at.len(), differences.len());
}
