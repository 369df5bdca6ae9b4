//! Detector: every template finds its policy, and gets its binding. `karmada-core` decides; this reads, writes and tells. In: a template,
//! and the policies of its namespace and of all. Out: the template with its claim, its binding, an event.
//!
//! Woken by any change of any kind that may be propagated, its status aside, by the policy controller when a policy changes, and by a binding that
//! goes or is edited. A template's status concerns the controller of statuses alone, which is told of it from here.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use karmada_api::binding::ResourceBinding;
use karmada_api::policy::PropagationPolicy;
use karmada_api::strings::{annotations, events, labels};
use karmada_api::{names, object};
use karmada_core::detector::{self, BindingChange, BindingError, Decision, Takeover, activation};
use karmada_core::skipped_resources::SkipRules;
use karmada_core::{kind_facts, service_import};
use karmada_interpreter::{InterpretError, Operation};
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::controller_context::ControllerContext;
use crate::events::{EventType, Reference};
use crate::fetch::{self, kinds};
use crate::indexes::claims;
use crate::informer::{AnyHandler, Informers, Notice};
use crate::interpretations::uninterpreted;
use crate::karmada_metrics::Measure;
use crate::port::{ApiError, Change, DeletionPropagation, Key, Object, Resource, TemplateKey};
use crate::queue::{Queue, WorkQueue};
use crate::runner::{Action, Controller, Error, Source};
use crate::scheduler::Scheduler;

/// How long to wait before looking again for override policies that a policy depends on.
const OVERRIDES_WAIT: Duration = Duration::from_secs(5);

/// How long to wait for a binding to go before a new one takes its place.
const REPLACE_WAIT: Duration = Duration::from_millis(500);

/// The controller.
pub struct Detector {
    shared: Arc<ControllerContext>,
    skip: SkipRules,
    takeover: Takeover,
    readers: TemplateReaders,
}

/// Whom a template concerns beside its binding. Queues are of the controllers that read it, to be woken where it changes and its binding does not.
pub struct TemplateReaders {
    /// Who says where a new binding goes before it is written; where nobody does, it is decided once the binding is there.
    pub scheduler: Option<Arc<Scheduler>>,
    /// The queue of who makes Works.
    pub works: Arc<Queue<Key>>,
    /// The queue of who makes statuses.
    pub statuses: Arc<Queue<Key>>,
    /// How long changes settle before statuses are made.
    pub debounce: Duration,
}

impl Detector {
    /// A detector that skips what `skip` says.
    pub fn new(
        shared: Arc<ControllerContext>,
        skip: SkipRules,
        takeover: Takeover,
        readers: TemplateReaders,
    ) -> Arc<Self> {
        Arc::new(Detector { shared, skip, takeover, readers })
    }

    /// A changed customization or webhook wakes the templates of its kind that have bindings: their replicas may be others. What a webhook was asked
    /// of a template wakes that.
    pub fn interpretations(shared: &ControllerContext) -> Source<TemplateKey> {
        let api = shared.api.clone();
        shared.interpretations(
            &[Operation::InterpretReplica, Operation::InterpretComponent],
            move |_, template| {
                let resource = api.resource_of(&template.api_version, &template.kind)?;
                let key = Key { namespace: template.namespace.into(), name: template.name.into() };
                Some(TemplateKey { resource, key })
            },
        )
    }

    /// A binding that goes, or in which somebody changes what this controller writes, wakes its template: it is made again, or put right.
    pub fn edited_bindings(shared: &ControllerContext) -> Source<TemplateKey> {
        let api = shared.api.clone();
        shared.bindings.edited(move |template| {
            let resource = api.resource_of(&template.api_version, &template.kind)?;
            let key =
                Key { namespace: template.namespace.as_str().into(), name: template.name.as_str().into() };
            Some(TemplateKey { resource, key })
        })
    }

    /// Fills the queue from every kind that may be propagated, until told to stop: what wakes this controller.
    pub async fn wakes(
        self: Arc<Self>,
        informers: Informers,
        queue: Arc<Queue<TemplateKey>>,
        stop: CancellationToken,
    ) {
        let skip = &self.skip;
        let wanted = |resource: &Resource| !skip.skips_kind(&resource.api_version(), &resource.kind);
        let (of_templates, of_statuses) = (self.clone(), self.clone());
        let templates: AnyHandler = Arc::new(move |resource, change| {
            of_templates.shared.claims.observe(resource, change);
            if let Some(key) = of_templates.template(resource, change) {
                queue.add(key);
            }
        });
        let statuses: AnyHandler = Arc::new(move |resource, change| {
            let Some(template) = of_statuses.template(resource, change) else { return };
            let name = names::binding_name(&template.resource.kind, &template.key.name);
            let binding = Key { namespace: template.key.namespace, name: name.into() };
            if of_statuses.shared.bindings.contains(&binding) {
                of_statuses.readers.statuses.add_after(binding, of_statuses.readers.debounce);
            }
        });
        tokio::join!(
            informers.handle_all(wanted, Notice::ButStatus, &stop, templates),
            informers.handle_all(wanted, Notice::OnlyStatus, &stop, statuses),
        );
    }

    /// The template that changed. One that is gone takes its binding along through the garbage collector.
    fn template(&self, resource: &Resource, change: &Change) -> Option<TemplateKey> {
        let Change::Applied(object) = change else { return None };
        let concerns = !object.deleting && !self.skip.skips_namespace(&object.key.namespace);
        concerns.then(|| TemplateKey { resource: resource.clone(), key: object.key.clone() })
    }

    async fn claimed(
        &self,
        at: &TemplateKey,
        template: Value,
        policy: &PropagationPolicy,
    ) -> Result<Action, Error> {
        let missing = self.missing_overrides(policy);
        if !missing.is_empty() {
            let message = format!("waiting for dependent overrides: {}", missing.join(", "));
            self.tell(&template, EventType::Warning, events::APPLY_POLICY_FAILED, &message);
            return Ok(Action::RequeueAfter(OVERRIDES_WAIT));
        }
        let priority = match self.priority(policy).await? {
            Ok(priority) => priority,
            Err(message) => {
                self.tell(&template, EventType::Warning, events::APPLY_POLICY_FAILED, &message);
                return Ok(Action::RequeueAfter(OVERRIDES_WAIT));
            }
        };
        let mut template = template;
        let mut changed = detector::claim(&mut template, policy);
        if activation::is_lazy(policy) || object::annotation(&template, annotations::LAZILY_SEEN).is_some() {
            let binding = self.binding_of(&template).await?;
            changed |= activation::note_template_digest(&mut template, policy, binding.as_ref());
        }
        if !changed {
            return self.write_binding(&template, policy, priority).await;
        }
        // Side by side: both say the same, and whichever fails is done again.
        let (claimed, bound) = tokio::join!(
            self.shared.api.update(&at.resource, template.clone()),
            self.write_binding(&template, policy, priority),
        );
        claimed?;
        bound
    }

    async fn binding_of(&self, template: &Value) -> Result<Option<ResourceBinding>, Error> {
        let namespace = object::namespace(template);
        let resource = kinds::bindings(&*self.shared.api, namespace)?;
        let name = names::binding_name(object::kind(template), object::name(template));
        fetch::get(&*self.shared.api, &resource, namespace, &name).await
    }

    /// The same, where the policy takes the template from another.
    async fn taken_over(
        &self,
        at: &TemplateKey,
        template: Value,
        policy: &PropagationPolicy,
        from: &PropagationPolicy,
    ) -> Result<Action, Error> {
        let about = Reference::of(&template);
        let outcome = self.claimed(at, template, policy).await;
        let path = |policy: &PropagationPolicy| names::namespaced_key(policy.namespace(), policy.name());
        let (by, from) = (path(policy), path(from));
        match &outcome {
            Ok(_) => {
                let message = format!("policy {by} took the resource over from {from}");
                self.shared.recorder.record(
                    &about,
                    EventType::Normal,
                    events::PREEMPT_POLICY_SUCCEED,
                    &message,
                );
            }
            Err(error) if error.is_of_a_race() => {}
            Err(error) => {
                let message = format!("policy {by} could not take the resource over from {from}: {error}");
                self.shared.recorder.record(
                    &about,
                    EventType::Warning,
                    events::PREEMPT_POLICY_FAILED,
                    &message,
                );
            }
        }
        outcome
    }

    async fn write_binding(
        &self,
        template: &Value,
        policy: &PropagationPolicy,
        priority: Option<i32>,
    ) -> Result<Action, Error> {
        let api = &*self.shared.api;
        let namespace = object::namespace(template);
        let resource = kinds::bindings(api, namespace)?;
        let name = names::binding_name(object::kind(template), object::name(template));
        let existing = self.binding_of(template).await?;
        let change =
            detector::plan_binding(template, policy, existing.as_ref(), self.shared.reading(), priority);
        let written = match change {
            Ok(BindingChange::Nothing) => {
                let key = Key { namespace: namespace.into(), name: name.into() };
                self.readers.works.add(key.clone());
                self.readers.statuses.add_after(key, self.readers.debounce);
                return Ok(Action::Done);
            }
            Ok(BindingChange::Replace) => {
                let key = Key { namespace: namespace.into(), name: name.into() };
                let uid = existing.and_then(|binding| binding.metadata.uid).unwrap_or_default();
                match api.delete(&resource, &key, &uid, DeletionPropagation::Background).await {
                    Ok(()) | Err(ApiError::NotFound(_)) => return Ok(Action::RequeueAfter(REPLACE_WAIT)),
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(BindingChange::Create(binding)) => self.create_binding(&resource, &binding).await?,
            Ok(BindingChange::Update(binding)) => api.update(&resource, fetch::to_value(&binding)?).await,
            Err(error @ BindingError::OtherOwner { .. }) => return Err(Error::Other(error.to_string())),
            Err(error @ BindingError::OtherKind { .. }) => {
                self.tell(template, EventType::Warning, events::APPLY_POLICY_FAILED, &error.to_string());
                return Err(Error::Other(error.to_string()));
            }
            Err(BindingError::Interpret(error)) => return self.uninterpreted(template, &error),
        };
        match written {
            Ok(written) => {
                self.shared.bindings.observe_detected(&written);
                let kind = if policy.namespace().is_empty() { "ClusterPropagationPolicy" } else { "policy" };
                let path = names::namespaced_key(policy.namespace(), policy.name());
                let message = format!("Apply {kind}({path}) succeed");
                self.tell(template, EventType::Normal, events::APPLY_POLICY_SUCCEED, &message);
                Ok(Action::Done)
            }
            Err(error) => {
                if !error.is_of_a_race() {
                    self.tell(template, EventType::Warning, events::APPLY_POLICY_FAILED, &error.to_string());
                }
                Err(error.into())
            }
        }
    }

    /// Creates a binding, with its clusters where they can be told at once. Where the hub does not take those, a quota maybe, it is created without:
    /// the scheduler says why.
    async fn create_binding(
        &self,
        resource: &Resource,
        binding: &ResourceBinding,
    ) -> Result<Result<Arc<Object>, ApiError>, Error> {
        let api = &*self.shared.api;
        if let Some(scheduler) = &self.readers.scheduler
            && let Ok(Some(placed)) = scheduler.first_placement(binding).await
        {
            match api.create(resource, fetch::to_value(&placed)?).await {
                Ok(written) => {
                    scheduler.was_created(binding, &placed, written.clone());
                    return Ok(Ok(written));
                }
                Err(ApiError::Forbidden { .. } | ApiError::Invalid(_)) => {}
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(api.create(resource, fetch::to_value(binding)?).await)
    }

    /// A policy that is there and could not be read since the hub began may be the one that means the template: until it can be, nobody else gets
    /// the template, and no mark goes.
    fn can_read_policies(&self, template: &Value, decision: &Decision<'_>) -> Result<(), Error> {
        let stays = match decision {
            Decision::Leave | Decision::TakenOver(..) => true,
            Decision::Claimed(policy) => claims::claim_label_of(policy)
                .is_some_and(|(key, id)| object::label(template, key) == Some(&*id)),
            Decision::Waits => false,
        };
        let namespace = object::namespace(template);
        let near = if namespace.is_empty() { Vec::new() } else { self.shared.policies.never_read(namespace) };
        // One for the whole fleet comes behind any of the namespace, unless it has the template already.
        let is_near = matches!(decision, Decision::Claimed(policy) if !policy.namespace().is_empty())
            && object::label(template, labels::CLUSTER_PROPAGATION_POLICY_ID).is_none();
        let wide = if is_near { Vec::new() } else { self.shared.policies.never_read("") };
        let Some(name) = near.first().or(wide.first()).filter(|_| !stays) else { return Ok(()) };
        let kind = if near.is_empty() { "ClusterPropagationPolicy" } else { "PropagationPolicy" };
        let words = format!(
            "the {kind} {name} cannot be read: which policy the resource has is not decided until it can be"
        );
        self.tell(template, EventType::Warning, events::APPLY_POLICY_FAILED, &words);
        Err(Error::Other(words))
    }

    /// No policy means the template: marks of a claim go, from its binding too; what runs in members stays. Either may have lost its own by
    /// somebody's hand.
    async fn waits(&self, at: &TemplateKey, mut template: Value) -> Result<Action, Error> {
        let api = &*self.shared.api;
        let name = names::binding_name(object::kind(&template), object::name(&template));
        let binding = Key { namespace: at.key.namespace.clone(), name: name.into() };
        let is_claimed = detector::unclaim(&mut template);
        if is_claimed || self.shared.bindings.contains(&binding) {
            let Key { namespace, name } = &binding;
            let resource = kinds::bindings(api, namespace)?;
            if let Some(mut binding) = fetch::get::<Value>(api, &resource, namespace, name).await?
                && detector::unclaim(&mut binding)
            {
                api.update(&resource, binding).await?;
            }
        }
        if is_claimed {
            api.update(&at.resource, template).await?;
            return Ok(Action::Done);
        }
        if !waits_unnoticed(&template) {
            self.tell(
                &template,
                EventType::Warning,
                events::APPLY_POLICY_FAILED,
                events::NO_POLICY_MATCH_MESSAGE,
            );
        }
        Ok(Action::Done)
    }

    /// Nothing is written of a template that cannot be read; where a webhook is to be asked first, it is, and wakes this again.
    fn uninterpreted(&self, template: &Value, error: &InterpretError) -> Result<Action, Error> {
        if self.shared.asks(error)? {
            return Ok(Action::Done);
        }
        let words = BindingError::Interpret(error.clone()).to_string();
        self.tell(template, EventType::Warning, events::APPLY_POLICY_FAILED, &words);
        Err(uninterpreted(error, words))
    }

    fn missing_overrides(&self, policy: &PropagationPolicy) -> Vec<String> {
        if policy.spec.dependent_overrides.is_empty() {
            return Vec::new();
        }
        let all = self.shared.overrides.all(policy.namespace());
        let existing: BTreeSet<String> = all.iter().map(|o| o.name().to_owned()).collect();
        detector::missing_overrides(policy, &existing)
    }

    /// The value of the policy's PriorityClass; the inner error says that it does not exist.
    async fn priority(&self, policy: &PropagationPolicy) -> Result<Result<Option<i32>, String>, Error> {
        let Some(source) = &policy.spec.schedule_priority else { return Ok(Ok(None)) };
        let api = &*self.shared.api;
        let Some(resource) = api.resource_of("scheduling.k8s.io/v1", "PriorityClass") else {
            return Ok(Ok(None));
        };
        let class: Option<Value> = fetch::get(api, &resource, "", &source.priority_class_name).await?;
        Ok(match class.and_then(|class| class["value"].as_i64()) {
            Some(value) => Ok(i32::try_from(value).ok()),
            None => Err(format!("the PriorityClass {} does not exist", source.priority_class_name)),
        })
    }

    fn tell(&self, template: &Value, kind: EventType, reason: &str, message: &str) {
        self.shared.recorder.record(&Reference::of(template), kind, reason, message);
    }
}

/// Of kinds that the hub itself needs, nobody wants to hear that they wait for a policy: namespaces go along without one,
/// and definitions serve the hub first. What is there for who imports a Service follows that one.
fn waits_unnoticed(object: &Value) -> bool {
    kind_facts::of_name(object::kind(object)).serves_the_hub || service_import::is_made_for_importers(object)
}

#[async_trait::async_trait]
impl Controller for Detector {
    type Key = TemplateKey;

    fn name(&self) -> &'static str {
        "resource-detector"
    }

    async fn reconcile(&self, at: &TemplateKey) -> Result<Action, Error> {
        let api = &*self.shared.api;
        let found: Option<Value> = fetch::get(api, &at.resource, &at.key.namespace, &at.key.name).await?;
        let Some(template) = found.filter(|template| !object::deleting(template)) else {
            return Ok(Action::Done);
        };
        let near = self.shared.policies.all(&at.key.namespace);
        let wide = self.shared.policies.all("");
        let begun = Instant::now();
        let decision = detector::decide(&template, &near, &wide, &self.skip, self.takeover);
        self.shared.metrics.note(Measure::MatchPolicy, true, begun.elapsed());
        let policy = match &decision {
            Decision::Claimed(policy) | Decision::TakenOver(policy, _) => policy.name(),
            _ => "none",
        };
        tracing::debug!(
            kind = &*at.resource.kind,
            namespace = &*at.key.namespace,
            name = &*at.key.name,
            policy,
            "policy decided"
        );
        self.can_read_policies(&template, &decision)?;
        match decision {
            // Where something else places it, its Works are made of it all the same.
            Decision::Leave => {
                let name = names::binding_name(object::kind(&template), object::name(&template));
                let binding = Key { namespace: at.key.namespace.clone(), name: name.into() };
                if self.shared.bindings.contains(&binding) {
                    self.readers.works.add(binding);
                }
                Ok(Action::Done)
            }
            Decision::Claimed(policy) => {
                let claimed = self.claimed(at, template.clone(), policy);
                self.shared.metrics.timed(Measure::ApplyPolicy, claimed).await
            }
            Decision::TakenOver(policy, from) => {
                let taken_over = self.taken_over(at, template.clone(), policy, from);
                self.shared.metrics.timed(Measure::Preemption, taken_over).await
            }
            Decision::Waits => self.waits(at, template.clone()).await,
        }
    }
}

#[cfg(test)]
mod tests;
