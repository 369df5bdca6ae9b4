//! Where every write of a Kubernetes object passes, whoever makes it: names, defaults, admission, validation, ownership of
//! fields, optimistic concurrency, finalizers.
//!
//! In: a resource, an object or a way to change one, and who asks. Out: the object as stored, or the `Status` that says why
//! not; then nothing was written. A write that would change nothing is not written. When a call returns, the cache shows it.

mod create;
pub(crate) mod decode;
mod delete;
mod dropped;
pub(crate) mod identity;
mod label_keys;
pub(crate) mod prepare;
mod services;
pub(crate) mod storage;
pub(crate) mod strategy;
mod unstored;
mod update;

use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use karmada_store::{Store, StoreError};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;

pub use delete::{DeleteOptions, Deleted, Orphaning, Preconditions};
pub use identity::generated_name;
pub(crate) use services::{first_service_address, service_range};

use crate::admission::{Admission, Dynamic, Held, Quotas};
use crate::cache::Cache;
use crate::object::{ObjectKey, Stored};
use crate::resource::{Catalogue, ResourceDefinition};
use crate::schema::Empties;
use crate::status::Status;

/// The wall clock, as text for timestamps and as seconds for comparisons.
pub type Clock = Arc<dyn Fn() -> jiff::Timestamp + Send + Sync>;

/// Where new uids come from.
pub type Ids = Arc<dyn Fn() -> uuid::Uuid + Send + Sync>;

/// Where a request comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// From outside, over HTTP.
    #[default]
    Client,
    /// From a controller of this process.
    Controller,
    /// From the hub's own workings: what it lays down at start, what its agents report.
    Hub,
}

/// Who makes a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// Whether it is a client or this process itself. No credential says anything else than a client.
    pub standing: Standing,
    /// User name.
    pub name: String,
    /// Uid, where the credential carries one.
    pub uid: String,
    /// Groups.
    pub groups: Vec<String>,
    /// More facts of the credential, by key.
    pub extra: std::collections::BTreeMap<String, Vec<String>>,
}

impl User {
    /// The API server itself, as which it lays down and keeps what a cluster has from the start.
    pub(crate) fn apiserver() -> User {
        User {
            name: "system:apiserver".into(),
            groups: vec![crate::auth::MASTERS.into()],
            standing: Standing::Hub,
            ..User::default()
        }
    }
}

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
pub struct Warnings(Arc<Mutex<Said>>, Option<Arc<Mutex<Notes>>>);

/// Sentences, each once.
#[derive(Debug, Default)]
struct Said {
    all: Vec<String>,
    /// How many characters an answer holds of them.
    shown: usize,
}

/// What the audit log should know, by key.
type Notes = std::collections::BTreeMap<String, String>;

impl Warnings {
    /// Characters of warnings in an answer. Where there are more, each is cut at [`Warnings::LONGEST`], and those beyond are left out,
    /// as in kube-apiserver.
    pub(crate) const MOST: usize = 4096;
    /// Characters of one warning where there are too many.
    const LONGEST: usize = 256;

    /// Where notes are gathered too.
    pub fn noting() -> Warnings {
        Warnings(Arc::default(), Some(Arc::default()))
    }

    /// Whether anybody reads the notes.
    pub fn takes_notes(&self) -> bool {
        self.1.is_some()
    }

    /// Notes something for the audit log; the first word counts.
    pub fn note(&self, key: impl Into<String>, value: impl Into<String>) {
        if let Some(notes) = &self.1 {
            notes.lock().entry(key.into()).or_insert_with(|| value.into());
        }
    }

    /// Adds to the list that a note is.
    pub fn append_note(&self, key: &str, more: Vec<Value>) {
        let Some(notes) = &self.1 else { return };
        let mut notes = notes.lock();
        let known = notes.get(key).and_then(|list| serde_json::from_str::<Vec<Value>>(list).ok());
        let all: Vec<Value> = known.unwrap_or_default().into_iter().chain(more).collect();
        notes.insert(key.to_owned(), Value::from(all).to_string());
    }

    /// Every note so far.
    pub fn notes(&self) -> std::collections::BTreeMap<String, String> {
        self.1.as_ref().map(|notes| notes.lock().clone()).unwrap_or_default()
    }

    /// Adds a sentence, unless it was said.
    pub fn add(&self, text: String) {
        let mut said = self.0.lock();
        if !text.is_empty() && said.shown < Self::MOST && !said.all.contains(&text) {
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
        if said.all.iter().map(|text| text.chars().count()).sum::<usize>() <= Self::MOST {
            return said.all.clone();
        }
        said.all.iter().map(|text| text.chars().take(Self::LONGEST).collect()).collect()
    }
}

/// What a write left behind.
#[derive(Debug)]
pub struct Written {
    /// The object as stored (or as it would be, on a dry run).
    pub object: Arc<Stored>,
    /// Whether it is new.
    pub created: bool,
}

/// The registry of all served resources.
pub struct Registry {
    store: Arc<dyn Store>,
    cache: Arc<Cache>,
    catalogue: ArcSwap<Catalogue>,
    catalogue_changed: watch::Sender<u64>,
    admission: Vec<Box<dyn Admission>>,
    dynamic: Dynamic,
    quotas: Quotas,
    clock: Clock,
    ids: Ids,
    /// Held while a Service is given its addresses, until it is stored.
    services: tokio::sync::Mutex<()>,
}

impl Registry {
    /// A registry over a loaded cache.
    pub fn new(
        store: Arc<dyn Store>,
        cache: Arc<Cache>,
        catalogue: Catalogue,
        admission: Vec<Box<dyn Admission>>,
        clock: Clock,
        ids: Ids,
    ) -> Self {
        let catalogue_changed = watch::Sender::new(0);
        let dynamic = Dynamic::new(&cache);
        let quotas = Quotas::new(&cache);
        Registry {
            store,
            cache,
            catalogue: ArcSwap::from_pointee(catalogue),
            catalogue_changed,
            admission,
            dynamic,
            quotas,
            clock,
            ids,
            services: tokio::sync::Mutex::default(),
        }
    }

    /// What is needed to give a Service its addresses; `None` for other kinds. Nobody else does until the guard goes.
    async fn service_allocator(
        &self,
        definition: &ResourceDefinition,
        key: &ObjectKey,
    ) -> Option<(tokio::sync::MutexGuard<'_, ()>, services::Allocator)> {
        if !definition.group.is_empty() || &*definition.plural != "services" {
            return None;
        }
        let guard = self.services.lock().await;
        let mut taken = services::Taken::default();
        let (all, _) = self.cache.shard(&definition.storage).list("", None, 0, &|_| true);
        all.iter().filter(|other| other.key != *key).for_each(|other| taken.add(&other.value()));
        let seed = (self.ids)().as_u64_pair().0;
        Some((guard, services::Allocator { taken, seed, dry: false }))
    }

    /// What is served now.
    pub fn catalogue(&self) -> Arc<Catalogue> {
        self.catalogue.load_full()
    }

    /// The resource at a path, or the 404 of one that is not served.
    pub fn definition(
        &self,
        group: &str,
        version: &str,
        plural: &str,
    ) -> Result<Arc<ResourceDefinition>, Status> {
        self.catalogue.load().resource(group, version, plural).cloned().ok_or_else(Status::no_resource)
    }

    /// Serves another set of resources from now on.
    pub fn serve(&self, catalogue: Catalogue) {
        self.catalogue.store(Arc::new(catalogue));
        self.catalogue_changed.send_modify(|n| *n += 1);
    }

    /// Resolves at the next change of what is served.
    pub fn catalogue_changes(&self) -> watch::Receiver<u64> {
        self.catalogue_changed.subscribe()
    }

    /// The objects.
    pub fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    /// The store below.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The present as metadata writes it: RFC 3339, whole seconds, UTC.
    pub fn now_text(&self) -> String {
        (self.clock)().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    /// The present.
    pub fn now(&self) -> jiff::Timestamp {
        (self.clock)()
    }

    /// A new uid.
    pub fn new_uid(&self) -> String {
        (self.ids)().to_string()
    }

    /// One object by name.
    pub fn get(
        &self,
        definition: &ResourceDefinition,
        namespace: &str,
        name: &str,
    ) -> Result<Arc<Stored>, Status> {
        let key = ObjectKey::new(namespace, name);
        self.cache.get(&definition.storage, &key).ok_or_else(|| self.absent(definition, &key))
    }

    /// What is said of an object that is not in the cache: it is not there, or cannot be read.
    fn absent(&self, definition: &ResourceDefinition, key: &ObjectKey) -> Status {
        match self.cache.unreadable(&definition.storage, key) {
            Some(why) => Status::internal(why),
            None => Status::not_found(definition, &key.name),
        }
    }

    /// Refuses to speak of all objects in `namespace` (empty: anywhere) where one cannot be read.
    ///
    /// # Errors
    /// Which one, and why.
    pub fn all_readable(&self, definition: &ResourceDefinition, namespace: &str) -> Result<(), Status> {
        self.cache
            .unreadable_in(&definition.storage, namespace)
            .map_or(Ok(()), |why| Err(Status::internal(why)))
    }

    /// What is stored at `path` of an object's bytes.
    fn sealed(&self, definition: &ResourceDefinition, path: &str, bytes: &Bytes) -> Result<Bytes, Status> {
        self.cache.sealed(&definition.storage, path, bytes).map_err(Status::internal)
    }

    /// Stored objects as they are shown in the definition's version, where only a webhook can tell; others stay as they are.
    pub async fn view(
        &self,
        definition: &ResourceDefinition,
        objects: Vec<Arc<Stored>>,
    ) -> Result<Vec<Arc<Stored>>, Status> {
        match &definition.custom {
            Some(custom) => custom.view(&self.cache, objects).await,
            None => Ok(objects),
        }
    }

    /// Makes the cache entry of bytes that were, or on a dry run were not, written.
    fn stored(bytes: &Bytes, revision: u64) -> Result<Arc<Stored>, Status> {
        Stored::read(bytes, revision).map(Arc::new).map_err(Status::internal)
    }

    fn gates(&self, request: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        self.admission.iter().try_for_each(|plugin| plugin.admit(self, request))
    }

    /// Admission up to the last change of the object: the gates, then mutating webhooks; what those change passes the gates again.
    async fn admit(&self, request: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        self.gates(request)?;
        let Some(configured) = self.dynamic.for_request(request) else { return Ok(()) };
        self.dynamic.mutate(self, &configured, request).await
    }

    /// Admission of the object as it will be stored, after its own rules: policies, validating webhooks, quotas. What comes back
    /// is to be held until the write is done.
    async fn admit_final(&self, request: &mut AdmissionRequest<'_>) -> Result<Held, Status> {
        if let Some(configured) = self.dynamic.for_request(request) {
            self.dynamic.judge(self, &configured, request).await?;
            self.dynamic.validate(self, &configured, request).await?;
        }
        crate::admission::last_look(self, request)?;
        self.quotas.admit(self, request).await
    }

    /// What webhooks changed passes the gates again.
    pub(crate) fn readmit(&self, request: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        self.gates(request)
    }
}

/// One write on its way through admission.
pub struct AdmissionRequest<'a> {
    /// The resource.
    pub definition: &'a ResourceDefinition,
    /// `CREATE`, `UPDATE` or `DELETE`.
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
    /// What a new object was sent with, and is not stored with.
    pub sent_empty: Option<&'a Empties>,
}

impl<'a> AdmissionRequest<'a> {
    /// A create (`old` is `None`) or an update on its way to be stored.
    fn write(
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
        }
    }
}

/// How a write is done.
#[derive(Clone, Copy, Debug)]
pub enum How<'a> {
    /// Create, update, patch, apply.
    Write(&'a WriteOptions),
    /// Delete, and whether it is a dry run.
    Delete(&'a DeleteOptions, bool),
}

impl How<'_> {
    /// Whether nothing is to be written.
    pub fn dry_run(self) -> bool {
        match self {
            How::Write(options) => options.dry_run,
            How::Delete(_, dry_run) => dry_run,
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

/// A store failure as the caller sees it.
fn store_failed(error: &StoreError) -> Status {
    match error {
        StoreError::Closed => Status::unavailable("the hub is shutting down"),
        other => {
            tracing::error!(error = %other, "the store refused a write");
            Status::unavailable(format!("the write was not stored: {other}"))
        }
    }
}
