//! One write as it is asked for, and as it passes admission.
//!
//! Types alone, but for [`Warnings`], which gathers sentences and notes within bounds. In: what a handler read of a request. Out: what
//! `registry`, its steps and admission read.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use karmada_definitions::resource::ResourceDefinition;
use karmada_definitions::status::{Cause, MOST_WARNINGS, Status};
use karmada_schema::Empties;
use karmada_schema::object::ObjectKey;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;

use crate::user::User;

/// What happens to fields that the schema does not know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// Dropped silently.
    Ignore,
    /// Dropped with a warning.
    #[default]
    Warn,
    /// The request is refused.
    Strict,
}

/// How a write is made.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// Who asks.
    pub user: User,
    /// Who the written fields belong to.
    pub field_manager: String,
    /// Do everything but write.
    pub dry_run: bool,
    /// Unknown fields.
    pub field_validation: FieldValidation,
    /// Which part is written: empty, `status`, `scale`…
    pub subresource: String,
    /// Problems found in the raw body (duplicate fields), to be judged by `field_validation`.
    pub body_problems: Vec<String>,
    /// The raw body, where it has problems.
    pub body: Bytes,
    /// The patch that is carried out, as refusals of what comes of it show it.
    pub patch: PatchShown,
    /// Whether managed fields were settled by server-side apply already.
    pub applied: bool,
    /// What the caller should know, whatever comes of the write.
    pub warnings: Warnings,
}

/// What a refusal shows of a patch whose outcome cannot be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PatchShown {
    /// There is no patch: the whole object was sent, or applied.
    #[default]
    None,
    /// The patch itself, as Go prints it: strategic merges.
    Itself(String),
    /// What it made of the object, as JSON: JSON and merge patches.
    Outcome,
}

/// Where sentences for the caller, and notes for the audit log, are gathered; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Warnings(Arc<Mutex<WarningTexts>>, Option<Arc<Mutex<Notes>>>);

/// Sentences, each once.
#[derive(Debug, Default)]
struct WarningTexts {
    all: Vec<String>,
    /// How many characters an answer holds of them.
    shown: usize,
}

/// What the audit log should know, by key.
type Notes = BTreeMap<String, String>;

impl Warnings {
    /// Characters of one warning where there are more than [`MOST_WARNINGS`] in all.
    const LONGEST: usize = 256;

    /// Bytes of a list that is a note, before nothing more is added to it.
    const LONGEST_LIST: usize = 256 << 10;

    /// Where notes are gathered too.
    pub fn noting() -> Warnings {
        Warnings(Arc::default(), Some(Arc::default()))
    }

    /// Whether anybody reads the notes.
    pub fn takes_notes(&self) -> bool {
        self.1.is_some()
    }

    /// Notes something for the audit log; of several notes under one key the first stays.
    pub fn note(&self, key: impl Into<String>, value: impl Into<String>) {
        if let Some(notes) = &self.1 {
            notes.lock().entry(key.into()).or_insert_with(|| value.into());
        }
    }

    /// Adds to the list that a note is, as long as there is room in it.
    pub fn append_note(&self, key: &str, more: Vec<Value>) {
        let Some(notes) = &self.1 else { return };
        let mut notes = notes.lock();
        if notes.get(key).is_some_and(|list| list.len() > Self::LONGEST_LIST) {
            return;
        }
        let known = notes.get(key).and_then(|list| serde_json::from_str::<Vec<Value>>(list).ok());
        let all: Vec<Value> = known.unwrap_or_default().into_iter().chain(more).collect();
        notes.insert(key.to_owned(), Value::from(all).to_string());
    }

    /// Every note so far.
    pub fn notes(&self) -> BTreeMap<String, String> {
        self.1.as_ref().map(|notes| notes.lock().clone()).unwrap_or_default()
    }

    /// Adds a sentence, unless it was said.
    pub fn add(&self, text: String) {
        let mut said = self.0.lock();
        if !text.is_empty() && said.shown < MOST_WARNINGS && !said.all.contains(&text) {
            said.shown += text.chars().take(Self::LONGEST).count();
            said.all.push(text);
        }
    }

    /// Adds each of these.
    pub fn extend(&self, texts: impl IntoIterator<Item = String>) {
        texts.into_iter().for_each(|text| self.add(text));
    }

    /// What an answer holds of everything said so far.
    pub fn all(&self) -> Vec<String> {
        let said = self.0.lock();
        if said.all.iter().map(|text| text.chars().count()).sum::<usize>() <= MOST_WARNINGS {
            return said.all.clone();
        }
        said.all.iter().map(|text| text.chars().take(Self::LONGEST).collect()).collect()
    }
}

/// The body (or query) of a delete.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeleteOptions {
    /// Seconds until the object may be gone; 0 is at once.
    pub grace_period_seconds: Option<i64>,
    /// `Background`, `Foreground` or `Orphan`.
    pub propagation_policy: Option<String>,
    /// The older form of `Orphan`.
    pub orphan_dependents: Option<bool>,
    /// What must hold of the object.
    pub preconditions: Option<Preconditions>,
    /// `["All"]` for a dry run.
    pub dry_run: Vec<String>,
    /// Whether webhooks and policies were asked already: about the eviction that this delete carries out.
    #[serde(skip)]
    pub admitted: bool,
    /// What the caller should know, whatever comes of it.
    #[serde(skip)]
    pub warnings: Warnings,
}

/// What must hold of an object for it to be deleted.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Preconditions {
    /// Its uid.
    pub uid: Option<String>,
    /// Its version.
    pub resource_version: Option<String>,
}

/// What becomes of dependants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletionPropagation {
    /// Collected after the object is gone.
    Background,
    /// Collected before.
    Foreground,
    /// They stay.
    Orphan,
}

fn invalid_options(reason: &'static str, field: &str, message: &str) -> Status {
    let cause = Cause { reason: reason.into(), message: message.to_owned(), field: field.to_owned() };
    Status::invalid("meta.k8s.io", "DeleteOptions", "", vec![cause])
}

impl DeleteOptions {
    /// Whether nothing is to be deleted.
    pub fn is_dry(&self) -> bool {
        !self.dry_run.is_empty()
    }

    /// Reads the propagation; `None` where nothing is asked.
    ///
    /// # Errors
    /// 422: both ways of asking are used, or the policy's name is unknown.
    pub fn propagation(&self) -> Result<Option<DeletionPropagation>, Status> {
        if self.orphan_dependents.is_some() && self.propagation_policy.is_some() {
            return Err(invalid_options(
                "FieldValueInvalid",
                "propagationPolicy",
                &format!(
                    "Invalid value: \"{}\": orphanDependents and deletionPropagation cannot be both set",
                    self.propagation_policy.as_deref().unwrap_or_default()
                ),
            ));
        }
        match (self.propagation_policy.as_deref(), self.orphan_dependents) {
            (Some("Background"), _) | (None, Some(false)) => Ok(Some(DeletionPropagation::Background)),
            (Some("Foreground"), _) => Ok(Some(DeletionPropagation::Foreground)),
            (Some("Orphan"), _) | (None, Some(true)) => Ok(Some(DeletionPropagation::Orphan)),
            (Some(other), _) => Err(invalid_options(
                "FieldValueNotSupported",
                "propagationPolicy",
                &format!(
                    "Unsupported value: \"{other}\": supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\""
                ),
            )),
            (None, None) => Ok(None),
        }
    }
}

/// One write on its way through admission.
pub struct AdmissionRequest<'a> {
    /// The resource.
    pub definition: &'a ResourceDefinition,
    /// What the write does.
    pub operation: Operation,
    /// Where the object stands.
    pub key: &'a ObjectKey,
    /// The object to be stored; on delete, the one that goes.
    pub object: &'a mut Value,
    /// The object before an update.
    pub old: Option<&'a Value>,
    /// Which part is written.
    pub subresource: &'a str,
    /// Who asks.
    pub user: &'a User,
    /// How it is done.
    pub how: How<'a>,
    /// What the caller should know.
    pub warnings: &'a Warnings,
    /// Empty lists and maps that a new object was sent with; they are not stored.
    pub sent_empty: Option<&'a Empties>,
    /// What the expressions of all policies and match conditions may cost together.
    pub budget: karmada_cel::Budget,
}

impl<'a> AdmissionRequest<'a> {
    /// A create (`old` is `None`) or an update on its way to be stored.
    pub(crate) fn write(
        definition: &'a ResourceDefinition,
        key: &'a ObjectKey,
        object: &'a mut Value,
        old: Option<&'a Value>,
        options: &'a WriteOptions,
    ) -> Self {
        AdmissionRequest {
            definition,
            operation: if old.is_none() { Operation::Create } else { Operation::Update },
            key,
            object,
            old,
            subresource: &options.subresource,
            user: &options.user,
            how: How::Write(options),
            warnings: &options.warnings,
            sent_empty: None,
            budget: karmada_cel::Budget::default(),
        }
    }

    /// What is answered and not stored.
    pub(crate) fn unstored(
        definition: &'a ResourceDefinition,
        operation: Operation,
        key: &'a ObjectKey,
        object: &'a mut Value,
        options: &'a WriteOptions,
    ) -> Self {
        AdmissionRequest { operation, ..AdmissionRequest::write(definition, key, object, None, options) }
    }

    /// A removal.
    pub(crate) fn delete(
        definition: &'a ResourceDefinition,
        key: &'a ObjectKey,
        object: &'a mut Value,
        user: &'a User,
        options: &'a DeleteOptions,
    ) -> Self {
        AdmissionRequest {
            definition,
            operation: Operation::Delete,
            key,
            object,
            old: None,
            subresource: "",
            user,
            how: How::Delete(options),
            warnings: &options.warnings,
            sent_empty: None,
            budget: karmada_cel::Budget::default(),
        }
    }
}

/// How a write is done.
#[derive(Clone, Copy, Debug)]
pub enum How<'a> {
    /// Create, update, patch, apply.
    Write(&'a WriteOptions),
    /// Delete.
    Delete(&'a DeleteOptions),
}

impl How<'_> {
    /// Whether nothing is to be written.
    pub fn dry_run(self) -> bool {
        match self {
            How::Write(options) => options.dry_run,
            How::Delete(options) => options.is_dry(),
        }
    }
}

/// What a write does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A new object.
    Create,
    /// A change.
    Update,
    /// A removal.
    Delete,
    /// A connection to what an object runs.
    Connect,
}
