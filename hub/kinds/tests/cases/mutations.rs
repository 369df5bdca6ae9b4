//! What may be wrong in an object: every field of its kind set to what a person may get wrong.
//!
//! In: a kind's schema and a sample. Out: places and values, the same ones in every run.

use std::collections::BTreeSet;

use karmada_schema::{Format, SchemaRef, Type};
use serde_json::{Value, json};

/// Levels below what the sample has that are laid in.
const ABSENT: usize = 3;

/// One field set; `null` takes it away.
#[derive(Clone, Debug)]
pub(crate) struct Mutation {
    /// Where, as a JSON pointer; what is missing above it is made.
    pub(crate) at: String,
    pub(crate) value: Value,
}

impl Mutation {
    /// From a pair of pointer and value.
    pub(crate) fn read(pair: &Value) -> Mutation {
        Mutation { at: pair[0].as_str().unwrap().to_owned(), value: pair[1].clone() }
    }
}

/// Sets a field; `None` where there is no such place.
pub(crate) fn put(object: &mut Value, at: &str, value: Value) -> Option<()> {
    let mut place = object;
    for part in at.split('/').skip(1) {
        let part = part.replace("~1", "/").replace("~0", "~");
        if place.is_null() {
            *place = if part == "0" { json!([]) } else { json!({}) };
        }
        place = match place {
            Value::Array(items) => {
                let index: usize = part.parse().ok()?;
                if index == items.len() {
                    items.push(Value::Null);
                }
                items.get_mut(index)?
            }
            Value::Object(fields) => fields.entry(part).or_insert(Value::Null),
            _ => return None,
        };
    }
    *place = value;
    Some(())
}

/// Some of the mutations, none of which is above or below another.
pub(crate) fn beside(all: &[Mutation], share: usize) -> Vec<Mutation> {
    let mut chosen: Vec<Mutation> = Vec::new();
    for one in all.iter().skip(share).step_by(7 + share) {
        let apart = |other: &Mutation| {
            let (a, b) = (format!("{}/", one.at), format!("{}/", other.at));
            !a.starts_with(&b) && !b.starts_with(&a)
        };
        if chosen.len() < 12 && chosen.iter().all(apart) {
            chosen.push(one.clone());
        }
    }
    chosen
}

/// All mutations of a sample.
pub(crate) fn of(schema: SchemaRef<'_>, sample: &Value) -> Vec<Mutation> {
    let kind = sample["kind"].as_str().unwrap_or_default().to_owned();
    let mut walk = Walk { kind, out: Vec::new(), done: BTreeSet::new() };
    walk.fields(schema, "", Some(sample), 0, &mut Vec::new());
    walk.out
}

struct Walk {
    kind: String,
    out: Vec<Mutation>,
    /// Paths without the numbers of items that were walked already.
    done: BTreeSet<String>,
}

impl Walk {
    fn fields(
        &mut self,
        schema: SchemaRef<'_>,
        at: &str,
        now: Option<&Value>,
        absent: usize,
        above: &mut Vec<String>,
    ) {
        let name = schema.type_name().unwrap_or_default().to_owned();
        if above.contains(&name) && !name.is_empty() {
            return;
        }
        above.push(name);
        let template = self.kind != "Pod" && above.iter().any(|one| one.ends_with(".PodSpec"));
        let fields: Vec<(String, SchemaRef<'_>)> =
            schema.properties().map(|(name, schema, _)| (name.to_owned(), schema)).collect();
        for (name, schema) in fields {
            let at = format!("{at}/{name}");
            let now = now.and_then(|now| now.get(&name)).cloned();
            let plain = unnumbered(&at);
            // Metadata is the same in all kinds.
            let told = at.starts_with("/metadata/") && at != "/metadata/name" && self.kind != "ConfigMap";
            let skipped = told
                || ["/apiVersion", "/kind", "/metadata/managedFields", "/metadata/resourceVersion"]
                    .contains(&at.as_str());
            if skipped || (now.is_none() && template) || !self.done.insert(plain) {
                continue;
            }
            self.field(schema, (&name, &at), now.as_ref(), absent, above);
        }
        above.pop();
    }

    fn field(
        &mut self,
        schema: SchemaRef<'_>,
        (name, at): (&str, &str),
        now: Option<&Value>,
        absent: usize,
        above: &mut Vec<String>,
    ) {
        for value in values(schema, name, now) {
            self.out.push(Mutation { at: at.to_owned(), value });
        }
        if now.is_some() {
            self.out.push(Mutation { at: at.to_owned(), value: Value::Null });
        }
        let absent = absent + usize::from(now.is_none());
        if absent > ABSENT {
            return;
        }
        let filled = now.cloned().unwrap_or_else(|| likely(schema, name, 4));
        match schema.ty() {
            Type::Array => {
                let Some(item) = schema.items() else { return };
                for (index, one) in filled.as_array().into_iter().flatten().enumerate().take(3) {
                    let at = format!("{at}/{index}");
                    if item.is_struct() {
                        self.fields(item, &at, Some(one), absent, above);
                    } else if index == 0 {
                        self.field(item, (name, &at), Some(one), absent, above);
                    }
                }
            }
            Type::Object if schema.is_struct() => self.fields(schema, at, Some(&filled), absent, above),
            Type::Object => {
                let first = filled.as_object().and_then(|all| all.iter().next());
                if let (Some((key, value)), Some(schema)) = (first, schema.additional()) {
                    let at = format!("{at}/{}", key.replace('/', "~1"));
                    self.field(schema, (name, &at), Some(value), absent, above);
                }
            }
            _ => {}
        }
    }
}

fn unnumbered(at: &str) -> String {
    let plain = |part| if str::parse::<usize>(part).is_ok() { "#" } else { part };
    at.split('/').map(plain).collect::<Vec<_>>().join("/")
}

/// Words that some field or other has as one of its values.
const KNOWN: &str = include_str!("../../../apiserver/data/enums.tsv");

fn known(name: &str) -> Vec<Value> {
    let rows = KNOWN.lines().filter(|line| !line.starts_with('#'));
    let of = rows.map(|line| line.split('\t').collect::<Vec<_>>());
    let mut all: BTreeSet<&str> = BTreeSet::new();
    for row in of.filter(|row| row[1].trim_end_matches("[]") == name) {
        all.extend(row[2].split(','));
    }
    all.into_iter().map(Value::from).collect()
}

fn values(schema: SchemaRef<'_>, name: &str, now: Option<&Value>) -> Vec<Value> {
    let likely_now = likely(schema, name, 4);
    let mut all: Vec<Value> = match (schema.ty(), schema.format()) {
        (_, Format::Quantity) => ["0", "-1", "1", "100m", "1.5", "2Gi", "9999999999999999999"]
            .into_iter()
            .map(Value::from)
            .collect(),
        (_, Format::IntOrString) => {
            ["", "0%", "150%", "-5%", "http", "Not A Name!", "too-long-for-a-port-name"]
                .into_iter()
                .map(Value::from)
                .chain([-1, 0, 1, 70_000].map(Value::from))
                .collect()
        }
        (Type::String, Format::DateTime | Format::MicroTime) => vec![json!("2026-01-02T03:04:05Z")],
        (Type::String, Format::Byte) => vec![json!("YQ=="), json!("")],
        (Type::String, _) => {
            let texts =
                ["", "Not A Name!", "a.b", "1a", "a/b", "/a", "../a", "10.0.0.1", "::1", "10.0.0.0/8"];
            known(name)
                .into_iter()
                .chain(texts.into_iter().map(Value::from))
                .chain([json!("x".repeat(65)), json!("x".repeat(260))])
                .collect()
        }
        (Type::Integer | Type::Number, _) => {
            [-1, 0, 1, 2, 700, 70_000, 2_000_000_000_i64].map(Value::from).to_vec()
        }
        (Type::Boolean, _) => vec![json!(true), json!(false)],
        (Type::Array, _) => match schema.items() {
            Some(item) => {
                let one = likely(item, name, 4);
                let many: Vec<Value> = (0..65).map(|_| one.clone()).collect();
                vec![json!([]), json!([one]), json!([one, one]), many.into()]
            }
            None => vec![],
        },
        (Type::Object, _) if schema.is_struct() => vec![json!({}), likely_now],
        (Type::Object, _) => {
            let value = schema.additional().map_or(json!("a"), |schema| likely(schema, name, 4));
            let keys = ["a", "", "Not A Key!", "example.com/a", "a/b/c", "cpu", "hugepages-2Mi", "storage"];
            keys.into_iter().map(|key| json!({key: value})).chain([json!({})]).collect()
        }
        (Type::Any, _) => vec![json!({}), json!("text"), json!(1)],
    };
    if let Some(items) = now.and_then(Value::as_array).filter(|items| !items.is_empty()) {
        all.push(items.iter().chain([&items[0]]).cloned().collect());
    }
    all.retain(|value| Some(value) != now);
    all
}

/// A value that a field of that name may well have.
fn likely(schema: SchemaRef<'_>, name: &str, deep: usize) -> Value {
    if deep == 0 {
        return json!({});
    }
    let low = name.to_lowercase();
    match (schema.ty(), schema.format()) {
        (_, Format::Quantity) => json!("1"),
        (_, Format::IntOrString) => json!(1),
        (Type::String, Format::DateTime | Format::MicroTime) => json!("2026-01-02T03:04:05Z"),
        (Type::String, Format::Byte) => json!("YQ=="),
        (Type::String, _) => {
            let ends = |words: &[&str]| words.iter().any(|word| low.trim_end_matches('s').ends_with(word));
            match known(name).into_iter().next() {
                Some(first) => first,
                None if ends(&["cidr"]) => json!("10.1.0.0/16"),
                None if ends(&["ip", "address", "nameserver"]) => json!("10.1.2.3"),
                None if ends(&["path"]) => json!("/a"),
                None if ends(&["version"]) => json!("v1"),
                None if ends(&["group"]) => json!("example.com"),
                None if ends(&["expression"]) => json!("true"),
                None if ends(&["finalizer", "signername", "key", "driver"]) => json!("example.com/a"),
                None if ends(&["url"]) => json!("https://example.com/"),
                None => json!("example"),
            }
        }
        (Type::Integer | Type::Number, _) if low.ends_with("port") => json!(8080),
        (Type::Integer | Type::Number, _) => json!(1),
        (Type::Boolean, _) => json!(true),
        (Type::Array, _) => schema.items().map_or(json!([]), |item| json!([likely(item, name, deep - 1)])),
        (Type::Object, _) if schema.is_struct() => schema
            .properties()
            .filter(|(_, _, required)| *required)
            .map(|(name, schema, _)| (name.to_owned(), likely(schema, name, deep - 1)))
            .collect(),
        (Type::Object, _) => {
            let value = schema.additional().map_or(json!("a"), |schema| likely(schema, name, deep - 1));
            json!({"a": value})
        }
        (Type::Any, _) => json!({"a": "b"}),
    }
}
