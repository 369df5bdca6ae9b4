//! What is refused, recorded once (`refusals.jsonl`): objects of every kind with something wrong in them, each with what is said of it,
//! word for word and in order; and the same with what is just right, of which nothing is said. However the rules are kept, they say the same.
//!
//! `REFUSALS=record` records anew, which only a rule that is meant to say something else asks for; `REFUSALS=<file>` writes there what is
//! said of every mutation, some ten thousands, to be compared before and after rules are moved.

use std::collections::{BTreeMap, BTreeSet};

use karmada_kinds::kind::Kind;
use karmada_schema::FieldError;
use serde_json::{Value, json};

use crate::mutations::{self, Mutation};

/// Where the recorded refusals stand.
const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases/refusals.jsonl");

/// One sample object, and what it is called.
pub(crate) struct Sample {
    name: String,
    pub(crate) object: Value,
}

impl Sample {
    pub(crate) fn kind(&self) -> Kind<'_> {
        let api_version = self.object["apiVersion"].as_str().unwrap();
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Kind::builtin(group, version, self.object["kind"].as_str().unwrap()).unwrap()
    }
}

fn samples() -> Vec<Sample> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let named = |line: &str| {
        let object: Value = serde_json::from_str(line).unwrap();
        let kind = format!("{} {}", object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
        let number = seen.entry(kind.clone()).or_default();
        *number += 1;
        Sample { name: format!("{kind} {number}"), object }
    };
    include_str!("samples.jsonl").lines().map(named).collect()
}

/// The object as validation meets it; `None` where it is no object of the kind at all.
fn read(kind: &Kind<'_>, mut object: Value) -> Option<Value> {
    kind.decode(&mut object).ok()?;
    kind.default(&mut object);
    Some(crate::admitted::as_admitted(kind.group, kind.kind, &object))
}

/// What is said of a sample with some fields set, when it is created, when it replaces the sample, or (by the part's name) when a part of
/// it does.
fn said(kind: &Kind<'_>, sample: &Value, act: &str, puts: &[Mutation]) -> Option<Vec<FieldError>> {
    let mut new = sample.clone();
    for one in puts {
        mutations::put(&mut new, &one.at, one.value.clone())?;
    }
    if act == "create" {
        return Some(kind.validate(&read(kind, new)?, None).unwrap());
    }
    let mut old = sample.clone();
    for object in [&mut old, &mut new] {
        object["metadata"]["resourceVersion"] = json!("1");
    }
    let (new, old) = (read(kind, new)?, read(kind, old)?);
    let Some((_, rules)) = kind.row.parts.iter().find(|(part, _)| *part == act) else {
        return Some(kind.validate(&new, Some(&old)).unwrap());
    };
    let mut errors = Vec::new();
    rules(&new, &old, &mut errors);
    Some(errors)
}

fn words(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// What may be done with an object of a kind, each with the part that it writes (empty for the whole).
fn acts(kind: &Kind<'_>) -> Vec<(&'static str, &'static str)> {
    let parts = kind.row.parts.iter().map(|(part, _)| match *part {
        "status" | "approval" => (*part, "/status"),
        part => (part, "/spec/containers"),
    });
    [("create", ""), ("update", "")].into_iter().chain(parts).collect()
}

/// What is done with each: the sample, what is done to it, the fields that are set, and what is said.
type Take<'t> = dyn FnMut(&Sample, &str, &[Mutation], &[FieldError]) + 't;

/// Every mutation by itself, and many at once, with what is said of them, by sample.
fn everything(take: &mut Take<'_>) {
    for sample in samples() {
        let kind = sample.kind();
        let all = mutations::of(kind.schema, &sample.object);
        for (act, part) in acts(&kind) {
            let (mut wrong, mut right) = (Vec::new(), Vec::new());
            let written = all.iter().filter(|one| one.at.starts_with(part));
            // A change is judged by the rules of a create, and by few more.
            for one in written.step_by(if act == "update" { 3 } else { 1 }) {
                let one = std::slice::from_ref(one);
                let Some(refused) = said(&kind, &sample.object, act, one) else { continue };
                if refused.is_empty() {
                    right.push(one);
                } else {
                    wrong.push(one[0].clone());
                    take(&sample, act, one, &refused);
                }
            }
            // On this side of a bound, or among the known: what a field may say that may not say everything.
            let bounded: BTreeSet<&str> = wrong.iter().map(|one| one.at.as_str()).collect();
            for one in right.into_iter().filter(|one| bounded.contains(one[0].at.as_str())) {
                take(&sample, act, one, &[]);
            }
            // What several fields are told, and in which order.
            for share in 0..5 {
                let many = mutations::beside(&wrong, share);
                if let Some(refused) = said(&kind, &sample.object, act, &many) {
                    take(&sample, act, &many, &refused);
                }
            }
        }
    }
}

fn line(sample: &Sample, act: &str, puts: &[Mutation], refused: &[FieldError]) -> String {
    let puts: Vec<Value> = puts.iter().map(|one| json!([one.at, one.value])).collect();
    json!({"of": sample.name, "act": act, "put": puts, "refused": words(refused)}).to_string()
}

/// Those that say something that no other said, field by field, of a kind, and those that are right where others are wrong; of Pods within
/// others only a few.
fn record() -> Vec<String> {
    let (mut seen, mut accepted, mut lines) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    everything(&mut |sample, act, puts, refused| {
        let kind = sample.object["kind"].to_string();
        let plain = |text: &str| text.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
        let mut new = puts.len() > 1;
        if let ([one], []) = (puts, refused) {
            let at = one.at.split_once("/template/").map_or(one.at.as_str(), |(_, rest)| rest);
            let of = if at == one.at { kind.clone() } else { String::new() };
            let is_plain = one.value.is_number()
                || one.value.as_str().is_some_and(|text| text.starts_with(char::is_uppercase));
            new = is_plain && act == "create" && accepted.insert((of, plain(at), one.value.to_string()));
        }
        for error in refused {
            let at = error.field.split_once("template.").map_or(error.field.as_str(), |(_, rest)| rest);
            let of = if at == error.field { kind.clone() } else { String::new() };
            let detail: String = error.detail.chars().take(12).collect();
            new |= seen.insert((of, plain(at), error.kind, plain(&detail)));
        }
        let line = line(sample, act, puts, refused);
        if new && line.len() < 1500 {
            lines.push(line);
        }
    });
    lines
}

#[test]
fn what_is_refused_is_refused_in_the_same_words() {
    if let Ok(file) = std::env::var("REFUSALS") {
        let mut lines = Vec::new();
        let mut all = |sample: &Sample, act: &str, puts: &[Mutation], refused: &[FieldError]| {
            lines.push(line(sample, act, puts, refused));
        };
        match file.as_str() {
            "record" => std::fs::write(RECORDED, record().join("\n") + "\n").unwrap(),
            file => {
                everything(&mut all);
                std::fs::write(file, lines.join("\n") + "\n").unwrap();
            }
        }
    }
    let samples: BTreeMap<String, Sample> =
        samples().into_iter().map(|sample| (sample.name.clone(), sample)).collect();
    let recorded = std::fs::read_to_string(RECORDED).unwrap();
    let (mut wrong, mut count) = (Vec::new(), 0);
    for case in recorded.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        let text = |field: &str| case[field].as_str().unwrap();
        let sample = &samples[text("of")];
        let puts: Vec<Mutation> = case["put"].as_array().unwrap().iter().map(Mutation::read).collect();
        let said = words(&said(&sample.kind(), &sample.object, text("act"), &puts).unwrap_or_default());
        count += 1;
        if json!(said) != case["refused"] {
            wrong.push(format!(
                "{} {} {}\n  said {said:?}\n  then {}",
                text("of"),
                text("act"),
                case["put"],
                case["refused"]
            ));
        }
    }
    assert!(count > 800, "{count}");
    assert!(wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), wrong.join("\n"));
}
