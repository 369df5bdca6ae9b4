//! Sequences as data: what a file of `sequences/` may say.
//!
//! ```yaml
//! - name: a limit and its continue
//!   steps:
//!   - POST configmaps: {metadata: {name: a}, data: {k: v}}
//!   - GET configmaps?limit=1
//!   - GET configmaps?limit=1&continue=$2.metadata.continue
//! - name: a deployment with
//!   base: {POST deployments: {…}}
//!   cases:
//!     negative replicas: {spec/replicas: -1}
//! ```
//!
//! A step is `METHOD path`, alone or with a body. A path that begins with a resource means that of the sequence's own namespace;
//! `NS` stands for that namespace everywhere, and is a name that no other sequence has. MERGE, JSON, STRATEGIC and APPLY are
//! PATCHes of that form. `WATCH path: 3` opens a watch and reads three events after the last step (`end`: all there are until
//! it ends). `$2.metadata.uid` is a part of the second answer, `$2` the whole; a body `{$: $1, spec/replicas: 2}` is the first
//! answer with fields set (`null` removes, `$null` is null). Beside the request: `headers`, `raw` (a body as text), `repeat`
//! (that text so many times), `type` (content type), `as` (a user and groups, `anonymous`, `token …`), `until` (asked again until
//! the answer has that code). The text `REQUEST` is a request for a certificate. Each case of a table is a sequence: the steps of
//! `before`, then the base with the case's fields set, then those of `after`.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Map, Value};

/// One sequence.
#[derive(Clone, Debug)]
pub struct Sequence {
    /// `subject/name`.
    pub name: String,
    /// Its steps.
    pub steps: Vec<Step>,
    /// Whether bodies and answers are protobuf where they can be.
    pub protobuf: bool,
}

/// What the names of sequences in protobuf end with.
pub const IN_PROTOBUF: &str = " in protobuf";

impl Sequence {
    /// A sequence in JSON.
    pub fn new(name: String, steps: Vec<Step>) -> Sequence {
        Sequence { name, steps, protobuf: false }
    }

    /// The same in protobuf, as generated clients speak.
    pub fn in_protobuf(&self) -> Sequence {
        Sequence { name: format!("{}{IN_PROTOBUF}", self.name), steps: self.steps.clone(), protobuf: true }
    }
}

/// One step, references not yet replaced.
#[derive(Clone, Debug, Default)]
pub struct Step {
    /// The method, or `WATCH`.
    pub method: String,
    /// The path, short or long.
    pub path: String,
    /// The body, or for a watch how many events.
    pub body: Value,
    /// A body as text.
    pub raw: Option<String>,
    /// The content type, where it is not the method's own.
    pub media: Option<String>,
    /// Further headers.
    pub headers: Vec<(String, String)>,
    /// Who asks.
    pub who: String,
    /// Asked again until the answer has this code (what is served a moment after it was defined).
    pub until: Option<u64>,
    /// An object in which `body` sets fields by their paths; steps with one stand each for itself.
    pub base: Option<Arc<Value>>,
    /// Whether the base is laid over the first answer of the sequence, as by who read an object and changes it.
    pub over_first: bool,
    /// Whether the step is asked until its answer stays the same, and that is the first answer from then on.
    pub settles: bool,
}

/// The folder of this suite.
pub fn folder() -> PathBuf {
    tests::folder::workspace_root().join("tests/tests/twin")
}

/// Every sequence of the files.
pub fn written() -> Vec<Sequence> {
    let files = std::fs::read_dir(folder().join("sequences")).expect("the sequences are there");
    let mut files: Vec<PathBuf> = files.flatten().map(|file| file.path()).collect();
    files.sort();
    let mut all = Vec::new();
    for file in files {
        let subject = file.file_stem().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&file).unwrap();
        let list: Vec<Value> =
            serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        for entry in list {
            all.extend(read(&subject, &entry));
        }
    }
    all
}

fn read(subject: &str, entry: &Value) -> Vec<Sequence> {
    let name =
        format!("{subject}/{}", entry["name"].as_str().unwrap_or_else(|| panic!("{subject}: {entry}")));
    let steps =
        |field: &str| -> Vec<Step> { entry[field].as_array().into_iter().flatten().map(step).collect() };
    let Some(cases) = entry["cases"].as_object() else {
        return vec![Sequence::new(name, steps("steps"))];
    };
    let base = step(&entry["base"]);
    let each = |(case, fields): (&String, &Value)| {
        let mut step = base.clone();
        let fields = fields.as_object().cloned().unwrap_or_default();
        if step.body.get("$").is_some() {
            step.body.as_object_mut().unwrap().extend(fields);
        } else {
            set_all(&mut step.body, &fields);
        }
        let mut all = steps("before");
        all.push(step);
        all.extend(steps("after"));
        Sequence::new(format!("{name}: {case}"), all)
    };
    cases.iter().map(each).collect()
}

fn step(value: &Value) -> Step {
    if let Some(text) = value.as_str() {
        return request(text, Value::Null);
    }
    let fields = value.as_object().unwrap_or_else(|| panic!("no step: {value}"));
    let (line, body) = fields
        .iter()
        .find(|(key, _)| key.contains(' '))
        .unwrap_or_else(|| panic!("a step without a request: {value}"));
    let mut step = request(line, body.clone());
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    for (key, value) in fields.iter().filter(|(key, _)| *key != line) {
        match key.as_str() {
            "raw" => step.raw = Some(text(value)),
            "repeat" => {
                let count = usize::try_from(value.as_u64().unwrap()).unwrap();
                step.raw = Some(text(&fields["raw"]).repeat(count));
            }
            "type" => step.media = Some(text(value)),
            "as" => step.who = text(value),
            "until" => step.until = value.as_u64(),
            "headers" => {
                step.headers = value
                    .as_object()
                    .unwrap()
                    .iter()
                    .map(|(name, value)| (name.to_lowercase(), text(value)))
                    .collect();
            }
            other => panic!("a step cannot have {other}: {value}"),
        }
    }
    step
}

fn request(line: &str, body: Value) -> Step {
    let (method, path) = line.split_once(' ').unwrap_or_else(|| panic!("no request: {line}"));
    let (method, media) = match method {
        "MERGE" => ("PATCH", "application/merge-patch+json"),
        "JSON" => ("PATCH", "application/json-patch+json"),
        "STRATEGIC" => ("PATCH", "application/strategic-merge-patch+json"),
        "APPLY" => ("PATCH", "application/apply-patch+yaml"),
        other => (other, ""),
    };
    let media = (!media.is_empty()).then(|| media.to_owned());
    Step { method: method.to_owned(), path: path.to_owned(), body, media, ..Step::default() }
}

/// Sets fields by their paths: `null` removes, `$null` is null.
pub fn set_all(body: &mut Value, fields: &Map<String, Value>) {
    for (path, value) in fields {
        set(body, path, value);
    }
}

fn set(body: &mut Value, path: &str, value: &Value) {
    if path.is_empty() {
        *body = value.clone();
        return;
    }
    let parts: Vec<String> = path.split('/').map(|part| part.replace("~1", "/")).collect();
    let (last, parents) = parts.split_last().unwrap();
    let mut at = body;
    for part in parents {
        at = match part.parse::<usize>() {
            Ok(index) if at.is_array() => {
                let list = at.as_array_mut().unwrap();
                while list.len() <= index {
                    list.push(Value::Object(Map::new()));
                }
                &mut list[index]
            }
            _ => {
                if !at.is_object() {
                    *at = Value::Object(Map::new());
                }
                at.as_object_mut().unwrap().entry(part.clone()).or_insert(Value::Null)
            }
        };
    }
    let new = if value == "$null" { Value::Null } else { value.clone() };
    match (at, last.parse::<usize>()) {
        (Value::Array(list), Ok(index)) if value.is_null() => drop(list.remove(index)),
        (Value::Array(list), Ok(index)) if index < list.len() => list[index] = new,
        (Value::Array(list), Ok(_)) => list.push(new),
        (at, _) => {
            if !at.is_object() {
                *at = Value::Object(Map::new());
            }
            let fields = at.as_object_mut().unwrap();
            if value.is_null() {
                fields.remove(last)
            } else {
                fields.insert(last.clone(), new)
            };
        }
    }
}
