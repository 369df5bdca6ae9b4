//! Binding-status controller: what the Works report becomes the binding's and the template's status.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karmada_api::binding::{AggregatedStatusItem, ObjectReference, ResourceBinding};
use karmada_api::names;
use karmada_api::strings::events;
use karmada_api::work::{Work, WorkSpec, WorkStatus};
use karmada_core::belonging;
use karmada_core::{binding, status};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;

use crate::controller_context::ControllerContext;
use crate::events::{EventType, Reference};
use crate::fetch::{self, kinds};
use crate::port::{Api, ApiError, Change, Key, Object, Resource};
use crate::runner::{Action, Controller, Error, Source};
use crate::works_index::binding_id;

const BINDING_API: &str = "work.karmada.io/v1alpha2";
const KINDS: [&str; 2] = ["ResourceBinding", "ClusterResourceBinding"];
const WORK_API: &str = "work.karmada.io/v1alpha1";

/// What is read of a Work: how it stands, not what it carries.
#[derive(Deserialize)]
struct Report {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: ReportSpec,
    #[serde(default)]
    status: WorkStatus,
}

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
#[derive(Clone, Copy, PartialEq, Eq)]
struct Seen {
    binding: u64,
    template: u64,
    works: u64,
    customized: u64,
    /// How many changes of Works were known: what one says that did not change later stands in the binding's status already.
    changes: u64,
}

/// The controller of both kinds of bindings: the namespace tells which (empty: ClusterResourceBinding).
pub struct BindingStatus {
    shared: Arc<ControllerContext>,
    /// What was seen when all was told the last time: that one's own words come back as changes is no reason to look again.
    settled: Mutex<BTreeMap<Key, Seen>>,
}

impl BindingStatus {
    /// A controller.
    pub fn new(shared: Arc<ControllerContext>) -> Arc<Self> {
        Arc::new(BindingStatus { shared, settled: Mutex::default() })
    }

    /// What wakes this controller: a binding, and any of its Works. Of its template the detector tells. `settle`: how long reports of the sites
    /// of one binding, which mostly come together, have to make one write of its status.
    pub fn wakes(shared: &ControllerContext, settle: Duration) -> Vec<Source<Key>> {
        let mut sources: Vec<Source<Key>> =
            KINDS.iter().map(|kind| Source::own(BINDING_API, kind).settling(settle)).collect();
        let bindings = shared.bindings.clone();
        let works = Source::new(WORK_API, "Work", move |change| {
            let (Change::Applied(work) | Change::Deleted(work)) = change;
            bindings.of_work(work).into_iter().collect()
        });
        sources.push(works.settling(settle));
        sources.push(shared.interpretations(|key, _| Some(key)).settling(settle));
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
        let api: &dyn Api = &*self.shared.api;
        let resource = kinds::bindings(api, &key.namespace)?;
        let found = fetch::object(api, &resource, &key.namespace, &key.name).await?;
        let Some(found) = found.filter(|binding| !binding.deleting) else {
            self.settled.lock().remove(key);
            return Ok(Action::Done);
        };
        // Taken before anything else is read: what comes meanwhile is then looked at.
        let id = binding_id(&found).unwrap_or_default();
        let works = self.shared.works.digest(id);
        let customized = self.shared.customized.version();
        let before = self.settled.lock().get(key).copied();
        let same = before.filter(|seen| {
            (seen.binding, seen.works, seen.customized) == (found.revision, works, customized)
        });
        let binding: ResourceBinding = match same {
            None => found.parse()?,
            // Nothing of its own changed: whether its template did is seen without reading more than where that stands.
            Some(seen) => {
                let Slim { spec } = found.parse()?;
                let template = self.template(&spec.resource).await?;
                if template.map_or(0, |(_, template)| template.revision) == seen.template {
                    return Ok(Action::Done);
                }
                found.parse()?
            }
        };
        // Before the Works are read: what changes meanwhile has a higher number.
        let (changes, seen_works) = self.shared.works.seen(id);
        // Whoever else wrote the binding may have written what the Works say.
        let told = before.filter(|seen| seen.binding == found.revision).map_or(0, |seen| seen.changes);
        let items = self.items(&binding, seen_works, told).await?;
        let (binding, revision) = self.tell_binding(&resource, binding, items, found.revision).await?;
        let template = self.tell_template(&binding).await?;
        let seen = Seen { binding: revision, template, works, customized, changes };
        self.settled.lock().insert(key.clone(), seen);
        Ok(Action::Done)
    }
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
    /// How each Work stands, one after the other: a binding may have thousands. Only those are read whose last change came after `told`.
    async fn items(
        &self,
        binding: &ResourceBinding,
        works: Vec<(Key, u64)>,
        told: u64,
    ) -> Result<Vec<AggregatedStatusItem>, Error> {
        let resource = kinds::works(&*self.shared.api)?;
        let known: BTreeMap<&str, &AggregatedStatusItem> =
            binding.status.aggregated_status.iter().map(|item| (&*item.cluster_name, item)).collect();
        let mut items = Vec::with_capacity(works.len());
        for (key, change) in works {
            if change <= told {
                let cluster = names::cluster_of_execution_namespace(&key.namespace);
                items.extend(cluster.and_then(|cluster| known.get(cluster)).map(|item| (*item).clone()));
                continue;
            }
            let work = fetch::object(&*self.shared.api, &resource, &key.namespace, &key.name).await?;
            if let Some(work) = work {
                items.extend(status::item(binding, &Work::from(work.parse::<Report>()?)));
            }
        }
        Ok(items)
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
        let found = fetch::object(api, &kind, &of.namespace, &of.name).await?;
        Ok(found.map(|found| (kind, found)))
    }

    /// Writes the template's status where it changed; the revision that the template has then, 0 where there is none.
    async fn tell_template(&self, binding: &ResourceBinding) -> Result<u64, Error> {
        if belonging::out_of_reach(binding).is_some() {
            return Ok(0);
        }
        let Some((kind, found)) = self.template(&binding.spec.resource).await? else { return Ok(0) };
        let (_, id) = binding::work_selector(binding);
        if !status::tells_the_template(binding, !self.shared.works.of(&id).is_empty()) {
            return Ok(found.revision);
        }
        let (template, now): (Value, _) = (found.value()?, (self.shared.clock)());
        let items = &binding.status.aggregated_status;
        match status::template_status(&template, items, &*self.shared.interpreter, now) {
            Ok(None) => Ok(found.revision),
            Ok(Some(changed)) => match self.shared.api.update_status(&kind, changed).await {
                Ok(written) => Ok(written.revision),
                Err(error) => {
                    if matches!(error, ApiError::Invalid(_)) {
                        self.warn(&Reference::of_template(binding), &error.to_string());
                    }
                    Err(error.into())
                }
            },
            Err(error) => {
                self.warn(&Reference::of_template(binding), &error.to_string());
                Err(Error::Other(error.to_string()))
            }
        }
    }
}

#[cfg(test)]
mod tests;
