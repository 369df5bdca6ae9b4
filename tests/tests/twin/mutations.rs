//! Mutations: every field of every built-in kind, with what a client may get wrong in it.
//!
//! In: sample objects (those of `conformance/samples.yaml`, and richer ones in `mutations.yaml`, which stand in for them) and the
//! schemas that kube-apiserver serves. Out: sequences of creates with `dryRun=All`, one step for each mutation, one sequence for
//! each struct of a kind; and for each a sequence that makes the object and replaces it by each of its mutations. Each step stands
//! alone. Fields that a sample has not are laid in with what is likely, and mutated the
//! same. A Pod's spec is walked as a Pod's only: in templates just what the sample holds.
//!
//! There are fifty thousand of either: those of the kinds in [`SELDOM`], and three of four updates, run only where
//! `TWIN_MUTATIONS=1`, or a filter that names `mutations/`, asks for all.

mod schema;
mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::generated;
use crate::sequence::{Sequence, Step};
use crate::twins::{Resource, Twins};
use schema::{Schemas, Shape};

/// How many levels of structs that a sample has not are laid into it.
const ABSENT: usize = 3;

/// Types that are walked where they are a kind's own, and elsewhere only as far as a sample fills them.
const TEMPLATES: [&str; 2] = ["PodTemplateSpec", "PodSpec"];

/// Kinds of thousands of mutations each, a third of all: not a part of every run.
const SELDOM: [&str; 3] = ["pods.v1", "persistentvolumes.v1", "volumeattachments.v1.storage.k8s.io"];

/// What is not mutated: a dry run there answers with the version that came, whatever it is, for no storage has refused it.
const UNTOLD: &str = "metadata.resourceVersion";

/// What is not mutated on updates: for the same reason; an address that each server gives from a range of its own; and what
/// kube-apiserver's memory tells from nothing, and counts as a change, while its answers do not: bytes that are none, and a schema
/// of items that is no schema.
const UNCLEAR: [&str; 4] = [
    "metadata/selfLink",
    "spec/ipFamilies/0",
    "webhooks/0/clientConfig/caBundle",
    "spec/versions/0/schema/openAPIV3Schema/items",
];

/// Kinds to whose new objects controllers of the server write.
const MOVING: [&str; 3] = [
    "customresourcedefinitions.v1.apiextensions.k8s.io",
    "apiservices.v1.apiregistration.k8s.io",
    "flowschemas.v1.flowcontrol.apiserver.k8s.io",
];

/// How many of the mutations run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// Those that every run of the suite makes.
    Sample,
    /// Each, in both encodings.
    All,
}

/// What the environment or the filter of the run asks for.
pub fn share(filter: Option<&str>) -> Share {
    let all = std::env::var("TWIN_MUTATIONS").is_ok_and(|on| on == "1")
        || filter.is_some_and(|words| words.contains("mutations/"));
    if all { Share::All } else { Share::Sample }
}

/// Every sequence.
pub fn all(twins: &Twins, share: Share) -> Vec<Sequence> {
    let schemas = Schemas::of(&twins.truth);
    let (mut out, mut seen, mut refused) = (Vec::new(), BTreeSet::new(), Vec::new());
    for (plural, resource, object) in generated::mutable(twins) {
        if share == Share::Sample && SELDOM.contains(&plural.as_str()) {
            continue;
        }
        refused.extend(refusal(twins, &plural, &object));
        // Further samples of a kind are there for what they hold.
        let further = !seen.insert(plural.clone());
        let name =
            object["metadata"]["name"].as_str().unwrap_or_default().replace("NS-", "").replace("NS", "plain");
        let called = format!("mutations/{} {} {name}", resource.api_version, resource.kind);
        out.extend(of_sample(&schemas, share, &called, (&plural, &resource), object, further));
    }
    assert!(refused.is_empty(), "samples are refused:\n{}", refused.join("\n"));
    out
}

/// Why a sample is refused; such a one has nothing to mutate.
fn refusal(twins: &Twins, plural: &str, object: &Value) -> Option<String> {
    let text = object.to_string().replace("NS.ADDRESS", "10.9.9.9").replace("NS", "default");
    let object = serde_json::from_str(&text).expect("a sample is JSON still");
    let answer = twins.truth.json("POST", &twins.path(&format!("{plural}?dryRun=All"), "default"), &object);
    (!matches!(answer.code, 201 | 409)).then(|| format!("{plural}: {}", answer.json()["message"]))
}

fn of_sample(
    schemas: &Schemas,
    share: Share,
    called: &str,
    (plural, resource): (&str, &Resource),
    object: Value,
    further: bool,
) -> Vec<Sequence> {
    let Some(shape) = schemas.kind(&resource.api_version, &resource.kind) else { return Vec::new() };
    let base = Arc::new(object);
    let mut walker = Walker { schemas, done: BTreeSet::new(), out: BTreeMap::new() };
    let place = Place { base, at: Vec::new(), absent: 0, trail: Vec::new(), filled: further };
    walker.fields(&place, shape, &[]);
    let who = match resource.kind.as_str() {
        // The server notes who asks, and administrators are called differently.
        "CertificateSigningRequest" => "requester,system:masters",
        _ => "",
    };
    let mut out = Vec::new();
    for (group, all) in walker.out {
        let creates = all.iter().enumerate().map(|(number, one)| Step {
            method: "POST".to_owned(),
            path: format!("{plural}{}", options(number)),
            body: json!({&one.path: one.value}),
            base: Some(one.base.clone()),
            who: who.to_owned(),
            ..Step::default()
        });
        out.push(Sequence::new(format!("{called} {group}"), creates.collect()));
        let every = if share == Share::All { 1 } else { 4 };
        let updated = all.iter().filter(|one| !UNCLEAR.contains(&one.path.as_str())).step_by(every);
        if let Some(steps) = updates(plural, &place.base, who, updated) {
            out.push(Sequence::new(format!("{called} {group}, updated"), steps));
        }
    }
    out
}

/// Nothing is stored; some requests are strict.
fn options(number: usize) -> String {
    format!("?dryRun=All{}", if number % 4 == 3 { "&fieldValidation=Strict" } else { "" })
}

/// The object is made, and replaced by each of its mutations.
fn updates<'a>(
    plural: &str,
    object: &Value,
    who: &str,
    mutations: impl Iterator<Item = &'a Mutation>,
) -> Option<Vec<Step>> {
    let name = object["metadata"]["name"].as_str()?;
    let who = who.to_owned();
    let made = Step {
        method: "POST".to_owned(),
        path: plural.to_owned(),
        body: object.clone(),
        who: who.clone(),
        ..Step::default()
    };
    let settled = MOVING.contains(&plural).then(|| Step {
        method: "GET".to_owned(),
        path: format!("{plural}/{name}"),
        who: who.clone(),
        settles: true,
        ..Step::default()
    });
    let replaced = mutations.enumerate().map(|(number, one)| Step {
        method: "PUT".to_owned(),
        path: format!("{plural}/{name}{}", options(number)),
        body: json!({&one.path: one.value}),
        base: Some(one.base.clone()),
        over_first: true,
        who: who.clone(),
        ..Step::default()
    });
    Some(std::iter::once(made).chain(settled).chain(replaced).collect())
}

/// One object with one field set.
struct Mutation {
    base: Arc<Value>,
    /// As [`crate::sequence::set_all`] reads it.
    path: String,
    value: Value,
}

/// Where the walk is.
#[derive(Clone)]
struct Place {
    base: Arc<Value>,
    at: Vec<String>,
    /// Levels above that the sample has not.
    absent: usize,
    /// The types above.
    trail: Vec<String>,
    /// Whether only what the sample holds is mutated.
    filled: bool,
}

impl Place {
    fn value(&self) -> Option<&Value> {
        self.at.iter().try_fold(&*self.base, |value, part| match value {
            Value::Array(items) => items.get(part.parse::<usize>().ok()?),
            other => other.get(part),
        })
    }

    fn path(&self) -> String {
        self.at.iter().map(|part| part.replace('/', "~1")).collect::<Vec<_>>().join("/")
    }

    /// The path without the numbers of items.
    fn name(&self) -> String {
        let parts = self.at.iter().filter(|part| part.parse::<usize>().is_err());
        parts.map(String::as_str).collect::<Vec<_>>().join(".")
    }

    fn child(&self, part: &str) -> Place {
        let mut child = self.clone();
        child.at.push(part.to_owned());
        child
    }

    /// The same place with a value in it.
    fn with(mut self, value: &Value) -> Place {
        let mut base = (*self.base).clone();
        crate::sequence::set_all(&mut base, json!({self.path(): value}).as_object().expect("it is one"));
        self.base = Arc::new(base);
        self.absent += 1;
        self
    }
}

struct Walker<'s> {
    schemas: &'s Schemas,
    done: BTreeSet<String>,
    out: BTreeMap<String, Vec<Mutation>>,
}

impl Walker<'_> {
    /// The fields of the struct at `place`; those that `others` (items beside it) have are left to these.
    fn fields(&mut self, place: &Place, shape: Shape<'_>, others: &[Value]) {
        let Shape::Struct { name, fields, .. } = shape else { return };
        if place.trail.iter().any(|above| above == name) {
            return;
        }
        let short = name.rsplit('.').next().unwrap_or_default();
        let mut place = place.clone();
        place.filled |=
            TEMPLATES.contains(&short) && place.trail.iter().all(|above| !above.ends_with(".Pod"));
        place.trail.push(name.to_owned());
        for (field, schema) in fields {
            let child = place.child(field);
            let absent = child.value().is_none();
            if child.name() == UNTOLD {
                continue;
            }
            let elsewhere = absent && others.iter().any(|other| other.get(field).is_some());
            if elsewhere || (absent && place.filled) || !self.done.insert(child.name()) {
                continue;
            }
            let shape = self.schemas.shape(schema);
            self.field(&child, field, shape);
            // What a status holds is judged where it is written.
            if !matches!(child.name().as_str(), "status" | "metadata.managedFields") {
                self.below(&child, field, shape);
            }
        }
        if self.done.insert(format!("{}.unknownField", place.name())) {
            self.add(&place.child("unknownField"), json!(1));
        }
    }

    /// Everything that may stand in one field.
    fn field(&mut self, place: &Place, field: &str, shape: Shape<'_>) {
        let now = place.value().cloned();
        for value in values::of(self.schemas, field, shape, now.as_ref()) {
            self.add(place, value);
        }
        if now.is_some() {
            self.add(place, Value::Null);
            self.add(place, json!("$null"));
        }
    }

    /// What stands below a field.
    fn below(&mut self, place: &Place, field: &str, shape: Shape<'_>) {
        let filled = match place.value() {
            Some(_) => place.clone(),
            None if place.absent >= ABSENT => return,
            None => place.clone().with(&values::likely(self.schemas, field, shape, 5)),
        };
        match shape {
            Shape::Struct { .. } => self.fields(&filled, shape, &[]),
            Shape::List(item) => self.items(filled, field, self.schemas.shape(item)),
            Shape::Map(value) => {
                let key =
                    filled.value().and_then(Value::as_object).and_then(|all| all.keys().next().cloned());
                let place = filled.child(&key.unwrap_or_else(|| "a".to_owned()));
                self.below_or_value(&place, field, self.schemas.shape(value));
            }
            _ => {}
        }
    }

    fn items(&mut self, list: Place, field: &str, shape: Shape<'_>) {
        let list = match list.value().and_then(Value::as_array) {
            Some(items) if !items.is_empty() => list,
            _ => list.with(&json!([values::likely(self.schemas, field, shape, 5)])),
        };
        let items = list.value().and_then(Value::as_array).cloned().unwrap_or_default();
        for index in 0..items.len() {
            let place = list.child(&index.to_string());
            match shape {
                Shape::Struct { .. } => self.fields(&place, shape, &items[index + 1..]),
                _ if index == 0 => self.below_or_value(&place, field, shape),
                _ => {}
            }
        }
    }

    fn below_or_value(&mut self, place: &Place, field: &str, shape: Shape<'_>) {
        if !matches!(shape, Shape::Struct { .. }) {
            self.field(place, field, shape);
        }
        self.below(place, field, shape);
    }

    fn add(&mut self, place: &Place, value: Value) {
        let parts = place.name();
        let above = parts.rsplit_once('.').map_or("itself", |(above, _)| above).to_owned();
        let one = Mutation { base: place.base.clone(), path: place.path(), value };
        self.out.entry(above).or_default().push(one);
    }
}
