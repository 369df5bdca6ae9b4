//! When a policy with `activationPreference: Lazy` takes effect: with the next change that a person makes to the template.
//!
//! In: a template, the policy that has it, its binding. Out: whether the policy acts now, and the mark to keep: a digest of the template as
//! people wrote it when the policy acted last, or began to wait. The mark is kept in the binding, or in the template where there is none yet, so
//! that a hub that is started anew takes neither its start for a person's change nor a change that was made meanwhile for none.

use jiff::Timestamp;
use karmada_api::binding::ResourceBinding;
use karmada_api::object;
use karmada_api::policy::{ActivationPreference, PropagationPolicy};
use karmada_api::strings::{annotations, labels};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// Whether the binding is made to say what the policy says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// Now.
    Now,
    /// Once a person changes the template. Until then the binding says what it said, or there is none.
    WithTheNextChange,
}

/// When the policy that has a template acts; `binding` is the template's, where it has one.
pub fn decide(template: &Value, policy: &PropagationPolicy, binding: Option<&ResourceBinding>) -> Activation {
    if !is_lazy(policy) {
        return Activation::Now;
    }
    let acts = match seen(template, binding) {
        Some(seen) => seen != written(template),
        // What was made after the policy was last changed is a person's change.
        None => binding.is_none() && is_made_after(template, policy),
    };
    if acts { Activation::Now } else { Activation::WithTheNextChange }
}

/// The digest of the template that its binding is to bear; `None` where its policy is not lazy.
pub(super) fn template_digest(template: &Value, policy: &PropagationPolicy) -> Option<String> {
    is_lazy(policy).then(|| written(template))
}

/// Notes its digest on a template that waits and has no binding to bear it, and takes it off one whose policy is not lazy. Whether it changed. A
/// template that waits no more keeps it: where the binding cannot be written now, the person's change is still seen the next time.
pub fn note_template_digest(
    template: &mut Value,
    policy: &PropagationPolicy,
    binding: Option<&ResourceBinding>,
) -> bool {
    let Some(digest) = template_digest(template, policy) else {
        return object::remove_annotation(template, annotations::LAZILY_SEEN);
    };
    let waits = binding.is_none() && decide(template, policy, binding) == Activation::WithTheNextChange;
    if !waits || object::annotation(template, annotations::LAZILY_SEEN) == Some(&digest) {
        return false;
    }
    object::set_annotation(template, annotations::LAZILY_SEEN, &digest);
    true
}

/// Whether changes of the policy wait for a change of the template.
pub fn is_lazy(policy: &PropagationPolicy) -> bool {
    policy.spec.activation_preference == Some(ActivationPreference::Lazy)
}

/// The binding's mark counts before the template's: who replaces a template whole takes the marks in it away.
fn seen<'a>(template: &'a Value, binding: Option<&'a ResourceBinding>) -> Option<&'a str> {
    let borne =
        binding.and_then(|binding| binding.metadata.annotations.as_ref()?.get(annotations::LAZILY_SEEN));
    borne.map(String::as_str).or_else(|| object::annotation(template, annotations::LAZILY_SEEN))
}

/// Times of objects are whole seconds: what came within one came together.
fn is_made_after(template: &Value, policy: &PropagationPolicy) -> bool {
    let made = object::get(template, &["metadata", "creationTimestamp"]).and_then(Value::as_str);
    let made: Option<Timestamp> = made.and_then(|made| made.parse().ok());
    made.is_none_or(|made| last_changed(policy).is_none_or(|changed| made >= changed))
}

/// When a person last wrote the policy, as far as its managers tell.
fn last_changed(policy: &PropagationPolicy) -> Option<Timestamp> {
    let written = policy.metadata.managed_fields.iter().flatten();
    let written = written.filter(|entry| entry.subresource.as_deref().unwrap_or_default().is_empty());
    let times = written.filter_map(|entry| entry.time.as_ref()).map(|time| time.0);
    times.max().or(policy.metadata.creation_timestamp.as_ref().map(|time| time.0))
}

/// A digest of what people write of a template: all of it but its status and what the API server and Karmada's own parts keep in its metadata.
/// Whether its namespace goes along counts as a person's word.
fn written(template: &Value) -> String {
    let is_a_persons = |key: &str| {
        let domain = key.split_once('/').map_or("", |(domain, _)| domain);
        let is_ours = domain == "karmada.io" || domain.ends_with(".karmada.io");
        !is_ours || key == labels::SKIP_AUTO_PROPAGATION
    };
    let kept = |field: &str| -> Map<String, Value> {
        let all = object::get(template, &["metadata", field]).and_then(Value::as_object);
        let kept = all.into_iter().flatten().filter(|(key, _)| is_a_persons(key));
        kept.map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    let mut all = template.as_object().cloned().unwrap_or_default();
    for field in ["apiVersion", "metadata", "status"] {
        all.remove(field);
    }
    all.insert("labels".to_owned(), Value::Object(kept("labels")));
    all.insert("annotations".to_owned(), Value::Object(kept("annotations")));
    // Members of JSON objects are held sorted: the same object is the same text.
    let digest = Sha256::digest(Value::Object(all).to_string());
    digest[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn policy(preference: &Value, changed: &str) -> PropagationPolicy {
        serde_json::from_value(
            json!({"metadata": {"name": "p", "namespace": "n", "creationTimestamp": "2026-01-01T00:00:00Z",
                "managedFields": [{"manager": "kubectl", "operation": "Update", "time": changed}]},
            "spec": {"resourceSelectors": [], "activationPreference": preference}}),
        )
        .unwrap()
    }

    fn template() -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "web", "creationTimestamp": "2026-01-01T00:00:10Z", "resourceVersion": "7",
                "labels": {"app": "web"}, "annotations": {"note": "a"}},
            "data": {"a": "b"}})
    }

    fn binding(digest: Option<String>) -> ResourceBinding {
        let noted: Vec<_> =
            digest.into_iter().map(|digest| (annotations::LAZILY_SEEN.to_owned(), digest)).collect();
        let mut binding = ResourceBinding::default();
        binding.metadata.annotations = Some(noted.into_iter().collect());
        binding
    }

    #[test]
    fn statement_17_what_is_made_after_a_lazy_policy_is_placed_at_once_and_what_was_there_is_not() {
        let lazy = |changed| decide(&template(), &policy(&json!("Lazy"), changed), None);
        assert_eq!(lazy("2026-01-01T00:00:09Z"), Activation::Now);
        assert_eq!(lazy("2026-01-01T00:00:10Z"), Activation::Now, "within one second");
        assert_eq!(lazy("2026-01-01T00:00:11Z"), Activation::WithTheNextChange);
        let before = policy(&json!("Lazy"), "2026-01-01T00:00:09Z");
        let placed = decide(&template(), &before, Some(&binding(None)));
        assert_eq!(placed, Activation::WithTheNextChange, "another policy placed it");
        let eager = policy(&Value::Null, "2026-01-01T00:00:11Z");
        assert_eq!(decide(&template(), &eager, None), Activation::Now);
    }

    #[test]
    fn statement_17_a_persons_change_of_the_template_and_nothing_else_activates() {
        let lazy = policy(&json!("Lazy"), "2026-01-01T00:00:11Z");
        let bound = binding(template_digest(&template(), &lazy));
        let after = |edit: fn(&mut Value)| {
            let mut template = template();
            edit(&mut template);
            decide(&template, &lazy, Some(&bound))
        };
        let waits: [fn(&mut Value); 5] = [
            |_| {},
            |t| t["status"] = json!({"ready": true}),
            |t| t["metadata"]["resourceVersion"] = json!("8"),
            |t| t["metadata"]["labels"]["propagationpolicy.karmada.io/permanent-id"] = json!("x"),
            |t| t["metadata"]["annotations"]["karmada.io/x"] = json!("x"),
        ];
        for edit in waits {
            assert_eq!(after(edit), Activation::WithTheNextChange);
        }
        let acts: [fn(&mut Value); 5] = [
            |t| t["data"]["a"] = json!("c"),
            |t| t["metadata"]["labels"]["app"] = json!("x"),
            |t| t["metadata"]["annotations"] = json!({}),
            |t| t["metadata"]["labels"]["notkarmada.io/x"] = json!("x"),
            |t| t["metadata"]["labels"]["namespace.karmada.io/skip-auto-propagation"] = json!("true"),
        ];
        for edit in acts {
            assert_eq!(after(edit), Activation::Now);
        }
    }

    #[test]
    fn a_template_bears_the_mark_from_when_it_waits_until_its_policy_is_not_lazy() {
        let lazy = policy(&json!("Lazy"), "2026-01-01T00:00:11Z");
        let mut waiting = template();
        assert!(!note_template_digest(&mut waiting, &lazy, Some(&binding(None))), "its binding bears it");
        assert!(note_template_digest(&mut waiting, &lazy, None));
        assert!(!note_template_digest(&mut waiting, &lazy, None), "no write when nothing changed");
        assert_eq!(decide(&waiting, &lazy, None), Activation::WithTheNextChange);
        waiting["data"]["a"] = json!("c");
        assert!(
            !note_template_digest(&mut waiting, &lazy, None),
            "the change is still seen where the binding cannot be written"
        );
        assert_eq!(decide(&waiting, &lazy, None), Activation::Now);
        waiting["data"]["a"] = json!("b");
        assert!(note_template_digest(&mut waiting, &policy(&Value::Null, "2026-01-01T00:00:11Z"), None));
        assert_eq!(waiting, template());
    }
}
