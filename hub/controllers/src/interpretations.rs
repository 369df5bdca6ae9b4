//! Who is woken where templates are to be interpreted anew, and what a controller makes of what the interpreter cannot say.
//!
//! In: changes of customizations and of webhooks' configurations, answers of webhooks, errors of the interpreter. Out: sources that wake; questions that are
//! asked; failures that are tried again when it is time to.

use std::sync::Arc;
use std::time::Duration;

use karmada_api::binding::ObjectReference;
use karmada_api::names;
use karmada_core::interpreter_webhook::WebhookConfiguration;
use karmada_interpreter::{InterpretError, Operation, Question};
use karmada_resource_interpreter::customizations;

use crate::controller_context::ControllerContext;
use crate::port::Key;
use crate::runner::{Error, Source};
use crate::typed::Transition;

/// How long to wait where too many questions are under way.
const CROWDED: Duration = Duration::from_secs(1);

/// The object that a webhook was asked about, and where its binding is, if it has one.
fn asked_about(question: &Question) -> (Key, ObjectReference) {
    let Question { api_version, kind, namespace, name, .. } = question;
    let binding = names::binding_name(kind, name);
    let template = ObjectReference {
        api_version: api_version.clone(),
        kind: kind.clone(),
        namespace: namespace.clone(),
        name: name.clone(),
        ..ObjectReference::default()
    };
    (Key { namespace: namespace.as_str().into(), name: binding.into() }, template)
}

/// What the interpreter cannot say, in `words`, as a failure: where it is known when to ask again, that is not done before.
pub fn uninterpreted(error: &InterpretError, words: String) -> Error {
    match error {
        InterpretError::Outside { again, .. } => Error::Later { words, again: *again },
        _ => Error::Other(words),
    }
}

/// Whether webhooks answer otherwise of templates of a kind since their configuration changed.
fn differs(transition: &Transition<WebhookConfiguration>, api_version: &str, kind: &str) -> bool {
    let of = |state: &WebhookConfiguration| {
        let all = state.webhooks.iter();
        let all = all.filter(|webhook| webhook.concerns(api_version, kind));
        all.cloned().collect::<Vec<_>>()
    };
    let [before, now] =
        [&transition.before, &transition.now].map(|state| state.as_deref().map(of).unwrap_or_default());
    before != now
}

impl ControllerContext {
    /// Wakes what is to be interpreted anew: when a customization changes, or a webhook's configuration, each binding of its kind with the
    /// binding's template; when a webhook was asked one of these operations, the object that it was asked about and its binding, which may not be there.
    pub fn interpretations<K: 'static>(
        &self,
        operations: &'static [Operation],
        wake: impl Fn(Key, ObjectReference) -> Option<K> + Send + Sync + 'static,
    ) -> Source<K> {
        let (bindings, customizations) = (self.bindings.clone(), self.customizations.clone());
        let (configurations, webhooks) =
            (self.webhook_configurations.clone(), self.customized.webhooks.clone());
        let wake = Arc::new(wake);
        Source::told(move |told| {
            let told = Arc::new(move |meant: Vec<(Key, ObjectReference)>| {
                told(meant.into_iter().filter_map(|(key, template)| wake(key, template)).collect());
            });
            let (of, tell) = (bindings.clone(), told.clone());
            customizations.listen(move |transition| {
                if customizations::concerns(transition) {
                    tell(of.to_interpret(|api_version, kind| {
                        transition.states().any(|one| one.kind == kind && one.api_version == api_version)
                    }));
                }
            });
            let tell = told.clone();
            configurations.listen(move |transition| {
                tell(bindings.to_interpret(|api_version, kind| differs(transition, api_version, kind)));
            });
            webhooks.listen(move |question| {
                if operations.contains(&question.operation) {
                    told(vec![asked_about(question)]);
                }
            });
        })
    }

    /// Has the webhook asked of which the interpreter waits for an answer. Whether it is so: what waits is woken by the answer.
    ///
    /// # Errors
    /// It waits for one, and too much is being asked just now.
    pub fn asks(&self, error: &InterpretError) -> Result<bool, Error> {
        let InterpretError::Unanswered(question) = error else { return Ok(false) };
        if self.customized.webhooks.ask(question) {
            return Ok(true);
        }
        let words = format!("webhook {:?} is not asked yet: too many questions are under way", question.whom);
        Err(Error::Later { words, again: CROWDED })
    }
}
