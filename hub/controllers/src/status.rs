//! Binding-status controller: what the Works report becomes the binding's and the template's status. In: a binding, the Works of its
//! clusters, its template. Out: both statuses, written where they changed.

mod write_pace;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karmada_api::binding::{AggregatedStatusItem, ObjectReference, ResourceBinding};
use karmada_api::names;
use karmada_api::strings::events;
use karmada_api::work::{Work, WorkSpec, WorkStatus};
use karmada_core::status::Interpreted;
use karmada_core::template_ownership;
use karmada_core::{binding, status};
use karmada_interpreter::{InterpretError, Operation};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

use self::write_pace::Pace;
use crate::controller_context::ControllerContext;
use crate::events::{EventType, Reference};
use crate::fetch::{self, kinds};
use crate::indexes::works::binding_id;
use crate::interpretations::uninterpreted;
use crate::port::{Api, ApiError, Change, Key, Object, Resource};
use crate::runner::{Action, Controller, Error, Source};

const BINDING_API: &str = "work.karmada.io/v1alpha2";
const KINDS: [&str; 2] = ["ResourceBinding", "ClusterResourceBinding"];
const WORK_API: &str = "work.karmada.io/v1alpha1";

/// What is read of a Work: how it stands, not what it carries, but where a webhook is asked of that.
#[derive(Deserialize)]
pub(crate) struct Report {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: ReportSpec,
    #[serde(default)]
    status: WorkStatus,
}

/// What is asked of webhooks to tell a binding's and its template's status.
const ASKED: [Operation; 3] =
    [Operation::AggregateStatus, Operation::InterpretStatus, Operation::InterpretHealth];

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReportSpec {
    #[serde(default)]
    suspend_dispatching: Option<bool>,
}

impl From<Report> for Work {
    fn from(report: Report) -> Work {
        let spec = WorkSpec { suspend_dispatching: report.spec.suspend_dispatching, ..WorkSpec::default() };
        Work { metadata: report.metadata, spec, status: report.status, ..Work::default() }
    }
}

/// Everything that a binding's status and its template's are made of, as it was seen: revisions, a digest of the Works, and how many
/// changes of customizations there were.
#[derive(Clone, PartialEq, Eq)]
struct Seen {
    binding: u64,
    /// Nothing while a webhook is being asked for its status.
    template: Option<u64>,
    works: u64,
    customized: u64,
    /// How many changes of Works were known: what one says that did not change later stands in the binding's status already.
    changes: u64,
    /// The Works of which one has not said everything yet: they are read again, and no others.
    waiting: Arc<BTreeSet<Key>>,
    /// The clusters of which the binding has no room to say all that they report: their Works are read whenever there is anything to tell.
    left_out: Arc<BTreeSet<String>>,
}

impl Seen {
    /// Whether what a cluster reports stands in the binding, if that says it at all.
    fn is_told(&self, cluster: &str, change: u64) -> bool {
        change <= self.changes && !self.left_out.contains(cluster)
    }

    /// Whether a webhook is being asked, or did not answer.
    fn waits(&self) -> bool {
        self.template.is_none() || !self.waiting.is_empty()
    }
}

/// How soon a binding is looked at again of which a webhook is being asked, where nobody says earlier that it answered.
const LOOKS_AGAIN: Duration = Duration::from_secs(30);

/// How the Works of a binding stand.
struct Items {
    all: Vec<AggregatedStatusItem>,
    /// The Works of which a webhook has not said everything yet.
    waiting: BTreeSet<Key>,
    /// Why a webhook did not.
    failed: Option<Error>,
}

/// The controller of both kinds of bindings: the namespace tells which (empty: ClusterResourceBinding).
pub struct BindingStatus {
    shared: Arc<ControllerContext>,
    /// What was seen when all was told the last time: that one's own words come back as changes is no reason to look again.
    settled: Mutex<BTreeMap<Key, Seen>>,
    /// How often statuses are written for reports alone.
    paces: Mutex<BTreeMap<Key, Pace>>,
    /// Those that could not be told the last time: how often they are tried again, the queue says.
    failing: Mutex<BTreeSet<Key>>,
}

impl BindingStatus {
    /// A controller.
    pub fn new(shared: Arc<ControllerContext>) -> Arc<Self> {
        let (settled, paces, failing) = Default::default();
        Arc::new(BindingStatus { shared, settled, paces, failing })
    }

    /// What wakes this controller: a binding, and any of its Works. Of its template the detector tells. `debounce`: how long reports of the sites
    /// of one binding, which mostly come together, have to make one write of its status.
    pub fn wakes(shared: &ControllerContext, debounce: Duration) -> Vec<Source<Key>> {
        let mut sources: Vec<Source<Key>> =
            KINDS.iter().map(|kind| Source::own(BINDING_API, kind).debounced(debounce)).collect();
        let bindings = shared.bindings.clone();
        let works = Source::new(WORK_API, "Work", move |change| {
            let (Change::Applied(work) | Change::Deleted(work)) = change;
            bindings.of_work(work).into_iter().collect()
        });
        sources.push(works.debounced(debounce));
        sources.push(shared.interpretations(&ASKED, |key, _| Some(key)).debounced(debounce));
        sources
    }

    fn warn(&self, template: &Reference, why: &str) {
        self.shared.recorder.record(template, EventType::Warning, events::AGGREGATE_STATUS_FAILED, why);
    }
}

#[async_trait::async_trait]
impl Controller for BindingStatus {
    type Key = Key;

    fn name(&self) -> &'static str {
        "binding-status-controller"
    }

    async fn reconcile(&self, key: &Key) -> Result<Action, Error> {
        let outcome = self.tell(key).await;
        let mut failing = self.failing.lock();
        if outcome.is_err() {
            failing.insert(key.clone())
        } else {
            failing.remove(key)
        };
        outcome
    }
}

/// What a binding's status is made of now, beside what it was made of the last time.
struct Inputs<'a> {
    found: &'a Object,
    /// Of the Works.
    digest: u64,
    customized: u64,
    before: Option<Seen>,
}

impl Inputs<'_> {
    /// What was seen the last time, where that was of this very binding, and of these customizations.
    fn of_this_binding(&self) -> Option<&Seen> {
        let is_same =
            |seen: &&Seen| (seen.binding, seen.customized) == (self.found.revision, self.customized);
        self.before.as_ref().filter(is_same)
    }
}

impl BindingStatus {
    async fn tell(&self, key: &Key) -> Result<Action, Error> {
        let api: &dyn Api = &*self.shared.api;
        let resource = kinds::bindings(api, &key.namespace)?;
        let found = fetch::get_object(api, &resource, &key.namespace, &key.name).await?;
        let Some(found) = found.filter(|binding| !binding.deleting) else {
            self.settled.lock().remove(key);
            self.paces.lock().remove(key);
            return Ok(Action::Done);
        };
        // Taken before anything else is read: what comes meanwhile is then looked at.
        let id = binding_id(&found).unwrap_or_default();
        let digest = self.shared.works.digest(id);
        let customized = self.shared.customized.version();
        let before = self.settled.lock().get(key).cloned();
        let inputs = Inputs { found: &found, digest, customized, before };
        if let Err(rest) = self.paced(key, id, &inputs) {
            return Ok(Action::RequeueAfter(rest));
        }
        let Some(binding) = self.changed(&inputs).await? else { return Ok(Action::Done) };
        // Before the Works are read: what changes meanwhile has a higher number.
        let (changes, works) = self.shared.works.seen(id);
        let Items { all, waiting, failed } = self.all_items(&binding, works, &inputs).await?;
        let (told, left_out) = status::within_an_object(&binding, &all);
        let (binding, revision) = self.tell_binding(&resource, binding, told, found.revision).await?;
        let (is_waiting, waiting, left_out) = (!waiting.is_empty(), Arc::new(waiting), Arc::new(left_out));
        let mut seen =
            Seen { binding: revision, template: None, works: digest, customized, changes, waiting, left_out };
        // Where its template cannot be told, that is tried again, and what the binding says by now is not read again.
        self.settled.lock().insert(key.clone(), seen.clone());
        seen.template = self.tell_template(&binding, &all).await?;
        self.settled.lock().insert(key.clone(), seen);
        match failed {
            Some(failed) => Err(failed),
            // An answer wakes this by the object that was asked about; by an override that may be of another name.
            None if is_waiting => Ok(Action::RequeueAfter(LOOKS_AGAIN)),
            None => Ok(Action::Done),
        }
    }

    /// Whether what sites report may be told now, where nothing else changed; otherwise after how long.
    fn paced(&self, key: &Key, id: &str, inputs: &Inputs<'_>) -> Result<(), Duration> {
        let is_report = inputs.of_this_binding().is_some_and(|seen| seen.works != inputs.digest);
        if !is_report || self.failing.lock().contains(key) {
            return Ok(());
        }
        let now = Instant::now();
        let mut paces = self.paces.lock();
        let pace = paces.entry(key.clone()).or_insert_with(|| Pace::new(now));
        pace.take(self.shared.works.count(id), now)
    }

    /// The binding, where its status or its template's may be another by now. Where nothing of its own changed, whether its template did
    /// is seen without reading more of it than where that stands.
    async fn changed(&self, inputs: &Inputs<'_>) -> Result<Option<ResourceBinding>, Error> {
        let is_same = |seen: &&Seen| seen.works == inputs.digest && !seen.waits();
        if let Some(seen) = inputs.of_this_binding().filter(is_same) {
            let Slim { spec } = inputs.found.parse()?;
            let template = self.template(&spec.resource).await?;
            if Some(template.map_or(0, |(_, template)| template.revision)) == seen.template {
                return Ok(None);
            }
        }
        Ok(Some(inputs.found.parse()?))
    }

    /// How each of `works` stands, by its report or by what the binding says already.
    async fn all_items(
        &self,
        binding: &ResourceBinding,
        works: Vec<(Key, u64)>,
        inputs: &Inputs<'_>,
    ) -> Result<Items, Error> {
        let of = &binding.spec.resource;
        let on_hub = self.shared.customized.reads_status(&of.api_version, &of.kind);
        // Whoever else wrote the binding may have written what the Works say. Of what a webhook is asked, other webhooks and scripts say
        // otherwise.
        let is_told = |seen: &&Seen| {
            seen.binding == inputs.found.revision && (seen.customized == inputs.customized || !on_hub)
        };
        let told = inputs.before.as_ref().filter(is_told);
        match on_hub {
            false => self.items(binding, works, told).await,
            true => self.interpreted_items(binding, works, told).await,
        }
    }
}

/// What a binding says of each cluster.
fn known(binding: &ResourceBinding) -> BTreeMap<&str, &AggregatedStatusItem> {
    binding.status.aggregated_status.iter().map(|item| (&*item.cluster_name, item)).collect()
}

/// What is read of a binding of which nothing changed.
#[derive(Deserialize)]
struct Slim {
    spec: SlimSpec,
}

#[derive(Deserialize)]
struct SlimSpec {
    resource: ObjectReference,
}

impl BindingStatus {
    /// How each Work stands, one after the other: a binding may have thousands. Only those are read of which the binding does not say all since `told`.
    async fn items(
        &self,
        binding: &ResourceBinding,
        works: Vec<(Key, u64)>,
        told: Option<&Seen>,
    ) -> Result<Items, Error> {
        let resource = kinds::works(&*self.shared.api)?;
        let known = known(binding);
        let mut items = Vec::with_capacity(works.len());
        for (key, change) in works {
            let cluster = names::cluster_of_execution_namespace(&key.namespace).unwrap_or_default();
            if told.is_some_and(|seen| seen.is_told(cluster, change)) {
                items.extend(known.get(cluster).map(|item| (*item).clone()));
                continue;
            }
            let work = fetch::get_object(&*self.shared.api, &resource, &key.namespace, &key.name).await?;
            if let Some(work) = work {
                items.extend(status::item(binding, &Work::from(work.parse::<Report>()?)));
            }
        }
        Ok(Items { all: items, waiting: BTreeSet::new(), failed: None })
    }

    /// The same, where a webhook is asked of what the clusters report: those are asked that have to be, side by side.
    async fn interpreted_items(
        &self,
        binding: &ResourceBinding,
        works: Vec<(Key, u64)>,
        told: Option<&Seen>,
    ) -> Result<Items, Error> {
        let resource = kinds::works(&*self.shared.api)?;
        let (known, of) = (known(binding), &binding.spec.resource);
        let customized = &self.shared.customized;
        let reads_health = customized.asks_webhook(&of.api_version, &of.kind, Operation::InterpretHealth);
        let mut items =
            Items { all: Vec::with_capacity(works.len()), waiting: BTreeSet::new(), failed: None };
        for (key, change) in works {
            let cluster = names::cluster_of_execution_namespace(&key.namespace).unwrap_or_default();
            let before = known.get(cluster).copied();
            let is_told = |seen: &Seen| seen.is_told(cluster, change) && !seen.waiting.contains(&key);
            if told.is_some_and(is_told) {
                items.all.extend(before.cloned());
                continue;
            }
            let work = fetch::get_object(&*self.shared.api, &resource, &key.namespace, &key.name).await?;
            let Some(work) = work else { continue };
            let by = (&*self.shared.interpreter, reads_health);
            let read = status::interpreted(binding, &work.parse::<Work>()?, before, by);
            let Some(Interpreted { item, troubles }) = read else { continue };
            items.all.push(item);
            for (operation, error) in troubles {
                let failed = self.ask(&resource, &work, operation, &error);
                // A status that nobody can read is read again when there is another.
                if !matches!(error, InterpretError::Object(_)) {
                    items.waiting.insert(key.clone());
                    items.failed = items.failed.take().or(failed);
                }
            }
        }
        Ok(items)
    }

    /// Has a webhook asked of a Work, or tells that it failed.
    fn ask(
        &self,
        works: &Resource,
        work: &Object,
        operation: Operation,
        error: &InterpretError,
    ) -> Option<Error> {
        match self.shared.asks(error) {
            Ok(true) => None,
            Ok(false) => {
                let reason = match operation {
                    Operation::InterpretHealth => events::INTERPRET_HEALTH_FAILED,
                    _ => events::REFLECT_STATUS_FAILED,
                };
                let (about, words) = (Reference::to(works, work), error.to_string());
                self.shared.recorder.record(&about, EventType::Warning, reason, &words);
                Some(uninterpreted(error, words))
            }
            Err(crowded) => Some(crowded),
        }
    }

    /// Writes the binding's status where it changed; the binding as it is then, and its revision.
    async fn tell_binding(
        &self,
        resource: &Resource,
        mut binding: ResourceBinding,
        items: Vec<AggregatedStatusItem>,
        revision: u64,
    ) -> Result<(ResourceBinding, u64), Error> {
        let wanted = status::binding_status(&binding, items, (self.shared.clock)());
        let Some(wanted) = wanted else { return Ok((binding, revision)) };
        let left_out = status::newly_left_out(&binding.status, &wanted);
        binding.status = wanted;
        let written = self.shared.api.update_status(resource, fetch::to_value(&binding)?).await?;
        left_out.iter().for_each(|why| self.warn(&Reference::of_template(&binding), why));
        Ok((binding, written.revision))
    }

    /// The template of a binding, and its resource.
    async fn template(&self, of: &ObjectReference) -> Result<Option<(Resource, Arc<Object>)>, Error> {
        let api: &dyn Api = &*self.shared.api;
        let Some(kind) = api.resource_of(&of.api_version, &of.kind) else { return Ok(None) };
        let found = fetch::get_object(api, &kind, &of.namespace, &of.name).await?;
        Ok(found.map(|found| (kind, found)))
    }

    /// Writes the template's status where it changed; the revision that the template has then, 0 where there is no template. Nothing where
    /// a webhook is being asked for it, whose answer wakes this again.
    async fn tell_template(
        &self,
        binding: &ResourceBinding,
        items: &[AggregatedStatusItem],
    ) -> Result<Option<u64>, Error> {
        if template_ownership::out_of_reach(binding).is_some() {
            return Ok(Some(0));
        }
        let Some((kind, found)) = self.template(&binding.spec.resource).await? else { return Ok(Some(0)) };
        let (_, id) = binding::work_selector(binding);
        if !status::tells_the_template(binding, !self.shared.works.of(&id).is_empty()) {
            return Ok(Some(found.revision));
        }
        let (template, now): (Value, _) = (found.value()?, (self.shared.clock)());
        match status::template_status(&template, items, &*self.shared.interpreter, now) {
            Ok(None) => Ok(Some(found.revision)),
            Ok(Some(changed)) => match self.shared.api.update_status(&kind, changed).await {
                Ok(written) => Ok(Some(written.revision)),
                Err(error) => {
                    if matches!(error, ApiError::Invalid(_)) {
                        self.warn(&Reference::of_template(binding), &error.to_string());
                    }
                    Err(error.into())
                }
            },
            Err(error) if self.shared.asks(&error)? => Ok(None),
            Err(error) => {
                self.warn(&Reference::of_template(binding), &error.to_string());
                Err(uninterpreted(&error, error.to_string()))
            }
        }
    }
}

#[cfg(test)]
mod tests;
