//! Detector: every template finds its policy, and gets its binding (behaviour 1–21). `karmada-core` decides; this reads, writes
//! and tells.
//!
//! Woken by any change of any kind that may be propagated, and by [`crate::policy`] when a policy changes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use karmada_api::binding::ResourceBinding;
use karmada_api::policy::PropagationPolicy;
use karmada_api::strings::events;
use karmada_api::{names, object};
use karmada_core::detector::{self, BindingChange, BindingError, Decision};
use karmada_core::skip::SkipRules;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::events::{EventType, Reference};
use crate::fetch::{self, kinds};
use crate::informer;
use crate::policies::Shared;
use crate::port::{ApiError, Change, Key, Resource};
use crate::queue::Queue;
use crate::runner::{Action, Controller, Error};

/// How long to wait before looking again for override policies that a policy depends on.
const OVERRIDES_WAIT: Duration = Duration::from_secs(5);

/// Which template.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TemplateKey {
    /// Its resource.
    pub resource: Resource,
    /// Where it stands.
    pub key: Key,
}

/// The controller.
pub struct Detector {
    shared: Arc<Shared>,
    skip: SkipRules,
    bindings: [(Arc<Queue<Key>>, Duration); 2],
}

impl Detector {
    /// A detector that skips what `skip` says. `bindings` are the queues of those who make Works and statuses of bindings, and how
    /// long each lets changes settle: a change of a template that leaves its binding as it is concerns them all the same.
    pub fn new(
        shared: Arc<Shared>,
        skip: SkipRules,
        bindings: [(Arc<Queue<Key>>, Duration); 2],
    ) -> Arc<Self> {
        Arc::new(Detector { shared, skip, bindings })
    }

    /// Fills the queue from every kind that may be propagated, until told to stop.
    pub async fn watch(self: Arc<Self>, queue: Arc<Queue<TemplateKey>>, stop: CancellationToken) {
        let skip = self.skip.clone();
        let wanted = move |resource: &Resource| !skip.skips_kind(&resource.api_version(), &resource.kind);
        let skip = self.skip.clone();
        let handler = Arc::new(move |resource: &Resource, change: Change| {
            // A template that is gone takes its binding along through the garbage collector.
            let Change::Applied(object) = change else { return };
            if !skip.skips_namespace(&object.key.namespace) && !object.deleting {
                queue.add(TemplateKey { resource: resource.clone(), key: object.key.clone() });
            }
        });
        informer::run_all(self.shared.api.clone(), wanted, &stop, handler).await;
    }

    async fn claimed(
        &self,
        at: &TemplateKey,
        template: Value,
        policy: &PropagationPolicy,
    ) -> Result<Action, Error> {
        let missing = self.missing_overrides(policy).await?;
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
        if !detector::claim(&mut template, policy) {
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
        let existing: Option<ResourceBinding> = fetch::get(api, &resource, namespace, &name).await?;
        let change =
            detector::binding(template, policy, existing.as_ref(), &*self.shared.interpreter, priority);
        let written = match change {
            Ok(BindingChange::Nothing) => {
                let key = Key { namespace: namespace.into(), name: name.into() };
                self.bindings.iter().for_each(|(queue, settle)| queue.add_after(key.clone(), *settle));
                return Ok(Action::Done);
            }
            Ok(BindingChange::Create(binding)) => api.create(&resource, fetch::to_value(&binding)?).await,
            Ok(BindingChange::Update(binding)) => api.update(&resource, fetch::to_value(&binding)?).await,
            Err(error @ BindingError::OtherOwner { .. }) => return Err(Error::Other(error.to_string())),
            Err(error @ BindingError::Interpret(_)) => {
                self.tell(template, EventType::Warning, events::APPLY_POLICY_FAILED, &error.to_string());
                return Err(Error::Other(error.to_string()));
            }
        };
        match written {
            Ok(_) => {
                let kind = if policy.namespace().is_empty() { "ClusterPropagationPolicy" } else { "policy" };
                let path = names::namespaced_key(policy.namespace(), policy.name());
                let message = format!("Apply {kind}({path}) succeed");
                self.tell(template, EventType::Normal, events::APPLY_POLICY_SUCCEED, &message);
                Ok(Action::Done)
            }
            Err(error) => {
                if !matches!(error, ApiError::Conflict(_) | ApiError::AlreadyExists(_)) {
                    self.tell(template, EventType::Warning, events::APPLY_POLICY_FAILED, &error.to_string());
                }
                Err(error.into())
            }
        }
    }

    /// No policy means the template: marks of a claim go, from its binding too; what runs in members stays.
    async fn waits(&self, at: &TemplateKey, mut template: Value) -> Result<Action, Error> {
        if detector::unclaim(&mut template) {
            let api = &*self.shared.api;
            let namespace = object::namespace(&template);
            let resource = kinds::bindings(api, namespace)?;
            let name = names::binding_name(object::kind(&template), object::name(&template));
            if let Some(mut binding) = fetch::get::<Value>(api, &resource, namespace, &name).await?
                && detector::unclaim(&mut binding)
            {
                api.update(&resource, binding).await?;
            }
            api.update(&at.resource, template).await?;
            return Ok(Action::Done);
        }
        if !waits_unnoticed(&template) {
            self.tell(
                &template,
                EventType::Warning,
                events::APPLY_POLICY_FAILED,
                "No policy match for resource",
            );
        }
        Ok(Action::Done)
    }

    async fn missing_overrides(&self, policy: &PropagationPolicy) -> Result<Vec<String>, Error> {
        if policy.spec.dependent_overrides.is_empty() {
            return Ok(Vec::new());
        }
        let namespace = policy.namespace();
        let all = if namespace.is_empty() {
            self.shared.cluster_overrides().await?
        } else {
            self.shared.overrides().await?
        };
        let existing: BTreeSet<String> =
            all.iter().filter(|o| o.namespace() == namespace).map(|o| o.name().to_owned()).collect();
        Ok(detector::missing_overrides(policy, &existing))
    }

    /// The value of the policy's PriorityClass; the inner error says that it does not exist (behaviour 14).
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
/// and definitions serve the hub first.
fn waits_unnoticed(object: &Value) -> bool {
    matches!(object::kind(object), "Namespace" | "CustomResourceDefinition")
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
        let (policies, cluster_policies) =
            (self.shared.policies().await?, self.shared.cluster_policies().await?);
        let decision = detector::decide(&template, &policies, &cluster_policies, &self.skip);
        let policy = match &decision {
            Decision::Claimed(policy) => policy.name(),
            _ => "none",
        };
        tracing::debug!(
            kind = &*at.resource.kind,
            namespace = &*at.key.namespace,
            name = &*at.key.name,
            policy,
            "policy decided"
        );
        match decision {
            Decision::Leave => Ok(Action::Done),
            Decision::Claimed(policy) => self.claimed(at, template.clone(), policy).await,
            Decision::Waits => self.waits(at, template.clone()).await,
        }
    }
}
