//! What is configured by objects, asked in its order: mutating webhooks, policies, validating webhooks.
//!
//! In: a write on its way, and the webhooks and policies as they are now. Out: the object as the mutating webhooks leave it, with warnings
//! and notes for the audit log; or the first refusal in their order. Webhooks are called over the network; policies compute on the thread.
//!
//! Mutating webhooks are called one after the other in the order of their configurations' names; those whose `reinvocationPolicy` is
//! `IfNeeded` a second time where the object changed after them. Validating ones are called at once.

use std::collections::HashMap;
use std::sync::Arc;

use futures::stream::{self, StreamExt as _};
use karmada_definitions::resource::ResourceDefinition;
use karmada_definitions::status::Status;
use serde_json::{Value, json};

use super::configuration::{Configured, DynamicAdmission};
use super::expressions::RequestVariables;
use super::policies::{Binding, is_review, namespace_of, note, refusal};
use super::webhooks::{AT_ONCE, Hook, WebhookKind};
use super::{AdmissionChain, review};
use crate::block_in_place::apart;
use crate::registry_context::RegistryContext;
use crate::request::AdmissionRequest;

impl DynamicAdmission {
    /// Lets the mutating webhooks change the object.
    ///
    /// # Errors
    /// One said no, or could not be asked and must.
    pub(crate) async fn mutate(
        &self,
        context: &RegistryContext,
        chain: &AdmissionChain,
        configured: &Configured,
        request: &mut AdmissionRequest<'_>,
    ) -> Result<(), Status> {
        // Which webhooks want to see the object again, and how it was when they last saw it.
        let mut asked: Vec<(&Hook, Value)> = Vec::new();
        let mut changed = false;
        for (index, hook) in configured.mutating().enumerate() {
            let Some(did) = self.mutate_by(context, hook, request).await? else { continue };
            if request.warnings.takes_notes() {
                let told = json!({"configuration": hook.configuration, "webhook": hook.name, "mutated": did});
                let key = format!("mutation.webhook.admission.k8s.io/round_0_index_{index}");
                request.warnings.note(key, told.to_string());
            }
            changed |= did;
            if hook.reinvoked {
                asked.push((hook, request.object.clone()));
            }
        }
        if !changed {
            return Ok(());
        }
        chain.admit(context, request)?;
        let mut again = false;
        for (hook, seen) in asked {
            if seen != *request.object {
                again |= self.mutate_by(context, hook, request).await?.unwrap_or_default();
            }
        }
        if again { chain.admit(context, request) } else { Ok(()) }
    }

    /// Whether the webhook changed the object; `None` where it was not asked.
    async fn mutate_by(
        &self,
        context: &RegistryContext,
        hook: &Hook,
        request: &mut AdmissionRequest<'_>,
    ) -> Result<Option<bool>, Status> {
        let Some((answer, seen)) =
            hook.ask(&self.authorizer, context, request, WebhookKind::Mutating).await?
        else {
            return Ok(None);
        };
        request.warnings.extend(answer.warnings);
        let Some(new) = answer.changed else { return Ok(Some(false)) };
        let before = request.object.clone();
        review::take(context, request, &seen, new).await?;
        Ok(Some(before != *request.object))
    }

    /// Asks the validating webhooks.
    ///
    /// # Errors
    /// One said no, or could not be asked and must.
    pub(crate) async fn validate(
        &self,
        context: &RegistryContext,
        configured: &Configured,
        request: &mut AdmissionRequest<'_>,
    ) -> Result<(), Status> {
        let asked = &*request;
        let asking: Vec<_> = configured
            .validating()
            .map(|hook| hook.ask(&self.authorizer, context, asked, WebhookKind::Validating))
            .collect();
        let mut answers = stream::iter(asking).buffered(AT_ONCE);
        let mut refused = None;
        while let Some(answer) = answers.next().await {
            match answer {
                Ok(Some((answer, _))) => asked.warnings.extend(answer.warnings),
                Ok(None) => {}
                Err(status) => {
                    refused.get_or_insert(status);
                }
            }
        }
        refused.map_or(Ok(()), Err)
    }
}

impl DynamicAdmission {
    /// Asks the policies.
    ///
    /// # Errors
    /// A rule of one that denies was not passed.
    pub(crate) async fn judge(
        &self,
        context: &RegistryContext,
        configured: &Configured,
        request: &mut AdmissionRequest<'_>,
    ) -> Result<(), Status> {
        if configured.bindings().next().is_none() || is_review(request.definition) {
            return Ok(());
        }
        let mut denied: Option<Status> = None;
        let mut by_policy: HashMap<&str, Vec<&Binding>> = HashMap::new();
        for binding in configured.bindings() {
            by_policy.entry(&binding.policy).or_default().push(binding);
        }
        // By the version that policies see the request in: nearly always one.
        let mut variables: Vec<(Arc<ResourceDefinition>, RequestVariables)> = Vec::new();
        for policy in configured.policies() {
            let Some(bindings) = by_policy.get(&*policy.name) else { continue };
            let Some(seen) = policy.matching.matches(context, request)? else { continue };
            let at = match variables.iter().position(|(known, _)| Arc::ptr_eq(known, &seen)) {
                Some(at) => at,
                None => {
                    let shown = review::shown(context, request, &seen).await?;
                    let about = review::about(request, &seen, "");
                    let namespace = namespace_of(context, request);
                    variables
                        .push((seen, apart(|| RequestVariables::of(request, &shown, &about, &namespace))));
                    variables.len() - 1
                }
            };
            let variables = &variables[at].1;
            let found = apart(|| policy.judge_all(bindings, context, request, variables, &self.authorizer))?;
            if request.warnings.takes_notes() {
                note(policy, &found, request);
            }
            let failures = found.into_iter().flat_map(|(binding, found)| {
                found.failures.into_iter().map(move |failure| (binding, failure))
            });
            for (binding, failure) in failures {
                let who =
                    format!("ValidatingAdmissionPolicy '{}' with binding '{}'", policy.name, binding.name);
                if binding.actions.contains("Warn") {
                    request.warnings.add(format!("Validation failed for {who}: {}", failure.message));
                }
                if binding.actions.contains("Deny") && denied.is_none() {
                    let message = format!("{who} denied request: {}", failure.message);
                    denied = Some(refusal(request, message, failure.reason));
                }
            }
        }
        denied.map_or(Ok(()), Err)
    }
}
