//! Dependencies distributor: what a template refers to goes where the template goes.
//!
//! In: ResourceBindings that say `propagateDeps` (referrers), their templates, and every object that one of them depends on. Out: on the
//! referrer, what follows it, and a finalizer; of each object that follows, an attached binding that lists the referrer with its clusters. Works
//! are made of those by the binding controller, as of any binding. `karmada-core` decides; this reads, writes and tells.
//!
//! The note on the referrer is written before anything is attached: after an end in between, whatever was attached is found by it, and by the
//! attached bindings themselves.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use karmada_api::binding::{ObjectReference, ResourceBinding};
use karmada_api::strings::events;
use karmada_api::{names, object};
use karmada_core::dependencies::attached::{self, Attach, Left};
use karmada_core::dependencies::recorded::{self, Candidate};
use karmada_core::dependencies::{self, AttachedObjects, DependencyCandidates, Problem};
use karmada_core::feature_gates::Gate;
use karmada_core::skipped_resources::skips_kind;
use karmada_core::template_ownership;
use karmada_interpreter::{DependentObject, Operation};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::controller_context::ControllerContext;
use crate::events::{EventType, Reference};
use crate::fetch::{self, kinds};
use crate::informer::{AnyHandler, Informers, Notice};
use crate::interpretations::uninterpreted;
use crate::port::{Api, ApiError, Change, Key, Object, Resource};
use crate::queue::{Queue, WorkQueue};
use crate::runner::{Action, Controller, Error, Source};

/// The controller.
pub struct Dependencies {
    shared: Arc<ControllerContext>,
    /// Whether anything new follows. What is attached stays as it is where nothing does, until its referrer goes.
    follows: bool,
}

/// Who makes something of a binding whose object changed while nothing in the binding did.
pub struct BindingReaders {
    /// The queue of who makes Works.
    pub works: Arc<Queue<Key>>,
    /// The queue of who makes statuses.
    pub statuses: Arc<Queue<Key>>,
    /// How long changes settle before statuses are made.
    pub debounce: Duration,
}

/// What a referrer depends on that is there, held for as long as it is looked at.
struct Found {
    dependency: DependentObject,
    kind: Option<Arc<str>>,
    objects: Vec<(Arc<Object>, String)>,
}

impl Found {
    fn sight(&self) -> DependencyCandidates<'_> {
        let found = self.kind.as_deref().map(|kind| {
            self.objects.iter().map(|(object, revision)| candidate(kind, object, revision)).collect()
        });
        DependencyCandidates { dependency: &self.dependency, found }
    }
}

fn candidate<'a>(kind: &'a str, object: &'a Object, resource_version: &'a str) -> Candidate<'a> {
    Candidate {
        kind,
        namespace: &object.key.namespace,
        name: &object.key.name,
        uid: &object.uid,
        resource_version,
        labels: &object.labels,
    }
}

impl Dependencies {
    /// A controller; without the gate `PropagateDeps` it only lets go.
    pub fn new(shared: Arc<ControllerContext>) -> Arc<Self> {
        let follows = shared.gates.enabled(Gate::PropagateDeps);
        Arc::new(Dependencies { shared, follows })
    }

    /// What wakes this controller, beside objects: a referrer that changed; a binding that follows it and was changed by somebody else; a
    /// customization or a webhook, for referrers of its kind, and what a webhook was asked of their templates.
    pub fn wakes(shared: &ControllerContext) -> Vec<Source<Key>> {
        let index = shared.bindings.dependencies.clone();
        let asked = &[Operation::InterpretDependency];
        let interpreted = shared.interpretations(asked, move |key, _| index.is_referrer(&key).then_some(key));
        vec![shared.bindings.dependencies.wakes(), interpreted]
    }

    /// Hears of every object that may be propagated until told to stop: wakes those alone whom it concerns, and whoever makes Works and statuses
    /// of one that follows others.
    pub async fn hears(
        self: Arc<Self>,
        informers: Informers,
        queue: Arc<Queue<Key>>,
        readers: BindingReaders,
        stop: CancellationToken,
    ) {
        let skip = self.shared.options.skip.clone();
        let wanted =
            |resource: &Resource| resource.namespaced && !skips_kind(&resource.api_version(), &resource.kind);
        let handler: AnyHandler = Arc::new(move |resource, change| {
            let (Change::Applied(object) | Change::Deleted(object)) = change;
            if skip.skips_namespace(&object.key.namespace) {
                return;
            }
            let name = names::binding_name(&resource.kind, &object.key.name).into();
            let at = Key { namespace: object.key.namespace.clone(), name };
            let index = &self.shared.bindings.dependencies;
            let concerned = match change {
                Change::Applied(_) => index.of_object(&at, &candidate(&resource.kind, object, "")),
                Change::Deleted(_) => index.of_gone(&at),
            };
            if self.follows {
                concerned.into_iter().for_each(|key| queue.add(key));
            }
            if matches!(change, Change::Applied(_)) && index.is_attached(&at) {
                readers.works.add(at.clone());
                readers.statuses.add_after(at, readers.debounce);
            }
        });
        informers.handle_all(wanted, Notice::ButStatus, &stop, handler).await;
    }

    fn tell(&self, about: &Reference, kind: EventType, reason: &str, message: &str) {
        self.shared.recorder.record(about, kind, reason, message);
    }

    /// Writes a binding, and has the index know it at once: the next who looks finds it there.
    async fn write(&self, binding: &ResourceBinding, is_new: bool) -> Result<Arc<Object>, Error> {
        let api: &dyn Api = &*self.shared.api;
        let resource = kinds::bindings(api, binding.namespace())?;
        let value = fetch::to_value(binding)?;
        let written = match is_new {
            true => api.create(&resource, value).await?,
            false => api.update(&resource, value).await?,
        };
        self.shared.bindings.observe(&Change::Applied(written.clone()));
        // Where it went before this was told, the watch has told that already.
        let now = api.get(&resource, &written.key.namespace, &written.key.name).await;
        if matches!(now, Err(ApiError::NotFound(_))) {
            self.shared.bindings.observe(&Change::Deleted(written.clone()));
        }
        Ok(written)
    }

    /// Nothing follows a binding (any more): it is taken out of all that did, and then loses its finalizer.
    async fn let_go(&self, key: &Key, binding: Option<&ResourceBinding>) -> Result<Action, Error> {
        let left = match binding {
            Some(binding) if binding.metadata.deletion_timestamp.is_none() => Left::Otherwise,
            _ => Left::Deleted,
        };
        for attached in self.shared.bindings.dependencies.attached_to(key) {
            self.detach(key, &attached, left).await?;
        }
        if let Some(wanted) = binding.and_then(|binding| recorded::noted(binding, None)) {
            self.write(&wanted, false).await?;
        }
        Ok(Action::Done)
    }

    /// Takes a referrer out of one attached binding; whether it was in it.
    async fn detach(&self, referrer: &Key, at: &Key, left: Left) -> Result<bool, Error> {
        let existing = self.binding(at).await?;
        let wishes = |namespace: &str, name: &str| {
            let key = Key { namespace: namespace.into(), name: name.into() };
            (key != *referrer).then(|| self.shared.bindings.dependencies.wish(&key)).flatten()
        };
        let wanted = existing.as_ref().and_then(|existing| {
            attached::detach(existing, &referrer.namespace, &referrer.name, &wishes, left)
        });
        let Some(wanted) = wanted else { return Ok(false) };
        match self.write(&wanted, false).await {
            Ok(_) => Ok(true),
            Err(Error::Api(ApiError::NotFound(_))) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn binding(&self, at: &Key) -> Result<Option<ResourceBinding>, Error> {
        let api: &dyn Api = &*self.shared.api;
        fetch::get(api, &kinds::bindings(api, &at.namespace)?, &at.namespace, &at.name).await
    }

    /// The template of a referrer. One that goes, or is another by now, ends its binding through the garbage collector.
    async fn template(&self, referrer: &ResourceBinding) -> Result<Option<Value>, Error> {
        let (api, of): (&dyn Api, _) = (&*self.shared.api, &referrer.spec.resource);
        let Some(kind) = api.resource_of(&of.api_version, &of.kind) else { return Ok(None) };
        let found: Option<Value> = fetch::get(api, &kind, &of.namespace, &of.name).await?;
        let its_own = |template: &Value| {
            !object::deleting(template) && !template_ownership::is_of_another(referrer, template)
        };
        Ok(found.filter(its_own))
    }

    /// Enters a referrer in the binding of one object that follows it; whether anything was written.
    async fn attach(&self, referrer: &ResourceBinding, object: &ObjectReference) -> Result<bool, Error> {
        let name = names::binding_name(&object.kind, &object.name);
        let at = Key { namespace: referrer.namespace().into(), name: name.into() };
        let existing = self.binding(&at).await?;
        let wishes = |namespace: &str, name: &str| {
            let key = Key { namespace: namespace.into(), name: name.into() };
            self.shared.bindings.dependencies.wish(&key)
        };
        let Attach { change, dispute } = attached::attach(existing.as_ref(), referrer, object, &wishes)
            .map_err(|error| Error::Other(error.to_string()))?;
        let written = match change {
            attached::Change::Nothing => return Ok(false),
            attached::Change::Create(wanted) => self.write(&wanted, true).await?,
            attached::Change::Update(wanted) => self.write(&wanted, false).await?,
        };
        if let Some(words) = dispute {
            let about = Reference::to(&kinds::bindings(&*self.shared.api, &at.namespace)?, &written);
            self.tell(&about, EventType::Warning, events::DEPENDENCY_POLICY_CONFLICT, &words);
        }
        Ok(true)
    }

    /// What there is of one dependency.
    async fn find(&self, referrer: &ResourceBinding, dependency: DependentObject) -> Result<Found, Error> {
        let api: &dyn Api = &*self.shared.api;
        let DependentObject { api_version, kind, namespace, name, .. } = &dependency;
        let served = api.resource_of(api_version, kind);
        let kind = served.as_ref().map(|resource| resource.kind.clone());
        let mut objects = Vec::new();
        if let Some(resource) = served.filter(|_| dependencies::reach(referrer, &dependency).is_ok()) {
            if name.is_empty() {
                objects = api.list(&resource, namespace).await?;
            } else {
                objects.extend(fetch::get_object(api, &resource, namespace, name).await?);
            }
        }
        let held = |object: Arc<Object>| {
            let revision = object.revision.to_string();
            (object, revision)
        };
        Ok(Found { objects: objects.into_iter().map(held).collect(), kind, dependency })
    }

    /// Attaches what is wanted and lets go of the rest; whether anything was written. One object's trouble is not the others': all are tried, the
    /// first failure is reported.
    async fn carry_out(&self, referrer: &ResourceBinding, wanted: &AttachedObjects) -> Result<bool, Error> {
        let key = Key { namespace: referrer.namespace().into(), name: referrer.name().into() };
        let (mut wrote, mut failed) = (false, None);
        let mut note = |outcome: Result<bool, Error>| match outcome {
            Ok(changed) => wrote |= changed,
            Err(error) => drop(failed.get_or_insert(error)),
        };
        for object in wanted.objects.values() {
            note(self.attach(referrer, object).await);
        }
        let attached: BTreeSet<Key> = self.shared.bindings.dependencies.attached_to(&key);
        for at in attached.iter().filter(|at| wanted.lets_go_of(&at.name)) {
            note(self.detach(&key, at, Left::Otherwise).await);
        }
        failed.map_or(Ok(wrote), Err)
    }

    /// Notes on a referrer what follows it; the referrer as it is then, and whether that is new.
    async fn note(
        &self,
        binding: ResourceBinding,
        template: &Value,
        dependencies: &[DependentObject],
    ) -> Result<(ResourceBinding, bool), Error> {
        let Some(wanted) = recorded::noted(&binding, Some(dependencies)) else { return Ok((binding, false)) };
        let written = self.write(&wanted, false).await?;
        let message = format!("Get dependencies({}) succeed.", recorded::text(dependencies));
        self.tell(&Reference::of(template), EventType::Normal, events::GET_DEPENDENCIES_SUCCEED, &message);
        Ok((written.parse()?, true))
    }

    /// Has these follow a referrer, and nothing else; whether anything was written, and why something does not follow.
    async fn follow(
        &self,
        binding: ResourceBinding,
        template: &Value,
        dependencies: Vec<DependentObject>,
    ) -> Result<(bool, Vec<Problem>), Error> {
        let (referrer, noted) = self.note(binding, template, &dependencies).await?;
        let mut found = Vec::new();
        for dependency in dependencies {
            found.push(self.find(&referrer, dependency).await?);
        }
        let sights: Vec<DependencyCandidates<'_>> = found.iter().map(Found::sight).collect();
        let wanted = dependencies::wanted(&referrer, &sights);
        let attached = self.carry_out(&referrer, &wanted).await?;
        Ok((noted || attached, wanted.problems))
    }

    /// Tells on a referrer's binding what came of it: nothing where nothing was to be done, or where somebody was faster and it is looked at again.
    fn tell_outcome(&self, about: &Reference, outcome: &Result<(bool, Vec<Problem>), Error>) {
        let trouble = match outcome {
            Ok((false, problems)) if problems.is_empty() => return,
            Ok((true, problems)) if problems.is_empty() => {
                let message = "Sync schedule results to dependencies succeed.";
                return self.tell(about, EventType::Normal, events::SYNC_DEPENDENCIES_SUCCEED, message);
            }
            Ok((_, problems)) => problems.iter().map(ToString::to_string).collect::<Vec<String>>().join("; "),
            Err(error) if error.is_of_a_race() => return,
            Err(error) => error.to_string(),
        };
        self.tell(about, EventType::Warning, events::SYNC_DEPENDENCIES_FAILED, &trouble);
    }
}

#[async_trait::async_trait]
impl Controller for Dependencies {
    type Key = Key;

    fn name(&self) -> &'static str {
        "dependencies-distributor"
    }

    async fn reconcile(&self, key: &Key) -> Result<Action, Error> {
        let Some(binding) = self.binding(key).await? else { return self.let_go(key, None).await };
        if binding.metadata.deletion_timestamp.is_some() || !binding.spec.propagate_deps {
            return self.let_go(key, Some(&binding)).await;
        }
        if !self.follows || attached::is_unplaced(&binding) {
            return Ok(Action::Done);
        }
        let (of, operation) = (&binding.spec.resource, Operation::InterpretDependency);
        let known = self.shared.interpreter.enabled(&of.api_version, &of.kind, operation);
        if !known || template_ownership::out_of_reach(&binding).is_some() {
            return self.let_go(key, Some(&binding)).await;
        }
        let Some(template) = self.template(&binding).await? else { return Ok(Action::Done) };
        let dependencies = match self.shared.interpreter.dependencies(&template) {
            Ok(dependencies) => dependencies,
            // The answer wakes this again; what follows stays until then.
            Err(error) if self.shared.asks(&error)? => return Ok(Action::Done),
            Err(error) => {
                let (about, reason, words) =
                    (Reference::of(&template), events::GET_DEPENDENCIES_FAILED, error.to_string());
                self.tell(&about, EventType::Warning, reason, &words);
                return Err(uninterpreted(&error, words));
            }
        };
        let about = Reference::of(&fetch::to_value(&binding)?);
        let outcome = self.follow(binding, &template, dependencies).await;
        self.tell_outcome(&about, &outcome);
        outcome.map(|_| Action::Done)
    }
}

#[cfg(test)]
mod tests;
