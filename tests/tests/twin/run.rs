//! One sequence on both servers, step by step, and what differs.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use http::HeaderMap;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::{Value, json};
use tests::runtime;

use crate::client::{Answer, As, Caller};
use crate::compare;
use crate::normal::Normal;
use crate::protobuf;
use crate::sequence::{Sequence, Step, set_all};
use crate::twins::Twins;

/// Differing steps of one sequence that are shown.
const SHOWN: usize = 6;

/// How long an event may take that was told of.
const SOON: Duration = Duration::from_secs(4);

/// How long a server may be about to answer a kind whose definition changed: on a machine under load kube-apiserver takes its time.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long nothing changes of what is as it will be.
const STILL: Duration = Duration::from_millis(500);

/// What differs between the two servers, a text for each step.
///
/// kube-apiserver's admission reads what was written a moment before from caches of its own, so that rarely it answers a sequence in
/// two ways (a Pod's resize right after its node's status changed). Where the servers differ the sequence runs once more, and that run
/// decides if it was kube-apiserver that answered otherwise and the hub answered both runs alike: a hub that cannot make up its mind
/// is a difference.
pub fn differs(twins: &Twins, sequence: &Sequence) -> Vec<String> {
    let first = run(twins, sequence);
    if first.differences.is_empty() {
        return first.differences;
    }
    let second = run(twins, sequence);
    let is_steady = second.hub.starts_with(&first.hub);
    if is_steady && first.kube != second.kube { second.differences } else { first.differences }
}

/// One run of a sequence on both servers.
#[derive(Default)]
struct Run {
    /// A text for each step that differs.
    differences: Vec<String>,
    /// What each server answered, step by step and watch by watch, without the run's own name.
    kube: Vec<String>,
    hub: Vec<String>,
}

impl Run {
    fn add(&mut self, namespace: &str, seen: &[Value], label: impl FnOnce() -> String) {
        let unnamed = |value: &Value| value.to_string().replace(namespace, "NS");
        self.kube.push(unnamed(&seen[0]));
        self.hub.push(unnamed(&seen[1]));
        if let Some(what) = compare::differ(&seen[0], &seen[1]) {
            self.differences.push(format!("  {}\n{what}", label()));
        }
    }
}

fn run(twins: &Twins, sequence: &Sequence) -> Run {
    let namespace = unique();
    let place = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    let mut sides: Vec<Side<'_>> = Vec::new();
    for caller in [&twins.truth, &twins.hub] {
        let made = caller.json("POST", "/api/v1/namespaces", &place);
        assert_eq!(made.code, 201, "{}", String::from_utf8_lossy(&made.body));
        sides.push(Side {
            caller,
            namespace: namespace.clone(),
            answers: Vec::new(),
            watches: Vec::new(),
            normal: Normal::default(),
            protobuf: sequence.protobuf,
        });
    }
    let mut run = Run::default();
    for (number, step) in sequence.steps.iter().enumerate() {
        let seen = both(&mut sides, |side| side.step(twins, step));
        // Where kube-apiserver itself falls over there is no answer to compare.
        if step.base.is_some() && seen[0]["code"] == 0 {
            continue;
        }
        run.add(&namespace, &seen, || {
            let with = if step.base.is_some() { shortened(&step.body) } else { String::new() };
            format!("step {}: {} {} {with}", number + 1, step.method, step.path)
        });
        if run.differences.len() >= SHOWN && step.base.is_none() {
            break;
        }
    }
    let watched: Vec<usize> = (0..sides[0].watches.len()).collect();
    for number in watched {
        let seen = both(&mut sides, |side| side.events(number));
        run.add(&namespace, &seen, || format!("watch {}", number + 1));
    }
    run
}

/// `new` laid over `old`, field by field.
fn over(old: Value, new: Value) -> Value {
    match (old, new) {
        (Value::Object(mut old), Value::Object(new)) => {
            for (name, value) in new {
                let before = old.remove(&name).unwrap_or_default();
                old.insert(name, over(before, value));
            }
            Value::Object(old)
        }
        (_, new) => new,
    }
}

fn shortened(value: &Value) -> String {
    let text = value.to_string();
    text.char_indices().nth(160).map_or(text.clone(), |(end, _)| format!("{}…", &text[..end]))
}

/// A name that no other sequence has, the same on both servers.
fn unique() -> String {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(100);
    format!("tw{}", NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
}

fn both<'t>(sides: &mut [Side<'t>], act: impl Fn(&mut Side<'t>) -> Value + Sync) -> Vec<Value> {
    std::thread::scope(|scope| {
        let act = &act;
        let running: Vec<_> = sides.iter_mut().map(|side| scope.spawn(move || act(side))).collect();
        running.into_iter().map(|one| one.join().expect("a step that can be sent")).collect()
    })
}

/// One server's part.
struct Side<'t> {
    caller: &'t Caller,
    namespace: String,
    answers: Vec<Value>,
    watches: Vec<Watch>,
    normal: Normal,
    protobuf: bool,
}

struct Watch {
    events: Receiver<Value>,
    /// `None`: until it ends.
    count: Option<usize>,
}

impl Side<'_> {
    fn step(&mut self, twins: &Twins, step: &Step) -> Value {
        if step.base.is_some() {
            // Such steps know nothing of each other, only of what was made first.
            self.normal = Normal::default();
            self.answers.truncate(1);
        }
        let path = twins.path(&self.text(&step.path), &self.namespace);
        let mut headers: Vec<(String, String)> =
            step.headers.iter().map(|(name, value)| (name.clone(), self.text(value))).collect();
        let who = self.who(&step.who);
        if self.protobuf && !headers.iter().any(|(name, _)| name == "accept") {
            headers.push(("accept".to_owned(), protobuf::ACCEPT.to_owned()));
        }
        if step.method == "WATCH" {
            return self.watch(&path, &headers, &step.body, &who);
        }
        let (body, media) = self.bytes(twins, step, &headers);
        headers.extend(media.filter(|m| !m.is_empty()).map(|media| ("content-type".to_owned(), media)));
        let send = || self.caller.send(&step.method, &path.replace(' ', "%20"), &headers, body.clone(), &who);
        let mut answer = send();
        let begun = Instant::now();
        let again = |answer: &Answer| {
            let comes = step.until.is_some_and(|code| u64::from(answer.code) != code);
            (comes && begun.elapsed() < SOON) || (is_between_storages(answer) && begun.elapsed() < PATIENCE)
        };
        while again(&answer) {
            std::thread::sleep(Duration::from_millis(5));
            answer = send();
        }
        if step.settles {
            // What a controller of the server adds is a part of what was made.
            loop {
                std::thread::sleep(STILL);
                let now = send();
                if now.json() == std::mem::replace(&mut answer, now).json() {
                    break;
                }
            }
            self.answers = vec![answer.json()];
        } else {
            self.answers.push(answer.json());
        }
        self.seen(&answer)
    }

    /// A step's body, and its content type where no header says it.
    fn bytes(&self, twins: &Twins, step: &Step, headers: &[(String, String)]) -> (Vec<u8>, Option<String>) {
        let is_said = headers.iter().any(|(name, _)| name == "content-type");
        let media = |bytes: &[u8]| {
            let own = step.media.clone().or((!bytes.is_empty()).then(|| "application/json".to_owned()));
            own.filter(|_| !is_said)
        };
        let object = match &step.raw {
            Some(text) => {
                let bytes = self.text(text).into_bytes();
                let media = media(&bytes);
                return (bytes, media);
            }
            None if step.body.is_null() => return (Vec::new(), media(&[])),
            None => self.body(twins, step),
        };
        if self.protobuf && step.media.is_none() && !is_said {
            let mut whole = object.clone();
            name_type(twins, step, &mut whole);
            if let Some(bytes) = protobuf::body(&whole) {
                return (bytes, Some(karmada_schema::protobuf::CONTENT_TYPE.to_owned()));
            }
        }
        let bytes = object.to_string().into_bytes();
        let media = media(&bytes);
        (bytes, media)
    }

    fn seen(&mut self, answer: &Answer) -> Value {
        let Answer { code, headers, body } = answer;
        if protobuf::is_one(answer.media()) {
            let body = self.normal.value(answer.json());
            return json!({"code": code, "headers": self.normal.value(headers_read(headers)), "body": body});
        }
        let text = String::from_utf8_lossy(body).into_owned();
        let layout = layout(&text);
        let yaml = answer.media().is_some_and(|media| media.starts_with("application/yaml"));
        let body = match serde_json::from_slice(body) {
            Ok(value) => self.normal.value(value),
            Err(_) if yaml => match serde_saphyr::from_str(&text) {
                Ok(value) => self.normal.value(value),
                Err(_) => json!(text),
            },
            Err(_) => self.normal.value(json!(text)),
        };
        let headers = self.normal.value(headers_read(headers));
        json!({"code": code, "headers": headers, "body": body, "layout": layout})
    }

    fn body(&self, twins: &Twins, step: &Step) -> Value {
        let mut body = match &step.base {
            Some(base) => {
                let mut object = self.replace(base);
                if step.over_first {
                    object = over(self.answers[0].clone(), object);
                }
                set_all(&mut object, step.body.as_object().expect("fields by their paths"));
                object
            }
            None => self.replace(&step.body),
        };
        // What is applied names its type.
        if step.media.as_deref() == Some("application/apply-patch+yaml") {
            name_type(twins, step, &mut body);
        }
        body
    }

    fn replace(&self, value: &Value) -> Value {
        match value {
            Value::String(text) if text == "REQUEST" => json!(crate::generated::request()),
            Value::String(text) => match self.whole_reference(text) {
                Some(value) => value,
                None => Value::String(self.text(text)),
            },
            Value::Array(items) => items.iter().map(|item| self.replace(item)).collect(),
            Value::Object(fields) => {
                let mut all: serde_json::Map<String, Value> =
                    fields.iter().map(|(name, value)| (self.text(name), self.replace(value))).collect();
                match all.remove("$") {
                    None => Value::Object(all),
                    Some(mut base) => {
                        set_all(&mut base, &all);
                        base
                    }
                }
            }
            other => other.clone(),
        }
    }

    fn whole_reference(&self, text: &str) -> Option<Value> {
        let rest = text.strip_prefix('$')?;
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let number: usize = rest[..end].parse().ok()?;
        let path = &rest[end..];
        if !path.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')) {
            return None;
        }
        Some(self.answer(number).pointer(&path.replace('.', "/")).cloned().unwrap_or(Value::Null))
    }

    fn answer(&self, number: usize) -> &Value {
        self.answers.get(number.wrapping_sub(1)).unwrap_or(&Value::Null)
    }

    /// A text with `NS` and references replaced.
    fn text(&self, text: &str) -> String {
        // An address that no other sequence has.
        let number: u32 = self.namespace.trim_start_matches("tw").parse().unwrap_or(0);
        let text = &text.replace("NS.ADDRESS", &format!("10.9.{}.{}", number / 250, number % 250 + 1));
        let mut out = String::new();
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < text.len() {
            let rest = &text[at..];
            let before = at.checked_sub(1).map_or(b' ', |i| bytes[i]);
            let after = bytes.get(at + 2).copied().unwrap_or(b' ');
            if rest.starts_with("NS") && !before.is_ascii_alphanumeric() && !after.is_ascii_alphanumeric() {
                out.push_str(&self.namespace);
                at += 2;
                continue;
            }
            if let Some(reference) =
                rest.strip_prefix('$').filter(|r| r.starts_with(|c: char| c.is_ascii_digit()))
            {
                let end = reference
                    .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')))
                    .unwrap_or(reference.len());
                let found = self.whole_reference(&format!("${}", &reference[..end])).unwrap_or(Value::Null);
                out.push_str(&found.as_str().map_or_else(|| found.to_string(), str::to_owned));
                at += 1 + end;
                continue;
            }
            let c = rest.chars().next().unwrap();
            out.push(c);
            at += c.len_utf8();
        }
        out
    }

    fn who(&self, text: &str) -> As {
        let text = self.text(text);
        match text.as_str() {
            "" => As::Admin,
            "anonymous" => As::Anonymous,
            _ => match text.strip_prefix("token ") {
                Some(token) => As::Token(token.to_owned()),
                None => {
                    let mut names = text.split(',').map(str::to_owned);
                    As::User(names.next().unwrap_or_default(), names.collect())
                }
            },
        }
    }

    fn watch(&mut self, path: &str, headers: &[(String, String)], count: &Value, who: &As) -> Value {
        let path = if path.contains("watch=") {
            path.to_owned()
        } else {
            format!("{path}{}watch=1", if path.contains('?') { '&' } else { '?' })
        };
        let opened = runtime().block_on(self.caller.open("GET", &path, headers, Vec::new(), who));
        self.answers.push(Value::Null);
        let response = match opened {
            Ok(response) => response,
            Err(why) => return json!({"broken": why}),
        };
        let (parts, body) = response.into_parts();
        if parts.status != 200 {
            let bytes = runtime().block_on(body.collect()).map(|b| b.to_bytes().to_vec()).unwrap_or_default();
            self.watches.push(Watch { events: channel().1, count: Some(0) });
            return self.seen(&Answer { code: parts.status.as_u16(), headers: parts.headers, body: bytes });
        }
        let count = count.as_u64().map(|n| usize::try_from(n).unwrap());
        let media = parts.headers.get("content-type").and_then(|value| value.to_str().ok());
        let next = if protobuf::is_one(media) { protobuf::next_event } else { next_line };
        self.watches.push(Watch { events: events(body, next), count });
        json!({"code": 200, "headers": headers_read(&parts.headers)})
    }

    /// The events of a watch, as many as are expected.
    fn events(&mut self, number: usize) -> Value {
        let watch = &self.watches[number];
        let end = Instant::now() + if watch.count.is_none() { SOON * 4 } else { SOON };
        let mut seen = Vec::new();
        while watch.count.is_none_or(|count| seen.len() < count) {
            match watch.events.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(event) => seen.push(event),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    seen.push(json!("nothing more came"));
                    break;
                }
            }
        }
        Value::Array(seen.into_iter().map(|event| self.normal.value(event)).collect())
    }
}

/// How JSON is laid out: on a line that ends, or indented.
fn layout(text: &str) -> &'static str {
    if !text.starts_with(['{', '[']) {
        return "";
    }
    match (text.ends_with('\n'), text.contains("\n  ")) {
        (true, false) => "a line",
        (false, false) => "a line that does not end",
        (false, true) => "indented",
        (true, true) => "indented, and a line that ends",
    }
}

/// What a watch sends, taken apart by `next`, which takes an event from the front of what has come.
fn events(mut body: Incoming, next: fn(&mut Vec<u8>) -> Option<Value>) -> Receiver<Value> {
    let (sender, receiver) = channel();
    runtime().spawn(async move {
        let mut held = Vec::new();
        while let Some(Ok(frame)) = body.frame().await {
            held.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
            while let Some(event) = next(&mut held) {
                if sender.send(event).is_err() {
                    return;
                }
            }
        }
    });
    receiver
}

fn next_line(held: &mut Vec<u8>) -> Option<Value> {
    let end = held.iter().position(|byte| *byte == b'\n')?;
    let line: Vec<u8> = held.drain(..=end).collect();
    let line = String::from_utf8_lossy(&line).trim().to_owned();
    Some(serde_json::from_str(&line).unwrap_or(Value::String(line)))
}

/// What short paths know of an object: its type.
fn name_type(twins: &Twins, step: &Step, object: &mut Value) {
    let Some(fields) = object.as_object_mut().filter(|_| !step.path.starts_with('/')) else { return };
    let end = step.path.find(['/', '?']).unwrap_or(step.path.len());
    let (name, rest) = step.path.split_at(end);
    // Of a subresource the body may be of another kind.
    let (api_version, kind) = match step.method.as_str() {
        "DELETE" => ("v1", "DeleteOptions"),
        _ if rest.split('?').next().unwrap_or("").matches('/').count() > 1 => return,
        _ => (twins.resource(name).api_version.as_str(), twins.resource(name).kind.as_str()),
    };
    fields.entry("apiVersion").or_insert_with(|| json!(api_version));
    fields.entry("kind").or_insert_with(|| json!(kind));
}

/// The headers that clients read.
fn headers_read(headers: &HeaderMap) -> Value {
    let mut read = serde_json::Map::new();
    for name in [
        "content-type",
        "warning",
        "retry-after",
        "cache-control",
        "content-encoding",
        "vary",
        "allow",
        "location",
        "www-authenticate",
        "x-content-type-options",
    ] {
        let mut values: Vec<&str> =
            headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect();
        // What a hub says of kinds that nothing acts on there yet is its own.
        values.retain(|value| !karmada_api::ignored_fields::ROWS.iter().any(|row| value.contains(row.words)));
        // Those of custom kinds come as a Go map gives them.
        values.sort_unstable();
        if !values.is_empty() {
            read.insert(name.to_owned(), json!(values));
        }
    }
    for name in ["etag", "expires", "last-modified"] {
        if headers.contains_key(name) {
            read.insert(name.to_owned(), json!("present"));
        }
    }
    Value::Object(read)
}

/// Whether kube-apiserver was just putting a definition's new storage in the place of the old: it then says for a moment that it
/// shuts down, to whoever comes in between.
fn is_between_storages(answer: &Answer) -> bool {
    let says = |words: &str| String::from_utf8_lossy(&answer.body).contains(words);
    match answer.code {
        503 => says("apiserver is shutting down"),
        429 => says("storage is (re)initializing"),
        _ => false,
    }
}
