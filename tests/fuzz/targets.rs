//! What is done with hostile input, and what must hold whatever it is: nothing panics, and what is promised of patches, apply and
//! schemas is so. In: bytes, read as text whose parts are divided by lines of `---`. Out: nothing, or a panic that names the
//! broken promise.

use std::sync::LazyLock;
use std::time::Duration;

use bytes::Bytes;
use karmada_definitions::crd;
use karmada_definitions::resource::Catalogue;
use karmada_gateway::Options;
use karmada_gateway::ports::{JoinAsk, Work, WorkEvent};
use karmada_gateway::session::{Effect, Opening, Session};
use karmada_kinds::field_selector::FieldSelector;
use karmada_kinds::kind::Kind;
use karmada_proto::digest::{Buckets, Root};
use karmada_proto::v1::{AgentFrame, HubFrame, JoinRequest, agent_frame, hub_frame};
use karmada_proto::{join, quoted};
use karmada_schema::apply::{ApplyError, Conflicts, ResetFields, Writer, apply, update_managed};
use karmada_schema::patch::{json_patch, merge_patch, strategic_patch};
use karmada_schema::selector::LabelSelector;
use karmada_schema::{
    Schema, Schemas, apply_defaults, drop_nulls, duplicate_fields, prune, run_rules, validate,
};
use prost::Message as _;
use serde_json::{Value, json};

/// What takes hostile input.
pub type Target = fn(&[u8]);

/// The targets by name; each has a folder of kept inputs.
pub const ALL: [(&str, Target); 7] = [
    ("patch", patch),
    ("apply", applies),
    ("selectors", selectors),
    ("cel", cel),
    ("schemas", schemas),
    ("joins", joins),
    ("frames", frames),
];

fn parts<const N: usize>(data: &[u8]) -> Option<[&str; N]> {
    let text = std::str::from_utf8(data).ok()?;
    let all: Vec<&str> = text.splitn(N, "\n---\n").collect();
    all.try_into().ok()
}

fn object(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok().filter(Value::is_object)
}

/// `json`, `merge` or `GROUP/VERSION/KIND` (strategic); the live object; the patch.
fn patch(data: &[u8]) {
    let Some([how, live, patch]) = parts(data) else { return };
    let Some(live) = object(live) else { return };
    let patch = patch.as_bytes();
    let _ = duplicate_fields(patch);
    match how {
        "json" => drop(json_patch(&live, patch)),
        "merge" => {
            let Ok(once) = merge_patch(&live, patch) else { return };
            let twice = merge_patch(&once, patch).expect("the same patch is read again");
            assert_eq!(once, twice, "a merge patch that is applied again changes nothing");
        }
        kind => {
            let Some(schema) = schema_of(kind) else { return };
            drop(strategic_patch(schema, &live, patch));
        }
    }
}

fn named(kind: &str) -> Option<[&str; 3]> {
    kind.splitn(3, '/').collect::<Vec<_>>().try_into().ok()
}

fn schema_of(kind: &str) -> Option<karmada_schema::SchemaRef<'static>> {
    let [group, version, kind] = named(kind)?;
    Schemas::builtin().of(group, version, kind)
}

const NOW: &str = "2026-01-01T00:00:00Z";

/// `GROUP/VERSION/KIND`; what one manager applies; what another applies.
fn applies(data: &[u8]) {
    let Some([kind, first, second]) = parts(data) else { return };
    let Some([group, version, name]) = named(kind) else { return };
    let (Some(schema), Some(kind)) = (schema_of(kind), Kind::builtin(group, version, name)) else { return };
    let (Some(first), Some(second)) = (object(first), object(second)) else { return };
    let api_version = kind.api_version();
    let by = |manager| Writer {
        manager,
        api_version: &api_version,
        subresource: "",
        now: NOW,
        has_status: true,
        resets: ResetFields::GO,
    };
    // As the registry stores it: read into the kind's type, with its defaults.
    let store = |mut object: Value| {
        object["metadata"]["uid"] = json!("u");
        kind.decode(&mut object).ok()?;
        kind.default(&mut object);
        Some(object)
    };
    let step = |live: Option<&Value>, applied: &Value, manager| {
        let outcome = apply(live, applied, by(manager), Conflicts::Taken, schema);
        assert!(!matches!(outcome, Err(ApplyError::Conflicts(_))), "force leaves no conflict");
        store(outcome.ok()?)
    };
    let Some(one) = step(None, &first, "one") else { return };
    let again = step(Some(&one), &first, "one").expect("what was applied is applied again");
    // Who applied nothing but a name owns nothing: the next apply finds an object that nobody tracks, and what the defaults
    // set becomes somebody's.
    let tracked = |object: &Value| object["metadata"].get("managedFields").is_some();
    // An item with an empty key is defaulted, and another one from then on: kube-apiserver makes two of it as well.
    let keys_hold = !says_nothing(&first) && !says_nothing(&second);
    if tracked(&one) && keys_hold {
        assert_eq!(one, again, "what is applied again changes nothing");
    }
    let Some(two) = step(Some(&one), &second, "two") else { return };
    let again = step(Some(&two), &second, "two").expect("what was applied is applied again");
    if keys_hold {
        assert_eq!(two, again, "what another applies again changes nothing");
    }
    // An update by a third, back to what was there first.
    let mut updated = one;
    updated["metadata"]["managedFields"] = two["metadata"]["managedFields"].clone();
    update_managed(Some(&two), &mut updated, by("three"), schema);
    let _ = step(Some(&updated), &second, "two");
}

/// A JoinRequest as it comes from the wire, or, where it is none, a text that is each of its texts.
fn joins(data: &[u8]) {
    let request = JoinRequest::decode(data).unwrap_or_else(|_| {
        let text = String::from_utf8_lossy(data).into_owned();
        JoinRequest {
            token: "abcdef.0123456789abcdef".into(),
            cluster_name: text.clone(),
            cluster_uid: text.clone(),
            csr: data.to_vec().into(),
            provider: text.clone(),
            region: text.clone(),
            zones: vec![text.clone()],
            agent_version: text,
            ..JoinRequest::default()
        }
    });
    let fits = |text: &str| {
        text.len() <= 63 && text.is_ascii() && !text.bytes().any(|b| b.is_ascii_control() || b == b' ')
    };
    let shown = quoted(&request.cluster_name).to_string();
    assert!(shown.len() < 1500 && !shown.chars().any(char::is_control), "what is logged is one short line");
    match join::check(&request) {
        Err(refusal) => {
            assert!(
                refusal.holder.is_empty() && !refusal.message.contains('\n'),
                "a refusal is one line that names nobody"
            );
        }
        Ok(()) => {
            let JoinRequest { cluster_name, cluster_uid, provider, region, zones, .. } = &request;
            assert!(
                !cluster_name.is_empty()
                    && cluster_name.len() <= 48
                    && !cluster_uid.is_empty()
                    && zones.len() <= 16
            );
            let texts = [cluster_name, cluster_uid, provider, region, &request.agent_version];
            assert!(texts.into_iter().chain(zones).all(|text| fits(text)), "what is stored is bounded");
        }
    }
    if let Ok(JoinAsk { request, .. }) = karmada_gateway::join::ask(request) {
        assert_eq!(request.key_fingerprint.len(), 64, "who asks holds a key");
    }
}

/// A byte (its lowest bit: whether the agent resumes, the next: whether what it holds is of this hub's history); an agent's frames, the hello first, each behind its length in two bytes. They
/// come a second apart to a session that has a few Works to send.
fn frames(data: &[u8]) {
    let Some((flags, rest)) = data.split_first() else { return };
    let mut all = received(rest).into_iter();
    let Some(hello) = all.next().and_then(|frame| match frame.body {
        Some(agent_frame::Body::Hello(hello)) => Some(hello),
        _ => None,
    }) else {
        return;
    };
    let opening = Opening {
        protocol: 1,
        session_seq: 1,
        epoch: 7,
        epoch_seal: Bytes::new(),
        timeline: 1,
        resumed: (flags & 1 == 1).then_some(5),
        of_our_history: flags & 2 == 2,
        restore_hold: None,
        retry_hint: Duration::ZERO,
        hub_clock_ms: 0,
        trust_revision: 1,
    };
    let mut now = Duration::ZERO;
    let mut session = Session::open(hello, &opening, &Options::default(), now);
    for (revision, key) in (6..).zip(["k1", "k2", "k3", "k4"]) {
        let json = format!(
            r#"{{"metadata":{{"name":"{key}","uid":"u1","generation":{revision}}},"spec":{{"workload":{{}}}}}}"#
        );
        let work = Work::from_json(revision, Bytes::from(json).into()).expect("a Work");
        session.work(WorkEvent::Upsert(work));
    }
    session.work(WorkEvent::Synced { revision: 9 });
    let mut closed = false;
    for frame in all {
        now += Duration::from_secs(1);
        session.tick(now);
        session.frame(frame, now);
        answer_its_questions(&mut session, now);
        let sent: Vec<_> = std::iter::from_fn(|| session.next_frame()).take(1_000).collect();
        assert!(sent.len() < 1_000, "what one frame brings forth is bounded");
        assert!(!closed || sent.is_empty(), "a session that was closed sends nothing more");
        closed |= sent.iter().any(|frame| matches!(frame.body, Some(hub_frame::Body::Close(_))));
        for frame in &sent {
            assert_eq!(
                HubFrame::decode(&*frame.encode_to_vec()).as_ref(),
                Ok(frame),
                "what is sent can be read"
            );
        }
        assert!(session.reports() <= 2_000, "what waits to be written is bounded");
        if let Some(report) = session.next_report(now) {
            session.report_done(report, now.as_secs().is_multiple_of(3), now);
        }
    }
}

/// What a session asks of who runs it: here the hub holds no status of any Work, and lists the same Works again.
fn answer_its_questions(session: &mut Session, now: Duration) {
    let effects: Vec<Effect> = std::iter::from_fn(|| session.next_effect()).take(1_000).collect();
    assert!(effects.len() < 1_000, "what one frame asks for is bounded");
    for effect in effects {
        match effect {
            Effect::Root(table, _) => session.root(table, Root::default(), now),
            Effect::Sums(seed) => session.sums(&Buckets::of(&seed, []), now),
            Effect::Relist => {
                session.listing_starts();
                session.work(WorkEvent::Synced { revision: 9 });
            }
            _ => {}
        }
    }
}

/// Frames, each behind its length; what is none ends them.
fn received(mut rest: &[u8]) -> Vec<AgentFrame> {
    let mut all = Vec::new();
    while let Some((length, after)) = rest.split_first_chunk::<2>() {
        let length = usize::from(u16::from_le_bytes(*length)).min(after.len());
        let (bytes, next) = after.split_at(length);
        let Ok(frame) = AgentFrame::decode(bytes) else { break };
        all.push(frame);
        rest = next;
    }
    all
}

/// Whether there is an empty text somewhere, or an item of a list in which there is nothing at all.
fn says_nothing(value: &Value) -> bool {
    let is_blank = |item: &Value| item.as_object().is_some_and(|item| item.values().all(Value::is_null));
    match value {
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.iter().any(|item| says_nothing(item) || is_blank(item)),
        Value::Object(fields) => fields.values().any(says_nothing),
        _ => false,
    }
}

/// A label selector; a field selector; labels as `key=value` lines.
fn selectors(data: &[u8]) {
    let Some([labels, fields, object]) = parts(data) else { return };
    if let Ok(selector) = LabelSelector::parse(labels) {
        let of = |key: &str| object.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        assert_eq!(selector.matches(of), selector.matches(of));
        if selector.is_empty() {
            assert!(selector.matches(|_| None::<&str>), "an empty selector matches everything");
        }
    }
    if let Ok(json) = serde_json::from_str(labels) {
        let _ = LabelSelector::of_json(&json).matches(|_| Some("a"));
    }
    static SHIPPED: LazyLock<Catalogue> = LazyLock::new(karmada_kinds::catalogue::shipped);
    for (group, version, plural) in
        [("", "v1", "pods"), ("", "v1", "events"), ("work.karmada.io", "v1alpha1", "works")]
    {
        let Some(definition) = SHIPPED.resource(group, version, plural) else { continue };
        let _ = FieldSelector::parse(fields, definition).map(|selector| selector.name().map(str::to_owned));
    }
}

/// A rule; the object that it judges.
fn cel(data: &[u8]) {
    let Some([rule, judged]) = parts(data) else { return };
    let Some(judged) = object(judged) else { return };
    let schema = json!({
        "type": "object",
        "x-kubernetes-validations": [{"rule": rule}],
        "properties": {
            "i": {"type": "integer"}, "n": {"type": "number"}, "b": {"type": "boolean"},
            "s": {"type": "string", "maxLength": 1000}, "time": {"type": "string", "format": "date-time"},
            "l": {"type": "array", "maxItems": 100, "items": {"type": "string"}},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}},
            "m": {"type": "object", "additionalProperties": {"type": "integer"}},
            "o": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}},
            "q": {"x-kubernetes-int-or-string": true},
            "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        },
    });
    let _ = is_taken(&schema);
    if let Ok(compiled) = Schema::of_custom(&schema) {
        let _ = run_rules(compiled.root(), &judged, None);
        let _ = run_rules(compiled.root(), &judged, Some(&judged));
    }
}

/// Whether a definition with this schema has nothing wrong with it.
fn is_taken(schema: &Value) -> bool {
    let definition = json!({
        "metadata": {"name": "foos.a.b"},
        "spec": {
            "group": "a.b", "scope": "Cluster",
            "names": {"plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList"},
            "conversion": {"strategy": "None"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
        "status": {"storedVersions": ["v1"]},
    });
    let mut errors = Vec::new();
    crd::validate(&definition, None, &Default::default(), &mut errors);
    errors.is_empty()
}

/// The schema of a custom kind; an object of it.
fn schemas(data: &[u8]) {
    let Some([schema, written]) = parts(data) else { return };
    let (Some(schema), Some(written)) = (object(schema), object(written)) else { return };
    if !is_taken(&schema) {
        return;
    }
    let compiled = Schema::of_custom(&schema).expect("a schema that is taken can be compiled");
    let root = compiled.root();
    let clean = |mut object: Value| {
        drop_nulls(root, &mut object);
        prune(root, &mut object);
        apply_defaults(root, &mut object);
        object
    };
    let once = clean(written);
    assert_eq!(once, clean(once.clone()), "what was pruned and defaulted stays as it is");
    let _ = validate(root, &once, &Default::default());
    let _ = run_rules(root, &once, Some(&once));
}
