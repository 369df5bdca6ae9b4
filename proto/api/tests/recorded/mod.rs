//! Runs recorded cases of the reference implementation against ours.
//!
//! In: a file of cases, a table of the cases that must differ (index and reason), and a check of one case. A case
//! that differs and is not listed fails the test, and so does a listed one that agrees. Where the recordings are
//! not at hand the test says so and passes.

use std::path::PathBuf;

use serde_json::Value;

/// Cases that must differ: index in the file, and why.
pub type Differences = &'static [(usize, &'static str)];

/// What a check says of one case.
#[allow(dead_code, reason = "some files hold nothing but what their test is about")]
pub enum Verdict {
    /// The case is about something else.
    Skip,
    /// Ours answers the same.
    Agrees,
    /// Ours answers this instead.
    Differs(String),
}

/// Compares what was recorded with what came out.
pub fn compare(wanted: &Value, got: &Value) -> Verdict {
    if wanted == got { Verdict::Agrees } else { Verdict::Differs(format!("wanted {wanted}\n     got {got}")) }
}

fn folder() -> PathBuf {
    if let Ok(shared) = std::env::var("FLEET_SHARED") {
        return PathBuf::from(shared);
    }
    let manifest = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let workspace = manifest.ancestors().nth(2).map(PathBuf::from).unwrap_or_default();
    workspace.join("../shared")
}

/// Runs every case of `file`.
pub fn run(file: &str, differences: Differences, check: impl Fn(&Value) -> Verdict) {
    let path = folder().join("karmada/vectors").join(file);
    let Ok(text) = std::fs::read_to_string(&path) else {
        println!("skipped: {file}: no recordings at {}", path.display());
        return;
    };
    let cases = serde_json::from_str::<Value>(&text).unwrap();
    let cases = cases["cases"].as_array().unwrap();
    let mut looked_at = 0;
    let mut complaints = Vec::new();
    for (index, case) in cases.iter().enumerate() {
        let listed = differences.iter().find(|(listed, _)| *listed == index);
        match (check(case), listed) {
            (Verdict::Skip, None) => {}
            (Verdict::Skip, Some(_)) => complaints.push(format!("#{index} is listed, but not looked at")),
            (Verdict::Agrees, None) | (Verdict::Differs(_), Some(_)) => looked_at += 1,
            (Verdict::Agrees, Some((_, why))) => {
                complaints.push(format!("#{index} is listed as different ({why}), but agrees: {case}"));
            }
            (Verdict::Differs(how), None) => complaints.push(format!("#{index} {how}\n    case {case}")),
        }
    }
    assert!(looked_at > 0 || !complaints.is_empty(), "{file}: no case was looked at");
    let first: Vec<&str> = complaints.iter().take(60).map(String::as_str).collect();
    assert!(complaints.is_empty(), "{file}: {} complaints\n{}", complaints.len(), first.join("\n"));
    println!("{file}: {looked_at} cases, {} of them listed as different", differences.len());
}
