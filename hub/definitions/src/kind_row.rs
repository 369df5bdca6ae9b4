//! What a kind does, beside its names, schema and columns: one row of plain facts and functions.
//!
//! A row is found when a [`ResourceDefinition`](crate::resource::ResourceDefinition) is made and stands in it, so that no request looks
//! for one by a kind's name. Those of shipped kinds are in `karmada-kinds`; any other kind has [`KindRow::GO`] or [`KindRow::CUSTOM`].
//!
//! Types and constants alone. In, for each function of a row: an object as JSON, mostly with the one that stands. Out: the object changed
//! in place, errors or warnings added to a list, or texts and cells; no function of a row does IO.

use std::sync::Arc;

use jiff::Timestamp;
use karmada_cel::Compiling;
use karmada_schema::apply::ResetFields;
use karmada_schema::facts::{Fact, judge};
use karmada_schema::fields::Errors;
use karmada_schema::metadata::NameRule;
use karmada_schema::path::Path;
use serde_json::{Value, json};

use crate::description::Column;

/// What a kind's own rules look at.
#[derive(Clone, Copy, Debug)]
pub enum Rules {
    /// There are none.
    None,
    /// The facts of its type, which name the code for what is no plain fact.
    Facts(&'static [Fact]),
    /// The object as it is to be.
    Object(fn(&Value, &mut Errors)),
    /// That, and the object as it stands.
    Change(fn(&Value, Option<&Value>, &mut Errors)),
    /// The same, where patterns or expressions are compiled, which takes turns with others.
    Compiling(fn(&Value, Option<&Value>, &Arc<Compiling>, &mut Errors)),
}

impl Rules {
    /// Tells what is wrong with `new`.
    pub fn judge(self, new: &Value, old: Option<&Value>, compiling: &Arc<Compiling>, errors: &mut Errors) {
        match self {
            Rules::None => {}
            Rules::Facts(facts) => judge(facts, new, old, &Path::ROOT, errors),
            Rules::Object(rules) => rules(new, errors),
            Rules::Change(rules) => rules(new, old, errors),
            Rules::Compiling(rules) => rules(new, old, compiling, errors),
        }
    }
}

/// A look at the metadata of a changed object.
#[derive(Clone, Copy, Debug)]
pub enum MetadataCheck {
    /// As if the object were new.
    New,
    /// Against what is stored.
    Changed,
}

/// How a kind counts its generations.
#[derive(Clone, Copy, Debug)]
pub struct Generation {
    /// Whether new objects are the first, whatever they say.
    pub from_one: bool,
    /// Whether changes of anything but metadata and status are counted.
    pub changes: bool,
    /// The part of the metadata that counts as well.
    pub metadata: Option<&'static str>,
    /// Whether objects are compared as Go's memory has them: an empty list is not none.
    pub literal: bool,
    /// Whether a change is counted by what was asked for, with what is dropped before it is stored.
    pub with_dropped: bool,
}

impl Generation {
    /// As most kinds do.
    pub const USUAL: Generation =
        Generation { from_one: true, changes: true, metadata: None, literal: false, with_dropped: false };
}

/// One object and the time to count ages to.
#[derive(Clone, Copy)]
pub struct TableRow<'a> {
    /// The object.
    pub object: &'a Value,
    /// The time.
    pub now: Timestamp,
}

/// The cells of a row.
pub type Cells = fn(TableRow<'_>) -> Vec<Value>;

/// Rules of a part that is written by itself.
pub type PartRules = fn(&Value, &Value, &mut Errors);

/// Kinds that the API server acts on by more than their rows say: its gates, deletions and subresources ask for these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuiltinKind {
    /// Any other one.
    Other,
    /// `Binding`.
    Binding,
    /// `CertificateSigningRequest`.
    CertificateRequest,
    /// `Job`.
    Job,
    /// `LimitRange`.
    LimitRange,
    /// `Namespace`.
    Namespace,
    /// `PersistentVolumeClaim`.
    VolumeClaim,
    /// `Pod`.
    Pod,
    /// `PriorityClass`.
    PriorityClass,
    /// `ResourceClaim`.
    ResourceClaim,
    /// `ResourceClaimTemplate`.
    ResourceClaimTemplate,
    /// `Service`.
    Service,
}

/// One kind, in all of its versions or in one.
#[derive(Clone, Copy, Debug)]
pub struct KindRow {
    /// The kind.
    pub kind: &'static str,
    /// The version that the row is of; empty for all.
    pub version: &'static str,
    /// Which of the kinds it is that the API server acts on.
    pub known: BuiltinKind,
    /// Where it holds the template of its Pods.
    pub pod_template: Option<&'static str>,

    /// What objects may be called.
    pub name: NameRule,
    /// Whether finalizers are Kubernetes' own, or have a domain: so in kinds that are judged by the rules of the core group.
    pub standard_finalizers: bool,
    /// How the kind's rules look at the metadata of a changed object, and how often, after those of all kinds did.
    pub metadata_checks: &'static [MetadataCheck],
    /// An update runs the create validation first, then the update validation, which runs it again; so kube-apiserver reports such errors
    /// twice.
    pub judged_twice: bool,
    /// The kind's own rules.
    pub rules: Rules,
    /// Rules of parts that are written by themselves. Without any, the whole is judged as by any update.
    pub parts: &'static [(&'static str, PartRules)],
    /// What is taken, but warned of: the object, and on a change what it was.
    pub warn: fn(&Value, Option<&Value>, &mut Vec<String>),
    /// What every request on it is answered with.
    pub deprecation: Option<&'static str>,

    /// Drops and fills in what the kind's strategy does, before the object is judged.
    pub drop_disabled_fields: fn(&mut Value, Option<&Value>),
    /// Fills in the time where it is due; the time is asked for only then.
    pub date: fn(&mut Value, &dyn Fn() -> String),
    /// Changes what a new object says by itself.
    pub begin: fn(&mut Value),
    /// The status that a new object starts with, from its body and the time; `None`: none.
    pub first_status: fn(&Value, &str) -> Option<Value>,
    /// Whether a create may bring its status.
    pub created_with_status: bool,
    /// Whether the spec tells who created the object, whatever was sent.
    pub tells_creator: bool,
    /// Fills in what follows from the new object's uid, labels and annotations. Answers warnings.
    pub finish_create: fn(&mut Value) -> Vec<String>,
    /// Whether an update of the whole leaves the spec as it is.
    pub keeps_spec: bool,
    /// Fills in what a change says by itself, before it is judged.
    pub prepare_update: fn(&mut Value),
    /// Fills in what follows from a change: the object as it is to be, and as it was.
    pub finish_update: fn(&mut Value, &Value),
    /// Fills in what a status keeps: the object as it is to be, as it was, and the time.
    pub finish_status: fn(&mut Value, &Value, &str),
    /// Marks what a deletion leaves to be done, at that time.
    pub mark_deleted: Option<fn(&mut Value, &str)>,

    /// Whether an update may leave out the version it was made from.
    pub updates_without_version: bool,
    /// Whether an update may create.
    pub creates_on_update: bool,
    /// Whether a delete answers with the object instead of a `Status`.
    pub returns_deleted: bool,
    /// Whether dependants are collected.
    pub collected: bool,
    /// Whether dependants stay where a delete says nothing of them.
    pub orphans: bool,
    /// Whether an object without labels takes its template's: the very same ones, with what is added to those.
    pub shares_labels: bool,
    /// Metadata that a write of the status may not change.
    pub status_keeps: &'static [&'static str],
    /// What writes of its parts leave as it is, so that their writers cannot own it.
    pub resets: ResetFields,
    /// How generations are counted, if they are.
    pub generation: Option<Generation>,
    /// Bytes of JSON that an object may have.
    pub largest: usize,
    /// Where kube-apiserver stores the objects, below `/registry`; empty for the plural.
    pub directory: &'static str,

    /// The cells of tables; `None` for name and creation time, or what columns say by their paths.
    pub cells: Option<Cells>,
    /// What a column by its path cannot say.
    pub cell: fn(&Column, &Value) -> Option<Value>,
    /// An annotation that is a field of kube-apiserver's own: it is shown with the whole object, and not where metadata alone is.
    pub hidden_annotation: Option<&'static str>,
    /// Conditions of a table's row.
    pub row_conditions: fn(&Value) -> Option<Value>,
    /// Fields that lists may be selected by, beside name and namespace.
    pub selectable: &'static [SelectableField],
    /// To the version that is stored.
    pub to_storage: fn(&mut Value),
    /// From the version that is stored.
    pub from_storage: fn(&mut Value),
    /// Takes what a writer of another version changed from the owners of this one: the object as it was, as it is to be, and the
    /// version that is written.
    pub disown: fn(&Value, &mut Value, &str),
}

/// A field that lists may be selected by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SelectableField {
    /// What selectors call it.
    pub label: &'static str,
    /// Where it stands in the stored object: the first of these that says anything counts.
    pub paths: &'static [&'static [&'static str]],
    /// What it is where the object does not say.
    pub absent: &'static str,
}

impl SelectableField {
    /// One that stands where a list of its parts says.
    pub const fn at(label: &'static str, paths: &'static [&'static [&'static str]]) -> SelectableField {
        SelectableField { label, paths, absent: "" }
    }

    /// One that is something where the object does not say.
    #[must_use]
    pub const fn or(self, absent: &'static str) -> SelectableField {
        SelectableField { absent, ..self }
    }
}

/// Metadata that others act on.
pub const ACTED_ON: &[&str] = &["labels", "annotations", "finalizers", "ownerReferences"];

impl KindRow {
    /// A kind that is compiled into kube-apiserver and has nothing of its own.
    pub const GO: KindRow = KindRow {
        kind: "",
        version: "",
        known: BuiltinKind::Other,
        pod_template: None,
        name: NameRule::Subdomain,
        standard_finalizers: true,
        metadata_checks: &[MetadataCheck::Changed],
        judged_twice: false,
        rules: Rules::None,
        parts: &[],
        warn: |_, _, _| {},
        deprecation: None,
        drop_disabled_fields: |_, _| {},
        date: |_, _| {},
        begin: |_| {},
        first_status: |_, _| Some(json!({})),
        created_with_status: false,
        tells_creator: false,
        finish_create: |_| Vec::new(),
        keeps_spec: false,
        prepare_update: |_| {},
        finish_update: |_, _| {},
        finish_status: |_, _, _| {},
        mark_deleted: None,
        updates_without_version: true,
        creates_on_update: false,
        returns_deleted: false,
        collected: true,
        orphans: false,
        shares_labels: false,
        status_keeps: &[],
        resets: ResetFields::GO,
        generation: None,
        largest: karmada_schema::object::LARGEST,
        directory: "",
        cells: None,
        cell: |_, _| None,
        hidden_annotation: None,
        row_conditions: |_| None,
        selectable: &[],
        to_storage: |_| {},
        from_storage: |_| {},
        disown: |_, _, _| {},
    };

    /// The same, with its generations counted.
    pub const COUNTED: KindRow = KindRow { generation: Some(Generation::USUAL), ..KindRow::GO };

    /// A kind that is served like a custom resource and has nothing of its own.
    pub const CUSTOM: KindRow = KindRow {
        first_status: |_, _| None,
        updates_without_version: false,
        status_keeps: ACTED_ON,
        resets: ResetFields::CUSTOM,
        generation: Some(Generation::USUAL),
        ..KindRow::GO
    };

    /// This row with a kind's rules and the cells of its tables, which most have.
    #[must_use]
    pub const fn with(self, rules: Rules, cells: Cells) -> KindRow {
        KindRow { rules, cells: Some(cells), ..self }
    }
}
